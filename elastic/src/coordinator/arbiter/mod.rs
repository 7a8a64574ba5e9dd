//! What is decided about requests: pure decisions over who is where, with a clock of its own.

#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::change::{
    Cause, CauseKind, ChangeError, Changes, Request, RequestId, Resize as Change, Step, Turn, View,
    Wish,
};
use crate::coordinator::journal::Journal;
use crate::live::{Limits, Live};
use crate::manager::{HostStatus, Supply, WorldStatus};
use crate::member::{MemberId, NodeId, UnitId};
use crate::order::Resize;
use crate::place::{Bounds, Fill, NodeState, Nodes, PlaceError, Reclaim, Seat, leavers, place};
use crate::sets::{AttributeChange, DeltaEnd, DeltaKind, Registry, SetName, SetOp, SetsError};

/// What a job is to its arbiter.
#[derive(Debug)]
pub(crate) struct Job {
    /// By which sets and clients know it.
    pub name: String,
    /// The names of its nodes.
    pub hosts: Vec<String>,
    /// The node of every process.
    pub places: Vec<usize>,
    /// How many ranks there are at first.
    pub start: usize,
    /// Which sizes it can have.
    pub bounds: Bounds,
    /// How far it may grow beyond its processes.
    pub limits: Limits,
}

/// Requests, places, sets and the log of one job. The coordinator does what it decides.
#[derive(Debug)]
pub(crate) struct Arbiter {
    job: Job,
    changes: Changes,
    pub(crate) registry: Registry,
    nodes: Nodes,
    /// Who a process is in the world, as of the last time it was in it.
    members: Vec<MemberId>,
    running: Vec<usize>,
    live: Live,
    began: Instant,
    pub(crate) journal: Journal,
    under_way: Option<UnderWay>,
    /// Where nodes come from.
    supply: Option<Arc<dyn Supply>>,
    /// Nodes that were brought for the request whose turn it is.
    brought: Option<(RequestId, Vec<String>)>,
}

/// The resize that is announced.
#[derive(Clone, Debug)]
struct UnderWay {
    id: RequestId,
    resize: Resize,
    /// The members that the joiners will be, in their order.
    joining: Vec<MemberId>,
    deltas: Vec<(SetName, DeltaKind)>,
}

/// Who is to be in the world, by processes.
#[derive(Debug, PartialEq, Eq)]
struct Decision {
    /// Sleepers, then those that are to be started: they come behind all processes.
    joiners: Vec<usize>,
    /// Highest rank first.
    leavers: Vec<usize>,
}

impl Arbiter {
    pub(crate) fn new(job: Job, journal: Journal) -> Result<Self, String> {
        let began = Instant::now();
        let members: Vec<MemberId> =
            (0..job.places.len() as u64).map(|process| MemberId::new(0, process as u32)).collect();
        let running: Vec<usize> = (0..job.start).collect();
        let everybody = running.iter().map(|&process| members[process]).collect();
        let registry = Registry::new(&job.name, everybody).map_err(|error| error.to_string())?;
        let live = Live::launched(job.places.len(), job.limits.clone());
        let changes = Changes::new(running.len() as u64, Duration::ZERO);
        let mut arbiter = Self {
            job,
            changes,
            registry,
            nodes: Nodes::new(),
            members,
            running,
            live,
            began,
            journal,
            under_way: None,
            supply: None,
            brought: None,
        };
        arbiter.settle().map_err(|error| error.to_string())?;
        arbiter.publish();
        Ok(arbiter)
    }

    /// Puts the ranks on the nodes that there are.
    fn settle(&mut self) -> Result<(), PlaceError> {
        let mut nodes = Nodes::new();
        for (node, host) in self.job.hosts.iter().enumerate() {
            let slots = self.job.places.iter().filter(|&&place| place == node).count();
            nodes.add(host, slots as u32, NodeState::Available)?;
        }
        let seats: Vec<Seat> = self.running.iter().map(|&process| self.seat(process)).collect();
        nodes.occupy(&seats)?;
        self.nodes = nodes;
        Ok(())
    }

