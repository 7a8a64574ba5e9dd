//! Resize points in a program: the calls of ReSHAPE over [`World`],
//! [`points`](elastic_policy::points) and [`data`](elastic::data).
//!
//! | ReSHAPE | here |
//! |---|---|
//! | `reshape_Init` | [`Reshape::init`] |
//! | `reshape_getIterCount` | [`Reshape::iteration`] |
//! | `reshape_getSchedulerDecision` | [`Reshape::decision`] |
//! | `reshape_ContactScheduler` | [`Reshape::contact`] |
//! | `reshape_Resize` | [`Reshape::resize`] |
//! | `reshape_Redistribute1D`, `reshape_RedistributeUniformBlock`, `reshape_Redistribute2D` | [`Reshape::redistribute_1d`], [`Reshape::redistribute_uniform_block`], [`Reshape::redistribute_2d`] |
//! | `reshape_setCommunicator` | [`Reshape::rearrange`] |
//! | `reshape_getOldProcessorDimensions`, `reshape_getNewProcessorDimensions` | [`Reshape::old_dimensions`], [`Reshape::new_dimensions`] |
//! | `RESHAPE_COMM_WORLD` | [`World::communicator`] of [`Reshape::world`] |
//! | `reshape_Exit` | [`Reshape::exit`] |
//!
//! A leaver sleeps in [`Reshape::resize`] until it is called in again or the job is over; a process
//! that is not a rank at first sleeps in [`Reshape::init`]. [`Seat`] reports the outcome.
//!
//! ```no_run
//! use elastic::WorldOptions;
//! use elastic::layout::Storage;
//! use elastic_policy::points::{Configuration, Decision, Topology};
//! use elastic_reshape::{ProcessorTopology, Reshape, Seat, SweetSpot};
//! # fn iterate(_matrix: &mut [f64], _rank: usize, _size: usize) {}
//! # fn main() -> Result<(), elastic_reshape::ReshapeError> {
//! let kind = Topology::NearlySquare { difference: None, divides: None };
//! let topology = ProcessorTopology { kind, start: Configuration::Grid(1, 2) };
//! let mut reshape = Reshape::init(WorldOptions::new(), topology, Box::new(SweetSpot::default()))?;
//! let mut matrix = Vec::new(); // joiners are given theirs
//! if reshape.seat() == Seat::Stays {
//!     matrix.resize(100 * 200 / 2, 1.0);
//! }
//! let mut step = reshape.iteration(); // joiners enter here
//! while step < 400 && reshape.seat() != Seat::Ended {
//!     if let Decision::Expand(_) = reshape.decision() {
//!         reshape.redistribute_2d(&mut matrix, (200, 100), 100, Storage::Rows)?;
//!     }
//!     let begun = std::time::Instant::now();
//!     iterate(&mut matrix, reshape.world().rank(), reshape.world().size());
//!     if step % 20 == 0 {
//!         if let Decision::Shrink(_) = reshape.contact(begun.elapsed().as_secs_f64(), step)? {
//!             reshape.redistribute_2d(&mut matrix, (200, 100), 100, Storage::Rows)?;
//!         }
//!         if reshape.resize()? == Seat::Joins {
//!             step = reshape.iteration();
//!             continue;
//!         }
//!     }
//!     step += 1;
//! }
//! reshape.exit()
//! # }
//! ```
//!
//! Source: dissertation of R. Sudarsan (Virginia Tech, 2009), sections 2.3 and 3.3.

mod error;
mod redistribute;
mod sweet_spot;

use std::time::Duration;

use quo::group::WaitLimits;

pub use error::ReshapeError;
pub use sweet_spot::{Choice, ProcessorTopology, Scheduler, SweetSpot};

use elastic::Error;
use elastic::change::RequestId;
use elastic::{Progress, Status, World, WorldOptions};
use elastic_policy::points::{Configuration, Decision, Growth, History, ResizePoints};

/// The longest wait for a message of one rank.
const PATIENCE: Duration = Duration::from_secs(60);

/// State of a process after [`Reshape::init`] or [`Reshape::resize`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seat {
    /// A rank, as before.
    Stays,
    /// A rank that was none before: it continues with [`Reshape::iteration`], and gets its data
    /// when [`Reshape::decision`] returns that the world has grown.
    Joins,
    /// No rank any more: the job is over.
    Ended,
}

/// A program with resize points.
pub struct Reshape {
    world: World,
    topology: ProcessorTopology,
    points: ResizePoints,
    seat: Seat,
    scheduler: Box<dyn Scheduler>,
    valid: Box<dyn Fn(Configuration) -> bool>,
    history: History,
    /// The present configuration, if the history does not have it yet.
    arrived: Option<Configuration>,
    /// True if data have moved to fewer ranks while the leavers are still present.
    gathered: bool,
}

impl std::fmt::Debug for Reshape {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut out = out.debug_struct("Reshape");
        out.field("seat", &self.seat).field("points", &self.points).finish_non_exhaustive()
    }
}

