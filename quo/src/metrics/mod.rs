//! Times and costs of phases. Public under [`phase`](crate::phase).
//!
//! - `clock`: times that can be compared between ranks;
//! - `phase_metrics`: the cost of one run of a phase for one rank;
//! - [`trace`]: a timeline of phases for trace viewers.

mod clock;
mod phase_metrics;
pub mod trace;

pub use clock::Clock;
pub use phase_metrics::PhaseMetrics;
