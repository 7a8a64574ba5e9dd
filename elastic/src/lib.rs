//! The elastic world: ranks and nodes join and leave while the job runs, and contexts are kept.
//!
//! Decisions are pure functions over plain data; system calls and MPI are at the edge.
//!
//! - [`change`]: the life of a request to resize: its steps, its one end, the event log;
//! - [`data`]: arrays that belong to the world, and move when its ranks change;
//! - [`layout`]: layouts of arrays on ranks, and the messages between ranks when the ranks change;
//! - [`manager`]: decisions when the world changes: plans, the control socket, other managers;
//! - [`member`]: the ids of processes, nodes, and units that leave together;
//! - [`place`]: where ranks are, where joiners go, which ranks leave, and which sizes are allowed;
//! - [`plan`]: scripted plans: which size the world is to have at which time;
//! - [`round`]: how all ranks enter a resize at the same probe;
//! - [`sets`]: named process sets, their algebra, versions and epochs;
//! - [`world`]: the present ranks, and the calls with which a program lets the world change.
//!
//! floors: model < observe < node < data < error < link < spawn < coordinator < manager < world

pub mod data;
pub mod manager;
pub mod world;

mod coordinator;
mod error;
mod link;
mod model;
mod node;
mod observe;
mod spawn;

pub use elastic_layout as layout;
pub use error::Error;
pub use model::progress::{Progress, ProgressError};
pub use model::{change, member, place, plan, round, sets};
pub use node::liveness::LivenessCheck;
pub use spawn::back_end::{BackEnd, Join};
pub use world::{Acceptance, Accepted, ProcessSets, Status, Window, World, WorldOptions};
