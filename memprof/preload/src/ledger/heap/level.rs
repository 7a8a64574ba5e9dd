//! Level of a thread: its bytes and their high-water mark, in two words that one thread writes and
//! any thread may read.

use core::sync::atomic::AtomicI64;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};

/// Bytes of a thread beyond the sums of the process, and their high-water mark since they were last
/// folded into the sums. Stored as the high-water mark and the distance below it, so that a change
/// is one addition whose sign reveals a new peak. Negative where a thread frees blocks that others
/// allocated. Only the thread itself writes; others read.
#[repr(C)]
pub struct Level {
    /// Distance below the high-water mark.
    pub headroom: AtomicI64,
    pub high: AtomicI64,
}

/// Number of attempts of a reader to get two consistent words of a level.
const TRIES: u32 = 1000;

impl Level {
    pub const fn new() -> Level {
        Level { headroom: AtomicI64::new(0), high: AtomicI64::new(0) }
    }

    /// Adds bytes. Returns true if the level is now above the `keep` bytes that may be kept from
    /// the sums.
    #[inline(always)]
    pub fn rise(&self, by: i64, keep: i64) -> bool {
        let headroom = self.headroom.load(Relaxed).wrapping_sub(by);
        if headroom >= 0 {
            self.headroom.store(headroom, Relaxed);
            return false;
        }
        let high = self.high.load(Relaxed).wrapping_sub(headroom);
        // In this order, a reader sees either the old level or the new one.
        self.headroom.store(0, Relaxed);
        self.high.store(high, Release);
        high > keep
    }

    /// Subtracts bytes. Returns true if the level is now further below zero than the `keep` bytes
    /// that may be kept from the sums; always true if `keep` is negative.
    #[inline(always)]
    pub fn fall(&self, by: i64, keep: i64) -> bool {
        let headroom = self.headroom.load(Relaxed).wrapping_add(by);
        self.headroom.store(headroom, Relaxed);
        keep < 0 || headroom - self.high.load(Relaxed) > keep
    }

    /// Returns true if the high-water mark is less than `above` bytes above the present ones.
    #[inline(always)]
    pub fn is_below(&self, above: i64) -> bool {
        self.headroom.load(Relaxed) < above
    }

    /// Sets the high-water mark to `above` bytes above the present ones. Changes two words, neither
    /// of which is right without the other.
    pub fn was_above(&self, above: i64) {
        let high = self.high.load(Relaxed) - self.headroom.load(Relaxed) + above;
        self.headroom.store(above, Relaxed);
        self.high.store(high, Release);
    }

    /// Returns the bytes and their high-water mark.
    pub fn read(&self) -> (i64, i64) {
        let (high, headroom) = together(&self.high, &self.headroom);
        (high - headroom, high)
    }

    /// Applies a series of changes that adds `more` bytes in total and reached `highest` on the
    /// way.
    pub fn follow(&self, more: i64, highest: i64) {
        let (level, high) = self.read();
        let top = high.max(level + highest);
        self.headroom.store(top - level - more, Relaxed);
        self.high.store(top, Release);
    }

    /// Returns true if the level is further from zero than the `keep` bytes that may be kept from
    /// the sums.
    pub fn is_beyond(&self, keep: i64) -> bool {
        let high = self.high.load(Relaxed);
        high.max(self.headroom.load(Relaxed) - high) > keep
    }

    /// Restarts at `level`, the bytes that are not folded into the sums. Called only by the thread
    /// that holds the counters, or when no thread holds them.
    pub fn start_at(&self, level: i64) {
        self.headroom.store(0, Relaxed);
        self.high.store(level, Relaxed);
    }
}

/// Reads two words, of which writers write `first` after `second`, consistently.
pub fn together(first: &AtomicI64, second: &AtomicI64) -> (i64, i64) {
    let mut seen = first.load(Acquire);
    for _ in 0..TRIES {
        let other = second.load(Acquire);
        let now = first.load(Acquire);
        if now == seen {
            return (seen, other);
        }
        seen = now;
    }
    (seen, second.load(Acquire))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Holds whatever part of the level was folded into the sums before.
        #[test]
        fn the_sums_and_what_is_kept_are_what_was_done(
            steps in prop::collection::vec((-300_i64..300, -25_i64..25), 0..200), keep in 50_i64..200
        ) {
            let level = Level::new();
            let (mut sum, mut done, mut most) = (0, 0_i64, 0_i64);
            for (by, kept) in steps {
                done += by;
                most = most.max(done);
                let far = if by >= 0 { level.rise(by, keep) } else { level.fall(-by, keep) };
                let (owned, high) = level.read();
                prop_assert_eq!(sum + owned, done);
                prop_assert!(high >= owned && sum + high <= most);
                // The level never exceeds the limit unless the call reports it.
                prop_assert!(far || owned.abs() <= keep && (by < 0 || high <= keep));
                prop_assert_eq!(far, level.is_beyond(keep));
                if far {
                    sum += owned - kept;
                    level.start_at(kept);
                }
            }
        }
    }
}
