//! A discrete-event simulation of a cluster under a policy.
//!
//! All events of one instant are recorded in the state and then shown to the policy together. Nothing is random: the
//! same workload and policy give the same outcome.

mod outcome;
mod program;
mod run;
#[cfg(test)]
mod tests;

pub(crate) use outcome::Held;
pub use outcome::{Counts, Ending, Load, Outcome, Piece, Record};
pub use run::{SimulateError, Simulation};

use elastic_policy::action::Decision;
use elastic_policy::state::Cluster;
use elastic_policy::time::{Span, Time};

/// What to do with rigid jobs that run longer than their walltime.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Overrun {
    /// They run to their end; each time the expected end is reached it is extended by a tenth of
    /// the time they have run, at least a minute.
    #[default]
    Run,
    /// They end at their walltime, as under most resource managers.
    End,
}

/// Sharing of nodes: each job takes its cores on them, and its memory if that of a node is given.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sharing {
    /// The memory of a node in MiB; without it memory is unlimited.
    pub memory: Option<u32>,
}

/// The settings of a simulation.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// The machine.
    pub cluster: Cluster,
    /// The sharing of nodes; `None` if each job has exclusive nodes.
    pub sharing: Option<Sharing>,
    /// What to do with rigid jobs that run longer than their walltime.
    pub overrun: Overrun,
    /// The period of the policy's clock and of measurements of the MPI ratio; `None` for no ticks.
    pub tick: Option<Span>,
    /// Keeps the use of the machine and the nodes of each job over time, for pictures and
    /// allocations.
    pub keep_course: bool,
}

impl Settings {
    /// Makes the settings for a machine, all others at their defaults.
    #[must_use]
    pub fn new(cluster: Cluster) -> Settings {
        let overrun = Overrun::default();
        Settings { cluster, sharing: None, overrun, tick: None, keep_course: false }
    }
}

/// The progress of a simulation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// The simulated time.
    pub now: Time,
    /// The jobs that have ended or were rejected.
    pub done: usize,
    /// All jobs.
    pub jobs: usize,
}

/// An observer of a simulation.
pub trait Observer {
    /// Called for each decision.
    fn decided(&mut self, _now: Time, _decision: &Decision) {}

    /// Called with the progress, every few thousand instants.
    fn progressed(&mut self, _progress: Progress) {}
}

/// Observes nothing.
impl Observer for () {}
