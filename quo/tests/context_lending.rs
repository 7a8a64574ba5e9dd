//! CPUs that ranks lend while they wait, and their use after a rank is killed.
#![allow(clippy::unwrap_used, missing_docs)]

mod support;

use std::io::{Read, Write};

use nix::sys::signal::Signal;
use quo::affinity::Target;
use quo::context::CreateOptions;
use quo::group::local::LocalSpace;
use quo::phase::PhaseSpec;
use quo::{Context, CpuSet, Error, ErrorKind, ObjectType};
use support::contexts::{TWO_PACKAGES, options, set, with_contexts};
use support::{End, Ranks, Segments};

const CORES: [(&str, &str); 2] = [("QUO_TOPOLOGY", TWO_PACKAGES), ("QUO_BINDING", "core")];

fn main() -> std::process::ExitCode {
    support::run(&[
        ("cores_of_lenders_are_borrowed_and_given_back", cores_are_borrowed_and_given_back),
        ("borrower_sees_the_return_and_the_owner_goes_on", borrower_sees_the_return),
        ("early_return_of_an_owner_lends_to_nobody_twice", early_return_lends_to_nobody_twice),
        ("core_of_a_rank_at_work_is_not_borrowed", core_of_a_rank_at_work_is_not_borrowed),
        ("ranks_in_a_barrier_lend_where_asked_for", ranks_in_a_barrier_lend),
        ("sleepers_of_a_phase_lend_to_no_second_worker", sleepers_of_a_phase_lend),
        ("killed_borrower_has_given_back", killed_borrower_has_given_back),
        ("killed_lender_leaves_its_core_to_borrowers", killed_lender_leaves_its_core),
        ("loan_outlives_no_context_and_no_change", loan_outlives_no_context_and_no_change),
        ("detached_rank_neither_lends_nor_borrows", detached_rank_neither_lends_nor_borrows),
    ])
}

fn cpus(list: &str) -> CpuSet {
    list.parse().unwrap()
}

fn cores_are_borrowed_and_given_back() {
    with_contexts(4, &CORES, |context| {
        let own = context.binding().unwrap();
        assert!(context.borrow().unwrap().cpus().is_empty(), "nobody lends");
        context.barrier().unwrap();
        let lends = context.node_rank() >= 2;
        if lends {
            assert!(context.start_lending().unwrap() && !context.start_lending().unwrap());
        }
        context.barrier().unwrap();
        if context.node_rank() == 0 {
            let borrowed = context.borrow().unwrap();
            // Ranks 2 and 3 are on the cores of CPUs 4 to 7.
            assert_eq!(*borrowed.cpus(), cpus("4-7"));
            assert_eq!((borrowed.threads(), borrowed.is_wanted()), (6, false));
            assert_eq!(context.binding().unwrap(), cpus("0-1,4-7"));
            let again = context.borrow();
            assert!(again.is_err_and(|error| error.kind() == ErrorKind::Busy));
            context.push(&Target::Object(ObjectType::Core, 0)).unwrap();
            assert!(context.give_back().is_err_and(|error| error.kind() == ErrorKind::Busy));
            context.pop().unwrap();
            borrowed.give_back().unwrap();
            assert!(!context.give_back().unwrap());
        }
        context.barrier().unwrap();
        // CPUs that were given back are borrowed by the next rank.
        if context.node_rank() == 1 {
            let borrowed = context.borrow().unwrap();
            assert_eq!(*borrowed.cpus(), cpus("4-7"));
        }
        assert_eq!(context.binding().unwrap(), own);
        context.barrier().unwrap();
        assert_eq!(context.stop_lending().unwrap(), lends);
        assert!(!context.stop_lending().unwrap());
    });
}

fn borrower_sees_the_return() {
    with_contexts(2, &CORES, |context| {
        if context.node_rank() == 0 {
            // In order: lent, borrowed, taken back, seen.
            context
                .lend_while(|| {
                    context.barrier().unwrap();
                    context.barrier().unwrap();
                })
                .unwrap();
            context.barrier().unwrap();
            context.barrier().unwrap();
        } else {
            context.barrier().unwrap();
            let borrowed = context.borrow().unwrap();
            assert_eq!(*borrowed.cpus(), cpus("0-1"));
            assert!(!borrowed.is_wanted() && !context.is_wanted_back());
            context.barrier().unwrap();
            context.barrier().unwrap();
            assert!(borrowed.is_wanted() && context.is_wanted_back());
            drop(borrowed);
            assert!(!context.is_wanted_back());
            assert_eq!(context.binding().unwrap(), cpus("2-3"));
            context.barrier().unwrap();
        }
    });
}

