use proptest::prelude::*;

use super::*;
use crate::job::Limits;

const CLUSTER: Cluster = Cluster { nodes: 16, cores_per_node: 4 };

fn with_job(class: Class, limits: Limits) -> State {
    let mut state = State::new(CLUSTER);
    state.submit(Job::new(JobId(0), class, limits, Time::ZERO, Span::seconds(10))).unwrap();
    state
}

fn start(job: u32, nodes: impl Into<Choice>) -> Action {
    Action::Start { job: JobId(job), nodes: nodes.into() }
}

fn grow(job: u32, nodes: impl Into<Choice>) -> Action {
    Action::Grow { job: JobId(job), nodes: nodes.into() }
}

fn shrink(job: u32, nodes: impl Into<Choice>, grace: Option<Span>) -> Action {
    Action::Shrink { job: JobId(job), nodes: nodes.into(), grace }
}

fn refusal(state: &mut State, action: &Action) -> String {
    let before = state.clone();
    let error = state.apply(action).unwrap_err();
    assert_eq!(*state, before);
    error.to_string()
}

/// Returns the first broken invariant.
fn defect(state: &State) -> Option<String> {
    let mut owners = vec![0; state.cluster.nodes as usize];
    for part in state.free.intervals() {
        (part.first..part.end()).for_each(|node| owners[node as usize] += 1);
    }
    for job in state.running() {
        job.nodes.iter().for_each(|node| owners[node as usize] += 1);
        let end = job.expected_end?;
        if state.ends.get(&(end, job.id)) != Some(&job.nodes.count()) {
            return Some(format!("{}: the order of ends is out of date", job.id));
        }
        if !job.leaving.iter().all(|node| job.nodes.contains(node)) {
            return Some(format!("{}: a node that is leaving is not the job's", job.id));
        }
        if !job.limits.allows(job.size()) || job.size() < job.smallest() {
            return Some(format!("{}: {} nodes are outside its limits", job.id, job.size()));
        }
    }
    if let Some(node) = owners.iter().position(|&count| count != 1) {
        return Some(format!("node {node} has {} owners", owners[node]));
    }
    if state.ends.len() != state.running.len() {
        return Some("the order of ends has a job that does not run".to_owned());
    }
    let queued = state.jobs.iter().flatten().filter(|job| job.phase == Phase::Queued);
    if !queued.map(|job| job.id).eq(state.queue.iter()) {
        return Some("the queue is not the jobs that wait".to_owned());
    }
    let queues = |job: &JobId| state.job(*job).is_some_and(|job| job.phase == Phase::Queued);
    if !state.reservations.keys().all(queues) {
        return Some("a job that does not wait has a promise".to_owned());
    }
    None
}

#[test]
fn node_of_another_job_is_refused() {
    let mut state = with_job(Class::Rigid, Limits::exactly(2));
    state.submit(Job::rigid(JobId(1), 2, Time::ZERO, Span::seconds(10))).unwrap();
    state.apply(&start(0, 2)).unwrap();
    let error = refusal(&mut state, &start(1, NodeList::of(&[1, 2])));
    assert!(error.starts_with("start job 1: nodes 1-2 cannot be used: one is not free"), "{error}");
    refusal(&mut state, &start(1, NodeList::of(&[5, 5])));
    refusal(&mut state, &start(1, NodeList::of(&[15, 16])));
}

#[test]
fn size_outside_limits_is_refused_with_the_limits() {
    let limits = Limits { min: 4, max: 16, start: 4, allowed: vec![4, 9, 16] };
    let mut state = with_job(Class::Malleable, limits);
    let error = refusal(&mut state, &start(0, 5));
    assert_eq!(error, "start job 0: 5 nodes are not allowed (from 4 to 16, of [4, 9, 16])");
    state.apply(&start(0, 9)).unwrap();
    refusal(&mut state, &grow(0, 1));
    refusal(&mut state, &grow(0, 8));
    refusal(&mut state, &shrink(0, 1, None));
    refusal(&mut state, &shrink(0, 0, None));
    state.apply(&shrink(0, 5, None)).unwrap();
    refusal(&mut state, &shrink(0, 1, None));
}

#[test]
fn resizable_job_keeps_the_size_it_started_on() {
    let mut state = with_job(Class::Resizable, Limits::between(1, 8, 4));
    state.apply(&start(0, 4)).unwrap();
    state.apply(&grow(0, 2)).unwrap();
    refusal(&mut state, &shrink(0, 3, None));
    state.apply(&shrink(0, 2, None)).unwrap();
}

#[test]
fn rigid_and_moldable_jobs_keep_their_size() {
    for class in [Class::Rigid, Class::Moldable] {
        let limits =
            if class == Class::Rigid { Limits::exactly(4) } else { Limits::between(1, 8, 4) };
        let mut state = with_job(class, limits);
        state.apply(&start(0, 4)).unwrap();
        let error = refusal(&mut state, &grow(0, 1));
        assert_eq!(error, format!("grow job 0: a {class:?} job keeps its size"));
        refusal(&mut state, &shrink(0, 1, None));
    }
}

#[test]
fn node_of_the_coordinator_never_leaves() {
    let mut state = with_job(Class::Malleable, Limits::between(1, 8, 4));
    state.apply(&start(0, NodeList::of(&[5, 2, 3]))).unwrap();
    let error = refusal(&mut state, &shrink(0, NodeList::of(&[5]), None));
    assert!(error.ends_with("the job's first node, which has its coordinator, cannot leave"));
    state.apply(&shrink(0, 2, None)).unwrap();
    assert_eq!(state.job(JobId(0)).unwrap().nodes.to_string(), "5");
}

