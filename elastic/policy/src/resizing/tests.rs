//! Schedulers on the examples of the sources, and invariants under random events.

mod boundaries;
mod recorded;

use proptest::prelude::*;

use super::*;
use crate::action::{Action, Decision};
use crate::allocation::Ageing;
use crate::event::Event;
use crate::job::{Class, Job, JobId, Limits, MpiRatio};
use crate::malleable::Sharing;
use crate::policy::{Draft, Policy};
use crate::sizes::Sizes;
use crate::state::{Cluster, State};
use crate::time::{Span, Time};

fn cluster(nodes: u32) -> State {
    State::new(Cluster { nodes, cores_per_node: 16 })
}

/// Has a policy decide about one event at `now` seconds, which the state records first.
fn happens(state: &mut State, policy: &mut dyn Policy, now: u64, event: Event) -> Vec<Decision> {
    state.advance(Time::seconds(now)).unwrap();
    state.record(event).unwrap();
    decide(state, policy, &[event])
}

fn submits(state: &mut State, policy: &mut dyn Policy, now: u64, mut job: Job) -> Vec<Decision> {
    state.advance(Time::seconds(now)).unwrap();
    job.submitted = state.now();
    let event = state.submit(job).unwrap();
    decide(state, policy, &[event])
}

fn decide(state: &mut State, policy: &mut dyn Policy, events: &[Event]) -> Vec<Decision> {
    let mut draft = Draft::new(state);
    policy.decide(events, &mut draft).unwrap();
    let decisions = draft.finish();
    assert!(decisions.iter().all(|decision| decision.reason.0.len() > 10), "{decisions:?}");
    decisions
}

fn resizable(id: u32, sizes: &Sizes, start: u32, max: u32, walltime: u64) -> Job {
    let limits = sizes.limits(start, max, start).unwrap();
    Job::new(JobId(id), Class::Resizable, limits, Time::ZERO, Span::seconds(walltime))
}

fn point(job: u32, seconds: f64) -> Event {
    Event::ResizePoint { job: JobId(job), iteration: Span::from_seconds(seconds), left: Some(10) }
}

fn size(state: &State, job: u32) -> u32 {
    state.job(JobId(job)).map_or(0, Job::size)
}

#[test]
fn lu_of_table_2_4_overshoots_and_returns() {
    let grid = Sizes::NearlySquare { difference: None, divides: Some(12000) };
    let mut policy = Reshape::new(Scenario::GREEDY_R);
    let mut state = cluster(100);
    submits(&mut state, &mut policy, 0, resizable(0, &grid, 4, 100, 10_000));
    let mut sizes = Vec::new();
    for step in 1..=10 {
        let nodes = size(&state, 0);
        sizes.push(nodes);
        let seconds = if nodes <= 16 { 400.0 / f64::from(nodes) } else { 26.0 };
        happens(&mut state, &mut policy, step * 100, point(0, seconds));
    }
    assert_eq!(sizes, [4, 6, 9, 12, 16, 20, 16, 16, 16, 16]);
}

#[test]
fn a_sweet_spot_holds_but_the_job_may_still_shrink() {
    let mut policy = Reshape::new(Scenario::PBA_Q);
    let mut state = cluster(32);
    submits(&mut state, &mut policy, 0, resizable(0, &Sizes::Doubling, 4, 32, 10_000));
    for (step, seconds) in [(1, 40.0), (2, 20.0), (3, 25.0)] {
        happens(&mut state, &mut policy, step * 100, point(0, seconds));
    }
    assert_eq!(size(&state, 0), 8, "16 did not help");
    let kept = happens(&mut state, &mut policy, 400, point(0, 20.0));
    assert_eq!(kept[0].reason.0, "keeps 8 nodes: its sweet spot");
    submits(&mut state, &mut policy, 450, Job::rigid(JobId(1), 28, Time::ZERO, Span::seconds(60)));
    let shrinks = happens(&mut state, &mut policy, 500, point(0, 20.0));
    assert_eq!((size(&state, 0), size(&state, 1)), (4, 28));
    assert_eq!(
        shrinks[0].reason.0,
        "shrinks from 8 to 4 nodes: job 1 lacks 4, the effect is a factor of 2.00"
    );
}

