//! The ranks that hold an array, and their order.

use std::ops::Range;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::LayoutError;

/// The ranks that hold an array, in the order of its parts. Old and new ranks of a schedule are
/// numbered in one communicator, which holds both; they may be the same, overlap or be disjoint.
///
/// ```
/// use elastic_layout::Ranks;
///
/// let old = Ranks::first(4);
/// let joined = Ranks::range(4..16);
/// let chosen = Ranks::list([7, 0, 5])?;
/// assert_eq!((old.len(), joined.rank(2), chosen.position(5)), (4, Some(6), Some(2)));
/// # Ok::<(), elastic_layout::LayoutError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Vec<usize>", into = "Vec<usize>")]
pub struct Ranks(Kind);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Kind {
    Range {
        start: usize,
        len: usize,
    },
    /// The ranks by position, and positions by ascending rank.
    List {
        ranks: Arc<[usize]>,
        ascending: Arc<[usize]>,
    },
}

impl Ranks {
    /// Ranks 0 to `count` − 1.
    #[must_use]
    pub fn first(count: usize) -> Self {
        Self(Kind::Range { start: 0, len: count })
    }

    /// The ranks of a range, ascending; no rank if it is empty.
    #[must_use]
    pub fn range(range: Range<usize>) -> Self {
        Self(Kind::Range { start: range.start, len: range.len() })
    }

    /// These ranks, in this order.
    ///
    /// # Errors
    /// [`LayoutError::RankTwice`] if a rank is named twice.
    pub fn list(ranks: impl IntoIterator<Item = usize>) -> Result<Self, LayoutError> {
        let ranks: Arc<[usize]> = ranks.into_iter().collect();
        if let Some(&start) = ranks.first()
            && ranks.iter().zip(start..).all(|(&rank, expected)| rank == expected)
        {
            return Ok(Self(Kind::Range { start, len: ranks.len() }));
        }
        let mut ascending: Vec<usize> = (0..ranks.len()).collect();
        ascending.sort_unstable_by_key(|&position| ranks[position]);
        if let Some(pair) = ascending.windows(2).find(|pair| ranks[pair[0]] == ranks[pair[1]]) {
            return Err(LayoutError::RankTwice { rank: ranks[pair[0]] });
        }
        Ok(Self(Kind::List { ranks, ascending: ascending.into() }))
    }

    /// Number of ranks.
    #[must_use]
    pub fn len(&self) -> usize {
        match &self.0 {
            Kind::Range { len, .. } => *len,
            Kind::List { ranks, .. } => ranks.len(),
        }
    }

    /// Returns true if there are no ranks.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the rank at a position; `None` past the end.
    #[must_use]
    pub fn rank(&self, position: usize) -> Option<usize> {
        match &self.0 {
            Kind::Range { start, len } => (position < *len).then(|| start + position),
            Kind::List { ranks, .. } => ranks.get(position).copied(),
        }
    }

    /// Returns the position of a rank; `None` if it is not among them.
    #[must_use]
    pub fn position(&self, rank: usize) -> Option<usize> {
        match &self.0 {
            Kind::Range { start, len } => rank.checked_sub(*start).filter(|at| at < len),
            Kind::List { ranks, ascending } => ascending
                .binary_search_by_key(&rank, |&position| ranks[position])
                .ok()
                .map(|found| ascending[found]),
        }
    }

    /// Iterates over all ranks by position.
    pub fn iter(&self) -> impl Iterator<Item = usize> + '_ {
        (0..self.len()).filter_map(|position| self.rank(position))
    }

    /// Returns the rank at a position known to exist.
    pub(super) fn at(&self, position: usize) -> usize {
        self.rank(position).unwrap_or(usize::MAX)
    }
}

impl From<Ranks> for Vec<usize> {
    fn from(ranks: Ranks) -> Self {
        ranks.iter().collect()
    }
}

impl TryFrom<Vec<usize>> for Ranks {
    type Error = LayoutError;

    fn try_from(ranks: Vec<usize>) -> Result<Self, LayoutError> {
        Self::list(ranks)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_and_ranks_are_inverse() -> Result<(), LayoutError> {
        for ranks in [Ranks::first(5), Ranks::range(3..9), Ranks::list([9, 2, 4, 0])?] {
            for (position, rank) in ranks.iter().enumerate() {
                assert_eq!(ranks.position(rank), Some(position));
            }
            assert_eq!((ranks.rank(ranks.len()), ranks.position(100)), (None, None));
        }
        Ok(())
    }

    #[test]
    fn a_rank_that_is_named_twice_is_refused() {
        assert_eq!(Ranks::list([4, 1, 4]), Err(LayoutError::RankTwice { rank: 4 }));
    }

    #[test]
    fn a_list_that_counts_up_is_a_range() {
        assert_eq!(Ranks::list([2, 3, 4]), Ok(Ranks::range(2..5)));
        assert_eq!(Ranks::list([]).map(|ranks| ranks.is_empty()), Ok(true));
    }
}
