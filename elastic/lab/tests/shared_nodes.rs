//! Jobs that share nodes, on random workloads: no node has more than its cores and memory, and jobs that fill their nodes
//! run as jobs that have their nodes to themselves.

use std::collections::BTreeMap;
use std::num::NonZeroU32;

use elastic_lab::simulate::{
    Ending, Observer, Outcome, Settings, Sharing, SimulateError, Simulation,
};
use elastic_lab::workload::{JobSpec, Name, Work, Workload};
use elastic_policy::action::{Action, Decision};
use elastic_policy::job::{Class, JobId, Limits};
use elastic_policy::rooms::{Need, Share};
use elastic_policy::state::Cluster;
use elastic_policy::time::{Span, Time};
use proptest::prelude::*;

const NODES: u32 = 6;
const CORES: u32 = 4;
const MEMORY: u32 = 64;
const SHARING: [&str; 3] = ["fcfs", "easy", "easy-short"];

fn spec(submitted: u64, nodes: u32, (cores, memory): (u32, u32), times: (u64, u64)) -> JobSpec {
    JobSpec {
        name: Name::Number(0),
        submitted: Time::seconds(submitted),
        class: Class::Rigid,
        limits: Limits::exactly(nodes),
        share: NonZeroU32::new(cores).map(|cores| Share { cores, memory }),
        priority: 0,
        walltime: Span::seconds(times.0),
        work: Work::Fixed(Span::seconds(times.1)),
    }
}

/// Some jobs share nodes, some have no cores in the log, some are too large.
fn jobs() -> impl Strategy<Value = Vec<JobSpec>> {
    let job = (0_u64..60, 1_u32..NODES + 2, 0_u32..20, 0_u32..120, 1_u64..20, 0_u64..20);
    prop::collection::vec(job, 1..40).prop_map(|jobs| {
        let job = |(at, nodes, cores, memory, walltime, less): (u64, u32, u32, u32, u64, u64)| {
            let runtime = walltime.saturating_sub(less / 2).max(1);
            spec(at, nodes, (cores, memory), (walltime, runtime))
        };
        Workload::new(jobs.into_iter().map(job).collect(), None).jobs
    })
}

/// The first promise to each job.
#[derive(Default)]
struct Promises(BTreeMap<JobId, Time>);

impl Observer for Promises {
    fn decided(&mut self, _now: Time, decision: &Decision) {
        if let Action::Reserve { job, at, .. } = decision.action {
            self.0.entry(job).or_insert(at);
        }
    }
}

fn run(
    jobs: &[JobSpec],
    name: &str,
    cores_per_node: u32,
    sharing: Option<Sharing>,
) -> Result<(Outcome, Promises), SimulateError> {
    let mut policy = elastic_policy::named::policy(name).expect("a name of the list");
    let settings = Settings::new(Cluster { nodes: NODES, cores_per_node });
    let settings = Settings { sharing, keep_course: true, ..settings };
    let (workload, mut promises) = (Workload::new(jobs.to_vec(), None), Promises::default());
    let simulation = Simulation::new(&workload, settings, policy.as_mut(), &mut promises);
    let outcome = simulation.run()?;
    Ok((outcome, promises))
}

/// Returns the largest number of cores and memory in use on a node at any start of a job, from the
/// pieces and the shares.
fn most(jobs: &[JobSpec], outcome: &Outcome) -> (u32, u32) {
    let mut held: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
    for piece in &outcome.pieces {
        held.entry(piece.job).or_default().extend(piece.nodes.first..piece.nodes.end());
    }
    let mut uses = Vec::new();
    for (job, nodes) in held {
        let (spec, record) = (&jobs[job as usize], &outcome.records[job as usize]);
        let list = elastic_policy::nodes::NodeList::of(&nodes);
        let whole = elastic_policy::rooms::Room { cores: CORES, memory: MEMORY };
        let need = match spec.share {
            Some(share) => Need::spread(share, spec.limits.start),
            None => Need::whole(whole, spec.limits.start),
        };
        for (node, room) in need.on(&list) {
            uses.push((node, room, record.started.expect("it has nodes"), record.ended));
        }
    }
    let mut most = (0, 0);
    for &(node, _, at, _) in &uses {
        let there = uses.iter().filter(|one| one.0 == node && one.2 <= at && at < one.3);
        let sum = there.fold((0, 0), |sum, one| (sum.0 + one.1.cores, sum.1 + one.1.memory));
        most = (most.0.max(sum.0), most.1.max(sum.1));
    }
    most
}

#[test]
fn jobs_of_one_core_run_at_once_on_a_node() {
    let mut all = vec![spec(0, 1, (1, 0), (60, 60)); 4];
    for name in SHARING {
        let ended = |jobs: &[JobSpec], sharing| {
            let (outcome, _) = run(jobs, name, CORES, sharing).unwrap();
            (outcome.bounds().1.as_seconds(), outcome.pieces.iter().map(|it| it.nodes.first).max())
        };
        assert_eq!(ended(&all, Some(Sharing::default())), (60.0, Some(0)), "{name}");
        assert_eq!(ended(&all, None), (60.0, Some(3)), "{name}");
    }
    // Memory for two jobs at a time on each of six nodes.
    all = vec![spec(0, 1, (1, 30), (60, 60)); 13];
    let sharing = Sharing { memory: Some(MEMORY) };
    let (outcome, _) = run(&all, "easy", CORES, Some(sharing)).unwrap();
    assert_eq!(outcome.bounds().1, Time::seconds(120));
    // 13 core-minutes of 24 cores over two minutes.
    assert!((outcome.utilisation() - 13.0 * 60.0 / (24.0 * 120.0)).abs() < 1e-9);
}

