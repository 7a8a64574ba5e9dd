//! The way from a manager to those who decide.

use std::os::unix::net::UnixStream;
use std::sync::Arc;

use super::{SLURM_JOB_VARIABLE, Shared, WorldStatus};
use crate::model::change::{Cause, Event, Request, RequestId, Step, Turn};

/// A manager's means to ask for resizes and to look at their state. Copies ask the same job; any thread may.
#[derive(Clone, Debug)]
pub struct Requests(Arc<Shared>);

/// The answer yes to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Accepted {
    /// Number of the request.
    pub request: RequestId,
    /// The one that has to end before its turn comes.
    pub after: Option<RequestId>,
}

impl Requests {
    pub(crate) fn new(shared: Arc<Shared>) -> Self {
        Self(shared)
    }

    /// Makes the requests of a job of one rank and `processes` processes, whose coordinator does nothing.
    #[cfg(test)]
    pub(crate) fn alone(processes: u32) -> Self {
        Self::of_nobody(processes, 1)
    }

    /// Makes the requests of a job of `ranks` ranks, whose coordinator does nothing.
    #[cfg(test)]
    pub(crate) fn with_ranks(ranks: u32) -> Self {
        Self::of_nobody(ranks, ranks as usize)
    }

    #[cfg(test)]
    fn of_nobody(processes: u32, start: usize) -> Self {
        use super::{Arbiter, Job, Journal};
        use crate::model::place::{Allowed, Bounds};
        let job = Job {
            name: "test".to_owned(),
            hosts: vec!["a".to_owned()],
            places: vec![0; processes as usize],
            start,
            bounds: Bounds::new(1, processes, Allowed::Any).unwrap(),
            limits: crate::model::process_table::Limits::default(),
            fill: None,
        };
        Self::new(Arc::new(Shared::alone(Arbiter::new(job, Journal::default()).unwrap())))
    }

    /// Asks for a resize. Answered at once; the resize itself comes later, and ends with an event of its number.
    ///
    /// # Errors
    /// The number of the refused request, and why nothing will happen.
    pub fn ask(&self, request: Request) -> Result<Accepted, (RequestId, Cause)> {
        let (id, answer) = self.0.arbiter().request(request);
        match answer {
            Ok(turn) => {
                self.0.look();
                let after = match turn {
                    Turn::Now => None,
                    Turn::After(other) => Some(other),
                };
                Ok(Accepted { request: id, after })
            }
            Err(cause) => Err((id, cause)),
        }
    }

    /// Takes back a request that waits for its turn.
    ///
    /// # Errors
    /// It has ended, is under way, or never was.
    pub fn cancel(&self, request: RequestId) -> Result<(), String> {
        self.0.arbiter().cancel(request)
    }

    /// Puts something into the log that is no step of a request, and starts nothing.
    pub fn note(&self, cause: Cause) {
        self.0.arbiter().note(cause);
        self.0.look();
    }

    /// Status of the job now.
    #[must_use]
    pub fn status(&self) -> WorldStatus {
        let slurm_job =
            std::env::var(SLURM_JOB_VARIABLE).ok().and_then(|number| number.parse().ok());
        WorldStatus { slurm_job, ..self.0.status() }
    }

    /// The latest step of a request; `None` if it is not known, or ended long ago.
    #[must_use]
    pub fn step_of(&self, request: RequestId) -> Option<Step> {
        self.0.arbiter().changes().status(request)
    }

    /// The events from this number on, as far as they are kept: the latest few thousand.
    #[must_use]
    pub fn events(&self, since: u64) -> Vec<Event> {
        self.0.arbiter().journal.since(since).cloned().collect()
    }

    /// A byte comes out of the other end for every few events.
    pub(crate) fn watch(&self, end: UnixStream) -> std::io::Result<()> {
        self.0.arbiter().journal.watch(end)
    }
}
