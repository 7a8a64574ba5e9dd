//! The world: its present ranks, and the calls with which a program lets it change.
//!
//! ```no_run
//! use elastic::{Status, World, WorldOptions};
//! # fn compute(_rank: usize, _size: usize) {}
//! # fn initialise(_world: &mut World) {}
//! # fn move_data(_window: &elastic::Window<'_>) {}
//! # fn main() -> Result<(), elastic::Error> {
//! let mut world = World::create(WorldOptions::new())?;
//! let mut step = 0;
//! if world.status() == Status::New {
//!     initialise(&mut world); // arrays and contexts: the first probe may bring a resize
//! }
//! loop {
//!     match world.status() {
//!         Status::Parked if !world.wait()? => break, // asleep, until there is work, or none any more
//!         Status::Ended => break,
//!         _ => {}
//!     }
//!     if world.status() == Status::Joining || world.probe()? {
//!         let mut window = world.begin()?;
//!         move_data(&window);
//!         window.broadcast(&mut step)?; // joiners learn where the others are
//!         window.commit(Ok(()))?;
//!         continue;
//!     }
//!     if step == 100 {
//!         break;
//!     }
//!     compute(world.rank(), world.size());
//!     step += 1;
//! }
//! world.end()
//! # }
//! ```

mod arrays;
mod contexts;
mod create;
mod join;
mod lifecycle;
mod lost;
mod meeting;
mod options;
mod sets;
mod site;
mod sleep;
mod window;

use std::sync::Arc;
use std::time::{Duration, Instant};

use quo::group::{GroupError, WaitLimits};
use quo_mpi::communicator::Communicator;

pub use options::WorldOptions;
pub use sets::{Acceptance, Accepted, ProcessSets};
pub use window::Window;

use lifecycle::Lifecycle;

use crate::coordinator::Coordinator;
use crate::data::Registry;
use crate::error::Error;
use crate::manager::{Requests, SigtermGuard};
use crate::model::change::{Request, RequestKind};
use crate::model::member::MemberId;
use crate::model::order::{Losses, Order};
use crate::model::progress::Progress;
use crate::model::round::Probe;
use crate::node::guard::Guard;
use crate::node::liveness::{Absence, LivenessCheck, wait_limits};
use crate::node::mailbox::NodeMailbox;
use crate::observe::measured::{LoopMeter, RatioMeter, pause_loops, resume_loops};
use crate::spawn::back_end::BackEnd;

/// Time that the processes of a job wait for each other.
const PATIENCE: Duration = Duration::from_secs(60);

/// Time that processes that end with an error wait for each other.
const LAST_BARRIER: Duration = Duration::from_secs(2);

/// Status of this process in the world.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Status {
    /// A rank since the beginning of the job.
    New,
    /// Called in: [`World::begin`] is next.
    Joining,
    /// A rank after a resize.
    Staying,
    /// No rank: asleep in [`World::wait`], or about to be.
    Parked,
    /// The job is over for this process: it has ended as a whole, or this process was spawned and
    /// is not needed any more. [`World::end`] is next, and then the end of the process.
    Ended,
}

