//! Phases of contexts that are unaware of each other and want the same hardware.
#![allow(clippy::unwrap_used, missing_docs)]

mod support;

use std::fs::File;
use std::io::{Read, Write};
use std::path::Path;
use std::time::Duration;

use nix::sys::signal::Signal;
use quo::context::Split;
use quo::group::local::LocalSpace;
use quo::phase::{PhaseSpec, Sharing};
use quo::{Context, ErrorKind, ObjectType};
use support::contexts::{TWO_PACKAGES, options, with_contexts};
use support::{End, Ranks, Segments};

fn main() -> std::process::ExitCode {
    support::run(&[
        ("exclusive_phases_of_two_jobs_never_overlap", phases_of_two_jobs_never_overlap),
        ("killed_holder_leaves_its_hardware_to_the_next", killed_holder_leaves_its_hardware),
        ("limit_ends_the_wait_on_every_rank", limit_ends_the_wait_on_every_rank),
        ("phase_that_takes_what_is_left_runs_beside", phase_that_takes_what_is_left),
        ("exclusive_workers_that_share_cpus_are_refused", workers_that_share_cpus_are_refused),
        ("exclusive_phase_on_a_simulated_machine_runs", phase_on_a_simulated_machine_runs),
    ])
}

fn alone() -> PhaseSpec {
    PhaseSpec::over(ObjectType::Machine).sharing(Sharing::Wait)
}

fn join(space: &LocalSpace, rank: usize, directory: &Path) -> Context {
    Context::create_with(space.join(rank).unwrap(), options(directory)).unwrap()
}

fn phases_of_two_jobs_never_overlap() {
    let segments = Segments::new();
    let jobs = [(); 2].map(|()| LocalSpace::new(2, segments.path()).unwrap());
    let folder = tempfile::tempdir().unwrap();
    let inside = folder.path().join("inside");
    Ranks::fork(4, |rank| {
        let context = join(&jobs[rank % 2], rank / 2, segments.path());
        let phase = context.phase(alone()).unwrap();
        for _ in 0..50 {
            let run = phase.run(|_| {
                // Fails while the other job's phase is inside.
                drop(File::create_new(&inside).unwrap());
                std::thread::yield_now();
                std::fs::remove_file(&inside).unwrap();
            });
            run.unwrap();
        }
        context.free().unwrap();
    })
    .succeed();
    drop(jobs);
    segments.assert_empty();
}

/// Runs `body` on `others` ranks of a job while the one rank of another job is inside an exclusive
/// phase over the first part of `scope`, or all CPUs, until it is released or killed.
fn beside_a_holder(
    others: usize,
    kill: bool,
    scope: Option<Split>,
    body: impl Fn(&Context, &dyn Fn()),
) {
    let segments = Segments::new();
    let holder = LocalSpace::new(1, segments.path()).unwrap();
    let job = LocalSpace::new(others, segments.path()).unwrap();
    let (mut ready, tell) = std::io::pipe().unwrap();
    let (leash, let_go) = std::io::pipe().unwrap();
    let ranks = Ranks::fork(1 + others, |rank| {
        if rank == 0 {
            let context = join(&holder, 0, segments.path());
            let scoped = scope.as_ref().map(|split| context.split(split, 0).unwrap());
            let inner: &Context = scoped.as_deref().unwrap_or(&context);
            let phase = inner.phase(alone()).unwrap();
            let work = phase.run(|_| {
                // One byte for each rank that waits for it, and one for the parent if it kills.
                (&tell).write_all(&vec![b'x'; others + usize::from(kill)]).unwrap();
                (&leash).read_exact(&mut [0]).unwrap();
            });
            work.unwrap();
            if let Some(scoped) = scoped {
                scoped.free().unwrap();
            }
            context.free().unwrap();
        } else {
            let context = join(&job, rank - 1, segments.path());
            (&ready).read_exact(&mut [0]).unwrap();
            context.barrier().unwrap();
            body(&context, &|| (&let_go).write_all(b"x").unwrap());
            context.free().unwrap();
        }
    });
    if kill {
        ready.read_exact(&mut [0]).unwrap();
        ranks.signal(0, Signal::SIGKILL);
    }
    for (rank, end) in ranks.wait() {
        let killed = kill && rank == 0;
        assert_eq!(end, if killed { End::Killed(Signal::SIGKILL) } else { End::Exited(0) });
    }
    drop((holder, job));
    segments.assert_empty();
}

fn killed_holder_leaves_its_hardware() {
    beside_a_holder(2, true, None, |context, _| {
        let outcome = context.phase(alone()).unwrap().run(|_| ()).unwrap();
        assert_eq!(outcome.value.is_some(), context.node_rank() == 0);
    });
}

fn limit_ends_the_wait_on_every_rank() {
    beside_a_holder(2, false, None, |context, let_go| {
        for sharing in [Sharing::Wait, Sharing::Left] {
            let spec = alone().sharing(sharing).sharing_limit(Duration::from_millis(5));
            let error = context.phase(spec).unwrap().run(|_| ()).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Timeout, "{error}");
            assert!(error.to_string().contains("were not free within 0.005 s"), "{error}");
        }
        // Overlapping phases run at once, next to the other.
        context.phase(PhaseSpec::over(ObjectType::Machine)).unwrap().run(|_| ()).unwrap();
        if context.node_rank() == 0 {
            let_go();
        }
        context.phase(alone()).unwrap().run(|_| ()).unwrap();
    });
}

fn phase_that_takes_what_is_left() {
    let online = std::fs::read_to_string("/sys/devices/system/cpu/online").unwrap();
    if online.trim() == "0" {
        quo_tests::suite::skip("the machine has one CPU");
    }
    let first = Split::counts(&[1]).over(ObjectType::Pu);
    beside_a_holder(1, false, Some(first), |context, let_go| {
        let held = context.topology().allowed().first().unwrap();
        let spec = PhaseSpec::over(ObjectType::Machine).sharing(Sharing::Left);
        let outcome = context
            .phase(spec)
            .unwrap()
            .run(|worker| {
                assert!(!worker.cpus().contains(held), "{} is held", worker.cpus());
                assert_eq!(context.binding().unwrap(), *worker.cpus());
                assert_eq!(worker.threads(), worker.cpus().len());
            })
            .unwrap();
        assert!(outcome.value.is_some());
        let_go();
    });
}

fn workers_that_share_cpus_are_refused() {
    let segments = Segments::new();
    let cpus = std::fs::read_to_string("/sys/devices/system/cpu/online").unwrap();
    let cpus: quo::CpuSet = cpus.trim().parse().unwrap();
    let size = 2 * cpus.len();
    if size > 16 {
        quo_tests::suite::skip("the machine has more CPUs than this test starts ranks");
    }
    let space = LocalSpace::new(size, segments.path()).unwrap();
    Ranks::fork(size, |rank| {
        let context = join(&space, rank, segments.path());
        let error = context.phase(alone().max_per_object(size)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
        context.barrier().unwrap();
        context.free().unwrap();
    })
    .succeed();
}

fn phase_on_a_simulated_machine_runs() {
    with_contexts(4, &[("QUO_TOPOLOGY", TWO_PACKAGES), ("QUO_BINDING", "core")], |context| {
        let spec = PhaseSpec::over(ObjectType::Package).sharing(Sharing::Wait);
        let phase = context.phase(spec).unwrap();
        for _ in 0..3 {
            phase.run(|worker| assert_eq!(worker.cpus().len(), 8)).unwrap();
        }
    });
}
