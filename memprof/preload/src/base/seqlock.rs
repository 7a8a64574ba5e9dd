//! A sequence lock: one thread writes, and readers read again if it wrote meanwhile.

#![allow(unsafe_code)]

use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use core::sync::atomic::{AtomicU64, fence};

/// Number of attempts of a reader before it yields.
const TRIES: u32 = 1000;
/// Number of yields before a reader accepts what it reads.
const YIELDS: u32 = 100;

/// Number of writes, odd during one. One thread writes the guarded data.
#[repr(transparent)]
pub struct SeqLock(AtomicU64);

impl SeqLock {
    pub const fn new() -> SeqLock {
        SeqLock(AtomicU64::new(0))
    }

    /// Write section: the number is odd while `work` runs. Called only by the writing thread.
    #[inline(always)]
    pub fn write(&self, work: impl FnOnce()) {
        // A signal handler may have left by a jump, with the number odd.
        let odd = self.0.load(Relaxed) | 1;
        self.0.store(odd, Relaxed);
        fence(Release);
        work();
        self.0.store(odd + 1, Release);
    }

    /// Read section: returns what `look` reads while nothing is written. Waits for a writer that
    /// was interrupted in the middle, up to a limit.
    #[inline]
    pub fn read<R>(&self, mut look: impl FnMut() -> R) -> R {
        let seen = self.try_read(&mut look).or_else(|| self.read_patiently(&mut look));
        seen.unwrap_or_else(look)
    }

    /// Returns a number that changes with each write; `None` during one.
    pub fn sequence(&self) -> Option<u64> {
        Some(self.0.load(Acquire)).filter(|number| number.is_multiple_of(2))
    }

    /// Ends the write of a thread that is gone, in the child of a fork.
    pub fn forget_writer(&self) {
        let before = self.0.load(Relaxed);
        // If no write was in progress, the page stays shared with the parent.
        if !before.is_multiple_of(2) {
            self.0.store(before + 1, Relaxed);
        }
    }

    #[cold]
    #[inline(never)]
    fn read_patiently<R>(&self, look: &mut dyn FnMut() -> R) -> Option<R> {
        (0..YIELDS).find_map(|_| {
            // SAFETY: no precondition.
            unsafe { libc::sched_yield() };
            self.try_read(&mut *look)
        })
    }

    #[inline]
    fn try_read<R>(&self, mut look: impl FnMut() -> R) -> Option<R> {
        for _ in 0..TRIES {
            if let Some(before) = self.sequence() {
                let seen = look();
                fence(Acquire);
                if self.0.load(Relaxed) == before {
                    return Some(seen);
                }
            }
            core::hint::spin_loop();
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_read_during_a_write_is_repeated() {
        let lock = SeqLock::new();
        let mut reads = 0;
        let seen = lock.read(|| {
            reads += 1;
            if reads == 1 {
                lock.write(|| ());
            }
            reads
        });
        assert_eq!(seen, 2);
        assert_eq!(lock.sequence(), Some(2));
    }

    #[test]
    fn the_write_of_a_thread_that_is_gone_ends() {
        let lock = SeqLock(AtomicU64::new(3));
        assert_eq!(lock.sequence(), None);
        lock.forget_writer();
        assert_eq!(lock.sequence(), Some(4));
        lock.forget_writer();
        assert_eq!(lock.sequence(), Some(4));
    }
}
