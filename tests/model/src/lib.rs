//! The protocols in shared memory under a model checker: the barrier, and the round of a resize.
//!
//! A package of its own that takes the protocols' source files from the libraries: the checker is then
//! compiled once, with the other tests, and only what is checked is compiled for it.
#![cfg(test)]

mod barrier;
mod round;
#[path = "../../../quo/src/sys.rs"]
mod sys;
#[path = "../../../elastic/src/word.rs"]
mod word;
