//! Layouts of arrays on ranks, and the messages between ranks when the ranks change.
//!
//! Pure: no MPI, no system call. All ranks get the same answer to the same question, so agreeing on
//! a schedule takes no communication.
//!
//! | question | answer | file |
//! |---|---|---|
//! | which ranks? | [`Ranks`] | `ranks.rs` |
//! | where is each element? | [`Distribution`], [`Grid`], [`Storage`] | `distribution.rs`, `memory.rs` |
//! | which cells are ghost cells, and which part owns them? | [`Halo`], [`Span`] | `halo.rs` |
//! | which ranks exchange which ghost cells? | [`HaloMessage`] | `exchange.rs` |
//! | the same for sparse matrices | [`Compressed`] | `sparse.rs` |
//! | which ranks exchange which messages, and when? | [`Schedule`], [`Part`], [`Step`] | `schedule.rs` |
//! | in which step, without contention? | | `steps/` |
//! | which bytes, and how are they moved? | [`Message`], [`in_turns`] | `message.rs`, `meet.rs`, `kernel.rs` |
//! | what does it cost? | [`Statistics`], [`Link`] | `cost.rs` |
//! | what can be wrong? | [`LayoutError`] | `error.rs` |
//!
//! Source: dissertation of R. Sudarsan (Virginia Tech, 2009), chapter 3.
//!
//! floors: error < ranks < axis < halo < kernel < distribution < memory < meet < message < exchange < cost < steps < schedule < sparse

mod axis;
mod cost;
mod distribution;
mod error;
mod exchange;
mod halo;
mod kernel;
mod meet;
mod memory;
mod message;
mod ranks;
mod schedule;
mod sparse;
mod steps;

#[cfg(test)]
mod tests;

pub use cost::{Link, Statistics};
pub use distribution::{Distribution, Grid, Order, Storage};
pub use error::LayoutError;
pub use exchange::HaloMessage;
pub use halo::{Halo, Span};
pub use message::{Message, Piece, Source, in_turns};
pub use ranks::Ranks;
pub use schedule::{Part, Schedule, Step};
pub use sparse::Compressed;
