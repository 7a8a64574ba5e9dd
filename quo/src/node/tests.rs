#![allow(unsafe_code)]
//! The node with threads as its members. `tests/node_processes` tests the same, and harsher
//! faults, with processes.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use super::*;

/// Longer than any test takes.
const LONG: Duration = Duration::from_secs(60);

struct Scratch {
    directory: tempfile::TempDir,
    name: SegmentName,
    _segment: CreatedSegment,
}

impl Scratch {
    fn new(members: usize, capacity: usize, wait: WaitKind) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let name = SegmentName::random().unwrap();
        let options = NodeOptions {
            capacity,
            wait,
            payload: b"payload",
            exchange_bytes: 64,
            directory: directory.path().to_owned(),
            ..NodeOptions::new(members)
        };
        let segment = Node::create(&name, &options).unwrap();
        Self { directory, name, _segment: segment }
    }

    fn attach(&self, member: usize) -> Result<Node, NodeError> {
        Node::attach(&self.name, self.directory.path(), member)
    }
}

/// All members of a new node, with its directory.
struct Crew {
    nodes: Vec<Node>,
    _scratch: Scratch,
}

impl std::ops::Deref for Crew {
    type Target = [Node];

    fn deref(&self) -> &[Node] {
        &self.nodes
    }
}

fn nodes(members: usize) -> Crew {
    let scratch = Scratch::new(members, members + 1, WaitKind::Futex);
    let nodes = (0..members).map(|member| scratch.attach(member).unwrap()).collect();
    Crew { nodes, _scratch: scratch }
}

