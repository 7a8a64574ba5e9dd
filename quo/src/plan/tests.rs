//! The promises of `distribute`, each as an invariant over random machines, masks and limits, and a
//! table of plans for known machines.

use proptest::prelude::*;

use super::*;
use crate::CpuSet;

/// A machine and the masks of the ranks on it.
#[derive(Clone, Debug)]
struct Case {
    objects: Vec<CpuSet>,
    allowed: CpuSet,
    masks: Vec<CpuSet>,
    max_per_object: usize,
}

impl Case {
    fn plan(&self, policy: Policy) -> Distribution {
        distribute(&DistributeRequest {
            objects: &self.objects,
            allowed: &self.allowed,
            masks: &self.masks,
            max_per_object: self.max_per_object,
            policy,
        })
        .unwrap()
    }

    fn eligible(&self, rank: usize, object: usize) -> bool {
        let here = self.masks[rank].intersection(&self.objects[object]);
        here.intersects(&self.allowed)
    }

    fn unbound(&self, rank: usize) -> bool {
        self.allowed.is_subset(&self.masks[rank])
    }

    /// Returns the written order of priority: a smaller key goes first.
    fn priority(&self, rank: usize) -> (u8, usize, usize, usize) {
        let mask = self.masks[rank].intersection(&self.allowed);
        let touched = self.objects.iter().filter(|object| object.intersects(&mask)).count();
        if self.unbound(rank) {
            (2, 0, 0, rank)
        } else if touched > 0 && self.objects.iter().any(|object| mask.is_subset(object)) {
            (0, 0, 0, rank)
        } else {
            (1, touched, mask.len(), rank)
        }
    }

    fn by_priority(&self) -> Vec<usize> {
        let mut ranks: Vec<usize> = (0..self.masks.len()).collect();
        ranks.sort_by_key(|&rank| self.priority(rank));
        ranks
    }

    fn loads(&self, plan: &Distribution) -> Vec<usize> {
        (0..self.objects.len()).map(|object| plan.workers_on(object).len()).collect()
    }

    /// Returns every way to give ranks places, as objects by rank.
    fn every_assignment(&self) -> Vec<Vec<Option<usize>>> {
        let mut all = vec![Vec::new()];
        for rank in 0..self.masks.len() {
            let mut longer = Vec::new();
            for start in &all {
                let free = |object: usize| {
                    start.iter().filter(|&&o| o == Some(object)).count() < self.max_per_object
                };
                let choices = (0..self.objects.len())
                    .filter(|&object| self.eligible(rank, object) && free(object))
                    .map(Some);
                for choice in choices.chain([None]) {
                    longer.push([start.as_slice(), &[choice]].concat());
                }
            }
            all = longer;
        }
        all
    }
}

fn squares(object_of: &[Option<usize>], objects: usize) -> usize {
    (0..objects).map(|o| object_of.iter().filter(|&&at| at == Some(o)).count().pow(2)).sum()
}

