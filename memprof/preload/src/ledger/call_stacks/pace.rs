//! Limits the number of stacks that a thread keeps, because each costs some microseconds. If a
//! thread allocates so fast that it would keep many stacks over a long time, the distance between
//! its samples grows, and each sample stands for correspondingly more bytes.

/// Number of samples after which the pace is adjusted.
const AT_ONCE: u32 = 32;
/// Milliseconds per sample in the long run: at a few microseconds each, a quarter of a percent of
/// the time.
const MILLISECONDS: u64 = 2;
/// Number of samples that may be taken at any rate.
const AT_FIRST: u32 = 2048;
/// Largest number of doublings, so that distances fit their type.
const FURTHEST: u32 = 16;

/// The pace of one thread. All zeros is the initial state.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct Pace {
    /// Number of times that the mean distance is doubled.
    pub doubled: u32,
    /// Number of samples since the pace was last adjusted.
    samples: u32,
    /// Number of samples taken beyond those for which there was time.
    debt: u32,
    /// Time of the last adjustment, in milliseconds.
    since: u64,
}

impl Pace {
    pub const NEW: Pace = Pace { doubled: 0, samples: 0, debt: 0, since: 0 };

    /// Records a sample. The clock is read only once every [`AT_ONCE`] samples.
    pub fn sampled(&mut self, now: impl FnOnce() -> u64) {
        self.samples += 1;
        if self.samples < AT_ONCE {
            return;
        }
        let room = self.restart(now());
        self.debt = (self.debt + AT_ONCE).saturating_sub(room);
        if self.debt > AT_FIRST {
            self.debt = AT_FIRST;
            self.doubled = (self.doubled + 1).min(FURTHEST);
        } else if room > 2 * AT_ONCE {
            self.doubled = self.doubled.saturating_sub(1);
        }
    }

    /// Handles many allocated bytes without a sample. Returns true if the mean distance has become
    /// smaller.
    pub fn passed(&mut self, now: impl FnOnce() -> u64) -> bool {
        if self.doubled == 0 {
            return false;
        }
        let now = now();
        let nearer = room(now.saturating_sub(self.since)) > 2 * AT_ONCE;
        if nearer {
            self.debt = self.debt.saturating_sub(self.restart(now));
            self.doubled -= 1;
        }
        nearer
    }

    /// Restarts the interval at `now`. Returns the number of samples for which the last interval
    /// had time.
    fn restart(&mut self, now: u64) -> u32 {
        let room = room(now.saturating_sub(self.since));
        self.samples = 0;
        self.since = now;
        room
    }
}

fn room(milliseconds: u64) -> u32 {
    (milliseconds / MILLISECONDS).min(u64::from(AT_FIRST)) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the number of samples taken in one second by a thread that would at first take
    /// `each_millisecond` samples per millisecond.
    fn second(pace: &mut Pace, start: u64, each_millisecond: u32) -> u32 {
        let (mut taken, mut due) = (0, 0.0);
        for millisecond in 0..1000 {
            due += f64::from(each_millisecond) / f64::from(1 << pace.doubled);
            while due >= 1.0 {
                due -= 1.0;
                taken += 1;
                pace.sampled(|| start + millisecond);
            }
            pace.passed(|| start + millisecond);
        }
        taken
    }

    #[test]
    fn burst_is_kept_whole_and_steady_samples_thin_out() {
        let mut pace = Pace::default();
        for _ in 0..AT_FIRST {
            pace.sampled(|| 5000);
            assert_eq!(pace.doubled, 0);
        }
        second(&mut pace, 5000, 300);
        let taken = second(&mut pace, 6000, 300);
        assert!((200..1200).contains(&taken), "{taken}");
        assert!(pace.doubled > 5);
    }

    #[test]
    fn who_slows_down_has_them_as_near_as_before() {
        let mut pace = Pace::default();
        second(&mut pace, 5000, 1000);
        assert!(pace.doubled > 0);
        for later in 0..8 {
            second(&mut pace, 10_000 + later * 1000, 0);
        }
        assert_eq!(pace.doubled, 0);
        assert!(second(&mut pace, 30_000, 1) > 900);
    }
}