/// Runs one thread per node.
fn on_each<T: Send>(nodes: &[Node], act: impl Fn(&Node) -> T + Sync) -> Vec<T> {
    std::thread::scope(|scope| {
        let threads: Vec<_> = nodes.iter().map(|node| scope.spawn(|| act(node))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    })
}

#[test]
fn nobody_passes_a_barrier_early() {
    for wait in [WaitKind::Futex, WaitKind::Pthread] {
        let scratch = Scratch::new(3, 3, wait);
        let nodes: Vec<_> = (0..3).map(|member| scratch.attach(member).unwrap()).collect();
        let arrivals = AtomicUsize::new(0);
        on_each(&nodes, |node| {
            for round in 1..=500 {
                arrivals.fetch_add(1, Ordering::Relaxed);
                node.barrier().unwrap();
                assert!(arrivals.load(Ordering::Relaxed) >= 3 * round);
                node.barrier().unwrap();
                assert_eq!(arrivals.load(Ordering::Relaxed), 3 * round);
                node.barrier().unwrap();
            }
        });
    }
}

#[test]
fn everybody_reads_what_everybody_told() {
    let nodes = nodes(3);
    on_each(&nodes, |node| {
        for round in 0..500_usize {
            let mine = (round * 10 + node.member()).to_le_bytes();
            let told = node.exchange(&mine[..]).unwrap();
            for (member, bytes) in told.iter() {
                assert_eq!(bytes, (round * 10 + member).to_le_bytes());
            }
            assert_eq!(told.iter().count(), 3);
        }
    });
}

#[test]
fn a_contribution_that_does_not_fit_is_everybodys_error() {
    let nodes = nodes(2);
    let errors = on_each(&nodes, |node| {
        let bytes = vec![0; if node.member() == 1 { 65 } else { 1 }];
        let error = node.exchange(&bytes).err().unwrap();
        assert!(node.exchange(b"again").is_ok());
        error
    });
    assert!(errors.iter().all(|error| matches!(error, NodeError::TooLarge { .. })), "{errors:?}");
}

#[test]
fn exchange_results_must_be_dropped_before_the_next_call() {
    let nodes = nodes(1);
    let told = nodes[0].exchange(b"x").unwrap();
    assert!(matches!(nodes[0].barrier(), Err(NodeError::ExchangeInUse)));
    assert!(matches!(nodes[0].leave(), Err(NodeError::ExchangeInUse)));
    drop(told);
    nodes[0].barrier().unwrap();
}

#[test]
fn a_timeout_is_everybodys_also_of_those_who_come_later() {
    let nodes = nodes(3);
    // Members 0 and 1 give up twice before member 2 arrives.
    on_each(&nodes[..2], |node| {
        for _ in 0..2 {
            let timeout = if node.member() == 0 { Duration::from_millis(5) } else { LONG };
            assert!(matches!(node.barrier_timeout(timeout), Err(NodeError::TimedOut)));
        }
    });
    for _ in 0..2 {
        assert!(matches!(nodes[2].barrier(), Err(NodeError::TimedOut)));
    }
    on_each(&nodes, |node| node.barrier_timeout(LONG).unwrap());
}

#[test]
fn a_member_that_attaches_late_has_missed_no_failure() {
    let scratch = Scratch::new(2, 2, WaitKind::Futex);
    let early = scratch.attach(0).unwrap();
    assert!(matches!(early.barrier_timeout(Duration::ZERO), Err(NodeError::TimedOut)));
    let late = scratch.attach(1).unwrap();
    assert!(matches!(late.barrier(), Err(NodeError::TimedOut)));
    on_each(&[early, late], |node| node.barrier_timeout(LONG).unwrap());
}

#[test]
fn leaving_completes_what_waits_only_for_the_leaver() {
    let nodes = nodes(3);
    on_each(&nodes, |node| match node.member() {
        1 => node.leave().unwrap(),
        _ => node.barrier_timeout(LONG).unwrap(),
    });
    assert_eq!((nodes[0].members(), nodes[0].member_list()), (2, vec![0, 2]));
    assert!(matches!(nodes[1].barrier(), Err(NodeError::Left)));
    nodes[1].leave().unwrap();
    assert!(!nodes[0].is_alive(1) && nodes[0].dead_members().is_empty());
}

#[test]
fn a_joiner_takes_part_from_the_current_barrier_on() {
    let scratch = Scratch::new(2, 3, WaitKind::Futex);
    let mut nodes = vec![scratch.attach(0).unwrap(), scratch.attach(1).unwrap()];
    on_each(&nodes, |node| {
        for _ in 0..5 {
            node.barrier_timeout(LONG).unwrap();
        }
    });
    assert!(nodes[0].barrier_timeout(Duration::ZERO).is_err());
    assert!(nodes[1].barrier().is_err());
    nodes.push(scratch.attach(2).unwrap());
    assert_eq!(nodes[0].members(), 3);
    for _ in 0..3 {
        on_each(&nodes, |node| {
            let told = node.exchange(&[node.member() as u8]).unwrap();
            assert_eq!(told.iter().map(|(_, bytes)| bytes[0]).collect::<Vec<_>>(), [0, 1, 2]);
        });
    }
    // Its slot can be taken again, and its old message is no longer delivered.
    nodes.pop();
    on_each(&nodes, |node| assert_eq!(node.exchange(b"x").unwrap().iter().count(), 2));
    nodes.push(scratch.attach(2).unwrap());
    on_each(&nodes, |node| node.barrier_timeout(LONG).unwrap());
}

#[test]
fn a_member_number_is_taken_once() {
    let scratch = Scratch::new(1, 1, WaitKind::Futex);
    let node = scratch.attach(0).unwrap();
    assert!(matches!(scratch.attach(0), Err(NodeError::MemberTaken { member: 0 })));
    assert!(matches!(scratch.attach(1), Err(NodeError::NoSuchMember { member: 1, capacity: 1 })));
    assert!(node.is_alive(0), "the refused attachments have not dropped the lock");
    assert!(matches!(node.expel(0), Err(NodeError::NotDead { member: 0 })));
    assert!(matches!(node.expel(7), Err(NodeError::NoSuchMember { .. })));
}

#[test]
fn segment_tells_its_options_and_its_members() {
    let nodes = nodes(2);
    assert_eq!(nodes[1].payload(), b"payload");
    assert_eq!((nodes[1].member(), nodes[1].members(), nodes[1].capacity()), (1, 2, 3));
    let process = nodes[0].member_process(1).unwrap();
    assert_eq!(process.id, std::process::id());
    assert_ne!(process.namespace, 0);
    assert_eq!(nodes[0].member_process(2), None);
    nodes[1].publish_mask(&CpuSet::single(5)).unwrap();
    assert_eq!(nodes[0].mask_of(1).unwrap(), Some(CpuSet::single(5)));
    assert_eq!(nodes[0].mask_of(0).unwrap(), None);
    assert!(nodes[0].mask_of(3).is_err());
}

#[test]
fn a_pthread_barrier_says_what_it_cannot_do() {
    let scratch = Scratch::new(1, 2, WaitKind::Pthread);
    let node = scratch.attach(0).unwrap();
    let refusals = [
        node.barrier_timeout(LONG).unwrap_err(),
        node.leave().unwrap_err(),
        node.expel(0).unwrap_err(),
        scratch.attach(1).unwrap_err(),
    ];
    for error in refusals {
        assert!(
            matches!(error, NodeError::NotSupported { kind: WaitKind::Pthread, .. }),
            "{error}"
        );
    }
    node.barrier().unwrap();
    assert_eq!(node.exchange(b"x").unwrap().of(0), Some(&b"x"[..]));
}

#[test]
fn named_barriers_are_independent() {
    let nodes = nodes(3);
    on_each(&nodes, |node| {
        let all = node.named_barrier("all", &[0, 1, 2]).unwrap();
        if node.member() < 2 {
            let two = node.named_barrier("two", &[0, 1]).unwrap();
            let same_name = node.named_barrier("all", &[0, 1]).unwrap();
            for round in 0..200_u32 {
                let told = two.exchange(&round.to_le_bytes()).unwrap();
                assert!(told.iter().all(|(_, bytes)| bytes == round.to_le_bytes()));
                same_name.barrier_timeout(LONG).unwrap();
            }
            assert_eq!(two.members(), [0, 1]);
        }
        all.barrier_timeout(LONG).unwrap();
        // The same barrier again, through another handle.
        node.named_barrier("all", &[0, 1, 2]).unwrap().barrier_timeout(LONG).unwrap();
        node.barrier_timeout(LONG).unwrap();
    });
}

#[test]
fn named_barrier_fails_alike_for_late_callers() {
    let nodes = nodes(2);
    let early = nodes[0].named_barrier("x", &[0, 1]).unwrap();
    assert!(matches!(early.barrier_timeout(Duration::ZERO), Err(NodeError::TimedOut)));
    let late = nodes[1].named_barrier("x", &[0, 1]).unwrap();
    assert!(matches!(late.barrier(), Err(NodeError::TimedOut)));
}

#[test]
fn member_that_comes_back_after_an_exchange_was_not_awaited() {
    let crew = nodes(2);
    crew[1].leave().unwrap();
    let exchange = crew[0].exchange(b"alone").unwrap();
    crew[1].rejoin().unwrap();
    assert!(crew[0].is_counted(1) && exchange.of(1).is_none());
    assert!(crew[0].was_awaited(0, &exchange) && !crew[0].was_awaited(1, &exchange));
    drop(exchange);
    std::thread::scope(|scope| {
        scope.spawn(|| crew[1].barrier().unwrap());
        let exchange = crew[0].exchange(b"two").unwrap();
        assert!(exchange.of(1).is_none() && crew[0].was_awaited(1, &exchange));
    });
}

#[test]
fn a_death_is_named_also_while_another_member_expels_it() {
    let mut crew = nodes(2);
    let channel = crew[0].named_barrier("pair", &[0, 1]).unwrap();
    crew.nodes.remove(1).abandon();
    let named = |error| matches!(error, NodeError::DeadMember { members } if members == [1]);
    assert!(named(channel.barrier_timeout(LONG).unwrap_err()));
    // The other member is interrupted after it has taken the dead one off the lists.
    let home = &crew[0].home;
    home.for_each_channel(|channel| channel.discard_arrivals(1, || true)).unwrap();
    let parts = home.segment.channel(0).unwrap();
    assert_eq!(Members::some(&home.segment, &parts).dead_since(0), [1]);
}

#[test]
fn expelled_death_is_named_to_those_it_failed() {
    let mut crew = nodes(2);
    crew.nodes.remove(1).abandon();
    let home = &crew[0].home;
    while !home.segment.note_if_dead(1) {
        std::thread::yield_now();
    }
    crew[0].expel(1).unwrap();
    // Another member saw the dead one before that, and ends the first generation only now.
    let everyone = Members::everyone(&home.segment);
    assert_eq!(everyone.dead_since(0), [1]);
    assert_eq!(everyone.dead_since(1), [0_usize; 0]);
}

#[test]
fn leaving_the_node_leaves_its_named_barriers() {
    let nodes = nodes(3);
    on_each(&nodes, |node| {
        let channel = node.named_barrier("all", &[0, 1, 2]).unwrap();
        channel.barrier_timeout(LONG).unwrap();
        match node.member() {
            2 => node.leave().unwrap(),
            _ => channel.barrier_timeout(LONG).unwrap(),
        }
        assert!(node.member() != 2 || matches!(channel.barrier(), Err(NodeError::Left)));
    });
}

#[test]
fn returning_member_asks_for_its_named_barriers_again() {
    let nodes = nodes(2);
    on_each(&nodes, |node| {
        let channel = node.named_barrier("both", &[0, 1]).unwrap();
        channel.barrier_timeout(LONG).unwrap();
    });
    let old = nodes[1].named_barrier("both", &[0, 1]).unwrap();
    let kept = nodes[0].named_barrier("both", &[0, 1]).unwrap();
    nodes[1].leave().unwrap();
    kept.barrier_timeout(LONG).unwrap();
    // A barrier that is created while the member is away.
    let made = nodes[0].named_barrier("made", &[0, 1]).unwrap();
    made.barrier_timeout(LONG).unwrap();
    assert!(nodes[1].rejoin().unwrap());
    assert!(matches!(old.barrier(), Err(NodeError::Left)));
    assert_eq!(made.members(), [0]);
    let again = ["both", "made"].map(|name| nodes[1].named_barrier(name, &[0, 1]).unwrap());
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for channel in &again {
                assert_eq!(channel.exchange(b"back").unwrap().iter().count(), 2);
            }
        });
        for channel in [&kept, &made] {
            assert_eq!(channel.exchange(b"here").unwrap().iter().count(), 2);
        }
    });
}

