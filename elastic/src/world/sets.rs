//! Process sets over a running world: an interface that handles resizes by the names of sets.
//!
//! It uses the same engine. A resize is a *delta*, the set of its joiners or leavers; a program
//!
//! 1. asks whether there is one: [`ProcessSets::query`];
//! 2. makes the set it continues with from its own set and the delta: [`ProcessSets::operate`];
//! 3. accepts on all ranks together, once an iteration, until the resize has taken effect:
//!    [`World::accept`];
//! 4. in a joiner, asks for the name of that set: [`World::confirm`].
//!
//! Source: D. Huber, master's thesis, TU München 2021, sections 6.2 and 6.3.

use std::time::{Duration, Instant};

use quo::group::WaitLimits;
use serde::{Deserialize, Serialize};

use super::{Status, Window, World};
use crate::coordinator::set_service::{Ask, Reply, serve};
use crate::error::Error;
use crate::link::agents::Link;
use crate::model::change::View;
use crate::model::member::MemberId;
use crate::model::sets::{
    AttributeChange, Members, Operation, Outcome, Published, SetInfo, SetName, SetOp,
};

/// The process sets of the job, as one process sees and changes them. Every call is local: the
/// caller waits for no process but rank 0, which keeps the sets. Calls of several processes are
/// ordered.
#[derive(Debug)]
pub struct ProcessSets {
    way: Way,
}

#[derive(Debug)]
enum Way {
    Here(std::sync::Arc<crate::coordinator::Shared>),
    There(Link),
}

/// Result of [`World::accept`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Accepted {
    /// The processes are not all ready: continue computing and accept again.
    #[doc(alias = "MPI_ERR_PENDING")]
    Pending,
    /// The resize has taken effect, and this process is a rank.
    Switched {
        /// The set that rank 0 made for it.
        set: SetName,
    },
    /// This process has left.
    #[doc(alias = "terminate")]
    Left,
    /// The resize was aborted; the world is the old one.
    #[doc(alias = "MPI_ERR_PORT")]
    Aborted,
}

/// Result of [`World::probe_accepting`], before data move.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Acceptance {
    /// The processes are not all ready: continue computing and accept again.
    Pending,
    /// All ranks have arrived at the resize: [`World::begin`] is next.
    Enters {
        /// The set that rank 0 made for the new world.
        set: SetName,
    },
    /// The resize was aborted; the world is the old one.
    Aborted,
}

/// Message of rank 0 to the other ranks about an acceptance.
#[derive(Debug, Serialize, Deserialize)]
enum AcceptanceMessage {
    Is { new: SetName },
    IsGone,
    Failed(String),
}

impl ProcessSets {
    pub(super) fn of(world: &World) -> Result<Self, Error> {
        const CALL: &str = "process_sets";
        let Some(directions) = &world.directions else {
            let reason = "WorldOptions::process_sets was not asked for on rank 0";
            return Err(Error::InvalidState { call: CALL, reason });
        };
        let way = match &world.coordinator {
            Some(coordinator) => Way::Here(coordinator.shared()),
            None => Way::There(directions.connect(world.birth.0).map_err(|error| {
                Error::Agent { call: CALL, node: 0, reason: error.to_string() }
            })?),
        };
        Ok(Self { way })
    }

    fn ask(&mut self, call: &'static str, ask: Ask) -> Result<Reply, Error> {
        let broken = |reason: String| Error::Agent { call, node: 0, reason };
        let reply = match &mut self.way {
            // The coordinator runs in the first launched process.
            Way::Here(shared) => serve(shared, MemberId(0), ask),
            Way::There(link) => {
                link.send(&ask).map_err(|error| broken(error.to_string()))?;
                let reply = link.receive().map_err(|error| broken(error.to_string()))?;
                reply.ok_or_else(|| {
                    broken("rank 0 closed the connection before the answer".to_owned())
                })?
            }
        };
        match reply {
            Reply::Failed(kind, reason) => Err(Error::Sets { call, kind, reason }),
            Reply::Refused(reason) => Err(Error::Refused { call, reason }),
            reply => Ok(reply),
        }
    }

