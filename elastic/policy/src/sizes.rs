//! Rules for the sizes that a job can have, written out as the list of a job's limits.

use serde::{Deserialize, Deserializer, Serialize};

use crate::job::Limits;
use crate::points::{Configuration, Growth, Topology};

/// The largest size up to which a rule is written out.
const LARGEST: u32 = 1 << 20;

/// A rule for the sizes of a job, in nodes or processors.
///
/// ```
/// use elastic_policy::sizes::Sizes;
/// assert_eq!(Sizes::Doubling.list(4, 40), [4, 8, 16, 32]);
/// // 24 nodes of 16 cores hold 19 x 19 processes, which need 23 nodes.
/// assert_eq!(Sizes::Squares { cores: 16 }.fit(1, 24), Some(23));
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Sizes {
    /// The first size, and each size above it by a multiple of this increment.
    Increment(u32),
    /// The first size, and that multiplied by 2, 4 and so on.
    Doubling,
    /// Grids: the smaller dimension grows, columns if both are equal.
    NearlySquare {
        /// The largest difference between rows and columns; `None`: any.
        difference: Option<u32>,
        /// A number that rows and columns divide, such as the blocks of a matrix; `None`: any grid.
        divides: Option<u32>,
    },
    /// As many nodes as the largest square number of processes on them needs.
    Squares {
        /// Processes on a node.
        cores: u32,
    },
    /// These sizes.
    List(Vec<u32>),
}

impl Sizes {
    /// Returns the smallest size above `from`, a size of this rule, if it is at most `max`.
    #[must_use]
    pub fn next(&self, from: u32, max: u32) -> Option<u32> {
        let next = match self {
            Sizes::Increment(increment) => from.checked_add((*increment).max(1)),
            Sizes::Doubling => from.max(1).checked_mul(2).filter(|next| *next > from),
            Sizes::NearlySquare { difference, divides } => {
                let (difference, divides) = (*difference, *divides);
                let topology = Topology::NearlySquare { difference, divides };
                let growth = Growth { topology, most: max, valid: &|_| true };
                growth.next(nearly_square(from, divides)?).map(Configuration::size)
            }
            Sizes::Squares { cores } => {
                let (cores, from) = (u64::from((*cores).max(1)), u64::from(from));
                let side = (from * cores).isqrt() + 1;
                u32::try_from((side * side).div_ceil(cores)).ok()
            }
            Sizes::List(sizes) => sizes.iter().copied().filter(|size| *size > from).min(),
        };
        next.filter(|next| *next <= max)
    }

    /// Returns the largest size from `min` up to `wanted`. Rules with a first size use `min` for
    /// it.
    #[must_use]
    pub fn fit(&self, min: u32, wanted: u32) -> Option<u32> {
        match self {
            Sizes::Increment(increment) => {
                let steps = wanted.checked_sub(min)? / (*increment).max(1);
                Some(min + steps * (*increment).max(1))
            }
            Sizes::Squares { cores } => {
                let cores = u64::from((*cores).max(1));
                let side = (u64::from(wanted) * cores).isqrt();
                let nodes = u32::try_from((side * side).div_ceil(cores)).ok()?;
                (nodes >= min.max(1)).then_some(nodes)
            }
            Sizes::List(sizes) => {
                sizes.iter().copied().filter(|size| (min..=wanted).contains(size)).max()
            }
            Sizes::Doubling | Sizes::NearlySquare { .. } => self.from(min, wanted).last(),
        }
    }

    /// Returns all sizes from `min` to `max` in ascending order.
    #[must_use]
    pub fn list(&self, min: u32, max: u32) -> Vec<u32> {
        self.from(min, max).collect()
    }

    /// Makes the limits of a job with sizes by this rule from `min` to `max`. A user's `start` that
    /// does not follow the rule becomes the next smaller size. `None` if there is no size, or `max`
    /// is above a million.
    #[must_use]
    pub fn limits(&self, min: u32, max: u32, start: u32) -> Option<Limits> {
        if max > LARGEST {
            return None;
        }
        let allowed = match self {
            Sizes::Increment(0 | 1) => Vec::new(),
            _ => self.list(min, max),
        };
        let start = self.fit(min, start.clamp(min, max))?;
        let (min, max) = match (allowed.first(), allowed.last()) {
            (Some(first), Some(last)) => (*first, *last),
            _ => (min, max),
        };
        Some(Limits { min, max, start, allowed })
    }

    fn from(&self, min: u32, max: u32) -> impl Iterator<Item = u32> + '_ {
        let first = match self {
            Sizes::List(_) | Sizes::Squares { .. } => self.next(min.saturating_sub(1), max),
            _ => (1..=max).contains(&min).then_some(min),
        };
        std::iter::successors(first, move |last| self.next(*last, max))
    }
}

/// Reads the sizes of a job in a file, given as a list or a rule.
///
/// # Errors
/// The value is neither.
pub fn in_file<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Sizes>, D::Error> {
    #[derive(Deserialize)]
    #[serde(
        untagged,
        expecting = "sizes are a list, \"doubling\", { increment = 2 }, { nearly_square = { divides = 8000 } } or \
            { squares = { cores = 16 } }"
    )]
    enum Written {
        List(Vec<u32>),
        Rule(Sizes),
    }
    Ok(Some(match Written::deserialize(from)? {
        Written::List(sizes) => Sizes::List(sizes),
        Written::Rule(rule) => rule,
    }))
}

/// Returns the next larger size that the limits allow.
#[must_use]
pub fn next_larger(limits: &Limits, from: u32) -> Option<u32> {
    match limits.allowed.as_slice() {
        [] => {
            from.checked_add(1).map(|next| next.max(limits.min)).filter(|next| *next <= limits.max)
        }
        sizes => {
            let after = sizes.partition_point(|size| *size <= from);
            sizes.get(after).copied().filter(|next| limits.allows(*next))
        }
    }
}

