//! The coordinator: the thread, in the process that never leaves, that carries out every resize.
//!
//! It sleeps on its channel. The arbiter decides, and answers any caller at any time; actions go
//! through [`Agents`]. The coordinator makes no MPI call; processes are spawned by another thread
//! while the coordinator continues to receive messages.

mod arbiter;
mod journal;
mod requests;
mod resource_manager;
mod samples;
pub(crate) mod set_service;
mod shared;
mod starting;
mod supply;
mod thread;
mod world_status;

use std::net::IpAddr;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use crate::error::Error;
use crate::link::agents::Agents;
use crate::link::endpoint::Endpoint;
use crate::model::change::{Cause, RequestId};
use crate::model::order::Losses;
use crate::model::progress::Progress;
use crate::observe::measured::looks_for_loops;
use crate::spawn::starter::{SpawnCommand, SpawnHelper, Unit};
pub(crate) use arbiter::{Arbiter, Job};
pub(crate) use journal::Journal;
pub use requests::{Accepted, Requests};
pub use resource_manager::{Moment, Next, ResourceManager};
use set_service::SetService;
pub(crate) use shared::Shared;
use starting::{StartMessage, Starts};
pub use supply::Supply;
use thread::{CoordinatorThread, Phase};
pub use world_status::{HostStatus, SLURM_JOB_VARIABLE, UnitStatus, WorldStatus};

/// Message to the coordinator.
enum Message {
    /// A request or an iteration has arrived.
    Wake,
    /// The running ranks have entered the resize of this number: joiners may join.
    Entered(u64),
    /// All ranks have agreed on the outcome of the resize; the signal has to be lowered before any
    /// rank continues.
    Ended {
        /// Number of the resize.
        resize: u64,
        outcome: Result<(), Cause>,
        /// Agents and places of the new set of processes, if it has changed.
        head: Option<Box<Head>>,
        answer: Sender<Result<(), Error>>,
    },
    /// Nodes for a request have been brought, or could not be.
    Brought(RequestId, Result<Vec<String>, Cause>),
    /// Message of the start with this number.
    Start(u64, StartMessage),
    /// A rank cannot continue in the resize that is under way.
    Lost(Cause),
    /// The job is over.
    Over,
}

/// Agents and the places of processes.
#[derive(Debug)]
pub(crate) struct Head {
    pub agents: Agents,
    /// The names of the nodes.
    pub hosts: Vec<String>,
    /// The node of every process.
    pub places: Vec<usize>,
}

impl std::fmt::Debug for Message {
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        to.write_str("Message")
    }
}

/// Handle in the process that runs the coordinator.
#[derive(Debug)]
pub(crate) struct Coordinator {
    /// The service through which ranks use process sets. Closes first.
    set_service: Option<SetService>,
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
    units: Units,
}

/// Ready units, which rank 0 takes when it enters the resize.
type Units = Arc<Mutex<Vec<Unit>>>;

fn take(units: &Units) -> Vec<Unit> {
    std::mem::take(&mut *units.lock().unwrap_or_else(PoisonError::into_inner))
}

impl Coordinator {
    pub(crate) fn start(
        agents: Agents,
        job: Job,
        spawn_command: SpawnCommand,
        spawn_helper: Option<SpawnHelper>,
        log: Option<&Path>,
        mut managers: Vec<Box<dyn ResourceManager>>,
        has_guards: bool,
    ) -> Result<Self, String> {
        let journal = Journal::open(log).map_err(|error| {
            let path = log.map_or(String::new(), |path| path.display().to_string());
            format!("the event log {path}: {error}")
        })?;
        let (sender, receiver) = channel();
        let shared = Arc::new(Shared::new(Arbiter::new(job, journal)?, sender));
        for number in 0..managers.len() {
            let manager = &mut managers[number];
            if let Err(reason) = manager.begins(Requests::new(Arc::clone(&shared))) {
                let reason = format!("{}: {reason}", manager.name());
                managers[..number].iter_mut().for_each(|manager| manager.ends());
                return Err(reason);
            }
            if let Some(supply) = manager.supply() {
                shared.arbiter().supplied_by(supply);
            }
        }
        let units = Units::default();
        let state = CoordinatorThread {
            shared: Arc::clone(&shared),
            agents,
            managers,
            phase: Phase::Idle,
            spawn_command,
            starts: Starts::by(spawn_helper),
            units: Arc::clone(&units),
            next_event: 0,
            wake: Some(Duration::ZERO),
            next_load: (Duration::ZERO, 0),
            next_loops: looks_for_loops().then_some(Duration::ZERO),
            has_guards,
        };
        let thread = std::thread::Builder::new()
            .name("elastic".to_owned())
            .spawn(move || state.run(&receiver))
            .map_err(|error| error.to_string())?;
        Ok(Self { set_service: None, shared, thread: Some(thread), units })
    }

    /// Opens the service through which ranks use process sets: on the given addresses, or only for
    /// processes of this host.
    pub(crate) fn open_sets(&mut self, far: Option<Vec<IpAddr>>) -> Result<Endpoint, String> {
        let opened = SetService::open(self.shared(), far).map_err(|error| error.to_string());
        let (set_service, endpoint) = opened?;
        self.set_service = Some(set_service);
        Ok(endpoint)
    }

    pub(crate) fn shared(&self) -> Arc<Shared> {
        Arc::clone(&self.shared)
    }

    /// Ends the coordinator. Returns true if MPI is free again, false if it has not returned from a
    /// spawn; and the processes that the job continued without.
    pub(crate) fn end(self) -> (bool, Losses) {
        let shared = self.shared();
        drop(self);
        let losses = shared.arbiter().losses();
        (!shared.is_stuck.load(Ordering::Acquire), losses)
    }

    /// Returns the handle for requests.
    pub(crate) fn requests(&self) -> Requests {
        Requests::new(Arc::clone(&self.shared))
    }

    /// Records that the program begins an iteration.
    #[inline]
    pub(crate) fn iteration(&self, number: u64) {
        self.shared.iteration.store(number, Ordering::Release);
        if number >= self.shared.awaited.load(Ordering::Acquire) {
            self.shared.awaited.store(u64::MAX, Ordering::Release);
            self.shared.wake_coordinator();
        }
    }

    /// Records what the program reports of itself, in this epoch and on `size` ranks.
    pub(crate) fn report(&self, progress: Progress, epoch: u64, size: u64) {
        self.shared.reports().record(progress, epoch, size);
        self.iteration(progress.iteration);
    }

    /// Takes the units that wait to join, in their order.
    pub(crate) fn take_units(&self) -> Vec<Unit> {
        take(&self.units)
    }

    /// Reports that the running ranks have entered the resize of this number.
    pub(crate) fn entered(&self, resize: u64) {
        let _ = self.shared.sender.send(Message::Entered(resize));
    }

    /// Records that the data have moved, `bytes` of them from one rank to another.
    pub(crate) fn moved(&self, bytes: u64) {
        self.shared.arbiter().moved(bytes);
    }

    /// Reports the outcome of the resize of this number, and waits until the signal is lowered.
    pub(crate) fn ended(
        &self,
        resize: u64,
        outcome: Result<(), Cause>,
        head: Option<Box<Head>>,
    ) -> Result<(), Error> {
        let (answer, answered) = channel();
        if self.shared.sender.send(Message::Ended { resize, outcome, head, answer }).is_err() {
            return Ok(());
        }
        answered.recv().unwrap_or(Ok(()))
    }
}

impl Drop for Coordinator {
    fn drop(&mut self) {
        drop(self.set_service.take());
        let _ = self.shared.sender.send(Message::Over);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
