//! Costs that decide whether a task is sent to another rank: costs of messages and of computing,
//! given or measured.

use std::time::Duration;

/// Costs of messages, which the work of a task must outweigh for the task to be sent.
#[derive(Copy, Clone, Debug, PartialEq)]
pub struct SendCost {
    /// Seconds that a message takes at least, until the other rank has received it.
    pub latency: f64,
    /// Seconds for each byte of a task, including the return of its result.
    pub per_byte: f64,
}

impl SendCost {
    /// Costs before any are measured.
    pub const UNMEASURED: Self = Self { latency: 100e-6, per_byte: 10e-9 };

    /// Seconds for sending a task of this size and returning its result. Pure.
    #[must_use]
    pub fn sending(self, bytes: usize) -> f64 {
        2.0 * self.latency + bytes as f64 * self.per_byte
    }

    /// Returns true if computing is expected to take longer than sending the task and receiving its
    /// result. While no task has been computed, small tasks are worth it, and large ones are judged
    /// by the leaves so far. Pure.
    #[must_use]
    pub fn is_worth(self, bytes: usize, work: u64, speed: &Speed) -> bool {
        let sending = self.sending(bytes);
        let is_longer = |computing: f64| computing > sending;
        match speed.of_tasks.expects(work) {
            Some(computing) => is_longer(computing),
            // The messages are then lost time, but only a little.
            None if sending <= 4.0 * self.latency => true,
            None => speed.of_leaves.expects(work).is_some_and(is_longer),
        }
    }
}

/// Measured seconds per unit.
#[derive(Copy, Clone, Debug, Default, PartialEq)]
pub struct Rate {
    seconds: f64,
    units: f64,
}

impl Rate {
    /// Adds a measurement.
    pub fn measured(&mut self, units: f64, seconds: f64) {
        self.units += units;
        self.seconds += seconds;
    }

    /// Adds a measurement as [`measured`](Self::measured) does, with the latest ten or so counting
    /// most.
    fn measured_lately(&mut self, units: f64, seconds: f64) {
        const KEPT: f64 = 0.9;
        *self = Self { seconds: self.seconds * KEPT, units: self.units * KEPT };
        self.measured(units, seconds);
    }

    /// Seconds per unit; `None` before the first measurement. Pure.
    #[must_use]
    pub fn per_unit(&self) -> Option<f64> {
        (self.units > 0.0).then(|| self.seconds / self.units)
    }

    /// Expected seconds for this work; `None` before the first measurement. Pure.
    #[must_use]
    pub fn expects(&self, work: u64) -> Option<f64> {
        self.per_unit().map(|seconds| work as f64 * seconds)
    }
}

/// Speed of a rank's computing, in seconds per unit of work.
#[derive(Copy, Clone, Debug, Default, PartialEq)]
pub struct Speed {
    /// Speed of whole tasks, which have the size of tasks that are sent.
    pub of_tasks: Rate,
    /// Speed of sequential calls, including those inside tasks still being computed.
    pub of_leaves: Rate,
}

/// Costs of messages, measured from this rank's tasks that other ranks computed.
#[derive(Copy, Clone, Debug, Default, PartialEq)]
pub struct Trips {
    /// Round trips of small tasks.
    small: Rate,
    /// Bytes of large tasks.
    bytes: Rate,
}

impl Trips {
    /// Size in bytes from which a trip measures the cost of bytes rather than of messages.
    pub const LARGE: usize = 64 << 10;

    /// Estimated ratio of the time per byte of a trip to the time of packing: the task is unpacked,
    /// its result is packed and unpacked, and messages copy both.
    const PACKINGS: f64 = 8.0;

    /// Adds a round trip of a task of this size, without the time that the other rank had the task.
    pub fn measured(&mut self, bytes: usize, under_way: Duration) {
        let seconds = under_way.as_secs_f64();
        if bytes < Self::LARGE {
            self.small.measured_lately(1.0, seconds);
        } else {
            let rest = seconds - 2.0 * self.latency();
            self.bytes.measured_lately(bytes as f64, rest.max(0.0));
        }
    }

    fn latency(&self) -> f64 {
        let there_and_back = self.small.per_unit();
        there_and_back.map_or(SendCost::UNMEASURED.latency, |seconds| seconds / 2.0)
    }

