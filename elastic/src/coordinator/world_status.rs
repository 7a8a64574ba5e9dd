//! The state of a job as managers and their clients see it.

use serde::{Deserialize, Serialize};

use crate::model::change::{RequestId, Step};
use crate::model::member::UnitId;
use crate::model::place::SizeLimits;
use crate::model::progress::LatestReport;
use crate::observe::common_loops::JobLoops;

/// The variable by which Slurm tells a job its number.
pub const SLURM_JOB_VARIABLE: &str = "SLURM_JOB_ID";

/// Status of a job, as a status call answers it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct WorldStatus {
    /// Name of the job.
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
    /// Step of that request.
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
    /// The last [report](crate::World::report) of the program.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub report: Option<LatestReport>,
    /// The loops of the ranks, as of the last second or two, where the memory profiler looks for them (`memprof run --loops`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub loops: Option<JobLoops>,
    /// The number of the Slurm job that rank 0 runs in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slurm_job: Option<u32>,
    /// Why the file of the event log has not all events.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub log_trouble: Option<String>,
}

impl WorldStatus {
    /// Returns the time in MPI by the time of computing on the present ranks: since the last resize, and lately. Where loops
    /// are looked for it is that of the loop that all ranks are in, and none without one; else that of the reports.
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
    /// Number of ranks that can be there.
    pub slots: u32,
    /// Ranks that are there.
    pub ranks: Vec<u64>,
}

/// Ranks that were started together and leave together.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnitStatus {
    /// Number of the unit, by which errors name it.
    pub unit: UnitId,
    /// Ranks of the unit.
    pub ranks: Vec<u64>,
}
