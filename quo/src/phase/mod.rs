//! Phases: parts of a program that want a different number of threads than the rest.
//!
//! - `plan`: the options of a phase and the part of each rank in it, pure;
//! - `exclusive`: hardware that one phase at a time holds;
//! - `run`: the life of a phase: push, set threads, run, reset, pop, wake;
//! - `remap`: data from n ranks to m workers and back, in memory shared by the node;
//! - `openmp`: OpenMP teams, and pinned threads, moved for a phase;
//! - `pinning`: pins each thread of a worker to its own CPU;
//! - `threads`: starts threads in a phase.
//!
//! Clocks, metrics, [`trace`]s, thread controls and rayon pools are below contexts, in `metrics`
//! and `threading`, and re-exported here.

mod exclusive;
pub(crate) mod openmp;
mod pinning;
mod plan;
mod remap;
mod run;
mod threads;

pub use crate::metrics::{Clock, PhaseMetrics, trace};
#[cfg(feature = "rayon")]
pub use crate::threading::{PoolError, rayon_pool};
pub use crate::threading::{Saved, Setting, ThreadControls, ThreadLibrary};
pub use exclusive::Sharing;
pub use pinning::Pinning;
pub use plan::{Assignment, Cores, PhaseSpec, Threads, assignments};
pub use remap::{Plain, Remap};
pub use run::{Entered, Outcome, Phase, PhasePlan, Worker};
