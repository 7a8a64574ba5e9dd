//! Time of the process inside and outside of MPI: by kind of function for the thread that began
//! MPI, as one sum for other threads.
//!
//! The hot path is [`left`], which adds to one set of sums of the process. Regions take differences
//! of these sums where they begin and end. All times are in clock ticks and are converted to
//! nanoseconds when they are read, with the average rate since the start.

#![allow(unsafe_code)]

use core::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, AtomicUsize, Ordering};

use memprof_boundary::functions::{self, Kind};
use memprof_boundary::thread::{BEGAN, block};
use memprof_boundary::thunks::{self, Observer};
use memprof_trace::layout::TimeRow;

use crate::base::kernel;
use crate::recording::phases::LIMIT;

pub mod loops;
pub mod openmp;
mod regions;

pub use regions::{Regions, WHOLE};

/// Number of time rows in a trace.
pub const ROWS: u32 = LIMIT as u32 + 1;

/// Number of kinds of functions.
pub const KINDS: usize = Kind::ALL.len();

/// Sums of the process. Only the thread that began MPI writes them, except `others`.
struct Sums {
    /// Odd while the sums change.
    sequence: AtomicU64,
    ticks: [AtomicU64; KINDS],
    calls: [AtomicU64; KINDS],
    lent: AtomicU64,
    lent_calls: AtomicU64,
    others: AtomicU64,
    others_calls: AtomicU64,
}

static SUMS: Sums = Sums {
    sequence: AtomicU64::new(0),
    ticks: [const { AtomicU64::new(0) }; KINDS],
    calls: [const { AtomicU64::new(0) }; KINDS],
    lent: AtomicU64::new(0),
    lent_calls: AtomicU64::new(0),
    others: AtomicU64::new(0),
    others_calls: AtomicU64::new(0),
};

static IS_ON: AtomicBool = AtomicBool::new(false);
/// True if the time-stamp counter has a constant rate, and is used as the clock.
static HAS_COUNTER: AtomicBool = AtomicBool::new(false);
/// Readings of the clock and of the kernel's clock at the start, for the scale.
static STARTED: [AtomicU64; 2] = [const { AtomicU64::new(0) }; 2];
/// Address of the `Local` of the measured thread (the owner).
static OWNER: AtomicUsize = AtomicUsize::new(0);
/// Kind of each function, by its index.
static KIND_OF: [AtomicU8; functions::COUNT] =
    [const { AtomicU8::new(Kind::Other as u8) }; functions::COUNT];
/// Time at which the owner began to lend its processors, 0 while it does not; and the nesting
/// depth.
static LENDS_SINCE: AtomicU64 = AtomicU64::new(0);
static LENDS: AtomicU64 = AtomicU64::new(0);

/// Sums at one moment, or between two, in ticks.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Total time.
    pub elapsed: u64,
    pub mpi: [u64; KINDS],
    pub calls: [u64; KINDS],
    /// Time outside of MPI while quo waits and other threads use the processors.
    pub lent: u64,
    pub lent_calls: u64,
    /// Time inside MPI in other threads.
    pub others: u64,
    pub others_calls: u64,
    /// Time in OpenMP parallel regions, without MPI and lent time in them; and the number of
    /// regions.
    pub openmp: u64,
    pub openmp_regions: u64,
}

impl Totals {
    pub const ZERO: Totals = Totals {
        elapsed: 0,
        mpi: [0; KINDS],
        calls: [0; KINDS],
        lent: 0,
        lent_calls: 0,
        others: 0,
        others_calls: 0,
        openmp: 0,
        openmp_regions: 0,
    };

    /// Adds the differences between two moments.
    pub fn add_between(&mut self, from: &Totals, to: &Totals) {
        let add = |sum: &mut u64, from: u64, to: u64| *sum += to.saturating_sub(from);
        add(&mut self.elapsed, from.elapsed, to.elapsed);
        for kind in 0..KINDS {
            add(&mut self.mpi[kind], from.mpi[kind], to.mpi[kind]);
            add(&mut self.calls[kind], from.calls[kind], to.calls[kind]);
        }
        add(&mut self.lent, from.lent, to.lent);
        add(&mut self.lent_calls, from.lent_calls, to.lent_calls);
        add(&mut self.others, from.others, to.others);
        add(&mut self.others_calls, from.others_calls, to.others_calls);
        add(&mut self.openmp, from.openmp, to.openmp);
        add(&mut self.openmp_regions, from.openmp_regions, to.openmp_regions);
    }

    /// Returns the sums in nanoseconds, as a row of the trace.
    pub fn row(&self, time: u64, scale: f64) -> TimeRow {
        let scaled = |ticks: u64| (ticks as f64 * scale).round() as u64;
        let mut row = TimeRow {
            elapsed_ns: scaled(self.elapsed),
            lent_ns: scaled(self.lent),
            lent_calls: self.lent_calls,
            others_ns: scaled(self.others),
            others_calls: self.others_calls,
            openmp_ns: scaled(self.openmp),
            openmp_regions: self.openmp_regions,
            time,
            ..TimeRow::default()
        };
        for kind in 0..KINDS {
            row.mpi_ns[kind] = scaled(self.mpi[kind]);
            row.calls[kind] = self.calls[kind];
        }
        row
    }
}