impl Reshape {
    /// Makes the world with the initial number of ranks of the topology. Collective over all
    /// launched processes; processes that are no ranks sleep in it until they join, or until the
    /// job is over. Rank 0 calls the scheduler.
    ///
    /// # Errors
    /// [`ReshapeError::Points`] for an invalid topology, [`elastic::Error::Refused`] if there are
    /// fewer processes than its initial number, and as [`World::create`].
    #[doc(alias = "reshape_Init")]
    pub fn init(
        options: WorldOptions,
        topology: ProcessorTopology,
        scheduler: Box<dyn Scheduler>,
    ) -> Result<Self, ReshapeError> {
        const CALL: &str = "init";
        let start = topology.kind.start(topology.start)?;
        let world = World::create(options.initial_ranks(start.size() as usize))?;
        // A spawned process that is not needed knows nothing about the world.
        let is_told = world.status() != Status::Ended;
        if is_told && world.capacity() < start.size() as usize {
            let (wanted, found) = (start.size(), world.capacity());
            world.end()?;
            let reason = format!("the program begins with {wanted} ranks, and there are {found}");
            return Err(Error::Refused { call: CALL, reason }.into());
        }
        let mut this = Self {
            points: ResizePoints::new(start, 1)?,
            seat: Seat::Stays,
            history: History::new(start),
            valid: Box::new(|_| true),
            arrived: None,
            gathered: false,
            world,
            topology,
            scheduler,
        };
        if this.world.status() != Status::New {
            this.sleep()?;
        }
        Ok(this)
    }

    /// Sets the configurations that the program can work with, for example because of the
    /// divisibility of its data. All ranks set the same. Other configurations are not chosen, and
    /// resizes to them are aborted. Local.
    #[doc(alias = "check_valid_processor_size")]
    pub fn accept(&mut self, valid: impl Fn(Configuration) -> bool + 'static) {
        self.valid = Box::new(valid);
    }

    /// State of this process. Local.
    #[must_use]
    pub fn seat(&self) -> Seat {
        self.seat
    }

    /// Returns the world, with its communicator and its arrays. Local.
    #[must_use]
    #[doc(alias = "RESHAPE_COMM_WORLD")]
    pub fn world(&self) -> &World {
        &self.world
    }

    /// Returns the world, for arrays that move automatically. Local.
    #[must_use]
    pub fn world_mut(&mut self) -> &mut World {
        &mut self.world
    }

    /// Returns the next iteration of the main loop: 0 at first, for joiners the one that the other
    /// ranks begin. Local.
    #[must_use]
    #[doc(alias = "reshape_getIterCount")]
    pub fn iteration(&self) -> u64 {
        self.points.iteration()
    }

    /// Returns the next action on data: [`Decision::Expand`] once after the world has grown, on all
    /// ranks; [`Decision::Shrink`] from the contact that decided it until the resize. Local.
    #[doc(alias = "reshape_getSchedulerDecision")]
    pub fn decision(&mut self) -> Decision {
        self.points.decision()
    }

    /// Returns the configuration before the last resize. Local.
    #[must_use]
    #[doc(alias = "reshape_getOldProcessorDimensions")]
    pub fn old_dimensions(&self) -> Configuration {
        self.points.old()
    }

    /// Returns the present configuration. Local.
    #[must_use]
    #[doc(alias = "reshape_getNewProcessorDimensions")]
    pub fn new_dimensions(&self) -> Configuration {
        self.points.current()
    }

    /// Changes the arrangement of the present processors, in the same way on all ranks. Local.
    ///
    /// # Errors
    /// [`ReshapeError::Points`] for another number of processors.
    #[doc(alias = "reshape_setCommunicator")]
    pub fn rearrange(&mut self, configuration: Configuration) -> Result<(), ReshapeError> {
        Ok(self.points.rearranged(configuration)?)
    }

    /// Returns the history, on rank 0. Local.
    #[must_use]
    pub fn history(&self) -> &History {
        &self.history
    }

