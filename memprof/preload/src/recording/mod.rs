//! The trace of the process: its file, its phases, and facts about the process as a whole.

pub mod conflicts;
pub mod file;
pub mod identity;
pub mod limit;
pub mod mpi_position;
pub mod mpi_time;
pub mod phases;
pub mod writer;