    /// Returns the costs measured by these trips. Before the first trip of a large task the cost of
    /// bytes follows from the packing of one of this rank's tasks; before that it is
    /// [`SendCost::UNMEASURED`]. Pure.
    #[must_use]
    pub fn cost(&self, packing: &Rate) -> SendCost {
        let packed = || packing.per_unit().map(|seconds| seconds * Self::PACKINGS);
        let per_byte = self.bytes.per_unit().or_else(packed);
        let per_byte = per_byte.unwrap_or(SendCost::UNMEASURED.per_byte);
        SendCost { latency: self.latency(), per_byte }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn computed(work: f64, seconds: f64) -> Speed {
        let mut speed = Speed::default();
        speed.of_tasks.measured(work, seconds);
        speed
    }

    #[test]
    fn task_cheaper_than_its_message_stays() {
        let cost = SendCost { latency: 1e-4, per_byte: 1e-9 };
        let speed = computed(1000.0, 1e-3);
        assert!(!cost.is_worth(0, 200, &speed));
        assert!(cost.is_worth(0, 201, &speed));
        assert!(!cost.is_worth(1_000_000, 1200, &speed));
        assert!(cost.is_worth(1_000_000, 1201, &speed));
    }

    #[test]
    fn first_task_goes_if_small_or_worth_it_by_leaves() {
        let cost = SendCost { latency: 1e-4, per_byte: 1e-8 };
        let mut speed = Speed::default();
        assert!(cost.is_worth(20_000, 5, &speed));
        assert!(!cost.is_worth(20_001, u64::MAX, &speed), "nothing is known of a large one");
        speed.of_leaves.measured(1000.0, 1e-3);
        assert!(!cost.is_worth(1_000_000, 10_200, &speed));
        assert!(cost.is_worth(1_000_000, 10_201, &speed));
        assert!(cost.is_worth(0, 1, &speed), "leaves say too little of small ones");
    }

    #[test]
    fn whole_tasks_count_more_than_leaves() {
        let cost = SendCost { latency: 1e-4, per_byte: 1e-8 };
        let mut speed = computed(1.0, 1.0);
        speed.of_leaves.measured(1.0, 1e-9);
        assert!(cost.is_worth(1_000_000, 1, &speed));
    }

    #[test]
    fn trips_measure_latency_and_bytes_apart() {
        let (mut trips, unpacked) = (Trips::default(), Rate::default());
        assert_eq!(trips.cost(&unpacked), SendCost::UNMEASURED);
        for _ in 0..50 {
            trips.measured(100, Duration::from_micros(600));
        }
        let cost = trips.cost(&unpacked);
        assert!((cost.latency - 300e-6).abs() < 1e-12, "{cost:?}");
        assert_eq!(cost.per_byte, SendCost::UNMEASURED.per_byte);
        for _ in 0..50 {
            trips.measured(1_000_000, Duration::from_micros(2_600));
        }
        let cost = trips.cost(&unpacked);
        assert!((cost.latency - 300e-6).abs() < 1e-12, "{cost:?}");
        assert!((cost.per_byte - 2e-9).abs() < 1e-15, "{cost:?}");
    }

    #[test]
    fn bytes_cost_packings_until_a_large_trip() {
        let (mut trips, mut packing) = (Trips::default(), Rate::default());
        packing.measured(1e6, 1e-3);
        assert!((trips.cost(&packing).per_byte - 8e-9).abs() < 1e-15);
        trips.measured(1_000_000, Duration::from_micros(3_200));
        assert!((trips.cost(&packing).per_byte - 3e-9).abs() < 1e-15);
    }

    #[test]
    fn trip_quicker_than_the_latency_costs_no_bytes() {
        let mut trips = Trips::default();
        trips.measured(1 << 20, Duration::from_micros(150));
        let cost = trips.cost(&Rate::default());
        assert_eq!(cost, SendCost { per_byte: 0.0, ..SendCost::UNMEASURED });
    }

    #[test]
    fn late_trips_outweigh_early_ones() {
        let mut trips = Trips::default();
        for micros in [1000; 20].into_iter().chain([100; 20]) {
            trips.measured(0, Duration::from_micros(micros));
        }
        let latency = trips.cost(&Rate::default()).latency;
        assert!((50e-6..120e-6).contains(&latency), "{latency}");
    }
}
