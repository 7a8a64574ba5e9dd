//! Converts Slurm's jobs and nodes to a snapshot for the scheduler, and its decisions to requests.
//! Pure.

use std::collections::{BTreeMap, BTreeSet};

use elastic::change::RequestKind;
use elastic::manager::WorldStatus;
use elastic::manager::control::wire::{Call, Hosts, Many};
use elastic_lab::record::{self, Run, Sighting};
use elastic_policy::action::{Action, Choice};
use elastic_policy::job::{Class, Limits};
use elastic_policy::live::{Decided, Seen, Snapshot, Stage};
use elastic_policy::memory::{NodeRoom, TooLittleMemory};
use elastic_policy::nodes::NodeList;
use elastic_policy::time::{Span, Time};

use super::super::measured;
use super::super::memory::{Footprints, narrow};
use super::super::orders::{Change, Open, Orders, is_busy};
use super::text::{JobState, SlurmJob, SlurmNode, Use};

/// The run time of a job without a limit: a year, as in Slurm.
const UNLIMITED: Span = Span(31_536_000_000);

/// The change of a job that is under way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Flight {
    /// It grows to this number of nodes.
    Grow(u32),
    /// It leaves these nodes, given by name, until Slurm has them back.
    Shrink(Vec<String>),
}

impl Flight {
    /// Returns the direction.
    pub fn change(&self) -> Change {
        match self {
            Flight::Grow(_) => Change::Grow,
            Flight::Shrink(_) => Change::Shrink,
        }
    }
}

/// The state of a cluster at one instant.
#[derive(Debug)]
pub struct View<'a> {
    /// The jobs of all users.
    pub jobs: &'a [SlurmJob],
    /// The nodes.
    pub nodes: &'a [SlurmNode],
    /// The elastic jobs that answer, by number.
    pub statuses: &'a BTreeMap<u32, WorldStatus>,
    /// The changes under way, by job.
    pub flights: &'a BTreeMap<u32, Flight>,
    /// The memory of jobs, if shrinks must fit.
    pub footprints: Option<&'a Footprints>,
}

impl View<'_> {
    /// Returns true if the job waits for nodes that it can get.
    fn waits(&self, job: &SlurmJob) -> bool {
        match job.state {
            JobState::Waits => true,
            // Slurm also gives this reason if no node is down and an earlier job is to get them.
            JobState::WaitsOrHeld => {
                let in_service = self.nodes.iter().filter(|node| node.used != Use::Out).count();
                job.count as usize <= in_service
            }
            _ => false,
        }
    }
}

/// A snapshot with the meaning of its numbers.
#[derive(Clone, Debug, PartialEq)]
pub struct Pictured {
    /// The snapshot.
    pub snapshot: Snapshot,
    /// The number of each job of the snapshot; `None` for nodes in use by an unknown job.
    pub jobs: Vec<Option<u32>>,
    /// The node of each number.
    pub nodes: Vec<SlurmNode>,
    /// The jobs, by number and name, that are not shrunk further, with the cause.
    pub too_large: Vec<(u32, String, TooLittleMemory)>,
}

