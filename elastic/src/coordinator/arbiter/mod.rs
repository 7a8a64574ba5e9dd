//! Decisions about requests: pure, over the places of ranks, with its own clock.

mod decide;
mod hosts;
mod status;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::coordinator::{Journal, Supply};
use crate::model::change::{
    Cause, CauseKind, ChangeError, Changes, Request, RequestId, SetChange, Step, Turn, View,
};
use crate::model::member::{MemberId, NodeId, UnitId};
use crate::model::order::{Losses, ResizePlan};
use crate::model::place::{Bounds, Cursor, Loads, NodeState, Nodes, PlaceError, Placement, Seat};
use crate::model::process_table::{Limits, ProcessTable};
use crate::model::sets::{
    AttributeChange, DeltaEnd, DeltaKind, Registry, SetName, SetOp, SetsError,
};
use decide::Decision;
use hosts::Names;

/// Facts about a job for its arbiter.
#[derive(Debug)]
pub(crate) struct Job {
    /// Name in process sets and for clients.
    pub name: String,
    /// The names of its nodes.
    pub hosts: Vec<String>,
    /// The node of every process.
    pub places: Vec<usize>,
    /// Initial number of ranks.
    pub initial_ranks: usize,
    /// Possible sizes of the job.
    pub bounds: Bounds,
    /// Limits of its growth beyond its processes.
    pub limits: Limits,
    /// Order in which joiners are placed on hosts, if the program set one.
    pub placement: Option<Placement>,
}

/// Requests, places, sets and the log of one job. The coordinator carries out the arbiter's
/// decisions.
#[derive(Debug)]
pub(crate) struct Arbiter {
    job: Job,
    changes: Changes,
    pub(crate) registry: Registry,
    nodes: Nodes,
    /// Member id of each process in the last epoch it took part in.
    members: Vec<MemberId>,
    running: Vec<usize>,
    processes: ProcessTable,
    names: Names,
    began: Instant,
    pub(crate) journal: Journal,
    /// The announced resize, and the position of round robin if it is committed.
    under_way: Option<(Arc<ResizePlan>, Cursor)>,
    /// Source of nodes.
    supply: Option<Arc<dyn Supply>>,
    /// Nodes brought for the next request.
    brought: Option<(RequestId, Vec<String>)>,
    /// Position of round robin.
    cursor: Cursor,
    /// The measured loads of nodes.
    loads: Loads,
    /// The time that ranks spent in the last resize, in seconds.
    redistribution_seconds: Option<f64>,
}

impl Arbiter {
    pub(crate) fn new(job: Job, journal: Journal) -> Result<Self, String> {
        let began = Instant::now();
        let members: Vec<MemberId> =
            (0..job.places.len() as u64).map(|process| MemberId::new(0, process as u32)).collect();
        let running: Vec<usize> = (0..job.initial_ranks).collect();
        let initial_members = running.iter().map(|&process| members[process]).collect();
        let registry =
            Registry::new(&job.name, initial_members).map_err(|error| error.to_string())?;
        let mut processes = ProcessTable::launched(job.places.len(), job.limits.clone());
        processes.is_on(job.hosts.len());
        let changes = Changes::new(running.len() as u64, Duration::ZERO);
        let mut arbiter = Self {
            job,
            changes,
            registry,
            nodes: Nodes::new(),
            members,
            running,
            processes,
            names: Names::default(),
            began,
            journal,
            under_way: None,
            supply: None,
            brought: None,
            cursor: Cursor::default(),
            loads: Loads::default(),
            redistribution_seconds: None,
        };
        arbiter.recompute_nodes().map_err(|error| error.to_string())?;
        arbiter.publish();
        Ok(arbiter)
    }

    /// Recomputes the nodes and which ranks are on them.
    fn recompute_nodes(&mut self) -> Result<(), PlaceError> {
        let mut nodes = Nodes::new();
        for (node, host) in self.job.hosts.iter().enumerate() {
            let here = |(process, place): &(usize, &usize)| {
                **place == node && !self.processes.lost().contains(process)
            };
            let slots = self.job.places.iter().enumerate().filter(here).count();
            let id = nodes.add(host, slots.max(1) as u32, NodeState::Available)?;
            if slots == 0 {
                nodes.set_state(id, NodeState::Gone)?;
            }
        }
        let seats: Vec<Seat> = self.running.iter().map(|&process| self.seat(process)).collect();
        nodes.occupy(&seats)?;
        self.nodes = nodes;
        Ok(())
    }