/// Handle of a process on the elastic world: the present ranks, and this process's place among the
/// ranks or the parked processes.
///
/// Used by one thread per process. Calls marked *collective* are made by all ranks of the world in the same order.
#[derive(Debug)]
pub struct World {
    /// Ends this process when another one has died, if that was requested. Stops first.
    guard: Option<Guard>,
    /// The name of rank 0's process, if guards were requested.
    guards: Option<String>,
    /// All live processes, including parked ones; the unit in a process that is not in the world
    /// yet or any more.
    base: Communicator,
    /// This process's rank among all live ones.
    process: usize,
    /// Permanent id of this process in the registry of process sets.
    birth: MemberId,
    /// The processes spawned together with this one; `None` in a launched process.
    unit: Option<Communicator>,
    /// In the process of rank 0, which never leaves.
    coordinator: Option<Coordinator>,
    /// Endpoint of the registry of process sets, if the world has them.
    directions: Option<crate::link::endpoint::Endpoint>,
    /// The thread that answers the coordinator on another node.
    agent: Option<site::AgentThread>,
    back_end: BackEnd,
    /// Largest possible number of ranks.
    most: usize,
    lifecycle: Lifecycle,
    epoch: u64,
    /// The ranks of the world as ranks of `base`.
    ranks: Vec<usize>,
    round: u64,
    /// Number of rings heard so far.
    rings: u32,
    /// Identifies contexts over the world.
    tag: u64,
    /// Contexts of a process that has left, to be adopted again if it returns.
    contexts: Vec<quo::context::Registered>,
    data: Registry,
    patience: Duration,
    /// Measures the time in MPI of the reporting process.
    mpi_ratio: RatioMeter,
    /// Measures loops from the first probe of an epoch.
    loops: LoopMeter,
    /// Holds SIGTERM, if that was requested.
    _term: Option<SigtermGuard>,
}

impl World {
    /// Makes the world. Collective over all processes that were launched together, after MPI has been initialised.
    ///
    /// The first `initial_ranks` ranks begin as [`Status::New`], the others as [`Status::Parked`].
    ///
    /// # Errors
    /// [`Error::Group`], [`Error::Context`], [`Error::Node`], [`Error::Agent`].
    pub fn create(options: WorldOptions) -> Result<Self, Error> {
        create::create(options)
    }

    /// Status of this process in the world. Local.
    #[must_use]
    pub fn status(&self) -> Status {
        self.lifecycle.status()
    }

    /// Returns true if this process was spawned for a growth, and so ends when it leaves; launched
    /// processes are parked. Local.
    #[must_use]
    pub fn was_started(&self) -> bool {
        self.unit.is_some() || matches!(self.lifecycle, Lifecycle::Started { .. })
    }

    /// Number of resizes that have been committed. Local.
    #[must_use]
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// This process's rank; 0 while parked. Local.
    #[must_use]
    pub fn rank(&self) -> usize {
        self.communicator().map_or(0, Communicator::rank)
    }

    /// Number of ranks; in a parked process, as of the last resize it saw. Local.
    #[must_use]
    pub fn size(&self) -> usize {
        self.communicator().map_or(self.ranks.len(), Communicator::size)
    }

