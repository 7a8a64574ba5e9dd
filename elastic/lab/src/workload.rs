//! Jobs for a simulation: the requests of users and the behaviour of their programs.

use std::fmt;

use elastic_policy::job::{Class, Job, JobId, Limits};
use elastic_policy::rooms::Share;
use elastic_policy::time::{Span, Time};

pub mod generate;
mod model;
pub mod random;
pub mod share;

pub use model::{Model, ModelError};

/// The name of a job in its source.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Name {
    /// A number, as in the Standard Workload Format.
    Number(u64),
    /// A word.
    Text(Box<str>),
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Name::Number(number) => number.fmt(f),
            Name::Text(text) => text.fmt(f),
        }
    }
}

/// A job of a workload.
#[derive(Clone, Debug, PartialEq)]
pub struct JobSpec {
    /// The job's name in its source.
    pub name: Name,
    /// The instant of submission.
    pub submitted: Time,
    /// The freedom that the job leaves to the scheduler.
    pub class: Class,
    /// The allowed sizes.
    pub limits: Limits,
    /// The cores and memory on `limits.start` nodes, if jobs share nodes; `None` for whole nodes.
    pub share: Option<Share>,
    /// The user class; higher is served first.
    pub priority: i32,
    /// The user's estimate of the run time on `limits.start` nodes.
    pub walltime: Span,
    /// The behaviour of the program.
    pub work: Work,
}

impl JobSpec {
    /// Makes the job that the scheduler sees.
    #[must_use]
    pub fn job(&self, id: JobId) -> Job {
        let mut job = Job::new(id, self.class, self.limits.clone(), self.submitted, self.walltime);
        job.share = self.share;
        job.priority = self.priority;
        if let Work::Iterative(program) = &self.work {
            job.iterations_left = Some(program.iterations);
        }
        job
    }
}

/// The behaviour of a program.
#[derive(Clone, Debug, PartialEq)]
pub enum Work {
    /// Runs for this time on any size.
    Fixed(Span),
    /// Iterates; the time of an iteration depends on the size.
    Iterative(Box<Program>),
}

impl Work {
    /// Returns true if the ratio of MPI time to computing time is measured.
    #[must_use]
    pub fn measures_mpi(&self) -> bool {
        matches!(self, Work::Iterative(program) if !program.mpi_ratio.is_empty())
    }
}

/// An iterative program.
#[derive(Clone, Debug, PartialEq)]
pub struct Program {
    /// The number of iterations.
    pub iterations: u32,
    /// The number of iterations between two resize points.
    pub resize_every: u32,
    /// The time of an iteration by size.
    pub model: Model,
    /// The time for starting processes and moving data, at each change of size.
    pub resize_cost: ResizeCost,
    /// The time from a notice until the nodes are left.
    pub leave_after: Span,
    /// True if the job reports when it has left the nodes; otherwise they are free only at the end
    /// of the grace time.
    pub acknowledges: bool,
    /// The ratio of MPI time to computing time by size, in ascending order; empty if it is not measured.
    pub mpi_ratio: Vec<(u32, f64)>,
}

/// The cost of a change of size.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ResizeCost {
    /// The cost of changes that are not in `table`.
    pub any: Span,
    /// The cost by size before and size after.
    pub table: Vec<(u32, u32, Span)>,
}

impl ResizeCost {
    /// Returns the cost of a change.
    #[must_use]
    pub fn of(&self, from: u32, to: u32) -> Span {
        let found = self.table.iter().find(|entry| (entry.0, entry.1) == (from, to));
        found.map_or(self.any, |entry| entry.2)
    }
}

impl Program {
    /// Makes a program with a resize point after each iteration and without costs, which leaves
    /// nodes at once.
    #[must_use]
    pub fn new(iterations: u32, model: Model) -> Program {
        Program {
            iterations,
            resize_every: 1,
            model,
            resize_cost: ResizeCost::default(),
            leave_after: Span::ZERO,
            acknowledges: true,
            mpi_ratio: Vec::new(),
        }
    }

    /// Returns the ratio of MPI time to computing time on a size: linear between two known sizes.
    #[must_use]
    pub fn mpi_ratio_on(&self, nodes: u32) -> Option<f64> {
        let place = self.mpi_ratio.partition_point(|entry| entry.0 < nodes);
        let (after, before) = (self.mpi_ratio.get(place), self.mpi_ratio[..place].last());
        match (before, after) {
            (_, Some(after)) if after.0 == nodes => Some(after.1),
            (Some(before), Some(after)) => Some(model::between(*before, *after, nodes)),
            (Some(only), None) | (None, Some(only)) => Some(only.1),
            (None, None) => None,
        }
    }
}

/// Jobs in order of submission.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Workload {
    /// The jobs in order of submission.
    pub jobs: Vec<JobSpec>,
    /// The nodes of the machine, if the source has them.
    pub nodes: Option<u32>,
}

impl Workload {
    /// Makes a workload; sorts the jobs by submission and keeps the order of the source among
    /// equals.
    #[must_use]
    pub fn new(mut jobs: Vec<JobSpec>, nodes: Option<u32>) -> Workload {
        jobs.sort_by_key(|job| job.submitted);
        Workload { jobs, nodes }
    }
}
