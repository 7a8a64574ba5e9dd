//! The elastic world: ranks and nodes come and go while the job runs, and contexts stay.
//!
//! Decisions are pure functions over plain data; system calls and MPI are at the edge.
//!
//! - [`change`]: the fate of a request to resize: its steps, its one end, the event log;
//! - [`data`]: arrays that belong to the world, and move when its ranks change;
//! - [`layout`]: layouts of arrays on ranks, and the messages between ranks when the ranks change;
//! - [`manager`]: who decides when the world changes: plans, the control socket, managers of one's own;
//! - [`member`]: the ids of processes, nodes, and units that leave together;
//! - [`place`]: where ranks are, where joiners go, who leaves, and how many there may be;
//! - [`plan`]: scripted plans, when the world is to have which size;
//! - [`round`]: how all ranks enter a resize at the same probe;
//! - [`sets`]: named process sets, their algebra, versions and epochs;
//! - [`world`]: who is in it now, and the calls with which a program lets it change.
//!
//! floors: member < process_identity < malloc_trim < measured < common_loops < round < mailbox < host_probe < room <
//!     address_families < back_end < sets < place <
//!     order < change < progress < plan < process_table < liveness < data < error < agents < endpoint < acceptor < starter <
//!     guard < coordinator < manager < set_service < world

pub mod change;
pub mod data;
pub mod manager;
pub mod member;
pub mod place;
pub mod plan;
pub mod round;
pub mod sets;
pub mod world;

// The edges: shared memory, threads and links between agents.
mod acceptor;
mod address_families;
mod agents;
mod back_end;
mod common_loops;
mod coordinator;
mod endpoint;
mod error;
mod guard;
mod host_probe;
mod liveness;
mod mailbox;
mod malloc_trim;
mod measured;
mod order;
mod process_identity;
mod process_table;
mod progress;
mod room;
mod set_service;
mod starter;

pub use back_end::{BackEnd, Join};
pub use elastic_layout as layout;
pub use error::Error;
pub use liveness::LivenessCheck;
pub use progress::{Progress, ProgressError};
pub use world::{Acceptance, Accepted, ProcessSets, Status, Window, World, WorldOptions};
