//! Counters of a thread that are not yet entered into its accounts, in one line of the cache.

use core::sync::atomic::Ordering::{Relaxed, Release};
use core::sync::atomic::{AtomicI64, AtomicU32, AtomicU64};

use super::level::together;
use crate::base::seqlock::SeqLock;

/// Pending counters of a thread for one component, the one it works for, until they are entered into its accounts: the
/// words that the fast paths write, in one line of the cache. Bytes and a count share a word, so that an allocation
/// changes two words and a release one. Its thread is the only writer; others read.
#[repr(C, align(64))]
pub struct PendingCounters {
    /// Bytes to go until an allocation is looked at closely, at most [`PendingCounters::FAR`], above the count of
    /// allocations.
    pub countdown: AtomicI64,
    /// Headroom: distance of the thread below its high-water mark, as in a [`Level`](super::Level), above the count of
    /// releases.
    pub headroom: AtomicI64,
    pub high: AtomicI64,
    /// Beginning of the countdown.
    begun: AtomicI64,
    pub component: AtomicU32,
    /// Written and never read.
    pub write_sink: AtomicU32,
    /// As that of the thread.
    pub mark: AtomicU64,
    /// Odd while these counters go to the accounts, or the accounts change in a way that no reader is to see halfway.
    version: SeqLock,
    /// Odd while the accounts go to the sums of the process.
    folds: SeqLock,
}

/// Pending counters as numbers.
#[derive(Copy, Clone, Default)]
pub struct Snapshot {
    pub component: u32,
    pub owned: i64,
    pub high: i64,
    pub allocations: u64,
    pub frees: u64,
    pub allocated: u64,
}

impl PendingCounters {
    /// Position of bytes in a word, which holds 32 MiB of them. A count comes as far only by blocks of no bytes, an
    /// hour of nothing else.
    pub const SHIFT: u32 = 38;
    const COUNT: i64 = (1 << PendingCounters::SHIFT) - 1;
    /// The longest countdown.
    pub const FAR: i64 = i64::MAX >> PendingCounters::SHIFT;

    pub const fn new() -> PendingCounters {
        PendingCounters {
            countdown: AtomicI64::new(0),
            headroom: AtomicI64::new(0),
            high: AtomicI64::new(0),
            begun: AtomicI64::new(0),
            component: AtomicU32::new(0),
            write_sink: AtomicU32::new(0),
            mark: AtomicU64::new(0),
            version: SeqLock::new(),
            folds: SeqLock::new(),
        }
    }

    /// Distance below the high-water mark.
    #[inline(always)]
    pub fn below_high(&self) -> i64 {
        self.headroom.load(Relaxed) >> PendingCounters::SHIFT
    }

    /// The most that `headroom` may say when `keep` bytes may be kept.
    pub const fn most(keep: i64) -> i64 {
        keep << PendingCounters::SHIFT | PendingCounters::COUNT
    }

    /// High-water mark if the headroom were `headroom`, which is negative.
    #[inline(always)]
    pub fn raised(&self, headroom: i64) -> i64 {
        self.high.load(Relaxed) - (headroom >> PendingCounters::SHIFT)
    }

    /// Enters that as the highest.
    #[inline(always)]
    pub fn raise(&self, headroom: i64) {
        let high = self.raised(headroom);
        // In this order: who reads sees the level as it was, or as it is.
        self.headroom.store(headroom & PendingCounters::COUNT, Relaxed);
        self.high.store(high, Release);
    }

    /// Returns true if it is further below nothing than [`PendingCounters::most`] may be kept; always where nothing may.
    pub fn is_below(&self, most: i64) -> bool {
        most < 0 || self.below_high() - self.high.load(Relaxed) > most >> PendingCounters::SHIFT
    }

    /// Bytes to go.
    pub fn left(&self) -> i64 {
        self.countdown.load(Relaxed) >> PendingCounters::SHIFT
    }

    /// Pending counters now. Of another thread only while the version stays the same.
    #[inline]
    pub fn snapshot(&self) -> Snapshot {
        let countdown = self.countdown.load(Relaxed);
        let (high, headroom) = together(&self.high, &self.headroom);
        let allocated = self.begun.load(Relaxed) - (countdown >> PendingCounters::SHIFT);
        Snapshot {
            component: self.component.load(Relaxed),
            owned: high - (headroom >> PendingCounters::SHIFT),
            high,
            allocations: (countdown & PendingCounters::COUNT) as u64,
            frees: (headroom & PendingCounters::COUNT) as u64,
            allocated: allocated.max(0) as u64,
        }
    }

    /// Returns true if nothing was done since. There may be bytes whose block was counted before.
    pub fn is_empty(&self) -> bool {
        let (blocks, headroom) =
            (self.countdown.load(Relaxed) & PendingCounters::COUNT, self.headroom.load(Relaxed));
        blocks | headroom | self.high.load(Relaxed) == 0
    }

    /// Begins anew, with so many bytes to go, after `enter` has entered the pending ones. Only by its thread, or when
    /// it has none.
    pub fn restart(&self, left: i64, component: u32, enter: impl FnOnce()) {
        let left = left.min(PendingCounters::FAR);
        self.write(|| {
            enter();
            self.countdown.store(left << PendingCounters::SHIFT, Relaxed);
            self.begun.store(left, Relaxed);
            self.headroom.store(0, Relaxed);
            self.high.store(0, Relaxed);
            self.component.store(component, Relaxed);
        });
    }

    /// Changes counters of the thread that no reader is to see halfway. Only by its thread, or when it has none.
    #[inline(always)]
    pub fn write(&self, work: impl FnOnce()) {
        self.version.write(work);
    }

    /// Adds something of the accounts to the sums. Only by its thread, or when it has none.
    pub fn folding(&self, fold: impl FnOnce()) {
        self.folds.write(fold);
    }

    /// Returns a number that changes with each fold; none during one.
    pub fn folds(&self) -> Option<u64> {
        self.folds.sequence()
    }

    /// Returns true if nothing goes to accounts or sums, as far as its own thread sees: it may have been interrupted by
    /// a signal.
    pub fn is_at_rest(&self) -> bool {
        self.version.sequence().is_some() && self.folds.sequence().is_some()
    }

    /// Ends what a thread was doing that is not there in the child of a fork.
    pub fn forget_thread(&self) {
        self.folds.forget_writer();
        self.version.forget_writer();
    }

    /// Returns what `look` reads of these counters and of the accounts, as they belong together.
    #[inline]
    pub fn read<R>(&self, look: impl FnMut() -> R) -> R {
        self.version.read(look)
    }
}
