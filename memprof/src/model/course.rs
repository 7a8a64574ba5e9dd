//! Values over time, at moments of equal distance.

/// Smallest distance of two moments in nanoseconds, that of traces.
const LEAST_STEP_NS: u64 = 1 << 30;

/// Values of a process or a job, from its start on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Course {
    /// Distance of two moments in nanoseconds; at least 1 if there is a value.
    pub step_ns: u64,
    /// Values at these moments; the last one holds afterwards.
    pub values: Vec<u32>,
}

impl Course {
    /// Creates a course of zeros for the time until `end_ns`, of at most `most` moments.
    pub fn zero(end_ns: u64, most: usize) -> Course {
        let step_ns = (end_ns / most.max(1) as u64 + 1).next_power_of_two().max(LEAST_STEP_NS);
        let count = usize::try_from(end_ns / step_ns).unwrap_or(0) + 1;
        Course { step_ns, values: vec![0; count] }
    }

    /// Returns the value at a time; 0 without values.
    pub fn at(&self, time_ns: u64) -> u32 {
        let at = usize::try_from(time_ns / self.step_ns.max(1)).unwrap_or(usize::MAX);
        self.values.get(at).or(self.values.last()).copied().unwrap_or(0)
    }

    /// Returns the time of a moment.
    pub fn time_ns(&self, moment: usize) -> u64 {
        self.step_ns.saturating_mul(moment as u64)
    }

    /// Returns the course with no value above `most`.
    #[must_use]
    pub fn at_most(mut self, most: u32) -> Course {
        self.values.iter_mut().for_each(|value| *value = (*value).min(most));
        self
    }

    /// Adds another course that begins at `offset_ns` of this one.
    pub fn add(&mut self, other: &Course, offset_ns: u64) {
        for moment in 0..self.values.len() {
            if let Some(time_ns) = self.time_ns(moment).checked_sub(offset_ns) {
                self.values[moment] = self.values[moment].saturating_add(other.at(time_ns));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn courses_of_processes_add_up_by_their_starts() {
        let mut sum = Course::zero(40 * LEAST_STEP_NS, 8);
        assert_eq!((sum.step_ns, sum.values.len()), (8 * LEAST_STEP_NS, 6));
        assert_eq!(Course::zero(5, 48).values, [0]);
        sum.step_ns = 8;
        let one = Course { step_ns: 4, values: vec![1, 2, 3, 4] };
        assert_eq!(one.clone().at_most(2).values, [1, 2, 2, 2]);
        sum.add(&one, 0);
        assert_eq!(sum.values, [1, 3, 4, 4, 4, 4]);
        sum.add(&one, 10);
        assert_eq!(sum.values, [1, 3, 6, 8, 8, 8]);
        sum.add(&Course::default(), 0);
        assert_eq!((sum.at(0), sum.at(25), sum.at(u64::MAX)), (1, 8, 8));
    }
}