/// Starts to measure times. Called by the main thread before anything is patched.
pub fn start() {
    for (index, kind) in KIND_OF.iter().enumerate() {
        kind.store(functions::kind_of(functions::name(index)) as u8, Ordering::Relaxed);
    }
    let has_counter = has_counter();
    HAS_COUNTER.store(has_counter, Ordering::Relaxed);
    let (ticks, time) = both_clocks();
    STARTED[0].store(ticks, Ordering::Relaxed);
    STARTED[1].store(time, Ordering::Relaxed);
    take_over();
    IS_ON.store(true, Ordering::Release);
    thunks::observe(Observer { left, clock: if has_counter { None } else { Some(monotonic) } });
}

/// Returns true if times are measured.
pub fn is_on() -> bool {
    IS_ON.load(Ordering::Acquire)
}

/// Handles the begin of MPI. The thread that first begins MPI is the measured one.
pub fn mpi_begins() {
    static HAS_BEGUN: AtomicBool = AtomicBool::new(false);
    if is_on() && !HAS_BEGUN.swap(true, Ordering::Relaxed) {
        openmp::after_fork();
        take_over();
    }
}

/// Returns true if the calling thread is the measured one.
fn is_owner() -> bool {
    block() as usize == OWNER.load(Ordering::Relaxed)
}

/// Makes the calling thread the measured one.
fn take_over() {
    OWNER.store(block() as usize, Ordering::Release);
}

/// Returns true if the time-stamp counter has a constant rate in all processor states.
#[cfg(target_arch = "x86_64")]
fn has_counter() -> bool {
    use core::arch::x86_64::__cpuid;
    const POWER: u32 = 0x8000_0007;
    // In newer compilers, these functions are safe.
    #[allow(unused_unsafe)]
    // SAFETY: every processor of this architecture has the instruction.
    unsafe {
        __cpuid(0x8000_0000).eax >= POWER && __cpuid(POWER).edx & 1 << 8 != 0
    }
}

/// Returns true if there is a counter with a constant rate in all processor states, which this
/// architecture always has.
#[cfg(not(target_arch = "x86_64"))]
fn has_counter() -> bool {
    cfg!(target_arch = "aarch64")
}

extern "C" fn monotonic() -> u64 {
    kernel::monotonic()
}

/// Returns the time of the clock.
#[inline]
fn now() -> u64 {
    #[cfg(target_arch = "x86_64")]
    if HAS_COUNTER.load(Ordering::Relaxed) {
        // SAFETY: every processor of this architecture has the instruction.
        return unsafe { core::arch::x86_64::_rdtsc() };
    }
    #[cfg(target_arch = "aarch64")]
    {
        let count: u64;
        // SAFETY: every processor of this architecture has the counter, which Linux lets programs
        // read.
        unsafe {
            core::arch::asm!("mrs {}, cntvct_el0", out(reg) count, options(nomem, nostack));
        }
        count
    }
    #[cfg(not(target_arch = "aarch64"))]
    kernel::monotonic()
}

/// Returns the clock and the kernel's clock at one moment. A process may be stopped between two
/// readings, so of several pairs the one with the least time between its readings is returned.
fn both_clocks() -> (u64, u64) {
    let pairs = [(); 5].map(|()| {
        let (before, time, after) = (now(), kernel::monotonic(), now());
        let between = after.saturating_sub(before);
        (between, before + between / 2, time)
    });
    let (_, ticks, time) = pairs.into_iter().min().unwrap_or_default();
    (ticks, time)
}

/// Returns the number of nanoseconds in a tick.
pub fn scale() -> f64 {
    if !HAS_COUNTER.load(Ordering::Relaxed) {
        return 1.0;
    }
    let (ticks, time) = both_clocks();
    let ticks = ticks.saturating_sub(STARTED[0].load(Ordering::Relaxed));
    let time = time.saturating_sub(STARTED[1].load(Ordering::Relaxed));
    if ticks == 0 { 1.0 } else { time as f64 / ticks as f64 }
}

/// Returns the word of a thread's block that holds the time of its entry into MPI.
fn began(block: usize) -> &'static AtomicU64 {
    // SAFETY: within the block of the calling or the owning thread; the blocks of the first thread
    // and of the owner live as long as they are used.
    unsafe { &*((block + BEGAN) as *const AtomicU64) }
}

/// Adds to a word that only one thread writes.
#[inline]
fn add(word: &AtomicU64, more: u64) {
    word.store(word.load(Ordering::Relaxed).wrapping_add(more), Ordering::Relaxed);
}

