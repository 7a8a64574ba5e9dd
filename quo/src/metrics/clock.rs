//! Times that can be compared between ranks.

use rustix::time::{ClockId, clock_gettime};

/// Monotonic clock whose zero is the Unix epoch.
///
/// It is the monotonic clock of the node plus an offset that is read once. Durations are not
/// disturbed when the system's time is adjusted, and times of different nodes are as comparable as
/// their system times. Ranks of one node get consistent times if they share one offset. Local; may
/// be copied and used from any thread.
///
/// ```
/// use quo::phase::Clock;
/// let clock = Clock::new();
/// let same_on_another_rank = Clock::with_offset(clock.offset());
/// assert!(clock.now() <= same_on_another_rank.now());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Clock {
    offset: u64,
}

impl Clock {
    /// Returns a clock whose offset is the difference between system time and monotonic time now.
    #[must_use]
    pub fn new() -> Self {
        Self { offset: read(ClockId::Realtime).saturating_sub(read(ClockId::Monotonic)) }
    }

    /// Returns a clock with the offset of another rank on the same node.
    #[must_use]
    pub fn with_offset(offset: u64) -> Self {
        Self { offset }
    }

    /// Returns the nanoseconds to add to the monotonic clock.
    #[must_use]
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// Returns the nanoseconds since the Unix epoch.
    #[must_use]
    pub fn now(&self) -> u64 {
        read(ClockId::Monotonic).saturating_add(self.offset)
    }
}

impl Default for Clock {
    fn default() -> Self {
        Self::new()
    }
}

fn read(clock: ClockId) -> u64 {
    let time = clock_gettime(clock);
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    let nanoseconds = u64::try_from(time.tv_nsec).unwrap_or(0);
    seconds.saturating_mul(1_000_000_000).saturating_add(nanoseconds)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_with_the_same_offset_continues_the_same_time() {
        let clock = Clock::new();
        let first = clock.now();
        let second = Clock::with_offset(clock.offset()).now();
        let third = clock.now();
        assert!(first <= second && second <= third);
    }

    #[test]
    fn the_zero_is_the_unix_epoch() {
        let system = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
        // Sampled a moment later; a day allows for any adjustment in between.
        let seconds = Clock::new().now() / 1_000_000_000;
        assert!(seconds.abs_diff(system.as_secs()) < 86_400);
    }
}
