//! Phases: parts of a program that want another number of threads than the rest.
//!
//! - `plan`: the wishes of a phase and the part of each rank in it, pure;
//! - `exclusive`: hardware that one phase at a time has;
//! - `run`: its life: push, set threads, run, set back, pop, wake;
//! - `remap`: data from n ranks to m workers and back, in memory the node shares;
//! - `openmp`: the teams of OpenMP, and pinned threads, moved for a phase;
//! - `pinning`: threads of a worker on CPUs of their own;
//! - `threads`: their start in a phase.
//!
//! Clocks, metrics, [`trace`]s, thread controls and rayon pools are below contexts, in `metrics` and
//! `threading`, and public here.

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
