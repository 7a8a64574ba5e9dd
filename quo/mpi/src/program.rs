//! MPI from initialisation to finalisation, for the project's own programs.
#![allow(unsafe_code)]

use quo::group::GroupError;

use crate::communicator::ThreadLevel;
use crate::raw::succeed;
use crate::{Comm, MpiGroup, is_the_right_mpi, raw};

/// MPI, initialised by this process and finalised on drop.
#[derive(Debug)]
pub struct Mpi {
    /// Ensures that the value is dropped by the thread that made it.
    _bound: std::marker::PhantomData<*const ()>,
}

impl Mpi {
    /// Initialises MPI for one thread. Collective over all launched processes.
    ///
    /// # Errors
    /// [`GroupError::OtherMpi`], [`GroupError::Unsuitable`] if it was initialised before,
    /// [`GroupError::Mpi`].
    pub fn initialize() -> Result<Self, GroupError> {
        // SAFETY: MPI has not been initialised.
        Self::begin("MPI_Init", || unsafe { raw::quo_mpi_init() })
    }

    fn begin(call: &'static str, begin: impl FnOnce() -> i32) -> Result<Self, GroupError> {
        is_the_right_mpi()?;
        if raw::quo_mpi_is_initialized() != 0 {
            let reason = "MPI can be initialised only once in a process".into();
            return Err(GroupError::Unsuitable { call, reason });
        }
        succeed(call, begin())?;
        Ok(Self { _bound: std::marker::PhantomData })
    }

    /// Like [`initialize`](Self::initialize), for the threads that `level` allows, or fewer if the
    /// MPI does not support it: [`communicator::thread_level`](crate::communicator::thread_level)
    /// returns the level.
    ///
    /// # Errors
    /// As [`initialize`](Self::initialize).
    pub fn initialize_for(level: ThreadLevel) -> Result<Self, GroupError> {
        Self::begin("MPI_Init_thread", || {
            // SAFETY: MPI has not been initialised.
            unsafe { raw::quo_mpi_init_threads(level as i32) }
        })
    }

    /// Returns a group over all ranks. Collective.
    ///
    /// # Errors
    /// As [`MpiGroup::from_raw`].
    pub fn world(&self) -> Result<MpiGroup, GroupError> {
        // SAFETY: MPI is running, so the communicator is live.
        unsafe { MpiGroup::from_raw(Comm(raw::quo_mpi_comm_world())) }
    }

    /// Returns this process's rank among all. Local.
    ///
    /// # Errors
    /// [`GroupError::Mpi`].
    pub fn rank(&self) -> Result<usize, GroupError> {
        let mut rank = 0;
        // SAFETY: MPI is running; writes one int.
        let code = unsafe { raw::quo_mpi_comm_rank(raw::quo_mpi_comm_world(), &raw mut rank) };
        succeed("MPI_Comm_rank", code)?;
        Ok(usize::try_from(rank).unwrap_or(0))
    }
}

impl Drop for Mpi {
    fn drop(&mut self) {
        if !crate::is_finalized() {
            // SAFETY: initialised here, by this thread, and not finalised yet.
            unsafe { raw::quo_mpi_finalize() };
        }
    }
}
