//! The loop over the events of a simulation.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use thiserror::Error;

use crate::simulate::outcome::{Counts, Ending, Held, Load, Outcome, Record};
use crate::simulate::program::{Next, Running};
use crate::simulate::{Observer, Overrun, Progress, Settings};
use crate::workload::{JobSpec, Program, Work, Workload};
use elastic_policy::action::{Action, Choice, Decision};
use elastic_policy::event::Event;
use elastic_policy::job::{Class, JobId, MpiRatio};
use elastic_policy::nodes::NodeList;
use elastic_policy::policy::{Draft, Policy};
use elastic_policy::state::{Refusal, State};
use elastic_policy::time::{Span, Time};

/// Instants between two reports of progress.
const REPORT_EVERY: u64 = 4096;
/// Number of ticks without any other event after which waiting jobs are given up.
const IDLE_TICKS: u32 = 10_000;

/// Why a simulation failed: a defect of the policy.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum SimulateError {
    /// The policy decided something impossible.
    #[error("policy {policy}, at {at}: {refusal}")]
    Refused {
        /// The policy.
        policy: String,
        /// The simulated time.
        at: Time,
        /// The refused action.
        refusal: Refusal,
    },
    /// The policy changed the size of a resizable job that was not at a resize point.
    #[error("policy {policy}, at {at}: resize {job}: the job is not at a resize point")]
    NotAtResizePoint {
        /// The policy.
        policy: String,
        /// The simulated time.
        at: Time,
        /// The job.
        job: JobId,
    },
    /// The policy only handles whole nodes.
    #[error(
        "policy {policy} gives jobs whole nodes; fcfs, easy and easy-short can share them among jobs"
    )]
    WholeNodes {
        /// The policy.
        policy: String,
    },
    /// Jobs wait on an idle machine, and nothing else will happen.
    #[error("policy {policy}, at {at}: {waiting} jobs wait for ever, the first is {first}")]
    Stalled {
        /// The policy.
        policy: String,
        /// The simulated time.
        at: Time,
        /// The number of waiting jobs.
        waiting: usize,
        /// The first of them.
        first: JobId,
    },
}

/// A planned event. Events of one instant occur in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Planned {
    End,
    Leave,
    GraceOver,
    Resized,
    ResizePoint,
}

type Entry = Reverse<(Time, Planned, JobId, u32)>;

/// A simulation of a workload under a policy.
pub struct Simulation<'a> {
    workload: &'a Workload,
    settings: Settings,
    policy: &'a mut dyn Policy,
    observer: &'a mut dyn Observer,
    state: State,
    planned: BinaryHeap<Entry>,
    programs: BTreeMap<JobId, Running>,
    /// The number of notices so far to each job under notice; a later notice replaces the planned
    /// end of an earlier one.
    notices: BTreeMap<JobId, u32>,
    /// The number of nodes that a job holds, and since when.
    holds: BTreeMap<JobId, (u32, Time)>,
    at_resize_point: Vec<JobId>,
    records: Vec<Record>,
    load: Vec<Load>,
    held: Held,
    counts: Counts,
    submitted: usize,
    done: usize,
}

