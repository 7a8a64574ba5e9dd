//! Schedulers that never change a size, in the simulator.

use std::collections::BTreeMap;

use elastic_lab::simulate::{Observer, Outcome, Settings, Simulation};
use elastic_lab::workload::{JobSpec, Name, Work, Workload};
use elastic_policy::action::{Action, Decision};
use elastic_policy::job::{Class, JobId, Limits};
use elastic_policy::policy::Policy;
use elastic_policy::rigid::{Conservative, Easy, Fcfs};
use elastic_policy::state::Cluster;
use elastic_policy::time::{Span, Time};
use proptest::prelude::*;

const NODES: u32 = 10;

fn spec(submitted: u64, nodes: u32, walltime: u64, runtime: u64) -> JobSpec {
    JobSpec {
        name: Name::Number(0),
        submitted: Time::seconds(submitted),
        class: Class::Rigid,
        limits: Limits::exactly(nodes),
        share: None,
        priority: 0,
        walltime: Span::seconds(walltime),
        work: Work::Fixed(Span::seconds(runtime)),
    }
}

/// The first and the last promise to each job.
#[derive(Default)]
struct Promises {
    first: BTreeMap<JobId, Time>,
    later: Vec<(JobId, Time, Time)>,
    last: BTreeMap<JobId, Time>,
}

impl Observer for Promises {
    fn decided(&mut self, _now: Time, decision: &Decision) {
        if let Action::Reserve { job, at, .. } = decision.action {
            self.first.entry(job).or_insert(at);
            if let Some(before) = self.last.insert(job, at)
                && before < at
            {
                self.later.push((job, before, at));
            }
        }
    }
}

fn run(jobs: Vec<JobSpec>, policy: &mut dyn Policy) -> (Outcome, Promises) {
    let mut promises = Promises::default();
    let settings = Settings::new(Cluster { nodes: NODES, cores_per_node: 1 });
    let workload = Workload::new(jobs, None);
    let outcome = Simulation::new(&workload, settings, policy, &mut promises)
        .run()
        .expect("no event is wrong");
    (outcome, promises)
}

fn starts(jobs: &[JobSpec], policy: &mut dyn Policy) -> Vec<u64> {
    let outcome = run(jobs.to_vec(), policy).0;
    outcome.records.iter().map(|record| record.started.expect("all jobs start").0 / 1000).collect()
}

/// Returns the starts by EASY backfilling, second by second, from the definition: a later job may
/// start if the first job of the queue can then still start at its earliest instant.
fn easy_by_definition(jobs: &[JobSpec]) -> Vec<u64> {
    let seconds = |span: Span| span.0 / 1000;
    let runtime = |job: &JobSpec| match job.work {
        Work::Fixed(span) => seconds(span),
        Work::Iterative(_) => unreachable!(),
    };
    let mut started = vec![None; jobs.len()];
    for now in 0_u64.. {
        if started.iter().all(Option::is_some) {
            break;
        }
        let earliest = |started: &[Option<u64>], nodes: u32| {
            (now..).find(|&then| {
                let held: u32 = (0..jobs.len())
                    .filter(|&other| {
                        started[other].is_some_and(|at| {
                            let is_over = at + runtime(&jobs[other]) <= now;
                            !is_over && at + seconds(jobs[other].walltime) > then
                        })
                    })
                    .map(|other| jobs[other].limits.start)
                    .sum();
                held + nodes <= NODES
            })
        };
        let queue: Vec<usize> = (0..jobs.len())
            .filter(|&job| started[job].is_none() && jobs[job].submitted <= Time::seconds(now))
            .collect();
        let mut head = None;
        for job in queue {
            let nodes = jobs[job].limits.start;
            if earliest(&started, nodes) != Some(now) {
                head = head.or(Some((job, earliest(&started, nodes))));
                continue;
            }
            let before = started.clone();
            started[job] = Some(now);
            if let Some((head, at)) = head
                && earliest(&started, jobs[head].limits.start) != at
            {
                started = before;
            }
        }
    }
    started.into_iter().flatten().collect()
}

