//! Resize points as a program writes them: the calls of ReSHAPE over [`World`], [`points`](elastic_policy::points) and
//! [`data`](elastic::data).
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
//! A process that leaves sleeps in [`Reshape::resize`] until it is called in again or the job is over, and so do those
//! that are no ranks at first, in [`Reshape::init`]: [`Seat`] says which.
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

/// The longest wait for one rank's word.
const PATIENCE: Duration = Duration::from_secs(60);

/// State of a process after [`Reshape::init`] or [`Reshape::resize`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seat {
    /// A rank, as before.
    Stays,
    /// A rank that was none: it goes on with [`Reshape::iteration`], and has its data when
    /// [`Reshape::decision`] has said that the world has grown.
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
    /// Configuration of the program now, when the history does not know it.
    arrived: Option<Configuration>,
    /// Data have gone to fewer ranks, and the others are still there.
    gathered: bool,
}

impl std::fmt::Debug for Reshape {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut out = out.debug_struct("Reshape");
        out.field("seat", &self.seat).field("points", &self.points).finish_non_exhaustive()
    }
}

impl Reshape {
    /// Makes the world with as many ranks as the topology begins with. Collective over all processes that were
    /// launched; those that are no ranks sleep in it until they join, or until the job is over. The scheduler is asked on
    /// rank 0.
    ///
    /// # Errors
    /// [`ReshapeError::Points`] for a topology that cannot be, [`elastic::Error::Refused`] when there are fewer processes than it begins
    /// with, and as [`World::create`].
    #[doc(alias = "reshape_Init")]
    pub fn init(
        options: WorldOptions,
        topology: ProcessorTopology,
        scheduler: Box<dyn Scheduler>,
    ) -> Result<Self, ReshapeError> {
        const CALL: &str = "init";
        let start = topology.kind.start(topology.start)?;
        let world = World::create(options.start(start.size() as usize))?;
        // One that was started and is not needed is told nothing about the world.
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

    /// Says which configurations the program can work with, as that its data be divisible. All ranks say the same.
    /// Others are not chosen, and are given up when somebody else asks for them. Local.
    #[doc(alias = "check_valid_processor_size")]
    pub fn accept(&mut self, valid: impl Fn(Configuration) -> bool + 'static) {
        self.valid = Box::new(valid);
    }

    /// State of this process. Local.
    #[must_use]
    pub fn seat(&self) -> Seat {
        self.seat
    }

    /// The world, with its communicator and its arrays. Local.
    #[must_use]
    #[doc(alias = "RESHAPE_COMM_WORLD")]
    pub fn world(&self) -> &World {
        &self.world
    }

    /// As [`world`](Self::world), for arrays that move by themselves. Local.
    #[must_use]
    pub fn world_mut(&mut self) -> &mut World {
        &mut self.world
    }

    /// The iteration of the main loop that is next: 0 at first, for joiners the one that the others begin. Local.
    #[must_use]
    #[doc(alias = "reshape_getIterCount")]
    pub fn iteration(&self) -> u64 {
        self.points.iteration()
    }

    /// Returns the next action on data: [`Decision::Expand`] once after the world has grown, on all ranks;
    /// [`Decision::Shrink`] from the contact that said it to the resize. Local.
    #[doc(alias = "reshape_getSchedulerDecision")]
    pub fn decision(&mut self) -> Decision {
        self.points.decision()
    }

    /// The configuration before the last resize. Local.
    #[must_use]
    #[doc(alias = "reshape_getOldProcessorDimensions")]
    pub fn old_dimensions(&self) -> Configuration {
        self.points.old()
    }

    /// The present configuration. Local.
    #[must_use]
    #[doc(alias = "reshape_getNewProcessorDimensions")]
    pub fn new_dimensions(&self) -> Configuration {
        self.points.current()
    }

    /// Arranges the processors that there are in another way, on all ranks alike. Local.
    ///
    /// # Errors
    /// [`ReshapeError::Points`] for another number of processors.
    #[doc(alias = "reshape_setCommunicator")]
    pub fn rearrange(&mut self, configuration: Configuration) -> Result<(), ReshapeError> {
        Ok(self.points.rearranged(configuration)?)
    }

    /// The history, on rank 0. Local.
    #[must_use]
    pub fn history(&self) -> &History {
        &self.history
    }

    /// A resize point in an iteration: tells how long the last ones took each, which is [reported](World::report) for
    /// others who decide as well, and gets one decision on all ranks.
    /// Somebody's request to the world that has come so far goes first; else the scheduler decides, and joiners are ready
    /// when this returns. Collective.
    ///
    /// # Errors
    /// [`ReshapeError::Points`] for a time that is none; as [`World::probe`].
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
            chosen = self.hear(chosen)?;
            while chosen.is_some() && !enters {
                enters = self.world.probe()?;
                // Who has come to it decides no more.
                let open = asked.is_none_or(|request| {
                    let step = self.world.requests().and_then(|all| all.step_of(request));
                    step.is_some_and(|step| !step.is_end())
                });
                if !enters && !self.hear(open)? {
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

    /// Carries out the decision: joiners are there afterwards, or leavers asleep. Without a decision nothing happens.
    /// Collective.
    ///
    /// # Errors
    /// [`elastic::Error::Aborted`] when somebody had a reason: the ranks are the old ones, and data that have left some of
    /// them already come back where [`decision`](Self::decision) says [`Decision::Expand`].
    #[doc(alias = "reshape_Resize")]
    pub fn resize(&mut self) -> Result<Seat, ReshapeError> {
        if !self.world.is_pending() {
            // Also for one that joined with the resize before.
            if self.seat == Seat::Joins {
                self.seat = Seat::Stays;
            }
            return Ok(self.seat);
        }
        self.close(Ok(()))
    }

    /// Ends the program's world. Made by all processes, before MPI is finalised.
    ///
    /// # Errors
    /// As [`World::end`].
    #[doc(alias = "reshape_Exit")]
    pub fn exit(self) -> Result<(), ReshapeError> {
        Ok(self.world.end()?)
    }

    /// Gives all ranks the value of rank 0.
    fn hear<T: serde::Serialize + for<'a> serde::Deserialize<'a>>(
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

    /// Until it is called in, and everybody wants it, or until there is nothing more.
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
