//! Decisions about the jobs of a real system, from a snapshot of it.
//!
//! A real system keeps its own state: each round takes a [`Snapshot`] of it, and [`decide`] builds
//! the scheduler's state from it, calls a policy, and returns the decisions with the indices of the
//! jobs. Nothing is kept between rounds, so a restarted manager decides like one that was never
//! killed.

use thiserror::Error;

use crate::action::{Action, Choice, Decision, Reason};
use crate::event::Event;
use crate::job::{Class, Job, JobId, Limits, MpiRatio};
use crate::malleable::Sharing;
use crate::nodes::NodeList;
use crate::policy::{Draft, Policy};
use crate::resizing::{ElasticBackfill, TwoParts};
use crate::rigid::{Easy, Fcfs};
use crate::state::{Cluster, Refusal, State};
use crate::time::{Span, Time};

/// The names of the policies that can decide from a snapshot. Policies of ReSHAPE cannot: they need
/// jobs that wait at resize points.
pub const POLICIES: [&str; 5] =
    ["fcfs", "easy", "elastic-backfill", "two-parts-egs", "two-parts-fpsma"];

/// Makes the policy with this name; `None` if it cannot decide from a snapshot.
#[must_use]
pub fn policy(name: &str, grace: Span, look_ahead: Span) -> Option<Box<dyn Policy>> {
    let two_parts =
        |sharing| Box::new(TwoParts { sharing, look_ahead, grace, ..TwoParts::default() });
    Some(match name {
        "fcfs" => Box::new(Fcfs),
        "easy" => Box::new(Easy::default()),
        "elastic-backfill" => {
            let mut policy = ElasticBackfill::default();
            policy.grace = grace;
            Box::new(policy)
        }
        "two-parts-egs" => two_parts(Sharing::Egs),
        "two-parts-fpsma" => two_parts(Sharing::Fpsma),
        _ => return None,
    })
}

/// A system at one instant. Nodes are numbered from zero.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Snapshot {
    /// The instant.
    pub now: Time,
    /// The number of usable nodes.
    pub nodes: u32,
    /// The jobs; waiting ones in queue order.
    pub jobs: Vec<Seen>,
}

/// A job of a snapshot.
#[derive(Clone, Debug, PartialEq)]
pub struct Seen {
    /// The name of the job in reasons.
    pub name: String,
    /// The freedom that it leaves now. A job that cannot receive requests at the moment is rigid.
    pub class: Class,
    /// The allowed sizes.
    pub limits: Limits,
    /// The expected run time on `limits.start` nodes.
    pub walltime: Span,
    /// The state of the job.
    pub stage: Stage,
    /// The ratio of MPI time to computing time, if measured since the last change of size.
    pub mpi_ratio: Option<MpiRatio>,
}

/// The state of a job in a snapshot.
#[derive(Clone, Debug, PartialEq)]
pub enum Stage {
    /// Waits for nodes.
    Waiting {
        /// The instant at which the system plans to start it.
        planned: Option<Time>,
    },
    /// Has nodes.
    Running {
        /// The instant of the start.
        since: Time,
        /// The nodes, that of the coordinator first; includes nodes being left.
        nodes: NodeList,
        /// The nodes that it was asked to leave, and has not left yet.
        leaving: NodeList,
        /// The expected end, if a better estimate than `walltime` is known.
        end: Option<Time>,
    },
}

/// A decision about a job of a snapshot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decided {
    /// The index of the job in the snapshot.
    pub job: usize,
    /// The action, with the chosen nodes.
    pub action: Action,
    /// The reason, with the names of jobs.
    pub reason: String,
}

/// A snapshot that cannot be decided on.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum SnapshotError {
    /// A running job contradicts the snapshot, for example by a node that another job also has.
    #[error("the running job {name:?} does not fit the others: {refusal}")]
    Running {
        /// Its name.
        name: String,
        /// The contradiction.
        refusal: Refusal,
    },
    /// The policy decided something impossible: a defect of the policy.
    #[error("deciding: {0}")]
    Policy(Refusal),
}

