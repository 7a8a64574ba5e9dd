//! Resource managers: the trait of those that decide when the world changes, and those that come along.
//!
//! | manager | who decides |
//! |---|---|
//! | [`ScriptedPlan`] | a [plan](crate::model::plan) that somebody wrote before |
//! | [`ControlSocket`] | whoever may use the job's control socket: `quo-elastic grow JOB 2`, or a script |
//! | [`NoticeFolder`] | whoever can put files into a folder |
//! | [`Slurm`](slurm::Slurm) | Slurm: its nodes come and go with ranks, and jobs end |
//!
//! Managers are given to [`WorldOptions`](crate::WorldOptions) and live in the process of rank 0. They ask through
//! [`Requests`], as many of them at once as there are. Each request is refused at once, or accepted and then gets
//! exactly one terminal event.

pub mod control;
mod notices;
mod script;
pub mod slurm;

pub use crate::coordinator::{
    Accepted, HostStatus, Moment, Next, Requests, ResourceManager, Supply, UnitStatus, WorldStatus,
};
pub use crate::model::progress::LatestReport;
pub use crate::observe::common_loops::{CommonLoop, JobLoops};
pub use control::ControlSocket;
pub use notices::NoticeFolder;
pub(crate) use notices::{Term, TermNotice};
pub use script::ScriptedPlan;