#[test]
fn nodes_for_one_waiting_job_are_collected_over_several_points() {
    let mut policy = Reshape::new(Scenario::FCFS_LI_Q);
    let mut state = cluster(32);
    for job in 0..2 {
        submits(&mut state, &mut policy, 0, resizable(job, &Sizes::Doubling, 4, 16, 10_000));
    }
    for (now, seconds) in [(100, 40.0), (200, 22.0)] {
        happens(&mut state, &mut policy, now, point(0, seconds));
        happens(&mut state, &mut policy, now + 10, point(1, seconds * 2.0));
    }
    assert_eq!((size(&state, 0), size(&state, 1)), (16, 16));
    submits(&mut state, &mut policy, 250, Job::rigid(JobId(2), 20, Time::ZERO, Span::seconds(60)));
    happens(&mut state, &mut policy, 300, point(0, 12.0));
    assert_eq!((size(&state, 0), size(&state, 2)), (8, 0), "8 of 20 nodes; job 1 has 12 to give");
    let kept = happens(&mut state, &mut policy, 305, point(0, 22.0));
    assert!(kept.iter().any(|one| one.reason.0.contains("being collected for job 2")), "{kept:?}");
    happens(&mut state, &mut policy, 310, point(1, 24.0));
    assert_eq!((size(&state, 1), size(&state, 2)), (8, 0), "16 of 20 nodes; job 0 has 4 to give");
    happens(&mut state, &mut policy, 315, point(0, 22.0));
    assert_eq!((size(&state, 0), size(&state, 1), size(&state, 2)), (4, 8, 20));
}

#[test]
fn scenarios_that_favour_running_jobs_never_shrink_for_others() {
    for scenario in [Scenario::GREEDY_R, Scenario::FAIR_R, Scenario::MAX_B] {
        let mut policy = Reshape::new(scenario);
        let mut state = cluster(16);
        submits(&mut state, &mut policy, 0, resizable(0, &Sizes::Doubling, 4, 16, 10_000));
        submits(
            &mut state,
            &mut policy,
            0,
            Job::rigid(JobId(1), 14, Time::ZERO, Span::seconds(60)),
        );
        happens(&mut state, &mut policy, 100, point(0, 40.0));
        happens(&mut state, &mut policy, 200, point(0, 20.0));
        happens(&mut state, &mut policy, 300, point(0, 10.0));
        assert_eq!((size(&state, 0), size(&state, 1)), (16, 0), "{}", scenario.name);
    }
}

#[test]
fn a_platinum_job_grows_before_gold_ones_start() {
    let mut policy = Reshape::new(Scenario::PBA);
    let mut state = cluster(16);
    let mut platinum = resizable(0, &Sizes::Doubling, 4, 16, 10_000);
    platinum.priority = 1;
    submits(&mut state, &mut policy, 0, platinum);
    submits(&mut state, &mut policy, 0, Job::rigid(JobId(1), 14, Time::ZERO, Span::seconds(60)));
    submits(
        &mut state,
        &mut policy,
        0,
        Job::rigid(JobId(2), 12, Time::ZERO, Span::seconds(20_000)),
    );
    assert_eq!(size(&state, 2), 0, "it would delay the first one of equal class");
    happens(&mut state, &mut policy, 100, point(0, 40.0));
    assert_eq!(size(&state, 0), 8);
}

#[test]
fn an_expansion_that_costs_more_than_it_saves_is_refused() {
    let prediction = crate::predict::Prediction { gate: true, ..Default::default() };
    let mut policy = Reshape::new(Scenario::GREEDY_R).prediction(prediction);
    let mut state = cluster(32);
    submits(&mut state, &mut policy, 0, resizable(0, &Sizes::Increment(4), 4, 32, 10_000));
    for (step, seconds) in [(1, 40.0), (2, 20.0)] {
        happens(&mut state, &mut policy, step * 100, point(0, seconds));
        let cost = Span::seconds(200);
        happens(&mut state, &mut policy, step * 100 + 1, Event::Resized { job: JobId(0), cost });
    }
    let kept = happens(&mut state, &mut policy, 300, point(0, 15.0));
    assert_eq!(size(&state, 0), 12, "{kept:?}");
    assert!(kept[0].reason.0.contains("would save") && kept[0].reason.0.contains("cost 200.0 s"));
}