    /// Returns the id of this process while it is in the world or about to join; `None` while it is
    /// parked.
    ///
    /// # Errors
    /// [`Error::Agent`], here and below, when rank 0 cannot be asked.
    pub fn member(&mut self) -> Result<Option<MemberId>, Error> {
        match self.ask("member", Ask::Member)? {
            Reply::Member(member) => Ok(member),
            reply => Err(unexpected("member", &reply)),
        }
    }

    /// Returns the names of the sets that this process may see, `mpi://WORLD` and `mpi://SELF`
    /// first.
    ///
    /// # Errors
    /// [`Error::Refused`], here and below, in a parked process.
    #[doc(alias = "MPI_Session_get_nth_pset")]
    #[doc(alias = "MPI_Session_get_num_psets")]
    pub fn names(&mut self) -> Result<Vec<SetName>, Error> {
        match self.ask("names", Ask::Names)? {
            Reply::Names(names) => Ok(names),
            reply => Err(unexpected("names", &reply)),
        }
    }

    /// Returns size, version, epoch and attributes of a set, and whether this process is in it.
    ///
    /// # Errors
    /// [`Error::Sets`], here and below, with the objection of the registry of sets.
    #[doc(alias = "MPI_Session_get_pset_info")]
    pub fn info(&mut self, set: &SetName) -> Result<SetInfo, Error> {
        match self.ask("info", Ask::Info(set.clone()))? {
            Reply::Info(info) => Ok(info),
            reply => Err(unexpected("info", &reply)),
        }
    }

    /// Returns the members of a set.
    ///
    /// # Errors
    /// [`Error::Sets`].
    pub fn members(&mut self, set: &SetName) -> Result<Members, Error> {
        match self.ask("members", Ask::Members(set.clone()))? {
            Reply::Members(members) => Ok(members),
            reply => Err(unexpected("members", &reply)),
        }
    }

    /// Makes a set from two, or a new version of the first; see
    /// [`Registry::operate`](crate::model::sets::Registry::operate).
    ///
    /// # Errors
    /// [`Error::Sets`].
    #[doc(alias = "MPI_Session_pset_create_op")]
    pub fn operate(
        &mut self,
        op: SetOp,
        first: &SetName,
        second: &SetName,
        target: Option<&SetName>,
        attributes: &AttributeChange,
    ) -> Result<SetName, Error> {
        let operation = Operation::Operate {
            caller: MemberId(0), // the set service puts in the caller
            op,
            first: first.clone(),
            second: second.clone(),
            target: target.cloned(),
            attributes: attributes.clone(),
        };
        match self.apply(operation)? {
            Outcome::Set(name) => Ok(name),
            reply => Err(unexpected("operate", &reply)),
        }
    }

    /// Applies any operation of a program on the sets; the service puts in the caller. Programs
    /// cannot change deltas.
    ///
    /// # Errors
    /// [`Error::Sets`], [`Error::Refused`].
    pub fn apply(&mut self, operation: Operation) -> Result<Outcome, Error> {
        match self.ask("apply", Ask::Do(operation))? {
            Reply::Done(outcome) => Ok(outcome),
            reply => Err(unexpected("apply", &reply)),
        }
    }

    /// Publishes a value under a key at a set, and returns the version of the value.
    ///
    /// # Errors
    /// [`Error::Sets`].
    #[doc(alias = "PMIx_Publish")]
    pub fn publish(&mut self, set: &SetName, key: &str, value: &[u8]) -> Result<u64, Error> {
        let (set, key, value) = (set.clone(), key.to_owned(), value.to_vec());
        let publisher = MemberId(0);
        match self.apply(Operation::Publish { publisher, set, key, value })? {
            Outcome::Published(version) => Ok(version),
            reply => Err(unexpected("publish", &reply)),
        }
    }

    /// Returns the value under a key at a set, waiting at most `wait` for one; `None` if none
    /// arrived.
    ///
    /// # Errors
    /// [`Error::Sets`], also if the set is removed meanwhile.
    #[doc(alias = "PMIx_Lookup")]
    pub fn lookup(
        &mut self,
        set: &SetName,
        key: &str,
        wait: Duration,
    ) -> Result<Option<Published>, Error> {
        let milliseconds = u64::try_from(wait.as_millis()).unwrap_or(u64::MAX);
        let ask = Ask::Lookup { set: set.clone(), key: key.to_owned(), milliseconds };
        match self.ask("lookup", ask)? {
            Reply::Found(found) => Ok(found),
            reply => Err(unexpected("lookup", &reply)),
        }
    }