    /// Time since the job began.
    pub(crate) fn now(&self) -> Duration {
        self.began.elapsed()
    }

    /// The processes of the world, in the order of their ranks.
    pub(crate) fn running(&self) -> &[usize] {
        &self.running
    }

    /// Number of processes, including sleepers and processes that ended in their sleep.
    pub(crate) fn processes(&self) -> usize {
        self.processes.count()
    }

    /// Number of live processes, including sleepers.
    fn living(&self) -> usize {
        self.processes.count() - self.processes.lost().len()
    }

    /// Largest possible number of ranks.
    fn capacity(&self) -> usize {
        self.processes.most()
    }

    /// Records a request and answers it at once.
    pub(crate) fn request(&mut self, request: Request) -> (RequestId, Result<Turn, Cause>) {
        let now = self.now();
        let possible = self.look_over(&request);
        let id = self.changes.request(request, now);
        let answer = match possible {
            Ok(()) => self.changes.admit(id, now).map_err(unexpected),
            Err(cause) => {
                let refused = self.changes.refuse(id, cause.clone(), now);
                Err(refused.map_or_else(unexpected, |()| cause))
            }
        };
        self.publish();
        (id, answer)
    }

    /// Returns true if a request waits for its turn.
    pub(crate) fn has_next(&self) -> bool {
        self.changes.next_in_turn().is_some()
    }

    /// Removes the sleepers among these ended processes from the job. Returns them.
    pub(crate) fn remove_dead_sleepers(&mut self, dead: &[usize]) -> Vec<usize> {
        let asleep = dead.iter().copied().filter(|process| !self.running.contains(process));
        let new = self.processes.remove_dead(&asleep.collect::<Vec<_>>());
        for process in &new {
            let detail = format!(
                "process {process} has ended while it was parked, and is removed from the job"
            );
            self.changes.note(Cause::new(CauseKind::MemberLost, detail), self.now());
        }
        if !new.is_empty() {
            // Hosts have different names: it cannot fail.
            let _ = self.recompute_nodes();
            self.publish();
        }
        new
    }

    /// Processes that the job continued without.
    pub(crate) fn losses(&self) -> Losses {
        Losses {
            counted: self.processes.lost().to_vec(),
            launched: self.processes.ended().to_vec(),
        }
    }

    /// Number of launched processes that are alive.
    pub(crate) fn launched(&self) -> usize {
        self.processes.count_launched()
    }

    /// Cancels a request that waits for its turn.
    pub(crate) fn cancel(&mut self, id: RequestId) -> Result<(), String> {
        if self.changes.under_way() == Some(id) {
            return Err(format!("{id} is under way and cannot be taken back"));
        }
        let cause = Cause::new(CauseKind::Cancelled, "");
        let ended = self.changes.abort(id, cause, self.now()).map_err(|error| error.to_string());
        self.publish();
        ended
    }

    /// Sets the source of nodes, after its manager has begun.
    pub(crate) fn supplied_by(&mut self, supply: Arc<dyn Supply>) {
        self.supply = Some(supply);
    }

    /// Notes that the launcher starts nothing any more: requests that need it are refused from now
    /// on. Returns true if all processes are on one node.
    pub(crate) fn lose_launcher(&mut self, reason: &str) -> bool {
        self.processes.lose_launcher(reason);
        self.job.hosts.len() == 1
    }

    /// Returns the next request and its number of new nodes, if nodes have to be brought
    /// for it.
    pub(crate) fn next_to_supply(&mut self) -> Option<(RequestId, u32, Arc<dyn Supply>)> {
        let id = self.changes.next_in_turn()?;
        let nodes = self.changes.request_of(id)?.nodes;
        let is_brought = self.brought.as_ref().is_some_and(|(other, _)| *other == id);
        let supply = self.supply.as_ref().filter(|_| nodes > 0 && !is_brought)?;
        Some((id, nodes, Arc::clone(supply)))
    }

