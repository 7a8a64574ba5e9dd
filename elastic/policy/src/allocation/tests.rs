//! Strategies on the examples of the source, and their invariants.

use proptest::prelude::*;

use super::*;

fn candidate(job: u32, size: u32, next: u32, potential: Option<f64>) -> Candidate {
    Candidate {
        job: JobId(job),
        size,
        next: Some(next),
        potential,
        promises: potential.is_none_or(|slope| slope > 0.2),
        holds: false,
        next_point: Time::seconds(100),
        rank: Rank::default(),
        shrinks: Vec::new(),
        contract: false,
    }
}

fn shrinkable(job: u32, size: u32, points: &[(u32, f64)]) -> Candidate {
    let mut one = candidate(job, size, size * 2, None);
    one.shrinks = points
        .iter()
        .map(|(nodes, factor)| SmallerSize { nodes: *nodes, factor: *factor })
        .collect();
    one
}

fn need(missing: u32) -> Need {
    Need { job: JobId(99), missing, rank: Rank { class: 0, ageing: 5.0 } }
}

#[test]
fn max_benefit_sets_nodes_aside_for_higher_potentials_due_earlier() {
    let job = candidate(0, 8, 16, Some(0.5));
    let mut better = candidate(1, 16, 32, Some(0.9));
    better.next_point = Time::seconds(50);
    let decide = |other: &Candidate, idle| {
        Expand::MaxBenefit.decide(&job, std::iter::once(other), idle).size
    };
    assert_eq!(decide(&better, 23), None, "16 of 23 are set aside");
    assert_eq!(decide(&better, 24), Some(16));
    better.next_point = Time::seconds(100);
    assert_eq!(decide(&better, 8), Some(16), "it is not due before the job's next resize point");
    better.next_point = Time::seconds(50);
    better.holds = true;
    assert_eq!(decide(&better, 8), Some(16), "at its sweet spot it gets nothing");
    better.holds = false;
    better.potential = Some(0.4);
    assert_eq!(decide(&better, 8), Some(16), "a lower potential does not go first");
    assert_eq!(decide(&better, 7), None);
    better.potential = job.potential;
    assert_eq!(decide(&better, 8), Some(16), "neither does an equal one");
}

#[test]
fn low_potentials_and_sweet_spots_do_not_expand() {
    let low = candidate(0, 8, 16, Some(0.1));
    let answer = Expand::MaxBenefit.decide(&low, std::iter::empty(), 100);
    assert_eq!(answer.size, None);
    assert_eq!(answer.reason, "keeps 8 nodes: its potential of 0.100 is too low");
    assert_eq!(
        Expand::Fcfs.decide(&low, std::iter::empty(), 100).size,
        Some(16),
        "FCFS has no threshold"
    );
    let first = candidate(0, 8, 16, None);
    assert_eq!(
        Expand::MaxBenefit.decide(&first, std::iter::empty(), 8).size,
        Some(16),
        "first expansions are free"
    );
    let sweet = Candidate { holds: true, ..first };
    assert_eq!(Expand::Fcfs.decide(&sweet, std::iter::empty(), 100).size, None);
    let largest = Candidate { next: None, ..sweet };
    assert_eq!(
        Expand::Fcfs.decide(&largest, std::iter::empty(), 100).reason,
        "keeps 8 nodes: its largest size"
    );
}

#[test]
fn uniform_expansion_needs_nodes_for_all() {
    let job = candidate(0, 8, 16, None);
    let others = [candidate(1, 4, 8, None), candidate(2, 16, 32, Some(0.1))];
    let kept = Expand::Uniform.decide(&job, others.iter(), 27);
    assert_eq!(
        (kept.size, &*kept.reason),
        (None, "keeps 8 nodes: to expand all takes 28 nodes, 27 are idle")
    );
    assert_eq!(Expand::Uniform.decide(&job, others.iter(), 28).size, Some(16));
    assert_eq!(Expand::Fcfs.decide(&job, others.iter(), 8).size, Some(16));
}

