//! Sets of member ids in compact form.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::model::member::MemberId;

/// A set of member ids, kept as ranges: a world of any size that was never resized is one range,
/// and every group of joiners or leavers adds at most a few. Ids need not be contiguous.
///
/// ```
/// use elastic::member::MemberId;
/// use elastic::sets::Members;
/// let world: Members = (0..8).map(MemberId).collect();
/// let leaving: Members = [MemberId(3), MemberId(7)].into_iter().collect();
/// let left = world.difference(&leaving);
/// assert_eq!(left.len(), 6);
/// assert_eq!(left.to_string(), "0-2,4-6");
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "Vec<(u64, u64)>", into = "Vec<(u64, u64)>")]
pub struct Members {
    /// First and last id of each range; ascending, with a gap between any two.
    ranges: Vec<(u64, u64)>,
}

impl Members {
    /// Makes an empty set.
    pub const fn new() -> Members {
        Members { ranges: Vec::new() }
    }

    /// Makes the set of members from `first` to `last`, both included; empty if `last` is before
    /// `first`.
    pub fn range(first: MemberId, last: MemberId) -> Members {
        if first > last {
            return Members::new();
        }
        Members { ranges: vec![(first.0, last.0)] }
    }

    /// Number of members. Only the full range has more than `u64::MAX`, and counts as `u64::MAX`.
    pub fn len(&self) -> u64 {
        self.ranges
            .iter()
            .fold(0, |sum: u64, &(first, last)| sum.saturating_add(last - first).saturating_add(1))
    }

    /// Returns true if the set is empty.
    pub fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// Returns true if the set contains this member.
    pub fn contains(&self, member: MemberId) -> bool {
        let after = self.ranges.partition_point(|&(first, _)| first <= member.0);
        after > 0 && self.ranges[after - 1].1 >= member.0
    }

    /// Iterates over the members in ascending order of their ids.
    pub fn iter(&self) -> impl Iterator<Item = MemberId> + '_ {
        self.ranges.iter().flat_map(|&(first, last)| (first..=last).map(MemberId))
    }

    /// First and last id of each range, ascending.
    pub fn ranges(&self) -> impl Iterator<Item = (MemberId, MemberId)> + '_ {
        self.ranges.iter().map(|&(first, last)| (MemberId(first), MemberId(last)))
    }

    /// Members of either set.
    #[must_use]
    pub fn union(&self, other: &Members) -> Members {
        self.combine(other, |left, right| left || right)
    }

    /// Members of `self` that are not in `other`.
    #[must_use]
    pub fn difference(&self, other: &Members) -> Members {
        self.combine(other, |left, right| left && !right)
    }

    /// Members of both sets.
    #[must_use]
    pub fn intersection(&self, other: &Members) -> Members {
        self.combine(other, |left, right| left && right)
    }

    /// Returns true if the sets share no member.
    pub fn is_disjoint(&self, other: &Members) -> bool {
        self.intersection(other).is_empty()
    }

    /// Returns true if `other` contains all members of this set.
    pub fn is_subset(&self, other: &Members) -> bool {
        self.difference(other).is_empty()
    }

    /// Returns true if `other` contains all members of this set, and more.
    pub fn is_proper_subset(&self, other: &Members) -> bool {
        self != other && self.is_subset(other)
    }

    /// Walks over the ids at which a range of either set begins or ends, and keeps those ranges for
    /// which `keep`, called with membership in the left and in the right set, returns true. `keep`
    /// must return false for ids in neither set.
    fn combine(&self, other: &Members, keep: fn(bool, bool) -> bool) -> Members {
        let mut left = self.edges().peekable();
        let mut right = other.edges().peekable();
        let (mut in_left, mut in_right) = (false, false);
        let mut open = None;
        let mut ranges = Vec::new();
        loop {
            let at = match (left.peek(), right.peek()) {
                (None, None) => break,
                (Some(&edge), None) | (None, Some(&edge)) => edge,
                (Some(&one), Some(&two)) => one.min(two),
            };
            in_left ^= left.next_if_eq(&at).is_some();
            in_right ^= right.next_if_eq(&at).is_some();
            match (open, keep(in_left, in_right)) {
                (None, true) => open = Some(at),
                (Some(start), false) => {
                    ranges.push((start as u64, (at - 1) as u64));
                    open = None;
                }
                _ => {}
            }
        }
        Members { ranges }
    }

    /// Ids at which membership changes; the end of a range is one past its last id, and therefore
    /// wider than an id.
    fn edges(&self) -> impl Iterator<Item = u128> + '_ {
        self.ranges.iter().flat_map(|&(first, last)| [u128::from(first), u128::from(last) + 1])
    }
}