/// Makes a snapshot of a cluster.
pub fn picture(view: &View<'_>, orders: &Orders, now: Time) -> Pictured {
    let is_held = |node: &SlurmNode| {
        let has = |job: &SlurmJob| job.state == JobState::Runs && job.nodes.contains(&node.name);
        view.jobs.iter().any(has)
    };
    let usable = |node: &&SlurmNode| matches!(node.used, Use::Idle | Use::Busy) || is_held(node);
    let nodes: Vec<SlurmNode> = view.nodes.iter().filter(usable).cloned().collect();
    let mut claims = Claims { nodes: &nodes, left: (0..nodes.len() as u32).collect() };
    let (mut seen, mut numbers, mut too_large) = (Vec::new(), Vec::new(), Vec::new());
    let mut busy = NodeList::default();
    // Elastic jobs first: a node that several jobs share counts once.
    let is_elastic = |job: &&SlurmJob| view.statuses.contains_key(&job.number);
    let running = |job: &&SlurmJob| job.state == JobState::Runs && job.holds_for.is_none();
    let elastic = view.jobs.iter().filter(running).filter(is_elastic);
    for job in elastic {
        let Some(status) = view.statuses.get(&job.number) else { continue };
        let held = claims.elastic(job, status, view);
        if held.is_empty() {
            continue;
        }
        let (elastic, cause) = elastic_job(job, status, held, view, &claims, orders, now);
        too_large.extend(cause.map(|cause| (job.number, elastic.name.clone(), cause)));
        seen.push(elastic);
        numbers.push(Some(job.number));
    }
    // Growing jobs take nodes that are still idle.
    for (seen, number) in seen.iter_mut().zip(&numbers) {
        let flight = number.and_then(|number| view.flights.get(&number));
        if let (Some(Flight::Grow(target)), Stage::Running { nodes, .. }) =
            (flight, &mut seen.stage)
        {
            claims
                .idle(target.saturating_sub(nodes.count()))
                .iter()
                .for_each(|node| append(nodes, *node));
        }
    }
    let known = |number: u32| numbers.contains(&Some(number));
    let others: Vec<&SlurmJob> = view
        .jobs
        .iter()
        .filter(|job| job.state == JobState::Runs && !known(job.number))
        .filter(|job| job.holds_for.is_none_or(|main| !known(main)))
        .collect();
    let mut rigid = Vec::new();
    for job in others {
        let held = NodeList::of(&claims.named(&job.nodes));
        if !held.is_empty() {
            rigid.push((job, held));
        }
    }
    for (job, nodes) in rigid {
        let limits = Limits::exactly(nodes.count());
        let since = job.start.unwrap_or(now);
        let stage = Stage::Running { since, nodes, leaving: NodeList::default(), end: job.end };
        seen.push(rigid_job(job, limits, stage));
        numbers.push(Some(job.number));
    }
    for number in claims.left.iter().filter(|number| nodes[**number as usize].used == Use::Busy) {
        append(&mut busy, *number);
    }
    if !busy.is_empty() {
        let limits = Limits::exactly(busy.count());
        let stage = Stage::Running {
            since: now,
            nodes: busy,
            leaving: NodeList::default(),
            end: Some(now),
        };
        let name = "jobs that end".to_owned();
        seen.push(Seen {
            name,
            class: Class::Rigid,
            limits,
            walltime: Span::ZERO,
            stage,
            mpi_ratio: None,
        });
        numbers.push(None);
    }
    for job in view.jobs.iter().filter(|job| view.waits(job) && job.holds_for.is_none()) {
        if job.count > 0 {
            let stage = Stage::Waiting { planned: job.start };
            seen.push(rigid_job(job, Limits::exactly(job.count), stage));
            numbers.push(Some(job.number));
        }
    }
    let snapshot = Snapshot { now, nodes: nodes.len() as u32, jobs: seen };
    Pictured { snapshot, jobs: numbers, nodes, too_large }
}

fn append(list: &mut NodeList, node: u32) {
    list.append(&NodeList::of(&[node]));
}

fn rigid_job(job: &SlurmJob, limits: Limits, stage: Stage) -> Seen {
    let (name, walltime) = (format!("job {}", job.id), job.limit.unwrap_or(UNLIMITED));
    Seen { name, class: Class::Rigid, limits, walltime, stage, mpi_ratio: None }
}

