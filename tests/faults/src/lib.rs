//! Seeded, bounded, replayable faults at random points of the node runtime.
//!
//! A *round* is a few forked processes that create a context together and work through a script of
//! its calls, while some of them are killed, stopped, replaced or forked. A round is drawn from a
//! seed and a number, so it can be replayed.
//!
//! - [`dice`], [`plan`]: the events of a round, as plain data;
//! - [`journal`]: the lines that each process writes as it acts, readable whatever becomes of it;
//! - `member`, `fate`, `traces`: a process that works through the script, its fate there, and the
//!   state that it must leave unchanged;
//! - `keeper`: the process that starts the members, strikes them and waits for their ends;
//! - [`judge`]: comparison of the journals with the promises of the runtime, as a pure function;
//! - [`runner`]: many rounds at once, each limited in time;
//! - `process`: the system calls that are not safe to make anywhere else.

pub mod dice;
mod fate;
pub mod journal;
pub mod judge;
mod keeper;
mod member;
pub mod plan;
mod process;
pub mod runner;
mod traces;
mod world;