    /// Records the nodes brought for a request, or aborts the request with the cause.
    pub(crate) fn brought(&mut self, id: RequestId, brought: Result<Vec<String>, Cause>) {
        match brought {
            Ok(nodes) => self.brought = Some((id, nodes)),
            Err(cause) => {
                // An error means that it has ended meanwhile.
                let _ = self.changes.abort(id, cause, self.now());
                self.publish();
            }
        }
    }

    /// Announces the next request in turn that can be done, if there is one, and returns the plan.
    /// Requests that cannot be done any more are aborted.
    pub(crate) fn announce_next(&mut self) -> Option<Arc<ResizePlan>> {
        while let Some(id) = self.changes.next_in_turn() {
            let announced = self.announce(id);
            if let Err(cause) = &announced {
                // An error means that the request has already ended.
                let _ = self.changes.abort(id, cause.clone(), self.now());
            }
            self.publish();
            if let Ok(resize) = announced {
                return Some(resize);
            }
        }
        None
    }

    fn announce(&mut self, id: RequestId) -> Result<Arc<ResizePlan>, Cause> {
        let mut request =
            self.changes.request_of(id).ok_or_else(|| other("the request is not known"))?.clone();
        let brought = self.brought.take().filter(|(other, _)| *other == id);
        let is_brought = brought.is_some();
        if let Some((_, nodes)) = brought {
            request.on = nodes;
        }
        let Decision { joiners, leavers, hosts, cursor } = self.decide(&request)?;
        let generation = u32::try_from(id.0).map_err(|_| other("there were too many requests"))?;
        let joining: Vec<MemberId> =
            joiners.iter().map(|&process| MemberId::new(generation, process as u32)).collect();
        let leaving: Vec<MemberId> = leavers.iter().map(|&leaver| self.members[leaver]).collect();
        // All deltas or none: otherwise the copy is discarded.
        let mut registry = self.registry.clone();
        let mut change = SetChange { bound: vec![registry.application()], ..SetChange::default() };
        if !joining.is_empty() {
            let name = registry
                .define_delta(DeltaKind::Add, joining.iter().copied().collect())
                .map_err(of_sets)?;
            change.joining = Some((name, joining));
        }
        if !leaving.is_empty() {
            let name = registry
                .define_delta(DeltaKind::Sub, leaving.iter().copied().collect())
                .map_err(of_sets)?;
            change.leaving = Some((name, leaving));
        }
        self.changes.announce(id, change, self.now()).map_err(unexpected)?;
        if is_brought {
            self.processes.takes_new_nodes();
        }
        self.registry = registry;
        let stay = self.running.iter().copied().filter(|process| !leavers.contains(process));
        let (mut units, mut named) = (Vec::new(), Vec::new());
        for (host, count) in &hosts {
            units.extend(self.processes.units_for(*count as usize));
            named.resize(units.len(), host.clone());
        }
        if hosts.is_empty() {
            let started = joiners.iter().filter(|&&new| new >= self.processes()).count();
            units = self.processes.units_for(started);
        }
        let asleep = joiners.iter().filter(|&&joiner| joiner < self.processes()).count();
        // While a process sleeps, lost processes stay counted: all live processes take part in the
        // change of the count.
        let all_take_part = self.living() == self.running.len() + asleep;
        let lost = if all_take_part { self.processes.lost().to_vec() } else { Vec::new() };
        let mut gone = self.processes.gone(&leavers);
        gone.extend(&lost);
        let resize = Arc::new(ResizePlan {
            number: id.0,
            epoch: self.changes.epoch(),
            old: self.running.clone(),
            new: stay.chain(joiners.iter().copied()).collect(),
            units,
            hosts: named,
            brought: is_brought,
            gone,
            lost,
        });
        self.under_way = Some((Arc::clone(&resize), cursor));
        Ok(resize)
    }

