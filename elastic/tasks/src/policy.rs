//! Granularity policies: which tasks are given out to other workers, and which are computed where they are.

use serde::{Deserialize, Serialize};

/// Rule for how far tasks are split into tasks that other ranks and threads can take.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub enum Policy {
    /// Every child is given out, down to the threshold.
    Fork,
    /// All children but the last are given out, down to the threshold; the last is computed in place.
    Lazy,
    /// Every child is given out until a level has as many tasks as there are workers. Below it, tasks recurse in place.
    Adaptive,
    /// As `Adaptive`, with the last child computed in place: the number of tasks given out,
    /// including the root, is that of the last level.
    #[default]
    AdaptiveInPlace,
}

/// Place of a task in the tree of tasks.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Place {
    /// Number of ancestors.
    pub level: u32,
    /// Number of tasks at this level of a regular tree: the product of the ancestors' numbers of children.
    pub width: u64,
}

impl Place {
    /// Place of the root.
    pub const ROOT: Self = Self { level: 0, width: 1 };

    /// Returns the place of each of `children` children. Local.
    #[must_use]
    pub fn child(self, children: usize) -> Self {
        Self { level: self.level + 1, width: self.width.saturating_mul(children as u64) }
    }
}

/// Decision about a task.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// Compute the task here, with all its descendants.
    Compute,
    /// Split the task and give its children out.
    GiveOut {
        /// True if the last child stays with the worker that split the task.
        last_in_place: bool,
    },
}

impl Policy {
    /// Decides about a task. Pure.
    #[must_use]
    pub fn decide(self, place: Place, size: u64, threshold: u64, workers: u64) -> Decision {
        let (divides, last_in_place) = match self {
            Self::Fork => (true, false),
            Self::Lazy => (true, true),
            Self::Adaptive => (workers > place.width, false),
            Self::AdaptiveInPlace => (workers > place.width, true),
        };
        if size > threshold && divides {
            Decision::GiveOut { last_in_place }
        } else {
            Decision::Compute
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Tasks given out and tasks computed of a regular tree in which each split divides the size by
    /// `branches`.
    fn counts(
        policy: Policy,
        size: u64,
        threshold: u64,
        branches: usize,
        workers: u64,
    ) -> (u64, u64) {
        fn below(
            policy: Policy,
            place: Place,
            (size, threshold): (u64, u64),
            (branches, workers): (usize, u64),
        ) -> (u64, u64) {
            match policy.decide(place, size, threshold, workers) {
                Decision::Compute => (0, 1),
                Decision::GiveOut { last_in_place } => {
                    let child = place.child(branches);
                    let size = size.div_ceil(branches as u64);
                    let one = below(policy, child, (size, threshold), (branches, workers));
                    let all = branches as u64;
                    (one.0 * all + all - u64::from(last_in_place), one.1 * all)
                }
            }
        }
        let (given_out, computed) =
            below(policy, Place::ROOT, (size, threshold), (branches, workers));
        (given_out + 1, computed)
    }

    /// Source: merge sort of 400 M numbers with threshold 1 M has 1,023 tasks.
    #[test]
    fn fork_of_the_published_merge_sort_has_1023_tasks() {
        assert_eq!(counts(Policy::Fork, 400_000_000, 1_000_000, 2, 8), (1023, 512));
    }

    /// Source: a product of 8192² matrices with threshold 256² in four parts each has 1,365 tasks.
    #[test]
    fn fork_of_the_published_matrix_product_has_1365_tasks() {
        assert_eq!(counts(Policy::Fork, 8192 * 8192, 256 * 256, 4, 8), (1365, 1024));
    }

    /// Source: with all children but one given out, there are as many processes as leaves.
    #[test]
    fn lazy_gives_out_as_many_tasks_as_leaves() {
        assert_eq!(counts(Policy::Lazy, 400_000_000, 1_000_000, 2, 8), (512, 512));
        assert_eq!(counts(Policy::Lazy, 8192 * 8192, 256 * 256, 4, 8), (1024, 1024));
    }

    /// Source: eight processors have eight leaves and seven blocked parents; in four parts, 16 leaves.
    #[test]
    fn adaptive_has_branches_to_the_level_leaves() {
        assert_eq!(counts(Policy::Adaptive, 1 << 30, 1, 2, 8), (15, 8));
        assert_eq!(counts(Policy::Adaptive, 1 << 30, 1, 4, 8), (21, 16));
        for (branches, workers) in [(2, 1), (2, 5), (3, 9), (3, 10), (4, 64), (7, 50)] {
            let level = (0..).find(|&level| (branches as u64).pow(level) >= workers).unwrap();
            let leaves = (branches as u64).pow(level);
            assert_eq!(counts(Policy::Adaptive, 1 << 60, 1, branches, workers).1, leaves);
            let in_place = counts(Policy::AdaptiveInPlace, 1 << 60, 1, branches, workers);
            assert_eq!(in_place, (leaves, leaves));
        }
    }

    #[test]
    fn adaptive_stops_at_the_threshold_too() {
        assert_eq!(counts(Policy::Adaptive, 4, 1, 2, 1000), (7, 4));
        assert_eq!(counts(Policy::AdaptiveInPlace, 1, 1, 2, 1000), (1, 1));
    }
}
