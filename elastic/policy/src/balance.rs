//! Node counts that make jobs end together, and the filling of idle nodes.

use std::cmp::Reverse;

/// A job that may change its size while others do.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Share {
    /// The nodes it has.
    pub nodes: u32,
    /// The seconds until its end on these nodes.
    pub remaining: f64,
    /// The fewest nodes it may have.
    pub min: u32,
    /// The most nodes it may have.
    pub max: u32,
}

impl Share {
    /// Makes a share without limits.
    #[must_use]
    pub fn free(nodes: u32, remaining: f64) -> Share {
        Share { nodes, remaining, min: 0, max: u32::MAX }
    }

    fn work(&self) -> f64 {
        f64::from(self.nodes) * self.remaining.max(0.0)
    }
}

/// Returns the node counts with which all jobs end together, if time falls as nodes are added: each
/// job's part of all nodes is that of its work in all work, rounded down. `idle` nodes are added to
/// all; a negative number takes nodes away. A job beyond a limit stays at the limit, and the others
/// share the rest. The sum never exceeds the available nodes, unless the minima alone do. A few
/// nodes may be left over.
///
/// ```
/// use elastic_policy::balance::{Share, balance};
/// assert_eq!(balance(&[Share::free(4, 10.0), Share::free(4, 30.0)], 0), [2, 6]);
/// ```
#[must_use]
pub fn balance(jobs: &[Share], idle: i64) -> Vec<u32> {
    let mut fixed: Vec<Option<u32>> = vec![None; jobs.len()];
    let held: i64 = jobs.iter().map(|job| i64::from(job.nodes)).sum();
    let total = u64::try_from(held + idle).unwrap_or(0);
    loop {
        let taken: u64 = fixed.iter().flatten().map(|nodes| u64::from(*nodes)).sum();
        let left = total.saturating_sub(taken) as f64;
        let open = || jobs.iter().zip(&fixed).enumerate().filter(|(_, (_, fixed))| fixed.is_none());
        let work: f64 = open().map(|(_, (job, _))| job.work()).sum();
        let ideal = |job: &Share| match work > 0.0 {
            true => left * job.work() / work,
            false => f64::from(job.nodes),
        };
        // Too small jobs first, then too large ones: the nodes that one kind frees or takes affect the
        // other.
        let (mut low, mut high, mut excess) = (Vec::new(), Vec::new(), 0.0);
        for (index, (job, _)) in open() {
            let nodes = ideal(job);
            if nodes < f64::from(job.min) {
                excess += f64::from(job.min) - nodes;
                low.push((index, job.min));
            } else if nodes > f64::from(job.max) {
                excess -= nodes - f64::from(job.max);
                high.push((index, job.max));
            }
        }
        if low.is_empty() && high.is_empty() {
            let of =
                |(job, fixed): (&Share, &Option<u32>)| fixed.unwrap_or(rounded_down(ideal(job)));
            return jobs.iter().zip(&fixed).map(of).collect();
        }
        for (index, limit) in if excess >= 0.0 && !low.is_empty() { low } else { high } {
            fixed[index] = Some(limit);
        }
    }
}

/// Rounds down. Products and quotients of whole numbers may be slightly below a whole number.
fn rounded_down(nodes: f64) -> u32 {
    (nodes + 1e-9).floor() as u32
}

/// Returns the instant from now on, in seconds, at which all jobs end together after [`balance`] without limits.
#[must_use]
pub fn common_end(jobs: &[Share], idle: u32) -> f64 {
    let nodes: f64 = jobs.iter().map(|job| f64::from(job.nodes)).sum::<f64>() + f64::from(idle);
    jobs.iter().map(Share::work).sum::<f64>() / nodes
}

/// Raises jobs to the upper end of their range, the one with the longest remaining time first,
/// until no node is idle. `fit` returns the largest size up to the second number that the job with
/// this index can have.
#[must_use]
pub fn fill(jobs: &[Share], idle: u32, fit: impl Fn(usize, u32) -> Option<u32>) -> Vec<u32> {
    let mut nodes: Vec<u32> = jobs.iter().map(|job| job.nodes).collect();
    let mut order: Vec<usize> = (0..jobs.len()).collect();
    order.sort_by(|a, b| jobs[*b].remaining.total_cmp(&jobs[*a].remaining));
    let mut idle = idle;
    for index in order {
        let most = nodes[index].saturating_add(idle).min(jobs[index].max);
        if let Some(size) = fit(index, most).filter(|size| (nodes[index]..=most).contains(size)) {
            idle -= size - nodes[index];
            nodes[index] = size;
        }
    }
    nodes
}

