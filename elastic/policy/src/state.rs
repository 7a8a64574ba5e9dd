//! The cluster and its jobs, and the checked transitions between states.

mod shared;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::action::{Action, Choice};
use crate::event::Event;
use crate::job::{Class, Job, JobId, Phase, Resize, Sample};
use crate::nodes::{NodeList, NodeSet};
use crate::queue::{Least, Queue};
use crate::rooms::Rooms;
use crate::time::{Span, Time};

/// The machine: equal nodes, numbered from zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cluster {
    /// The number of nodes.
    pub nodes: u32,
    /// The cores of each node.
    pub cores_per_node: u32,
}

/// A promise of nodes to a queued job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reservation {
    /// The number of nodes.
    pub nodes: u32,
    /// The instant from which they are promised.
    pub at: Time,
}

/// Why a transition was refused. The state is unchanged.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Refusal {
    /// The job is unknown or has ended.
    #[error("{operation} {job}: there is no such job")]
    NoJob {
        /// The refused operation.
        operation: &'static str,
        /// The job.
        job: JobId,
    },
    /// The job is in another phase.
    #[error("{operation} {job}: the job is {phase:?}")]
    Phase {
        /// The refused operation.
        operation: &'static str,
        /// The job.
        job: JobId,
        /// The phase of the job.
        phase: Phase,
    },
    /// The class of the job excludes the operation.
    #[error("{operation} {job}: a {class:?} job keeps its size")]
    Class {
        /// The refused operation.
        operation: &'static str,
        /// The job.
        job: JobId,
        /// The class of the job.
        class: Class,
    },
    /// The job may not be ended by a scheduler.
    #[error("stop {job}: a {class:?} job is not best effort")]
    NotBestEffort {
        /// The job.
        job: JobId,
        /// The class of the job.
        class: Class,
    },
    /// The job may not have that size.
    #[error("{operation} {job}: {size} nodes are not allowed (from {min} to {max}{})", list(.allowed))]
    Size {
        /// The refused operation.
        operation: &'static str,
        /// The job.
        job: JobId,
        /// The size after the operation.
        size: u32,
        /// The smallest size at present.
        min: u32,
        /// The largest size.
        max: u32,
        /// The allowed sizes; empty for all.
        allowed: Vec<u32>,
    },
    /// A node is not free, does not belong to the job, or does not exist; or too few nodes are
    /// free.
    #[error("{operation} {job}: nodes {nodes} cannot be used: {cause}")]
    Nodes {
        /// The refused operation.
        operation: &'static str,
        /// The job.
        job: JobId,
        /// The nodes, or their number.
        nodes: String,
        /// The obstacle.
        cause: &'static str,
    },
    /// An operation would change the size of a job although jobs share nodes.
    #[error("{operation} {job}: where jobs share nodes, they keep their sizes")]
    Shared {
        /// The refused operation.
        operation: &'static str,
        /// The job.
        job: JobId,
    },
    /// A job was submitted with a number that is not above all earlier ones, or with limits that
    /// allow no size.
    #[error("submit {job}: {cause}")]
    Submit {
        /// The job.
        job: JobId,
        /// The obstacle.
        cause: &'static str,
    },
    /// Time would go backwards.
    #[error("advance to {then}: the state is at {now} already")]
    Backwards {
        /// The time of the state.
        now: Time,
        /// The earlier time.
        then: Time,
    },
}

fn list(allowed: &[u32]) -> String {
    if allowed.is_empty() { String::new() } else { format!(", of {allowed:?}") }
}

/// The cluster and its jobs at one instant.
#[derive(Clone, Debug, PartialEq)]
pub struct State {
    now: Time,
    cluster: Cluster,
    free: NodeSet,
    /// The room on each node, if jobs share nodes.
    rooms: Option<Rooms>,
    /// Jobs by number; `None` once a job has ended.
    jobs: Vec<Option<Box<Job>>>,
    queue: Queue,
    running: BTreeSet<JobId>,
    /// The nodes of running jobs by expected end.
    ends: BTreeMap<(Time, JobId), u32>,
    reservations: BTreeMap<JobId, Reservation>,
}

impl State {
    /// Makes the state of an idle cluster at time zero.
    #[must_use]
    pub fn new(cluster: Cluster) -> State {
        State {
            now: Time::ZERO,
            cluster,
            free: NodeSet::first(cluster.nodes),
            rooms: None,
            jobs: Vec::new(),
            queue: Queue::default(),
            running: BTreeSet::new(),
            ends: BTreeMap::new(),
            reservations: BTreeMap::new(),
        }
    }

    /// Returns the time of the state.
    #[must_use]
    pub fn now(&self) -> Time {
        self.now
    }

    /// Returns the machine.
    #[must_use]
    pub fn cluster(&self) -> Cluster {
        self.cluster
    }

