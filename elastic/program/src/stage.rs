//! Ranks and data available to a block of a program.

use quo_mpi::communicator::Communicator;

use super::BlockError;
use elastic::Error;
use elastic::data::Registry;
use elastic::{Status, World};

/// Ranks and arrays in which a block runs: those of a world, or of one process without MPI.
#[derive(Debug)]
pub struct Stage<'a>(Inner<'a>);

#[derive(Debug)]
enum Inner<'a> {
    World(&'a mut World),
    Serial(&'a mut Registry),
}

impl<'a> Stage<'a> {
    pub(super) fn of_world(world: &'a mut World) -> Self {
        Self(Inner::World(world))
    }

    pub(super) fn serial(data: &'a mut Registry) -> Self {
        Self(Inner::Serial(data))
    }

    /// This process's rank; 0 if it is no rank. Local.
    #[must_use]
    pub fn rank(&self) -> usize {
        self.world().map_or(0, World::rank)
    }

    /// Number of ranks. Local.
    #[must_use]
    pub fn size(&self) -> usize {
        self.world().map_or(1, World::size)
    }

    /// Returns true if this process has been a rank since the beginning of the job: its INIT
    /// registers arrays. Local.
    #[must_use]
    pub fn is_new(&self) -> bool {
        self.world().is_none_or(|world| world.status() == Status::New)
    }

    /// Communicator of the ranks, until the next resize; `None` without MPI, and in a process that
    /// is no rank. Local.
    #[must_use]
    pub fn communicator(&self) -> Option<&Communicator> {
        self.world()?.communicator()
    }

    /// The world; `None` without MPI. Local.
    #[must_use]
    pub fn world(&self) -> Option<&World> {
        match &self.0 {
            Inner::World(world) => Some(world),
            Inner::Serial(_) => None,
        }
    }

    /// Returns the registered arrays. Local.
    #[must_use]
    pub fn data(&self) -> &Registry {
        match &self.0 {
            Inner::World(world) => world.data(),
            Inner::Serial(data) => data,
        }
    }

    /// Returns the registered arrays, to register more and to write to them.
    #[must_use]
    pub fn data_mut(&mut self) -> &mut Registry {
        match &mut self.0 {
            Inner::World(world) => world.data_mut(),
            Inner::Serial(data) => data,
        }
    }

    /// Requests another number of ranks, on rank 0: see [`World::request`]. Local.
    ///
    /// # Errors
    /// As [`World::request`]; without MPI the request is refused.
    pub fn request(&self, size: usize) -> Result<u64, BlockError> {
        match self.world() {
            Some(world) => Ok(world.request(size)?),
            None => Err(Box::new(Error::Refused {
                call: "request",
                reason: "the program runs in one process without a world".to_owned(),
            })),
        }
    }
}
