//! Object that `quo-run` loads into ranks: a rank that waits in a blocking MPI call lends its CPUs,
//! and OpenMP regions of other ranks of its node use them.
//!
//! - `job`: which ranks of the node belong together, from the environment;
//! - `presence`: which of them will take part, before any of them waits for another;
//! - `wait`: when a wait lends, and how long it sleeps between two polls of MPI, as a pure
//!   function;
//! - `places`: which CPU each thread of a region has while the rank borrows;
//! - `lending`: this rank's context, its loan and its thread numbers;
//! - `openmp`: the entries of OpenMP regions of GNU's runtime, and the numbers of their threads;
//! - `ompt`: the entries of regions of LLVM's and Intel's runtime;
//! - `mpi`: the entries of MPI's blocking calls, and of the yield by which MPI shows that it found
//!   nothing to do;
//! - `patch`: redirects the calls of loaded objects to these entries, by their global offset
//!   tables;
//! - `start`: initialisation, when the object is loaded.
//!
//! Nothing here stops a program: after a failure the rank continues without lending.
//!
//! floors: job < presence < wait < places < lending < openmp < ompt < mpi < patch < start

mod job;
mod lending;
mod mpi;
mod ompt;
mod openmp;
mod patch;
mod places;
mod presence;
mod start;
mod wait;
