//! How often to look: as often as wanted, as rarely as the promised share of a processor demands.

/// Decides when the next full sample may be, from what the last ones cost. Times in nanoseconds.
#[derive(Copy, Clone, Debug)]
pub struct Duty {
    minimum: u64,
    share: f64,
    /// What a full sample costs, smoothed; rises at once.
    cost: f64,
    /// What all others (ticks, summaries) cost so far, and since when.
    spent: u64,
    began: u64,
}

/// The longest time between two looks.
pub const LONGEST_TICK: u64 = 900_000_000;

/// The age at which what was last written is written anew: it is never to be older than a second, and a
/// busy machine may let the thread wait.
pub const LONGEST_AGE: u64 = 700_000_000;

/// Between two looks of which the first had to write and could not.
const SHORTEST_TICK: u64 = 1_000_000;

impl Duty {
    pub fn new(minimum: u64, share: f64, now: u64) -> Duty {
        Duty { minimum, share, cost: 0.0, spent: 0, began: now }
    }

    /// A full sample has cost that much processor time.
    pub fn sampled(&mut self, cost: u64) {
        let cost = cost as f64;
        self.cost = if cost > self.cost { cost } else { 0.7 * self.cost + 0.3 * cost };
        self.spent = self.spent.saturating_add(cost as u64);
    }

    /// Something else has.
    pub fn ticked(&mut self, cost: u64) {
        self.spent = self.spent.saturating_add(cost);
    }

    /// Time from one full sample to the next.
    pub fn interval(&self) -> u64 {
        ((self.cost / self.share) as u64).max(self.minimum)
    }

    /// Whether all that was spent is within the share of all the time since the beginning, with a
    /// start of a tenth of a second.
    pub fn affordable(&self, now: u64) -> bool {
        let earned = (now.saturating_sub(self.began) + 100_000_000) as f64 * self.share;
        self.spent as f64 + self.cost <= earned.max(self.cost) || self.spent == 0
    }

    /// Time to the next tick after so many in a row that found nothing new, when what was last written
    /// is that old: not beyond the moment at which it has to be written anew.
    pub fn tick(&self, idle: u32, age: u64) -> u64 {
        let wanted = (self.minimum << idle.min(4)).min(LONGEST_TICK);
        wanted.min(LONGEST_AGE.saturating_sub(age).max(SHORTEST_TICK))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn cheap_samples_come_as_often_as_wanted() {
        let mut duty = Duty::new(20_000_000, 0.005, 0);
        duty.sampled(50_000);
        assert_eq!(duty.interval(), 20_000_000);
    }

    #[test]
    fn dear_samples_come_rarely() {
        let mut duty = Duty::new(20_000_000, 0.005, 0);
        duty.sampled(5_000_000);
        assert_eq!(duty.interval(), 1_000_000_000);
    }

    #[test]
    fn ticks_are_further_apart_while_nothing_changes() {
        let duty = Duty::new(20_000_000, 0.005, 0);
        assert_eq!(duty.tick(0, 0), 20_000_000);
        assert_eq!(duty.tick(1, 0), 40_000_000);
        assert_eq!(duty.tick(9, 0), 320_000_000);
    }

    proptest! {
        #[test]
        fn whatever_the_interval_what_was_written_is_written_anew_in_time(
            minimum in 100_000_u64..60_000_000_000,
            lateness in 0_u64..50_000_000,
        ) {
            let duty = Duty::new(minimum, 0.005, 0);
            let (mut now, mut written) = (0, 0);
            for idle in 0..10_000 {
                now += duty.tick(idle, now - written) + lateness;
                prop_assert!(now - written <= LONGEST_AGE + lateness + SHORTEST_TICK);
                if now - written >= LONGEST_AGE {
                    written = now;
                }
            }
        }

        #[test]
        fn over_any_costs_the_share_is_kept(costs in proptest::collection::vec(1_000_u64..20_000_000, 50..300)) {
            let share = 0.005;
            let mut duty = Duty::new(20_000_000, share, 0);
            let (mut now, mut spent) = (0_u64, 0_u64);
            for cost in costs {
                now += duty.interval();
                if duty.affordable(now) {
                    spent += cost;
                    duty.sampled(cost);
                }
            }
            // One sample more than earned, and the start.
            let earned = (now + 100_000_000) as f64 * share + 20_000_000.0 * 2.0;
            prop_assert!(spent as f64 <= earned, "{spent} of {earned}");
        }
    }
}