    /// Records a step of the resize under way.
    pub(crate) fn step(&mut self, step: Step) {
        let now = self.now();
        let Some(id) = self.changes.under_way() else { return };
        let bound = self.registry.application();
        // A step that does not fit the state is left out of the log; it says nothing about the
        // resize.
        let _ = match step {
            Step::Pending => self.changes.accept(id, &bound, now).map(drop),
            step => self.changes.step(id, step, now),
        };
        self.publish();
    }

    /// Records the round at which all ranks enter.
    pub(crate) fn agreed(&mut self, round: u64) {
        let now = self.now();
        let Some(id) = self.changes.under_way() else { return };
        let _ = self.changes.agreed(id, round, now);
        self.publish();
    }

    /// Records that the data of the resize under way have moved, `bytes` of them from one rank to another.
    pub(crate) fn moved(&mut self, bytes: u64) {
        let now = self.now();
        let Some(id) = self.changes.under_way() else { return };
        let _ = self.changes.moved(id, bytes, now);
        self.publish();
    }

    /// Records the end of the resize under way: committed or aborted.
    pub(crate) fn ended(&mut self, outcome: Result<(), Cause>) {
        self.ended_at(outcome, None);
    }

    /// Records the end as [`ended`](Self::ended) does, with the new hosts and the node of every
    /// process if the set of processes has changed.
    pub(crate) fn ended_at(
        &mut self,
        outcome: Result<(), Cause>,
        places: Option<(Vec<String>, Vec<usize>)>,
    ) {
        let now = self.now();
        let Some((resize, cursor)) = self.under_way.take() else { return };
        let id = RequestId(resize.number);
        let deltas = self.changes.deltas_of(id);
        let done = outcome.and_then(|()| {
            let bound = self.registry.application();
            let joins = resize.joiners().next().is_some();
            let mut finalize = || {
                self.changes.accept(id, &bound, now)?;
                if joins {
                    self.changes.confirm(id, now)?;
                }
                self.changes.finalize(id, now)
            };
            finalize().map_err(unexpected)
        });
        let end = match &done {
            Ok(_) => DeltaEnd::Finalized,
            Err(cause) => {
                let _ = self.changes.abort(id, cause.clone(), now);
                DeltaEnd::Aborted
            }
        };
        if end == DeltaEnd::Finalized {
            self.redistribution_seconds = self.last_redistribution();
            self.take_places(&resize, places);
            self.cursor = cursor;
            // The own name of a host without a process may become known only now.
            self.cursor.rename(|host| self.names.own(host).to_owned());
        }
        for (delta, kind) in &deltas {
            if end == DeltaEnd::Finalized {
                self.follow(delta, *kind);
            }
            // The delta was defined with the announcement and is still open.
            let _ = self.registry.conclude_delta(delta, end);
            let _ = self.registry.prune(delta);
        }
        self.publish();
    }

    /// Ends all open requests at the end of the job.
    pub(crate) fn close(&mut self, cause: &Cause) {
        self.ended(Err(cause.clone()));
        while let Some(id) = self.changes.next_in_turn() {
            // The next request in turn has been accepted and has not ended.
            if self.changes.abort(id, cause.clone(), self.now()).is_err() {
                break;
            }
        }
        self.publish();
    }

    /// Updates the world's own set to the members of the world, even if the program made no set for
    /// the resize.
    fn follow(&mut self, delta: &SetName, kind: DeltaKind) {
        let world = self.registry.application();
        let members = |name| self.registry.get(name).map(|set| set.members().clone());
        let (Some(all), Some(some)) = (members(&world), members(delta)) else { return };
        let op = match kind {
            DeltaKind::Add if !some.is_subset(&all) => SetOp::Union,
            DeltaKind::Sub if !some.is_disjoint(&all) => SetOp::Difference,
            _ => return,
        };
        let as_it_is = AttributeChange::none();
        let caller = self.members[0];
        // Staying members are in the set: it does not become empty.
        let _ = self.registry.operate(caller, op, &world, delta, Some(&world), &as_it_is);
    }

