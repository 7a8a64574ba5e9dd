//! Cost of one run of a phase for one rank.

use serde::{Deserialize, Serialize};

use crate::CpuSet;

/// One run of a phase as one rank saw it. A plain value: gather it, print it, or draw it with
/// [`trace`](super::trace).
///
/// The parts follow one another in the order of the fields and do not overlap; together they are
/// the time the rank spent in the phase.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct PhaseMetrics {
    /// The name of the phase.
    pub name: String,
    /// The rank in the context.
    pub rank: usize,
    /// The rank on its node.
    pub node_rank: usize,
    /// True if the rank was selected to work.
    pub selected: bool,
    /// The threads it worked with; 0 when it was not selected.
    pub threads: usize,
    /// The CPUs it worked on, or was bound to while it slept.
    pub cpuset: CpuSet,
    /// The CPUs among them that other processes of this user had pushed too when the run began, in
    /// other contexts on the node: threads of both run there. A tenth of a second old at most.
    #[serde(default, skip_serializing_if = "CpuSet::is_empty")]
    pub overlap: CpuSet,
    /// Why the rank worked with fewer threads than planned, and which threads were not pinned as wanted: sentences with
    /// the name of the OpenMP runtime.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    /// Time at which the rank entered, in nanoseconds since the Unix epoch on a [`Clock`](super::Clock).
    pub started_at: u64,
    /// Seconds spent agreeing who works; 0 when an earlier selection was used again.
    pub select_seconds: f64,
    /// Seconds spent moving data between ranks and workers: copies, and the wait for the last copy.
    pub remap_seconds: f64,
    /// Seconds spent at work, changes of binding and thread numbers included.
    pub run_seconds: f64,
    /// Seconds spent asleep while others worked.
    pub quiesced_seconds: f64,
}

impl PhaseMetrics {
    /// The seconds that the rank spent in the phase.
    #[must_use]
    pub fn total_seconds(&self) -> f64 {
        self.select_seconds + self.remap_seconds + self.run_seconds + self.quiesced_seconds
    }
}
