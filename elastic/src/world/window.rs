//! The window of a resize: both memberships at once, so that data can move.

use std::sync::Arc;

use memprof_hooks::{Origin, Region};
use quo::group::{GroupError, WaitLimits};
use quo_mpi::communicator::{Communicator, Intercommunicator};

use super::World;
use super::contexts::{Vote, exchange, first_reason};
use super::join::{self, Joined};
use super::lifecycle::Lifecycle;
use super::lost::LostResize;
use super::meeting::After;
use crate::coordinator::Coordinator;
use crate::error::Error;
use crate::model::change::{Cause, CauseKind};
use crate::model::order::{Part, ResizePlan, Seat};
use crate::node::liveness::{Joiner, LivenessCheck, wait_limits};
use crate::observe::measured;

/// A resize between its beginning and its end.
///
/// Dropping it without [`commit`](Self::commit) aborts the resize, which the other ranks learn at
/// their commit.
#[derive(Debug)]
pub struct Window<'a> {
    pub(super) world: &'a mut World,
    pub(super) resize: ResizePlan,
    pub(super) part: Part,
    /// Old ranks, then joiners; `None` when no process joins: the window uses the old communicator.
    all_ranks: Option<Communicator>,
    /// The new ranks; `None` in a leaver, and if no process leaves: then all ranks are new ranks.
    new: Option<Communicator>,
    /// All live processes once the spawned ones have joined; `None` if none was spawned.
    pub(super) wide: Option<Communicator>,
    /// Connected joiners, and rank 0.
    joiners: Vec<Joiner>,
    /// All live processes after the resize, with their mailboxes; `None` if the set of processes
    /// does not change.
    pub(super) after: Option<After>,
    /// Why the resize has to be aborted: the spawned processes did not join.
    join_failure: Option<String>,
    closed: bool,
    /// Index of the node, once the spawned processes have met the others.
    pub(super) node: Option<usize>,
    /// Marks the resize in a memory profile until the window closes.
    _region: Region,
}

impl<'a> Window<'a> {
    pub(super) fn open(world: &'a mut World) -> Result<Self, Error> {
        measured::pause_loops();
        let coordinator = world.coordinator.as_ref().map(Coordinator::shared);
        let lost = LostResize {
            resize: world.lifecycle.pending().cloned(),
            before: world.lifecycle.mailbox().cloned(),
            after: None,
        };
        Self::enter(world).inspect_err(|error| {
            if let Some(coordinator) = coordinator {
                lost.report(error, &coordinator);
            }
        })
    }