    /// Returns the resize of this set that is under way, as this process may see it. A set without
    /// a resize is no error.
    ///
    /// # Errors
    /// [`Error::Agent`], [`Error::Refused`].
    #[doc(alias = "MPI_Session_get_res_change")]
    pub fn query(&mut self, bound: &SetName) -> Result<View, Error> {
        match self.ask("query", Ask::Query(bound.clone()))? {
            Reply::View(view) => Ok(view),
            reply => Err(unexpected("query", &reply)),
        }
    }
}

fn unexpected(call: &'static str, reply: &impl std::fmt::Debug) -> Error {
    Error::Agent { call, node: 0, reason: format!("unexpected reply: {reply:?}") }
}

impl World {
    /// Returns the process sets of the job for this process, also in a spawned joiner. Local.
    /// Remains valid over resizes.
    ///
    /// # Errors
    /// [`Error::InvalidState`] when the world was made without them, [`Error::Agent`] when rank 0 cannot be reached.
    pub fn process_sets(&self) -> Result<ProcessSets, Error> {
        ProcessSets::of(self)
    }

    /// Accepts a resize and probes: rank 0 names the resize, and the set of the new world; the
    /// other ranks' values do not count. Collective over the ranks, at the same points as probes;
    /// does not wait for joiners.
    ///
    /// # Errors
    /// Errors of rank 0's sets, the same on all ranks, and errors of [`World::probe`].
    pub fn probe_accepting(
        &mut self,
        sets: &mut ProcessSets,
        delta: &SetName,
        new: &SetName,
    ) -> Result<Acceptance, Error> {
        const CALL: &str = "accept";
        let current = self
            .communicator()
            .ok_or(Error::InvalidState { call: CALL, reason: "a process that joins confirms" })?;
        let mut word = AcceptanceMessage::IsGone;
        if current.rank() == 0 {
            let ask = Ask::Accept { delta: delta.clone(), new: new.clone() };
            word = match sets.ask(CALL, ask) {
                Ok(_) => AcceptanceMessage::Is { new: new.clone() },
                // Only the engine removes a delta.
                Err(Error::Sets { .. }) if !sets.is_there(delta)? => AcceptanceMessage::IsGone,
                Err(error) => AcceptanceMessage::Failed(error.to_string()),
            };
        }
        let unreadable = |error: serde_json::Error| Error::Agent {
            call: CALL,
            node: 0,
            reason: error.to_string(),
        };
        let bytes = serde_json::to_vec(&word).map_err(unreadable)?;
        let limits = WaitLimits::for_at_most(self.patience);
        let bytes = current.broadcast(bytes, 0, &limits).map_err(Error::group(CALL))?;
        let set = match serde_json::from_slice(&bytes).map_err(unreadable)? {
            AcceptanceMessage::Is { new } => new,
            AcceptanceMessage::IsGone => return Ok(Acceptance::Aborted),
            AcceptanceMessage::Failed(reason) => return Err(Error::Refused { call: CALL, reason }),
        };
        Ok(if self.probe()? { Acceptance::Enters { set } } else { Acceptance::Pending })
    }

    /// Accepts repeatedly while the resize is pending, for at most `wait`; the resize continues
    /// afterwards. Collective.
    ///
    /// # Errors
    /// As [`probe_accepting`](Self::probe_accepting).
    pub fn probe_accepting_for(
        &mut self,
        sets: &mut ProcessSets,
        delta: &SetName,
        new: &SetName,
        wait: Duration,
    ) -> Result<Acceptance, Error> {
        let deadline = Instant::now() + wait;
        loop {
            let acceptance = self.probe_accepting(sets, delta, new)?;
            if acceptance != Acceptance::Pending {
                return Ok(acceptance);
            }
            // One clock decides for all ranks, so that they stop waiting at the same acceptance.
            let current = self.communicator().ok_or(Error::InvalidState {
                call: "accept",
                reason: "the world was already ended",
            })?;
            let late = [u8::from(Instant::now() >= deadline)];
            let limits = WaitLimits::for_at_most(self.patience);
            let late =
                current.broadcast(late.to_vec(), 0, &limits).map_err(Error::group("accept"))?;
            if late == [1] {
                return Ok(Acceptance::Pending);
            }
            std::thread::yield_now();
        }
    }