    /// Since the job began.
    pub(crate) fn now(&self) -> Duration {
        self.began.elapsed()
    }

    /// The processes of the world, in the order of their ranks.
    pub(crate) fn running(&self) -> &[usize] {
        &self.running
    }

    /// How many processes there are, with those that sleep.
    pub(crate) fn processes(&self) -> usize {
        self.live.count()
    }

    /// How many ranks there can be.
    fn capacity(&self) -> usize {
        self.live.most()
    }

    /// Somebody asks: the answer, at once.
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

    /// Takes back a request that waits for its turn.
    pub(crate) fn cancel(&mut self, id: RequestId) -> Result<(), String> {
        if self.changes.under_way() == Some(id) {
            return Err(format!("{id} is under way and cannot be taken back"));
        }
        let cause = Cause::new(CauseKind::Cancelled, "");
        let ended = self.changes.abort(id, cause, self.now()).map_err(|error| error.to_string());
        self.publish();
        ended
    }

    /// Whoever brings nodes has begun.
    pub(crate) fn supplied_by(&mut self, supply: Arc<dyn Supply>) {
        self.supply = Some(supply);
    }

    /// The request whose turn it is, if nodes have to be brought for it, and how many.
    pub(crate) fn next_to_supply(&mut self) -> Option<(RequestId, u32, Arc<dyn Supply>)> {
        let id = self.changes.next_in_turn()?;
        let nodes = self.changes.request_of(id)?.nodes;
        let is_brought = self.brought.as_ref().is_some_and(|(other, _)| *other == id);
        let supply = self.supply.as_ref().filter(|_| nodes > 0 && !is_brought)?;
        Some((id, nodes, Arc::clone(supply)))
    }

    /// Nodes have been brought for a request that waited for them, or not: it ends then.
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

    /// Announces the request whose turn it is, if there is one: what is to be done. One that cannot be
    /// done any more is aborted, and the next one is looked at.
    pub(crate) fn announce_next(&mut self) -> Option<Resize> {
        while let Some(id) = self.changes.next_in_turn() {
            let announced = self.announce(id);
            if let Err(cause) = &announced {
                // An error means that it has ended otherwise.
                let _ = self.changes.abort(id, cause.clone(), self.now());
            }
            self.publish();
            if let Ok(resize) = announced {
                return Some(resize);
            }
        }
        None
    }

    fn announce(&mut self, id: RequestId) -> Result<Resize, Cause> {
        let mut request =
            self.changes.request_of(id).ok_or_else(|| other("it is not known"))?.clone();
        if let Some((_, nodes)) = self.brought.take().filter(|(other, _)| *other == id) {
            request.on = nodes;
        }
        let Decision { joiners, leavers } = self.decide(&request)?;
        let generation = u32::try_from(id.0).map_err(|_| other("there were too many requests"))?;
        let joining: Vec<MemberId> =
            joiners.iter().map(|&process| MemberId::new(generation, process as u32)).collect();
        let leaving: Vec<MemberId> = leavers.iter().map(|&leaver| self.members[leaver]).collect();
        // All deltas or none: the copy is thrown away otherwise.
        let mut registry = self.registry.clone();
        let mut deltas = Vec::new();
        let mut change = Change { bound: vec![registry.application()], ..Change::default() };
        if !joining.is_empty() {
            let name = registry
                .define_delta(DeltaKind::Add, joining.iter().copied().collect())
                .map_err(of_sets)?;
            deltas.push((name.clone(), DeltaKind::Add));
            change.joining = Some((name, joining.clone()));
        }
        if !leaving.is_empty() {
            let name = registry
                .define_delta(DeltaKind::Sub, leaving.iter().copied().collect())
                .map_err(of_sets)?;
            deltas.push((name.clone(), DeltaKind::Sub));
            change.leaving = Some((name, leaving));
        }
        self.changes.announce(id, change, self.now()).map_err(unexpected)?;
        self.registry = registry;
        let stay = self.running.iter().copied().filter(|process| !leavers.contains(process));
        let resize = Resize {
            number: id.0,
            old: self.running.clone(),
            new: stay.chain(joiners.iter().copied()).collect(),
            units: self
                .live
                .units_for(joiners.iter().filter(|&&new| new >= self.processes()).count()),
            gone: self.live.gone(&leavers),
        };
        self.under_way = Some(UnderWay { id, resize: resize.clone(), joining, deltas });
        Ok(resize)
    }

