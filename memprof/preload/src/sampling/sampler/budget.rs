//! Rate of samples: as often as wanted, and as seldom as the agreed share of a processor requires.

/// Decides when the next full sample may be taken, from the cost of the last ones. All sampling is
/// charged, whatever thread samples and why; the cost of the last sample is kept in reserve. Times
/// are in nanoseconds.
#[derive(Copy, Clone, Debug)]
pub struct Duty {
    minimum: u64,
    share: f64,
    /// Smoothed cost of a full sample, which follows an increase at once; and the resident bytes
    /// then.
    cost: f64,
    /// Number of full samples so far.
    samples: u32,
    resident: u64,
    /// Smoothed cost of a tick without a full sample.
    look: f64,
    /// Total cost so far, and the start time.
    spent: u64,
    began: u64,
}

/// Assumed cost of the first sample.
const FIRST_COST: f64 = 1_000_000.0;

/// Time whose budget may be spent in advance, for findings that no later sample can show: a run
/// that is shorter may cost more than its share, but no more than this.
const SHORTEST_RUN: u64 = 1_000_000_000;

/// Additional cost of the next sample per byte of growth, until it is measured: 3 µs per MiB of
/// small pages.
const COST_OF_BYTE: f64 = 3_000.0 / 1_048_576.0;

/// Time that may be spent before it is earned where a peak would be lost; later samples wait for
/// it.
const BURST: u64 = 20_000_000;

/// Minimum growth that causes an early sample: less is lost among the memory of a program's
/// libraries.
const GROWTH: u64 = 4 << 20;

/// Growth after which a process may be killed at any moment.
const FAST_GROWTH: u64 = 64 << 20;

/// Part of the share that ticks may use; the rest is for full samples.
const LOOKS: f64 = 0.15;

/// Longest time between two ticks.
pub const LONGEST_TICK: u64 = 900_000_000;

/// Age at which the last written rows are written again: they must never be older than a second,
/// and on a busy machine the thread may be delayed.
pub const LONGEST_AGE: u64 = 700_000_000;

/// Time between two ticks if the first had to write and could not.
const SHORTEST_TICK: u64 = 1_000_000;

impl Duty {
    pub fn new(minimum: u64, share: f64, now: u64) -> Duty {
        Duty {
            minimum,
            share,
            cost: FIRST_COST,
            samples: 0,
            resident: 0,
            look: 0.0,
            spent: 0,
            began: now,
        }
    }

    /// Charges a full sample of `resident` bytes that cost `cost` of processor time.
    pub fn sampled(&mut self, cost: u64, resident: u64) {
        let new = cost as f64;
        let rises = new > self.cost || self.samples == 0;
        self.cost = if rises { new } else { 0.7 * self.cost + 0.3 * new };
        self.samples = self.samples.saturating_add(1);
        self.resident = resident;
        self.charge(cost);
    }

    /// Charges a tick without a full sample, including the cost of waking up.
    pub fn looked(&mut self, cost: u64) {
        self.look =
            if self.look == 0.0 { cost as f64 } else { 0.8 * self.look + 0.2 * cost as f64 };
        self.charge(cost);
    }

    /// Charges any other cost.
    pub fn charge(&mut self, cost: u64) {
        self.spent = self.spent.saturating_add(cost);
    }

    /// Returns the time from one full sample to the next.
    pub fn interval(&self) -> u64 {
        ((self.cost / self.share) as u64).max(self.minimum)
    }

    /// Returns the expected cost of a full sample of `resident` bytes.
    fn expected(&self, resident: u64) -> f64 {
        self.cost + resident.saturating_sub(self.resident) as f64 * COST_OF_BYTE
    }

    /// Returns the budget earned since the start.
    fn earned(&self, now: u64) -> f64 {
        now.saturating_sub(self.began) as f64 * self.share
    }

    /// Returns true if a full sample of `resident` bytes leaves enough budget for the last one.
    pub fn affordable(&self, now: u64, resident: u64) -> bool {
        self.spent as f64 + 2.0 * self.expected(resident) <= self.earned(now)
    }

    /// Does what [`Self::affordable`] does with the budget of [`SHORTEST_RUN`].
    pub fn affordable_ahead(&self, resident: u64) -> bool {
        self.affordable(self.began + SHORTEST_RUN, resident)
    }

    /// Removes the charge of a sample that every run takes once.
    pub fn forgive(&mut self, cost: u64) {
        self.spent = self.spent.saturating_sub(cost);
    }

    /// Returns true if a full sample that shows what no later one can is allowed.
    pub fn may_overdraw(&self, now: u64) -> bool {
        self.spent as f64 <= self.earned(now) + BURST as f64
    }

    /// Returns true if a full sample is to be taken at once because the process has grown from
    /// `then` to `resident` bytes since the last. Growth by a tenth may spend half of the burst;
    /// the other half is for processes that grow so fast that they may be killed before the next
    /// sample.
    pub fn follows_growth(&self, now: u64, then: u64, resident: u64) -> bool {
        let grown = resident.saturating_sub(then);
        let half = self.spent as f64 <= self.earned(now) + BURST as f64 / 2.0;
        grown > (then / 10).max(GROWTH) && half
            || grown > (then / 4).max(FAST_GROWTH) && self.may_overdraw(now)
    }

