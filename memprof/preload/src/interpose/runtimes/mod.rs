//! Functions of other runtimes than MPI that the tool sees: of OpenMP and of GPUs.

pub mod gpu;
pub mod openmp;
