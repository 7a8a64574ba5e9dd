//! Decides when the jobs of a cluster start, grow and shrink.
//!
//! The decisions are pure functions of a [`State`](state::State) and [events](event::Event): no clock, no random
//! numbers, no input or output. A world around them, simulated or real, feeds events and carries out actions.
//!
//! The floors, each using only those above it:
//!
//! - [`time`]: instants and spans in whole milliseconds;
//! - [`nodes`]: sets of nodes as intervals;
//! - [`rooms`]: the free cores and memory of nodes that jobs share;
//! - [`job`]: a job: its class, limits, history and nodes;
//! - [`queue`]: the waiting jobs in order of arrival, searchable by size and walltime;
//! - [`event`]: events that a scheduler reacts to;
//! - [`action`]: changes that a scheduler orders, each with its reason;
//! - [`state`]: the cluster and its jobs, and the checked transitions between states;
//! - [`policy`]: the interface between a scheduler and its world;
//! - [`points`]: resize points in a program: its configurations, their times, and the next one;
//! - [`sizes`]: rules for the sizes of a job;
//! - [`predict`]: the benefit of more nodes, from measured times;
//! - [`balance`]: node counts that make jobs end together, and the filling of idle nodes;
//! - [`ratio`]: ranges of sizes by the ratio of MPI time to computing time;
//! - [`memory`]: the memory that a job needs on fewer nodes;
//! - [`allocation`]: strategies that give idle nodes to running jobs and take them back;
//! - [`malleable`]: jobs of a rigid part and a flexible part;
//! - [`rigid`]: schedulers that never change a size: the baselines;
//! - [`resizing`]: schedulers that change the sizes of running jobs;
//! - [`live`]: decisions about the jobs of a real system, from a snapshot of it;
//! - [`named`]: the schedulers that users choose by name.
//!
//! floors: time < nodes < rooms < job < queue < event < action < state < policy < points < sizes < predict < balance <
//!     ratio < memory < allocation < malleable < rigid < resizing < live < named

pub mod action;
pub mod allocation;
pub mod balance;
pub mod event;
pub mod job;
pub mod live;
pub mod malleable;
pub mod memory;
pub mod named;
pub mod nodes;
pub mod points;
pub mod policy;
pub mod predict;
pub mod queue;
pub mod ratio;
pub mod resizing;
pub mod rigid;
pub mod rooms;
pub mod sizes;
pub mod state;
pub mod time;
