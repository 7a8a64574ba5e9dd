use super::*;
use crate::workload::{JobSpec, Model, Name, Program, Work, Workload};
use elastic_policy::event::Event;
use elastic_policy::job::{Class, JobId, Limits};
use elastic_policy::policy::{Draft, Policy};
use elastic_policy::rigid::{Easy, Fcfs};
use elastic_policy::state::Refusal;

fn settings(nodes: u32) -> Settings {
    Settings { keep_course: true, ..Settings::new(Cluster { nodes, cores_per_node: 1 }) }
}

fn spec(submitted: u64, class: Class, limits: Limits, walltime: u64, work: Work) -> JobSpec {
    let (name, submitted) = (Name::Number(0), Time::seconds(submitted));
    let walltime = Span::seconds(walltime);
    JobSpec { name, submitted, class, limits, share: None, priority: 0, walltime, work }
}

fn rigid(submitted: u64, nodes: u32, walltime: u64, runtime: u64) -> JobSpec {
    let work = Work::Fixed(Span::seconds(runtime));
    spec(submitted, Class::Rigid, Limits::exactly(nodes), walltime, work)
}

fn program(class: Class, iterations: u32, change: impl Fn(&mut Program)) -> JobSpec {
    // 8, 4, 2 seconds on 1, 2, 4 nodes.
    let mut program = Program::new(iterations, Model::Amdahl { serial: 0.0, parallel: 8.0 });
    change(&mut program);
    let walltime = u64::from(iterations) * 4;
    spec(0, class, Limits::between(1, 8, 2), walltime, Work::Iterative(Box::new(program)))
}

fn seconds(outcome: &Outcome) -> Vec<(f64, f64)> {
    let started = |record: &Record| record.started.unwrap_or(Time::NEVER).as_seconds();
    outcome.records.iter().map(|record| (started(record), record.ended.as_seconds())).collect()
}

/// A policy that starts jobs in order of arrival, and then follows a script at each event.
struct Script<F>(F);

impl<F: FnMut(&Event, &mut Draft<'_>) -> Result<(), Refusal>> Policy for Script<F> {
    fn name(&self) -> &str {
        "script"
    }

    fn decide(&mut self, events: &[Event], draft: &mut Draft<'_>) -> Result<(), Refusal> {
        elastic_policy::rigid::start_heads(draft)?;
        events.iter().try_for_each(|event| (self.0)(event, draft))
    }
}

fn run(jobs: Vec<JobSpec>, settings: Settings, policy: &mut dyn Policy) -> Outcome {
    Simulation::new(&Workload::new(jobs, None), settings, policy, &mut ()).run().unwrap()
}

#[test]
fn jobs_run_one_after_the_other_on_a_full_machine() {
    let jobs = vec![rigid(0, 3, 10, 10), rigid(1, 2, 5, 5), rigid(2, 1, 5, 5)];
    let outcome = run(jobs, settings(4), &mut Fcfs);
    assert_eq!(seconds(&outcome), [(0.0, 10.0), (10.0, 15.0), (10.0, 15.0)]);
    assert_eq!(outcome.utilisation(), (30.0 + 10.0 + 5.0) / 60.0);
    let used: u64 = outcome
        .pieces
        .iter()
        .map(|piece| u64::from(piece.nodes.count) * piece.to.since(piece.from).0)
        .sum();
    assert_eq!(used, outcome.records.iter().map(|record| record.node_time).sum::<u64>());
    let loads: Vec<_> =
        outcome.load.iter().map(|load| (load.at.0, load.busy, load.waiting)).collect();
    assert_eq!(loads, [(0, 3, 0), (1000, 3, 1), (2000, 3, 2), (10_000, 3, 0), (15_000, 0, 0)]);
}

#[test]
fn job_larger_than_the_machine_is_rejected() {
    let outcome =
        run(vec![rigid(0, 5, 9, 9), rigid(0, 4, 9, 9)], settings(4), &mut Easy::default());
    assert_eq!(outcome.records[0].ending, Ending::Rejected);
    assert_eq!(outcome.records[1].started, Some(Time::ZERO));
}

#[test]
fn job_over_its_walltime_runs_on_or_ends() {
    let jobs = || vec![rigid(0, 4, 10, 100), rigid(1, 4, 10, 10)];
    let outcome = run(jobs(), settings(4), &mut Easy::default());
    assert_eq!(seconds(&outcome), [(0.0, 100.0), (100.0, 110.0)]);
    let ends = Settings { overrun: Overrun::End, ..settings(4) };
    let outcome = run(jobs(), ends, &mut Easy::default());
    assert_eq!(seconds(&outcome), [(0.0, 10.0), (10.0, 20.0)]);
    assert_eq!(outcome.records[0].ending, Ending::TimedOut);
}

#[test]
fn longest_overrun_takes_few_events() {
    let outcome = run(vec![rigid(0, 1, 1, 1_000_000_000_000)], settings(4), &mut Easy::default());
    assert_eq!(seconds(&outcome), [(0.0, 1e12)]);
    assert!(outcome.counts.instants < 500, "{:?}", outcome.counts);
}

