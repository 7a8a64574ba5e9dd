//! The barrier protocol under a model checker.
//!
//! A package of its own that takes the protocol's source file from the library: the checker is then
//! compiled once, with the other tests, and only what is checked is compiled for it.
#![cfg(test)]

mod barrier;
#[path = "../../../quo/src/sys.rs"]
mod sys;
