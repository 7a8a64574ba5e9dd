use proptest::prelude::*;

use super::*;
use crate::action::Action;
use crate::event::Event;
use crate::job::JobId;
use crate::policy::Draft;
use crate::state::{Cluster, State};
use crate::time::{Span, Time};

/// Has the conservative scheduler decide about one event at `now` seconds.
fn happens(state: &mut State, policy: &mut Conservative, now: u64, event: Event) {
    state.advance(Time::seconds(now)).unwrap();
    if !matches!(event, Event::Submitted(_)) {
        state.record(event).unwrap();
    }
    policy.decide(&[event], &mut Draft::new(state)).unwrap();
}

fn submits(state: &mut State, policy: &mut Conservative, now: u64, job: (u32, u32, u64)) {
    let (id, nodes, walltime) = job;
    let job = crate::job::Job::rigid(JobId(id), nodes, Time::seconds(now), Span::seconds(walltime));
    state.advance(Time::seconds(now)).unwrap();
    let event = state.submit(job).unwrap();
    happens(state, policy, now, event);
}

#[test]
fn conservative_promises_anew_when_an_end_is_estimated() {
    let mut state = State::new(Cluster { nodes: 10, cores_per_node: 1 });
    let mut policy = Conservative::default();
    submits(&mut state, &mut policy, 0, (0, 10, 100));
    submits(&mut state, &mut policy, 1, (1, 10, 50));
    assert_eq!(state.reservation(JobId(1)).unwrap().at, Time::seconds(100));
    let event = Event::Estimated { job: JobId(0), end: Time::seconds(30) };
    happens(&mut state, &mut policy, 10, event);
    assert_eq!(state.reservation(JobId(1)).unwrap().at, Time::seconds(30));
}

#[test]
fn conservative_start_after_its_reservation_takes_nodes_longer() {
    let mut state = State::new(Cluster { nodes: 10, cores_per_node: 1 });
    let mut policy = Conservative::default();
    submits(&mut state, &mut policy, 0, (0, 6, 100));
    submits(&mut state, &mut policy, 1, (1, 6, 50));
    state.advance(Time::seconds(120)).unwrap();
    state.record(Event::Ended(JobId(0))).unwrap();
    policy.decide(&[Event::Ended(JobId(0))], &mut Draft::new(&mut state)).unwrap();
    assert_eq!(state.job(JobId(1)).unwrap().started, Some(Time::seconds(120)));
    submits(&mut state, &mut policy, 121, (2, 10, 50));
    assert_eq!(state.reservation(JobId(2)).unwrap().at, Time::seconds(170));
}

#[test]
fn profile_adds_up_the_nodes_of_one_instant() {
    let mut state = State::new(Cluster { nodes: 8, cores_per_node: 1 });
    for (number, nodes, walltime) in [(0, 3, 5), (1, 3, 5), (2, 1, 9)] {
        let job = crate::job::Job::rigid(JobId(number), nodes, Time::ZERO, Span::seconds(walltime));
        state.submit(job).unwrap();
        state.apply(&Action::Start { job: JobId(number), nodes: nodes.into() }).unwrap();
    }
    let mut profile = Profile::of_running(&state);
    let seconds = |steps: &[(Time, u32)]| -> Vec<(u64, u32)> {
        steps.iter().map(|(at, free)| (at.0 / 1000, *free)).collect()
    };
    assert_eq!(seconds(profile.steps()), [(0, 1), (5, 7), (9, 8)]);
    profile.advance(Time::seconds(5));
    assert_eq!(seconds(profile.steps()), [(5, 7), (9, 8)]);
    profile.advance(Time::seconds(6));
    assert_eq!(seconds(profile.steps()), [(6, 7), (9, 8)]);
}

#[test]
fn shadow_counts_all_nodes_of_the_instant() {
    let mut state = State::new(Cluster { nodes: 8, cores_per_node: 1 });
    for (number, nodes, walltime) in [(0, 3, 5), (1, 3, 5), (2, 1, 9)] {
        let job = crate::job::Job::rigid(JobId(number), nodes, Time::ZERO, Span::seconds(walltime));
        state.submit(job).unwrap();
        state.apply(&Action::Start { job: JobId(number), nodes: nodes.into() }).unwrap();
    }
    assert_eq!(shadow(&state, 1), Some(Reservation { at: Time::ZERO, spare: 0 }));
    assert_eq!(shadow(&state, 2), Some(Reservation { at: Time::seconds(5), spare: 5 }));
    assert_eq!(shadow(&state, 8), Some(Reservation { at: Time::seconds(9), spare: 0 }));
    assert_eq!(shadow(&state, 9), None);
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(300) })]

    #[test]
    fn profile_agrees_with_seconds(
        changes in prop::collection::vec((0_u64..30, 1_u64..10, 1_u32..4), 0..20),
        asked in (1_u32..20, 0_u64..12),
    ) {
        let mut state = State::new(Cluster { nodes: 20, cores_per_node: 1 });
        state.advance(Time(0)).unwrap();
        let mut profile = Profile::of_running(&state);
        let mut model = [20_u32; 50];
        for (from, length, nodes) in changes {
            let range = &mut model[from as usize..(from + length) as usize];
            if range.iter().all(|&free| free >= nodes) {
                profile.take(nodes, Time(from), Span(length));
                range.iter_mut().for_each(|free| *free -= nodes);
            } else {
                profile.give(1, Time(from), Span(length));
                range.iter_mut().for_each(|free| *free += 1);
            }
        }
        let (nodes, length) = asked;
        let fits = |from: usize| {
            model[from] >= nodes && model[from..].iter().take(length as usize).all(|&free| free >= nodes)
        };
        let expected = (0..model.len()).find(|&from| fits(from)).map(|from| Time(from as u64));
        prop_assert_eq!(profile.earliest(nodes, Span(length)), expected);
        let steps = profile.steps();
        prop_assert!(steps.windows(2).all(|pair| pair[0].0 < pair[1].0 && pair[0].1 != pair[1].1));
    }
}
