//! MPI from beginning to end, for programs of ours.
#![allow(unsafe_code)]

use quo::group::GroupError;

use crate::raw::succeed;
use crate::{Comm, MpiGroup, is_the_right_mpi, raw};

/// MPI, initialised by this process and finalised when this is dropped.
#[derive(Debug)]
pub struct Mpi {
    /// To be dropped by the thread that made it.
    _bound: std::marker::PhantomData<*const ()>,
}

impl Mpi {
    /// Initialises MPI for one thread. Collective over all that were launched.
    ///
    /// # Errors
    /// [`GroupError::OtherMpi`], [`GroupError::Unsuitable`] if it was initialised before,
    /// [`GroupError::Mpi`].
    pub fn initialize() -> Result<Self, GroupError> {
        const CALL: &str = "MPI_Init";
        is_the_right_mpi()?;
        if raw::quo_mpi_is_initialized() != 0 {
            let reason = "MPI can be initialised only once in a process";
            return Err(GroupError::Unsuitable { call: CALL, reason });
        }
        // SAFETY: MPI has not been initialised.
        succeed(CALL, unsafe { raw::quo_mpi_init() })?;
        Ok(Self { _bound: std::marker::PhantomData })
    }

    /// All ranks. Collective.
    ///
    /// # Errors
    /// As [`MpiGroup::from_raw`].
    pub fn world(&self) -> Result<MpiGroup, GroupError> {
        // SAFETY: MPI is running, so the communicator is live.
        unsafe { MpiGroup::from_raw(Comm(raw::quo_mpi_comm_world())) }
    }

    /// This process's rank among all. Local.
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
