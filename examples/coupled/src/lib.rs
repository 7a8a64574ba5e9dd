//! A coupled program run three ways: an explicit flow solver that wants a rank per core, and an
//! implicit diffusion solver that wants few ranks with many threads.
//!
//! The program is `main`; what else is public reads its decks and results.

pub mod clock;
mod command;
mod couple;
pub mod deck;
pub mod fields;
mod flow;
mod l1;
mod layout;
mod resizing;
pub mod result;
mod run;
mod simulation;
pub mod timeline;

pub use command::main;