    /// Makes a resize point in an iteration: takes the time of each of the last iterations, which
    /// is also [reported](World::report) to managers, and returns the same decision on all ranks. A
    /// pending request of a manager comes first; otherwise the scheduler decides, and joiners are
    /// ready when this returns. Collective.
    ///
    /// # Errors
    /// [`ReshapeError::Points`] for an invalid time; as [`World::probe`].
    #[doc(alias = "reshape_ContactScheduler")]
    pub fn contact(&mut self, seconds: f64, iteration: u64) -> Result<Decision, ReshapeError> {
        self.points.contacted(iteration);
        let report = self.points.report(seconds)?;
        if self.world.rank() == 0 {
            if let Some(arrived) = self.arrived.take() {
                self.history.resized(arrived, report.redistribution_seconds.unwrap_or(0.0))?;
            }
            self.history.iteration(seconds)?;
            self.world.report(&Progress::new(iteration, seconds))?;
        }
        let mut chosen = None;
        let mut enters = self.world.probe()?;
        if !enters {
            let mut asked = None;
            if self.world.rank() == 0 {
                let most = u32::try_from(self.world.capacity()).unwrap_or(u32::MAX);
                let growth = Growth { topology: self.topology.kind, most, valid: &*self.valid };
                let choice = Choice { report: &report, history: &self.history, growth };
                if let Decision::Expand(to) | Decision::Shrink(to) = self.scheduler.decide(&choice)
                    && to.size() != self.points.current().size()
                    && let Ok(request) = self.world.request(to.size() as usize)
                {
                    (chosen, asked) = (Some(to), Some(RequestId(request)));
                }
            }
            chosen = self.broadcast(chosen)?;
            while chosen.is_some() && !enters {
                enters = self.world.probe()?;
                // A rank that has entered the resize decides no more.
                let open = asked.is_none_or(|request| {
                    let step = self.world.requests().and_then(|all| all.step_of(request));
                    step.is_some_and(|step| !step.is_end())
                });
                if !enters && !self.broadcast(open)? {
                    chosen = None;
                }
            }
        }
        if enters {
            let size = self.world.next_size();
            let right = chosen.filter(|to| to.size() as usize == size);
            let to = right.unwrap_or_else(|| self.topology.arranged(size));
            if !(self.valid)(to) {
                let reason = format!("the program cannot work with {to}");
                return match self.close(Err(reason)) {
                    Ok(_) | Err(ReshapeError::World(Error::Aborted { .. })) => {
                        Ok(Decision::Continue)
                    }
                    Err(error) => Err(error),
                };
            }
            let grows = to.size() > self.points.current().size();
            self.points.decided(if grows { Decision::Expand(to) } else { Decision::Shrink(to) });
            return Ok(if grows { Decision::Expand(to) } else { Decision::Shrink(to) });
        }
        Ok(Decision::Continue)
    }

    /// Carries out the decision: joiners are present afterwards, and leavers asleep. Does nothing
    /// without a decision. Collective.
    ///
    /// # Errors
    /// [`elastic::Error::Aborted`] if a rank rejected the resize: the ranks are the old ones, and
    /// data that have already left some of them are returned where [`decision`](Self::decision)
    /// returns [`Decision::Expand`].
    #[doc(alias = "reshape_Resize")]
    pub fn resize(&mut self) -> Result<Seat, ReshapeError> {
        if !self.world.is_pending() {
            // This includes a process that joined with the previous resize.
            if self.seat == Seat::Joins {
                self.seat = Seat::Stays;
            }
            return Ok(self.seat);
        }
        self.close(Ok(()))
    }

    /// Ends the program's world. Called by all processes, before MPI is finalised.
    ///
    /// # Errors
    /// As [`World::end`].
    #[doc(alias = "reshape_Exit")]
    pub fn exit(self) -> Result<(), ReshapeError> {
        Ok(self.world.end()?)
    }

    /// Broadcasts the value of rank 0.
    fn broadcast<T: serde::Serialize + for<'a> serde::Deserialize<'a>>(
        &self,
        mine: T,
    ) -> Result<T, ReshapeError> {
        const CALL: &str = "contact";
        let failed = |source| Error::Group { call: CALL, source };
        let unreadable = |error: serde_json::Error| quo::group::GroupError::Unsuitable {
            call: CALL,
            reason: format!("the value of rank 0 cannot be read: {error}").into(),
        };
        let Some(current) = self.world.communicator() else { return Ok(mine) };
        let bytes = serde_json::to_vec(&mine).map_err(unreadable).map_err(failed)?;
        let limits = WaitLimits::for_at_most(PATIENCE);
        let bytes = current.broadcast(bytes, 0, &limits).map_err(failed)?;
        Ok(serde_json::from_slice(&bytes).map_err(unreadable).map_err(failed)?)
    }

    fn close(&mut self, vote: Result<(), String>) -> Result<Seat, ReshapeError> {
        let mut told = self.points.clone();
        told.resized()?;
        told.advance();
        let mut told = told.for_joiners();
        let window = self.world.begin()?;
        window.broadcast(&mut told)?;
        let ended = window.commit(vote);
        let was_gathered = std::mem::take(&mut self.gathered);
        if let Err(error) = ended {
            if was_gathered {
                self.points.taken_back();
            } else {
                self.points.abandoned();
            }
            return Err(error.into());
        }
        if matches!(self.world.status(), Status::Parked | Status::Ended) {
            return self.sleep();
        }
        self.points.resized()?;
        self.seat = Seat::Stays;
        self.arrived = Some(self.points.current());
        Ok(Seat::Stays)
    }

    /// Sleeps until this process is called in to a resize that is committed, or until the job is
    /// over.
    fn sleep(&mut self) -> Result<Seat, ReshapeError> {
        self.seat = loop {
            if self.world.status() == Status::Parked && !self.world.wait()? {
                break Seat::Ended;
            }
            if self.world.status() == Status::Ended {
                break Seat::Ended;
            }
            let window = self.world.begin()?;
            let mut told = self.points.clone();
            window.broadcast(&mut told)?;
            match window.commit(Ok(())) {
                Ok(()) => {
                    self.points = told;
                    break Seat::Joins;
                }
                Err(Error::Aborted { .. }) => {}
                Err(error) => return Err(error.into()),
            }
        };
        Ok(self.seat)
    }
}
