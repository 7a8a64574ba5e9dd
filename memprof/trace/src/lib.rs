//! The format of memory traces: the live file that a rank writes, and how it is read back.
//!
//! A trace is one file of fixed size, mapped shared by the process it tells about. The process may be
//! killed between any two stores, and others may read at any time, so nothing that was valid is ever
//! overwritten in place:
//!
//! - changing values live in *slots*, each with a sequence number and a checksum; a new value goes into a spare slot,
//!   and the slot of the old value becomes the spare;
//! - growing data live in a *ring* of blocks, whose length and checksum change in one store.
//!
//! [`layout`] says where everything is, [`mod@write`] puts it there without allocating, and
//! `docs/trace-format.md` says the same byte by byte. [`read`] makes sense of what is left of a file, and
//! [`generate`] writes traces of jobs that never ran. [`classify`] and [`overrides`] tell whose the objects of a process are.

pub mod bounds;
pub mod classify;
pub mod generate;
pub mod layout;
pub mod overrides;
mod plain;
pub mod read;
pub mod write;

pub use plain::Text;

/// Ending of the name of a job whose process another rank has started, as with `MPI_Comm_spawn`.
pub const SPAWNED: &str = "+spawned";
