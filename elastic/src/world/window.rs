//! The window of a resize: both memberships at once, so that data can move.

use quo::group::Group as _;
use quo::group::{GroupError, Patience};
use quo_mpi::members::{Communicator, Intercommunicator};

use super::contexts::{Vote, exchange, first_reason};
use super::{Status, World};
use crate::change::{Cause, CauseKind};
use crate::error::Error;
use crate::order::{Part, Resize};

/// A resize between its beginning and its end.
///
/// Dropped without [`commit`](Self::commit), it gives the resize up, together with the others at their commit.
#[derive(Debug)]
pub struct Window<'a> {
    pub(super) world: &'a mut World,
    resize: Resize,
    pub(super) part: Part,
    /// Old ranks, then joiners; the old communicator itself when nobody joins.
    everybody: Option<Communicator>,
    /// The new ranks; none in a leaver. `everybody` when nobody leaves.
    new: Option<Communicator>,
    closed: bool,
}

impl<'a> Window<'a> {
    pub(super) fn open(world: &'a mut World) -> Result<Self, Error> {
        const CALL: &str = "begin";
        let resize = world.pending.take().ok_or(Error::Misplaced {
            call: CALL,
            reason: "no resize is pending: probe or wait first",
        })?;
        let part = resize.part_of(world.base.rank());
        if let Some(coordinator) = &world.coordinator {
            coordinator.entered();
        }
        let failed = Error::group(CALL);
        let grows = resize.joiners().next().is_some();
        let shrinks = resize.leavers().next().is_some();
        let everybody = if grows {
            Some(world.base.part(&resize.everybody(), resize.tag(0)).map_err(&failed)?)
        } else {
            None
        };
        let new = if shrinks && part != Part::Leaves {
            Some(world.base.part(&resize.new, resize.tag(1)).map_err(&failed)?)
        } else {
            None
        };
        let tag = world.tag;
        let window = Self { world, resize, part, everybody, new, closed: false };
        if let Some(next) = window.next() {
            next.mark(tag).map_err(&failed)?;
        }
        Ok(window)
    }

    /// All who stay, leave or join: the old ranks first, in their order.
    #[must_use]
    pub fn everybody(&self) -> &Communicator {
        match (&self.everybody, &self.world.current) {
            (Some(all), _) | (None, Some(all)) => all,
            // A joiner is only there when somebody joins.
            (None, None) => &self.world.base,
        }
    }

    /// The world as it was; none in a joiner.
    #[must_use]
    pub fn old(&self) -> Option<&Communicator> {
        self.world.current.as_ref()
    }

    /// The world as it will be; none in a leaver.
    #[must_use]
    pub fn next(&self) -> Option<&Communicator> {
        match self.part {
            Part::Leaves => None,
            _ if self.resize.leavers().next().is_none() => Some(self.everybody()),
            _ => self.new.as_ref(),
        }
    }

    /// Whether this process leaves with this resize.
    #[must_use]
    pub fn leaves(&self) -> bool {
        self.part == Part::Leaves
    }

    /// Whether this process joins with this resize.
    #[must_use]
    pub fn joins(&self) -> bool {
        self.part == Part::Joins
    }

    pub(super) fn joiners(&self) -> usize {
        self.resize.joiners().count()
    }

    /// The new ranks, as ranks of everybody.
    pub(super) fn next_places(&self) -> Vec<usize> {
        let everybody = self.resize.everybody();
        let place = |member: &usize| everybody.iter().position(|other| other == member);
        self.resize.new.iter().filter_map(place).collect()
    }

    /// How many ranks stay, leave and join.
    #[must_use]
    pub fn counts(&self) -> (usize, usize, usize) {
        let (leave, join) = (self.resize.leavers().count(), self.resize.joiners().count());
        (self.resize.old.len() - leave, leave, join)
    }

    /// An intercommunicator between the old ranks and the joiners; none when nobody joins. Collective over everybody.
    ///
    /// # Errors
    /// [`Error::Group`].
    pub fn between(&self) -> Result<Option<Intercommunicator>, Error> {
        const CALL: &str = "between";
        let failed = Error::group(CALL);
        let Some(everybody) = &self.everybody else { return Ok(None) };
        let olds = self.resize.old.len();
        let inter = if self.joins() {
            let joiners: Vec<usize> = (olds..everybody.size()).collect();
            let part = everybody.part(&joiners, self.resize.tag(2)).map_err(&failed)?;
            let inter = part.meet(0, everybody, 0, self.resize.tag(3)).map_err(&failed)?;
            part.free().map_err(&failed)?;
            inter
        } else {
            let old = self.world.current.as_ref().unwrap_or(everybody);
            old.meet(0, everybody, olds, self.resize.tag(3)).map_err(&failed)?
        };
        Ok(Some(inter))
    }

