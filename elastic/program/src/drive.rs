//! The main loop of every driver, generic over its host.

use memprof_hooks::{Origin, Region};

use super::ProgramError;
use super::machine::{Action, Event, Machine, Standing};

/// What a driver provides: the blocks of a program, and the world in which they run.
pub trait Host {
    /// Error of blocks and of the world.
    type Error: From<ProgramError>;

    /// Name of an element in a memory profile.
    fn name(&self, position: usize) -> &str;

    /// Runs INIT and returns the standing of this process.
    ///
    /// # Errors
    /// An error of the block, or of the world.
    fn init(&mut self) -> Result<Standing, Self::Error>;

    /// Sleeps until this process is called in, or the job is over.
    ///
    /// # Errors
    /// An error of the world.
    fn wait(&mut self) -> Result<Standing, Self::Error>;

    /// Returns true if a resize is due.
    ///
    /// # Errors
    /// An error of the world.
    fn probe(&mut self) -> Result<bool, Self::Error>;

    /// Takes part in a resize: runs the redistribution of the element, and returns rank 0's
    /// position and the standing of this process after the resize.
    ///
    /// # Errors
    /// An error of the world.
    fn resize(&mut self, from: Option<usize>) -> Result<(usize, Standing), Self::Error>;

    /// Runs the compute block of a phase.
    ///
    /// # Errors
    /// An error of the block.
    fn compute(&mut self, position: usize) -> Result<(), Self::Error>;

    /// Evaluates the loop condition of a phase.
    ///
    /// # Errors
    /// An error of the block.
    fn again(&mut self, position: usize) -> Result<bool, Self::Error>;

    /// Asks a branch for the next position.
    ///
    /// # Errors
    /// An error of the block.
    fn branch(&mut self, position: usize) -> Result<i64, Self::Error>;
}

/// Runs a program from INIT to its end. Each element is a region of a memory profile, with its
/// name.
///
/// # Errors
/// The first error of the host or of the machine.
pub fn drive<H: Host>(machine: &mut Machine, host: &mut H) -> Result<(), H::Error> {
    let mut region = (0, Region::begin(host.name(0), Origin::Program));
    loop {
        let action = machine.action();
        if let Some(position) = element(action)
            && position != region.0
        {
            // The profiler's regions nest: the old one has to end first.
            drop(region);
            region = (position, Region::begin(host.name(position), Origin::Program));
        }
        let event = match action {
            Action::Probe(_) => Event::Due(host.probe()?),
            Action::Compute(at) => {
                host.compute(at)?;
                Event::Computed
            }
            Action::Again(at) => Event::Again(host.again(at)?),
            Action::Branch(at) => Event::To(host.branch(at)?),
            Action::Resize(from) => {
                let (position, standing) = host.resize(from)?;
                Event::Resized(position, standing)
            }
            Action::Init => Event::Stands(host.init()?),
            Action::Wait => {
                drop(region);
                region = (usize::MAX, Region::NONE);
                Event::Stands(host.wait()?)
            }
            Action::End => return Ok(()),
        };
        machine.on(event)?;
    }
}

fn element(action: Action) -> Option<usize> {
    match action {
        Action::Init => Some(0),
        Action::Probe(at) | Action::Compute(at) | Action::Again(at) | Action::Branch(at) => {
            Some(at)
        }
        Action::Resize(from) => from,
        Action::Wait | Action::End => None,
    }
}

/// A driver that reports each action before another driver carries it out.
#[derive(Debug)]
pub struct Traced<'a, H, F> {
    /// The other driver.
    pub host: &'a mut H,
    /// Called with the name of the element, and the action.
    pub tell: F,
}

impl<H: Host, F: FnMut(&str, Action)> Traced<'_, H, F> {
    fn tell(&mut self, position: usize, action: Action) {
        (self.tell)(self.host.name(position), action);
    }
}

impl<H: Host, F: FnMut(&str, Action)> Host for Traced<'_, H, F> {
    type Error = H::Error;

    fn name(&self, position: usize) -> &str {
        self.host.name(position)
    }

    fn init(&mut self) -> Result<Standing, H::Error> {
        self.tell(0, Action::Init);
        self.host.init()
    }

    fn wait(&mut self) -> Result<Standing, H::Error> {
        (self.tell)("", Action::Wait);
        self.host.wait()
    }

    /// Not reported: it precedes each compute block.
    fn probe(&mut self) -> Result<bool, H::Error> {
        self.host.probe()
    }

    fn resize(&mut self, from: Option<usize>) -> Result<(usize, Standing), H::Error> {
        let name = from.map_or("", |position| self.host.name(position));
        (self.tell)(name, Action::Resize(from));
        self.host.resize(from)
    }

    fn compute(&mut self, position: usize) -> Result<(), H::Error> {
        self.tell(position, Action::Compute(position));
        self.host.compute(position)
    }

    /// Not reported: it follows each compute block.
    fn again(&mut self, position: usize) -> Result<bool, H::Error> {
        self.host.again(position)
    }

    fn branch(&mut self, position: usize) -> Result<i64, H::Error> {
        self.tell(position, Action::Branch(position));
        self.host.branch(position)
    }
}
