//! Reassigns the CPUs of ranks that have left: their siblings get them.
//!
//! An object on which ranks remain already belongs to those ranks, as a whole. An object without
//! any remaining rank is *vacant*: ranks that would sleep work there, then ranks move there from
//! objects that have at least two more workers; and if there are not enough ranks for that, the
//! CPUs go to the workers that have the fewest.

use super::Distribution;
use crate::CpuSet;

/// Objects and ranks of a node, including ranks that have left.
#[derive(Clone, Copy, Debug)]
pub struct Vacancy<'a> {
    /// Objects that workers are spread over.
    pub objects: &'a [CpuSet],
    /// CPUs that the job may use on this node.
    pub allowed: &'a CpuSet,
    /// Mask of each present rank, by node rank.
    pub masks: &'a [Option<CpuSet>],
    /// CPUs of ranks that have left.
    pub left: &'a CpuSet,
    /// Maximum number of workers per object.
    pub max_per_object: usize,
}

impl Vacancy<'_> {
    /// Returns the objects whose ranks have all left. Objects with the same CPUs count once.
    #[must_use]
    pub fn objects(&self) -> Vec<usize> {
        let is_free = |cpus: &CpuSet| {
            let usable = cpus.intersection(self.allowed);
            usable.intersects(self.left)
                && !self.masks.iter().flatten().any(|mask| mask.intersects(&usable))
        };
        (0..self.objects.len())
            .filter(|&index| !self.objects[..index].contains(&self.objects[index]))
            .filter(|&index| is_free(&self.objects[index]))
            .collect()
    }

    /// Assigns workers to the vacant objects and returns the objects for which there was none.
    /// Pure.
    ///
    /// Ranks without work come first, then ranks of the objects with the most workers, higher node
    /// ranks before lower ones. An object that loses workers keeps at least as many as any vacant
    /// object gets.
    pub fn reassign_vacant_objects(&self, plan: &mut Distribution) -> Vec<usize> {
        let vacant = self.objects();
        let mut loads = vec![0_usize; self.objects.len()];
        for &object in plan.object_of.iter().flatten() {
            loads[object] += 1;
        }
        let emptiest = |loads: &[usize]| vacant.iter().copied().min_by_key(|&object| loads[object]);
        for node_rank in 0..plan.object_of.len() {
            let here = self.masks.get(node_rank).is_some_and(Option::is_some);
            let (true, None, Some(object)) = (here, plan.object_of[node_rank], emptiest(&loads))
            else {
                continue;
            };
            if loads[object] < self.max_per_object {
                plan.object_of[node_rank] = Some(object);
                loads[object] += 1;
            }
        }
        while let Some(object) = emptiest(&loads) {
            // The first of those with the most.
            let fullest = (0..loads.len()).rev().max_by_key(|&object| loads[object]);
            let Some(fullest) = fullest.filter(|&full| loads[full] >= loads[object] + 2) else {
                break;
            };
            let Some(rank) = plan.workers_on(fullest).pop() else { break };
            plan.object_of[rank] = Some(object);
            loads[fullest] -= 1;
            loads[object] += 1;
        }
        vacant.into_iter().filter(|&object| loads[object] == 0).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn packages(count: usize, cpus: usize) -> Vec<CpuSet> {
        (0..count).map(|index| CpuSet::from_range(index * cpus..(index + 1) * cpus)).collect()
    }

    fn settle(
        objects: &[CpuSet],
        cores: &[usize],
        left: &str,
        max: usize,
    ) -> (Vec<Option<usize>>, Vec<usize>) {
        let masks: Vec<_> = cores.iter().map(|&core| Some(CpuSet::single(core))).collect();
        let allowed = objects.iter().fold(CpuSet::new(), |all, object| all.union(object));
        let mut plan = Distribution { object_of: vec![None; cores.len()] };
        for (object, cpus) in objects.iter().enumerate() {
            let here = (0..cores.len()).filter(|&rank| cpus.contains(cores[rank])).take(max);
            here.for_each(|rank| plan.object_of[rank] = Some(object));
        }
        let left = &left.parse().unwrap();
        let vacancy =
            Vacancy { objects, allowed: &allowed, masks: &masks, left, max_per_object: max };
        let unserved = vacancy.reassign_vacant_objects(&mut plan);
        (plan.object_of, unserved)
    }

    #[test]
    fn idle_rank_takes_the_object_of_a_gone_one() {
        let (plan, unserved) = settle(&packages(2, 4), &[0, 1, 2, 3], "4-7", 1);
        assert_eq!(plan, [Some(0), Some(1), None, None]);
        assert!(unserved.is_empty());
    }

    #[test]
    fn workers_of_the_fullest_object_move_to_a_vacant_one() {
        let (plan, unserved) = settle(&packages(2, 4), &[0, 1, 2, 3], "4-7", 4);
        assert_eq!(plan, [Some(0), Some(0), Some(1), Some(1)]);
        assert!(unserved.is_empty());
    }

    #[test]
    fn an_object_with_a_rank_left_stays_that_rank_s() {
        let (plan, _) = settle(&packages(2, 4), &[0, 1, 2, 3, 4], "5-7", 4);
        assert_eq!(plan, [Some(0), Some(0), Some(0), Some(0), Some(1)]);
    }

    #[test]
    fn objects_that_never_had_a_rank_stay_empty() {
        let (plan, unserved) = settle(&packages(3, 4), &[0, 1], "4-7", 1);
        assert_eq!(plan, [Some(0), Some(1)]);
        assert!(unserved.is_empty(), "nobody was ever on the third");
    }

    #[test]
    fn what_one_rank_cannot_serve_is_told() {
        let (plan, unserved) = settle(&packages(4, 2), &[0], "2-7", 1);
        assert_eq!(plan, [Some(0)]);
        assert_eq!(unserved, [1, 2, 3]);
    }

    proptest! {
        #[test]
        fn nobody_stops_working_and_no_limit_is_broken(
            count in 1_usize..5,
            cores in prop::collection::vec(0_usize..16, 1..12),
            left in prop::collection::vec(0_usize..16, 0..16),
            max in 1_usize..5,
        ) {
            let objects = packages(count, 16 / count);
            let left: CpuSet = left.into_iter().collect();
            let masks: Vec<_> = cores.iter().map(|&core| Some(CpuSet::single(core))).collect();
            let allowed = CpuSet::from_range(0..16);
            let mut before = Distribution { object_of: vec![None; cores.len()] };
            for (object, cpus) in objects.iter().enumerate() {
                let here = (0..cores.len()).filter(|&rank| cpus.contains(cores[rank])).take(max);
                here.for_each(|rank| before.object_of[rank] = Some(object));
            }
            let mut after = before.clone();
            let vacancy = Vacancy {
                objects: &objects, allowed: &allowed, masks: &masks, left: &left, max_per_object: max,
            };
            let vacant = vacancy.objects();
            let unserved = vacancy.reassign_vacant_objects(&mut after);
            for rank in 0..cores.len() {
                prop_assert!(before.object_of[rank].is_none() || after.object_of[rank].is_some());
            }
            for object in 0..count {
                let workers = after.workers_on(object).len();
                prop_assert!(workers <= max);
                prop_assert!(workers > 0 || before.workers_on(object).is_empty());
                prop_assert_eq!(unserved.contains(&object), vacant.contains(&object) && workers == 0);
                prop_assert!(vacant.contains(&object) || workers <= before.workers_on(object).len());
            }
        }
    }
}
