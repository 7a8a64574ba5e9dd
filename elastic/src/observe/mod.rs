//! Measurements of the program: the loop that all ranks have in common, and the ratio of MPI time.

pub(crate) mod common_loops;
pub(crate) mod measured;
