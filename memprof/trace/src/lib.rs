//! The format of memory traces: the live file that a rank writes, and how to read it.
//!
//! A trace is one file of fixed size, mapped shared by the process that it describes. The process
//! may be killed between any two stores, and other processes may read at any time, so valid data
//! are never overwritten in place:
//!
//! - changing values live in *slots*, each with a sequence number and a checksum; a new value goes into a spare slot,
//!   and the slot of the old value becomes the spare;
//! - growing data live in a *ring* of blocks, whose length and checksum change in one store.
//!
//! [`layout`] defines the position of everything, [`mod@write`] writes it without allocating, and
//! `docs/trace-format.md` describes it byte by byte. [`read`] interprets what is left of a file,
//! and [`generate`] writes traces of jobs that never ran. [`classify`] and [`overrides`] determine
//! the components of a process's objects.

pub mod bounds;
pub mod classify;
pub mod generate;
pub mod layout;
pub mod overrides;
mod plain;
pub mod read;
pub mod write;

pub use plain::Text;

/// Suffix of the name of a job whose processes another rank started, as with `MPI_Comm_spawn`.
pub const SPAWNED: &str = "+spawned";
