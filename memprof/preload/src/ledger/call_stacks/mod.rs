//! Call stacks of allocations: a random sample of stacks, each with the bytes that it stands for.

#![allow(unsafe_code)]

mod pace;
mod random;
mod seen;
mod table;
mod unwind;

use core::cell::UnsafeCell;
use core::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use crate::base::arch::Errno;
use crate::base::component::Component;
use crate::base::lock::SpinLock;
use crate::base::overflow_counters::{self, Table};
use crate::base::thread::{Guard, Local, local};
use crate::ledger::heap;
use crate::ledger::heap::{PendingCounters, ThreadCounters};

pub use seen::Seen;

/// Number of frames of a stack that are kept.
pub const DEPTH: usize = 16;

/// One sampled call stack. Byte counts are estimates over all allocations, not sums over the
/// samples.
#[derive(Copy, Clone, Debug)]
pub struct Site {
    /// Return addresses, innermost first. Empty in the entry that collects the stacks for which the
    /// table had no room.
    pub frames: [usize; DEPTH],
    pub depth: usize,
    pub component: Component,
    pub samples: u64,
    pub live: u64,
    pub peak: u64,
    /// Live bytes at the peak of the process, as estimated from the samples.
    pub at_peak: u64,
    pub total: u64,
}

/// Value of [`MEAN`] before it is configured; allocations are checked again after [`LOOK_AGAIN`]
/// bytes.
const UNDECIDED: u64 = u64::MAX;
const LOOK_AGAIN: i64 = 64 * 1024;

/// The mean number of bytes between samples; 0 for none.
static MEAN: AtomicU64 = AtomicU64::new(UNDECIDED);

/// Number that makes each rank draw other samples, so that the errors of equal ranks cancel out in
/// their sum.
static RANK: AtomicU64 = AtomicU64::new(0);

struct Shared {
    lock: SpinLock,
    table: UnsafeCell<table::Table>,
}

// SAFETY: the table is only touched under the lock.
unsafe impl Sync for Shared {}

static SHARED: Shared =
    Shared { lock: SpinLock::new(), table: UnsafeCell::new(table::Table::new()) };

impl Shared {
    /// Runs `work` on the table under the lock. The caller holds a guard.
    fn with<R>(&self, work: impl FnOnce(&mut table::Table) -> R) -> R {
        self.lock.lock();
        // SAFETY: the lock is held, and `work` does not call this function again.
        let result = work(unsafe { &mut *self.table.get() });
        self.lock.unlock();
        result
    }
}

/// Sets the mean number of bytes between two samples of a thread that keeps few; 0 turns sampling
/// off. A process that is no rank has a negative `rank`.
pub fn configure(mean: u64, rank: i32) {
    RANK.store(rank.max(0) as u64, Ordering::Relaxed);
    MEAN.store(mean.min(1 << 50), Ordering::Relaxed);
}

/// Sampling state of one thread. Only the thread itself accesses it.
#[repr(C)]
pub struct Samples {
    /// State of the random number generator; 0 before the first number.
    random: AtomicU64,
    /// Bytes from the end of the countdown to the next sample; negative where no sample is drawn.
    beyond: AtomicI64,
    pace: Own<pace::Pace>,
}

struct Own<T>(UnsafeCell<T>);

// SAFETY: only the thread that holds the counters accesses them, and no two threads hold the same
// ones.
unsafe impl<T> Sync for Own<T> {}

const NOT_DRAWN: i64 = -1;

impl Samples {
    pub const fn new() -> Samples {
        Samples {
            random: AtomicU64::new(0),
            beyond: AtomicI64::new(0),
            pace: Own(UnsafeCell::new(pace::Pace::NEW)),
        }
    }

    /// Runs `work` on the pace of this thread.
    fn pace<R>(&self, work: impl FnOnce(&mut pace::Pace) -> R) -> R {
        // SAFETY: as above; `work` does not call this function again.
        work(unsafe { &mut *self.pace.0.get() })
    }

    /// Returns the mean number of bytes between samples of this thread.
    fn mean(&self, mean: u64) -> f64 {
        mean as f64 * f64::from(1 << self.pace(|pace| pace.doubled))
    }

    /// Draws the number of bytes to the next sample.
    fn draw(&self, mean: f64, number: u32) -> i64 {
        let mut random = self.random.load(Ordering::Relaxed);
        if random == 0 {
            let rank = RANK.load(Ordering::Relaxed);
            random = (rank << 32 | u64::from(number)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        }
        let distance = random::distance(random::next(&mut random), mean);
        self.random.store(random, Ordering::Relaxed);
        distance
    }
}

/// Returns the stack of the calling thread from the frame with the return address `caller`
/// outwards: frames and their number. `innermost` is the address at which `caller` is stored.
///
/// The thread holds no lock of the tool, and the guard is set.
pub fn stack(caller: usize, innermost: usize) -> ([usize; DEPTH], usize) {
    match heap::own(local()) {
        Some(counters) => unwind::stack(caller, innermost, &counters.seen),
        None => unwind::stack(caller, innermost, &Seen::new()),
    }
}

fn milliseconds() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: writes the time; the callers restore the error number.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC_COARSE, &raw mut time) };
    time.tv_sec as u64 * 1000 + time.tv_nsec as u64 / 1_000_000
}