    /// Gives everybody the value that rank 0 has, such as the number of the step. Collective over everybody.
    ///
    /// # Errors
    /// [`Error::Group`].
    pub fn tell<T: serde::Serialize + for<'b> serde::Deserialize<'b>>(
        &self,
        value: &mut T,
    ) -> Result<(), Error> {
        const CALL: &str = "tell";
        let unsuitable = |_| GroupError::Unsuitable { call: CALL, reason: "a value is no data" };
        let failed = Error::group(CALL);
        let everybody = self.everybody();
        let bytes = if everybody.rank() == 0 {
            serde_json::to_vec(value).map_err(unsuitable).map_err(&failed)?
        } else {
            Vec::new()
        };
        let patience = Patience::for_at_most(self.world.patience);
        let bytes = everybody.broadcast(bytes, 0, &patience).map_err(&failed)?;
        *value = serde_json::from_slice(&bytes).map_err(unsuitable).map_err(&failed)?;
        Ok(())
    }

    /// Ends the resize: the world is the new one if everybody says so, and what it was if anybody has a reason why
    /// not. Collective over everybody.
    ///
    /// Leavers are parked afterwards, and so are joiners of a resize that was given up.
    ///
    /// # Errors
    /// [`Error::GivenUp`] with the first reason, the same everywhere; [`Error::Group`].
    #[doc(alias = "MPI_Comm_adapt_commit")]
    pub fn commit(mut self, mine: Result<(), String>) -> Result<(), Error> {
        self.close(mine)
    }

    fn close(&mut self, mine: Result<(), String>) -> Result<(), Error> {
        const CALL: &str = "commit";
        self.closed = true;
        let failed = Error::group(CALL);
        let patience = Patience::for_at_most(self.world.patience);
        let group = self.everybody().group().map_err(&failed)?;
        let (unmoved, untold) = match self.unmoved() {
            Ok(unmoved) => (unmoved, None),
            Err(reason) => (false, Some(reason)),
        };
        let vote = Vote { reason: mine.err().or(untold), contexts: self.identities(), unmoved };
        let votes = exchange(&group, &vote, &patience)?;
        let mut given_up = first_reason(&votes);
        if given_up.is_none()
            && votes.iter().any(|vote| vote.unmoved)
            && let Err(error) = self.move_data()
        {
            match error.agreed() {
                Some(agreed) => given_up = Some(agreed),
                None => return Err(error),
            }
        }
        if given_up.is_none() {
            given_up = self.adapt_contexts(&group, &patience)?;
        }
        // Nobody may probe before the signal is lowered everywhere.
        if let Some(coordinator) = &self.world.coordinator {
            let outcome = match &given_up {
                None => Ok(0),
                Some((rank, reason)) => {
                    Err(Cause::new(CauseKind::GivenUp, format!("by rank {rank}: {reason}")))
                }
            };
            coordinator.ended(outcome)?;
        }
        self.world.lobby.reset_round();
        self.world.round = 0;
        group.barrier().map_err(&failed)?;
        drop(group);
        match given_up {
            None => self.become_new(),
            Some((rank, reason)) => {
                self.stay_old()?;
                Err(Error::GivenUp { call: CALL, rank, reason })
            }
        }
    }

    fn become_new(&mut self) -> Result<(), Error> {
        let failed = Error::group("commit");
        let world = &mut *self.world;
        let everybody = self.everybody.take();
        let next = if self.resize.leavers().next().is_some() {
            if let Some(everybody) = everybody {
                everybody.free().map_err(&failed)?;
            }
            self.new.take()
        } else {
            everybody
        };
        if let Some(old) = world.current.take() {
            old.free().map_err(&failed)?;
        }
        world.status = if self.part == Part::Leaves { Status::Parked } else { Status::Staying };
        world.current = next;
        world.ranks = std::mem::take(&mut self.resize.new);
        world.epoch += 1;
        world.settle_data(true);
        Ok(())
    }

    fn stay_old(&mut self) -> Result<(), Error> {
        let failed = Error::group("commit");
        for communicator in [self.new.take(), self.everybody.take()].into_iter().flatten() {
            communicator.free().map_err(&failed)?;
        }
        if self.part == Part::Joins {
            self.world.status = Status::Parked;
        }
        self.world.settle_data(false);
        Ok(())
    }
}

impl Drop for Window<'_> {
    fn drop(&mut self) {
        if !self.closed {
            // Whatever goes wrong now, somebody else is told.
            let _ = self.close(Err("the window was left without a commit".to_owned()));
        }
    }
}
