//! Groups over MPI communicators: the only part of quo that uses MPI.
//!
//! Two C files, compiled by the compiler wrapper of the MPI in use (`MPICC`, otherwise `bin/mpicc`
//! in `MPI_HOME`, otherwise `mpicc`), make the MPI calls; communicators are passed as words. So all
//! Rust code is the same for every MPI, and only these files are built per MPI.
//!
//! They also record the MPI they were compiled against. In a process with another one no handle is
//! used: [`is_usable`] fails first.
//!
//! Rust programs that use the crate `mpi` enable the feature `rsmpi` and pass its communicators to
//! `MpiGroup::new`; other programs use [`MpiGroup::from_raw`].

mod comm;
pub mod communicator;
mod group;
mod identity;
mod launch;
mod launched;
mod operation;
mod process;
mod program;
mod raw;
mod transfer;
#[cfg(test)]
mod wrapper;

pub use comm::{Comm, Fint};
pub use group::MpiGroup;
pub use identity::{Family, Identity};
pub use launched::LaunchedPeers;
pub use process::{
    abort, at_finalize, built_for, is_running, is_the_right_mpi, is_usable, running, world_rank,
};
pub use program::Mpi;
pub use quo_launch::job::launcher;
pub use transfer::Transfer;

/// Returns true if MPI has been finalised. Local.
#[must_use]
pub fn is_finalized() -> bool {
    raw::quo_mpi_is_finalized() != 0
}

/// Returns `MPI_UNDEFINED` of the MPI in use. Local.
#[must_use]
pub fn undefined() -> i32 {
    raw::quo_mpi_undefined()
}