#[test]
fn higher_ranks_get_nodes_set_aside_whenever_they_are_due() {
    let job = candidate(0, 8, 16, Some(0.9));
    let mut platinum = candidate(1, 16, 32, Some(0.3));
    platinum.rank.class = 1;
    platinum.next_point = Time::seconds(1000);
    let decide = |job: &Candidate, other: &Candidate, idle| {
        Expand::MaxBenefitByRank.decide(job, std::iter::once(other), idle).size
    };
    assert_eq!(decide(&job, &platinum, 23), None);
    assert_eq!(decide(&job, &platinum, 24), Some(16));
    assert_eq!(decide(&platinum, &job, 16), Some(32), "the first in the list expands");
}

#[test]
fn least_impact_takes_from_the_least_affected_until_enough() {
    let cheap = shrinkable(1, 32, &[(16, 1.1), (8, 1.9)]);
    let dear = shrinkable(2, 64, &[(32, 1.8), (4, 9.0)]);
    let decide = |job: &Candidate, other: &Candidate, missing| {
        Reclaim::LeastImpact.decide(job, std::iter::once(other), need(missing)).size
    };
    assert_eq!(decide(&cheap, &dear, 16), Some(16));
    assert_eq!(decide(&dear, &cheap, 16), None, "the other one gives enough");
    assert_eq!(decide(&cheap, &dear, 17), Some(8), "one step is not enough");
    assert_eq!(decide(&dear, &cheap, 24), None);
    assert_eq!(decide(&dear, &cheap, 25), Some(32));
    assert_eq!(decide(&dear, &cheap, 100), Some(4), "all that it has");
    assert_eq!(decide(&shrinkable(3, 4, &[]), &cheap, 1), None, "at its start");
    assert_eq!(decide(&cheap, &dear, 0), None);
}

#[test]
fn no_rank_gives_to_a_lower_one() {
    let mut platinum = shrinkable(1, 32, &[(16, 1.1)]);
    platinum.rank.class = 1;
    let gold = shrinkable(2, 32, &[(16, 1.9)]);
    let decide = |job: &Candidate, other: &Candidate, need| {
        Reclaim::LeastImpactByRank.decide(job, std::iter::once(other), need).size
    };
    assert_eq!(decide(&platinum, &gold, need(16)), None);
    assert_eq!(
        decide(&gold, &platinum, need(16)),
        Some(16),
        "the cheaper one outranks the waiting job"
    );
    let high = Need { rank: Rank { class: 2, ageing: 0.0 }, ..need(17) };
    assert_eq!(decide(&platinum, &gold, high), Some(16), "after the gold job");
    assert_eq!(decide(&platinum, &gold, Need { missing: 16, ..high }), None, "gold gives first");
    let fcfs = |job: &Candidate, need| {
        Reclaim::FcfsContractByRank.decide(job, std::iter::empty(), need).size
    };
    assert_eq!(fcfs(&platinum, need(1)), None);
    assert_eq!(fcfs(&platinum, high), Some(16));
    let low = Need { rank: Rank { class: -1, ageing: 0.0 }, ..need(1) };
    assert_eq!(fcfs(&gold, low), Some(16), "a low job gives whatever waits");
}

#[test]
fn fair_contract_takes_once_from_each_before_twice_from_one() {
    let mut jobs = [
        shrinkable(0, 32, &[(16, 1.1), (8, 1.9)]),
        shrinkable(1, 32, &[(16, 1.1), (8, 1.9)]),
        shrinkable(2, 8, &[]),
    ];
    let mut gave = Vec::new();
    for index in [0, 0, 2, 1, 0, 0, 1] {
        let others: Vec<Candidate> = jobs
            .iter()
            .enumerate()
            .filter(|(other, _)| *other != index)
            .map(|(_, one)| one.clone())
            .collect();
        let answer = Reclaim::FairContract.decide(&jobs[index], others.iter(), need(50));
        if let Some(to) = answer.size {
            gave.push((index, to));
            for one in &mut jobs {
                one.contract = true;
            }
            jobs[index].contract = false;
            jobs[index].size = to;
            jobs[index].shrinks.retain(|point| point.nodes < to);
        }
    }
    assert_eq!(gave, [(0, 16), (1, 16), (0, 8), (1, 8)]);
}