#[test]
fn nodes_under_notice_stay_held_until_they_are_left() {
    let mut state = with_job(Class::Malleable, Limits::between(1, 8, 4));
    state.apply(&start(0, 6)).unwrap();
    state.apply(&shrink(0, 2, Some(Span::seconds(40)))).unwrap();
    assert_eq!((state.idle(), state.job(JobId(0)).unwrap().size()), (10, 4));
    assert_eq!(state.job(JobId(0)).unwrap().leave_by, Some(Time::seconds(40)));
    refusal(&mut state, &shrink(0, NodeList::of(&[5]), None));
    state.record(Event::Left(JobId(0))).unwrap();
    assert_eq!((state.idle(), state.job(JobId(0)).unwrap().leave_by), (12, None));
    assert_eq!(state.job(JobId(0)).unwrap().nodes.to_string(), "0-3");
}

#[test]
fn job_that_no_cluster_size_fits_is_refused() {
    let mut state = State::new(CLUSTER);
    let error = state.submit(Job::rigid(JobId(0), 17, Time::ZERO, Span::ZERO)).unwrap_err();
    assert_eq!(error.to_string(), "submit job 0: it needs more nodes than the cluster has");
    state.submit(Job::rigid(JobId(3), 1, Time::ZERO, Span::ZERO)).unwrap();
    state.submit(Job::rigid(JobId(3), 1, Time::ZERO, Span::ZERO)).unwrap_err();
}

#[test]
fn time_that_goes_backwards_is_refused() {
    let mut state = State::new(CLUSTER);
    state.advance(Time::seconds(5)).unwrap();
    let error = state.advance(Time::seconds(4)).unwrap_err();
    assert_eq!(error.to_string(), "advance to 4 s: the state is at 5 s already");
}

#[derive(Clone, Debug)]
enum Operation {
    Submit(Class, u32, u32, u32),
    Act(Action),
    Record(Event),
    Advance(u64),
}

fn job() -> impl Strategy<Value = JobId> {
    (0_u32..12).prop_map(JobId)
}

fn choice() -> impl Strategy<Value = Choice> {
    prop_oneof![
        3 => (0_u32..9).prop_map(Choice::Count),
        1 => prop::collection::vec(0_u32..18, 0..6).prop_map(|nodes| NodeList::of(&nodes).into()),
    ]
}

fn operation() -> impl Strategy<Value = Operation> {
    let class = prop::sample::select(vec![
        Class::Rigid,
        Class::Moldable,
        Class::Resizable,
        Class::Malleable,
    ]);
    let grace = prop::option::of((0_u64..50).prop_map(Span));
    let action = prop_oneof![
        3 => (job(), choice()).prop_map(|(job, nodes)| Action::Start { job, nodes }),
        3 => (job(), choice()).prop_map(|(job, nodes)| Action::Grow { job, nodes }),
        3 => (job(), choice(), grace)
            .prop_map(|(job, nodes, grace)| Action::Shrink { job, nodes, grace }),
        1 => job().prop_map(|job| Action::Keep { job }),
        1 => (job(), 0_u32..9, 0_u64..99)
            .prop_map(|(job, nodes, at)| Action::Reserve { job, nodes, at: Time(at) }),
    ];
    let event = prop_oneof![
        job().prop_map(Event::Ended),
        job().prop_map(Event::Left),
        job().prop_map(Event::GraceOver),
        (job(), 0_u64..99).prop_map(|(job, end)| Event::Estimated { job, end: Time(end) }),
        job().prop_map(|job| Event::ResizePoint { job, iteration: Span(7), left: None }),
        job().prop_map(|job| Event::Resized { job, cost: Span(3) }),
    ];
    prop_oneof![
        3 => (class, 0_u32..6, 0_u32..6, 0_u32..6)
            .prop_map(|(class, min, start, max)| Operation::Submit(class, min, start, max)),
        8 => action.prop_map(Operation::Act),
        2 => event.prop_map(Operation::Record),
        1 => (0_u64..20).prop_map(Operation::Advance),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(512) })]

    #[test]
    fn any_operations_keep_the_invariants(operations in prop::collection::vec(operation(), 0..120)) {
        let mut state = State::new(CLUSTER);
        let mut number = 0;
        for operation in operations {
            let before = state.clone();
            let done = match &operation {
                Operation::Submit(class, min, start, max) => {
                    let limits = match class {
                        Class::Rigid => Limits::exactly(min + 1),
                        _ => Limits::between(*min, min + start + max, min + start),
                    };
                    number += 1;
                    let (at, walltime) = (state.now(), Span(u64::from(*max)));
                    state.submit(Job::new(JobId(number), *class, limits, at, walltime)).map(drop)
                }
                Operation::Act(action) => state.apply(action).map(drop),
                Operation::Record(event) => state.record(*event),
                Operation::Advance(span) => state.advance(state.now() + Span(*span)),
            };
            if done.is_err() {
                prop_assert_eq!(&state, &before, "{:?} was refused and had an effect", operation);
            }
            prop_assert_eq!(defect(&state), None, "after {:?}", operation);
        }
    }
}