/// Returns the largest size up to `wanted` that the limits allow.
#[must_use]
pub fn largest_within(limits: &Limits, wanted: u32) -> Option<u32> {
    let wanted = wanted.min(limits.max);
    match limits.allowed.as_slice() {
        [] => (wanted >= limits.min).then_some(wanted),
        sizes => {
            let within = sizes.partition_point(|size| *size <= wanted);
            sizes[..within].last().copied().filter(|size| limits.allows(*size))
        }
    }
}

/// Arranges processors in the grid with the smallest difference between rows and columns.
#[must_use]
pub fn nearly_square(count: u32, divides: Option<u32>) -> Option<Configuration> {
    let divide = |side: u32| divides.is_none_or(|whole| whole % side == 0);
    let rows = (1..=count.isqrt()).rev();
    let mut grids =
        rows.filter(|rows| count.is_multiple_of(*rows)).map(|rows| (rows, count / rows));
    let (rows, columns) = grids.find(|(rows, columns)| divide(*rows) && divide(*columns))?;
    Configuration::grid(rows, columns).ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn table_2_4_sizes_of_the_dissertation_are_found() {
        let grid = |divides| Sizes::NearlySquare { difference: None, divides: Some(divides) };
        assert_eq!(grid(12000).list(4, 20), [4, 6, 9, 12, 16, 20], "LU(12000)");
        assert_eq!(grid(14000).list(4, 49), [4, 8, 16, 20, 25, 35, 49], "MM(14000)");
        let master_worker = Sizes::Increment(2).list(4, 22);
        assert_eq!(master_worker, [4, 6, 8, 10, 12, 14, 16, 18, 20, 22], "MstWrk");
        assert_eq!(Sizes::Doubling.list(2, 32), [2, 4, 8, 16, 32], "FFT(8192)");
        let accepted = (1..=50).filter(|size| size % 2 == 0 && 8000 % size == 0);
        let jacobi = Sizes::List(accepted.collect());
        assert_eq!(jacobi.list(4, 50), [4, 8, 10, 16, 20, 32, 40, 50], "Jacobi(8000)");
    }

    #[test]
    fn table_2_3_skips_grids_that_are_not_square() {
        let sizes = Sizes::NearlySquare { difference: Some(1), divides: Some(80) };
        assert_eq!(sizes.list(4, 100), [4, 16, 20, 25, 64, 100]);
    }

    #[test]
    fn squares_on_nodes_of_16_cores_are_those_of_cannon() {
        let squares = Sizes::Squares { cores: 16 };
        let fits = [24, 28, 30, 31].map(|nodes| squares.fit(1, nodes));
        assert_eq!(fits, [Some(23), Some(28), Some(28), Some(31)]);
        assert_eq!(squares.fit(1, 8), Some(8), "11 x 11 processes need 8 nodes");
        assert_eq!(squares.fit(4, 3), None);
    }

    #[test]
    fn a_rule_becomes_limits_with_a_start_it_has() {
        let limits = Sizes::Doubling.limits(2, 50, 20).unwrap();
        assert_eq!((limits.min, limits.max, limits.start), (2, 32, 16));
        assert_eq!(limits.allowed, [2, 4, 8, 16, 32]);
        assert_eq!(next_larger(&limits, 16), Some(32));
        assert_eq!(next_larger(&limits, 32), None);
        assert_eq!(largest_within(&limits, 31), Some(16));
        assert_eq!(largest_within(&limits, 1), None);
        let any = Sizes::Increment(1).limits(3, 9, 5).unwrap();
        assert_eq!((next_larger(&any, 5), next_larger(&any, 9)), (Some(6), None));
        assert_eq!((largest_within(&any, 20), largest_within(&any, 2)), (Some(9), None));
        assert_eq!(Sizes::List(vec![7]).limits(1, 6, 3), None);
        assert_eq!(Sizes::Increment(2).limits(1, u32::MAX, 3), None, "too many to write out");
    }

    fn rules() -> impl Strategy<Value = Sizes> {
        prop_oneof![
            (1..9u32).prop_map(Sizes::Increment),
            Just(Sizes::Doubling),
            (proptest::option::of(0..4u32), proptest::option::of(1..200u32))
                .prop_map(|(difference, divides)| Sizes::NearlySquare { difference, divides }),
            (1..40u32).prop_map(|cores| Sizes::Squares { cores }),
            proptest::collection::vec(1..200u32, 0..20).prop_map(Sizes::List),
        ]
    }

    proptest! {
        #[test]
        fn sizes_ascend_within_their_limits_and_fit_themselves(
            rule in rules(), min in 1..40u32, span in 0..200u32, wanted in 0..300u32,
        ) {
            let max = min + span;
            let sizes = rule.list(min, max);
            prop_assert!(sizes.windows(2).all(|pair| pair[0] < pair[1]));
            prop_assert!(sizes.iter().all(|size| (min..=max).contains(size)));
            for size in &sizes {
                prop_assert_eq!(rule.fit(min, *size), Some(*size));
            }
            let within = sizes.iter().copied().filter(|size| *size <= wanted).max();
            if wanted <= max {
                prop_assert_eq!(rule.fit(min, wanted), within);
            }
            if let Some(limits) = rule.limits(min, max, wanted) {
                prop_assert!(limits.allows(limits.start));
                prop_assert_eq!(largest_within(&limits, wanted.min(max)), within);
                for pair in sizes.windows(2) {
                    prop_assert_eq!(next_larger(&limits, pair[0]), Some(pair[1]));
                }
            }
        }
    }
}
