//! Cost of a barrier between two processes, compared with the machine's minimum: a bare spin
//! barrier if both are awake, a bare futex wake after the same sleep if one is not. Everything is
//! measured in one run, in turns, so that the ratios are meaningful on a shared machine.
#![allow(unsafe_code, clippy::print_stdout, clippy::unwrap_used)]

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use nix::sys::mman::{MapFlags, ProtFlags, mmap_anonymous};
use nix::sys::wait::{WaitStatus, waitpid};
use nix::unistd::{ForkResult, fork};
use quo::node::{Node, NodeOptions, SegmentName, WaitKind};
use rustix::thread::futex;

/// Barriers in one timed batch.
const BATCH: u32 = 1_000;
const BATCHES: usize = 300;
/// Number of barriers that are timed one by one.
const SINGLES: usize = 50_000;
/// Calls longer than this included a sleep.
const ASLEEP: Duration = Duration::from_micros(5);
/// Time that the first process waits before it is woken, and number of repetitions.
const SLEEPS: [(Duration, usize); 4] = [
    (Duration::from_micros(50), 600),
    (Duration::from_micros(500), 600),
    (Duration::from_millis(5), 200),
    (Duration::from_millis(50), 100),
];
/// Duration over which the waiter's CPU time is counted.
const LONG_WAIT: Duration = Duration::from_secs(3);

/// Memory that the two processes share in addition to the node.
#[repr(C, align(128))]
struct Bare {
    arrived: Line,
    generation: Line,
    futex: AtomicU32,
    ready: AtomicU32,
    sent: AtomicU64,
}

#[repr(C, align(128))]
struct Line(AtomicU32);

impl Bare {
    fn new() -> &'static Self {
        let bytes = std::num::NonZeroUsize::new(size_of::<Self>()).unwrap();
        let protection = ProtFlags::PROT_READ | ProtFlags::PROT_WRITE;
        // SAFETY: a fresh zeroed mapping, never unmapped, of atomics only.
        unsafe {
            mmap_anonymous(None, bytes, protection, MapFlags::MAP_SHARED).unwrap().cast().as_ref()
        }
    }

    /// Minimal barrier of two processes.
    fn spin_barrier(&self) {
        let generation = self.generation.0.load(Ordering::Acquire);
        if self.arrived.0.fetch_add(1, Ordering::AcqRel) == 1 {
            self.arrived.0.store(0, Ordering::Relaxed);
            self.generation.0.store(generation + 1, Ordering::Release);
        } else {
            while self.generation.0.load(Ordering::Acquire) == generation {
                std::hint::spin_loop();
            }
        }
    }
}

fn now() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// Binds the calling process to the n-th processor that it may use.
fn bind(index: usize) -> bool {
    let allowed = rustix::thread::sched_getaffinity(None).unwrap();
    let mut processors =
        (0..rustix::thread::CpuSet::MAX_CPU).filter(|&processor| allowed.is_set(processor));
    let Some(processor) = processors.nth(index) else { return false };
    let mut mask = rustix::thread::CpuSet::new();
    mask.set(processor);
    rustix::thread::sched_setaffinity(None, &mask).is_ok()
}

/// Runs `act` in two processes, on separate processors if there are two.
fn in_two_processes(wait: WaitKind, act: impl Fn(&Node, &Bare)) {
    let directory = tempfile::tempdir_in("/dev/shm").unwrap();
    let options =
        NodeOptions { directory: directory.path().to_owned(), wait, ..NodeOptions::new(2) };
    let (name, bare) = (SegmentName::random().unwrap(), Bare::new());
    let segment = Node::create(&name, &options).unwrap();
    let children = [0, 1].map(|member| {
        // SAFETY: this program has one thread.
        match unsafe { fork() }.unwrap() {
            ForkResult::Parent { child } => child,
            ForkResult::Child => {
                bind(member);
                let node = Node::attach(&name, directory.path(), member).unwrap();
                act(&node, bare);
                // SAFETY: ends the child without the parent's cleaning up.
                unsafe { libc::_exit(0) }
            }
        }
    });
    for child in children {
        assert_eq!(waitpid(child, None).unwrap(), WaitStatus::Exited(child, 0));
    }
    drop(segment);
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    if values.is_empty() { f64::NAN } else { values[values.len() / 2] }
}

/// Returns the median time of one call when both processes arrive together, in microseconds.
fn batched(mut act: impl FnMut()) -> f64 {
    let mut times: Vec<f64> = (0..BATCHES)
        .map(|_| {
            let start = Instant::now();
            (0..BATCH).for_each(|_| act());
            start.elapsed().as_secs_f64() * 1e6 / f64::from(BATCH)
        })
        .collect();
    median(&mut times)
}