    /// Largest possible number of ranks. Local.
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.most
    }

    /// What the MPI can do for this world, and how that was found. Local.
    #[must_use]
    pub fn back_end(&self) -> &BackEnd {
        &self.back_end
    }

    /// The communicator of the world, until the next resize; `None` while parked. Local.
    #[must_use]
    pub fn communicator(&self) -> Option<&Communicator> {
        self.lifecycle.current()
    }

    /// Returns a context over the ranks of the world, which follows every resize. Collective over
    /// the world the first time; a joiner gets the existing contexts in the order of their
    /// creation, without communication.
    ///
    /// Contexts that libraries make in C over the communicator of the world, or over a duplicate of
    /// it, follow resizes in the same way.
    ///
    /// # Errors
    /// [`Error::InvalidState`] while parked, [`Error::Context`].
    pub fn context(&self) -> Result<quo::Context, Error> {
        const CALL: &str = "context";
        if let Some(waiting) = quo::Context::take_offered(self.tag) {
            return Ok(waiting);
        }
        let current = self.communicator().ok_or(Error::InvalidState {
            call: CALL,
            reason: "a parked process is in no context: it joins first",
        })?;
        let group = |limits: &WaitLimits<'_>| current.group_within(limits);
        let group = self.liveness().within(self.patience, group).map_err(Error::group(CALL))?;
        quo::Context::create(group).map_err(Error::context(CALL))
    }

    /// Requests another number of ranks, on rank 0, and returns the number of the request. Local;
    /// answered at once. Processes for the resize start while the ranks continue; the ranks enter
    /// it at one of their next probes, and one event with this number ends the request: see
    /// [`World::requests`].
    ///
    /// # Errors
    /// [`Error::Refused`] with the reason; nothing has changed.
    #[doc(alias = "MPI_Session_request_res_change")]
    pub fn request(&self, size: usize) -> Result<u64, Error> {
        const CALL: &str = "request";
        let requests = self
            .requests()
            .ok_or(Error::InvalidState { call: CALL, reason: "requests go through rank 0" })?;
        let size = u32::try_from(size).unwrap_or(u32::MAX);
        match requests.ask(Request::new(RequestKind::Size(size), "application")) {
            Ok(accepted) => Ok(accepted.request.0),
            Err((_, cause)) => Err(Error::Refused { call: CALL, reason: cause.to_string() }),
        }
    }

    /// Returns the handle for any kind of request and for the events; `None` except on rank 0.
    /// Local.
    #[must_use]
    pub fn requests(&self) -> Option<Requests> {
        self.coordinator.as_ref().map(Coordinator::requests)
    }

    /// Reports that the program begins an iteration, for plans that count iterations. Only rank 0's
    /// value counts. Local; two stores and a load unless a manager waits for the iteration.
    #[inline]
    pub fn report_iteration(&self, number: u64) {
        if let Some(coordinator) = &self.coordinator {
            coordinator.iteration(number);
        }
    }

    /// Reports the progress of the main loop to the managers and their clients: the answer to a
    /// status call includes it ([`LatestReport`](crate::manager::LatestReport)), with the duration
    /// of the last resize, which the library measures. A ratio that the program does not give is
    /// measured on rank 0 since the last report or resize, if the memory profiler takes times
    /// (`memprof run --mpi-time`). Also counts as [`report_iteration`](Self::report_iteration). Only
    /// rank 0's report counts. Local; no system call unless a manager waits for the iteration or
    /// the profiler takes times.
    ///
    /// # Errors
    /// [`Error::Progress`] for a measurement that is negative, infinite or no number, on any rank.
    pub fn report(&self, progress: &Progress) -> Result<(), Error> {
        progress.check()?;
        if let Some(coordinator) = &self.coordinator {
            let mpi_ratio = progress.mpi_ratio.or_else(|| self.mpi_ratio.take());
            let progress = Progress { mpi_ratio, ..*progress };
            coordinator.report(progress, self.epoch, self.size() as u64);
        }
        Ok(())
    }

    /// Returns true if all ranks have arrived at a resize: [`begin`](Self::begin) is next. All
    /// ranks call it at the same points of the program; no rank waits for the progress of another.
    /// Without a pending resize it costs a store, a fence and a load.
    ///
    /// # Errors
    /// [`Error::InvalidState`] in a process that is no rank, [`Error::Dead`] when a process of the
    /// node ended before all had agreed.
    #[doc(alias = "MPI_Probe_adapt")]
    #[inline]
    pub fn probe(&mut self) -> Result<bool, Error> {
        const CALL: &str = "probe";
        let Lifecycle::Rank { mailbox, pending: None, .. } = &self.lifecycle else {
            let reason = "only a rank that is in no resize probes: call wait or begin";
            return Err(Error::InvalidState { call: CALL, reason });
        };
        if self.round == 0 {
            // This is the first probe of the program, or the first after a resize.
            resume_loops();
            self.loops = LoopMeter::begin();
        }
        if self.loops.has_news()
            && let Some(loops) = self.loops.take()
        {
            mailbox.tell_loops(self.epoch, &loops);
        }
        self.round += 1;
        match mailbox.probe(self.round).map_err(Error::node(CALL))? {
            Probe::Go => Ok(false),
            Probe::Enter => self.enter().map(|()| true),
        }
    }

    #[cold]
    fn enter(&mut self) -> Result<(), Error> {
        match self.read_order("probe")? {
            Order::Resize(resize) => {
                if let Lifecycle::Rank { pending, .. } = &mut self.lifecycle {
                    *pending = Some(resize);
                }
                Ok(())
            }
            Order::End(_) => {
                Err(Error::InvalidState { call: "probe", reason: "the job has ended on rank 0" })
            }
        }
    }

    fn mailbox(&self, call: &'static str) -> Result<&Arc<NodeMailbox>, Error> {
        let reason = "this process is not in the world";
        self.lifecycle.mailbox().ok_or(Error::InvalidState { call, reason })
    }

    /// Check of the processes of this node. Local.
    #[must_use]
    pub fn liveness(&self) -> LivenessCheck {
        LivenessCheck::over(self.lifecycle.mailbox().cloned())
    }

    fn read_order(&self, call: &'static str) -> Result<Order, Error> {
        serde_json::from_slice(&self.mailbox(call)?.mail())
            .map_err(|error| Error::Node { call, reason: format!("an unreadable order: {error}") })
    }

    /// Opens the window in which data move. Collective over all ranks that stay, leave or join.
    ///
    /// # Errors
    /// [`Error::InvalidState`] without a resize, [`Error::Group`].
    #[doc(alias = "MPI_Comm_adapt_begin")]
    pub fn begin(&mut self) -> Result<Window<'_>, Error> {
        Window::open(self)
    }

    /// Owns the main loop of the program: calls `step` until it returns false, on all ranks in the
    /// same step; between two steps the world may change its size. `state` is broadcast from rank 0
    /// in each resize, so that joiners continue where the others are; arrays and contexts follow by
    /// themselves. A process without a rank sleeps here. Returns on all processes: on ranks after the
    /// last step, on others when the job is over. Steps are the iterations of plans.
    ///
    /// ```no_run
    /// use elastic::{Error, Status, World, WorldOptions};
    /// # fn initialise(_world: &mut World) {}
    /// # fn main() -> Result<(), Error> {
    /// let mut world = World::create(WorldOptions::new())?;
    /// if world.status() == Status::New {
    ///     initialise(&mut world); // registers arrays
    /// }
    /// world.run(&mut 0, |world, done| {
    ///     world.exchange_halo("field")?; // and the rest of a step
    ///     *done += 1;
    ///     Ok::<_, Error>(*done < 100)
    /// })?;
    /// world.end()
    /// # }
    /// ```
    ///
    /// # Errors
    /// The errors of `step` and of the world; an aborted resize is not an error.
    pub fn run<S, E: From<Error>>(
        &mut self,
        state: &mut S,
        mut step: impl FnMut(&mut Self, &mut S) -> Result<bool, E>,
    ) -> Result<(), E>
    where
        S: serde::Serialize + for<'b> serde::Deserialize<'b>,
    {
        let mut steps = 0;
        loop {
            match self.status() {
                Status::Ended => return Ok(()),
                Status::Parked => {
                    if !self.wait()? {
                        return Ok(());
                    }
                }
                Status::Joining => {}
                Status::New | Status::Staying => {
                    self.report_iteration(steps);
                    if !self.probe()? {
                        if !step(self, state)? {
                            return Ok(());
                        }
                        steps += 1;
                        continue;
                    }
                }
            }
            let window = self.begin()?;
            window.broadcast(state)?;
            match window.commit(Ok(())) {
                // Aborted: the ranks are the same as before.
                Ok(()) | Err(Error::Aborted { .. }) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Ends the world and wakes the parked processes, for which the job is then over. Collective
    /// over the ranks, and also called by processes that are parked or [`Status::Ended`], before
    /// MPI is finalised.
    ///
    /// # Errors
    /// [`Error::Group`], also if parked processes have ended without [`World::end`]: the job
    /// continued without them, the world has ended, and `MPI_Finalize` may never return.
    /// [`Error::Node`] on rank 0 if `MPI_Finalize` would crash because MPI has not returned from an
    /// abandoned spawn: the process should exit without it.
    pub fn end(mut self) -> Result<(), Error> {
        const CALL: &str = "end";
        pause_loops();
        self.data.connect(None);
        let failed = Error::group(CALL);
        let watch = self.liveness();
        let mut is_free = true;
        if let Lifecycle::Rank { .. } = &self.lifecycle
            && let Lifecycle::Rank { current, mailbox, .. } = self.lifecycle.take()
        {
            let mut losses = Losses::default();
            // A process that died before it joined is no rank: the ranks continue to the barrier of
            // all processes, where the coordinator reports it.
            let ranks = watch.clone().only(self.ranks.clone());
            let gone = Absence::default();
            let check = || {
                ranks.check_all()?;
                // If a rank died during the last resize, ranks that disagree on its outcome would
                // wait for each other forever.
                gone.judge(Instant::now(), ranks.check_departed())
            };
            let limits = wait_limits(self.patience, &check);
            current.barrier(&limits).map_err(&failed)?;
            if let Some(coordinator) = self.coordinator.take() {
                // Ends the sleep of parked processes.
                (is_free, losses) = coordinator.end();
            }
            losses = broadcast(&current, &losses, &limits)?;
            current.free().map_err(&failed)?;
            self.lifecycle = Lifecycle::Ended { mailbox: Some(mailbox), losses };
        }
        while self.status() == Status::Parked {
            self.wait()?;
        }
        let losses = match self.lifecycle.take() {
            Lifecycle::Ended { losses, .. } => losses,
            _ => Losses::default(),
        };
        drop(self.agent.take());
        let absent = Absence::default();
        if !losses.launched.is_empty() {
            let check = || absent.judge(Instant::now(), watch.check());
            // No process ends before all have heard. Further losses found here are not reported.
            let limits = wait_limits(LAST_BARRIER, &check);
            let _ = last_barrier(&self.base, &losses.counted, &limits);
            let ranks = losses.launched;
            return Err(failed(GroupError::Dead { call: "MPI_Finalize", ranks }));
        }
        let seen = || watch.check_all().and_then(|()| watch.check_departed());
        let check = || absent.judge(Instant::now(), seen());
        self.base.barrier(&wait_limits(self.patience, &check)).map_err(&failed)?;
        self.base.free().map_err(&failed)?;
        // Open MPI finalises despite the unfinished spawn.
        if is_free || quo_mpi::running().family() == quo_mpi::Family::OpenMpi {
            return Ok(());
        }
        let reason =
            "MPI has not come back from a start of processes and cannot be finalised: exit without";
        Err(Error::Node { call: CALL, reason: reason.to_owned() })
    }
}

/// Broadcasts the value of rank 0. Collective.
fn broadcast(
    current: &Communicator,
    losses: &Losses,
    limits: &WaitLimits<'_>,
) -> Result<Losses, Error> {
    const CALL: &str = "end";
    let unreadable = |error: serde_json::Error| Error::Node {
        call: CALL,
        reason: format!("the list of processes that have ended: {error}"),
    };
    let bytes = serde_json::to_vec(losses).map_err(unreadable)?;
    let bytes = current.broadcast(bytes, 0, limits).map_err(Error::group(CALL))?;
    serde_json::from_slice(&bytes).map_err(unreadable)
}

/// Barrier of all processes but the ended ones, by messages: an MPI collective would wait for
/// those.
fn last_barrier(
    base: &Communicator,
    lost: &[usize],
    limits: &WaitLimits<'_>,
) -> Result<(), GroupError> {
    const TAG: u16 = 1;
    let all: Vec<usize> = (0..base.size()).filter(|process| !lost.contains(process)).collect();
    let Some(own) = all.iter().position(|&process| process == base.rank()) else { return Ok(()) };
    let mut step = 1;
    while step < all.len() {
        let to = all[(own + step) % all.len()];
        let from = all[(own + all.len() - step) % all.len()];
        base.exchange(Some((to, vec![0])), Some((from, 1)), TAG, limits)?;
        step *= 2;
    }
    Ok(())
}
