//! Object that `quo-run` loads into ranks: a rank that waits in a blocking call of MPI lends its CPUs, and OpenMP
//! regions of other ranks of its node take them up.
//!
//! - `job`: which ranks of the node belong together, from the environment;
//! - `presence`: which of them will meet, before any of them waits for another;
//! - `wait`: when a wait lends, and how long it sleeps between two looks of MPI, as a pure function;
//! - `lending`: this rank's context, its loan and its numbers of threads;
//! - `openmp`: the entries of OpenMP regions;
//! - `mpi`: the entries of MPI's blocking calls, and of the yield by which MPI tells that it found nothing to do;
//! - `patch`: sends the calls of loaded objects there, by their global offset tables;
//! - `start`: the beginning, when the object is loaded.
//!
//! Nothing here stops a program: where something fails, the rank goes on without lending.
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
