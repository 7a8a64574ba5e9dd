//! The time of an iteration by size.

use thiserror::Error;

/// The time of an iteration, in seconds, by size.
#[derive(Clone, Debug, PartialEq)]
pub enum Model {
    /// Measured sizes in ascending order with their times; linear between two sizes, the nearest
    /// time outside.
    Table(Vec<(u32, f64)>),
    /// Amdahl's law: a serial part, and a part that the nodes share.
    Amdahl {
        /// The time of the serial part.
        serial: f64,
        /// The time of the parallel part on one node.
        parallel: f64,
    },
    /// Sudarsan's model, `T(q) = T(p) / (q/p)^(alpha (q - p) / p)`, from each size to the next larger one.
    ///
    /// The model does not compose: many small steps gain less than one large step, so it is applied
    /// to each growth in turn. Sizes that were visited keep their times.
    Growth {
        /// The time on the initial size.
        start: f64,
        /// The exponent.
        alpha: f64,
    },
}

/// Why a model is not usable.
#[derive(Clone, Debug, PartialEq, Error)]
pub enum ModelError {
    /// A table is empty, or its sizes do not ascend from one.
    #[error("the sizes of the table do not ascend, or there is none")]
    Sizes,
    /// A time or exponent is negative, not finite, or all times are zero.
    #[error("{0} is not a time or exponent: a finite number that is not negative is expected")]
    Value(f64),
}

impl Model {
    /// Checks the numbers of the model.
    ///
    /// # Errors
    ///
    /// The model has invalid times.
    pub fn check(&self) -> Result<(), ModelError> {
        let values: Vec<f64> = match self {
            Model::Table(table) => {
                let ascends = table.windows(2).all(|pair| pair[0].0 < pair[1].0);
                if !ascends || table.first().is_none_or(|first| first.0 == 0) {
                    return Err(ModelError::Sizes);
                }
                table.iter().map(|entry| entry.1).collect()
            }
            Model::Amdahl { serial, parallel } => vec![*serial, *parallel],
            Model::Growth { start, alpha } => vec![*start, *alpha],
        };
        match values.into_iter().find(|value| !value.is_finite() || *value < 0.0) {
            Some(value) => Err(ModelError::Value(value)),
            None => Ok(()),
        }
    }

    /// Returns the time of an iteration on `to` nodes.
    ///
    /// `visited` are the earlier sizes of the job with their times, the present one last; empty at
    /// the start.
    #[must_use]
    pub fn seconds(&self, visited: &[(u32, f64)], to: u32) -> f64 {
        match self {
            Model::Table(table) => {
                let place = table.partition_point(|entry| entry.0 < to);
                match (table[..place].last(), table.get(place)) {
                    (Some(before), Some(after)) => between(*before, *after, to),
                    (Some(only), None) | (None, Some(only)) => only.1,
                    (None, None) => 0.0,
                }
            }
            Model::Amdahl { serial, parallel } => serial + parallel / f64::from(to),
            Model::Growth { start, alpha } => {
                if let Some(known) = visited.iter().rev().find(|entry| entry.0 == to) {
                    return known.1;
                }
                // From the largest size below, since the model describes growth.
                let below = visited.iter().filter(|entry| entry.0 < to).max_by_key(|entry| entry.0);
                match (below, visited.iter().min_by_key(|entry| entry.0)) {
                    (Some(&(from, seconds)), _) => {
                        let (from, to) = (f64::from(from), f64::from(to));
                        seconds / (to / from).powf(alpha * (to - from) / from)
                    }
                    // Below all visited sizes: the growth from there to here, reversed.
                    (None, Some(&(from, seconds))) => {
                        let (from, to) = (f64::from(from), f64::from(to));
                        seconds * (from / to).powf(alpha * (from - to) / to)
                    }
                    (None, None) => *start,
                }
            }
        }
    }
}

/// Returns the value at `size` by linear interpolation between two points.
pub(super) fn between(before: (u32, f64), after: (u32, f64), size: u32) -> f64 {
    let share = f64::from(size - before.0) / f64::from(after.0 - before.0);
    before.1 + share * (after.1 - before.1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn near(one: f64, other: f64) -> bool {
        (one - other).abs() < 5e-3 * other.abs()
    }

    #[test]
    fn table_interpolates_and_ends_flat() {
        let model = Model::Table(vec![(2, 10.0), (4, 6.0), (8, 4.0)]);
        let times = [1, 2, 3, 4, 6, 8, 100].map(|size| model.seconds(&[], size));
        assert_eq!(times, [10.0, 10.0, 8.0, 6.0, 5.0, 4.0, 4.0]);
    }

    #[test]
    fn growth_in_one_jump_and_in_steps_as_published() {
        let model = Model::Growth { start: 200.0, alpha: 0.75 };
        let start = model.seconds(&[], 400);
        assert_eq!(start, 200.0);
        let jump = Model::Growth { start: 200.0, alpha: 0.75 }.seconds(&[(400, 200.0)], 2000);
        assert!(near(200.0 / jump, 125.0), "{jump}");
        let mut visited = vec![(400, start)];
        for to in (420..=2000).step_by(20) {
            visited.push((to, model.seconds(&visited, to)));
        }
        let gain = 200.0 / visited[visited.len() - 1].1;
        assert!(near(gain, 1.03), "{gain}");
        // Doubling gains 2^alpha, and the way back restores the time.
        let doubled = model.seconds(&[(400, 200.0)], 800);
        assert!(near(200.0 / doubled, 2.0_f64.powf(0.75)));
        assert_eq!(model.seconds(&[(400, 200.0), (800, doubled)], 400), 200.0);
        assert!(near(model.seconds(&[(800, doubled)], 400), 200.0));
    }

    #[test]
    fn models_without_sensible_times_are_refused() {
        assert_eq!(Model::Table(vec![]).check(), Err(ModelError::Sizes));
        assert_eq!(Model::Table(vec![(4, 1.0), (4, 1.0)]).check(), Err(ModelError::Sizes));
        let model = Model::Amdahl { serial: -1.0, parallel: 1.0 };
        assert_eq!(model.check(), Err(ModelError::Value(-1.0)));
        assert!(Model::Growth { start: f64::NAN, alpha: 0.8 }.check().is_err());
        assert_eq!(Model::Amdahl { serial: 0.0, parallel: 8.0 }.check(), Ok(()));
    }
}