/// Generates consecutive objects, sometimes of different sizes, sometimes with an empty one or one
/// that overlaps its neighbour; a few CPUs not allowed; masks that are single CPUs, whole objects,
/// neighbours, random sets, or everything.
fn case(objects: usize, ranks: usize, max_per_object: usize) -> impl Strategy<Value = Case> {
    let sizes = proptest::collection::vec((0_usize..6, prop::bool::weighted(0.15)), 1..=objects);
    (sizes, 1..=max_per_object)
        .prop_flat_map(move |(sizes, max_per_object)| {
            let mut objects = Vec::new();
            let mut next = 0;
            for (size, overlaps) in sizes {
                let start = if overlaps { next.max(2) - 2 } else { next };
                objects.push(CpuSet::from_range(start..next + size));
                next += size;
            }
            let cpus = next.max(1);
            let removed = prop_oneof![
                2 => Just(Vec::new()),
                1 => proptest::collection::vec(0..cpus, 0..=cpus / 3),
            ];
            let mask = prop_oneof![
                3 => (0..cpus).prop_map(CpuSet::single),
                2 => (0..objects.len()).prop_map({
                    let objects = objects.clone();
                    move |object| objects[object].clone()
                }),
                2 => (0..cpus, 1_usize..8)
                    .prop_map(move |(first, len)| (first..cpus.min(first + len)).collect()),
                1 => proptest::collection::vec(0..cpus, 1..6)
                    .prop_map(|cpus| cpus.into_iter().collect()),
                2 => Just(CpuSet::from_range(0..cpus)),
            ];
            let masks = proptest::collection::vec(mask, 1..=ranks);
            (Just(objects), Just(cpus), removed, masks, Just(max_per_object))
        })
        .prop_filter_map("every rank runs somewhere", |(objects, cpus, removed, masks, max)| {
            let removed: CpuSet = removed.into_iter().collect();
            let allowed = CpuSet::from_range(0..cpus).difference(&removed);
            (!allowed.is_empty() && masks.iter().all(|mask| !mask.is_empty())).then_some(Case {
                objects,
                allowed,
                masks,
                max_per_object: max,
            })
        })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn no_object_gets_more_workers_than_allowed(case in case(6, 20, 4)) {
        for policy in [Policy::Spread, Policy::LibquoCompat] {
            let plan = case.plan(policy);
            prop_assert_eq!(plan.object_of.len(), case.masks.len());
            prop_assert!(case.loads(&plan).iter().all(|&load| load <= case.max_per_object));
        }
    }

    #[test]
    fn workers_fit_their_objects_and_objects_without_cpus_get_none(
        case in case(6, 20, 4),
    ) {
        for policy in [Policy::Spread, Policy::LibquoCompat] {
            let plan = case.plan(policy);
            for (rank, object) in plan.object_of.iter().enumerate() {
                if let Some(object) = *object {
                    prop_assert!(case.eligible(rank, object));
                    prop_assert!(case.objects[object].intersects(&case.allowed));
                }
            }
        }
    }

    #[test]
    fn equal_questions_have_equal_answers(case in case(6, 20, 4)) {
        prop_assert_eq!(case.plan(Policy::Spread), case.clone().plan(Policy::Spread));
        prop_assert_eq!(case.plan(Policy::LibquoCompat), case.clone().plan(Policy::LibquoCompat));
    }

    #[test]
    fn rank_inside_one_object_is_passed_over_only_for_equals(case in case(6, 20, 3)) {
        let plan = case.plan(Policy::Spread);
        for rank in (0..case.masks.len()).filter(|&rank| case.priority(rank).0 == 0) {
            let own: Vec<usize> =
                (0..case.objects.len()).filter(|&object| case.eligible(rank, object)).collect();
            if let ([object], false) = (own.as_slice(), plan.is_selected(rank)) {
                let workers = plan.workers_on(*object);
                prop_assert_eq!(workers.len(), case.max_per_object);
                prop_assert!(workers.iter().all(|&worker| case.priority(worker) < case.priority(rank)));
            }
        }
    }

    #[test]
    fn unbound_ranks_take_no_place_of_a_bound_rank(case in case(6, 20, 3)) {
        let plan = case.plan(Policy::Spread);
        let bound: Vec<usize> = (0..case.masks.len()).filter(|&rank| !case.unbound(rank)).collect();
        let selected = |ranks: &[usize]| ranks.iter().filter(|&&r| plan.is_selected(r)).count();
        if !bound.is_empty() {
            let masks = bound.iter().map(|&rank| case.masks[rank].clone()).collect();
            let alone = Case { masks, ..case.clone() }.plan(Policy::Spread);
            prop_assert_eq!(selected(&bound), alone.selected().len());
        }
        // Lower unbound ranks go first, and they fill until every usable object is full.
        let unbound: Vec<usize> = (0..case.masks.len()).filter(|&rank| case.unbound(rank)).collect();
        let filling = selected(&unbound);
        prop_assert!(unbound[..filling].iter().all(|&rank| plan.is_selected(rank)));
        if filling < unbound.len() {
            let full = case.objects.iter().zip(case.loads(&plan)).all(|(object, load)| {
                load == case.max_per_object || !object.intersects(&case.allowed)
            });
            prop_assert!(full);
        }
    }

    #[test]
    fn no_move_of_one_worker_would_spread_better(case in case(6, 20, 4)) {
        let plan = case.plan(Policy::Spread);
        let loads = case.loads(&plan);
        for (rank, object) in plan.object_of.iter().enumerate() {
            for other in (0..loads.len()).filter(|&other| case.eligible(rank, other)) {
                if let Some(object) = *object {
                    prop_assert!(loads[object] <= loads[other] + 1);
                }
            }
        }
    }

    #[test]
    fn workers_are_the_most_by_priority_and_evenly_spread(
        case in case(4, 6, 3),
    ) {
        let plan = case.plan(Policy::Spread);
        let order = case.by_priority();
        let key = |object_of: &[Option<usize>]| -> Vec<bool> {
            order.iter().map(|&rank| object_of[rank].is_some()).collect()
        };
        let all = case.every_assignment();
        let best = all.iter().map(|assignment| key(assignment)).max().unwrap();
        prop_assert_eq!(&key(&plan.object_of), &best);
        let most = all.iter().map(|assignment| assignment.iter().flatten().count()).max().unwrap();
        prop_assert_eq!(plan.selected().len(), most);
        let evenest = all
            .iter()
            .filter(|assignment| key(assignment) == best)
            .map(|assignment| squares(assignment, case.objects.len()))
            .min()
            .unwrap();
        prop_assert_eq!(squares(&plan.object_of, case.objects.len()), evenest);
    }

    #[test]
    fn many_objects_are_treated_as_few_are(
        shift in 1_usize..150,
        case in case(6, 20, 3),
    ) {
        // The same machine behind objects without CPUs: the same plan, with shifted indices.
        let mut objects = vec![CpuSet::new(); shift];
        objects.extend(case.objects.iter().cloned());
        let behind = Case { objects, ..case.clone() }.plan(Policy::Spread);
        let expected: Vec<Option<usize>> =
            case.plan(Policy::Spread).object_of.iter().map(|o| o.map(|o| o + shift)).collect();
        prop_assert_eq!(behind.object_of, expected);
    }

    #[test]
    fn the_literal_policy_follows_the_letter(case in case(6, 20, 4)) {
        let plan = case.plan(Policy::LibquoCompat);
        let selected: Vec<bool> =
            (0..case.masks.len()).map(|rank| transcription::selected(&case, rank)).collect();
        let planned: Vec<bool> =
            (0..case.masks.len()).map(|rank| plan.is_selected(rank)).collect();
        prop_assert_eq!(planned, selected);
    }
}