#[test]
fn nonsense_members_of_a_named_barrier_are_refused() {
    let nodes = nodes(2);
    for members in [&[][..], &[1], &[1, 0], &[0, 0], &[0, 3]] {
        let error = nodes[0].named_barrier("x", members).unwrap_err();
        assert!(matches!(error, NodeError::InvalidChannel { .. }), "{error}");
    }
    for index in 0..32 {
        nodes[0].named_barrier(&format!("barrier {index}"), &[0]).unwrap();
    }
    assert!(nodes[0].named_barrier("one too many", &[0]).is_err());
    nodes[0].named_barrier("barrier 7", &[0]).unwrap().barrier().unwrap();
}

#[test]
fn shared_memory_is_one_piece_seen_by_all() {
    let nodes = nodes(3);
    let bytes = |member: usize| 5_000 * member + 1;
    let starts = on_each(&nodes, |node| {
        let memory = node.allocate(bytes(node.member())).unwrap();
        let mine = memory.local();
        assert_eq!(mine.len(), bytes(node.member()));
        // SAFETY: each member writes its own part, and reads after the barrier.
        unsafe { mine.as_ptr().write_bytes(node.member() as u8 + 1, mine.len()) };
        node.barrier().unwrap();
        let all = memory.range(0..=2).unwrap();
        assert_eq!(all.len(), memory.all().len());
        // SAFETY: nothing writes after the barrier.
        let seen: Vec<u8> = unsafe { all.as_slice() }.to_vec();
        let expected: Vec<u8> =
            (0..3).flat_map(|member| vec![member as u8 + 1; bytes(member)]).collect();
        assert!(seen == expected);
        assert_eq!(memory.range(1..=2).unwrap().len(), bytes(1) + bytes(2));
        assert!(memory.of(3).is_none() && memory.range(0..=3).is_none());
        node.barrier().unwrap();
        all.as_ptr() as usize
    });
    assert_eq!(starts.iter().collect::<BTreeSet<_>>().len(), 3, "a mapping for each");
}