    /// The resize under way has come to a step.
    pub(crate) fn step(&mut self, step: Step) {
        let now = self.now();
        let Some(UnderWay { id, .. }) = &self.under_way else { return };
        let bound = self.registry.application();
        // A step that does not fit is not in the log; it says nothing about the resize.
        let _ = match step {
            Step::Pending => self.changes.accept(*id, &bound, now).map(drop),
            step => self.changes.step(*id, step, now),
        };
        self.publish();
    }

    /// The round at which all enter is known.
    pub(crate) fn agreed(&mut self, round: u64) {
        let now = self.now();
        let Some(UnderWay { id, .. }) = &self.under_way else { return };
        let _ = self.changes.agreed(*id, round, now);
        self.publish();
    }

    /// The resize under way is done, with so many bytes moved, or given up.
    pub(crate) fn ended(&mut self, outcome: Result<u64, Cause>) {
        self.ended_at(outcome, None);
    }

    /// As [`ended`](Self::ended), when processes have come or gone: the hosts there are now, and the node of every
    /// process.
    pub(crate) fn ended_at(
        &mut self,
        outcome: Result<u64, Cause>,
        places: Option<(Vec<String>, Vec<usize>)>,
    ) {
        let now = self.now();
        let Some(UnderWay { id, resize, joining, deltas }) = self.under_way.take() else { return };
        let done = outcome.and_then(|bytes| {
            let bound = self.registry.application();
            let joins = !joining.is_empty();
            let mut finalize = || {
                self.changes.moved(id, bytes, now)?;
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
            self.take_places(&resize, &joining, places);
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

    /// The world's own set has the members of the world, also when the program did not say so.
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
        // Who stays is in the set: it does not become empty.
        let _ = self.registry.operate(caller, op, &world, delta, Some(&world), &as_it_is);
    }

    fn take_places(
        &mut self,
        resize: &Resize,
        joining: &[MemberId],
        places: Option<(Vec<String>, Vec<usize>)>,
    ) {
        for (process, member) in resize.joiners().zip(joining) {
            if process < self.members.len() {
                self.members[process] = *member;
            } else {
                self.members.push(*member);
            }
        }
        let keeps = |process: &usize| !resize.gone.contains(process);
        let kept = (0..self.members.len()).filter(keeps).map(|process| self.members[process]);
        self.members = kept.collect();
        self.live.go_over(resize);
        self.running = resize.new.iter().filter_map(|&process| resize.renumber(process)).collect();
        if let Some((hosts, places)) = places {
            (self.job.hosts, self.job.places) = (hosts, places);
        }
        // Hosts have different names, and slots for those who are there: it cannot fail.
        let _ = self.settle();
    }

    /// When somebody has to look whether the resize under way is late.
    pub(crate) fn next_deadline(&self) -> Option<Duration> {
        self.changes.next_deadline()
    }

    /// Whether it is late and that was not noted.
    pub(crate) fn is_overdue(&self) -> bool {
        self.changes.is_overdue(self.now())
    }

    /// Notes that the resize under way is late because of these ranks.
    pub(crate) fn note_overdue(&mut self, late: &[usize]) {
        let late: Vec<u64> = late.iter().map(|&rank| rank as u64).collect();
        self.changes.overdue(&late, self.now());
        self.publish();
    }

    /// Puts something into the log that is no step of a request.
    pub(crate) fn note(&mut self, cause: Cause) {
        self.changes.note(cause, self.now());
        self.publish();
    }

    /// Everything that somebody from outside may want to know.
    pub(crate) fn status(&self) -> WorldStatus {
        let hosts = self.nodes.iter().enumerate().map(|(node, host)| HostStatus {
            host: host.host().to_owned(),
            slots: host.slots(),
            ranks: self.ranks_on(node),
        });
        WorldStatus {
            job: self.job.name.clone(),
            epoch: self.changes.epoch(),
            size: self.running.len() as u64,
            capacity: self.capacity() as u64,
            waiting: self.changes.waiting() as u64,
            under_way: self.changes.under_way(),
            step: self.changes.under_way().and_then(|id| self.changes.status(id)),
            next_event: self.journal.next(),
            up_us: u64::try_from(self.now().as_micros()).unwrap_or(u64::MAX),
            hosts: hosts.collect(),
            log_trouble: self.journal.trouble().map(str::to_owned),
        }
    }

    /// The state of requests, to ask for more.
    pub(crate) fn changes(&self) -> &Changes {
        &self.changes
    }

    /// Who a process is now.
    pub(crate) fn member_of(&self, process: usize) -> Option<MemberId> {
        let joining = self.under_way.as_ref().and_then(|under_way| {
            let at = under_way.resize.joiners().position(|joiner| joiner == process)?;
            under_way.joining.get(at).copied()
        });
        let is_running = self.running.contains(&process);
        joining.or_else(|| is_running.then(|| self.members[process]))
    }

    /// Whether a resize of a set is going on, as a process is to see it.
    pub(crate) fn query(&self, caller: MemberId, bound: &SetName) -> View {
        self.changes.query(&self.job.name, caller, bound)
    }

    fn ranks_on(&self, node: usize) -> Vec<u64> {
        let here = |(_, process): &(usize, &usize)| self.job.places[**process] == node;
        let ranks = self.running.iter().enumerate().filter(here);
        ranks.map(|(rank, _)| rank as u64).collect()
    }

    fn seat(&self, process: usize) -> Seat {
        let node = NodeId(self.job.places[process] as u32);
        let unit = UnitId(self.live.unit_of(process));
        Seat { member: self.members[process], node, unit, rigid: false }
    }

    /// What can be said before the turn of a request has come: with others before it, who is where is not known.
    fn look_over(&self, request: &Request) -> Result<(), Cause> {
        if request.nodes > 0 {
            let detail = "nobody brings nodes: the program has no resource manager for that";
            let nobody = || Cause::new(CauseKind::Unsupported, detail);
            self.supply.as_ref().ok_or_else(nobody)?.check(request.nodes, request.grace)?;
        }
        for host in request.on.iter().chain(&request.from) {
            if self.nodes.by_host(host).is_none() {
                let error = PlaceError::NoSuchHost { call: "request", host: host.clone() };
                return Err(of_place(error));
            }
        }
        if self.changes.under_way().is_none() && self.changes.waiting() == 0 {
            return self.decide(request).map(drop);
        }
        match request.wish {
            Wish::Size(size) => self.check_size(u64::from(size)),
            Wish::Grow(ranks) if u64::from(ranks) >= self.capacity() as u64 => {
                self.check_size(u64::from(ranks) + 1)
            }
            _ => Ok(()),
        }
    }

    fn check_size(&self, size: u64) -> Result<(), Cause> {
        let (now, all) = (self.running.len(), self.capacity());
        if size == 0 || size > all as u64 {
            let detail = format!(
                "{size} ranks were asked for; there are {now}, and there can be 1 to {all}{}",
                self.live.reason()
            );
            return Err(Cause::new(CauseKind::NoCapacity, detail));
        }
        let size = u32::try_from(size).unwrap_or(u32::MAX);
        self.job.bounds.check(size).map_err(of_place)
    }

    /// Who joins and who leaves, as things are now.
    fn decide(&self, request: &Request) -> Result<Decision, Cause> {
        let now = self.running.len() as u64;
        let nothing = || Cause::new(CauseKind::NotAllowed, "nothing would change");
        let (grow, reclaim) = match request.wish {
            Wish::Size(size) => {
                let size = u64::from(size);
                self.check_size(size)?;
                if size == now {
                    return Err(nothing());
                }
                if size < now && !request.on.is_empty() {
                    let detail = "hosts to grow on were named, and the world would shrink";
                    return Err(Cause::new(CauseKind::NotAllowed, detail));
                }
                (size.saturating_sub(now), (size < now).then(|| now - size))
            }
            Wish::Grow(ranks) => {
                self.check_size(now + u64::from(ranks))?;
                (u64::from(ranks), None)
            }
            Wish::Shrink(ranks) => {
                self.check_size(now.saturating_sub(u64::from(ranks)))?;
                (0, Some(u64::from(ranks)))
            }
            Wish::Leave | Wish::Move => (0, None),
        };
        let mut leaving = Vec::new();
        if reclaim.is_some() || matches!(request.wish, Wish::Leave | Wish::Move) {
            let count = reclaim.map(|count| u32::try_from(count).unwrap_or(u32::MAX));
            leaving = self.leavers(Reclaim { count, hosts: &request.from })?;
        }
        let joining = if request.wish == Wish::Move { leaving.len() as u64 } else { grow };
        let joiners = self.joiners(u32::try_from(joining).unwrap_or(u32::MAX), &request.on)?;
        if joiners.is_empty() && leaving.is_empty() {
            return Err(nothing());
        }
        if !self.live.gone(&leaving).is_empty() && self.running.len() < self.processes() {
            // They would have to be woken to know the others anew.
            let detail =
                "processes that were started cannot end while launched ones sleep: grow first";
            return Err(Cause::new(CauseKind::NotAllowed, detail));
        }
        if request.wish == Wish::Leave {
            self.check_size(now - leaving.len() as u64)?;
        }
        Ok(Decision { joiners, leavers: leaving })
    }

    fn leavers(&self, reclaim: Reclaim<'_>) -> Result<Vec<usize>, Cause> {
        let ranks: Vec<MemberId> = self.running.iter().map(|&rank| self.members[rank]).collect();
        let leaving = leavers(&self.nodes, &ranks, ranks[0], reclaim).map_err(of_place)?;
        let process = |member: &MemberId| self.members.iter().position(|other| other == member);
        Ok(leaving.iter().filter_map(process).collect())
    }

    /// Sleepers on the nodes that are chosen for them, the lowest there first, and after them those to be started.
    fn joiners(&self, count: u32, hosts: &[String]) -> Result<Vec<usize>, Cause> {
        if count == 0 {
            return Ok(Vec::new());
        }
        let all = self.processes();
        let mut sleepers: Vec<usize> =
            (0..all).filter(|process| !self.running.contains(process)).collect();
        // Nobody is started on a host that is named.
        let asleep = if hosts.is_empty() { count.min(sleepers.len() as u32) } else { count };
        let started = (count - asleep) as usize;
        let mut joiners = Vec::with_capacity(count as usize);
        let chosen = match asleep {
            0 => Vec::new(),
            _ => place(&self.nodes, asleep, hosts, Fill::Stack, false).map_err(of_place)?,
        };
        for node in chosen {
            let here = |process: &usize| self.job.places[*process] == node.0 as usize;
            let Some(at) = sleepers.iter().position(here) else {
                return Err(other("a free slot has no process"));
            };
            joiners.push(sleepers.remove(at));
        }
        joiners.extend(all..all + started);
        Ok(joiners)
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