    /// Accepts a resize as [`probe_accepting`](Self::probe_accepting) does. When every process is
    /// ready, opens the window, calls `move_data` in it, and commits the resize.
    ///
    /// # Errors
    /// As [`probe_accepting`](Self::probe_accepting), [`World::begin`] and [`Window::commit`].
    #[doc(alias = "MPI_Session_accept_res_change")]
    pub fn accept(
        &mut self,
        sets: &mut ProcessSets,
        delta: &SetName,
        new: &SetName,
        move_data: impl FnOnce(&Window<'_>) -> Result<(), String>,
    ) -> Result<Accepted, Error> {
        let acceptance = self.probe_accepting(sets, delta, new)?;
        self.switch(acceptance, move_data)
    }

    /// Accepts a resize as [`probe_accepting_for`](Self::probe_accepting_for) does, and continues
    /// as [`accept`](Self::accept) does. Collective.
    ///
    /// # Errors
    /// As [`accept`](Self::accept).
    pub fn accept_and_wait(
        &mut self,
        sets: &mut ProcessSets,
        delta: &SetName,
        new: &SetName,
        wait: Duration,
        move_data: impl FnOnce(&Window<'_>) -> Result<(), String>,
    ) -> Result<Accepted, Error> {
        let acceptance = self.probe_accepting_for(sets, delta, new, wait)?;
        self.switch(acceptance, move_data)
    }

    /// Switches from the old world to the new one once all have arrived.
    fn switch(
        &mut self,
        acceptance: Acceptance,
        move_data: impl FnOnce(&Window<'_>) -> Result<(), String>,
    ) -> Result<Accepted, Error> {
        let set = match acceptance {
            Acceptance::Pending => return Ok(Accepted::Pending),
            Acceptance::Aborted => return Ok(Accepted::Aborted),
            Acceptance::Enters { set } => set,
        };
        let window = self.begin()?;
        let moved = move_data(&window);
        match window.commit(moved) {
            Ok(()) if self.communicator().is_none() => Ok(Accepted::Left),
            Ok(()) => Ok(Accepted::Switched { set }),
            Err(Error::Aborted { .. }) => Ok(Accepted::Aborted),
            Err(error) => Err(error),
        }
    }

    /// Returns the name of the set that a joiner joins, which is recorded at the joiner's delta:
    /// for [`Status::Joining`], before [`World::begin`]. Waits at most `wait` for the old ranks to
    /// record it.
    ///
    /// # Errors
    /// [`Error::InvalidState`] in other processes, [`Error::Aborted`] when no name arrives.
    #[doc(alias = "MPI_Session_confirm_res_change")]
    pub fn confirm(&self, sets: &mut ProcessSets, wait: Duration) -> Result<SetName, Error> {
        const CALL: &str = "confirm";
        if self.status() != Status::Joining {
            let reason = "only a process that joins confirms";
            return Err(Error::InvalidState { call: CALL, reason });
        }
        let given_up =
            |reason: &str| Error::Aborted { call: CALL, rank: 0, reason: reason.to_owned() };
        let view = sets.query(&SetName::caller())?;
        let delta = view.delta.ok_or_else(|| given_up("there is no resize any more"))?;
        let found = sets.lookup(&delta, crate::coordinator::set_service::ACCEPTED, wait)?;
        let found = found.ok_or_else(|| given_up("the old ranks did not accept in time"))?;
        let name = String::from_utf8_lossy(&found.value).into_owned();
        SetName::new(name).map_err(|error| Error::Sets {
            call: CALL,
            kind: error.kind(),
            reason: error.to_string(),
        })
    }
}

impl ProcessSets {
    fn is_there(&mut self, set: &SetName) -> Result<bool, Error> {
        match self.members(set) {
            Ok(_) => Ok(true),
            Err(Error::Sets { .. }) => Ok(false),
            Err(error) => Err(error),
        }
    }
}
