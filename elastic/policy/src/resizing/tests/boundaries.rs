//! Decisions of the schedulers when nodes are just enough, or events occur at the same instant.

use super::*;
use crate::resizing::ranked;

fn rigid(id: u32, nodes: u32, walltime: u64) -> Job {
    Job::rigid(JobId(id), nodes, Time::ZERO, Span::seconds(walltime))
}

/// Has a policy decide about the events of one instant, which the state records first.
fn happen(state: &mut State, policy: &mut dyn Policy, now: u64, events: &[Event]) -> Vec<Decision> {
    state.advance(Time::seconds(now)).unwrap();
    events.iter().for_each(|event| state.record(*event).unwrap());
    decide(state, policy, events)
}

#[test]
fn ranked_backfill_gives_each_spare_node_once() {
    let mut state = cluster(20);
    let mut head = rigid(1, 12, 50);
    head.priority = 1;
    // The head starts at 100 and leaves 8 nodes free; until then 10 are idle.
    let jobs = [rigid(0, 10, 100), head, rigid(2, 4, 1000), rigid(3, 4, 1000), rigid(4, 2, 60)];
    for job in jobs {
        state.submit(job).unwrap();
    }
    state.apply(&Action::Start { job: JobId(0), nodes: 10.into() }).unwrap();
    let mut draft = Draft::new(&mut state);
    ranked::start(&mut draft, &Ageing::default()).unwrap();
    assert_eq!([2, 3, 4].map(|job| size(&state, job)), [4, 4, 2]);
    assert_eq!(state.reservation(JobId(1)).unwrap().at, Time::seconds(100));
}

#[test]
fn expansion_is_not_weighed_where_that_is_not_wanted() {
    let mut policy = Reshape::new(Scenario::GREEDY_R);
    let mut state = cluster(32);
    submits(&mut state, &mut policy, 0, resizable(0, &Sizes::Increment(4), 4, 32, 10_000));
    for (step, seconds) in [(1, 40.0), (2, 20.0), (3, 15.0)] {
        happens(&mut state, &mut policy, step * 100, point(0, seconds));
        let cost = Span::seconds(200);
        happens(&mut state, &mut policy, step * 100 + 1, Event::Resized { job: JobId(0), cost });
    }
    assert_eq!(size(&state, 0), 16);
}

#[test]
fn waiting_job_starts_before_an_expansion_at_one_instant() {
    let mut policy = Reshape::new(Scenario::PBA_Q);
    let mut state = cluster(16);
    submits(&mut state, &mut policy, 0, resizable(0, &Sizes::Doubling, 4, 16, 10_000));
    submits(&mut state, &mut policy, 0, rigid(1, 12, 100));
    submits(&mut state, &mut policy, 1, rigid(2, 12, 100));
    happen(&mut state, &mut policy, 50, &[Event::Ended(JobId(1)), point(0, 40.0)]);
    assert_eq!((size(&state, 0), size(&state, 2)), (4, 12));
}

#[test]
fn measurement_from_before_nodes_left_does_not_count() {
    let mut policy = ElasticBackfill::default();
    let mut state = cluster(32);
    submits(&mut state, &mut policy, 0, malleable(0, &Sizes::Doubling, 8, 10_000));
    let ratio = MpiRatio { total: 0.9, recent: 0.9 };
    let measured = Event::Measured { job: JobId(0), ratio };
    happen(&mut state, &mut policy, 10, &[measured]);
    happen(&mut state, &mut policy, 60, &[Event::Tick]);
    assert_eq!(state.job(JobId(0)).unwrap().leaving.count(), 4);
    let events = [Event::Left(JobId(0)), measured, Event::Tick];
    let none = happen(&mut state, &mut policy, 120, &[measured, events[0], Event::Tick]);
    assert_eq!((size(&state, 0), none), (4, vec![]));
    happen(&mut state, &mut policy, 180, &events[1..]);
    assert_eq!(state.job(JobId(0)).unwrap().leaving.count(), 2);
}

#[test]
fn nodes_that_leave_already_are_not_asked_for_again() {
    let mut policy = TwoParts::default();
    let mut state = cluster(16);
    let limits = Limits::between(1, 16, 1);
    let job = Job::new(JobId(0), Class::Malleable, limits, Time::ZERO, Span::seconds(10_000));
    submits(&mut state, &mut policy, 0, job);
    submits(&mut state, &mut policy, 10, rigid(1, 3, 100));
    assert_eq!(size(&state, 0), 13);
    // The job for which they were being left is withdrawn.
    happens(&mut state, &mut policy, 11, Event::Ended(JobId(1)));
    submits(&mut state, &mut policy, 12, rigid(2, 6, 100));
    assert_eq!(size(&state, 0), 10);
}

#[test]
fn idle_nodes_for_the_first_job_stay_its_own() {
    let mut policy = TwoParts::default();
    let mut state = cluster(16);
    let limits = Limits::between(1, 14, 1);
    let job = Job::new(JobId(0), Class::Malleable, limits, Time::ZERO, Span::seconds(10_000));
    submits(&mut state, &mut policy, 0, job);
    assert_eq!((size(&state, 0), state.idle()), (14, 2));
    submits(&mut state, &mut policy, 10, rigid(1, 5, 100));
    submits(&mut state, &mut policy, 11, rigid(2, 2, 100));
    assert_eq!(size(&state, 0), 9, "3 nodes for the first, 2 for the second");
}

#[test]
fn jobs_that_wait_at_one_instant_all_get_nodes_back() {
    let mut policy = TwoParts::default();
    let mut state = cluster(16);
    let limits = Limits::between(1, 16, 1);
    let job = Job::new(JobId(0), Class::Malleable, limits, Time::ZERO, Span::seconds(10_000));
    submits(&mut state, &mut policy, 0, job);
    state.advance(Time::seconds(10)).unwrap();
    state.submit(rigid(1, 3, 100)).unwrap();
    state.submit(rigid(2, 4, 100)).unwrap();
    decide(&mut state, &mut policy, &[]);
    assert_eq!(size(&state, 0), 9);
}
