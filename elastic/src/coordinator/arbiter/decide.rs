//! Decision on a request in its turn: joiners, leavers, and refusals.

use super::hosts::Parts;
use super::{Arbiter, of_place, other};
use crate::model::change::{Cause, CauseKind, Request, RequestKind};
use crate::model::member::MemberId;
use crate::model::place::{Choice, Cursor, Node, PlaceError, Placement, Reclaim, leavers, place};

/// The processes that join and leave in a resize.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Decision {
    /// Sleepers, then the processes to spawn, which are numbered after all present processes.
    pub joiners: Vec<usize>,
    /// Highest rank first.
    pub leavers: Vec<usize>,
    /// Hosts of the processes to spawn; empty if none were named.
    pub hosts: Parts,
    /// Position of round robin after the resize.
    pub cursor: Cursor,
}

impl Arbiter {
    /// Checks a request on arrival and refuses what can never be done; the places of ranks are not
    /// known while other requests are ahead of it.
    pub(super) fn look_over(&self, request: &Request) -> Result<(), Cause> {
        if request.nodes > 0 {
            let detail = "the program has no resource manager that brings nodes";
            let nobody = || Cause::new(CauseKind::Unsupported, detail);
            self.supply.as_ref().ok_or_else(nobody)?.check(request.nodes, request.grace)?;
            self.check_new_nodes(request)?;
        }
        let to_grow_on = request.on.iter().filter(|_| !self.processes.can_start());
        for host in to_grow_on.chain(&request.from) {
            if self.nodes.by_host(self.names.own(host)).is_none() {
                if let Some(refusal) =
                    self.processes.refusal().filter(|_| request.on.contains(host))
                {
                    return Err(Cause::new(CauseKind::NoCapacity, refusal));
                }
                let error = PlaceError::NoSuchHost { call: "request", host: host.clone() };
                return Err(of_place(error));
            }
        }
        if self.changes.under_way().is_none() && self.changes.waiting() == 0 {
            return self.decide(request).map(drop);
        }
        match request.kind {
            RequestKind::Size(size) => self.check_size(request, u64::from(size)),
            RequestKind::Grow(ranks) if u64::from(ranks) >= self.capacity() as u64 => {
                self.check_size(request, u64::from(ranks) + 1)
            }
            _ => Ok(()),
        }
    }

    fn check_new_nodes(&self, request: &Request) -> Result<(), Cause> {
        let unsupported = |detail: &str| Cause::new(CauseKind::Unsupported, detail);
        let is_needed = request.nodes > 0;
        let check = || self.processes.check_new_nodes(request.nodes, self.job.hosts.len());
        if is_needed { check().map_err(unsupported) } else { Ok(()) }
    }

    /// Checks the number of ranks that a request results in.
    fn check_size(&self, request: &Request, size: u64) -> Result<(), Cause> {
        let now = self.running.len();
        let all = if is_beyond(request) { self.processes.most_named() } else { self.capacity() };
        if size == 0 || size > all as u64 {
            let (kind, reason) = match size {
                0 => (CauseKind::NotAllowed, ""),
                _ => (CauseKind::NoCapacity, self.processes.reason()),
            };
            let asked = asked(request.kind);
            let range = self.job.bounds.range(u32::try_from(all).unwrap_or(u32::MAX));
            let detail = format!("{asked}; there are {now}{range}{reason}");
            return Err(Cause::new(kind, detail));
        }
        let size = u32::try_from(size).unwrap_or(u32::MAX);
        self.job.bounds.check(size).map_err(of_place)
    }

    /// Decides the joiners and leavers for the present state.
    pub(super) fn decide(&self, request: &Request) -> Result<Decision, Cause> {
        let now = self.running.len() as u64;
        self.check_new_nodes(request)?;
        let nothing = || Cause::new(CauseKind::NotAllowed, "nothing would change");
        let (grow, reclaim) = match request.kind {
            RequestKind::Size(size) => {
                let size = u64::from(size);
                self.check_size(request, size)?;
                if size == now {
                    return Err(nothing());
                }
                if size < now && !request.on.is_empty() {
                    let detail = "hosts to grow on were named, and the world would shrink";
                    return Err(Cause::new(CauseKind::NotAllowed, detail));
                }
                (size.saturating_sub(now), (size < now).then(|| now - size))
            }
            RequestKind::Grow(ranks) => {
                self.check_size(request, now + u64::from(ranks))?;
                (u64::from(ranks), None)
            }
            RequestKind::Shrink(ranks) => {
                self.check_size(request, now.saturating_sub(u64::from(ranks)))?;
                (0, Some(u64::from(ranks)))
            }
            RequestKind::Leave | RequestKind::Move => (0, None),
        };
        let mut leaving = Vec::new();
        if reclaim.is_some() || matches!(request.kind, RequestKind::Leave | RequestKind::Move) {
            let count = reclaim.map(|count| u32::try_from(count).unwrap_or(u32::MAX));
            leaving = self.leavers(Reclaim { count, hosts: &self.names.owns(&request.from) })?;
        }
        let joining = if request.kind == RequestKind::Move { leaving.len() as u64 } else { grow };
        let joining = u32::try_from(joining).unwrap_or(u32::MAX);
        let mut cursor = self.cursor.clone();
        let (joiners, hosts) = self.joiners(joining, &request.on, &mut cursor)?;
        self.check_room(&joiners, request)?;
        if joiners.is_empty() && leaving.is_empty() {
            return Err(nothing());
        }
        if !self.processes.gone(&leaving).is_empty() && self.running.len() < self.living() {
            // Sleepers would have to be woken in order to make mailboxes with the others again.
            let detail =
                "processes that were started cannot end while launched ones sleep: grow first";
            return Err(Cause::new(CauseKind::NotAllowed, detail));
        }
        if request.kind == RequestKind::Leave {
            self.check_size(request, now - leaving.len() as u64)?;
        }
        Ok(Decision { joiners, leavers: leaving, hosts, cursor })
    }

