//! The protocols in shared memory under a model checker: the barrier, lending, the round of a
//! resize, and the profiler's counters of blocks in flight.
//!
//! A separate package that takes the protocols' source files from the libraries: the checker is
//! then compiled once, with the other tests, and only the checked files are compiled for it.
#![cfg(test)]

// Sources of other packages refer to the atomic word by this path.
extern crate self as quo;

#[path = "../../../quo/src/atomic_word.rs"]
mod atomic_word;
mod barrier;
mod in_flight;
mod lending;
mod round;