fn elastic_job(
    job: &SlurmJob,
    status: &WorldStatus,
    held: Vec<u32>,
    view: &View<'_>,
    claims: &Claims<'_>,
    orders: &Orders,
    now: Time,
) -> (Seen, Option<TooLittleMemory>) {
    let flight = view.flights.get(&job.number);
    let (mpi_ratio, end) = measured(status, Time::ZERO, now);
    let mut leaving = Vec::new();
    let mut class = Class::Malleable;
    match flight {
        Some(Flight::Shrink(names)) => {
            let is_leaving = |node: &&u32| names.contains(&claims.nodes[**node as usize].name);
            leaving = held.iter().skip(1).filter(is_leaving).copied().collect();
        }
        Some(Flight::Grow(_)) => class = Class::Rigid,
        // The request is not this manager's.
        None if is_busy(status) => class = Class::Rigid,
        None => {}
    }
    let mut limits = limits(status, &held, claims.nodes);
    let (key, size) = (job.number.to_string(), held.len() as u32);
    orders.narrow(&key, size, &mut limits, now);
    let footprint = view.footprints.and_then(|footprints| footprints.of(&key));
    let kept = |to: u32| rooms(job, status, &held[..to as usize], view, claims.nodes);
    let cause = footprint.as_ref().and_then(|footprint| narrow(footprint, size, &mut limits, kept));
    let stage = Stage::Running {
        since: job.start.unwrap_or(now),
        nodes: NodeList::of(&held),
        leaving: NodeList::of(&leaving),
        end: end.or(job.end),
    };
    let name = format!("job {} ({})", job.id, status.job);
    let mpi_ratio = mpi_ratio.filter(|_| flight.is_none());
    let walltime = job.limit.unwrap_or(UNLIMITED);
    (Seen { name, class, limits, walltime, stage, mpi_ratio }, cause)
}

/// Returns the memory of these nodes of a job. Slurm reports the memory free without page cache;
/// without other jobs, a node has its memory for jobs, less that of the ranks. Unknown memory
/// counts as sufficient.
fn rooms(
    job: &SlurmJob,
    status: &WorldStatus,
    held: &[u32],
    view: &View<'_>,
    nodes: &[SlurmNode],
) -> Vec<NodeRoom> {
    let bytes = status.report.as_ref().and_then(|report| report.bytes_per_rank).unwrap_or(0);
    let is_own =
        |other: &SlurmJob| other.number == job.number || other.holds_for == Some(job.number);
    let room = |node: &u32| {
        let node = &nodes[*node as usize];
        let has = |other: &&SlurmJob| other.nodes.contains(&node.name);
        let is_alone = view.jobs.iter().filter(has).all(is_own);
        let ranks = u32::try_from(ranks_on(status, node)).unwrap_or(u32::MAX);
        let used = bytes.saturating_mul(ranks.into());
        let of_all = node.memory.filter(|_| is_alone).map(|memory| memory.saturating_sub(used));
        NodeRoom { name: node.host.clone(), ranks, free: node.free.max(of_all).unwrap_or(u64::MAX) }
    };
    held.iter().map(room).collect()
}

/// Returns the runs of jobs that have ended by an instant. A job that was cancelled while it waited
/// had no nodes.
pub fn runs<'a>(jobs: impl Iterator<Item = &'a SlurmJob>, now: Time) -> Vec<Run> {
    let is_over = |job: &&SlurmJob| {
        matches!(job.state, JobState::Ends | JobState::Ended)
            && job.holds_for.is_none()
            && !job.nodes.is_empty()
    };
    let run = |job: &SlurmJob| {
        let begun = job.start?.min(now);
        let ended = job.end.unwrap_or(now).min(now);
        Some(Run { job: job.id.clone(), begun, ended, nodes: job.nodes.clone() })
    };
    jobs.filter(is_over).filter_map(run).collect()
}