impl FromIterator<MemberId> for Members {
    fn from_iter<I: IntoIterator<Item = MemberId>>(ids: I) -> Members {
        let mut ids: Vec<u64> = ids.into_iter().map(|member| member.0).collect();
        ids.sort_unstable();
        let mut ranges: Vec<(u64, u64)> = Vec::new();
        for id in ids {
            match ranges.last_mut() {
                Some((_, last)) if id <= last.saturating_add(1) => *last = id,
                _ => ranges.push((id, id)),
            }
        }
        Members { ranges }
    }
}

impl From<Members> for Vec<(u64, u64)> {
    fn from(members: Members) -> Self {
        members.ranges
    }
}

impl TryFrom<Vec<(u64, u64)>> for Members {
    type Error = String;

    fn try_from(ranges: Vec<(u64, u64)>) -> Result<Members, String> {
        for (index, &(first, last)) in ranges.iter().enumerate() {
            let after_gap =
                index == 0 || ranges[index - 1].1.checked_add(1).is_some_and(|end| end < first);
            if first > last || !after_gap {
                return Err(format!(
                    "members: range {index} ({first} to {last}) is empty or out of order"
                ));
            }
        }
        Ok(Members { ranges })
    }
}

/// Ids and ranges separated by commas: `0-2,4-6`.
impl fmt::Display for Members {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, &(first, last)) in self.ranges.iter().enumerate() {
            let comma = if index == 0 { "" } else { "," };
            if first == last {
                write!(to, "{comma}{first}")?;
            } else {
                write!(to, "{comma}{first}-{last}")?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    fn some() -> impl Strategy<Value = BTreeSet<u64>> {
        let id = prop_oneof![0..40u64, (1u64 << 32)..(1 << 32) + 9, u64::MAX - 5..=u64::MAX];
        proptest::collection::btree_set(id, 0..40)
    }

    fn members(ids: &BTreeSet<u64>) -> Members {
        ids.iter().copied().map(MemberId).collect()
    }

    proptest! {
        #[test]
        fn the_algebra_equals_that_of_a_set_of_numbers(left in some(), right in some()) {
            let (a, b) = (members(&left), members(&right));
            prop_assert_eq!(a.union(&b), members(&(&left | &right)));
            prop_assert_eq!(a.difference(&b), members(&(&left - &right)));
            prop_assert_eq!(a.intersection(&b), members(&(&left & &right)));
            prop_assert_eq!(a.is_subset(&b), left.is_subset(&right));
            prop_assert_eq!(a.is_disjoint(&b), left.is_disjoint(&right));
            prop_assert_eq!(a.is_proper_subset(&b), left.is_subset(&right) && left != right);
            prop_assert_eq!(a.len(), left.len() as u64);
            prop_assert!(a.iter().map(|member| member.0).eq(left.iter().copied()));
            for id in left.union(&right) {
                prop_assert_eq!(a.contains(MemberId(*id)), left.contains(id));
            }
        }

        #[test]
        fn ranges_have_gaps_between_them_whatever_made_them(left in some(), right in some()) {
            let made = members(&left).union(&members(&right));
            let ranges: Vec<(u64, u64)> = made.clone().into();
            prop_assert_eq!(Members::try_from(ranges), Ok(made));
        }
    }

    #[test]
    fn the_highest_ids_are_ids_like_others() {
        let all = Members::range(MemberId(0), MemberId(u64::MAX));
        assert_eq!(all.len(), u64::MAX);
        let without = all.difference(&Members::range(MemberId(u64::MAX), MemberId(u64::MAX)));
        assert!(!without.contains(MemberId(u64::MAX)) && without.contains(MemberId(u64::MAX - 1)));
    }

    #[test]
    fn ranges_out_of_order_are_refused() {
        for bad in [vec![(3, 2)], vec![(0, 1), (2, 3)], vec![(5, 6), (0, 1)], vec![(0, 4), (3, 9)]]
        {
            assert!(Members::try_from(bad.clone()).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn repeated_ids_count_once() {
        let twice: Members = [2, 1, 2, 1].into_iter().map(MemberId).collect();
        assert_eq!((twice.len(), twice.to_string()), (2, "1-2".to_owned()));
    }
}
