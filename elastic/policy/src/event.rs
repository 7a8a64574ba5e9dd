//! Events that a scheduler reacts to.

use serde::{Deserialize, Serialize};

use crate::job::{JobId, MpiRatio};
use crate::time::{Span, Time};

/// An event in the world. The state has recorded it before a policy sees it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Event {
    /// A job was submitted.
    Submitted(JobId),
    /// A job has ended, or was withdrawn from the queue; its nodes are free.
    Ended(JobId),
    /// A job is at a resize point and waits for the answer.
    ResizePoint {
        /// The job.
        job: JobId,
        /// The mean time of an iteration since the previous resize point.
        iteration: Span,
        /// The number of remaining iterations, if the job knows it.
        left: Option<u32>,
    },
    /// A job has measured its share of MPI time.
    Measured {
        /// The job.
        job: JobId,
        /// The measured ratio.
        ratio: MpiRatio,
    },
    /// A job has changed its size, at the given cost.
    Resized {
        /// The job.
        job: JobId,
        /// The time for starting processes and moving data.
        cost: Span,
    },
    /// A job has left the nodes under notice; they are free.
    Left(JobId),
    /// The grace time of a notice is over; the nodes are taken and free.
    GraceOver(JobId),
    /// There is a new estimate of a job's end.
    Estimated {
        /// The job.
        job: JobId,
        /// The estimated end.
        end: Time,
    },
    /// A period has passed.
    Tick,
}

impl Event {
    /// Returns the job that the event is about.
    #[must_use]
    pub fn job(&self) -> Option<JobId> {
        match *self {
            Event::Submitted(job)
            | Event::Ended(job)
            | Event::Left(job)
            | Event::GraceOver(job) => Some(job),
            Event::ResizePoint { job, .. }
            | Event::Measured { job, .. }
            | Event::Resized { job, .. }
            | Event::Estimated { job, .. } => Some(job),
            Event::Tick => None,
        }
    }
}
