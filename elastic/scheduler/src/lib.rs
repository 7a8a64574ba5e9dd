//! Decides when the jobs of a cluster start, grow and shrink.
//!
//! The decisions are pure functions of a [`State`](state::State) and [events](event::Event): no clock, no random
//! numbers, no input or output. A world around them, simulated or real, feeds events and carries out actions.
//!
//! The floors, each using only those above it:
//!
//! - [`time`]: instants and spans in whole milliseconds;
//! - [`nodes`]: sets of nodes as intervals;
//! - [`job`]: a job: its class, limits, history and nodes;
//! - [`queue`]: the waiting jobs in order of arrival, searchable by size and walltime;
//! - [`event`]: occurrences that a scheduler reacts to;
//! - [`action`]: changes that a scheduler orders, each with its reason;
//! - [`state`]: the cluster and its jobs, and the checked transitions between states;
//! - [`policy`]: the interface between a scheduler and its world;

pub mod action;
pub mod event;
pub mod job;
pub mod nodes;
pub mod points;
pub mod policy;
pub mod queue;
pub mod state;
pub mod time;