/// The published pseudo-code, written on sets and evaluated rank by rank.
mod transcription {
    use super::Case;
    use std::collections::BTreeSet;

    pub(super) fn selected(case: &Case, u: usize) -> bool {
        let m = case.max_per_object;
        let t: BTreeSet<usize> = (0..case.masks.len()).collect();
        let a: Vec<BTreeSet<usize>> = (0..case.objects.len())
            .map(|r| t.iter().copied().filter(|&rank| case.eligible(rank, r)).collect())
            .collect();
        let i = a.iter().fold(t.clone(), |i, set| i.intersection(set).copied().collect());
        if i == t {
            return u < m * a.len();
        }
        if i.contains(&u) {
            return false;
        }
        for set in a {
            if set.iter().position(|&rank| rank == u).is_some_and(|index| index < m) {
                return true;
            }
        }
        false
    }
}

fn list(text: &str) -> CpuSet {
    text.parse().unwrap()
}

fn lists(texts: &[&str]) -> Vec<CpuSet> {
    texts.iter().map(|text| list(text)).collect()
}

/// `0 - 1` reads: rank 0 works on object 0, rank 1 does not work, rank 2 works on object 1.
fn row(plan: &Distribution) -> String {
    let cell = |object: &Option<usize>| object.map_or("-".to_owned(), |o| o.to_string());
    plan.object_of.iter().map(cell).collect::<Vec<_>>().join(" ")
}