/// Runs ticks of a minute: each job is measured before, and has left its nodes before the next.
fn ticks(
    state: &mut State,
    policy: &mut ElasticBackfill,
    ratios: &[f64],
    count: u64,
) -> Vec<Vec<u32>> {
    let mut sizes = Vec::new();
    for tick in 1..=count {
        let now = tick * 60;
        for (job, ratio) in ratios.iter().enumerate() {
            let (id, ratio) = (JobId(job as u32), MpiRatio { total: *ratio, recent: *ratio });
            if state.job(id).is_some() {
                happens(state, policy, now - 1, Event::Measured { job: id, ratio });
            }
        }
        happens(state, policy, now, Event::Tick);
        for job in 0..ratios.len() as u32 {
            if state.job(JobId(job)).is_some_and(|job| !job.leaving.is_empty()) {
                happens(state, policy, now + 1, Event::Left(JobId(job)));
            }
        }
        sizes.push((0..ratios.len() as u32).map(|job| size(state, job)).collect());
    }
    sizes
}

fn malleable(id: u32, sizes: &Sizes, start: u32, walltime: u64) -> Job {
    let limits = Limits { start, ..sizes.limits(1, 32, start).unwrap() };
    Job::new(JobId(id), Class::Malleable, limits, Time::ZERO, Span::seconds(walltime))
}

#[test]
fn cannon_fills_the_nodes_that_gaussian_elimination_gives_back() {
    let mut policy = ElasticBackfill::default();
    let mut state = cluster(32);
    let squares = Sizes::Squares { cores: 16 };
    submits(&mut state, &mut policy, 0, malleable(0, &squares, 16, 3000));
    submits(&mut state, &mut policy, 0, malleable(1, &Sizes::Increment(1), 16, 3000));
    let sizes = ticks(&mut state, &mut policy, &[0.005, 0.4], 7);
    let cannon: Vec<u32> = sizes.iter().map(|sizes| sizes[0]).collect();
    let elimination: Vec<u32> = sizes.iter().map(|sizes| sizes[1]).collect();
    assert_eq!(cannon, [16, 23, 28, 28, 31, 31, 31], "28 after two steps, 31 at the fifth");
    assert_eq!(elimination, [8, 4, 2, 1, 1, 1, 1], "four halvings");
    assert_eq!(state.idle(), 0);
}

#[test]
fn nothing_is_sent_when_no_size_changes() {
    let mut policy = ElasticBackfill::default();
    let mut state = cluster(32);
    submits(&mut state, &mut policy, 0, malleable(0, &Sizes::Squares { cores: 16 }, 28, 3000));
    submits(&mut state, &mut policy, 0, malleable(1, &Sizes::Increment(1), 2, 3000));
    for (job, total) in [(0, 0.005), (1, 0.05)] {
        let ratio = MpiRatio { total, recent: total };
        happens(&mut state, &mut policy, 50, Event::Measured { job: JobId(job), ratio });
    }
    let sent = happens(&mut state, &mut policy, 60, Event::Tick);
    assert_eq!(
        sent,
        [],
        "30 nodes hold no larger square than 28, and the other is between the thresholds"
    );
}