    fn enter(world: &'a mut World) -> Result<Self, Error> {
        const CALL: &str = "begin";
        let mut resize = world.lifecycle.take_pending().ok_or(Error::InvalidState {
            call: CALL,
            reason: "no resize is pending: probe or wait first",
        })?;
        let region = Region::begin("resize", Origin::Quo);
        let part = resize.part_of(world.process);
        let liveness = world.liveness();
        // Every rank has arrived before communicators are made.
        if let Some(old) = world.lifecycle.current() {
            let barrier = |limits: &WaitLimits<'_>| old.barrier(limits);
            liveness.within(world.patience, barrier).map_err(Error::group(CALL))?;
        }
        if let Some(coordinator) = &world.coordinator {
            coordinator.entered(resize.number);
        }
        let failed = Error::group(CALL);
        let (mut wide, mut join_failure, mut joiners) = (None, None, Vec::new());
        match join::all(world, &resize)? {
            Joined::Nobody => {}
            Joined::All(all, known) => (wide, joiners) = (Some(all), known),
            Joined::Missing(reason) => {
                // The window holds only the present processes, which give it up.
                resize.new.retain(|&process| process < world.base.size());
                resize.units.clear();
                join_failure = Some(reason);
            }
        }
        let grows = resize.joiners().next().is_some();
        let shrinks = resize.leavers().next().is_some();
        let all = wide.as_ref().unwrap_or(&world.base);
        let places = |processes: Vec<usize>| match &wide {
            Some(_) => resize.without_lost(&processes),
            None => processes,
        };
        let make = |limits: &WaitLimits<'_>| {
            let subset = |is_needed: bool, processes: Vec<usize>, tag: u16| {
                let make = || all.subset_within(&places(processes), tag, limits);
                is_needed.then(make).transpose()
            };
            let all_ranks = subset(grows, resize.all_ranks(), resize.tag(0))?;
            let is_new = shrinks && part != Part::Leaves;
            Ok((all_ranks, subset(is_new, resize.new.clone(), resize.tag(1))?))
        };
        let liveness = liveness.and(joiners.clone());
        let (all_ranks, new) = liveness.within(world.patience, make).map_err(&failed)?;
        let tag = world.tag;
        let closed = false;
        let mut window = Self {
            world,
            resize,
            part,
            all_ranks,
            new,
            wide,
            joiners,
            after: None,
            join_failure,
            closed,
            node: None,
            _region: region,
        };
        if let Some(next) = window.next() {
            next.set_tag(tag).map_err(&failed)?;
        }
        if !window.resize.units.is_empty() {
            // Moving data requires the node index of every process.
            let patience = window.world.patience;
            let met = window.liveness().within(patience, |limits| window.meet_anew(limits))?;
            window.join_failure = met.map(|(rank, reason)| format!("rank {rank}: {reason}"));
        }
        Ok(window)
    }

    /// Checks the participants on this node, including spawned joiners once connected.
    pub(super) fn liveness(&self) -> LivenessCheck {
        let after = self.after.as_ref().map(|after| &after.site.mailbox);
        LivenessCheck::over(self.world.lifecycle.mailbox().into_iter().chain(after).cloned())
            .and(self.joiners.clone())
    }

    /// Index of this process's node, the same for all ranks of the window on that node. Local.
    #[must_use]
    pub fn node(&self) -> usize {
        let mailbox = self.world.lifecycle.mailbox();
        self.node.or_else(|| Some(mailbox?.context().node_index())).unwrap_or(0)
    }

    /// The world as it is until the commit. Local.
    #[must_use]
    pub fn world(&self) -> &World {
        self.world
    }

    /// Communicator of all that stay, leave or join: the old ranks first, in their order.
    #[must_use]
    pub fn all_ranks(&self) -> &Communicator {
        match (&self.all_ranks, self.world.lifecycle.current()) {
            (Some(all), _) | (None, Some(all)) => all,
            // Not reached: a process without an old communicator is a joiner.
            (None, None) => self.wide.as_ref().unwrap_or(&self.world.base),
        }
    }

    /// The world as it was; none in a joiner.
    #[must_use]
    pub fn old(&self) -> Option<&Communicator> {
        self.world.lifecycle.current()
    }

    /// The world as it will be; none in a leaver.
    #[must_use]
    pub fn next(&self) -> Option<&Communicator> {
        match self.part {
            Part::Leaves => None,
            _ if self.resize.leavers().next().is_none() => Some(self.all_ranks()),
            _ => self.new.as_ref(),
        }
    }

    /// Returns true if this process leaves with this resize.
    #[must_use]
    pub fn leaves(&self) -> bool {
        self.part == Part::Leaves
    }

    /// Returns true if this process joins with this resize.
    #[must_use]
    pub fn joins(&self) -> bool {
        self.part == Part::Joins
    }

    pub(super) fn joiners(&self) -> usize {
        self.resize.joiners().count()
    }

    /// The new ranks, as ranks of [`all_ranks`](Self::all_ranks).
    pub(super) fn next_places(&self) -> Vec<usize> {
        let all_ranks = self.resize.all_ranks();
        let place = |member: &usize| all_ranks.iter().position(|other| other == member);
        self.resize.new.iter().filter_map(place).collect()
    }

    /// Number of ranks that stay, leave and join.
    #[must_use]
    pub fn counts(&self) -> (usize, usize, usize) {
        let (leave, join) = (self.resize.leavers().count(), self.resize.joiners().count());
        (self.resize.old.len() - leave, leave, join)
    }

    /// Makes an intercommunicator between the old ranks and the joiners; `None` when no process
    /// joins. Collective over all ranks of the window.
    ///
    /// # Errors
    /// [`Error::Group`].
    pub fn intercommunicator(&self) -> Result<Option<Intercommunicator>, Error> {
        let Some(all_ranks) = &self.all_ranks else { return Ok(None) };
        let make = |limits: &WaitLimits<'_>| {
            let (olds, tag) = (self.resize.old.len(), self.resize.tag(3));
            if !self.joins() {
                let old = self.old().unwrap_or(all_ranks);
                return old.create_intercomm_within(0, all_ranks, olds, tag, limits);
            }
            let joiners: Vec<usize> = (olds..all_ranks.size()).collect();
            let part = all_ranks.subset_within(&joiners, self.resize.tag(2), limits)?;
            let inter = part.create_intercomm_within(0, all_ranks, 0, tag, limits)?;
            part.free()?;
            Ok(inter)
        };
        let made = self.liveness().within(self.world.patience, make);
        made.map(Some).map_err(Error::group("intercommunicator"))
    }

    /// Broadcasts the value of rank 0, such as the number of the step. Collective over all ranks of
    /// the window.
    ///
    /// # Errors
    /// [`Error::Group`].
    pub fn broadcast<T: serde::Serialize + for<'b> serde::Deserialize<'b>>(
        &self,
        value: &mut T,
    ) -> Result<(), Error> {
        const CALL: &str = "broadcast";
        let unsuitable = |action: &str, error: serde_json::Error| GroupError::Unsuitable {
            call: CALL,
            reason: format!("cannot {action}: {error}").into(),
        };
        let failed = Error::group(CALL);
        let is_first = self.all_ranks().rank() == 0;
        let bytes = if is_first {
            serde_json::to_vec(value)
                .map_err(|error| unsuitable("serialise the value", error))
                .map_err(&failed)?
        } else {
            Vec::new()
        };
        let bytes = self.broadcast_bytes(bytes)?;
        *value = serde_json::from_slice(&bytes)
            .map_err(|error| unsuitable("read the value of rank 0", error))
            .map_err(&failed)?;
        Ok(())
    }

    /// Broadcasts the bytes of rank 0, as [`broadcast`](Self::broadcast) does a value, and returns
    /// them. Collective over all ranks of the window.
    ///
    /// # Errors
    /// [`Error::Group`].
    pub fn broadcast_bytes(&self, bytes: Vec<u8>) -> Result<Vec<u8>, Error> {
        let broadcast = |limits: &WaitLimits<'_>| self.all_ranks().broadcast(bytes, 0, limits);
        self.liveness().within(self.world.patience, broadcast).map_err(Error::group("broadcast"))
    }

    /// Ends the resize: it takes effect if every rank passes `Ok`, and is aborted if any rank
    /// passes a reason against it. Collective over all ranks of the window.
    ///
    /// Leavers are parked afterwards, and so are the joiners of a resize that was aborted; spawned
    /// processes among them have [ended](super::Status::Ended) instead.
    ///
    /// # Errors
    /// [`Error::Aborted`] with the first reason, the same on all ranks; [`Error::Group`].
    #[doc(alias = "MPI_Comm_adapt_commit")]
    pub fn commit(mut self, mine: Result<(), String>) -> Result<(), Error> {
        self.close(mine)
    }

    fn close(&mut self, mine: Result<(), String>) -> Result<(), Error> {
        self.closed = true;
        let decided = self.decide(mine);
        // The resize does not count as part of an iteration.
        self.world.mpi_ratio.restart();
        measured::reset_loops();
        decided.inspect_err(|error| {
            if let Some(coordinator) = &self.world.coordinator {
                let after = self.after.as_ref().map(|after| Arc::clone(&after.site.mailbox));
                let before = self.world.lifecycle.mailbox().cloned();
                let lost = LostResize { resize: Some(self.resize.clone()), before, after };
                lost.report(error, &coordinator.shared());
            }
        })
    }

    fn decide(&mut self, mine: Result<(), String>) -> Result<(), Error> {
        const CALL: &str = "commit";
        let failed = Error::group(CALL);
        let watch = self.liveness();
        let check = || watch.check();
        let limits = wait_limits(self.world.patience, &check);
        let (unmoved, untold) = match self.unmoved() {
            Ok(unmoved) => (unmoved, None),
            Err(reason) => (false, Some(reason)),
        };
        let (leaving, busy) = match self.leave_contexts() {
            Ok(leaving) => (leaving, None),
            Err(reason) => (Vec::new(), Some(reason)),
        };
        let reason = mine.err().or(untold).or(busy);
        let vote = Vote { reason, contexts: self.identities(), unmoved };
        let votes = exchange(self.all_ranks(), &vote, &limits)?;
        let has_join_failure = self.join_failure.is_some();
        let mut aborted_by =
            self.join_failure.take().map(|reason| (0, reason)).or_else(|| first_reason(&votes));
        if aborted_by.is_none()
            && votes.iter().any(|vote| vote.unmoved)
            && let Err(error) = self.move_data()
        {
            match error.agreed() {
                Some(agreed) => aborted_by = Some(agreed),
                None => return Err(error),
            }
        }
        if let (None, Some(coordinator)) = (&aborted_by, &self.world.coordinator) {
            coordinator.moved(self.bytes());
        }
        if aborted_by.is_none() && self.resize.changes_processes() && self.resize.units.is_empty() {
            aborted_by = self.meet_anew(&limits)?;
        }
        if aborted_by.is_none() {
            aborted_by = self.adapt_contexts(votes, leaving, &limits)?;
        }
        if aborted_by.is_some() {
            self.abort_meeting()?;
        }
        // No rank may probe before the signal is lowered on all nodes.
        if let Some(coordinator) = &self.world.coordinator {
            let outcome = match &aborted_by {
                None => Ok(()),
                Some((_, reason)) if has_join_failure => {
                    Err(Cause::new(CauseKind::JoinerLost, reason))
                }
                Some((rank, reason)) => {
                    Err(Cause::new(CauseKind::Rejected, format!("by rank {rank}: {reason}")))
                }
            };
            let moved = self.after.as_mut().and_then(|after| after.site.head.take());
            coordinator.ended(self.resize.number, outcome, moved.map(Box::new))?;
        }
        if let Some(mailbox) = self.world.lifecycle.mailbox() {
            mailbox.reset_round();
        }
        self.world.round = 0;
        // After this barrier the joiners of an aborted resize may end.
        self.joiners.clear();
        let barrier = |limits: &WaitLimits<'_>| self.all_ranks().barrier(limits);
        self.liveness().within(self.world.patience, barrier).map_err(&failed)?;
        match aborted_by {
            None => self.become_new(),
            Some((rank, reason)) => {
                self.stay_old()?;
                Err(Error::Aborted { call: CALL, rank, reason })
            }
        }
    }

    fn become_new(&mut self) -> Result<(), Error> {
        let failed = Error::group("commit");
        let world = &mut *self.world;
        // A leaver disconnects only from processes with which it shares no communicator.
        world.data.connect(None);
        let all_ranks = self.all_ranks.take();
        let next = if self.resize.leavers().next().is_some() {
            if let Some(all_ranks) = all_ranks {
                all_ranks.free().map_err(&failed)?;
            }
            self.new.take()
        } else {
            all_ranks
        };
        let before = world.lifecycle.take();
        let had_started = matches!(before, Lifecycle::Started { .. });
        let met = self.after.as_ref().map(|after| &after.site.mailbox);
        let own = before.mailbox().cloned();
        let mailbox = own.as_ref().or(met).cloned();
        match before {
            Lifecycle::Rank { current, mailbox, .. } => {
                drop(mailbox);
                current.free().map_err(&failed)?;
            }
            before => drop(before),
        }
        if let Some(own) = own {
            own.sit(self.resize.seat(world.process));
        }
        let is_gone = self.resize.gone.contains(&world.process);
        world.lifecycle = match (next, mailbox) {
            (Some(current), Some(mailbox)) => {
                Lifecycle::Rank { current, mailbox, pending: None, is_new: false }
            }
            (_, Some(mailbox)) if !is_gone => Lifecycle::Parked { mailbox },
            (_, mailbox) => Lifecycle::ended(mailbox),
        };
        let new = self.resize.new.iter();
        world.ranks = new.filter_map(|&process| self.resize.renumber(process)).collect();
        world.epoch += 1;
        if self.resize.changes_processes() {
            self.go_over(had_started)?;
        }
        if let Lifecycle::Parked { mailbox } = &self.world.lifecycle {
            mailbox.sit(Seat::Asleep);
        }
        self.world.end_transfer(true);
        Ok(())
    }

    /// Switches the world to the new set of processes.
    fn go_over(&mut self, had_started: bool) -> Result<(), Error> {
        let failed = Error::group("commit");
        let world = &mut *self.world;
        let wide = self.wide.take();
        let Some(after) = self.after.take() else {
            // This process leaves for good and keeps only the processes it was spawned with.
            let base = world.unit.take().map(|unit| std::mem::replace(&mut world.base, unit));
            for all in [wide, base].into_iter().flatten() {
                all.free().map_err(&failed)?;
            }
            world.guard = None;
            world.lifecycle = Lifecycle::ended(None);
            world.agent = None;
            return Ok(());
        };
        let next = match (after.base, wide) {
            (Some(base), Some(wide)) => {
                wide.free().map_err(&failed)?;
                Some(base)
            }
            (base, wide) => base.or(wide),
        };
        if let Some(next) = next {
            let before = std::mem::replace(&mut world.base, next);
            if had_started {
                world.unit = Some(before);
            } else {
                before.free().map_err(&failed)?;
            }
        }
        world.process = world.base.rank();
        world.rings = after.rings;
        // The coordinator has closed the old agent's link.
        world.agent = after.site.agent;
        world.lifecycle.set_mailbox(after.site.mailbox);
        world.guard_own();
        Ok(())
    }

    fn stay_old(&mut self) -> Result<(), Error> {
        let failed = Error::group("commit");
        let made = [self.new.take(), self.all_ranks.take(), self.wide.take()];
        for communicator in made.into_iter().flatten() {
            communicator.free().map_err(&failed)?;
        }
        if self.part == Part::Joins {
            self.world.lifecycle = match self.world.lifecycle.mailbox().cloned() {
                Some(mailbox) => {
                    mailbox.sit(Seat::Asleep);
                    Lifecycle::Parked { mailbox }
                }
                None => Lifecycle::ended(None),
            };
        }
        self.world.end_transfer(false);
        Ok(())
    }
}

impl Drop for Window<'_> {
    fn drop(&mut self) {
        if !self.closed {
            // A drop cannot return an error; the other ranks learn of the failure through the vote.
            let _ = self.close(Err("the window was left without a commit".to_owned()));
        }
    }
}
