//! The order of jobs.

use std::cmp::Ordering;

use serde::{Deserialize, Serialize};

/// A job's position in the order: first by user class, then by age.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Rank {
    /// The user class; higher is served first (0 gold, 1 platinum).
    pub class: i32,
    /// The ageing priority; higher is served first.
    pub ageing: f64,
}

impl Rank {
    /// Compares two ranks; the greater is served first.
    #[must_use]
    pub fn order(&self, other: &Rank) -> Ordering {
        self.class.cmp(&other.class).then(self.ageing.total_cmp(&other.ageing))
    }

    /// Returns true if this rank is served before the other one.
    #[must_use]
    pub fn is_above(&self, other: &Rank) -> bool {
        self.order(other) == Ordering::Greater
    }
}

/// The weights of the ageing priority, which is
/// `qfactor_weight * qfactor + queue_time_weight * queue_time + nodes_weight * nodes` with
/// `qfactor = 1 + queue_time / max(qfactor_limit, walltime)`; all times in seconds.
///
/// With a positive weight of the queue time no job starves behind later ones of its class.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Ageing {
    /// The weight of the urgency, which favours short jobs.
    pub qfactor_weight: f64,
    /// The weight of each second in the queue.
    pub queue_time_weight: f64,
    /// The weight of each requested node; negative favours small jobs.
    pub nodes_weight: f64,
    /// The lower limit of the walltime in the urgency.
    pub qfactor_limit: f64,
}

impl Default for Ageing {
    /// One for the urgency, one for each minute in the queue, zero for nodes; a limit of one
    /// second.
    fn default() -> Ageing {
        Ageing {
            qfactor_weight: 1.0,
            queue_time_weight: 1.0 / 60.0,
            nodes_weight: 0.0,
            qfactor_limit: 1.0,
        }
    }
}

impl Ageing {
    /// Returns the priority of a job that has waited `queued` seconds, asks for `nodes` nodes and has `walltime`
    /// seconds to run. For a running job, `queued` is the time it waited and `walltime` the time it has left.
    #[must_use]
    pub fn priority(&self, queued: f64, walltime: f64, nodes: u32) -> f64 {
        let qfactor = 1.0 + queued / walltime.max(self.qfactor_limit).max(f64::MIN_POSITIVE);
        self.qfactor_weight * qfactor
            + self.queue_time_weight * queued
            + self.nodes_weight * f64::from(nodes)
    }
}
