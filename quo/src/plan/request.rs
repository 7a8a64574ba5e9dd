//! Input of a distribution.

use serde::{Deserialize, Serialize};

use crate::CpuSet;

/// Rule by which the workers are selected.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Policy {
    /// Keeps the written promises: at most `m` workers per object, locality first, bound ranks
    /// before unbound ones, unbound ranks fill the rest, as many workers as that allows, spread
    /// over the objects.
    #[default]
    #[serde(rename = "Promise")]
    Spread,
    /// The published algorithm exactly, with its quirks: a rank that overlaps every object is
    /// skipped unless all ranks do; a rank may use up a place in several objects; unbound ranks
    /// never fill. For programs that depend on exactly that selection.
    #[serde(rename = "Literal")]
    LibquoCompat,
}

/// Input of [`distribute`](super::distribute).
#[derive(Clone, Copy, Debug)]
pub struct DistributeRequest<'a> {
    /// Objects to spread over, such as the cpusets of all packages. An object without an allowed
    /// CPU gets no rank. Objects may overlap, as NUMA nodes with two kinds of memory do.
    pub objects: &'a [CpuSet],
    /// CPUs that the job may use on this node.
    pub allowed: &'a CpuSet,
    /// Current mask of each rank, by node rank.
    pub masks: &'a [CpuSet],
    /// Maximum number of workers per object, at least 1.
    pub max_per_object: usize,
    /// Rule by which the workers are selected.
    pub policy: Policy,
}