#[test]
fn three_cannons_start_earlier_when_two_are_balanced() {
    let run = |balancing: bool, upper: f64, ratio: f64| {
        let mut policy = ElasticBackfill::default();
        policy.balancing = balancing;
        policy.thresholds.upper = upper;
        if upper > 0.1 {
            policy.thresholds.lower = 0.1;
        }
        let mut state = cluster(32);
        let squares = Sizes::Squares { cores: 16 };
        for (job, minutes) in [5, 10, 15].into_iter().enumerate() {
            submits(&mut state, &mut policy, 0, malleable(job as u32, &squares, 16, minutes * 60));
        }
        ticks(&mut state, &mut policy, &[ratio, ratio], 2);
        (size(&state, 0), size(&state, 1), size(&state, 2))
    };
    // The work of 16 nodes for 4 and 9 minutes, shared over 16 nodes: 4.9 and 11.1, as squares.
    assert_eq!(run(true, 0.1, 0.005), (4, 11, 16));
    assert_eq!(run(false, 0.1, 0.005), (16, 16, 0));
    assert_eq!(run(true, 0.1, 0.05), (16, 16, 0), "between the thresholds nothing can be balanced");
    assert_eq!(run(true, 0.5, 0.05), (4, 11, 16), "with wider thresholds it can");
}

#[test]
fn only_missing_nodes_are_taken_back_tail_first() {
    let mut policy = TwoParts::default();
    let mut state = cluster(16);
    let limits = Limits::between(1, 16, 1);
    let job = Job::new(JobId(0), Class::Malleable, limits, Time::ZERO, Span::seconds(10_000));
    submits(&mut state, &mut policy, 0, job);
    assert_eq!(size(&state, 0), 16, "all idle nodes");
    let rigid = |id| Job::rigid(JobId(id), 3, Time::ZERO, Span::seconds(100));
    let taken = submits(&mut state, &mut policy, 10, rigid(1));
    let Action::Shrink { nodes, grace, .. } = &taken[0].action else { panic!("{taken:?}") };
    assert_eq!((nodes.count(), *grace), (3, Some(Span::seconds(40))));
    assert_eq!(state.job(JobId(0)).unwrap().leaving.to_string(), "13-15");
    let more = submits(&mut state, &mut policy, 12, rigid(2));
    assert_eq!(size(&state, 0), 10, "three more: {more:?}");
    happens(&mut state, &mut policy, 20, Event::Left(JobId(0)));
    assert_eq!(
        (size(&state, 1), size(&state, 2)),
        (3, 3),
        "at the acknowledgement, not after 40 s"
    );
    happens(&mut state, &mut policy, 110, Event::Ended(JobId(1)));
    assert_eq!(size(&state, 0), 13, "it grows again");
}

#[test]
fn rigid_parts_are_never_taken() {
    let mut policy = TwoParts { sharing: Sharing::Fpsma, ..TwoParts::default() };
    let mut state = cluster(8);
    let limits = Limits::between(3, 8, 3);
    let job = Job::new(JobId(0), Class::Malleable, limits, Time::ZERO, Span::seconds(10_000));
    submits(&mut state, &mut policy, 0, job);
    let none =
        submits(&mut state, &mut policy, 10, Job::rigid(JobId(1), 6, Time::ZERO, Span::seconds(9)));
    assert_eq!(
        (size(&state, 0), none.len()),
        (8, 0),
        "nothing is taken where it would not be enough"
    );
    submits(&mut state, &mut policy, 11, Job::rigid(JobId(2), 5, Time::ZERO, Span::seconds(9)));
    assert_eq!(size(&state, 0), 8, "it waits behind the first");
}

#[test]
fn moldable_best_effort_jobs_end_at_once() {
    let mut policy = TwoParts::default();
    let mut state = cluster(8);
    let limits = Limits::between(1, 8, 1);
    let job = Job::new(JobId(0), Class::Moldable, limits, Time::ZERO, Span::seconds(10_000));
    submits(&mut state, &mut policy, 0, job);
    assert_eq!(size(&state, 0), 8);
    let ended =
        submits(&mut state, &mut policy, 10, Job::rigid(JobId(1), 2, Time::ZERO, Span::seconds(9)));
    assert_eq!(ended[0].action, Action::Stop { job: JobId(0) });
    assert_eq!((size(&state, 0), size(&state, 1)), (0, 2));
}

