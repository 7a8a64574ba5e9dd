//! Handle through which managers submit requests and read status.

use std::os::unix::net::UnixStream;
use std::sync::Arc;

use super::{SLURM_JOB_VARIABLE, Shared, WorldStatus};
use crate::model::change::{Cause, Event, Request, RequestId, Step, Turn};

/// A manager's handle to request resizes and to query their state. Copies refer to the same job;
/// any thread may use them.
#[derive(Clone, Debug)]
pub struct Requests(Arc<Shared>);

/// The acceptance of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Accepted {
    /// Number of the request.
    pub request: RequestId,
    /// The request that has to end before its turn.
    pub after: Option<RequestId>,
}

impl Requests {
    pub(crate) fn new(shared: Arc<Shared>) -> Self {
        Self(shared)
    }

    /// Makes the requests handle of a job of one rank and `processes` processes, without a
    /// coordinator.
    #[cfg(test)]
    pub(crate) fn alone(processes: u32) -> Self {
        Self::of_nobody(processes, 1)
    }

    /// Makes the requests handle of a job of `ranks` ranks, without a coordinator.
    #[cfg(test)]
    pub(crate) fn with_ranks(ranks: u32) -> Self {
        Self::of_nobody(ranks, ranks as usize)
    }

    #[cfg(test)]
    fn of_nobody(processes: u32, initial_ranks: usize) -> Self {
        use super::{Arbiter, Job, Journal};
        use crate::model::place::{Allowed, Bounds};
        let job = Job {
            name: "test".to_owned(),
            hosts: vec!["a".to_owned()],
            places: vec![0; processes as usize],
            initial_ranks,
            bounds: Bounds::new(1, processes, Allowed::Any).unwrap(),
            limits: crate::model::process_table::Limits::default(),
            placement: None,
        };
        Self::new(Arc::new(Shared::alone(Arbiter::new(job, Journal::default()).unwrap())))
    }

    /// Requests a resize. Answered at once; the resize itself follows later, and ends with an event
    /// of this request's number.
    ///
    /// # Errors
    /// The number of the refused request, and the cause.
    pub fn ask(&self, request: Request) -> Result<Accepted, (RequestId, Cause)> {
        let (id, answer) = self.0.arbiter().request(request);
        match answer {
            Ok(turn) => {
                self.0.wake_coordinator();
                let after = match turn {
                    Turn::Now => None,
                    Turn::After(other) => Some(other),
                };
                Ok(Accepted { request: id, after })
            }
            Err(cause) => Err((id, cause)),
        }
    }

    /// Cancels a request that waits for its turn.
    ///
    /// # Errors
    /// The request has ended, is under way, or never existed.
    pub fn cancel(&self, request: RequestId) -> Result<(), String> {
        self.0.arbiter().cancel(request)
    }

    /// Adds an event to the log that is no step of a request, and starts nothing.
    pub fn note(&self, cause: Cause) {
        self.0.arbiter().note(cause);
        self.0.wake_coordinator();
    }

    /// Status of the job now.
    #[must_use]
    pub fn status(&self) -> WorldStatus {
        let slurm_job =
            std::env::var(SLURM_JOB_VARIABLE).ok().and_then(|number| number.parse().ok());
        WorldStatus { slurm_job, ..self.0.status() }
    }

    /// Returns the latest step of a request; `None` if it is not known, or ended long ago.
    #[must_use]
    pub fn step_of(&self, request: RequestId) -> Option<Step> {
        self.0.arbiter().changes().status(request)
    }

    /// Returns the events from this number on that are still kept: the latest few thousand.
    #[must_use]
    pub fn events(&self, since: u64) -> Vec<Event> {
        self.0.arbiter().journal.since(since).cloned().collect()
    }

    /// Registers a wake-up socket: one byte is written per batch of new events.
    pub(crate) fn watch(&self, end: UnixStream) -> std::io::Result<()> {
        self.0.arbiter().journal.watch(end)
    }
}
