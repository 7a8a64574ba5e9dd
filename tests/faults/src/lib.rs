//! Seeded, bounded, replayable faults at random points of the node runtime.
//!
//! A *round* is a few forked processes that make a context together and work through a script of
//! its calls, while some of them are killed, stopped, replaced or forked. A round is drawn from a
//! seed and a number, so it can be replayed.
//!
//! - [`dice`], [`plan`]: what happens in a round, as plain data;
//! - [`journal`]: what each process writes down while it acts, readable whatever becomes of it;
//! - `member`, `fate`, `traces`: a process that works through the script, what befalls it there, and
//!   what it must leave as it was;
//! - `keeper`: the process that starts the members, strikes them and waits for their ends;
//! - [`judge`]: whether what was written down is what the runtime promises, as a pure function;
//! - [`runner`]: many rounds at a time, each bounded;
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
