//! Number of stacks that a thread keeps: each costs some microseconds, which is nothing as long as they are few. A
//! thread that allocates so fast that there would be many for long has them further apart, and each stands for as much
//! more.

/// Samples after which the pace is looked at.
const AT_ONCE: u32 = 32;
/// Milliseconds for one sample when it goes on for long: with a few microseconds each, a quarter of a
/// hundredth.
const MILLISECONDS: u64 = 2;
/// Samples that may come as fast as they like.
const AT_FIRST: u32 = 2048;
/// So that distances fit.
const FURTHEST: u32 = 16;

/// The pace of one thread. Zeroes are one that begins.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct Pace {
    /// Number of times that the distance is doubled.
    pub doubled: u32,
    /// Snapshot it was looked at.
    samples: u32,
    /// More than there was time for.
    debt: u32,
    /// When it was looked at, in milliseconds.
    since: u64,
}

impl Pace {
    pub const NEW: Pace = Pace { doubled: 0, samples: 0, debt: 0, since: 0 };

    /// A sample was taken. The clock is only read now and then.
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

    /// Much was allocated without a sample. True if samples are to be nearer from now on.
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

    /// For how many samples there was time.
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

    /// Samples in a second of a thread to which so many would come in a millisecond at first.
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
