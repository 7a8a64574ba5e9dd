//! Resource managers: the trait of those that decide when the world changes, and those that come along.
//!
//! | manager | who decides |
//! |---|---|
//! | [`ScriptedPlan`] | a [plan](crate::plan) that somebody wrote before |
//! | [`ControlSocket`] | whoever may use the job's control socket: `quo-elastic grow JOB 2`, or a script |
//! | [`NoticeFolder`] | whoever can put files into a folder |
//! | [`Slurm`](slurm::Slurm) | Slurm: its nodes come and go with ranks, and jobs end |
//!
//! Managers are given to [`WorldOptions`](crate::WorldOptions) and live in the process of rank 0. They ask through
//! [`Requests`], as many of them at once as there are. Each request is refused at once, or accepted and then gets
//! exactly one terminal event.

pub mod control;
mod notices;
mod requests;
mod script;
pub mod slurm;
mod supply;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

pub use control::ControlSocket;
pub use notices::NoticeFolder;
pub(crate) use notices::{Term, TermNotice};
pub use requests::{Accepted, Requests};
pub use script::ScriptedPlan;
pub use supply::Supply;

use crate::change::{Event, RequestId, Step};
use crate::member::UnitId;
use crate::place::SizeLimits;
pub use crate::progress::LatestReport;

/// Moment in the life of a job.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Moment {
    /// The iteration that the program [reported](crate::World::report_iteration) last; 0 before.
    pub iteration: u64,
    /// The time since the job began.
    pub since_start: Duration,
}

/// When a manager wants to be called again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Next {
    /// When the program has come to this iteration.
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
    fn reached(&mut self, moment: Moment) -> Next {
        let _ = moment;
        Next::default()
    }

    /// Source of nodes, for growth beyond the job's own. Called once, when it has begun.
    fn supply(&self) -> Option<Arc<dyn Supply>> {
        None
    }

    /// Something has happened, whoever asked for it.
    fn happened(&mut self, event: &Event) {
        let _ = event;
    }

    /// The job ends: threads and sockets of its own go.
    fn ends(&mut self) {}
}

/// What somebody from outside may want to know of a job.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct WorldStatus {
    /// Its name.
    pub job: String,
    /// Number of resizes that were committed.
    pub epoch: u64,
    /// Number of ranks.
    pub size: u64,
    /// Number of ranks that there can be.
    pub capacity: u64,
    /// Number of requests that wait for their turn.
    pub waiting: u64,
    /// The resize under way.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub under_way: Option<RequestId>,
    /// Its step.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<Step>,
    /// The number that the next event will have.
    pub next_event: u64,
    /// Microseconds since the job began.
    pub up_us: u64,
    /// The nodes, and which ranks are there.
    pub hosts: Vec<HostStatus>,
    /// The units of several ranks. A rank that is in none leaves alone.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub units: Vec<UnitStatus>,
    /// The sizes that it can have, also with processes on hosts that are named or brought.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limits: Option<SizeLimits>,
    /// What the program [reported](crate::World::report) last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub report: Option<LatestReport>,
    /// The number of the Slurm job that rank 0 runs in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slurm_job: Option<u32>,
    /// Why the file of the event log has not all events.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub log_trouble: Option<String>,
}

/// One node of a job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostStatus {
    /// Its name.
    pub host: String,
    /// Number of ranks that can be there.
    pub slots: u32,
    /// Ranks that are there.
    pub ranks: Vec<u64>,
}

/// Ranks that were started together and leave together.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnitStatus {
    /// Its number, by which errors name it.
    pub unit: UnitId,
    /// Its ranks.
    pub ranks: Vec<u64>,
}