/// Handles an allocation that ended the countdown of a thread, which is now `left`, a negative
/// number. Returns true if the stack of the allocation is kept. The last pair is the return address
/// of the caller and the address at which it is stored.
#[cold]
#[inline(never)]
pub fn allocated(
    local: &Local,
    state: &ThreadCounters,
    (block, size): (usize, usize),
    left: i64,
    owner: Component,
    (caller, stack): (usize, usize),
) -> bool {
    let samples = &state.samples;
    // The countdown is limited, so a distance beyond the limit is counted down in several parts.
    let arm = |distance: i64| {
        heap::count_down(state, distance);
        samples.beyond.store((distance - PendingCounters::FAR).max(0), Ordering::Relaxed);
    };
    let mean = MEAN.load(Ordering::Relaxed);
    if mean == UNDECIDED || mean == 0 || local.guard.get() > 0 {
        arm(if mean == 0 { PendingCounters::FAR } else { LOOK_AGAIN });
        samples.beyond.store(NOT_DRAWN, Ordering::Relaxed);
        return false;
    }
    let errno = Errno::save();
    let _guard = Guard::enter();
    let number = state.number();
    let mut apart = samples.mean(mean);
    let beyond = samples.beyond.load(Ordering::Relaxed);
    let mut to_go = beyond.saturating_add(left);
    if beyond == NOT_DRAWN || samples.random.load(Ordering::Relaxed) == 0 {
        to_go = samples.draw(apart, number) - size as i64;
    } else if to_go >= 0 && samples.pace(|pace| pace.passed(milliseconds)) {
        // The exponential distribution has no memory: the remaining distance may be drawn again,
        // with a smaller mean.
        apart = samples.mean(mean);
        to_go = samples.draw(apart, number);
    }
    let hit = to_go < 0;
    if hit {
        samples.pace(|pace| pace.sampled(milliseconds));
        to_go = samples.draw(samples.mean(mean), number);
    }
    arm(to_go);
    let kept = hit && size > 0 && {
        let (frames, depth) = unwind::stack(caller, stack, &state.seen);
        let weight = random::weight(size, apart);
        let kept = SHARED.with(|table| table.insert(block, weight, &frames[..depth], owner));
        if !kept {
            overflow_counters::add(Table::Sites);
        }
        kept
    };
    errno.restore();
    kept
}

/// Removes a sampled block that is being freed.
#[cold]
#[inline(never)]
pub fn freed(block: usize) {
    // A signal handler that interrupted this thread while it held the table leaves the table as it
    // is.
    if local().guard.get() > 0 {
        return;
    }
    let _guard = Guard::enter();
    SHARED.with(|table| table.remove(block));
}

/// Calls `each` with the index, below 512, and the numbers of every stack in the table. `each` must
/// not allocate or free.
pub fn each(each: &mut dyn FnMut(usize, &Site)) {
    let _guard = Guard::enter();
    SHARED.with(|table| table.each(each));
}

/// Returns the index of the stack of the last sampled block that begins between two addresses.
pub fn last_between(start: usize, end: usize) -> Option<u16> {
    let _guard = Guard::enter();
    SHARED.with(|table| table.last_between(start, end))
}

/// Records that the process is at a new peak: the live bytes of each stack become its bytes at the
/// peak.
pub fn at_peak() {
    let _guard = Guard::enter();
    SHARED.with(table::Table::at_peak);
}

/// Locks the table before a fork.
pub fn before_fork() {
    SHARED.lock.lock();
}

/// Unlocks the table after a fork, in parent and child.
pub fn after_fork() {
    SHARED.lock.unlock();
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ledger::heap::exports;

    #[inline(never)]
    fn allocate(count: usize, size: usize) -> Vec<*mut u8> {
        // SAFETY: no precondition.
        (0..count).map(|_| unsafe { exports::malloc(size) }).collect()
    }

    fn live_from_here() -> (u64, usize) {
        let code = allocate as *const () as usize;
        let mut sum = (0, 0);
        each(&mut |_, site| {
            if site.depth > 2
                && site.frames[..3].iter().any(|frame| frame.wrapping_sub(code) < 2000)
            {
                sum = (sum.0 + site.live, sum.1.max(site.depth));
            }
        });
        sum
    }

    #[test]
    fn stacks_tell_where_what_lives_was_allocated() {
        configure(4096, 0);
        std::thread::spawn(|| {
            let blocks = allocate(20_000, 500);
            let large = allocate(1, 30 << 20);
            let (live, depth) = live_from_here();
            let expected = 20_000.0 * 500.0 + f64::from(30 << 20);
            assert!((live as f64 / expected - 1.0).abs() < 0.1, "{live} of {expected}");
            assert!(depth > 3, "more than the caller is seen: {depth}");
            for block in blocks.into_iter().chain(large) {
                // SAFETY: allocated above.
                unsafe { exports::free(block) };
            }
            assert_eq!(live_from_here().0, 0);
        })
        .join()
        .unwrap();
        configure(0, 0);
    }
}