#[test]
fn resizable_job_changes_at_resize_points_and_pays() {
    let job = program(Class::Resizable, 6, |program| {
        program.resize_every = 2;
        program.resize_cost.table = vec![(2, 4, Span::seconds(3))];
    });
    let mut points = Vec::new();
    let outcome = run(
        vec![job],
        settings(8),
        &mut Script(|event: &Event, draft: &mut Draft<'_>| {
            if let Event::ResizePoint { job, iteration, left } = *event {
                points.push((draft.now().as_seconds(), iteration.as_seconds(), left));
                if draft.state().job(job).is_some_and(|job| job.size() == 2) {
                    draft.grow(job, 2, "more nodes are free")?;
                }
            }
            Ok(())
        }),
    );
    assert_eq!(points, [(8.0, 4.0, Some(4)), (15.0, 2.0, Some(2))]);
    assert_eq!(seconds(&outcome), [(0.0, 19.0)]);
    assert_eq!(outcome.records[0].node_time, 2 * 8_000 + 4 * 11_000);
    assert_eq!((outcome.records[0].largest, outcome.records[0].resizes), (4, 1));
}

#[test]
fn resize_between_resize_points_is_an_error() {
    let job = program(Class::Resizable, 6, |_| {});
    let workload = Workload::new(vec![job, rigid(1, 1, 1, 1)], None);
    let mut policy = Script(|event: &Event, draft: &mut Draft<'_>| match event {
        Event::Submitted(JobId(1)) => draft.grow(JobId(0), 1, "at the wrong time"),
        _ => Ok(()),
    });
    let error = Simulation::new(&workload, settings(8), &mut policy, &mut ()).run().unwrap_err();
    assert_eq!(
        error.to_string(),
        "policy script, at 1 s: resize job 0: the job is not at a resize point"
    );
}

#[test]
fn malleable_job_leaves_nodes_after_notice_or_grace() {
    for (acknowledges, leave_after, gone) in [(true, 8, 18.0), (true, 50, 50.0), (false, 8, 50.0)] {
        let job = program(Class::Malleable, 20, |program| {
            program.leave_after = Span::seconds(leave_after);
            program.acknowledges = acknowledges;
        });
        let mut seen = Vec::new();
        let jobs = vec![job, rigid(10, 1, 1, 1)];
        let outcome = run(
            jobs,
            settings(8),
            &mut Script(|event: &Event, draft: &mut Draft<'_>| {
                match event {
                    Event::Submitted(JobId(0)) => draft.grow(JobId(0), 2, "free")?,
                    Event::Submitted(_) => {
                        draft.shrink(JobId(0), 2, Some(Span::seconds(40)), "others wait")?;
                    }
                    Event::Left(_) | Event::GraceOver(_) => {
                        seen.push((draft.now().as_seconds(), draft.state().idle()));
                    }
                    _ => {}
                }
                Ok(())
            }),
        );
        // On 4 nodes until they are left: an iteration takes 2 s, afterwards 4 s.
        let end = if gone < 40.0 { gone + (20.0 - gone / 2.0) * 4.0 } else { 40.0 };
        assert_eq!(seconds(&outcome)[0], (0.0, end));
        let left = if gone < 40.0 { vec![(gone, 6)] } else { vec![] };
        assert_eq!(seen, left, "{acknowledges} {leave_after}");
    }
}

#[test]
fn measured_ratio_reaches_the_policy_at_each_tick() {
    let job = program(Class::Malleable, 5, |program| program.mpi_ratio = vec![(1, 0.0), (5, 0.4)]);
    let ticks = Settings { tick: Some(Span::seconds(6)), ..settings(8) };
    let mut seen = Vec::new();
    run(
        vec![job],
        ticks,
        &mut Script(|event: &Event, draft: &mut Draft<'_>| {
            if let Event::Measured { ratio, .. } = event {
                seen.push((draft.now().as_seconds(), ratio.total));
            }
            Ok(())
        }),
    );
    assert_eq!(seen, [(6.0, 0.1), (12.0, 0.1), (18.0, 0.1)]);
}

#[test]
fn jobs_that_no_policy_starts_are_an_error() {
    struct Idle;
    impl Policy for Idle {
        fn name(&self) -> &str {
            "idle"
        }
        fn decide(&mut self, _: &[Event], _: &mut Draft<'_>) -> Result<(), Refusal> {
            Ok(())
        }
    }
    let workload = Workload::new(vec![rigid(3, 1, 1, 1)], None);
    for tick in [None, Some(Span::seconds(1))] {
        let settings = Settings { tick, ..settings(2) };
        let error = Simulation::new(&workload, settings, &mut Idle, &mut ()).run().unwrap_err();
        assert!(error.to_string().contains("1 jobs wait for ever"), "{error}");
    }
}