#[test]
fn a_wide_job_starts_although_narrow_ones_keep_coming() {
    for scenario in Scenario::ALL {
        let mut policy = Reshape::new(scenario).ageing(Ageing::default());
        let mut state = cluster(16);
        let narrow = |id, class| {
            Job::new(JobId(id), class, Limits::between(6, 12, 6), Time::ZERO, Span::seconds(100))
        };
        submits(&mut state, &mut policy, 0, narrow(0, Class::Resizable));
        submits(
            &mut state,
            &mut policy,
            1,
            Job::rigid(JobId(1), 16, Time::ZERO, Span::seconds(50)),
        );
        let (mut now, mut next) = (2, 2);
        while size(&state, 1) == 0 {
            submits(&mut state, &mut policy, now, narrow(next, Class::Resizable));
            next += 1;
            now += 20;
            let due: Vec<JobId> = state
                .ends()
                .filter(|(end, ..)| *end <= Time::seconds(now))
                .map(|(_, job, _)| job)
                .collect();
            for job in due {
                happens(&mut state, &mut policy, now, Event::Ended(job));
            }
            assert!(now < 5000, "{} lets the wide job starve", scenario.name);
        }
    }
}

/// A step of a random world.
#[derive(Clone, Debug)]
enum Step {
    Submit { class: u8, min: u32, more: u32, rule: u8, walltime: u64, priority: i32 },
    End(usize),
    Point { job: usize, seconds: f64, left: u32 },
    Measured { job: usize, total: f64, recent: f64 },
    Resized { job: usize, cost: u64 },
    Left(usize),
    Tick,
}

fn steps() -> impl Strategy<Value = Vec<(u64, Step)>> {
    let step = prop_oneof![
        3 => (0..4u8, 1..12u32, 0..24u32, 0..4u8, 0..500u64, 0..3i32).prop_map(
            |(class, min, more, rule, walltime, priority)| Step::Submit { class, min, more, rule, walltime, priority }),
        1 => any::<usize>().prop_map(Step::End),
        5 => (any::<usize>(), 0.0..50.0f64, 0..9u32).prop_map(|(job, seconds, left)| Step::Point { job, seconds, left }),
        2 => (any::<usize>(), 0.0..0.3f64, 0.0..0.3f64).prop_map(|(job, total, recent)| Step::Measured { job, total, recent }),
        1 => (any::<usize>(), 0..50u64).prop_map(|(job, cost)| Step::Resized { job, cost }),
        2 => any::<usize>().prop_map(Step::Left),
        2 => Just(Step::Tick),
    ];
    proptest::collection::vec((0..30u64, step), 1..120)
}

fn policies() -> Vec<Box<dyn Policy>> {
    let mut all: Vec<Box<dyn Policy>> = Vec::new();
    for scenario in Scenario::ALL {
        all.push(Box::new(Reshape::new(scenario)));
    }
    let gated = crate::predict::Prediction { gate: true, ..Default::default() };
    all.push(Box::new(Reshape::new(Scenario::PBA_Q).prediction(gated)));
    all.push(Box::new(ElasticBackfill::default()));
    all.push(Box::new(TwoParts::default()));
    all.push(Box::new(TwoParts { sharing: Sharing::Fpsma, ..TwoParts::default() }));
    all
}