/// Decides on actions for a system. Waiting jobs that need more nodes than exist wait without
/// effect.
///
/// # Errors
///
/// The running jobs contradict each other, or the policy has a defect.
pub fn decide(snapshot: &Snapshot, policy: &mut dyn Policy) -> Result<Vec<Decided>, SnapshotError> {
    let mut state = State::new(Cluster { nodes: snapshot.nodes, cores_per_node: 1 });
    let jobs = &snapshot.jobs;
    let since = |index: &usize| match &jobs[*index].stage {
        Stage::Running { since, .. } => Some(*since),
        Stage::Waiting { .. } => None,
    };
    let mut running: Vec<usize> = (0..jobs.len()).filter(|index| since(index).is_some()).collect();
    running.sort_by_key(|index| (since(index), *index));
    // The index of each job by its number in the state.
    let mut order = Vec::new();
    for index in running {
        let place = |refusal| SnapshotError::Running { name: jobs[index].name.clone(), refusal };
        run(&mut state, &jobs[index], JobId(order.len() as u32), snapshot.now).map_err(place)?;
        order.push(index);
    }
    // A clock that was set back does not invalidate a snapshot.
    let _ = state.advance(snapshot.now);
    let mut events = vec![Event::Tick];
    for (index, seen) in jobs.iter().enumerate() {
        let Stage::Waiting { planned } = seen.stage else { continue };
        let id = JobId(order.len() as u32);
        let job = Job::new(id, seen.class, seen.limits.clone(), snapshot.now, seen.walltime);
        let Ok(event) = state.submit(job) else { continue };
        order.push(index);
        events.push(event);
        if let Some(at) = planned.filter(|at| *at > snapshot.now) {
            // The job was just submitted, so it is waiting, and its start size is allowed.
            let _ = state.apply(&Action::Reserve { job: id, nodes: seen.limits.start, at });
        }
    }
    for (number, index) in order.iter().enumerate() {
        if let Some(ratio) = jobs[*index].mpi_ratio {
            let event = Event::Measured { job: JobId(number as u32), ratio };
            if state.record(event).is_ok() {
                events.push(event);
            }
        }
    }
    let mut draft = Draft::new(&mut state);
    policy.decide(&events, &mut draft).map_err(SnapshotError::Policy)?;
    let names: Vec<&str> = order.iter().map(|index| jobs[*index].name.as_str()).collect();
    let decided = |Decision { action, reason }: Decision| Decided {
        job: order[action.job().0 as usize],
        action,
        reason: named(&reason, &names),
    };
    Ok(draft.finish().into_iter().map(decided).collect())
}

/// Places a running job on its nodes.
fn run(state: &mut State, seen: &Seen, id: JobId, now: Time) -> Result<(), Refusal> {
    let Stage::Running { since, nodes, leaving, end } = &seen.stage else { return Ok(()) };
    // Jobs that started after the snapshot's clock started now.
    let since = (*since).min(now).max(state.now());
    state.advance(since)?;
    let mut limits = match seen.class {
        Class::Rigid => Limits::exactly(nodes.count()),
        _ => seen.limits.clone(),
    };
    let staying = nodes.count() - leaving.count();
    for size in [nodes.count(), staying] {
        allow(&mut limits, size);
    }
    limits.start = nodes.count();
    let class = if leaving.is_empty() { seen.class } else { Class::Malleable };
    state.submit(Job::new(id, class, limits, since, seen.walltime))?;
    state.apply(&Action::Start { job: id, nodes: Choice::Nodes(nodes.clone()) })?;
    if !leaving.is_empty() {
        let nodes = Choice::Nodes(leaving.clone());
        state.apply(&Action::Shrink { job: id, nodes, grace: Some(Span::ZERO) })?;
    }
    if let Some(end) = end {
        state.record(Event::Estimated { job: id, end: *end })?;
    }
    Ok(())
}

/// Widens limits to include a size that the job already has.
fn allow(limits: &mut Limits, size: u32) {
    (limits.min, limits.max) = (limits.min.min(size), limits.max.max(size));
    if let (false, Err(at)) = (limits.allowed.is_empty(), limits.allowed.binary_search(&size)) {
        limits.allowed.insert(at, size);
    }
}