/// One line of the table: the machine and the launch, and the expected result.
struct Golden {
    what: &'static str,
    objects: &'static [&'static str],
    allowed: &'static str,
    masks: &'static [&'static str],
    max_per_object: usize,
    promise: &'static str,
    literal: &'static str,
}

const GOLDEN: &[Golden] = &[
    // Two packages of four cores.
    Golden {
        what: "two packages, a rank per core",
        objects: &["0-3", "4-7"],
        allowed: "0-7",
        masks: &["0", "1", "2", "3", "4", "5", "6", "7"],
        max_per_object: 2,
        promise: "0 0 - - 1 1 - -",
        literal: "0 0 - - 1 1 - -",
    },
    Golden {
        what: "two packages, ranks bound to packages in turn",
        objects: &["0-3", "4-7"],
        allowed: "0-7",
        masks: &["0-3", "4-7", "0-3", "4-7", "0-3", "4-7", "0-3", "4-7"],
        max_per_object: 1,
        promise: "0 1 - - - - - -",
        literal: "0 1 - - - - - -",
    },
    Golden {
        what: "two packages, nobody bound",
        objects: &["0-3", "4-7"],
        allowed: "0-7",
        masks: &["0-7", "0-7", "0-7", "0-7", "0-7", "0-7", "0-7", "0-7"],
        max_per_object: 2,
        promise: "0 1 0 1 - - - -",
        literal: "0 1 0 1 - - - -",
    },
    Golden {
        what: "two packages, the upper half bound to cores of package 0, the lower half unbound",
        objects: &["0-3", "4-7"],
        allowed: "0-7",
        masks: &["0-7", "0-7", "0-7", "0-7", "0", "1", "2", "3"],
        max_per_object: 2,
        promise: "1 1 - - 0 0 - -",
        literal: "- - - - - - - -",
    },
    Golden {
        what: "two packages, four ranks across or beside the boundary go before the unbound one",
        objects: &["0-3", "4-7"],
        allowed: "0-7",
        masks: &["2-5", "0-4", "3-4", "3", "0-7"],
        max_per_object: 2,
        promise: "0 1 1 0 -",
        literal: "- - - - -",
    },
    // Four NUMA nodes, the last without CPUs (memory only), one more withheld by the job's cpuset.
    Golden {
        what: "four NUMA nodes of which two can be used",
        objects: &["0-1", "2-3", "4-5", ""],
        allowed: "0-3",
        masks: &["0-1", "2-3", "0-3", "0-3"],
        max_per_object: 2,
        promise: "0 1 0 1",
        literal: "0 1 0 -",
    },
    // Two NUMA nodes with different memory over the same CPUs, per package.
    Golden {
        what: "memory of two kinds: NUMA nodes that share their CPUs",
        objects: &["0-3", "4-7", "0-3", "4-7"],
        allowed: "0-7",
        masks: &["0", "1", "4", "5"],
        max_per_object: 1,
        promise: "0 2 1 3",
        literal: "0 - 1 -",
    },
    // A desktop: one package, two wide cores with two hardware threads and four narrow ones.
    Golden {
        what: "one package of unlike cores, ranks bound to cores, one of them twice",
        objects: &["0-1", "2-3", "4", "5", "6", "7"],
        allowed: "0-7",
        masks: &["0-1", "0-1", "2-3", "4", "7", "0-7"],
        max_per_object: 1,
        promise: "0 - 1 2 5 3",
        literal: "0 - 1 2 5 -",
    },
    // A node larger than 64 objects and 128 CPUs: eight packages of 32 cores, one rank each.
    Golden {
        what: "eight packages of 32 cores, three ranks bound to packages, two unbound",
        objects: &["0-31", "32-63", "64-95", "96-127", "128-159", "160-191", "192-223", "224-255"],
        allowed: "0-255",
        masks: &["224-255", "0-31", "128-159", "0-255", "0-255"],
        max_per_object: 4,
        promise: "7 0 4 1 2",
        literal: "7 0 4 - -",
    },
    // The smallest machine.
    Golden {
        what: "one CPU, two ranks",
        objects: &["0"],
        allowed: "0",
        masks: &["0", "0"],
        max_per_object: 1,
        promise: "0 -",
        literal: "0 -",
    },
];