    /// Checks that slots suffice. Joiners are spawned before any leaver ends: a move needs slots
    /// for both.
    fn check_room(&self, joiners: &[usize], request: &Request) -> Result<(), Cause> {
        let started = joiners.iter().filter(|&&joiner| joiner >= self.processes()).count();
        // Nodes brought for a request have their own slots.
        if started == 0 || request.nodes > 0 {
            return Ok(());
        }
        let no_capacity = |detail| Cause::new(CauseKind::NoCapacity, detail);
        self.processes.check_room(started, !request.on.is_empty()).map_err(no_capacity)
    }

    fn is_asleep(&self, process: &usize) -> bool {
        !self.running.contains(process) && !self.processes.lost().contains(process)
    }

    fn leavers(&self, reclaim: Reclaim<'_>) -> Result<Vec<usize>, Cause> {
        let ranks: Vec<MemberId> = self.running.iter().map(|&rank| self.members[rank]).collect();
        let leaving = leavers(&self.nodes, &ranks, ranks[0], reclaim).map_err(of_place)?;
        let process = |member: &MemberId| self.members.iter().position(|other| other == member);
        Ok(leaving.iter().filter_map(process).collect())
    }

    /// Chooses sleepers on the chosen nodes, lowest process number first, then processes to spawn,
    /// with their hosts if the request or the program names hosts.
    fn joiners(
        &self,
        count: u32,
        hosts: &[String],
        cursor: &mut Cursor,
    ) -> Result<(Vec<usize>, Parts), Cause> {
        if count == 0 {
            return Ok(Default::default());
        }
        let all = self.processes();
        let mut sleepers: Vec<usize> = (0..all).filter(|process| self.is_asleep(process)).collect();
        let mut named = self.names.owns(hosts);
        let asleep = if hosts.is_empty() {
            count.min(sleepers.len() as u32)
        } else if self.processes.can_start() {
            named.retain(|host| self.nodes.by_host(host).is_some());
            let on = |node: &Node| named.iter().any(|host| host == node.host());
            count.min(self.nodes.iter().filter(|node| on(node)).map(Node::free).sum())
        } else {
            count
        };
        let mut joiners = Vec::with_capacity(count as usize);
        let chosen = match asleep {
            0 => Vec::new(),
            _ => {
                let placement = self.job.placement.unwrap_or(Placement::Stack);
                let how = Choice { placement, cursor: &mut *cursor, loads: &self.loads };
                place(&self.nodes, asleep, &named, how).map_err(of_place)?
            }
        };
        for node in chosen {
            let here = |process: &usize| self.job.places[*process] == node.0 as usize;
            let Some(at) = sleepers.iter().position(here) else {
                return Err(other("a free slot has no process"));
            };
            joiners.push(sleepers.remove(at));
        }
        let started = count - asleep;
        joiners.extend(all..all + started as usize);
        let mut parts = Vec::new();
        if started > 0 && !hosts.is_empty() {
            if !sleepers.is_empty() {
                // All live processes make mailboxes together with the joiners.
                let detail = "processes can be started on a host only while no launched one sleeps elsewhere: \
                    grow without a host first";
                return Err(Cause::new(CauseKind::NotAllowed, detail));
            }
            parts = self.deal(started, hosts, cursor)?;
        } else if started > 0 && self.job.placement.is_some() {
            // No listed hosts: the launcher chooses.
            let listed = self.processes.listed();
            if !listed.is_empty() {
                parts = self.deal(started, &listed, cursor)?;
            }
        }
        Ok((joiners, parts))
    }
}

/// Describes the requested number in an error.
fn asked(wish: RequestKind) -> String {
    match wish {
        RequestKind::Size(ranks) => format!("{ranks} ranks were asked for"),
        RequestKind::Grow(ranks) => format!("{ranks} ranks more were asked for"),
        RequestKind::Shrink(ranks) => format!("{ranks} ranks fewer were asked for"),
        RequestKind::Leave | RequestKind::Move => "no number of ranks was asked for".to_owned(),
    }
}

/// Returns true if the request may use slots that the launcher did not start with, on named or
/// brought hosts.
fn is_beyond(request: &Request) -> bool {
    !request.on.is_empty() || request.nodes > 0
}