fn jobs() -> impl Strategy<Value = Vec<JobSpec>> {
    let job = (0_u64..40, 1_u32..=NODES, 1_u64..12, 0_u64..12);
    prop::collection::vec(job, 1..40).prop_map(|jobs| {
        let job = |(at, nodes, walltime, less): (u64, u32, u64, u64)| {
            spec(at, nodes, walltime, walltime.saturating_sub(less / 2).max(1))
        };
        Workload::new(jobs.into_iter().map(job).collect(), None).jobs
    })
}

#[test]
fn fcfs_lets_no_later_job_go_first() {
    let jobs = [spec(0, 6, 10, 10), spec(1, 6, 5, 5), spec(2, 2, 5, 5)];
    assert_eq!(starts(&jobs, &mut Fcfs), [0, 10, 10]);
}

#[test]
fn easy_lets_short_and_small_jobs_go_first() {
    // The second waits until 10 and leaves 4 nodes free: the third ends before, the fourth uses
    // these nodes.
    let jobs = [spec(0, 6, 10, 10), spec(1, 6, 5, 5), spec(2, 2, 8, 8), spec(3, 2, 90, 90)];
    assert_eq!(starts(&jobs, &mut Easy::default()), [0, 10, 2, 3]);
    assert_eq!(starts(&jobs, &mut Easy { only_short: true }), [0, 10, 2, 10]);
}

#[test]
fn conservative_delays_no_waiting_job() {
    // EASY starts the fourth at once and thereby delays the third; the conservative policy does
    // not.
    let jobs = [spec(0, 6, 10, 10), spec(1, 8, 10, 10), spec(2, 10, 10, 10), spec(3, 2, 100, 100)];
    assert_eq!(starts(&jobs, &mut Easy::default()), [0, 10, 103, 3]);
    assert_eq!(starts(&jobs, &mut Conservative::default()), [0, 10, 20, 30]);
}

#[test]
fn conservative_moves_jobs_forward_after_an_early_end() {
    let jobs = [spec(0, 10, 20, 5), spec(1, 6, 10, 10), spec(2, 6, 10, 10), spec(3, 4, 10, 10)];
    let (outcome, promises) = run(jobs.to_vec(), &mut Conservative::default());
    let starts: Vec<u64> = outcome.records.iter().map(|record| record.started.unwrap().0).collect();
    assert_eq!(starts, [0, 5_000, 15_000, 5_000]);
    assert_eq!(promises.first[&JobId(1)], Time::seconds(20));
}

#[test]
fn conservative_copes_with_overruns_and_empty_walltimes() {
    let jobs = [spec(0, 10, 1, 200), spec(1, 10, 0, 0), spec(2, 10, 0, 7), spec(3, 5, 3, 3)];
    assert_eq!(starts(&jobs, &mut Conservative::default()), [0, 200, 200, 207]);
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(300) })]

    #[test]
    fn easy_agrees_with_its_definition(jobs in jobs()) {
        prop_assert_eq!(starts(&jobs, &mut Easy::default()), easy_by_definition(&jobs));
    }

    #[test]
    fn easy_keeps_the_first_promise_to_each_job(jobs in jobs()) {
        let (outcome, promises) = run(jobs, &mut Easy::default());
        for (job, at) in promises.first {
            prop_assert!(outcome.records[job.0 as usize].started.unwrap() <= at);
        }
    }

    #[test]
    fn conservative_never_moves_a_promise_back(jobs in jobs()) {
        let (outcome, promises) = run(jobs, &mut Conservative::default());
        prop_assert_eq!(promises.later, []);
        for (job, at) in promises.last {
            prop_assert_eq!(outcome.records[job.0 as usize].started.unwrap(), at);
        }
    }

    #[test]
    fn fcfs_starts_in_order_of_arrival(jobs in jobs()) {
        prop_assert!(starts(&jobs, &mut Fcfs).is_sorted());
    }

    #[test]
    fn every_policy_finishes_with_overruns(mut jobs in jobs(), longer in 0_u64..200) {
        for (place, job) in jobs.iter_mut().enumerate() {
            if place % 3 == 0 {
                job.work = Work::Fixed(job.walltime + Span::seconds(longer));
            }
        }
        let policies: [&mut dyn Policy; 3] =
            [&mut Fcfs, &mut Easy::default(), &mut Conservative::default()];
        for policy in policies {
            let (outcome, _) = run(jobs.clone(), policy);
            prop_assert!(outcome.records.iter().all(|record| record.started.is_some()));
        }
    }
}