/// Describes both populations of single calls: calls that slept and calls that did not.
fn populations(mut act: impl FnMut()) -> String {
    let times: Vec<f64> = (0..SINGLES)
        .map(|_| {
            let start = Instant::now();
            act();
            start.elapsed().as_secs_f64() * 1e6
        })
        .collect();
    let limit = ASLEEP.as_secs_f64() * 1e6;
    let (mut slow, mut fast): (Vec<f64>, Vec<f64>) = times.iter().partition(|&&time| time > limit);
    format!(
        "{:.3} us for {:.3} %, {:.1} us for {:.3} %",
        median(&mut fast),
        100.0 * fast.len() as f64 / SINGLES as f64,
        median(&mut slow),
        100.0 * slow.len() as f64 / SINGLES as f64
    )
}

fn both_awake(wait: WaitKind) {
    in_two_processes(wait, |node, bare| {
        let first = node.member() == 0;
        node.barrier().unwrap();
        let floor = batched(|| bare.spin_barrier());
        let ours = batched(|| node.barrier().unwrap());
        let singles = populations(|| node.barrier().unwrap());
        if first {
            println!(
                "{wait:?}: both awake          {ours:.3} us  (bare spin barrier {floor:.3}, ratio {:.2})",
                ours / floor
            );
            println!("{wait:?}: one by one          {singles}");
        }
    });
}

fn busy_for(duration: Duration) {
    let end = Instant::now() + duration;
    while Instant::now() < end {
        std::hint::spin_loop();
    }
}

/// Returns the time from the waker's call to the sleeper's return, in microseconds. Member 0
/// sleeps.
fn wake(
    node: &Node,
    bare: &Bare,
    sleep: Duration,
    wait: impl Fn(),
    wake: impl Fn(),
) -> Option<f64> {
    // Both are awake at the start, however the last round ended.
    node.barrier().unwrap();
    if node.member() == 0 {
        bare.ready.store(1, Ordering::Release);
        wait();
        Some((now() - bare.sent.load(Ordering::Acquire)) as f64 / 1e3)
    } else {
        while bare.ready.swap(0, Ordering::AcqRel) == 0 {
            std::hint::spin_loop();
        }
        busy_for(sleep);
        bare.sent.store(now(), Ordering::Release);
        wake();
        None
    }
}

fn wakes(wait: WaitKind) {
    in_two_processes(wait, |node, bare| {
        for (sleep, rounds) in SLEEPS {
            let (mut ours, mut floor) = (Vec::new(), Vec::new());
            for _ in 0..rounds {
                let barrier = || node.barrier().unwrap();
                ours.extend(wake(node, bare, sleep, barrier, barrier));
                let seen = bare.futex.load(Ordering::Acquire);
                let flags = futex::Flags::empty();
                let futex_wait = || {
                    while bare.futex.load(Ordering::Acquire) == seen {
                        let _ = futex::wait(&bare.futex, flags, seen, None);
                    }
                };
                let futex_wake = || {
                    bare.futex.fetch_add(1, Ordering::AcqRel);
                    futex::wake(&bare.futex, flags, 1).unwrap();
                };
                floor.extend(wake(node, bare, sleep, futex_wait, futex_wake));
            }
            if node.member() == 0 {
                let (ours, floor) = (median(&mut ours), median(&mut floor));
                println!(
                    "{wait:?}: wake after {:>5} ms {ours:.1} us  (bare futex {floor:.1}, ratio {:.2})",
                    sleep.as_secs_f64() * 1e3,
                    ours / floor
                );
            }
        }
    });
}

fn waiters_cpu(wait: WaitKind) {
    in_two_processes(wait, |node, _| {
        node.barrier().unwrap();
        if node.member() == 1 {
            std::thread::sleep(LONG_WAIT);
        }
        let clock = || {
            let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
            Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
        };
        let (start, before) = (Instant::now(), clock());
        node.barrier().unwrap();
        if node.member() == 0 {
            let share = (clock() - before).as_secs_f64() / start.elapsed().as_secs_f64();
            println!("{wait:?}: the waiter's CPU    {:.4} %", 100.0 * share);
        }
    });
}

fn main() {
    if rustix::thread::sched_getaffinity(None).unwrap().count() < 2 {
        println!("only one processor: the processes share it, and nothing below means much");
    }
    for wait in [WaitKind::Futex, WaitKind::Pthread] {
        both_awake(wait);
        wakes(wait);
        waiters_cpu(wait);
    }
}