/// Returns the event of a step, or `None` if there is no such job.
fn event(state: &mut State, submitted: &mut u32, step: &Step) -> Option<Event> {
    let pick =
        |jobs: Vec<JobId>, index: usize| (!jobs.is_empty()).then(|| jobs[index % jobs.len()]);
    let running = |test: &dyn Fn(&Job) -> bool| {
        state.running().filter(|job| test(job)).map(|job| job.id).collect::<Vec<JobId>>()
    };
    match *step {
        Step::Submit { class, min, more, rule, walltime, priority } => {
            let class =
                [Class::Rigid, Class::Moldable, Class::Resizable, Class::Malleable][class as usize];
            let rule = match rule {
                0 => Sizes::Increment(1),
                1 => Sizes::Increment(3),
                2 => Sizes::Doubling,
                _ => Sizes::NearlySquare { difference: Some(1), divides: None },
            };
            let max = (min + more).min(state.cluster().nodes);
            let mut limits = rule.limits(min, max, min + more / 2)?;
            if class == Class::Rigid {
                limits = Limits::exactly(limits.start);
            }
            let id = JobId(*submitted);
            let mut job = Job::new(id, class, limits, state.now(), Span::seconds(walltime));
            job.priority = priority;
            *submitted += 1;
            Some(state.submit(job).unwrap())
        }
        Step::End(job) => {
            let mut all = running(&|_| true);
            all.extend(state.queue().iter());
            pick(all, job).map(Event::Ended)
        }
        Step::Point { job, seconds, left } => {
            let job = pick(running(&|job| job.class == Class::Resizable), job)?;
            Some(Event::ResizePoint {
                job,
                iteration: Span::from_seconds(seconds),
                left: Some(left),
            })
        }
        Step::Measured { job, total, recent } => {
            let job = pick(running(&|job| job.class == Class::Malleable), job)?;
            Some(Event::Measured { job, ratio: MpiRatio { total, recent } })
        }
        Step::Resized { job, cost } => pick(running(&|_| true), job)
            .map(|job| Event::Resized { job, cost: Span::seconds(cost) }),
        Step::Left(job) => pick(running(&|job| !job.leaving.is_empty()), job).map(Event::Left),
        Step::Tick => Some(Event::Tick),
    }
}

/// Checks that each node occurs once, and that each job has a permitted size.
fn check(state: &State) -> Result<(), TestCaseError> {
    let mut owners = vec![0u32; state.cluster().nodes as usize];
    for part in state.free().intervals() {
        for node in part.first..part.end() {
            owners[node as usize] += 1;
        }
    }
    for job in state.running() {
        for node in job.nodes.iter() {
            owners[node as usize] += 1;
        }
        prop_assert!(job.limits.allows(job.size()), "{:?}", job);
        prop_assert!(job.size() >= job.smallest());
        if job.class == Class::Resizable {
            prop_assert!(job.size() >= job.started_on);
        }
    }
    prop_assert!(
        owners.iter().all(|count| *count == 1),
        "a node has no place, or two: {:?}",
        owners
    );
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn no_policy_breaks_a_rule_whatever_happens(steps in steps(), nodes in 12..40u32) {
        for mut policy in policies() {
            let mut state = cluster(nodes);
            let (mut now, mut submitted) = (0, 0);
            for (pause, step) in &steps {
                now += pause;
                state.advance(Time::seconds(now)).unwrap();
                let Some(event) = event(&mut state, &mut submitted, step) else { continue };
                if !matches!(event, Event::Submitted(_)) {
                    state.record(event).unwrap();
                }
                let mut again = state.clone();
                let mut draft = Draft::new(&mut state);
                let decided = policy.decide(&[event], &mut draft);
                prop_assert!(decided.is_ok(), "{} after {:?}: {:?}", policy.name(), event, decided);
                let decisions = draft.finish();
                for decision in &decisions {
                    prop_assert!(decision.reason.0.split(' ').count() >= 3, "{:?}", decision);
                    // The decisions alone lead to the same state: nothing happened without one.
                    again.apply(&decision.action).unwrap();
                }
                prop_assert_eq!(again.free(), state.free());
                check(&state)?;
            }
        }
    }

    #[test]
    fn the_same_events_lead_to_the_same_decisions(steps in steps()) {
        for index in 0..policies().len() {
            let run = || {
                let (mut state, mut submitted, mut now) = (cluster(24), 0, 0);
                let mut policy = policies().swap_remove(index);
                let mut all = Vec::new();
                for (pause, step) in &steps {
                    now += pause;
                    state.advance(Time::seconds(now)).unwrap();
                    let Some(event) = event(&mut state, &mut submitted, step) else { continue };
                    if !matches!(event, Event::Submitted(_)) {
                        state.record(event).unwrap();
                    }
                    all.extend(decide(&mut state, policy.as_mut(), &[event]));
                }
                all
            };
            prop_assert_eq!(run(), run());
        }
    }
}
