//! Pending counters of a thread: work not yet entered into its accounts, in one line of the cache.

use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use core::sync::atomic::{AtomicI64, AtomicU32, AtomicU64, fence};

use super::level::{TRIES, together};

/// Number of times that a reader lets others go first.
const PATIENCE: u32 = 100;

/// Pending counters of a thread for one component, the one it works for, until they are entered into its accounts: the
/// words that the fast paths write, in one line of the cache. Bytes and a count share a word, so that an allocation
/// changes two words and a release one. Its thread is the only writer; others read.
#[repr(C, align(64))]
pub struct Current {
    /// Bytes to go until an allocation is looked at closely, at most [`Current::FAR`], above the count of
    /// allocations.
    pub countdown: AtomicI64,
    /// Headroom: distance of the thread below its high-water mark, as in a [`Level`](super::Level), above the count of
    /// releases.
    pub room: AtomicI64,
    pub high: AtomicI64,
    /// Beginning of the countdown.
    begun: AtomicI64,
    pub component: AtomicU32,
    /// Written and never read.
    pub nowhere: AtomicU32,
    /// As that of the thread.
    pub mark: AtomicU64,
    /// Odd while these counters go to the accounts, or the accounts change in a way that no reader is to see halfway.
    version: AtomicU64,
    /// Odd while the accounts go to the sums of the process.
    folds: AtomicU64,
}

/// Pending counters as numbers.
#[derive(Copy, Clone, Default)]
pub struct Since {
    pub component: u32,
    pub owned: i64,
    pub high: i64,
    pub allocations: u64,
    pub frees: u64,
    pub allocated: u64,
}

impl Current {
    /// Position of bytes in a word, which holds 32 MiB of them. A count comes as far only by blocks of no bytes, an
    /// hour of nothing else.
    pub const SHIFT: u32 = 38;
    const COUNT: i64 = (1 << Current::SHIFT) - 1;
    /// The longest countdown.
    pub const FAR: i64 = i64::MAX >> Current::SHIFT;

    pub const fn new() -> Current {
        Current {
            countdown: AtomicI64::new(0),
            room: AtomicI64::new(0),
            high: AtomicI64::new(0),
            begun: AtomicI64::new(0),
            component: AtomicU32::new(0),
            nowhere: AtomicU32::new(0),
            mark: AtomicU64::new(0),
            version: AtomicU64::new(0),
            folds: AtomicU64::new(0),
        }
    }

    /// Distance below the high-water mark.
    #[inline(always)]
    pub fn below_high(&self) -> i64 {
        self.room.load(Relaxed) >> Current::SHIFT
    }

    /// The most that `room` may say when `keep` bytes may be kept.
    pub const fn most(keep: i64) -> i64 {
        keep << Current::SHIFT | Current::COUNT
    }

    /// High-water mark if the headroom were `room`, which is negative.
    #[inline(always)]
    pub fn raised(&self, room: i64) -> i64 {
        self.high.load(Relaxed) - (room >> Current::SHIFT)
    }

    /// Enters that as the highest.
    #[inline(always)]
    pub fn raise(&self, room: i64) {
        let high = self.raised(room);
        // In this order: who reads sees the level as it was, or as it is.
        self.room.store(room & Current::COUNT, Relaxed);
        self.high.store(high, Release);
    }

    /// Returns true if it is further below nothing than [`Current::most`] may be kept; always where nothing may.
    pub fn is_below(&self, most: i64) -> bool {
        most < 0 || self.below_high() - self.high.load(Relaxed) > most >> Current::SHIFT
    }

    /// Bytes to go.
    pub fn left(&self) -> i64 {
        self.countdown.load(Relaxed) >> Current::SHIFT
    }

    /// Pending counters now. Of another thread only while the version stays the same.
    #[inline]
    pub fn since(&self) -> Since {
        let countdown = self.countdown.load(Relaxed);
        let (high, room) = together(&self.high, &self.room);
        let allocated = self.begun.load(Relaxed) - (countdown >> Current::SHIFT);
        Since {
            component: self.component.load(Relaxed),
            owned: high - (room >> Current::SHIFT),
            high,
            allocations: (countdown & Current::COUNT) as u64,
            frees: (room & Current::COUNT) as u64,
            allocated: allocated.max(0) as u64,
        }
    }

