//! Groups over MPI communicators: the only part of quo that meets MPI.
//!
//! One C file, compiled by the compiler wrapper of the MPI in use (`MPICC`, else `bin/mpicc` in
//! `MPI_HOME`, else `mpicc`), makes the dozen MPI calls; communicators cross as words. So all Rust
//! code is the same for every MPI, and only that file is built per MPI.
//!
//! Rust programs that use the crate `mpi` turn on the feature `rsmpi` and hand its communicators to
//! `MpiGroup::new`; everybody else has [`MpiGroup::from_raw`].

mod comm;
mod group;
mod program;
mod raw;
#[cfg(test)]
mod wrapper;

use quo::group::GroupError;

pub use comm::{Comm, Fint};
pub use group::MpiGroup;
pub use program::Mpi;

/// Whether MPI is between its initialisation and its finalisation. Local.
///
/// # Errors
/// [`GroupError::NotInitialized`] or [`GroupError::Finalized`].
pub fn is_running() -> Result<(), GroupError> {
    if raw::quo_mpi_is_initialized() == 0 {
        return Err(GroupError::NotInitialized);
    }
    if is_finalized() { Err(GroupError::Finalized) } else { Ok(()) }
}

/// Whether MPI has been finalised. Local.
#[must_use]
pub fn is_finalized() -> bool {
    raw::quo_mpi_is_finalized() != 0
}
