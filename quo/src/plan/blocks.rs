//! Assignment of ranks to the workers that serve them.

use std::ops::Range;

use super::split::runs;

/// Returns the node ranks that each worker serves, in the order of `workers`: consecutive ranges
/// that cover `0..ranks` and whose lengths differ by at most one, longer ones first.
///
/// `workers` are the selected node ranks, ascending, as
/// [`Distribution::selected`](super::Distribution::selected) returns them. With contiguous ranges a
/// worker sees the shared memory of its ranks as one piece. A worker need not be in its own range.
/// Without workers there are no ranges. Local and pure.
///
/// ```
/// assert_eq!(quo::plan::blocks(8, &[0, 4]), [0..4, 4..8]);
/// assert_eq!(quo::plan::blocks(5, &[1, 2]), [0..3, 3..5]);
/// ```
#[must_use]
pub fn blocks(ranks: usize, workers: &[usize]) -> Vec<Range<usize>> {
    runs(ranks, workers.len()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn without_workers_there_are_no_blocks() {
        assert!(blocks(4, &[]).is_empty());
    }

    proptest! {
        #[test]
        fn blocks_follow_one_another_cover_all_ranks_and_are_balanced(
            ranks in 0_usize..200,
            workers in proptest::collection::btree_set(0_usize..200, 1..50),
        ) {
            let workers: Vec<usize> = workers.into_iter().collect();
            let served = blocks(ranks, &workers);
            prop_assert_eq!(served.len(), workers.len());
            let mut next = 0;
            for block in &served {
                prop_assert_eq!(block.start, next);
                next = block.end;
            }
            prop_assert_eq!(next, ranks);
            let lengths = served.iter().map(ExactSizeIterator::len);
            prop_assert!(lengths.clone().max().unwrap() - lengths.min().unwrap() <= 1);
        }
    }
}
