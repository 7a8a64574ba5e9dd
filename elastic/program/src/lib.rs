//! Programs as arrays of elements, and the drivers that run them: elastic-phase oriented programming (EPOP).
//!
//! A [`Program`] is an array of elements that does not change while it runs: INIT, which makes the
//! data of a process; rigid phases; elastic phases, before each round of which the ranks may
//! change; and branches, which name the next element. A driver runs it, and makes the calls of the
//! world: probe, sleep, begin, broadcast and commit. A joiner enters at the element that the other
//! ranks have reached.
//!
//! ```no_run
//! use elastic::WorldOptions;
//! use elastic::data::Pattern;
//! use elastic_program::{Program, ProgramError};
//!
//! # fn main() -> Result<(), ProgramError> {
//! let program = Program::new(|stage| {
//!     if stage.is_new() {
//!         stage.data_mut().register::<f64>("field", Pattern::block(1000))?;
//!     }
//!     Ok(0) // the data: number of steps done
//! })
//! .elastic(
//!     "heat",
//!     |step: &mut u32, stage| {
//!         let field = stage.data().array::<f64>("field")?;
//!         stage.data_mut().local_mut(field)?.iter_mut().for_each(|value| *value += 1.0);
//!         *step += 1;
//!         Ok(())
//!     },
//!     |step| *step < 100,
//!     |step, window| Ok(window.broadcast(step)?), // joiners learn the step; arrays move by themselves
//! )
//! .rigid("report", |step, stage| {
//!     assert_eq!((*step, stage.rank() < stage.size()), (100, true));
//!     Ok(())
//! });
//! program.run(WorldOptions::new().initial_ranks(1))?; // MPI has been initialised
//! program.serial()?; // the same in one process, without MPI
//! # Ok(())
//! # }
//! ```
//!
//! | what | file |
//! |---|---|
//! | the order of elements, as a state machine over plain data | `machine.rs` |
//! | the loop of all drivers, and the driver that reports each action | `drive.rs` |
//! | the drivers for Rust: over a world, and in one process without MPI | `host.rs` |
//! | the ranks and data available to a block | `stage.rs` |
//!
//! Source: dissertation of I. A. Comprés Ureña (TU München, 2017), chapter on EPOP.

mod drive;
mod error;
mod host;
mod machine;
mod stage;

use std::fmt;

pub use drive::{Host, Traced, drive};
pub use error::{BlockError, ProgramError};
pub use machine::{Action, Event, Kind, Machine, Standing};
pub use stage::Stage;

use elastic::{Window, World, WorldOptions};
use host::{Serial, WorldHost};