#[test]
fn memory_among_some_members_outlives_the_node() {
    let scratch = Scratch::new(3, 3, WaitKind::Futex);
    let nodes: Vec<_> = (0..3).map(|member| scratch.attach(member).unwrap()).collect();
    let memories = on_each(&nodes, |node| match node.member() {
        1 => None,
        _ => Some(node.allocate_among(&[0, 2], 8).unwrap()),
    });
    drop(nodes);
    let [a, b] = [&memories[0], &memories[2]].map(|memory| memory.as_ref().unwrap());
    // SAFETY: one thread, one access after the other.
    unsafe {
        a.of(2).unwrap().as_ptr().write(42);
        assert_eq!(b.local().as_slice()[0], 42);
    }
    assert_eq!(a.members().collect::<Vec<_>>(), [0, 2]);
    let left = std::fs::read_dir(scratch.directory.path()).unwrap().count();
    assert_eq!(left, 1, "only the node's own segment, which its maker still holds");
}

#[test]
fn memory_of_nothing_is_memory() {
    let nodes = nodes(1);
    let memory = nodes[0].allocate(0).unwrap();
    assert!(memory.all().is_empty() && memory.local().is_empty());
}

#[test]
fn memory_that_cannot_be_had_is_everybodys_error() {
    let nodes = nodes(2);
    let errors = on_each(&nodes, |node| {
        let bytes = if node.member() == 0 { 1 } else { usize::MAX / 2 };
        node.allocate(bytes).unwrap_err()
    });
    let message = |error: &NodeError| error.to_string();
    assert!(matches!(errors[0], NodeError::Allocation { .. }), "{}", errors[0]);
    assert_eq!(message(&errors[0]), message(&errors[1]));
    on_each(&nodes, |node| node.barrier_timeout(LONG).unwrap());
}