fn early_return_lends_to_nobody_twice() {
    with_contexts(3, &CORES, |context| {
        let rank = context.node_rank();
        if rank == 0 {
            context.start_lending().unwrap();
        }
        context.barrier().unwrap();
        let first = (rank == 1).then(|| context.borrow().unwrap());
        context.barrier().unwrap();
        if rank == 0 {
            context.stop_lending().unwrap();
            context.start_lending().unwrap();
        }
        context.barrier().unwrap();
        if rank == 2 {
            assert!(context.borrow().unwrap().cpus().is_empty(), "rank 1 may be at work there");
        }
        if let Some(first) = &first {
            assert!(first.is_wanted());
        }
        context.barrier().unwrap();
        drop(first);
        context.barrier().unwrap();
        if rank == 2 {
            assert_eq!(*context.borrow().unwrap().cpus(), cpus("0-1"));
        }
    });
}

fn core_of_a_rank_at_work_is_not_borrowed() {
    let two_on_a_core = [("QUO_TOPOLOGY", "core:2 pu:2"), ("QUO_BINDING", "0-1;2-3;0-1")];
    with_contexts(3, &two_on_a_core, |context| {
        if context.node_rank() == 2 {
            context.start_lending().unwrap();
        }
        context.barrier().unwrap();
        if context.node_rank() == 1 {
            assert!(context.borrow().unwrap().cpus().is_empty(), "rank 0 works on that core");
        }
        context.barrier().unwrap();
        if context.node_rank() == 0 {
            context.start_lending().unwrap();
        }
        context.barrier().unwrap();
        if context.node_rank() == 1 {
            assert_eq!(*context.borrow().unwrap().cpus(), cpus("0-1"));
        }
        context.barrier().unwrap();
    });
    // While a rank may run anywhere, nothing is free.
    with_contexts(2, &[("QUO_TOPOLOGY", "core:2 pu:2")], |context| {
        if context.node_rank() == 0 {
            context.push(&Target::Object(ObjectType::Core, 0)).unwrap();
        }
        context.barrier().unwrap();
        context.start_lending().unwrap();
        context.barrier().unwrap();
        assert!(context.borrow().unwrap().cpus().is_empty() == (context.node_rank() == 1));
        context.barrier().unwrap();
    });
}

/// Ranks with contexts that lend while they wait.
fn with_lending_contexts(size: usize, body: impl Fn(&Context)) {
    let segments = Segments::new();
    let space = LocalSpace::new(size, segments.path()).unwrap();
    Ranks::fork(size, |rank| {
        CORES.iter().for_each(|(name, value)| set(name, value));
        let options: CreateOptions = options(segments.path()).with_lending(true);
        let context = Context::create_with(space.join(rank).unwrap(), options).unwrap();
        body(&context);
        context.free().unwrap();
    })
    .succeed();
    drop(space);
    segments.assert_empty();
}

/// Borrows until another rank lends.
fn borrow_something(context: &Context) -> CpuSet {
    loop {
        let borrowed = context.borrow().unwrap();
        if !borrowed.cpus().is_empty() {
            return borrowed.cpus().clone();
        }
        std::thread::yield_now();
    }
}

fn ranks_in_a_barrier_lend() {
    with_lending_contexts(2, |context| {
        for _ in 0..20 {
            if context.node_rank() == 0 {
                assert_eq!(borrow_something(context), cpus("2-3"));
            }
            context.barrier().unwrap();
            // While awake, no rank lends.
            if context.node_rank() == 1 {
                assert!(!context.stop_lending().unwrap());
            }
            context.named_barrier("both awake", &[0, 1]).unwrap().wait().unwrap();
        }
    });
}

fn sleepers_of_a_phase_lend() {
    with_lending_contexts(4, |context| {
        let phase = context.phase(PhaseSpec::over(ObjectType::Machine)).unwrap();
        phase
            .run(|worker| {
                // The worker has all CPUs for the phase: what sleepers lend belongs to it already.
                assert_eq!(worker.cpus().len(), 16);
                assert!(context.borrow().unwrap().cpus().is_empty());
            })
            .unwrap();
        context.barrier().unwrap();
    });
}