    /// Returns the time to the next tick after `idle` ticks in a row that found nothing new, with
    /// the last written rows of age `age`: no later than they have to be written again.
    pub fn tick(&self, idle: u32, age: u64) -> u64 {
        let least = self.minimum.max((self.look / (self.share * LOOKS)) as u64);
        let wanted = least.saturating_mul(1 << idle.min(4)).min(LONGEST_TICK);
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
        duty.sampled(50_000, 0);
        assert_eq!(duty.interval(), 20_000_000);
    }

    #[test]
    fn dear_samples_come_rarely() {
        let mut duty = Duty::new(20_000_000, 0.005, 0);
        duty.sampled(5_000_000, 0);
        assert_eq!(duty.interval(), 1_000_000_000);
    }

    #[test]
    fn ticks_are_further_apart_while_nothing_changes() {
        let duty = Duty::new(20_000_000, 0.005, 0);
        assert_eq!(duty.tick(0, 0), 20_000_000);
        assert_eq!(duty.tick(1, 0), 40_000_000);
        assert_eq!(duty.tick(9, 0), 320_000_000);
    }

    #[test]
    fn looks_that_are_dear_are_further_apart() {
        let mut duty = Duty::new(20_000_000, 0.005, 0);
        duty.looked(10_000);
        assert_eq!(duty.tick(0, 0), 20_000_000);
        (0..100).for_each(|_| duty.looked(60_000));
        assert!(duty.tick(0, 0).abs_diff(80_000_000) < 1_000_000);
    }

    proptest! {
        #[test]
        fn rows_are_rewritten_in_time_at_any_interval(
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
        fn over_any_costs_the_share_is_kept(
            costs in proptest::collection::vec((1_000_u64..20_000_000, 0_u64..300_000_000), 1..300),
        ) {
            let share = 0.005;
            let mut duty = Duty::new(20_000_000, share, 0);
            let (mut now, mut spent, mut most) = (0_u64, 0_u64, 0_u64);
            for (cost, later) in costs {
                now += later;
                if duty.affordable(now, 0) {
                    spent += cost;
                    most = most.max(cost);
                    duty.sampled(cost, 0);
                }
                spent += cost / 1_000;
                duty.charge(cost / 1_000);
                // The budget includes the last sample if it costs no more than others did; the cost
                // of the first sample, and of one that costs more than those before, was not known.
                let earned = now as f64 * share;
                let ticks = 300.0 * 20_000.0;
                prop_assert!(spent as f64 <= earned + most as f64 + ticks, "{spent} of {earned}");
            }
        }

        #[test]
        fn known_costs_keep_the_last_sample_within_the_share(
            cost in 1_000_u64..2_000_000,
            times in proptest::collection::vec(0_u64..300_000_000, 1..300),
        ) {
            let share = 0.005;
            let mut duty = Duty::new(20_000_000, share, 0);
            duty.sampled(cost, 0);
            let (mut now, mut spent) = (0_u64, cost);
            for later in times {
                now += later;
                if duty.affordable(now, 0) {
                    spent += cost;
                    duty.sampled(cost, 0);
                    let earned = now as f64 * share;
                    prop_assert!((spent + cost) as f64 <= earned, "{spent} and {cost} of {earned}");
                }
            }
        }
    }

    #[test]
    fn no_time_is_spent_unearned_even_at_first() {
        let duty = Duty::new(20_000_000, 0.005, 1_000_000_000);
        assert!(!duty.affordable(1_020_000_000, 10 << 20));
        assert!(duty.affordable(1_500_000_000, 10 << 20));
    }

    #[test]
    fn grown_process_is_expected_to_cost_more() {
        let mut duty = Duty::new(20_000_000, 0.005, 0);
        duty.sampled(300_000, 10 << 20);
        assert!(duty.affordable(200_000_000, 10 << 20));
        assert!(!duty.affordable(1_000_000_000, 2 << 30));
        assert!(duty.affordable(3_000_000_000, 2 << 30));
    }

    #[test]
    fn growth_by_a_tenth_is_followed_within_half_the_burst() {
        let mut duty = Duty::new(20_000_000, 0.005, 0);
        let mib = 1 << 20;
        assert!(!duty.follows_growth(0, 100 * mib, 109 * mib));
        assert!(duty.follows_growth(0, 100 * mib, 111 * mib));
        // A small process has to grow by more than libraries take.
        assert!(!duty.follows_growth(0, 2 * mib, 6 * mib));
        assert!(duty.follows_growth(0, 2 * mib, 7 * mib));
        assert!(!duty.follows_growth(0, 100 * mib, 50 * mib));
        duty.sampled(11_000_000, 0);
        assert!(!duty.follows_growth(0, 100 * mib, 111 * mib));
        assert!(duty.follows_growth(0, 100 * mib, 165 * mib));
        assert!(duty.follows_growth(1_000_000_000, 100 * mib, 111 * mib));
        duty.forgive(11_000_000);
        assert!(duty.follows_growth(0, 100 * mib, 111 * mib));
    }

    #[test]
    fn vanishing_memory_is_sampled_unearned_and_later_samples_wait() {
        let mut duty = Duty::new(20_000_000, 0.005, 0);
        for _ in 0..8 {
            assert!(duty.may_overdraw(0));
            duty.sampled(2_500_000, 0);
        }
        assert!(!duty.affordable(0, 0));
        assert!(!duty.affordable(4_000_000_000, 0));
        assert!(duty.affordable(5_000_000_000, 0));
        for _ in 0..3 {
            duty.charge(2_500_000);
        }
        assert!(!duty.may_overdraw(0));
    }
}
