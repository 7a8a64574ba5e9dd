//! Threads of one process that use contexts at the same time: pushes, phases, scopes, loans and
//! releases disturb no other thread.
#![allow(clippy::unwrap_used, missing_docs)]

mod support;

use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use quo::affinity::{Backend, CALLER, Kernel, Target, kernel};
use quo::context::Split;
use quo::group::local::LocalSpace;
use quo::phase::PhaseSpec;
use quo::{Context, CpuSet, ObjectType};
use quo_tests::suite::is_long;
use support::contexts::options;
use support::{Ranks, Segments};

fn main() -> std::process::ExitCode {
    support::run(&[
        ("contexts_of_their_own_keep_threads_apart", contexts_keep_threads_apart),
        ("contexts_shared_by_threads_restore_every_mask", shared_contexts_restore_masks),
        ("phases_scopes_loans_and_frees_mix", phases_scopes_loans_and_frees_mix),
    ])
}

/// Rounds of all parts of a test in the full suite, of one to three pushes and as many pops each.
const ROUNDS: usize = 250_000;
/// Duration of a part of a test in the gate.
const SHORT: Duration = Duration::from_millis(150);

fn mask() -> CpuSet {
    kernel::mask_of(CALLER).unwrap()
}

/// Returns the CPUs of this process, of which the tests need two.
fn cpus() -> Vec<usize> {
    let all: Vec<usize> = mask().iter().collect();
    if all.len() < 2 {
        quo_tests::suite::skip("needs two CPUs");
    }
    all
}

/// A sequence of numbers, different for each seed.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, end: usize) -> usize {
        // Knuth's constants for a linear congruential generator.
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).unwrap() % end
    }
}

/// The end of a part of a test: by rounds, or by time.
struct End {
    rounds: usize,
    made: AtomicUsize,
    begin: Instant,
}

impl End {
    fn of(parts: usize) -> Self {
        Self { rounds: ROUNDS / parts, made: AtomicUsize::new(0), begin: Instant::now() }
    }

    fn goes_on(&self) -> bool {
        let made = self.made.fetch_add(1, Ordering::Relaxed);
        if is_long() { made < self.rounds } else { self.begin.elapsed() < SHORT }
    }
}

/// Ends the observed thread, also if another one has failed.
struct Done<'a>(&'a AtomicBool);

impl Drop for Done<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Runs `body` on threads that are each bound to one of two CPUs, next to a bystander thread that
/// only waits, and requires all of them to have their previous masks afterwards.
fn on_threads(count: usize, body: impl Fn(usize) + Sync) {
    let cpus = cpus();
    let kernel = Kernel::new().unwrap();
    let (started, done) = (Barrier::new(count), AtomicBool::new(false));
    let bystander = CpuSet::single(cpus[1]);
    kernel.set_mask(CALLER, &CpuSet::single(cpus[0])).unwrap();
    thread::scope(|scope| {
        let end = Done(&done);
        let watched = scope.spawn(|| {
            Kernel::new().unwrap().set_mask(CALLER, &bystander).unwrap();
            while !done.load(Ordering::Relaxed) {
                thread::park_timeout(Duration::from_millis(20));
            }
            mask()
        });
        let workers: Vec<_> = (0..count)
            .map(|number| {
                let (body, started, own) = (&body, &started, CpuSet::single(cpus[number % 2]));
                scope.spawn(move || {
                    Kernel::new().unwrap().set_mask(CALLER, &own).unwrap();
                    started.wait();
                    body(number);
                    // Others may still have pushed, and this thread may follow them.
                    started.wait();
                    assert_eq!(mask(), own, "thread {number}");
                })
            })
            .collect();
        workers.into_iter().for_each(|worker| worker.join().unwrap());
        drop(end);
        watched.thread().unpark();
        assert_eq!(watched.join().unwrap(), bystander);
    });
    assert_eq!(mask(), CpuSet::single(cpus[0]));
}

fn contexts(count: usize, segments: &Segments) -> Vec<Context> {
    let make = |_| {
        let space = LocalSpace::new(1, segments.path()).unwrap();
        Context::create_with(space.join(0).unwrap(), options(segments.path())).unwrap()
    };
    (0..count).map(make).collect()
}

/// One of three targets.
fn target(cpus: &[usize], number: usize) -> Target {
    match number {
        0 => Target::Object(ObjectType::Machine, 0),
        number => Target::Cpus(CpuSet::single(cpus[number - 1])),
    }
}

/// Pushes to a random depth, and back. Each push of a thread with a separate context leaves the
/// thread on the pushed CPUs until the pop.
fn push_and_pop(context: &Context, cpus: &[usize], numbers: &mut Numbers, alone: bool) {
    let depth = 1 + numbers.below(3);
    let mut before = Vec::new();
    for _ in 0..depth {
        before.push(mask());
        let pushed = context.push(&target(cpus, numbers.below(3))).unwrap();
        assert!(!alone || mask() == pushed);
    }
    for before in before.into_iter().rev() {
        context.pop().unwrap();
        assert!(!alone || mask() == before);
    }
}

fn contexts_keep_threads_apart() {
    let all = cpus();
    for count in 2..=8 {
        Ranks::fork(1, |_| {
            let segments = Segments::new();
            let (contexts, end) = (contexts(count, &segments), End::of(7));
            // A thread that has pushed once belongs to that context.
            let entered = Barrier::new(count);
            on_threads(count, |number| {
                let mut numbers = Numbers(number as u64);
                push_and_pop(&contexts[number], &all, &mut numbers, false);
                entered.wait();
                while end.goes_on() {
                    push_and_pop(&contexts[number], &all, &mut numbers, true);
                }
            });
            contexts.into_iter().for_each(|context| context.free().unwrap());
        })
        .succeed();
    }
}

fn shared_contexts_restore_masks() {
    let all = cpus();
    for (threads, count) in [(2, 1), (4, 2), (8, 3), (3, 8)] {
        Ranks::fork(1, |_| {
            let segments = Segments::new();
            let (contexts, end) = (contexts(count, &segments), End::of(4));
            on_threads(threads, |number| {
                let mut numbers = Numbers(number as u64);
                while end.goes_on() {
                    let context = &contexts[numbers.below(count)];
                    push_and_pop(context, &all, &mut numbers, false);
                }
            });
            assert!(contexts.iter().all(|context| context.push_depth() == 0));
            contexts.into_iter().for_each(|context| context.free().unwrap());
        })
        .succeed();
    }
}

fn phases_scopes_loans_and_frees_mix() {
    let all = cpus();
    Ranks::fork(1, |_| {
        let segments = Segments::new();
        let end = End::of(100);
        on_threads(4, |number| {
            let mut numbers = Numbers(number as u64);
            while end.goes_on() {
                let context = contexts(1, &segments).remove(0);
                let solve = context.phase(PhaseSpec::over(ObjectType::Machine)).unwrap();
                for _ in 0..8 {
                    match numbers.below(4) {
                        0 => {
                            let outcome = solve.run(|worker| worker.threads()).unwrap();
                            assert!(outcome.value.is_some_and(|threads| threads > 0));
                        }
                        1 => {
                            let split = Split::weights(&[1]);
                            let scope = context.split(&split, 0).unwrap();
                            push_and_pop(&scope, &all, &mut numbers, false);
                            scope.free().unwrap();
                        }
                        2 => {
                            let lend = || push_and_pop(&context, &all, &mut numbers, false);
                            context.lend_while(lend).unwrap();
                        }
                        _ => drop(context.borrow().unwrap()),
                    }
                }
                drop(solve);
                context.free().unwrap();
            }
        });
    })
    .succeed();
}
