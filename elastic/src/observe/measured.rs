//! Measurements of the memory profiler, where it takes times in the process: the time in MPI by the time of computing, and
//! the loops of the program, of which resizes are no part.
#![allow(unsafe_code)]

use std::ffi::c_int;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use memprof_hooks::{Lookup, Table};

/// Times of the process, as `memprof.h` has them, in nanoseconds.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
struct Times {
    elapsed: u64,
    useful: u64,
    mpi: u64,
    lent: u64,
    kinds: [u64; 6],
    calls: u64,
}

/// Table of functions that `memprof.h` describes, as far as it is used.
#[repr(C)]
struct Hooks {
    version: u32,
    size: u32,
    others: [usize; 6],
    time: Option<unsafe extern "C" fn(*mut Times) -> c_int>,
    lend: [usize; 2],
    loops: Option<unsafe extern "C" fn(u32)>,
    loop_copies: Option<&'static AtomicU64>,
    outermost_loops: Option<unsafe extern "C" fn(*mut LoopFigures, u32) -> c_int>,
}

/// A loop of a process, as `memprof.h` has it: loops with one number are one. Times are in nanoseconds.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct LoopFigures {
    pub id: u64,
    pub iterations: u64,
    pub elapsed: u64,
    pub mpi: u64,
    pub recent_elapsed: u64,
    pub recent_mpi: u64,
}

/// Number of loops of a process that others are told of, those with most time.
pub(crate) const LOOPS: usize = 4;

// SAFETY: the beginning of the table.
unsafe impl Table for Hooks {}

static PROFILER: Lookup<Hooks> = Lookup::new();

/// Returns the times up to now; none where they are not taken.
fn times() -> Option<Times> {
    let time = PROFILER.find()?.time?;
    let mut times = Times::default();
    // SAFETY: it fills a struct of this layout.
    let status = unsafe { time(&raw mut times) };
    (status == 0).then_some(times)
}

/// Forgets all loops, and has calls of MPI be no part of any until [`resume_loops`].
pub(crate) fn forget_loops() {
    tell_loops(3);
}

/// Has calls of MPI be no part of loops until [`resume_loops`].
pub(crate) fn pause_loops() {
    tell_loops(1);
}

/// The same, and times of loops begin anew.
pub(crate) fn reset_loops() {
    tell_loops(2);
}

/// Has calls of MPI be parts of loops again.
#[cold]
pub(crate) fn resume_loops() {
    tell_loops(0);
}

fn tell_loops(action: u32) {
    if let Some(loops) = PROFILER.find().and_then(|table| table.loops) {
        // SAFETY: any number is understood, by any thread.
        unsafe { loops(action) }
    }
}

/// Returns true if the profiler looks for loops.
pub(crate) fn looks_for_loops() -> bool {
    outermost(&mut []).is_some()
}

/// Fills in the loops of the process that are in no other; their number, or none where they are not looked for or cannot
/// be told now.
fn outermost(into: &mut [LoopFigures]) -> Option<usize> {
    let tell = PROFILER.find()?.outermost_loops?;
    // SAFETY: it fills as many structs of this layout as there is room for.
    let count = unsafe { tell(into.as_mut_ptr(), u32::try_from(into.len()).unwrap_or(0)) };
    usize::try_from(count).ok()
}

/// Loops of the process, and whether there are newer figures of them.
#[derive(Debug, Default)]
pub(crate) struct LoopMeter {
    copies: Option<&'static AtomicU64>,
    seen: u64,
}

impl LoopMeter {
    /// Begins to look for newer figures, where the profiler looks for loops.
    #[cold]
    pub(crate) fn begin() -> Self {
        let copies = PROFILER.find().filter(|_| looks_for_loops()).and_then(|it| it.loop_copies);
        Self { copies, seen: copies.map_or(0, |copies| copies.load(Ordering::Relaxed)) }
    }

    /// Returns true if there are newer figures.
    #[inline]
    pub(crate) fn has_news(&self) -> bool {
        self.copies.is_some_and(|copies| copies.load(Ordering::Relaxed) != self.seen)
    }

    /// Returns the newest figures, unless they cannot be told now.
    #[cold]
    pub(crate) fn take(&mut self) -> Option<Vec<LoopFigures>> {
        let copies = self.copies?.load(Ordering::Relaxed);
        let mut loops = [LoopFigures::default(); LOOPS];
        let count = outermost(&mut loops)?;
        self.seen = copies;
        Some(loops[..count.min(LOOPS)].to_vec())
    }
}

/// Measures the ratio from one report to the next.
#[derive(Debug, Default)]
pub(crate) struct RatioMeter {
    since: Mutex<Times>,
}

impl RatioMeter {
    /// Begins to measure now, where times are taken.
    pub(crate) fn restart(&self) {
        if let Some(now) = times() {
            *self.since.lock().unwrap_or_else(PoisonError::into_inner) = now;
        }
    }

    /// Returns the ratio since the last call of a function of the meter; none where it is not known.
    pub(crate) fn take(&self) -> Option<f64> {
        let now = times()?;
        let mut since = self.since.lock().unwrap_or_else(PoisonError::into_inner);
        ratio(&std::mem::replace(&mut since, now), &now)
    }
}

/// Returns the ratio between two moments; none where nothing was computed.
fn ratio(since: &Times, now: &Times) -> Option<f64> {
    let computing = now.useful.saturating_sub(since.useful);
    let in_mpi = now.mpi.saturating_sub(since.mpi);
    (computing > 0).then(|| in_mpi as f64 / computing as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ratio_is_of_the_time_between_two_moments() {
        let at = |useful, mpi| Times { useful, mpi, ..Times::default() };
        assert_eq!(ratio(&at(100, 900), &at(300, 950)), Some(0.25));
        assert_eq!(ratio(&at(100, 900), &at(100, 950)), None);
        assert_eq!(ratio(&at(100, 900), &at(50, 10)), None);
    }

    #[test]
    fn meter_without_a_profiler_measures_nothing() {
        let meter = RatioMeter::default();
        meter.restart();
        assert_eq!(meter.take(), None);
    }
}