    fn take_places(&mut self, resize: &ResizePlan, places: Option<(Vec<String>, Vec<usize>)>) {
        for (process, member) in resize.joining_members() {
            if process < self.members.len() {
                self.members[process] = member;
            } else {
                self.members.push(member);
            }
        }
        if let Some((hosts, places)) = &places {
            self.names.learn(resize, self.processes.count(), hosts, places);
        }
        let keeps = |process: &usize| !resize.gone.contains(process);
        let kept = (0..self.members.len()).filter(keeps).map(|process| self.members[process]);
        self.members = kept.collect();
        self.processes.go_over(resize);
        self.running = resize.new.iter().filter_map(|&process| resize.renumber(process)).collect();
        if let Some((hosts, places)) = places {
            (self.job.hosts, self.job.places) = (hosts, places);
            self.processes.is_on(self.job.hosts.len());
            self.loads.keep(&self.job.hosts);
        }
        // Hosts have distinct names, and slots for the present ranks: it cannot fail.
        let _ = self.recompute_nodes();
    }

    /// Returns the time at which the resize under way becomes overdue.
    pub(crate) fn next_deadline(&self) -> Option<Duration> {
        self.changes.next_deadline()
    }

    /// Returns true if the resize is overdue and that was not recorded.
    pub(crate) fn is_overdue(&self) -> bool {
        self.changes.is_overdue(self.now())
    }

    /// Records that the resize under way is overdue because of these ranks.
    pub(crate) fn note_overdue(&mut self, late: &[usize]) {
        let late: Vec<u64> = late.iter().map(|&rank| rank as u64).collect();
        self.changes.overdue(&late, self.now());
        self.publish();
    }

    /// Adds an event to the log that is no step of a request.
    pub(crate) fn note(&mut self, cause: Cause) {
        self.changes.note(cause, self.now());
        self.publish();
    }

    /// Returns the state of requests, for queries.
    pub(crate) fn changes(&self) -> &Changes {
        &self.changes
    }

    /// Returns the process that had this id at birth. Process numbers change when earlier processes
    /// end; ids at birth do not.
    pub(crate) fn process_of(&self, birth: MemberId) -> Option<usize> {
        if !birth.is_joiner() {
            return self.processes.launched_as(birth.index() as usize);
        }
        // A spawned process is a member from its start to its end.
        let is_started = |process: &usize| !self.processes.was_launched(*process);
        let joining = self.under_way.iter().flat_map(|(resize, _)| resize.joining_members());
        let members = self.members.iter().copied().enumerate().chain(joining);
        let known = members.filter(|(_, member)| *member == birth);
        known.map(|(process, _)| process).find(is_started)
    }

    /// Returns the member that a process is now.
    pub(crate) fn member_of(&self, process: usize) -> Option<MemberId> {
        let joining = self.under_way.iter().flat_map(|(resize, _)| resize.joining_members());
        let joins = joining.into_iter().find(|(joiner, _)| *joiner == process);
        let is_running = self.running.contains(&process);
        joins.map(|(_, member)| member).or_else(|| is_running.then(|| self.members[process]))
    }

    /// Returns the resize of a set that is under way, as a process may see it.
    pub(crate) fn query(&self, caller: MemberId, bound: &SetName) -> View {
        self.changes.query(&self.job.name, caller, bound)
    }

    fn seat(&self, process: usize) -> Seat {
        let node = NodeId(self.job.places[process] as u32);
        let unit = UnitId(self.processes.unit_of(process));
        Seat { member: self.members[process], node, unit, rigid: false }
    }

    fn publish(&mut self) {
        let events = self.changes.take_events();
        self.journal.write(events);
    }
}

fn other(detail: impl Into<String>) -> Cause {
    Cause::new(CauseKind::Other, detail)
}

fn unexpected(error: ChangeError) -> Cause {
    other(error.to_string())
}

fn of_sets(error: SetsError) -> Cause {
    other(error.to_string())
}

fn of_place(error: PlaceError) -> Cause {
    let kind = match &error {
        PlaceError::NoSuchHost { .. } | PlaceError::NotAvailable { .. } => CauseKind::Unreachable,
        PlaceError::NoRoom { .. } | PlaceError::TooFew { .. } => CauseKind::NoCapacity,
        _ => CauseKind::NotAllowed,
    };
    Cause::new(kind, error.to_string())
}
