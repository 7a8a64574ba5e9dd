//! Values of a row at equal moments of the run.

use crate::plain::plain;

/// Capacity for moments; even.
pub const MOMENTS: usize = 48;
/// Initial distance between two moments as a power of two, in nanoseconds: 1.07 s.
pub const MOMENT_SHIFT: u32 = 30;

/// Unit of the time of the last entry as a power of two, in nanoseconds: 16.8 ms.
const TIME_SHIFT: u32 = 24;
/// Longest time in nanoseconds between two entries that counts as a steady change.
const STEADY: u64 = 2 << MOMENT_SHIFT;

plain! {
    /// Values of a row over the whole run, at moments of equal distance. When the last moment is
    /// used, every second one is dropped, and the distance is doubled.
    pub struct Moments [208] {
        /// Moment *i* is `i << shift` nanoseconds after the trace began.
        0 shift: u32,
        /// Number of moments that have a value; 0 in older traces.
        4 used: u32,
        /// Latest value, which holds at all later moments.
        8 last: u32,
        /// When that was entered, in units of `1 << 24` nanoseconds.
        12 last_time: u32,
        /// Value at each moment: in proportion between two entries at most 2.1 s apart, otherwise
        /// that of the earlier one.
        16 values: [u32; MOMENTS],
    }
}

impl Moments {
    /// Enters the value of the row at a time, which is not before the time of the last call. Before
    /// the first call the value was 0.
    pub fn enter(&mut self, time: u64, value: u64) {
        let value = u32::try_from(value).unwrap_or(u32::MAX);
        if self.used == 0 {
            self.shift = MOMENT_SHIFT;
        }
        while time >> self.shift >= MOMENTS as u64 {
            self.double();
        }
        for at in self.used as usize..=(time >> self.shift) as usize {
            self.values[at] = self.between((at as u64) << self.shift, time, value);
            self.used = at as u32 + 1;
        }
        self.last = value;
        self.last_time = u32::try_from(time >> TIME_SHIFT).unwrap_or(u32::MAX);
    }

    /// Returns the value at a moment between the last entry and one at `time`.
    fn between(&self, moment: u64, time: u64, value: u32) -> u32 {
        let before = u64::from(self.last_time) << TIME_SHIFT;
        let whole = time.saturating_sub(before);
        if self.used == 0 || whole == 0 || whole > STEADY {
            return self.last;
        }
        let part = i128::from(moment.saturating_sub(before).min(whole));
        let change = i128::from(value) - i128::from(self.last);
        let at = i128::from(self.last) + change * part / i128::from(whole);
        u32::try_from(at).unwrap_or(value)
    }

    fn double(&mut self) {
        for at in 0..MOMENTS / 2 {
            self.values[at] = self.values[2 * at];
        }
        self.values[MOMENTS / 2..].fill(0);
        self.used = self.used.div_ceil(2);
        self.shift += 1;
    }

    /// Returns the value at a time.
    #[must_use]
    pub fn at(&self, time: u64) -> u32 {
        let used = (self.used as usize).min(MOMENTS);
        let at = time >> self.shift.min(63);
        match usize::try_from(at) {
            Ok(at) if at < used => self.values[at],
            _ => self.last,
        }
    }

    /// Returns the distance of the moments of a run of this length, as a power of two.
    #[must_use]
    pub fn shift_of(duration: u64) -> u32 {
        (MOMENT_SHIFT..64).find(|shift| duration >> shift < MOMENTS as u64).unwrap_or(63)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SECOND: u64 = 1_000_000_000;

    #[test]
    fn row_that_grows_steadily_has_its_values_at_all_moments() {
        let mut moments = Moments::default();
        for second in 0..3600 {
            moments.enter(second * SECOND, 1000 * second);
        }
        assert_eq!(moments.shift, Moments::shift_of(3600 * SECOND));
        let step = 1_u64 << moments.shift;
        for at in 0..u64::from(moments.used) {
            let exact = at * step * 1000 / SECOND;
            assert!(u64::from(moments.at(at * step)).abs_diff(exact) <= 20, "{at}");
        }
        assert_eq!(moments.at(u64::MAX), 3_599_000);
    }

    #[test]
    fn jump_after_a_long_time_is_not_a_slope() {
        let mut moments = Moments::default();
        moments.enter(10 * SECOND, 7);
        assert_eq!((moments.at(9 * SECOND), moments.at(20 * SECOND)), (0, 7));
        moments.enter(30 * SECOND, 100);
        assert_eq!((moments.at(29 * SECOND), moments.at(31 * SECOND)), (7, 100));
        moments.enter(u64::MAX, u64::MAX);
        assert_eq!((moments.at(0), moments.at(u64::MAX)), (0, 100));
    }

    proptest! {
        #[test]
        fn row_written_only_at_changes_has_the_values_of_all(
            changes in prop::collection::vec((0_u64..1 << 34, 0_u64..5), 1..200)
        ) {
            let (mut lazy, mut all, mut time, mut last) = (Moments::default(), Vec::new(), 0, 0);
            for (step, value) in changes {
                time += step;
                all.push((time, value));
                if last != value {
                    lazy.enter(time, value);
                    last = value;
                }
            }
            let shift = Moments::shift_of(time).max(lazy.shift);
            for at in 0..MOMENTS as u64 {
                let moment = at << shift;
                let held = all.iter().rev().find(|(time, _)| *time <= moment).map_or(0, |one| one.1);
                let next = all.iter().find(|(time, value)| *time > moment && *value != held);
                let next = next.map_or(held, |one| one.1);
                let value = u64::from(lazy.at(moment));
                prop_assert!((held.min(next)..=held.max(next)).contains(&value), "{value} at {at}");
            }
        }
    }
}
