//! A job: its class, limits, history and nodes.

use serde::{Deserialize, Serialize};

use crate::nodes::NodeList;
use crate::rooms::Share;
use crate::time::{Span, Time};

/// Identifies a job in one run: dense numbers from zero, in order of submission.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct JobId(pub u32);

impl std::fmt::Display for JobId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "job {}", self.0)
    }
}

/// The freedom that a job leaves to the scheduler.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Class {
    /// Runs on exactly `start` nodes.
    Rigid,
    /// Starts on any allowed size between `min` and `max`, and keeps it.
    Moldable,
    /// Changes its size at its own resize points; never below the size it started on.
    Resizable,
    /// Changes its size at any time after a notice, between `min` and `max`.
    Malleable,
}

/// The sizes in nodes that a job accepts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limits {
    /// The fewest nodes.
    pub min: u32,
    /// The most nodes.
    pub max: u32,
    /// The size that the user requested.
    pub start: u32,
    /// The allowed sizes in ascending order; empty if every size from `min` to `max` is allowed.
    pub allowed: Vec<u32>,
}

impl Limits {
    /// Makes the limits of a job that runs on exactly `nodes` nodes.
    #[must_use]
    pub fn exactly(nodes: u32) -> Limits {
        Limits { min: nodes, max: nodes, start: nodes, allowed: Vec::new() }
    }

    /// Makes limits that allow every size from `min` to `max`.
    #[must_use]
    pub fn between(min: u32, max: u32, start: u32) -> Limits {
        Limits { min, max, start, allowed: Vec::new() }
    }

    /// Returns true if the job may have this size.
    #[must_use]
    pub fn allows(&self, nodes: u32) -> bool {
        self.min <= nodes
            && nodes <= self.max
            && (self.allowed.is_empty() || self.allowed.binary_search(&nodes).is_ok())
    }
}

/// An iteration time measured at a resize point.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sample {
    /// The size in nodes.
    pub nodes: u32,
    /// The mean time of an iteration since the previous resize point.
    pub iteration: Span,
}

/// A measured change of size.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Resize {
    /// The size before the change, in nodes.
    pub from: u32,
    /// The size after the change, in nodes.
    pub to: u32,
    /// The instant of the decision.
    pub at: Time,
    /// The time for starting processes and moving data; `None` until the job reports it.
    pub cost: Option<Span>,
}

/// The ratio of MPI time to computing time, in two windows.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct MpiRatio {
    /// Ratio since the last adaptation (MTCT).
    pub total: f64,
    /// Ratio in the last sampling period (tMTCT).
    pub recent: f64,
}

/// The phase of a job's life.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Phase {
    /// Waits for nodes.
    Queued,
    /// Has nodes.
    Running,
}

/// A job as the scheduler knows it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Job {
    /// The job's number.
    pub id: JobId,
    /// The freedom that the job leaves.
    pub class: Class,
    /// The allowed sizes.
    pub limits: Limits,
    /// The cores and memory on `limits.start` nodes, if jobs share nodes; `None` for whole nodes.
    pub share: Option<Share>,
    /// The user class; higher is served first (0 gold, 1 platinum).
    pub priority: i32,
    /// The instant of submission.
    pub submitted: Time,
    /// The user's estimate of the run time on `limits.start` nodes.
    pub walltime: Span,

    /// The phase of the job's life.
    pub phase: Phase,
    /// The instant of the start.
    pub started: Option<Time>,
    /// The size at the start, in nodes.
    pub started_on: u32,
    /// The latest estimate of the end; kept up to date while the job runs.
    pub expected_end: Option<Time>,
    /// The nodes held, in the order of their arrival. Includes the nodes under notice.
    pub nodes: NodeList,
    /// The nodes under notice: still held, given back by the deadline.
    pub leaving: NodeList,
    /// The instant by which the nodes under notice are given back.
    pub leave_by: Option<Time>,
    /// The measured iteration times, oldest first.
    pub history: Vec<Sample>,
    /// The changes of size, oldest first.
    pub resizes: Vec<Resize>,
    /// The ratio of MPI time to computing time, if measured.
    pub mpi_ratio: Option<MpiRatio>,
    /// The number of remaining iterations, if the job reports it.
    pub iterations_left: Option<u32>,
}

impl Job {
    /// Makes a queued job.
    #[must_use]
    pub fn new(id: JobId, class: Class, limits: Limits, submitted: Time, walltime: Span) -> Job {
        Job {
            id,
            class,
            limits,
            share: None,
            priority: 0,
            submitted,
            walltime,
            phase: Phase::Queued,
            started: None,
            started_on: 0,
            expected_end: None,
            nodes: NodeList::default(),
            leaving: NodeList::default(),
            leave_by: None,
            history: Vec::new(),
            resizes: Vec::new(),
            mpi_ratio: None,
            iterations_left: None,
        }
    }

    /// Makes a queued rigid job.
    #[must_use]
    pub fn rigid(id: JobId, nodes: u32, submitted: Time, walltime: Span) -> Job {
        Job::new(id, Class::Rigid, Limits::exactly(nodes), submitted, walltime)
    }

    /// Returns the size in nodes once the nodes under notice have left.
    #[must_use]
    pub fn size(&self) -> u32 {
        self.nodes.count() - self.leaving.count()
    }

    /// Returns the smallest size to which the job may be shrunk while it runs.
    #[must_use]
    pub fn smallest(&self) -> u32 {
        match self.class {
            Class::Rigid | Class::Moldable => self.size(),
            Class::Resizable => self.started_on.max(self.limits.min),
            Class::Malleable => self.limits.min,
        }
    }
}