/// Replaces the numbers of jobs by their names.
fn named(reason: &Reason, names: &[&str]) -> String {
    let mut parts = reason.0.split("job ");
    let mut text = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let digits = part.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(part.len());
        let number: Option<usize> = part[..digits].parse().ok();
        match number.and_then(|number| names.get(number)) {
            Some(name) => text.push_str(name),
            None => text.push_str(&format!("job {}", &part[..digits])),
        }
        text.push_str(&part[digits..]);
    }
    text
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn seen(name: &str, class: Class, limits: Limits, stage: Stage) -> Seen {
        let walltime = Span::seconds(600);
        Seen { name: name.to_owned(), class, limits, walltime, stage, mpi_ratio: None }
    }

    fn runs(since: u64, nodes: &[u32]) -> Stage {
        let nodes = NodeList::of(nodes);
        let since = Time::seconds(since);
        Stage::Running { since, nodes, leaving: NodeList::default(), end: None }
    }

    fn waits(name: &str, nodes: u32) -> Seen {
        seen(name, Class::Rigid, Limits::exactly(nodes), Stage::Waiting { planned: None })
    }

    fn elastic(name: &str, since: u64, nodes: &[u32]) -> Seen {
        seen(name, Class::Malleable, Limits::between(1, 4, 1), runs(since, nodes))
    }

    fn snapshot(nodes: u32, jobs: Vec<Seen>) -> Snapshot {
        Snapshot { now: Time::seconds(100), nodes, jobs }
    }

    fn decided(snapshot: &Snapshot, name: &str) -> Vec<Decided> {
        let (grace, look_ahead) = (Span::seconds(30), Span::seconds(900));
        decide(snapshot, policy(name, grace, look_ahead).unwrap().as_mut()).unwrap()
    }

    #[test]
    fn idle_nodes_go_to_elastic_jobs_when_nobody_waits() {
        let system = snapshot(4, vec![elastic("b", 20, &[3]), elastic("a", 10, &[1])]);
        let decided = decided(&system, "two-parts-fpsma");
        assert_eq!(decided.len(), 1);
        let nodes = Choice::Nodes(NodeList::of(&[0, 2]));
        assert_eq!(
            (decided[0].job, &decided[0].action),
            (1, &Action::Grow { job: JobId(0), nodes })
        );
        assert!(decided[0].reason.starts_with("grows from 1 to 3 nodes"), "{}", decided[0].reason);
    }

    #[test]
    fn waiting_job_gets_its_missing_nodes_from_tails() {
        let system =
            snapshot(4, vec![elastic("a", 10, &[1, 0]), waits("wide", 2), elastic("b", 20, &[3])]);
        let decided = decided(&system, "two-parts-egs");
        assert_eq!(decided.len(), 1, "{decided:?}");
        let (nodes, grace) = (Choice::Nodes(NodeList::of(&[0])), Some(Span::seconds(30)));
        let action = Action::Shrink { job: JobId(0), nodes, grace };
        assert_eq!((decided[0].job, &decided[0].action), (0, &action));
        let reason = "shrinks from 2 to 1 nodes within 30 s: wide lacks 1";
        assert_eq!(decided[0].reason, reason);
    }

    #[test]
    fn leaving_nodes_are_not_asked_for_twice() {
        let mut system = snapshot(3, vec![elastic("a", 10, &[1, 0, 2]), waits("wide", 2)]);
        let first = decided(&system, "two-parts-egs");
        assert_eq!(first.len(), 1, "{first:?}");
        assert!(first[0].reason.ends_with("wide lacks 2"), "{}", first[0].reason);
        let Stage::Running { leaving, .. } = &mut system.jobs[0].stage else { panic!() };
        *leaving = NodeList::of(&[0, 2]);
        assert_eq!(decided(&system, "two-parts-egs"), []);
    }

    #[test]
    fn planned_start_within_the_look_ahead_keeps_nodes_idle() {
        let mut waiting = waits("held", 2);
        // A job of a class that elastic jobs do not make room for.
        waiting.class = Class::Moldable;
        waiting.stage = Stage::Waiting { planned: Some(Time::seconds(300)) };
        waiting.limits = Limits::exactly(3);
        let system = snapshot(3, vec![elastic("a", 10, &[0])]);
        assert_eq!(decided(&system, "two-parts-egs").len(), 1);
        let system = snapshot(3, vec![elastic("a", 10, &[0]), waiting]);
        assert_eq!(decided(&system, "two-parts-egs"), []);
    }

    #[test]
    fn idle_nodes_are_filled_while_a_wide_job_waits() {
        let mut rigid = waits("rigid", 2);
        rigid.stage = runs(10, &[2, 3]);
        for (walltime, changes) in [(600, 0), (6000, 1)] {
            rigid.walltime = Span::seconds(walltime);
            let jobs = vec![elastic("a", 10, &[0]), rigid.clone(), waits("wide", 3)];
            let decided = decided(&snapshot(4, jobs), "two-parts-egs");
            assert_eq!(decided.len(), changes, "{decided:?}");
        }
    }

    #[test]
    fn job_wider_than_the_system_disturbs_nobody() {
        let system = snapshot(2, vec![elastic("a", 10, &[0]), waits("wide", 3)]);
        assert_eq!(decided(&system, "two-parts-egs").len(), 1);
    }

    #[test]
    fn node_of_two_jobs_is_an_error_with_the_name() {
        let system = snapshot(2, vec![elastic("a", 10, &[0]), elastic("b", 20, &[0])]);
        let mut policy = policy("easy", Span::ZERO, Span::ZERO).unwrap();
        let error = decide(&system, policy.as_mut()).unwrap_err().to_string();
        assert!(error.starts_with("the running job \"b\" does not fit the others: "), "{error}");
    }

    #[test]
    fn numbers_of_jobs_become_names_and_others_stay() {
        let reason = |text: &'static str| named(&Reason::from(text), &["a", "b"]);
        assert_eq!(reason("job 1 lacks 2"), "b lacks 2");
        assert_eq!(reason("for job 0, not job 7 or a job "), "for a, not job 7 or a job ");
    }

    #[test]
    fn every_name_gives_a_policy_and_others_none() {
        for name in POLICIES {
            assert_eq!(policy(name, Span::ZERO, Span::ZERO).unwrap().name(), name);
        }
        assert!(policy("pba-q", Span::ZERO, Span::ZERO).is_none());
    }

    proptest! {
        #[test]
        fn decisions_of_any_snapshot_use_free_nodes_once(
            sizes in proptest::collection::vec((1..4u32, 0..2u32, any::<bool>()), 0..5),
            waiting in proptest::collection::vec(1..9u32, 0..4), idle in 0..5u32, which in 0..POLICIES.len(),
        ) {
            let mut next = 0;
            let mut jobs = Vec::new();
            for (size, leaving, is_elastic) in sizes {
                let nodes: Vec<u32> = (next..next + size).collect();
                next += size;
                let mut job = elastic(&format!("e{next}"), u64::from(next), &nodes);
                job.class = if is_elastic { Class::Malleable } else { Class::Rigid };
                if let (true, Stage::Running { leaving: list, .. }) = (leaving < size, &mut job.stage) {
                    *list = NodeList::of(&nodes[(size - leaving) as usize..]);
                }
                jobs.push(job);
            }
            jobs.extend(waiting.into_iter().enumerate().map(|(index, size)| waits(&format!("w{index}"), size)));
            let system = snapshot(next + idle, jobs);
            let mut free: Vec<u32> = (next..next + idle).collect();
            for decided in decided(&system, POLICIES[which]) {
                if let Action::Start { nodes: Choice::Nodes(nodes), .. } | Action::Grow { nodes: Choice::Nodes(nodes), .. } = decided.action {
                    for node in nodes.iter() {
                        prop_assert!(free.contains(&node));
                        free.retain(|other| *other != node);
                    }
                }
            }
        }
    }
}