/// Lists the jobs that wait for nodes and the running jobs, each with its nodes and those that
/// other jobs hold for it.
pub fn sightings(view: &View<'_>, now: Time) -> Vec<Sighting> {
    let is_seen = |job: &&SlurmJob| {
        job.holds_for.is_none() && (job.state == JobState::Runs || view.waits(job))
    };
    let seen = |job: &SlurmJob| {
        let status = view.statuses.get(&job.number);
        let mut nodes = job.nodes.clone();
        let holders = view
            .jobs
            .iter()
            .filter(|other| other.holds_for == Some(job.number) && other.state == JobState::Runs);
        holders.for_each(|holder| nodes.extend(holder.nodes.iter().cloned()));
        let stage = match job.state {
            JobState::Runs => record::Stage::Runs(job.start.unwrap_or(now)),
            _ => record::Stage::Waits,
        };
        Sighting {
            job: job.id.clone(),
            name: status.map_or_else(|| format!("job {}", job.id), |status| status.job.clone()),
            class: if status.is_some() { Class::Malleable } else { Class::Rigid },
            asked: job.count,
            walltime: job.limit.unwrap_or(UNLIMITED),
            stage,
            nodes,
        }
    };
    view.jobs.iter().filter(is_seen).map(seen).collect()
}

/// Returns the numbers of nodes that a world can use, from its sizes in ranks.
fn limits(status: &WorldStatus, held: &[u32], nodes: &[SlurmNode]) -> Limits {
    let ranks: Vec<u64> =
        held.iter().map(|node| ranks_on(status, &nodes[*node as usize])).collect();
    let bounds = status.limits.as_ref().and_then(|limits| limits.bounds().ok());
    let allows = |size: u64| {
        let size = u32::try_from(size).unwrap_or(u32::MAX);
        bounds.as_ref().map_or(u64::from(size) <= status.capacity, |bounds| bounds.allows(size))
    };
    let (each, mut size) = (ranks_of_a_node(status), 0);
    let mut allowed = Vec::new();
    for count in 1..=nodes.len() {
        // Further nodes get as many ranks as the others.
        size += ranks.get(count - 1).copied().unwrap_or(each);
        if size > 0 && allows(size) {
            allowed.push(count as u32);
        }
    }
    let (min, max) = match (allowed.first(), allowed.last()) {
        (Some(first), Some(last)) => (*first, *last),
        _ => (held.len() as u32, held.len() as u32),
    };
    let allowed = if allowed.len() as u32 == max - min + 1 { Vec::new() } else { allowed };
    Limits { allowed, ..Limits::between(min, max, min) }
}

/// Returns the number of ranks that a new node gets: as many as the fullest node.
fn ranks_of_a_node(status: &WorldStatus) -> u64 {
    status.hosts.iter().map(|host| host.ranks.len() as u64).max().unwrap_or(1).max(1)
}

fn ranks_on(status: &WorldStatus, node: &SlurmNode) -> u64 {
    let here = status.hosts.iter().filter(|host| is_same(&host.host, node));
    here.map(|host| host.ranks.len() as u64).sum()
}

/// Returns true if a host of a world is this node.
fn is_same(host: &str, node: &SlurmNode) -> bool {
    let short = |name: &str| name.split('.').next().unwrap_or_default().to_ascii_lowercase();
    short(host) == short(&node.host) || short(host) == short(&node.name)
}

/// The nodes that no job has been given yet.
struct Claims<'a> {
    nodes: &'a [SlurmNode],
    left: BTreeSet<u32>,
}

