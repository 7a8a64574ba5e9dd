//! Measurements by the memory profiler, if it takes times in the process: the ratio of time in MPI
//! to time of computing, and the loops of the program, without resizes.
#![allow(unsafe_code)]

use std::ffi::c_int;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use memprof_hooks::{Lookup, Table};

/// Times of the process, in the layout of `memprof.h`, in nanoseconds.
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

/// Table of functions described in `memprof.h`, up to the last one used.
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

/// A loop of a process, in the layout of `memprof.h`: loops with the same number count as one.
/// Times are in nanoseconds.
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

/// Number of loops of a process that are published: those with the longest times.
pub(crate) const LOOPS: usize = 4;

// SAFETY: the layout is that of the beginning of the table.
unsafe impl Table for Hooks {}

static PROFILER: Lookup<Hooks> = Lookup::new();

/// Returns the times up to now; `None` if they are not taken.
fn times() -> Option<Times> {
    let time = PROFILER.find()?.time?;
    let mut times = Times::default();
    // SAFETY: it fills a struct of this layout.
    let status = unsafe { time(&raw mut times) };
    (status == 0).then_some(times)
}

/// Removes all loops, and excludes MPI calls from loops until [`resume_loops`].
pub(crate) fn forget_loops() {
    tell_loops(3);
}

/// Excludes MPI calls from loops until [`resume_loops`].
pub(crate) fn pause_loops() {
    tell_loops(1);
}

/// Does the same, and restarts the times of loops.
pub(crate) fn reset_loops() {
    tell_loops(2);
}

/// Includes MPI calls in loops again.
#[cold]
pub(crate) fn resume_loops() {
    tell_loops(0);
}

fn tell_loops(action: u32) {
    if let Some(loops) = PROFILER.find().and_then(|table| table.loops) {
        // SAFETY: any number is accepted, from any thread.
        unsafe { loops(action) }
    }
}

/// Returns true if the profiler detects loops.
pub(crate) fn looks_for_loops() -> bool {
    outermost(&mut []).is_some()
}

/// Fills in the outermost loops of the process and returns their number; `None` if loops are not
/// detected or cannot be read now.
fn outermost(into: &mut [LoopFigures]) -> Option<usize> {
    let tell = PROFILER.find()?.outermost_loops?;
    // SAFETY: it fills at most as many structs of this layout as `into` has.
    let count = unsafe { tell(into.as_mut_ptr(), u32::try_from(into.len()).unwrap_or(0)) };
    usize::try_from(count).ok()
}

/// Loops of the process, with a check for newer figures.
#[derive(Debug, Default)]
pub(crate) struct LoopMeter {
    copies: Option<&'static AtomicU64>,
    seen: u64,
}

impl LoopMeter {
    /// Begins to check for newer figures, if the profiler detects loops.
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

    /// Returns the newest figures, unless they cannot be read now.
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
    /// Restarts the measurement, if times are taken.
    pub(crate) fn restart(&self) {
        if let Some(now) = times() {
            *self.since.lock().unwrap_or_else(PoisonError::into_inner) = now;
        }
    }

    /// Returns the ratio since the last call of a function of the meter; `None` if it is not known.
    pub(crate) fn take(&self) -> Option<f64> {
        let now = times()?;
        let mut since = self.since.lock().unwrap_or_else(PoisonError::into_inner);
        ratio(&std::mem::replace(&mut since, now), &now)
    }
}

/// Returns the ratio between two moments; `None` without computing time.
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
