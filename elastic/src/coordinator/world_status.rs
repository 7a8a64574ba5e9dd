//! The state of a job for managers and their clients.

use serde::{Deserialize, Serialize};

use crate::model::change::{RequestId, Step};
use crate::model::member::UnitId;
use crate::model::place::SizeLimits;
use crate::model::progress::LatestReport;
use crate::observe::common_loops::JobLoops;

/// The variable in which Slurm gives a job its number.
pub const SLURM_JOB_VARIABLE: &str = "SLURM_JOB_ID";

/// Status of a job, as a status call returns it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct WorldStatus {
    /// Name of the job.
    pub job: String,
    /// Number of resizes that were committed.
    pub epoch: u64,
    /// Number of ranks.
    pub size: u64,
    /// Largest possible number of ranks.
    pub capacity: u64,
    /// Number of requests that wait for their turn.
    pub waiting: u64,
    /// The resize under way.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub under_way: Option<RequestId>,
    /// Step of that request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<Step>,
    /// The number of the next event.
    pub next_event: u64,
    /// Microseconds since the job began.
    pub up_us: u64,
    /// The nodes, and the ranks on them.
    pub hosts: Vec<HostStatus>,
    /// The units with several ranks. A rank in none of them leaves alone.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub units: Vec<UnitStatus>,
    /// The sizes that the job can have, including processes on named or brought hosts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limits: Option<SizeLimits>,
    /// The last [report](crate::World::report) of the program.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub report: Option<LatestReport>,
    /// The ranks' loops, at most a second or two old, if the memory profiler detects them
    /// (`memprof run --loops`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub loops: Option<JobLoops>,
    /// The number of the Slurm job that rank 0 runs in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slurm_job: Option<u32>,
    /// Why the file of the event log lacks events.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub log_trouble: Option<String>,
}

impl WorldStatus {
    /// Returns the ratio of time in MPI to time computing on the present ranks: since the last
    /// resize, and recent. If loops are detected, it is the ratio of the loop common to all ranks,
    /// or `None` without one; else that of the reports.
    #[must_use]
    pub fn mpi_ratio(&self) -> Option<(f64, f64)> {
        if let Some(loops) = &self.loops {
            let common = loops.common.as_ref()?;
            return common.mpi_ratio.zip(common.recent_mpi_ratio);
        }
        let report = self.report.as_ref().filter(|report| report.size == self.size)?;
        let recent = report.mpi_ratio?;
        Some((report.mpi_ratio_total.unwrap_or(recent), recent))
    }
}

/// One node of a job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostStatus {
    /// Name of the host.
    pub host: String,
    /// Largest possible number of ranks there.
    pub slots: u32,
    /// Ranks that are there.
    pub ranks: Vec<u64>,
}

/// Ranks that were started together and leave together.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnitStatus {
    /// Number of the unit, as errors name it.
    pub unit: UnitId,
    /// Ranks of the unit.
    pub ranks: Vec<u64>,
}