type Init<D> = dyn Fn(&mut Stage<'_>) -> Result<D, BlockError>;
type Compute<D> = dyn Fn(&mut D, &mut Stage<'_>) -> Result<(), BlockError>;
type Again<D> = dyn Fn(&mut D) -> bool;
type Redistribute<D> = dyn Fn(&mut D, &mut Window<'_>) -> Result<(), BlockError>;
type Choose<D> = dyn Fn(usize, &mut D) -> i64;
type Tell = dyn Fn(&str, Action);

enum Element<D> {
    Init(Box<Init<D>>),
    Rigid(Box<Compute<D>>, Option<Box<Again<D>>>),
    Elastic(Box<Compute<D>>, Box<Again<D>>, Box<Redistribute<D>>),
    Branch(Box<Choose<D>>),
}

/// A program over data of the type `D`, one value in each process.
///
/// Positions count from 0, which is INIT; elements follow in the order in which they were added.
/// All processes make the same program.
pub struct Program<D> {
    elements: Vec<(String, Element<D>)>,
    tell: Option<Box<Tell>>,
}

impl<D> fmt::Debug for Program<D> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_list().entries(self.elements.iter().map(|(name, _)| name)).finish()
    }
}

impl<D> Program<D> {
    /// Begins a program with its INIT, which every process runs once, including processes that are
    /// parked or join later; only processes for which [`Stage::is_new`] is true register arrays.
    pub fn new(init: impl Fn(&mut Stage<'_>) -> Result<D, BlockError> + 'static) -> Self {
        Self { elements: vec![("init".to_owned(), Element::Init(Box::new(init)))], tell: None }
    }

    fn with(mut self, name: impl Into<String>, element: Element<D>) -> Self {
        self.elements.push((name.into(), element));
        self
    }

    /// Adds a phase that runs once.
    #[must_use]
    pub fn rigid(
        self,
        name: impl Into<String>,
        compute: impl Fn(&mut D, &mut Stage<'_>) -> Result<(), BlockError> + 'static,
    ) -> Self {
        self.with(name, Element::Rigid(Box::new(compute), None))
    }

    /// Adds a phase that runs once, and again as long as `again` returns true. The ranks do not
    /// change meanwhile.
    #[must_use]
    pub fn rigid_loop(
        self,
        name: impl Into<String>,
        compute: impl Fn(&mut D, &mut Stage<'_>) -> Result<(), BlockError> + 'static,
        again: impl Fn(&mut D) -> bool + 'static,
    ) -> Self {
        self.with(name, Element::Rigid(Box::new(compute), Some(Box::new(again))))
    }

    /// Adds a phase that runs once, and again as long as `again` returns true, which must be the
    /// same on all ranks. The ranks may change before each round: all ranks that stay, leave or
    /// join then run `redistribute`, between begin and commit. Registered arrays move with the
    /// commit. An error of `redistribute` aborts the resize; the program continues with the same
    /// ranks.
    #[must_use]
    pub fn elastic(
        self,
        name: impl Into<String>,
        compute: impl Fn(&mut D, &mut Stage<'_>) -> Result<(), BlockError> + 'static,
        again: impl Fn(&mut D) -> bool + 'static,
        redistribute: impl Fn(&mut D, &mut Window<'_>) -> Result<(), BlockError> + 'static,
    ) -> Self {
        let element = Element::Elastic(Box::new(compute), Box::new(again), Box::new(redistribute));
        self.with(name, element)
    }

    /// Adds a branch. `choose` gets the branch's position and returns the next one, the same on all
    /// ranks: any position but 0, which is INIT.
    #[must_use]
    pub fn branch(
        self,
        name: impl Into<String>,
        choose: impl Fn(usize, &mut D) -> i64 + 'static,
    ) -> Self {
        self.with(name, Element::Branch(Box::new(choose)))
    }

    /// Has any driver report each action, with the name of the element, before it is carried out.
    #[must_use]
    pub fn traced(self, tell: impl Fn(&str, Action) + 'static) -> Self {
        Self { tell: Some(Box::new(tell)), ..self }
    }

    /// Runs the program in an elastic world made with these options, and returns the data of this
    /// process, even if it has left. Collective over all processes that were launched together,
    /// after MPI has been initialised; the world has ended afterwards. The rounds of elastic phases
    /// are the iterations of plans.
    ///
    /// # Errors
    /// [`ProgramError`]. A branch to an invalid position ends the world on all processes; after an
    /// error of a block or of the world the process should end, as with [`World`]'s errors.
    pub fn run(&self, options: WorldOptions) -> Result<D, ProgramError> {
        let mut machine = self.machine()?;
        let mut host = WorldHost::new(self, World::create(options)?);
        match self.drive(&mut machine, &mut host) {
            Ok(()) => host.end(),
            Err(error @ ProgramError::Branch { .. }) => {
                // The error is the same on all ranks: the sleepers learn of the end.
                host.end()?;
                Err(error)
            }
            Err(error) => Err(error),
        }
    }

    /// Runs the program in this process alone, without MPI and without resizes. Returns the data.
    ///
    /// # Errors
    /// [`ProgramError`].
    pub fn serial(&self) -> Result<D, ProgramError> {
        let mut machine = self.machine()?;
        let mut host = Serial::new(self);
        self.drive(&mut machine, &mut host)?;
        host.end()
    }

    fn drive(
        &self,
        machine: &mut Machine,
        host: &mut impl Host<Error = ProgramError>,
    ) -> Result<(), ProgramError> {
        match &self.tell {
            Some(tell) => drive(machine, &mut Traced { host, tell }),
            None => drive(machine, host),
        }
    }

    fn machine(&self) -> Result<Machine, ProgramError> {
        let kind = |(_, element): &(String, Element<D>)| match element {
            Element::Init(_) => Kind::Init,
            Element::Rigid(_, again) => Kind::Rigid { repeats: again.is_some() },
            Element::Elastic(..) => Kind::Elastic,
            Element::Branch(_) => Kind::Branch,
        };
        Machine::new(self.elements.iter().map(kind).collect::<Vec<_>>())
    }
}
