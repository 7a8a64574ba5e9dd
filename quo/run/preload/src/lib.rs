//! Object that `quo-run` loads into ranks: a rank that waits in a blocking MPI call lends its CPUs,
//! and OpenMP regions of other ranks of its node use them.
//!
//! - `job`: which ranks of the node belong together, from the environment;
//! - `presence`: which of them will take part, before any of them waits for another;
//! - `wait`: when a wait lends, and how long it sleeps between two polls of MPI, as a pure
//!   function;
//! - `lending`: this rank's context, its loan and its thread numbers;
//! - `openmp`: the entries of OpenMP regions;
//! - `mpi`: the entries of MPI's blocking calls, and of the yield by which MPI shows that it found
//!   nothing to do;
//! - `patch`: redirects the calls of loaded objects to these entries, by their global offset
//!   tables;
//! - `start`: initialisation, when the object is loaded.
//!
//! Nothing here stops a program: after a failure the rank continues without lending.
//!
//! floors: job < presence < wait < lending < openmp < mpi < patch < start

mod job;
mod lending;
mod mpi;
mod openmp;
mod patch;
mod presence;
mod start;
mod wait;