#[test]
fn priority_is_that_of_the_formula() {
    let ageing = Ageing {
        qfactor_weight: 10.0,
        queue_time_weight: 0.5,
        nodes_weight: 2.0,
        qfactor_limit: 1.0,
    };
    assert_eq!(ageing.priority(60.0, 120.0, 8), 10.0 * 1.5 + 30.0 + 16.0);
    assert_eq!(ageing.priority(60.0, 0.1, 8), 10.0 * 61.0 + 30.0 + 16.0, "the limit");
    let (gold, platinum) = (Rank { class: 0, ageing: 1e9 }, Rank { class: 1, ageing: 0.0 });
    assert!(platinum.is_above(&gold) && !gold.is_above(&gold));
}

fn candidates() -> impl Strategy<Value = Vec<Candidate>> {
    let one = (
        1..60u32,
        1..60u32,
        proptest::option::of(-1.0..2.0f64),
        any::<bool>(),
        0..200u64,
        0..3i32,
        proptest::collection::btree_map(1..60u32, 0.5..4.0f64, 0..4),
        any::<bool>(),
    );
    proptest::collection::vec(one, 1..7).prop_map(|list| {
        list.into_iter()
            .enumerate()
            .map(|(index, (size, more, potential, holds, due, class, points, contract))| {
                let mut one = candidate(index as u32, size, size + more, potential);
                (one.holds, one.next_point, one.rank.class, one.contract) =
                    (holds, Time::seconds(due), class, contract);
                one.shrinks = points
                    .into_iter()
                    .filter(|(nodes, _)| *nodes < size)
                    .map(|(nodes, factor)| SmallerSize { nodes, factor })
                    .collect();
                one.shrinks.sort_by(|a, b| a.factor.total_cmp(&b.factor));
                one
            })
            .collect()
    })
}

proptest! {
    #[test]
    fn answers_are_possible_and_explained(jobs in candidates(), idle in 0..80u32, missing in 0..80u32) {
        let (job, others) = (&jobs[0], &jobs[1..]);
        for expand in [Expand::MaxBenefit, Expand::MaxBenefitByRank, Expand::Fcfs, Expand::Uniform] {
            let answer = expand.decide(job, others.iter(), idle);
            prop_assert!(!answer.reason.is_empty());
            if let Some(to) = answer.size {
                prop_assert_eq!(Some(to), job.next);
                prop_assert!(to - job.size <= idle && !job.holds);
            }
        }
        for reclaim in [Reclaim::LeastImpact, Reclaim::LeastImpactByRank, Reclaim::FairContract, Reclaim::FcfsContractByRank] {
            let answer = reclaim.decide(job, others.iter(), need(missing));
            prop_assert!(!answer.reason.is_empty());
            if let Some(to) = answer.size {
                prop_assert!(missing > 0 && job.shrinks.iter().any(|point| point.nodes == to));
            }
        }
    }

    #[test]
    fn the_walk_finds_enough_or_all(jobs in candidates(), missing in 0..120u32) {
        let list: Vec<&Candidate> = jobs.iter().collect();
        let taken = least_impact_walk(&list, missing, false);
        let freed: u32 = taken.iter().map(|(job, to)| jobs[job.0 as usize].size - to).sum();
        let most: u32 = jobs.iter().filter_map(|one| Some(one.size - one.smallest()?)).sum();
        prop_assert!(freed >= missing.min(most), "{} of {} and {}", freed, missing, most);
        prop_assert!(taken.len() <= jobs.len());
    }

    #[test]
    fn no_job_of_a_class_is_overtaken_for_ever(
        walltime in 0.0..1e6f64, nodes in 1..1000u32, other in 0.0..1e6f64, wait in 0.0..1e4f64,
        qfactor in 0.0..100.0f64, weight in 0.01..10.0f64, per_node in -1.0..1.0f64,
    ) {
        let ageing = Ageing { qfactor_weight: qfactor, queue_time_weight: weight, nodes_weight: per_node, qfactor_limit: 1.0 };
        let newcomer = ageing.priority(wait, other, 1000);
        // From some age on it is above each job that has waited no longer than `wait`.
        let bound = wait + (qfactor * wait + 2000.0) / weight + 1.0;
        prop_assert!(ageing.priority(bound, walltime, nodes) > newcomer);
    }
}