impl Claims<'_> {
    fn named(&mut self, names: &[String]) -> Vec<u32> {
        let place = |name: &String| self.nodes.iter().position(|node| node.name == *name);
        let places: Vec<u32> = names.iter().filter_map(place).map(|place| place as u32).collect();
        places.into_iter().filter(|place| self.left.remove(place)).collect()
    }

    /// Takes the nodes of a world, including nodes that other jobs hold for it, in the order of its
    /// ranks.
    fn elastic(&mut self, job: &SlurmJob, status: &WorldStatus, view: &View<'_>) -> Vec<u32> {
        let holds = |other: &&SlurmJob| {
            other.holds_for == Some(job.number)
                && other.state == JobState::Runs
                && other.user == job.user
        };
        let mut held = self.named(&job.nodes);
        for holder in view.jobs.iter().filter(holds) {
            held.extend(self.named(&holder.nodes));
        }
        let first = |node: &u32| {
            let node = &self.nodes[*node as usize];
            let here = status.hosts.iter().filter(|host| is_same(&host.host, node));
            here.flat_map(|host| host.ranks.iter().copied()).min().unwrap_or(u64::MAX)
        };
        held.sort_by_key(first);
        // Nodes without its ranks cannot be left.
        let leaving = match view.flights.get(&job.number) {
            Some(Flight::Shrink(names)) => names.as_slice(),
            _ => &[],
        };
        let is_used = |node: &u32| {
            first(node) != u64::MAX || leaving.contains(&self.nodes[*node as usize].name)
        };
        let (used, unused): (Vec<u32>, Vec<u32>) = held.into_iter().partition(is_used);
        self.left.extend(unused);
        used
    }

    fn idle(&mut self, count: u32) -> Vec<u32> {
        let is_idle = |node: &&u32| self.nodes[**node as usize].used == Use::Idle;
        let idle: Vec<u32> =
            self.left.iter().filter(is_idle).take(count as usize).copied().collect();
        idle.iter().for_each(|node| {
            self.left.remove(node);
        });
        idle
    }
}

/// Makes the request for a decision about a running job: growth onto new nodes, or the nodes to
/// leave. `most_new` is the largest number of new nodes that it takes at once.
pub fn request(
    decided: &Decided,
    pictured: &Pictured,
    status: &WorldStatus,
    most_new: u32,
) -> Option<(Flight, Call)> {
    let Stage::Running { nodes: held, .. } = &pictured.snapshot.jobs[decided.job].stage else {
        return None;
    };
    let why = Some(decided.reason.clone());
    match &decided.action {
        Action::Grow { nodes, .. } => {
            let count = nodes.count().min(most_new);
            let ranks = u32::try_from(ranks_of_a_node(status)).ok()?.checked_mul(count)?;
            let many = Many { ranks, nodes: Some(count), why, ..Many::default() };
            Some((Flight::Grow(held.count() + count), Call::Grow(many)))
        }
        Action::Shrink { nodes: Choice::Nodes(nodes), grace, .. } => {
            let nodes: Vec<&SlurmNode> =
                nodes.iter().filter_map(|node| pictured.nodes.get(node as usize)).collect();
            let hosts = status
                .hosts
                .iter()
                .filter(|host| nodes.iter().any(|node| is_same(&host.host, node)));
            let from: Vec<String> = hosts.map(|host| host.host.clone()).collect();
            let grace_ms = grace.map(|grace| grace.0);
            let names = nodes.iter().map(|node| node.name.clone()).collect();
            let leave = Hosts { from, grace_ms, why, ..Hosts::default() };
            Some((Flight::Shrink(names), Call::Leave(leave)))
        }
        _ => None,
    }
}

/// Returns the change of a request that an earlier manager has sent. `None` if it is not one of a
/// manager.
pub fn adopted(
    open: &[Open],
    number: u32,
    jobs: &[SlurmJob],
    nodes: &[SlurmNode],
) -> Option<Flight> {
    let [(_, asked)] = open else { return None };
    match asked.kind {
        RequestKind::Grow(_) if asked.nodes > 0 => {
            let is_of_it = |job: &&SlurmJob| {
                job.state == JobState::Runs
                    && (job.number == number || job.holds_for == Some(number))
            };
            let held: usize = jobs.iter().filter(is_of_it).map(|job| job.nodes.len()).sum();
            // Nodes of the growth may be among them already; then one more is kept idle until it
            // ends.
            Some(Flight::Grow(u32::try_from(held).ok()?.checked_add(asked.nodes)?))
        }
        RequestKind::Leave => {
            let is_named = |node: &&SlurmNode| asked.from.iter().any(|host| is_same(host, node));
            Some(Flight::Shrink(
                nodes.iter().filter(is_named).map(|node| node.name.clone()).collect(),
            ))
        }
        _ => None,
    }
}

#[cfg(test)]
#[path = "plan_tests.rs"]
mod tests;
