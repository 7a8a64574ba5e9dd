//! Strategies that give idle nodes to running jobs at their resize points, and that take nodes back for waiting ones.
//!
//! | question | answer | file |
//! |---|---|---|
//! | may the job expand now? | [`Expand`]: max-benefit, FCFS-expand, uniform-expand | `expand.rs` |
//! | does the job shrink now, and how far? | [`Reclaim`]: least-impact, fair-contract, FCFS-contract | `reclaim.rs` |
//! | in which order do jobs get nodes? | [`Ageing`], [`Rank`] | `priority.rs` |
//!
//! All are functions of [`Candidate`]s, plain values that a policy makes from its state.
//!
//! Source: R. Sudarsan, dissertation, Virginia Tech 2009, section 4.2.

mod expand;
mod priority;
mod reclaim;
#[cfg(test)]
mod tests;

pub use expand::Expand;
pub use priority::{Ageing, Rank};
pub use reclaim::{Need, Reclaim, least_impact_walk};

use crate::job::JobId;
use crate::points::SmallerSize;
use crate::time::Time;

/// A running job as the strategies see it.
#[derive(Clone, Debug, PartialEq)]
pub struct Candidate {
    /// The job.
    pub job: JobId,
    /// The size in nodes.
    pub size: u32,
    /// The next larger size; `None` if the job is at its largest size.
    pub next: Option<u32>,
    /// The expand potential; `None` before it can be computed.
    pub potential: Option<f64>,
    /// True if the potential exceeds the threshold, or is not known yet.
    pub promises: bool,
    /// True if the job is at its sweet spot: it gets no more nodes.
    pub holds: bool,
    /// The expected instant of the next resize point; for a job at its resize point, of the
    /// following one.
    pub next_point: Time,
    /// The priority.
    pub rank: Rank,
    /// The sizes to which the job can be shrunk, the one with the least effect first.
    pub shrinks: Vec<SmallerSize>,
    /// True if the job is due for contraction (fair-contract).
    pub contract: bool,
}

impl Candidate {
    /// Returns the nodes that the next expansion takes.
    #[must_use]
    pub fn increment(&self) -> Option<u32> {
        self.next.map(|next| next - self.size)
    }

    /// Returns true if the job can use more nodes and may have them.
    #[must_use]
    pub fn may_expand(&self) -> bool {
        !self.holds && self.promises && self.next.is_some()
    }

    /// Returns the largest size to which the job can be shrunk.
    #[must_use]
    pub fn previous(&self) -> Option<u32> {
        self.shrinks.iter().map(|point| point.nodes).max()
    }

    /// Returns the smallest size to which the job can be shrunk.
    #[must_use]
    pub fn smallest(&self) -> Option<u32> {
        self.shrinks.iter().map(|point| point.nodes).min()
    }

    /// Returns the effect of the shrink with the lowest cost; infinite if the job cannot be shrunk.
    #[must_use]
    pub fn impact(&self) -> f64 {
        self.shrinks.first().map_or(f64::INFINITY, |point| point.factor)
    }
}

/// The answer of a strategy: the new size, or `None` to keep the present one, with the reason as
/// text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// The new size.
    pub size: Option<u32>,
    /// The reason.
    pub reason: String,
}

impl Answer {
    pub(crate) fn to(size: u32, reason: String) -> Answer {
        Answer { size: Some(size), reason }
    }

    pub(crate) fn keep(reason: String) -> Answer {
        Answer { size: None, reason }
    }
}