    /// Returns true if nothing was done since. There may be bytes whose block was counted before.
    pub fn is_empty(&self) -> bool {
        let (blocks, room) =
            (self.countdown.load(Relaxed) & Current::COUNT, self.room.load(Relaxed));
        blocks | room | self.high.load(Relaxed) == 0
    }

    /// Begins anew, with so many bytes to go, after `enter` has entered the pending ones. Only by its thread, or when
    /// it has none.
    pub fn restart(&self, left: i64, component: u32, enter: impl FnOnce()) {
        let left = left.min(Current::FAR);
        self.guarded(|| {
            enter();
            self.countdown.store(left << Current::SHIFT, Relaxed);
            self.begun.store(left, Relaxed);
            self.room.store(0, Relaxed);
            self.high.store(0, Relaxed);
            self.component.store(component, Relaxed);
        });
    }

    /// Seqlock write section: a [`look`](Current::look) sees nothing of this before it is done. Only by its thread, or
    /// when it has none.
    #[inline(always)]
    pub fn guarded(&self, work: impl FnOnce()) {
        odd_during(&self.version, work);
    }

    /// Something of the accounts goes to the sums. Only by its thread, or when it has none.
    pub fn folding(&self, fold: impl FnOnce()) {
        odd_during(&self.folds, fold);
    }

    /// Returns a number that changes with each fold; none during one.
    pub fn folds(&self) -> Option<u64> {
        Some(self.folds.load(Acquire)).filter(|folds| folds.is_multiple_of(2))
    }

    /// Nothing goes to accounts or sums, as far as its own thread sees: it may have been interrupted by a signal.
    pub fn is_at_rest(&self) -> bool {
        [&self.version, &self.folds].iter().all(|count| count.load(Relaxed).is_multiple_of(2))
    }

    /// In the child of a fork, where the thread is not: whatever it was doing, it does no more.
    pub fn forget_thread(&self) {
        for count in [&self.folds, &self.version] {
            let before = count.load(Relaxed);
            // Where nothing was under way, the page stays the parent's.
            if !before.is_multiple_of(2) {
                count.store(before + 1, Relaxed);
            }
        }
    }

    /// Seqlock read section: runs `look` until it saw this and the accounts as they belong together. Waits for a thread
    /// that was interrupted halfway, though not for ever.
    #[inline]
    pub fn look<R>(&self, mut look: impl FnMut() -> R) -> R {
        let seen = self.try_look(&mut look).or_else(|| self.look_patiently(&mut look));
        seen.unwrap_or_else(look)
    }

    #[cold]
    #[inline(never)]
    fn look_patiently<R>(&self, look: &mut dyn FnMut() -> R) -> Option<R> {
        (0..PATIENCE).find_map(|_| {
            // SAFETY: always is.
            unsafe { libc::sched_yield() };
            self.try_look(&mut *look)
        })
    }

    #[inline]
    fn try_look<R>(&self, mut look: impl FnMut() -> R) -> Option<R> {
        for _ in 0..TRIES {
            let version = self.version.load(Acquire);
            if version.is_multiple_of(2) {
                let seen = look();
                fence(Acquire);
                if self.version.load(Relaxed) == version {
                    return Some(seen);
                }
            }
            core::hint::spin_loop();
        }
        None
    }
}

/// Seqlock write section: the counter is odd while `work` runs; readers retry when it was odd or
/// has changed.
#[inline(always)]
fn odd_during(count: &AtomicU64, work: impl FnOnce()) {
    // A handler of a signal may have left by a jump, and it odd.
    let odd = count.load(Relaxed) | 1;
    count.store(odd, Relaxed);
    fence(Release);
    work();
    count.store(odd + 1, Release);
}
