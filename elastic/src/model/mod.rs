//! Decisions about a world, as pure functions and values: no MPI, no system call.
//!
//! | question | module |
//! |---|---|
//! | which processes, nodes and spawned units exist? | [`member`], [`process_table`](self::process_table) |
//! | where do joiners go, which ranks leave, how many ranks may there be? | [`place`] |
//! | what does a resize change? | `order` |
//! | what became of a request? | [`change`] |
//! | when does a scripted plan request which size? | [`plan`] |
//! | at which probe do all ranks enter a resize? | [`round`] |
//! | which process sets exist? | [`sets`] |
//! | how far has the program progressed? | `progress` |
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