/// Chooses the running jobs that take part when `missing` nodes are needed: those with most nodes
/// to give, until there are enough. `None` if all together have too few.
#[must_use]
pub fn givers(jobs: &[Share], missing: u32) -> Option<Vec<usize>> {
    let mut order: Vec<usize> = (0..jobs.len()).collect();
    let gives = |index: usize| jobs[index].nodes.saturating_sub(jobs[index].min);
    order.sort_by_key(|index| (Reverse(gives(*index)), *index));
    let mut found = 0u32;
    let mut chosen = Vec::new();
    for index in order {
        if found >= missing || gives(index) == 0 {
            break;
        }
        found = found.saturating_add(gives(index));
        chosen.push(index);
    }
    chosen.sort_unstable();
    (found >= missing).then_some(chosen)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn two_jobs_of_4_nodes_become_2_and_6() {
        let jobs = [Share::free(4, 10.0), Share::free(4, 30.0)];
        assert_eq!(balance(&jobs, 0), [2, 6]);
        assert_eq!(common_end(&jobs, 0), 20.0);
        assert_eq!(balance(&jobs, 8), [4, 12]);
        assert_eq!(common_end(&jobs, 8), 10.0);
    }

    #[test]
    fn a_job_at_its_limit_leaves_the_rest_to_others() {
        let low = Share { min: 3, ..Share::free(4, 10.0) };
        assert_eq!(balance(&[low, Share::free(4, 30.0)], 0), [3, 5]);
        let high = Share { max: 5, ..Share::free(4, 30.0) };
        assert_eq!(balance(&[Share::free(4, 10.0), high], 0), [3, 5]);
        let no_work = [Share::free(4, 0.0), Share::free(4, 0.0)];
        assert_eq!(balance(&no_work, 3), [4, 4]);
        assert_eq!(balance(&[], 5), Vec::<u32>::new());
    }

    #[test]
    fn idle_nodes_go_to_the_longest_job_first() {
        let long = Share { max: 8, ..Share::free(4, 30.0) };
        let short = Share { max: 8, ..Share::free(4, 10.0) };
        let any = |_: usize, most: u32| Some(most);
        assert_eq!(fill(&[short, long], 6, any), [6, 8]);
        let squares = |_: usize, most: u32| crate::sizes::Sizes::Squares { cores: 16 }.fit(1, most);
        let cannon = Share { max: 32, ..Share::free(16, 600.0) };
        assert_eq!(fill(&[cannon], 8, squares), [23]);
        assert_eq!(
            fill(&[Share { nodes: 28, ..cannon }], 2, squares),
            [28],
            "30 hold no larger square"
        );
    }

    #[test]
    fn the_job_that_can_give_most_gives() {
        let of = |nodes, min| Share { min, ..Share::free(nodes, 10.0) };
        let jobs = [of(4, 2), of(10, 1), of(3, 3)];
        assert_eq!(givers(&jobs, 5), Some(vec![1]));
        assert_eq!(givers(&jobs, 10), Some(vec![0, 1]));
        assert_eq!(givers(&jobs, 12), None);
        assert_eq!(givers(&jobs, 0), Some(vec![]));
    }

    proptest! {
        #[test]
        fn balanced_counts_stay_in_their_limits_and_the_nodes(
            jobs in proptest::collection::vec((1..40u32, 0.0..1e4f64, 0..40u32, 0..60u32), 1..8), idle in 0..50u32,
        ) {
            let jobs: Vec<Share> = jobs.iter().map(|(nodes, remaining, below, above)| Share {
                nodes: *nodes, remaining: *remaining,
                min: nodes.saturating_sub(*below).max(1), max: nodes + above,
            }).collect();
            let total: u32 = jobs.iter().map(|job| job.nodes).sum::<u32>() + idle;
            let balanced = balance(&jobs, i64::from(idle));
            prop_assert!(balanced.iter().sum::<u32>() <= total);
            for (nodes, job) in balanced.iter().zip(&jobs) {
                prop_assert!((job.min..=job.max).contains(nodes), "{:?} {:?}", balanced, jobs);
            }
            let filled = fill(&jobs, idle, |_, most| Some(most));
            prop_assert!(filled.iter().zip(&jobs).all(|(nodes, job)| (job.nodes..=job.max).contains(nodes)));
            let left = total - filled.iter().sum::<u32>();
            prop_assert!(left == 0 || filled.iter().zip(&jobs).all(|(nodes, job)| *nodes == job.max));
        }

        #[test]
        fn balanced_jobs_without_limits_end_within_one_node(
            jobs in proptest::collection::vec((1..40u32, 1.0..1e4f64), 2..6),
        ) {
            let jobs: Vec<Share> = jobs.iter().map(|(nodes, remaining)| Share::free(*nodes, *remaining)).collect();
            let end = common_end(&jobs, 0);
            for (nodes, job) in balance(&jobs, 0).iter().zip(&jobs) {
                let exact = job.work() / end;
                prop_assert!(f64::from(*nodes) <= exact + 1e-6 && exact < f64::from(nodes + 1) + 1e-6);
            }
        }
    }
}
