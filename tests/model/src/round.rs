//! The agreed round of a resize as in the elastic world, and its models.

#[path = "../../../elastic/src/model/round/protocol.rs"]
#[allow(dead_code)] // The library uses more of it than the models do.
mod protocol;

use loom::sync::atomic::AtomicU64;
use loom::sync::{Arc, Condvar, Mutex};
use loom::thread;

use protocol::*;

/// State shared by the ranks and the agent of a node, and the kernel's queue of sleepers.
struct Node {
    signal: Signal<AtomicU64>,
    slots: Vec<Slot<AtomicU64>>,
    queue: Mutex<()>,
    bell: Condvar,
}

impl Node {
    fn new(ranks: usize) -> Arc<Self> {
        let word = || AtomicU64::new(0);
        Arc::new(Self {
            signal: Signal::new(word()),
            slots: (0..ranks).map(|_| Slot::new(word())).collect(),
            queue: Mutex::new(()),
            bell: Condvar::new(),
        })
    }

    fn ring(&self) {
        let _queue = self.queue.lock().unwrap();
        self.bell.notify_all();
    }
}

struct Sleep<'a>(&'a Node);

impl Hold<AtomicU64> for Sleep<'_> {
    fn hold(&mut self, word: &AtomicU64) -> Result<(), Interrupted> {
        // As in a futex: the word is checked again with the queue locked.
        let queue = self.0.queue.lock().unwrap();
        if word.load(std::sync::atomic::Ordering::Acquire) == RAISED {
            drop(self.0.bell.wait(queue).unwrap());
        }
        Ok(())
    }
}

/// Returns the round in which a rank enters, if it does so within `most` rounds.
fn rounds(node: &Node, rank: usize, most: u64) -> Option<u64> {
    (1..=most).find(|&round| {
        probe(&node.signal, &node.slots[rank], round, &mut Sleep(node)) == Ok(Probe::Enter)
    })
}

fn check(preemptions: usize, model: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.check(model);
}

#[test]
fn all_ranks_enter_in_the_agreed_round_or_later() {
    const MOST: u64 = 2;
    check(3, || {
        let node = Node::new(2);
        let ranks: Vec<_> = (0..2)
            .map(|rank| {
                let node = Arc::clone(&node);
                thread::spawn(move || rounds(&node, rank, MOST))
            })
            .collect();
        node.signal.raise();
        let agreed = agree([floor(&node.slots)]);
        node.signal.tell(agreed);
        node.ring();
        for rank in ranks {
            assert_eq!(rank.join().unwrap(), (agreed <= MOST).then_some(agreed));
        }
    });
}

#[test]
fn nodes_agree_on_one_round() {
    const MOST: u64 = 2;
    check(2, || {
        let nodes = [Node::new(1), Node::new(1)];
        let ranks: Vec<_> = nodes
            .iter()
            .map(|node| {
                let node = Arc::clone(node);
                thread::spawn(move || rounds(&node, 0, MOST))
            })
            .collect();
        nodes.iter().for_each(|node| node.signal.raise());
        let agreed = agree(nodes.iter().map(|node| floor(&node.slots)));
        for node in &nodes {
            node.signal.tell(agreed);
            node.ring();
        }
        for rank in ranks {
            assert_eq!(rank.join().unwrap(), (agreed <= MOST).then_some(agreed));
        }
    });
}

#[test]
fn withdrawn_request_leaves_no_rank_behind_at_the_next() {
    const MOST: u64 = 2;
    check(3, || {
        let node = Node::new(1);
        let rank = {
            let node = Arc::clone(&node);
            thread::spawn(move || rounds(&node, 0, MOST))
        };
        node.signal.raise();
        node.signal.lower();
        node.ring();
        node.signal.raise();
        let agreed = agree([floor(&node.slots)]);
        node.signal.tell(agreed);
        node.ring();
        assert_eq!(rank.join().unwrap(), (agreed <= MOST).then_some(agreed));
    });
}