#[test]
fn small_job_goes_first_where_it_leaves_room() {
    // Node by node: the first job fills five nodes and half of the last one; the second one needs all of one node.
    let jobs = [
        spec(0, 6, (22, 0), (10, 10)),
        spec(1, 6, (24, 0), (5, 5)),
        spec(2, 1, (1, 0), (5, 5)),
        spec(3, 1, (1, 0), (50, 50)),
    ];
    let starts = |name| {
        let (outcome, _) = run(&jobs, name, CORES, Some(Sharing::default())).unwrap();
        let starts = outcome.records.iter().map(|record| record.started.unwrap().0 / 1000);
        starts.collect::<Vec<_>>()
    };
    assert_eq!(starts("fcfs"), [0, 10, 15, 15]);
    assert_eq!(starts("easy"), [0, 10, 2, 15], "the fourth would delay the second");
}

#[test]
fn policy_of_whole_nodes_refuses_to_share() {
    for (name, _) in elastic_policy::named::ALL.iter().filter(|known| !SHARING.contains(&known.0)) {
        let error = run(&[], name, CORES, Some(Sharing::default())).err().unwrap();
        assert!(error.to_string().ends_with("fcfs, easy and easy-short can share them among jobs"));
    }
}

/// The times that are promised to the first job of the queue.
#[derive(Default)]
struct Reserved(Vec<u64>);

impl Observer for Reserved {
    fn decided(&mut self, _now: Time, decision: &Decision) {
        if let Action::Reserve { at, .. } = decision.action {
            self.0.push(at.0 / 1000);
        }
    }
}

#[test]
fn promise_on_shared_nodes_changes_only_with_its_time() {
    let whole = (CORES, 0);
    let running = [spec(0, 1, whole, (100, 10)), spec(0, 1, whole, (50, 50))];
    let waiting = [spec(1, 2, (2 * CORES, 0), (10, 10)), spec(2, 1, whole, (1000, 10))];
    let workload = Workload::new([running, waiting].concat(), None);
    let settings = Settings::new(Cluster { nodes: 2, cores_per_node: CORES });
    let settings = Settings { sharing: Some(Sharing::default()), ..settings };
    let mut policy = elastic_policy::named::policy("easy").expect("a name of the list");
    let mut reserved = Reserved::default();
    Simulation::new(&workload, settings, policy.as_mut(), &mut reserved).run().unwrap();
    assert_eq!(reserved.0, [100, 50, 60]);
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(200) })]

    #[test]
    fn no_node_is_over_its_cores_or_memory(jobs in jobs()) {
        for name in SHARING {
            let sharing = Sharing { memory: Some(MEMORY) };
            let (outcome, _) = run(&jobs, name, CORES, Some(sharing))?;
            let (cores, memory) = most(&jobs, &outcome);
            prop_assert!(cores <= CORES && memory <= MEMORY, "{name}: {cores} {memory}");
            for (record, spec) in outcome.records.iter().zip(&jobs) {
                let too_large = spec.limits.start > NODES || spec.share.is_some_and(|share| {
                    share.cores.get().div_ceil(spec.limits.start) > CORES
                        || share.memory.div_ceil(spec.limits.start) > MEMORY
                });
                prop_assert_eq!(record.ending == Ending::Rejected, too_large, "{}: {:?}", name, spec);
            }
            prop_assert!(outcome.utilisation() <= 1.0);
        }
    }

    #[test]
    fn jobs_that_fill_their_nodes_run_as_alone(jobs in jobs(), cores_per_node in 1_u32..5, known in any::<bool>()) {
        let filling = |spec: &JobSpec| JobSpec {
            share: NonZeroU32::new(spec.limits.start * cores_per_node)
                .map(|cores| Share { cores, memory: 0 })
                .filter(|_| known),
            ..spec.clone()
        };
        let jobs: Vec<JobSpec> = jobs.iter().map(filling).collect();
        for name in SHARING {
            let (alone, _) = run(&jobs, name, cores_per_node, None)?;
            let (shared, _) = run(&jobs, name, cores_per_node, Some(Sharing::default()))?;
            prop_assert_eq!(&shared.records, &alone.records, "{}", name);
            prop_assert_eq!(&shared.pieces, &alone.pieces, "{}", name);
            prop_assert_eq!(&shared.load, &alone.load, "{}", name);
        }
    }

    #[test]
    fn first_promise_to_each_job_is_kept(jobs in jobs()) {
        for name in ["easy", "easy-short"] {
            let sharing = Sharing { memory: Some(MEMORY) };
            let (outcome, promises) = run(&jobs, name, CORES, Some(sharing))?;
            for (job, at) in promises.0 {
                prop_assert!(outcome.records[job.0 as usize].started.is_some_and(|start| start <= at));
            }
        }
    }
}