    /// Returns the free nodes.
    #[must_use]
    pub fn free(&self) -> &NodeSet {
        &self.free
    }

    /// Returns the number of free nodes.
    #[must_use]
    pub fn idle(&self) -> u32 {
        self.free.count()
    }

    /// Returns a job that waits or runs.
    #[must_use]
    pub fn job(&self, job: JobId) -> Option<&Job> {
        self.jobs.get(job.0 as usize)?.as_deref()
    }

    /// Returns the waiting jobs in order of arrival.
    #[must_use]
    pub fn queue(&self) -> &Queue {
        &self.queue
    }

    /// Iterates over the waiting jobs in order of arrival.
    pub fn queued(&self) -> impl Iterator<Item = &Job> + '_ {
        self.queue.iter().filter_map(|job| self.job(job))
    }

    /// Iterates over the running jobs in order of submission.
    pub fn running(&self) -> impl Iterator<Item = &Job> + '_ {
        self.running.iter().filter_map(|&job| self.job(job))
    }

    /// Iterates over the running jobs in order of expected end: end, job, nodes held.
    pub fn ends(&self) -> impl Iterator<Item = (Time, JobId, u32)> + '_ {
        self.ends.iter().map(|(&(end, job), &nodes)| (end, job, nodes))
    }

    /// Returns the running job that is expected to end first.
    #[must_use]
    pub fn first_end(&self) -> Option<(Time, JobId)> {
        self.ends.first_key_value().map(|(&first, _)| first)
    }

    /// Returns the promise to a queued job.
    #[must_use]
    pub fn reservation(&self, job: JobId) -> Option<Reservation> {
        self.reservations.get(&job).copied()
    }

    /// Iterates over the promises in order of submission.
    pub fn reservations(&self) -> impl Iterator<Item = (JobId, Reservation)> + '_ {
        self.reservations.iter().map(|(&job, &reservation)| (job, reservation))
    }

    /// Moves the time forward.
    ///
    /// # Errors
    ///
    /// `now` is earlier than the state.
    pub fn advance(&mut self, now: Time) -> Result<(), Refusal> {
        if now < self.now {
            return Err(Refusal::Backwards { now: self.now, then: now });
        }
        self.now = now;
        Ok(())
    }

    /// Adds a job to the end of the queue and returns the event for the policy.
    ///
    /// # Errors
    ///
    /// The job's number is not above all earlier ones, or no allowed size fits the cluster.
    pub fn submit(&mut self, job: Job) -> Result<Event, Refusal> {
        let id = job.id;
        let refused = |cause| Err(Refusal::Submit { job: id, cause });
        let limits = &job.limits;
        if (id.0 as usize) < self.jobs.len() {
            return refused("its number is not above those of the jobs before");
        }
        if !limits.allowed.is_sorted() {
            return refused("its allowed sizes are not in ascending order");
        }
        if limits.min == 0 || !limits.allows(limits.start) {
            return refused("its start size is zero or outside its limits");
        }
        let need = self.need(&job);
        if limits.min > self.cluster.nodes {
            return refused("it needs more nodes than the cluster has");
        }
        if need.is_some() && !self.fits_ever(&job) {
            return refused("it needs larger nodes than the cluster has");
        }
        if job.phase != Phase::Queued || !job.nodes.is_empty() {
            return refused("it is not new");
        }
        self.jobs.resize_with(id.0 as usize, || None);
        let cores = need.map(|need| u32::try_from(need.cores()).unwrap_or(u32::MAX));
        let nodes = cores.unwrap_or(limits.min);
        self.queue.push(id, Least { nodes, walltime: job.walltime });
        self.jobs.push(Some(Box::new(job)));
        Ok(Event::Submitted(id))
    }

    /// Records an event other than a submission.
    ///
    /// # Errors
    ///
    /// The event names a job that is unknown or in another phase.
    pub fn record(&mut self, event: Event) -> Result<(), Refusal> {
        match event {
            Event::Submitted(_) | Event::Tick => {}
            Event::Ended(job) => self.end(job)?,
            Event::ResizePoint { job, iteration, left } => {
                let job = self.running_mut("record a resize point of", job)?;
                let nodes = job.size();
                job.history.push(Sample { nodes, iteration });
                job.iterations_left = left;
            }
            Event::Measured { job, ratio } => {
                self.running_mut("record the MPI ratio of", job)?.mpi_ratio = Some(ratio);
            }
            Event::Resized { job, cost } => {
                let job = self.running_mut("record the resize of", job)?;
                if let Some(resize) = job.resizes.last_mut() {
                    resize.cost = Some(cost);
                }
            }
            Event::Left(job) | Event::GraceOver(job) => self.release_leaving(job)?,
            Event::Estimated { job, end } => self.estimate(job, end)?,
        }
        Ok(())
    }

    /// Carries out an action, completely or not at all, and returns it with the chosen nodes.
    ///
    /// # Errors
    ///
    /// The action is not possible; the error names the obstacle.
    pub fn apply(&mut self, action: &Action) -> Result<Action, Refusal> {
        match action {
            Action::Start { job, nodes } => self.start(*job, nodes),
            Action::Grow { job, nodes } => self.grow(*job, nodes),
            Action::Shrink { job, nodes, grace } => self.shrink(*job, nodes, *grace),
            Action::Stop { job } => {
                self.stop(*job)?;
                Ok(action.clone())
            }
            Action::Keep { job } => {
                self.running_ref("keep", *job)?;
                Ok(action.clone())
            }
            Action::Reserve { job, nodes, at } => {
                let known = self.known("reserve nodes for", *job)?;
                if known.phase != Phase::Queued {
                    return Err(phase("reserve nodes for", known));
                }
                if !known.limits.allows(*nodes) {
                    return Err(size("reserve nodes for", known, *nodes, known.limits.min));
                }
                self.reservations.insert(*job, Reservation { nodes: *nodes, at: *at });
                Ok(action.clone())
            }
        }
    }

    fn start(&mut self, id: JobId, nodes: &Choice) -> Result<Action, Refusal> {
        let operation = "start";
        let job = self.known(operation, id)?;
        if job.phase != Phase::Queued {
            return Err(phase(operation, job));
        }
        let count = nodes.count();
        if !job.limits.allows(count) {
            return Err(size(operation, job, count, job.limits.min));
        }
        let end = self.now + job.walltime;
        let taken = match self.rooms {
            None => self.take_free(operation, id, nodes)?,
            Some(_) => self.take_room(operation, id, nodes)?,
        };
        self.queue.remove(id);
        self.reservations.remove(&id);
        self.running.insert(id);
        self.ends.insert((end, id), count);
        let now = self.now;
        if let Some(job) = self.job_mut(id) {
            job.phase = Phase::Running;
            job.started = Some(now);
            job.started_on = count;
            job.expected_end = Some(end);
            job.nodes = taken.clone();
        }
        Ok(Action::Start { job: id, nodes: Choice::Nodes(taken) })
    }

    fn grow(&mut self, id: JobId, nodes: &Choice) -> Result<Action, Refusal> {
        let operation = "grow";
        let job = self.elastic(operation, id)?;
        let (from, count) = (job.size(), nodes.count());
        let to = from.saturating_add(count);
        if count == 0 || !job.limits.allows(to) {
            return Err(size(operation, job, to, job.limits.min));
        }
        let taken = self.take_free(operation, id, nodes)?;
        let resize = Resize { from, to, at: self.now, cost: None };
        if let Some(job) = self.job_mut(id) {
            job.nodes.append(&taken);
            job.resizes.push(resize);
        }
        self.count_held(id);
        Ok(Action::Grow { job: id, nodes: Choice::Nodes(taken) })
    }

    fn shrink(
        &mut self,
        id: JobId,
        nodes: &Choice,
        grace: Option<Span>,
    ) -> Result<Action, Refusal> {
        let operation = "shrink";
        let job = self.elastic(operation, id)?;
        let refused = |cause| {
            let nodes = words(nodes);
            Err(Refusal::Nodes { operation, job: id, nodes, cause })
        };
        let (from, count) = (job.size(), nodes.count());
        if count == 0 || count > from {
            return refused("the job does not have so many to give, or none was named");
        }
        let to = from - count;
        if to < job.smallest() || !job.limits.allows(to) {
            return Err(size(operation, job, to, job.smallest()));
        }
        let mut staying = job.nodes.clone();
        staying.remove(&job.leaving);
        let first = staying.iter().next();
        let lost = match nodes {
            Choice::Count(count) => staying.take_tail(*count),
            Choice::Nodes(named) => {
                if has_twice(named) || named.iter().any(|node| !staying.contains(node)) {
                    return refused("one is not the job's, is leaving, or is named twice");
                }
                named.clone()
            }
        };
        if first.is_none_or(|first| lost.contains(first)) {
            return refused("the job's first node, which has its coordinator, cannot leave");
        }
        let now = self.now;
        let resize = Resize { from, to, at: now, cost: None };
        if let Some(job) = self.job_mut(id) {
            job.resizes.push(resize);
            match grace {
                None => job.nodes.remove(&lost),
                Some(grace) => {
                    job.leaving.append(&lost);
                    job.leave_by = Some(job.leave_by.unwrap_or(Time::ZERO).max(now + grace));
                }
            }
        }
        if grace.is_none() {
            self.put_back(&lost);
            self.count_held(id);
        }
        Ok(Action::Shrink { job: id, nodes: Choice::Nodes(lost), grace })
    }

    fn stop(&mut self, id: JobId) -> Result<(), Refusal> {
        let job = self.running_ref("stop", id)?;
        match job.class {
            Class::Moldable => self.end(id),
            class => Err(Refusal::NotBestEffort { job: id, class }),
        }
    }

    fn end(&mut self, id: JobId) -> Result<(), Refusal> {
        self.known("end", id)?;
        let Some(job) = self.jobs.get_mut(id.0 as usize).and_then(Option::take) else {
            return Ok(());
        };
        match job.phase {
            Phase::Queued => {
                self.queue.remove(id);
                self.reservations.remove(&id);
            }
            Phase::Running => {
                self.running.remove(&id);
                if let Some(end) = job.expected_end {
                    self.ends.remove(&(end, id));
                }
                self.leave(&job);
            }
        }
        Ok(())
    }

    fn release_leaving(&mut self, id: JobId) -> Result<(), Refusal> {
        let job = self.running_mut("release nodes of", id)?;
        let leaving = std::mem::take(&mut job.leaving);
        job.nodes.remove(&leaving);
        job.leave_by = None;
        self.put_back(&leaving);
        self.count_held(id);
        Ok(())
    }

    fn estimate(&mut self, id: JobId, end: Time) -> Result<(), Refusal> {
        let job = self.running_mut("estimate the end of", id)?;
        let count = job.nodes.count();
        let before = job.expected_end.replace(end);
        if let Some(before) = before {
            self.ends.remove(&(before, id));
        }
        self.ends.insert((end, id), count);
        Ok(())
    }

    /// Updates the number of a job's nodes in the order of ends.
    fn count_held(&mut self, id: JobId) {
        let held = self.job(id).and_then(|job| Some((job.expected_end?, job.nodes.count())));
        if let Some((end, count)) = held {
            self.ends.insert((end, id), count);
        }
    }

    fn take_free(
        &mut self,
        operation: &'static str,
        job: JobId,
        nodes: &Choice,
    ) -> Result<NodeList, Refusal> {
        let refused = |cause| Refusal::Nodes { operation, job, nodes: words(nodes), cause };
        match nodes {
            Choice::Count(count) => {
                self.free.take_lowest(*count).ok_or_else(|| refused("fewer are free"))
            }
            Choice::Nodes(named) => {
                let is_free = named.intervals().iter().all(|part| self.free.contains(*part));
                if !is_free || has_twice(named) {
                    return Err(refused("one is not free, does not exist, or is named twice"));
                }
                for part in named.intervals() {
                    self.free.remove(*part);
                }
                Ok(named.clone())
            }
        }
    }

    fn put_back(&mut self, nodes: &NodeList) {
        for part in nodes.intervals() {
            self.free.insert(*part);
        }
    }

    fn job_mut(&mut self, job: JobId) -> Option<&mut Job> {
        self.jobs.get_mut(job.0 as usize)?.as_deref_mut()
    }

    fn known(&self, operation: &'static str, job: JobId) -> Result<&Job, Refusal> {
        self.job(job).ok_or(Refusal::NoJob { operation, job })
    }

    fn running_ref(&self, operation: &'static str, job: JobId) -> Result<&Job, Refusal> {
        let job = self.known(operation, job)?;
        if job.phase == Phase::Running { Ok(job) } else { Err(phase(operation, job)) }
    }

    fn running_mut(&mut self, operation: &'static str, job: JobId) -> Result<&mut Job, Refusal> {
        self.running_ref(operation, job)?;
        self.job_mut(job).ok_or(Refusal::NoJob { operation, job })
    }

    fn elastic(&self, operation: &'static str, job: JobId) -> Result<&Job, Refusal> {
        let job = self.running_ref(operation, job)?;
        if self.rooms.is_some() {
            return Err(Refusal::Shared { operation, job: job.id });
        }
        match job.class {
            Class::Rigid | Class::Moldable => {
                Err(Refusal::Class { operation, job: job.id, class: job.class })
            }
            Class::Resizable | Class::Malleable => Ok(job),
        }
    }
}

fn has_twice(nodes: &NodeList) -> bool {
    let mut sorted: Vec<_> = nodes.intervals().to_vec();
    sorted.sort_unstable();
    sorted.windows(2).any(|pair| pair[0].end() > pair[1].first)
}

fn words(nodes: &Choice) -> String {
    match nodes {
        Choice::Count(count) => format!("({count})"),
        Choice::Nodes(nodes) => nodes.to_string(),
    }
}

fn phase(operation: &'static str, job: &Job) -> Refusal {
    Refusal::Phase { operation, job: job.id, phase: job.phase }
}

fn size(operation: &'static str, job: &Job, size: u32, min: u32) -> Refusal {
    let (job, max, allowed) = (job.id, job.limits.max, job.limits.allowed.clone());
    Refusal::Size { operation, job, size, min, max, allowed }
}
