//! Cost of one run of a phase for one rank.

use serde::{Deserialize, Serialize};

use crate::CpuSet;

/// Cost of one run of a phase for one rank. A plain value: gather it, print it, or draw it with
/// [`trace`](super::trace).
///
/// The parts follow one another in the order of the fields and do not overlap; their sum is the
/// time the rank spent in the phase.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct PhaseMetrics {
    /// Name of the phase.
    pub name: String,
    /// Rank in the context.
    pub rank: usize,
    /// Rank on its node.
    pub node_rank: usize,
    /// True if the rank was selected to work.
    pub selected: bool,
    /// Number of threads the rank worked with; 0 if it was not selected.
    pub threads: usize,
    /// CPUs the rank worked on, or was bound to while it slept.
    pub cpuset: CpuSet,
    /// Subset of `cpuset` that other processes of this user had also pushed, in other contexts on
    /// the node, when the run began: threads of both run there. At most a tenth of a second old.
    #[serde(default, skip_serializing_if = "CpuSet::is_empty")]
    pub overlap: CpuSet,
    /// Why the rank worked with fewer threads than planned, and which threads were not pinned as
    /// requested: sentences with the name of the OpenMP runtime.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    /// Time at which the rank entered, in nanoseconds since the Unix epoch on a [`Clock`](super::Clock).
    pub started_at: u64,
    /// Seconds spent agreeing which ranks work; 0 if an earlier selection was reused.
    pub select_seconds: f64,
    /// Seconds spent moving data between ranks and workers: copies, and the wait for the last copy.
    pub remap_seconds: f64,
    /// Seconds spent at work, including changes of binding and thread numbers.
    pub run_seconds: f64,
    /// Seconds spent asleep while other ranks worked.
    pub quiesced_seconds: f64,
}

impl PhaseMetrics {
    /// Returns the seconds that the rank spent in the phase.
    #[must_use]
    pub fn total_seconds(&self) -> f64 {
        self.select_seconds + self.remap_seconds + self.run_seconds + self.quiesced_seconds
    }
}
