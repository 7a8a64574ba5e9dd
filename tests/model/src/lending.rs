//! Lending as in the library, and its models.

#[path = "../../../quo/src/node/protocol/lending.rs"]
#[allow(dead_code)] // The library uses more of it than the models do.
mod protocol;

use loom::sync::Arc;
use loom::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use loom::thread;

use protocol::{State, Taken};

/// One owner, and the borrower that works on its CPUs.
struct Owner {
    state: State<AtomicU64>,
    at_work: AtomicBool,
    dead: AtomicBool,
}

impl Owner {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            state: State::new(AtomicU64::new(0), AtomicU64::new(0)),
            at_work: AtomicBool::new(false),
            dead: AtomicBool::new(false),
        })
    }

    /// Takes CPUs. Borrower 0 is the one that may die.
    fn take(&self, member: usize) -> Option<Taken> {
        self.state.take(member, |other| other == 0 && self.dead.load(Ordering::Acquire))
    }

    /// Works on the borrowed CPUs, and checks that no other borrower does.
    fn work(&self, taken: Taken) {
        assert!(!self.at_work.swap(true, Ordering::AcqRel), "two borrowers at work");
        let _ = self.state.is_wanted(taken);
        self.at_work.store(false, Ordering::Release);
        self.state.give_back(taken);
    }
}

fn check(preemptions: usize, model: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.check(model);
}

#[test]
fn two_borrowers_never_work_at_the_same_time() {
    check(3, || {
        let owner = Owner::new();
        let borrowers: Vec<_> = (1..3)
            .map(|member| {
                let owner = Arc::clone(&owner);
                thread::spawn(move || {
                    for _ in 0..2 {
                        if let Some(taken) = owner.take(member) {
                            owner.work(taken);
                        }
                    }
                })
            })
            .collect();
        owner.state.lend();
        owner.state.reclaim();
        owner.state.lend();
        for borrower in borrowers {
            borrower.join().unwrap();
        }
        let taken = owner.take(5).expect("all have given back");
        owner.work(taken);
    });
}

#[test]
fn return_of_the_owner_is_seen_by_its_borrower() {
    check(3, || {
        let owner = Owner::new();
        let borrower = {
            let owner = Arc::clone(&owner);
            thread::spawn(move || owner.take(1))
        };
        owner.state.lend();
        owner.state.reclaim();
        if let Some(taken) = borrower.join().unwrap() {
            assert!(owner.state.is_wanted(taken));
            owner.state.lend();
            assert!(owner.state.is_wanted(taken), "another offer is not that one");
            owner.state.give_back(taken);
        }
        owner.state.lend();
        assert!(owner.take(2).is_some());
    });
}

#[test]
fn loan_of_a_dead_borrower_goes_to_one_other() {
    check(3, || {
        let owner = Owner::new();
        owner.state.lend();
        let _never_given_back = owner.take(0).unwrap();
        let others: Vec<_> = (1..3)
            .map(|member| {
                let owner = Arc::clone(&owner);
                thread::spawn(move || {
                    if let Some(taken) = owner.take(member) {
                        owner.work(taken);
                        return true;
                    }
                    false
                })
            })
            .collect();
        owner.dead.store(true, Ordering::Release);
        let mut got: Vec<bool> = others.into_iter().map(|other| other.join().unwrap()).collect();
        if !got.contains(&true) {
            got.push(owner.take(5).is_some());
        }
        assert!(got.contains(&true));
    });
}

#[test]
fn reused_number_has_no_loan_of_its_predecessor() {
    check(3, || {
        let owner = Owner::new();
        owner.state.lend();
        let _never_given_back = owner.take(0).unwrap();
        owner.dead.store(true, Ordering::Release);
        let other = {
            let owner = Arc::clone(&owner);
            thread::spawn(move || owner.take(1).map(|taken| owner.work(taken)))
        };
        // A new process takes the place of member 0.
        owner.state.end_loan_of(0);
        owner.dead.store(false, Ordering::Release);
        if let Some(taken) = owner.take(0) {
            owner.work(taken);
        }
        other.join().unwrap();
        assert!(owner.take(0).is_some());
    });
}
