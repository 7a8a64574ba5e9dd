#![allow(unsafe_code)]
//! Waiting for the barrier word to change: polling first, then a futex.

use std::sync::atomic::{AtomicU32, AtomicU64};
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::thread::futex;

use super::protocol::barrier::{Wait, WakeReason, futex_half};
use super::spin::Spinner;

/// Time for which a waiter sleeps before it checks whether the other members are alive. It bounds
/// how late a death is found, and how late a wake-up lost with its sender is made up for.
pub(super) const SLICE: Duration = Duration::from_millis(350);

/// Number of times that a member lets others run before it sleeps, if it may not poll: among more
/// members than CPUs, all that are ready to run then arrive without a sleep and a wake-up each.
const YIELDS: usize = 3;

/// How long and how a member waits.
#[derive(Copy, Clone, Debug)]
pub(super) struct WaitOptions {
    /// Time at which the member gives up; `None` for never.
    pub(super) deadline: Option<Instant>,
    /// True if the member may poll before it sleeps: no other member needs its CPU.
    pub(super) spin: bool,
}

/// Waits on the shared word with a futex that is not private to the process.
pub(super) struct FutexWait<'a> {
    options: WaitOptions,
    spinner: &'a mut Spinner,
    /// End of the slice, once a sleep has been interrupted.
    slice_end: Option<Instant>,
}

impl<'a> FutexWait<'a> {
    pub(super) fn new(options: WaitOptions, spinner: &'a mut Spinner) -> Self {
        Self { options, spinner, slice_end: None }
    }

    /// Returns how long to sleep. Reads the clock only if it must.
    fn time_left(&self) -> Duration {
        let ends = [self.options.deadline, self.slice_end].into_iter().flatten();
        let left = ends.min().map(|end| end.saturating_duration_since(Instant::now()));
        left.map_or(SLICE, |left| left.min(SLICE))
    }
}

impl Wait<AtomicU64> for FutexWait<'_> {
    #[inline]
    fn spin(&mut self, mut done: impl FnMut() -> bool) -> bool {
        if self.options.spin {
            return self.spinner.poll(self.options.deadline, done);
        }
        // A member with a deadline might miss it.
        let yields = if self.options.deadline.is_none() { YIELDS } else { 0 };
        (0..yields).any(|_| {
            std::thread::yield_now();
            done()
        })
    }

    fn sleep(&mut self, word: &AtomicU64, seen: u64) -> WakeReason {
        let left = self.time_left();
        let result = if left.is_zero() {
            Err(Errno::TIMEDOUT)
        } else {
            let timeout = rustix::time::Timespec {
                tv_sec: left.as_secs() as i64,
                tv_nsec: i64::from(left.subsec_nanos()),
            };
            let flags = futex::Flags::empty();
            futex::wait(half(word), flags, futex_half(seen), Some(&timeout))
        };
        match result {
            Err(Errno::TIMEDOUT)
                if self.options.deadline.is_some_and(|at| at <= Instant::now()) =>
            {
                WakeReason::Deadline
            }
            Err(Errno::TIMEDOUT) => {
                self.slice_end = None;
                WakeReason::CheckLiveness
            }
            Err(Errno::INTR) => {
                // Signals cannot postpone the inspections forever.
                self.slice_end.get_or_insert_with(|| Instant::now() + SLICE);
                WakeReason::Woken
            }
            _ => WakeReason::Woken,
        }
    }

    fn wake(&mut self, word: &AtomicU64) {
        self.spinner.woke_others();
        // The only errors are for a word that is unmapped or misaligned, which this one is not.
        let _ = futex::wake(half(word), futex::Flags::empty(), i32::MAX.unsigned_abs());
    }
}

/// Returns the half of the word that the kernel compares. No other code reads it this way.
fn half(word: &AtomicU64) -> &AtomicU32 {
    let index = if cfg!(target_endian = "little") { 1 } else { 0 };
    // SAFETY: both halves lie inside the word, which is more strictly aligned and outlives the
    // result; the reference is only passed to the kernel.
    unsafe { &*std::ptr::from_ref(word).cast::<AtomicU32>().add(index) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(deadline: Option<Instant>) -> WaitOptions {
        WaitOptions { deadline, spin: false }
    }

    #[test]
    fn changed_high_half_wakes_as_a_changed_low_half() {
        let word = AtomicU64::new(7 << 32 | 1);
        let mut spinner = Spinner::new();
        let past = Some(Instant::now());
        let soon = Some(Instant::now() + Duration::from_millis(1));
        let mut wait = FutexWait::new(options(None), &mut spinner);
        assert_eq!(wait.sleep(&word, 6 << 32 | 1), WakeReason::Woken);
        let mut wait = FutexWait::new(options(soon), &mut spinner);
        assert_eq!(wait.sleep(&word, 7 << 32 | 9), WakeReason::Deadline);
        let mut wait = FutexWait::new(options(past), &mut spinner);
        assert_eq!(wait.sleep(&word, 7 << 32 | 1), WakeReason::Deadline);
    }

    #[test]
    fn member_without_a_cpu_lets_others_run_before_it_sleeps() {
        let mut spinner = Spinner::new();
        let mut wait = FutexWait::new(options(None), &mut spinner);
        let mut looks = 0;
        let mut arrives_at = |last: usize| {
            looks = 0;
            wait.spin(|| {
                looks += 1;
                looks == last
            })
        };
        assert!(arrives_at(1) && arrives_at(YIELDS));
        assert!(!arrives_at(YIELDS + 1));
    }

    #[test]
    fn a_long_sleep_ends_in_a_slice() {
        let word = AtomicU64::new(0);
        let mut spinner = Spinner::new();
        let mut wait = FutexWait::new(options(None), &mut spinner);
        assert_eq!(wait.sleep(&word, 0), WakeReason::CheckLiveness);
    }
}
