//! Counters of a thread that are not yet entered into its accounts, in one cache line.

use core::sync::atomic::Ordering::{Relaxed, Release};
use core::sync::atomic::{AtomicI64, AtomicU32, AtomicU64};

use super::level::together;
use crate::base::seqlock::SeqLock;

/// Pending counters of a thread for its current component, until they are entered into its
/// accounts: the words that the fast paths write, in one cache line. A byte count and a number of
/// calls share a word, so that an allocation changes two words and a release one. Only the thread
/// itself writes; others read.
#[repr(C, align(64))]
pub struct PendingCounters {
    /// Bytes left until an allocation is considered for sampling, at most [`PendingCounters::FAR`],
    /// above the number of allocations.
    pub countdown: AtomicI64,
    /// Headroom: distance of the thread below its high-water mark, as in a [`Level`](super::Level),
    /// above the number of releases.
    pub headroom: AtomicI64,
    pub high: AtomicI64,
    /// Start value of the countdown.
    begun: AtomicI64,
    pub component: AtomicU32,
    /// Written but never read.
    pub write_sink: AtomicU32,
    /// Copy of the mark in the thread's `Local`.
    pub mark: AtomicU64,
    /// Odd while these counters are entered into the accounts, or the accounts change in a way that
    /// no reader may see halfway.
    version: SeqLock,
    /// Odd while the accounts are folded into the sums of the process.
    folds: SeqLock,
}

/// Pending counters as plain numbers.
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
    /// Position of the bytes in a word, which holds up to 32 MiB. The count below overflows only
    /// after an hour of nothing but blocks of size zero.
    pub const SHIFT: u32 = 38;
    const COUNT: i64 = (1 << PendingCounters::SHIFT) - 1;
    /// Longest countdown.
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

    /// Returns the distance below the high-water mark.
    #[inline(always)]
    pub fn below_high(&self) -> i64 {
        self.headroom.load(Relaxed) >> PendingCounters::SHIFT
    }

    /// Returns the largest headroom word at which no more than `keep` bytes are kept.
    pub const fn most(keep: i64) -> i64 {
        keep << PendingCounters::SHIFT | PendingCounters::COUNT
    }

    /// Returns the high-water mark for a headroom of `headroom`, which is negative.
    #[inline(always)]
    pub fn raised(&self, headroom: i64) -> i64 {
        self.high.load(Relaxed) - (headroom >> PendingCounters::SHIFT)
    }

    /// Enters that high-water mark.
    #[inline(always)]
    pub fn raise(&self, headroom: i64) {
        let high = self.raised(headroom);
        // In this order, a reader sees either the old level or the new one.
        self.headroom.store(headroom & PendingCounters::COUNT, Relaxed);
        self.high.store(high, Release);
    }

    /// Returns true if the level is further below zero than [`PendingCounters::most`] allows;
    /// always true in exact mode.
    pub fn is_below(&self, most: i64) -> bool {
        most < 0 || self.below_high() - self.high.load(Relaxed) > most >> PendingCounters::SHIFT
    }

    /// Returns the bytes left in the countdown.
    pub fn left(&self) -> i64 {
        self.countdown.load(Relaxed) >> PendingCounters::SHIFT
    }

    /// Returns the present values. Those of another thread are consistent only if the version does
    /// not change meanwhile.
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

    /// Returns true if nothing was counted since the last restart. The bytes of the countdown need
    /// no check, since every change shows in a number of calls.
    pub fn is_empty(&self) -> bool {
        let (blocks, headroom) =
            (self.countdown.load(Relaxed) & PendingCounters::COUNT, self.headroom.load(Relaxed));
        blocks | headroom | self.high.load(Relaxed) == 0
    }

    /// Restarts with a countdown of `left` bytes, after `enter` has entered the pending counters.
    /// Called only by the thread that holds the counters, or when no thread holds them.
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

    /// Sets the level to `level` bytes of blocks that were counted before. Called only after a restart,
    /// within [`PendingCounters::write`].
    pub fn start_at(&self, level: i64) {
        self.high.store(level, Relaxed);
    }

    /// Makes a change that no reader may see halfway. Called only by the thread that holds the
    /// counters, or when no thread holds them.
    #[inline(always)]
    pub fn write(&self, work: impl FnOnce()) {
        self.version.write(work);
    }

    /// Folds accounts into the sums. Called only by the thread that holds the counters, or when no
    /// thread holds them.
    pub fn folding(&self, fold: impl FnOnce()) {
        self.folds.write(fold);
    }

    /// Returns a number that changes with each fold; `None` during a fold.
    pub fn folds(&self) -> Option<u64> {
        self.folds.sequence()
    }

    /// Returns true if nothing is being entered or folded, from the view of the thread itself: a
    /// signal may have interrupted it.
    pub fn is_at_rest(&self) -> bool {
        self.version.sequence().is_some() && self.folds.sequence().is_some()
    }

    /// In the child of a fork, ends the writes of a thread that does not exist there.
    pub fn forget_thread(&self) {
        self.folds.forget_writer();
        self.version.forget_writer();
    }

    /// Returns what `look` reads from these counters and from the accounts, consistently.
    #[inline]
    pub fn read<R>(&self, look: impl FnMut() -> R) -> R {
        self.version.read(look)
    }
}
