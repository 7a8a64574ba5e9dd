//! Phases: parts of a program that want another number of threads than the rest.
//!
//! - `plan`: the wishes of a phase and the part of each rank in it, pure;
//! - `run`: its life: push, set threads, run, set back, pop, wake;
//! - `remap`: data from n ranks to m workers and back, in memory the node shares;
//! - `threads`, `pool`: thread numbers of OpenMP, BLAS and rayon;
//! - `openmp`: pinned OpenMP threads, moved for a phase;
//! - `clock`, `metrics`, [`trace`]: where the time went.

mod clock;
mod metrics;
pub(crate) mod openmp;
mod plan;
#[cfg(feature = "rayon")]
mod pool;
mod remap;
mod run;
mod threads;
pub mod trace;

pub use clock::Clock;
pub use metrics::PhaseMetrics;
pub use plan::{Assignment, Cores, PhaseSpec, Threads, assignments};
#[cfg(feature = "rayon")]
pub use pool::{PoolError, rayon_pool};
pub use remap::{Plain, Remap};
pub use run::{Entered, Outcome, Phase, PhasePlan, Worker};
pub use threads::{Saved, Setting, ThreadControls, ThreadLibrary};
