//! The trait of resource managers, which the coordinator calls.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::{Requests, Supply};
use crate::model::change::Event;

/// Moment in the life of a job.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Moment {
    /// The iteration that the program [reported](crate::World::report_iteration) last; 0 before.
    pub iteration: u64,
    /// The time since the job began.
    pub since_start: Duration,
}

/// Next call that a manager asks for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Next {
    /// Iteration of the program at which the manager is called.
    pub iteration: Option<u64>,
    /// This long after the job began.
    pub time: Option<Duration>,
}

/// A resource manager: decides when the world changes. Called by one thread, in the process of rank 0; a call that
/// takes long holds up resizes, not the ranks.
pub trait ResourceManager: Send + fmt::Debug {
    /// Name that its requests are marked with, and that errors begin with.
    fn name(&self) -> &'static str;

    /// The job begins. `requests` may be kept, and used by threads of its own, until [`ends`](Self::ends).
    ///
    /// # Errors
    /// Why the manager cannot work; the world is not made then, on any rank.
    fn begins(&mut self, requests: Requests) -> Result<(), String>;

    /// The moment it wanted to be called at has come, or an earlier one. Called once at the beginning.
    fn on_tick(&mut self, moment: Moment) -> Next {
        let _ = moment;
        Next::default()
    }

    /// Source of nodes, for growth beyond the job's own. Called once, when it has begun.
    fn supply(&self) -> Option<Arc<dyn Supply>> {
        None
    }

    /// Something has happened, whoever asked for it.
    fn on_event(&mut self, event: &Event) {
        let _ = event;
    }

    /// The job ends: threads and sockets of its own go.
    fn ends(&mut self) {}
}