/// Handles the return of an MPI call.
extern "C" fn left(function: usize) {
    let now = now();
    let block = block() as usize;
    let began = began(block);
    let ticks = now.saturating_sub(began.load(Ordering::Relaxed));
    if block != OWNER.load(Ordering::Relaxed) {
        SUMS.others.fetch_add(ticks, Ordering::Relaxed);
        SUMS.others_calls.fetch_add(1, Ordering::Relaxed);
        return;
    }
    let kind = usize::from(KIND_OF.get(function).map_or(0, |kind| kind.load(Ordering::Relaxed)));
    let kind = kind.min(KINDS - 1);
    // Stores of such a processor become visible in order, so release costs nothing.
    add(&SUMS.sequence, 1);
    core::sync::atomic::fence(Ordering::Release);
    add(&SUMS.ticks[kind], ticks);
    add(&SUMS.calls[kind], 1);
    let entered = began.load(Ordering::Relaxed);
    began.store(0, Ordering::Relaxed);
    SUMS.sequence.store(SUMS.sequence.load(Ordering::Relaxed) + 1, Ordering::Release);
    loops::left(function, entered, now);
}

/// Records that the owner lends its processors from now on.
pub extern "C" fn lend_begin() {
    if !is_on() || block() as usize != OWNER.load(Ordering::Relaxed) {
        return;
    }
    if LENDS.load(Ordering::Relaxed) == 0 {
        LENDS_SINCE.store(now(), Ordering::Relaxed);
    }
    add(&LENDS, 1);
}

/// Records that the owner uses its processors again.
pub extern "C" fn lend_end() {
    if !is_on() || block() as usize != OWNER.load(Ordering::Relaxed) {
        return;
    }
    let depth = LENDS.load(Ordering::Relaxed);
    LENDS.store(depth.saturating_sub(1), Ordering::Relaxed);
    if depth == 1 {
        let since = LENDS_SINCE.load(Ordering::Relaxed);
        add(&SUMS.sequence, 1);
        core::sync::atomic::fence(Ordering::Release);
        add(&SUMS.lent, now().saturating_sub(since));
        add(&SUMS.lent_calls, 1);
        LENDS_SINCE.store(0, Ordering::Relaxed);
        SUMS.sequence.store(SUMS.sequence.load(Ordering::Relaxed) + 1, Ordering::Release);
    }
}

/// Number of attempts of a reader to get consistent sums.
const ATTEMPTS: usize = 1000;

/// Returns the present sums, including the part of a call that has not returned.
pub fn totals() -> Totals {
    let owner = OWNER.load(Ordering::Acquire);
    let mut totals = Totals::ZERO;
    for _ in 0..ATTEMPTS {
        let sequence = SUMS.sequence.load(Ordering::Acquire);
        let now = now();
        totals.elapsed = now;
        for kind in 0..KINDS {
            totals.mpi[kind] = SUMS.ticks[kind].load(Ordering::Relaxed);
            totals.calls[kind] = SUMS.calls[kind].load(Ordering::Relaxed);
        }
        totals.lent = SUMS.lent.load(Ordering::Relaxed);
        totals.lent_calls = SUMS.lent_calls.load(Ordering::Relaxed);
        totals.others = SUMS.others.load(Ordering::Relaxed);
        totals.others_calls = SUMS.others_calls.load(Ordering::Relaxed);
        let since = LENDS_SINCE.load(Ordering::Relaxed);
        let inside = inside(owner);
        if let Some((kind, began)) = inside {
            totals.mpi[kind] += now.saturating_sub(began);
        } else if since != 0 {
            totals.lent += now.saturating_sub(since);
        }
        let apart = totals.mpi.iter().sum::<u64>() + totals.lent;
        (totals.openmp, totals.openmp_regions) = openmp::sums(now, apart);
        core::sync::atomic::fence(Ordering::Acquire);
        let after = SUMS.sequence.load(Ordering::Relaxed);
        if sequence != after || sequence & 1 == 1 {
            core::hint::spin_loop();
            continue;
        }
        break;
    }
    totals
}

/// Returns kind and start of the owner's call that has not returned.
fn inside(owner: usize) -> Option<(usize, u64)> {
    if owner == 0 {
        return None;
    }
    // SAFETY: the first word of the owner's block, aligned and written as a whole.
    let function = unsafe { &*(owner as *const AtomicUsize) }.load(Ordering::Relaxed);
    let began = began(owner).load(Ordering::Relaxed);
    let kind = KIND_OF.get(function.checked_sub(1)?)?.load(Ordering::Relaxed);
    (began != 0).then_some((usize::from(kind), began))
}

/// Resets the state in a child after fork, which has only the calling thread.
pub fn after_fork() {
    if is_on() {
        SUMS.sequence.store(SUMS.sequence.load(Ordering::Relaxed) & !1, Ordering::Relaxed);
        take_over();
    }
}
