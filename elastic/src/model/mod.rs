//! Decisions about a world, as pure functions and values: no MPI, no system call.
//!
//! | question | module |
//! |---|---|
//! | which processes, nodes and spawned units are there? | [`member`], [`process_table`](self::process_table) |
//! | where do joiners go, who leaves, how many ranks may there be? | [`place`] |
//! | what does a resize change? | `order` |
//! | what became of a request? | [`change`] |
//! | when does a scripted plan ask for which size? | [`plan`] |
//! | at which probe do all ranks enter a resize? | [`round`] |
//! | which process sets are there? | [`sets`] |
//! | how far has the program come? | `progress` |
//!
//! floors: member < round < sets < place < order < change < progress < plan < process_table

pub mod change;
pub mod member;
pub(crate) mod order;
pub mod place;
pub mod plan;
pub(crate) mod process_table;
pub(crate) mod progress;
pub mod round;
pub mod sets;
