//! The trait of resource managers, which the coordinator calls.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::{Requests, Supply};
use crate::model::change::Event;

/// A moment in the job's run time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Moment {
    /// The iteration that the program last [reported](crate::World::report_iteration); 0 before the
    /// first report.
    pub iteration: u64,
    /// Time since the job began.
    pub since_start: Duration,
}

/// When a manager asks to be called next.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Next {
    /// Iteration of the program at which the manager is called.
    pub iteration: Option<u64>,
    /// Time since the start of the job.
    pub time: Option<Duration>,
}

/// A resource manager: decides when the world changes. One thread in the process of rank 0 calls
/// it; a long call delays resizes, not the ranks.
pub trait ResourceManager: Send + fmt::Debug {
    /// Name that marks its requests, and that its errors begin with.
    fn name(&self) -> &'static str;

    /// Called when the job begins. The manager may keep `requests` and use it from its own threads
    /// until [`ends`](Self::ends).
    ///
    /// # Errors
    /// Why the manager cannot work; the world is then not made on any rank.
    fn begins(&mut self, requests: Requests) -> Result<(), String>;

    /// Called when the moment that the manager asked for has come, or earlier. Also called once at
    /// the beginning.
    fn on_tick(&mut self, moment: Moment) -> Next {
        let _ = moment;
        Next::default()
    }

    /// Returns the source of nodes, for growth beyond the job's own. Called once, after
    /// [`begins`](Self::begins).
    fn supply(&self) -> Option<Arc<dyn Supply>> {
        None
    }

    /// Called for every event, whichever manager requested the change.
    fn on_event(&mut self, event: &Event) {
        let _ = event;
    }

    /// Called when the job ends: the manager closes its threads and sockets.
    fn ends(&mut self) {}
}