/// Two ranks, and one that is killed once it has announced itself.
fn with_victim(victim: usize, act: impl Fn(&Context), after: impl Fn(&Context)) {
    let segments = Segments::new();
    let space = LocalSpace::new(3, segments.path()).unwrap();
    let (mut ready, tell) = std::io::pipe().unwrap();
    let (gone, mut let_go) = std::io::pipe().unwrap();
    let ranks = Ranks::fork(3, |rank| {
        CORES.iter().for_each(|(name, value)| set(name, value));
        let context =
            Context::create_with(space.join(rank).unwrap(), options(segments.path())).unwrap();
        if rank != 1 {
            context.start_lending().unwrap();
        }
        context.barrier().unwrap();
        if rank == victim {
            act(&context);
            (&tell).write_all(b"x").unwrap();
            loop {
                std::thread::park();
            }
        }
        (&gone).read_exact(&mut [0]).unwrap();
        after(&context);
        assert!(matches!(context.barrier(), Err(Error::DeadMember { .. })));
        context.expel(victim).unwrap();
        context.barrier().unwrap();
        context.free().unwrap();
    });
    ready.read_exact(&mut [0]).unwrap();
    ranks.signal(victim, Signal::SIGKILL);
    // The kernel has dropped its locks when its end is visible.
    let process = ranks.process(victim);
    nix::sys::wait::waitid(
        nix::sys::wait::Id::Pid(process),
        nix::sys::wait::WaitPidFlag::WEXITED | nix::sys::wait::WaitPidFlag::WNOWAIT,
    )
    .unwrap();
    let_go.write_all(b"xx").unwrap();
    let ends = ranks.wait();
    for (rank, end) in ends {
        let expected = if rank == victim { End::Killed(Signal::SIGKILL) } else { End::Exited(0) };
        assert_eq!(end, expected, "rank {rank}");
    }
    drop(space);
    segments.assert_empty();
}

fn killed_borrower_has_given_back() {
    with_victim(
        1,
        |context| {
            let borrowed = context.borrow().unwrap();
            assert_eq!(*borrowed.cpus(), cpus("0-1,4-5"));
            borrowed.keep();
        },
        |context| {
            if context.node_rank() == 0 {
                assert_eq!(*context.borrow().unwrap().cpus(), cpus("4-5"));
            }
        },
    );
}

fn killed_lender_leaves_its_core() {
    with_victim(
        0,
        |_| (),
        |context| {
            if context.node_rank() == 1 {
                let borrowed = context.borrow().unwrap();
                assert_eq!(*borrowed.cpus(), cpus("0-1,4-5"));
                assert!(!borrowed.is_wanted());
            }
        },
    );
}

fn loan_outlives_no_context_and_no_change() {
    let segments = Segments::new();
    let spaces = [(); 2].map(|()| LocalSpace::new(2, segments.path()).unwrap());
    Ranks::fork(2, |rank| {
        CORES.iter().for_each(|(name, value)| set(name, value));
        let make = |space: &LocalSpace| {
            Context::create_with(space.join(rank).unwrap(), options(segments.path())).unwrap()
        };
        let context = make(&spaces[0]);
        if rank == 0 {
            context.start_lending().unwrap();
        }
        context.barrier().unwrap();
        if rank == 1 {
            context.borrow().unwrap().keep();
        }
        context.barrier().unwrap();
        let unwinding = quo::context::AdaptOptions::new().with_unwinding(true);
        context.adapt_with(spaces[1].join(rank).unwrap(), &unwinding).unwrap();
        assert_eq!(context.binding().unwrap().len(), 2);
        assert!(!context.give_back().unwrap());
        context.barrier().unwrap();
        if rank == 0 {
            context.start_lending().unwrap();
        }
        context.barrier().unwrap();
        if rank == 1 {
            context.borrow().unwrap().keep();
            assert_eq!(context.binding().unwrap(), cpus("0-3"));
        }
        context.barrier().unwrap();
        context.free().unwrap();
    })
    .succeed();
    drop(spaces);
    segments.assert_empty();
}

fn detached_rank_neither_lends_nor_borrows() {
    with_contexts(2, &CORES, |context| {
        if context.node_rank() == 0 {
            context.start_lending().unwrap();
            context.detach().unwrap();
            assert!(context.start_lending().is_err());
            assert!(context.lend_while(|| ()).is_err());
            context.attach().unwrap();
            // Leaving took the CPUs back.
            context.stop_lending().unwrap();
        }
        context.barrier().unwrap();
        assert!(context.borrow().unwrap().cpus().is_empty());
        context.barrier().unwrap();
    });
}
