//! Resource managers: the trait for deciding when the world changes, and its implementations.
//!
//! | manager | source of decisions |
//! |---|---|
//! | [`ScriptedPlan`] | a [plan](crate::model::plan) written before |
//! | [`ControlSocket`] | clients of the job's control socket: `quo-elastic grow JOB 2`, or a script |
//! | [`NoticeFolder`] | any program that can put files into a folder |
//! | [`Slurm`](slurm::Slurm) | Slurm: nodes are added and released with ranks, and jobs end |
//!
//! Managers are given to [`WorldOptions`](crate::WorldOptions) and live in the process of rank 0.
//! They make requests through [`Requests`]; several managers can be active at once. Each request is
//! refused at once, or accepted and then gets exactly one terminal event.

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
pub(crate) use notices::{SigtermGuard, TermNotice};
pub use script::ScriptedPlan;
