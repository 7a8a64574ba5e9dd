//! Number of threads of each worker.

use super::Distribution;
use super::split::runs;
use crate::CpuSet;

/// Returns the number of threads of each rank, by node rank: 0 for a rank that was not selected.
///
/// The workers of an object share its allowed CPUs: numbers differ by at most one, lower node ranks
/// get the larger share, and their sum is the number of allowed CPUs of the object. A worker gets
/// at least one thread, so an object with more workers than CPUs is oversubscribed. Objects that
/// overlap, such as two NUMA nodes of one package, are counted separately. Local and pure.
///
/// ```
/// use quo::CpuSet;
/// use quo::plan::{Distribution, threads_per_worker};
/// let packages = [CpuSet::from_range(0..5), CpuSet::from_range(5..8)];
/// let plan = Distribution { object_of: vec![Some(0), Some(0), None, Some(1)] };
/// assert_eq!(threads_per_worker(&plan, &packages, &CpuSet::from_range(0..8)), [3, 2, 0, 3]);
/// ```
#[must_use]
pub fn threads_per_worker(
    distribution: &Distribution,
    objects: &[CpuSet],
    allowed: &CpuSet,
) -> Vec<usize> {
    let mut threads: Vec<usize> =
        distribution.object_of.iter().map(|object| usize::from(object.is_some())).collect();
    for (object, cpuset) in objects.iter().enumerate() {
        let workers = distribution.workers_on(object);
        let cpus = cpuset.intersection(allowed).len();
        for (&worker, share) in workers.iter().zip(runs(cpus, workers.len())) {
            threads[worker] = share.len().max(1);
        }
    }
    threads
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn worker_without_cpus_still_gets_a_thread() {
        let plan = Distribution { object_of: vec![Some(0), Some(7), None] };
        let objects = [CpuSet::single(9)];
        assert_eq!(threads_per_worker(&plan, &objects, &CpuSet::from_range(0..4)), [1, 1, 0]);
    }

    proptest! {
        #[test]
        fn the_threads_of_an_object_are_its_allowed_cpus(
            sizes in proptest::collection::vec(0_usize..9, 1..6),
            object_of in proptest::collection::vec(proptest::option::of(0_usize..6), 0..16),
            removed in proptest::collection::btree_set(0_usize..48, 0..20),
        ) {
            let mut objects = Vec::new();
            let mut next = 0;
            for size in sizes {
                objects.push(CpuSet::from_range(next..next + size));
                next += size;
            }
            let allowed =
                CpuSet::from_range(0..48).difference(&removed.into_iter().collect::<CpuSet>());
            let object_of: Vec<Option<usize>> =
                object_of.into_iter().map(|o| o.map(|o| o % objects.len())).collect();
            let plan = Distribution { object_of };
            let threads = threads_per_worker(&plan, &objects, &allowed);
            prop_assert_eq!(threads.len(), plan.object_of.len());
            for (rank, &count) in threads.iter().enumerate() {
                prop_assert_eq!(count == 0, !plan.is_selected(rank));
            }
            for (object, cpuset) in objects.iter().enumerate() {
                let shares: Vec<usize> =
                    plan.workers_on(object).iter().map(|&rank| threads[rank]).collect();
                let cpus = cpuset.intersection(&allowed).len();
                if let (Some(&first), Some(&last)) = (shares.first(), shares.last()) {
                    prop_assert_eq!(shares.iter().sum::<usize>(), cpus.max(shares.len()));
                    prop_assert!(first >= last && first - last <= 1);
                }
            }
        }
    }
}
