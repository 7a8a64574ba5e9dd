//! The node runtime for coupled MPI+X programs.
//!
//! Before a threaded phase most ranks of a node go to sleep and give up their cores; a few widen
//! their binding and run threads there; afterwards all ranks continue. A [`Context`] is the handle
//! for this, created over an MPI communicator or over forked processes ([`group`]).
//!
//! ```no_run
//! use quo::phase::PhaseSpec;
//! use quo::{Context, ObjectType};
//! # fn solve(_values: &mut [f64], _threads: usize) {}
//! # fn example(group: impl quo::group::Group) -> Result<(), quo::Error> {
//! let context = Context::create(group)?;
//! let phase = context.phase(PhaseSpec::over(ObjectType::Package))?;
//! let mut field = context.remap::<f64>(1_000)?; // this rank's part, in memory the node shares
//! field.local_mut()?.fill(1.0);
//! // One rank per package works on the parts of all, threaded; the others sleep meanwhile.
//! phase.run_on(&mut field, |worker, values| solve(values, worker.threads()))?;
//! context.free()
//! # }
//! ```
//!
//! The layers, each using only those above it:
//!
//! - [`cpuset`]: sets of CPU numbers;
//! - [`topology`]: immutable snapshots of machines, live or simulated;
//! - [`plan`]: which rank works where, as pure functions;
//! - [`affinity`]: the binding stack, thread by thread;
//! - `node`: the shared segment of a node: members, barriers, exchanges, memory. Its
//!   [`SharedMemory`] is public;
//! - [`group`]: the processes of a launch: MPI, or local processes;
//! - `metrics`: clocks, costs and timelines of phases, public in [`phase`];
//! - `threading`: thread counts of libraries and rayon pools, public in [`phase`];
//! - [`context`]: the handle;
//! - [`phase`]: select, move data, push, run, pop, wake in one call;
//! - [`explain`]: which rank is bound where, and why;
//!
//! and in addition [`error`] and [`environment`], the variables that are read.
//!
//! floors: cpuset < atomic_word < own_file < environment < notice < topology < plan < affinity < node < group < error < metrics <
//!     threading < context < phase < explain

pub mod affinity;
#[doc(hidden)]
pub mod atomic_word;
pub mod context;
pub mod cpuset;
pub mod environment;
pub mod error;
pub mod explain;
pub mod group;
mod metrics;
#[doc(hidden)]
pub mod node;
#[doc(hidden)]
pub mod notice;
mod own_file;
pub mod phase;
pub mod plan;
mod threading;
pub mod topology;

pub use context::Context;
pub use cpuset::CpuSet;
pub use error::{Error, ErrorKind};
pub use node::{MemoryView, NodeError, SharedMemory};
pub use topology::{ObjectType, Topology, TopologyError};
