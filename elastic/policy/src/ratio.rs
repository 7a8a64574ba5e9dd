//! Ranges of sizes by the ratio of MPI time to computing time.

use serde::{Deserialize, Serialize};

use crate::job::MpiRatio;

/// The ratios between which a job keeps its size.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Thresholds {
    /// A job above it in one window is halved.
    pub upper: f64,
    /// A job below it in both windows may be doubled.
    pub lower: f64,
}

impl Default for Thresholds {
    /// Upper 0.1, lower 0.01.
    fn default() -> Thresholds {
        Thresholds { upper: 0.1, lower: 0.01 }
    }
}

/// The sizes that a job's ratio leaves to the scheduler.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Range {
    /// Too much time is spent in MPI: exactly this many nodes, half of the present number or the
    /// minimum.
    Halve {
        /// The new size.
        to: u32,
    },
    /// Little time is spent in MPI: up to twice the present number of nodes, or the maximum.
    Double {
        /// The largest new size.
        to: u32,
    },
    /// Between the thresholds: the job keeps its size.
    Hold,
}

/// Returns the range of a job on `nodes` nodes, within its minimum and maximum.
#[must_use]
pub fn range(nodes: u32, ratio: MpiRatio, min: u32, max: u32, thresholds: Thresholds) -> Range {
    let Thresholds { upper, lower } = thresholds;
    if ratio.total > upper || ratio.recent > upper {
        let to = (nodes / 2).max(min).max(1);
        return if to < nodes { Range::Halve { to } } else { Range::Hold };
    }
    if ratio.total < lower && ratio.recent < lower {
        let to = nodes.saturating_mul(2).min(max);
        return if to > nodes { Range::Double { to } } else { Range::Hold };
    }
    Range::Hold
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn ratio(total: f64, recent: f64) -> MpiRatio {
        MpiRatio { total, recent }
    }

    #[test]
    fn one_window_above_halves_and_both_below_double() {
        let of = |total, recent| range(16, ratio(total, recent), 1, 64, Thresholds::default());
        assert_eq!(of(0.11, 0.0), Range::Halve { to: 8 });
        assert_eq!(of(0.0, 0.11), Range::Halve { to: 8 });
        assert_eq!(of(0.009, 0.009), Range::Double { to: 32 });
        assert_eq!(of(0.009, 0.05), Range::Hold);
        assert_eq!((of(0.1, 0.1), of(0.01, 0.01)), (Range::Hold, Range::Hold), "at the thresholds");
        let wider = Thresholds { upper: 0.5, lower: 0.2 };
        assert_eq!(range(16, ratio(0.1, 0.1), 1, 64, wider), Range::Double { to: 32 });
    }

    #[test]
    fn sixteen_nodes_become_one_in_four_halvings() {
        let mut sizes = vec![16];
        while let Range::Halve { to } =
            range(*sizes.last().unwrap(), ratio(0.4, 0.4), 1, 32, Thresholds::default())
        {
            sizes.push(to);
        }
        assert_eq!(sizes, [16, 8, 4, 2, 1]);
    }

    #[test]
    fn limits_of_the_job_bound_its_range() {
        let thresholds = Thresholds::default();
        assert_eq!(range(16, ratio(0.4, 0.4), 12, 64, thresholds), Range::Halve { to: 12 });
        assert_eq!(range(12, ratio(0.4, 0.4), 12, 64, thresholds), Range::Hold);
        assert_eq!(range(16, ratio(0.0, 0.0), 1, 20, thresholds), Range::Double { to: 20 });
        assert_eq!(range(20, ratio(0.0, 0.0), 1, 20, thresholds), Range::Hold);
        assert_eq!(range(16, ratio(f64::NAN, f64::NAN), 1, 20, thresholds), Range::Hold);
    }

    proptest! {
        #[test]
        fn ranges_stay_within_the_limits(
            nodes in 1..1000u32, below in 0..1000u32, above in 0..1000u32, total in 0.0..1.0f64, recent in 0.0..1.0f64,
        ) {
            let (min, max) = (nodes.saturating_sub(below).max(1), nodes + above);
            match range(nodes, ratio(total, recent), min, max, Thresholds::default()) {
                Range::Halve { to } => prop_assert!(min <= to && to < nodes),
                Range::Double { to } => prop_assert!(nodes < to && to <= max && to <= 2 * nodes),
                Range::Hold => {}
            }
        }
    }
}
