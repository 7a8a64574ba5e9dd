//! What the doctor has seen, as plain data: the rules judge nothing else.

use std::collections::BTreeMap;

use quo::CpuSet;
use serde::{Deserialize, Serialize};

/// Everything that is judged.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Facts {
    pub machine: Machine,
    /// The doctor's own process: what a program started here would find.
    pub here: Process,
    /// The ranks of the examined command, in their order.
    pub ranks: Vec<Process>,
    /// Why ranks are missing, or could not be examined.
    pub missing: Option<String>,
    /// The MPI that this installation was built for.
    pub built_for: Option<String>,
    /// Name of the launcher that the examined command begins with.
    pub launcher: Option<String>,
    /// What the launcher printed when it had too few slots.
    pub without_slots: Option<String>,
}

impl Facts {
    /// Returns the processes that a program would be or is: the ranks, else the doctor itself.
    pub fn processes(&self) -> &[Process] {
        if self.ranks.is_empty() { std::slice::from_ref(&self.here) } else { &self.ranks }
    }
}

/// The node of the doctor.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Machine {
    pub online: CpuSet,
    pub offline: CpuSet,
    pub threads_per_core: usize,
    /// Kinds of cores; more than one on hybrid processors.
    pub core_kinds: usize,
    /// NUMA nodes with CPUs and without memory.
    pub numa_without_memory: Vec<usize>,
    /// Folder of shared segments.
    pub shared: Folder,
    /// Yama's restriction of tracing; `None` without Yama.
    pub ptrace_scope: Option<u32>,
    /// The mode of transparent huge pages.
    pub huge_pages: Option<String>,
    /// True if an interface other than the loopback has an IPv6 address.
    pub has_ipv6: bool,
    /// True if a device for remote direct memory access is there.
    pub has_rdma: bool,
    /// Version of the control groups that limit CPUs, 1 or 2.
    pub control_groups: Option<u32>,
    pub slurm: Option<Slurm>,
}

/// A folder in which processes share files.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Folder {
    pub path: String,
    pub exists: bool,
    /// Free bytes.
    pub free: u64,
    /// True if users other than root and the caller can replace files there.
    pub is_open_to_others: bool,
}

/// Slurm's commands as they answer here.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Slurm {
    /// Version, such as `22.05.8`; empty if `sinfo --version` says none.
    pub version: String,
    /// Why the controller does not answer; `None` if it does.
    pub unreachable: Option<String>,
    /// `TaskPlugin` of its configuration.
    pub task_plugin: Option<String>,
}

/// A process: a rank, or the doctor.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Process {
    /// Rank and number of ranks by the launcher's variables.
    pub rank: u64,
    pub ranks: u64,
    pub host: String,
    pub program: String,
    pub mask: CpuSet,
    /// The variables that matter here.
    pub environment: BTreeMap<String, String>,
    /// Why values of `QUO_TOPOLOGY` and `QUO_BINDING` cannot be used, by variable.
    pub refused: BTreeMap<String, String>,
    pub limits: Limits,
    /// CPUs that the processes of its control group may use together, in hundredths.
    pub quota: Option<u32>,
    pub is_root: bool,
    /// Files that are mapped as code, or that the program is linked with.
    pub objects: Vec<String>,
    /// What the program's MPI says about itself.
    pub mpi: Option<String>,
    /// Family of the launcher that started the process.
    pub launcher: Option<String>,
}

/// Soft limits; `None` is no limit.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Limits {
    pub files: Option<u64>,
    pub processes: Option<u64>,
    pub locked_memory: Option<u64>,
    pub file_size: Option<u64>,
    pub address_space: Option<u64>,
}

impl Process {
    /// Returns the value of a variable that is set and not empty.
    pub fn variable(&self, name: &str) -> Option<&str> {
        self.environment.get(name).map(String::as_str).filter(|value| !value.is_empty())
    }

    /// Returns the file names of the objects that begin so.
    pub fn objects<'a>(&'a self, start: &'a str) -> impl Iterator<Item = &'a str> {
        let names = self.objects.iter().filter_map(|path| path.rsplit('/').next());
        names.filter(move |name| name.starts_with(start))
    }

    /// Returns true if an object's file name begins so.
    pub fn has_object(&self, start: &str) -> bool {
        self.objects(start).next().is_some()
    }
}