#[test]
fn known_machines_get_the_plans_of_the_table() {
    for golden in GOLDEN {
        let case = Case {
            objects: lists(golden.objects),
            allowed: list(golden.allowed),
            masks: lists(golden.masks),
            max_per_object: golden.max_per_object,
        };
        assert_eq!(row(&case.plan(Policy::Spread)), golden.promise, "{}", golden.what);
        assert_eq!(
            row(&case.plan(Policy::LibquoCompat)),
            golden.literal,
            "{}: literal",
            golden.what
        );
    }
}

#[test]
fn a_flexible_rank_makes_room_for_one_that_is_not() {
    // Ranks 0 and 2 fit objects 0 and 1 only, so rank 1, which got 1 first, has to move to 2.
    let case = Case {
        objects: lists(&["0-1", "2-3", "4-5"]),
        allowed: list("0-7"),
        masks: lists(&["1-2", "3-4", "0-2", "0-3"]),
        max_per_object: 1,
    };
    let plan = case.plan(Policy::Spread);
    assert_eq!(row(&plan), "0 2 1 -");
    assert_eq!(plan.selected(), [0, 1, 2]);
    assert_eq!(plan.workers_on(1), [2]);
    assert!(!plan.is_selected(3) && !plan.is_selected(99));
}

#[test]
fn requests_without_sense_are_refused_with_their_reason() {
    let objects = lists(&["0-3"]);
    let allowed = list("0-3");
    let masks = lists(&["0", "1"]);
    let good = DistributeRequest {
        objects: &objects,
        allowed: &allowed,
        masks: &masks,
        max_per_object: 1,
        policy: Policy::Spread,
    };
    let nobody = lists(&["0", ""]);
    let empty = CpuSet::new();
    let refused = [
        (DistributeRequest { max_per_object: 0, ..good }, PlanError::NoWorkersAllowed),
        (DistributeRequest { objects: &[], ..good }, PlanError::NoObjects),
        (DistributeRequest { masks: &[], ..good }, PlanError::NoRanks),
        (DistributeRequest { allowed: &empty, ..good }, PlanError::NothingAllowed),
        (DistributeRequest { masks: &nobody, ..good }, PlanError::EmptyMask { node_rank: 1 }),
    ];
    for (request, error) in refused {
        for policy in [Policy::Spread, Policy::LibquoCompat] {
            assert_eq!(distribute(&DistributeRequest { policy, ..request }), Err(error.clone()));
        }
    }
    assert!(distribute(&good).is_ok());
}

#[test]
fn a_limit_without_bound_selects_everybody() {
    let case = Case {
        objects: lists(&["0-3", "4-7"]),
        allowed: list("0-7"),
        masks: lists(&["0-7", "0-7", "0-7"]),
        max_per_object: usize::MAX,
    };
    for policy in [Policy::Spread, Policy::LibquoCompat] {
        assert_eq!(row(&case.plan(policy)), "0 1 0");
    }
}