impl<'a> Simulation<'a> {
    /// Prepares a simulation.
    #[must_use]
    pub fn new(
        workload: &'a Workload,
        settings: Settings,
        policy: &'a mut dyn Policy,
        observer: &'a mut dyn Observer,
    ) -> Simulation<'a> {
        Simulation {
            workload,
            settings,
            policy,
            observer,
            state: match settings.sharing {
                None => State::new(settings.cluster),
                Some(sharing) => State::shared(settings.cluster, sharing.memory),
            },
            planned: BinaryHeap::new(),
            programs: BTreeMap::new(),
            notices: BTreeMap::new(),
            holds: BTreeMap::new(),
            at_resize_point: Vec::new(),
            records: workload.jobs.iter().map(fresh_record).collect(),
            load: Vec::new(),
            held: Held::default(),
            counts: Counts::default(),
            submitted: 0,
            done: 0,
        }
    }

    /// Runs until all jobs have ended.
    ///
    /// # Errors
    ///
    /// The policy decided something impossible, leaves jobs waiting forever, or cannot share nodes
    /// as the settings require.
    pub fn run(mut self) -> Result<Outcome, SimulateError> {
        if self.settings.sharing.is_some() && !self.policy.shares_nodes() {
            return Err(SimulateError::WholeNodes { policy: self.policy.name().to_owned() });
        }
        let mut events = Vec::new();
        let mut tick = self.settings.tick.map(|span| (Time::ZERO + span, span));
        let mut idle_ticks = 0;
        loop {
            let next = self.next_instant();
            let is_over = next.is_none() && self.state.queue().is_empty();
            let now = match (next, tick) {
                _ if is_over => break,
                (Some(next), Some((at, _))) => next.min(at),
                (Some(next), None) => next,
                (None, Some((at, _))) if idle_ticks < IDLE_TICKS => at,
                (None, _) => return Err(self.stalled()),
            };
            idle_ticks = if next.is_none() { idle_ticks + 1 } else { 0 };
            self.state.advance(now).map_err(|refusal| self.refused(refusal))?;
            events.clear();
            self.occur(now, &mut events).map_err(|refusal| self.refused(refusal))?;
            if let Some((at, span)) = &mut tick
                && *at == now
            {
                *at += *span;
                self.measure(&mut events).map_err(|refusal| self.refused(refusal))?;
                events.push(Event::Tick);
            }
            if events.is_empty() {
                continue;
            }
            let mut draft = Draft::new(&mut self.state);
            let decided = self.policy.decide(&events, &mut draft);
            let decisions = draft.finish();
            decided.map_err(|refusal| self.refused(refusal))?;
            for decision in &decisions {
                self.carry_out(now, decision)?;
            }
            self.leave_resize_points();
            self.note_load(now);
        }
        let name = self.policy.name().to_owned();
        Ok(Outcome {
            policy: name,
            cluster: self.settings.cluster,
            is_shared: self.settings.sharing.is_some(),
            records: self.records,
            load: self.load,
            pieces: self.held.pieces,
            counts: self.counts,
        })
    }

    fn next_instant(&self) -> Option<Time> {
        let planned = self.planned.peek().map(|entry| entry.0.0);
        let submitted = self.workload.jobs.get(self.submitted).map(|job| job.submitted);
        let expected = self.state.first_end().map(|(end, _)| end);
        [planned, submitted, expected].into_iter().flatten().min()
    }

    /// Records all events of this instant in the state.
    fn occur(&mut self, now: Time, events: &mut Vec<Event>) -> Result<(), Refusal> {
        while let Some(&Reverse((at, planned, job, version))) = self.planned.peek()
            && at == now
        {
            self.planned.pop();
            if let Some(event) = self.happen(now, planned, job, version) {
                self.record(event, events)?;
            }
        }
        while let Some(spec) = self.workload.jobs.get(self.submitted)
            && spec.submitted <= now
        {
            self.submit(spec, events)?;
        }
        while let Some((end, job)) = self.state.first_end()
            && end <= now
        {
            let started = self.state.job(job).and_then(|job| job.started).unwrap_or(now);
            // In proportion to the run time, so that even the longest overrun takes few events.
            let more = Span(now.since(started).0 / 10).max(Span::seconds(60));
            self.record(Event::Estimated { job, end: now + more }, events)?;
        }
        Ok(())
    }

    fn record(&mut self, event: Event, events: &mut Vec<Event>) -> Result<(), Refusal> {
        self.state.record(event)?;
        events.push(event);
        Ok(())
    }

    fn submit(&mut self, spec: &JobSpec, events: &mut Vec<Event>) -> Result<(), Refusal> {
        let place = self.submitted;
        self.submitted += 1;
        let limits = &spec.limits;
        let id = JobId(u32::try_from(place).unwrap_or(u32::MAX));
        let job = spec.job(id);
        if !self.state.fits_ever(&job) || !limits.allows(limits.start) || limits.min == 0 {
            self.records[place].ending = Ending::Rejected;
            self.done += 1;
            return Ok(());
        }
        events.push(self.state.submit(job)?);
        Ok(())
    }

    /// Returns the event of a planned one; `None` if a change of size has made it void.
    fn happen(&mut self, now: Time, planned: Planned, job: JobId, version: u32) -> Option<Event> {
        match planned {
            Planned::End => {
                let present = self.programs.get(&job).map(|program| program.version);
                if self.program(job).is_some() && present != Some(version) {
                    return None;
                }
                // A scheduler has already ended it.
                self.state.job(job)?;
                self.gone(now, job);
                Some(Event::Ended(job))
            }
            Planned::Leave | Planned::GraceOver => {
                if self.notices.get(&job) != Some(&version) {
                    return None;
                }
                let leaving = self.state.job(job)?.leaving.clone();
                self.give_back(job, &leaving, now);
                let is_left = planned == Planned::Leave;
                Some(if is_left { Event::Left(job) } else { Event::GraceOver(job) })
            }
            Planned::Resized => {
                let program = self.program(job)?;
                let resize = *self.state.job(job)?.resizes.last()?;
                let cost = program.resize_cost.of(resize.from, resize.to);
                Some(Event::Resized { job, cost })
            }
            Planned::ResizePoint => {
                let running = self.programs.get_mut(&job)?;
                if running.version != version {
                    return None;
                }
                running.reach_resize_point(now);
                self.at_resize_point.push(job);
                let left = Some(running.whole_left());
                Some(Event::ResizePoint { job, iteration: running.iteration(), left })
            }
        }
    }

    /// Measures the MPI ratio of all running jobs that have one.
    fn measure(&mut self, events: &mut Vec<Event>) -> Result<(), Refusal> {
        let measured: Vec<Event> = self
            .state
            .running()
            .filter_map(|job| {
                let ratio = self.program(job.id)?.mpi_ratio_on(job.nodes.count())?;
                let ratio = MpiRatio { total: ratio, recent: ratio };
                Some(Event::Measured { job: job.id, ratio })
            })
            .collect();
        measured.into_iter().try_for_each(|event| self.record(event, events))
    }

    fn carry_out(&mut self, now: Time, decision: &Decision) -> Result<(), SimulateError> {
        self.observer.decided(now, decision);
        match &decision.action {
            Action::Start { job, nodes } => {
                self.counts.starts += 1;
                self.start(now, *job, nodes);
            }
            Action::Grow { job, nodes } => {
                self.counts.growths += 1;
                self.check_resize_point(now, *job)?;
                if let (true, Choice::Nodes(nodes)) = (self.settings.keep_course, nodes) {
                    self.held.gain(job.0, nodes, now);
                }
                self.resized(now, *job);
            }
            Action::Shrink { job, nodes, grace: None } => {
                self.counts.shrinkages += 1;
                self.check_resize_point(now, *job)?;
                if let (true, Choice::Nodes(nodes)) = (self.settings.keep_course, nodes) {
                    self.held.lose(job.0, nodes, now);
                }
                self.resized(now, *job);
            }
            Action::Shrink { job, grace: Some(grace), .. } => {
                self.counts.shrinkages += 1;
                if self.state.job(*job).is_some_and(|job| job.class == Class::Resizable) {
                    return Err(self.not_at_resize_point(now, *job));
                }
                self.notify(now, *job, *grace);
            }
            Action::Reserve { .. } => self.counts.reservations += 1,
            Action::Stop { job } => {
                self.counts.stops += 1;
                self.records[job.0 as usize].ending = Ending::Stopped;
                self.gone(now, *job);
            }
            Action::Keep { .. } => {}
        }
        Ok(())
    }

    fn start(&mut self, now: Time, job: JobId, nodes: &Choice) {
        let count = nodes.count();
        let spec = &self.workload.jobs[job.0 as usize];
        let record = &mut self.records[job.0 as usize];
        record.started = Some(now);
        record.started_on = count;
        record.ended = now;
        let planned = match &spec.work {
            Work::Fixed(length) => {
                let is_late = self.settings.overrun == Overrun::End && *length > spec.walltime;
                if is_late {
                    record.ending = Ending::TimedOut;
                }
                let length = if is_late { spec.walltime } else { *length };
                (now + length, Planned::End)
            }
            Work::Iterative(program) => {
                let mut running = Running::start(program, count, now);
                let next = running.next(program, spec.class);
                self.programs.insert(job, running);
                entry(next)
            }
        };
        self.planned.push(Reverse((planned.0, planned.1, job, 0)));
        self.hold(job, count, now);
        if let (true, Choice::Nodes(nodes)) = (self.settings.keep_course, nodes) {
            self.held.gain(job.0, nodes, now);
        }
    }

    fn check_resize_point(&self, now: Time, job: JobId) -> Result<(), SimulateError> {
        let class = self.state.job(job).map(|job| job.class);
        if class == Some(Class::Resizable) && !self.at_resize_point.contains(&job) {
            return Err(self.not_at_resize_point(now, job));
        }
        Ok(())
    }

    fn not_at_resize_point(&self, at: Time, job: JobId) -> SimulateError {
        SimulateError::NotAtResizePoint { policy: self.policy.name().to_owned(), at, job }
    }

    /// Makes a program continue on the nodes that the state gives it.
    fn resized(&mut self, now: Time, job: JobId) {
        let Some(known) = self.state.job(job) else { return };
        let (count, class) = (known.nodes.count(), known.class);
        let change = known.resizes.last().map(|resize| (resize.from, resize.to));
        let before = self.holds.get(&job).map_or(0, |hold| hold.0);
        self.hold(job, count, now);
        self.records[job.0 as usize].resizes += 1;
        let Work::Iterative(program) = &self.workload.jobs[job.0 as usize].work else { return };
        let Some(running) = self.programs.get_mut(&job) else { return };
        let (from, to) = change.unwrap_or((before, count));
        let cost = program.resize_cost.of(from, to);
        if class == Class::Malleable {
            running.advance(now);
        }
        let ratio = running.resize(program, count, cost);
        let version = running.version;
        if class == Class::Malleable {
            let (at, planned) = entry(running.next(program, class));
            self.planned.push(Reverse((at, planned, job, version)));
        }
        self.planned.push(Reverse((now + cost, Planned::Resized, job, version)));
        self.estimate(now, job, cost, ratio);
    }

    /// Estimates the end after a change of size from the ratio of iteration times, as the job's
    /// reports would.
    fn estimate(&mut self, now: Time, job: JobId, cost: Span, ratio: f64) {
        let end = self.state.job(job).and_then(|job| job.expected_end).unwrap_or(now);
        let rest = end.since(now).as_seconds() * ratio;
        let end = now + cost + Span::from_seconds(rest);
        // Only jobs that run change their size, and those can be estimated.
        let _ = self.state.record(Event::Estimated { job, end });
    }

    fn notify(&mut self, now: Time, job: JobId, grace: Span) {
        let notice = self.notices.entry(job).or_default();
        *notice += 1;
        let version = *notice;
        let leave = self.program(job).map(|program| (program.leave_after, program.acknowledges));
        let deadline = self.state.job(job).and_then(|job| job.leave_by).unwrap_or(now + grace);
        let (at, planned) = match leave {
            Some((after, true)) if now + after <= deadline => (now + after, Planned::Leave),
            _ => (deadline, Planned::GraceOver),
        };
        self.planned.push(Reverse((at, planned, job, version)));
    }

    /// Makes a job continue without the nodes that it was asked to leave. The state still has them.
    fn give_back(&mut self, job: JobId, leaving: &NodeList, now: Time) {
        self.notices.remove(&job);
        if self.settings.keep_course {
            self.held.lose(job.0, leaving, now);
        }
        let Some(known) = self.state.job(job) else { return };
        let (before, after) = (known.nodes.count(), known.size());
        let class = known.class;
        self.hold(job, after, now);
        self.records[job.0 as usize].resizes += 1;
        let Work::Iterative(program) = &self.workload.jobs[job.0 as usize].work else { return };
        let Some(running) = self.programs.get_mut(&job) else { return };
        running.advance(now);
        let cost = program.resize_cost.of(before, after);
        let ratio = running.resize(program, after, cost);
        let version = running.version;
        let (at, planned) = entry(running.next(program, class));
        self.planned.push(Reverse((at, planned, job, version)));
        self.planned.push(Reverse((now + cost, Planned::Resized, job, version)));
        self.estimate(now, job, cost, ratio);
    }

    /// Makes the jobs at a resize point continue.
    fn leave_resize_points(&mut self) {
        for job in std::mem::take(&mut self.at_resize_point) {
            let spec = &self.workload.jobs[job.0 as usize];
            let (Work::Iterative(program), Some(running)) =
                (&spec.work, self.programs.get_mut(&job))
            else {
                continue;
            };
            let (at, planned) = entry(running.next(program, spec.class));
            self.planned.push(Reverse((at, planned, job, running.version)));
        }
    }

    /// Records that a job has ended.
    fn gone(&mut self, now: Time, job: JobId) {
        self.programs.remove(&job);
        self.notices.remove(&job);
        self.hold(job, 0, now);
        if self.settings.keep_course {
            self.held.end(job.0, now);
        }
        self.records[job.0 as usize].ended = now;
        self.count_cores(job);
        self.done += 1;
    }

    /// Records the number of nodes that a job holds from now on.
    fn hold(&mut self, job: JobId, count: u32, now: Time) {
        let before = match count {
            0 => self.holds.remove(&job),
            _ => self.holds.insert(job, (count, now)),
        };
        let record = &mut self.records[job.0 as usize];
        record.largest = record.largest.max(count);
        if let Some((count, since)) = before {
            record.node_time += u64::from(count) * now.since(since).0;
        }
    }

    /// Counts the node time of an ended job by its fraction of the cores, if jobs share nodes.
    fn count_cores(&mut self, job: JobId) {
        let Some(need) = self.state.job(job).and_then(|job| self.state.need(job)) else { return };
        let record = &mut self.records[job.0 as usize];
        let cores = need.cores() as f64 / f64::from(self.settings.cluster.cores_per_node.max(1));
        record.node_time = (record.execution().0 as f64 * cores).round() as u64;
    }

    fn note_load(&mut self, now: Time) {
        self.counts.instants += 1;
        if self.settings.keep_course {
            self.keep_load(now);
        }
        if self.counts.instants.is_multiple_of(REPORT_EVERY) {
            let (done, jobs) = (self.done, self.workload.jobs.len());
            self.observer.progressed(Progress { now, done, jobs });
        }
    }

    fn keep_load(&mut self, now: Time) {
        let busy = self.settings.cluster.nodes - self.state.idle();
        let waiting = u32::try_from(self.state.queue().len()).unwrap_or(u32::MAX);
        let load = Load { at: now, busy, waiting };
        match self.load.last_mut() {
            Some(last) if last.at == now => *last = load,
            Some(last) if (last.busy, last.waiting) == (busy, waiting) => {}
            _ => self.load.push(load),
        }
    }

    fn program(&self, job: JobId) -> Option<&'a Program> {
        match &self.workload.jobs.get(job.0 as usize)?.work {
            Work::Iterative(program) => Some(program),
            Work::Fixed(_) => None,
        }
    }

    fn refused(&self, refusal: Refusal) -> SimulateError {
        let policy = self.policy.name().to_owned();
        SimulateError::Refused { policy, at: self.state.now(), refusal }
    }

    fn stalled(&self) -> SimulateError {
        let (policy, at) = (self.policy.name().to_owned(), self.state.now());
        let waiting = self.state.queue().len();
        let first = self.state.queue().head().unwrap_or_default();
        SimulateError::Stalled { policy, at, waiting, first }
    }
}

fn entry(next: Next) -> (Time, Planned) {
    match next {
        Next::ResizePoint(at) => (at, Planned::ResizePoint),
        Next::End(at) => (at, Planned::End),
    }
}

fn fresh_record(spec: &JobSpec) -> Record {
    Record {
        class: spec.class,
        priority: spec.priority,
        asked: spec.limits.start,
        started_on: 0,
        largest: 0,
        resizes: 0,
        submitted: spec.submitted,
        started: None,
        ended: spec.submitted,
        walltime: spec.walltime,
        node_time: 0,
        ending: Ending::Completed,
    }
}
