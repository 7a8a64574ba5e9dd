//! Nodes that the jobs of a log shared: whether a simulation shares them, too, and notes about
//! that.

use elastic_lab::input::Log;
use elastic_lab::simulate::Sharing;
use elastic_policy::state::Cluster;

/// The node sizes given by the user.
#[derive(Clone, Copy, Debug)]
pub struct Named {
    /// The cores of a node.
    pub cores: Option<u32>,
    /// The memory of a node in MiB.
    pub memory: Option<u32>,
}

/// Returns the sharing of nodes among the jobs of a log; `None` if each job has exclusive nodes.
///
/// Jobs of `sacct` share nodes if their CPUs and the cores of a node are known. A log in the
/// Standard Workload Format has no nodes: its processors are nodes, or fill whole nodes, or share
/// nodes if their memory is given as well.
pub fn of(log: &Log, named: Named, is_sacct: bool) -> Option<Sharing> {
    let has_cores = log.workload.jobs.iter().any(|job| job.share.is_some());
    let is_asked = named.cores.is_some() && (is_sacct || named.memory.is_some());
    (is_asked && has_cores).then_some(Sharing { memory: named.memory })
}

/// Returns sentences about everything that may be unexpected in a log and its nodes.
pub fn notes(log: &Log, named: Named, is_sacct: bool, cluster: Cluster) -> Vec<String> {
    let mut notes = Vec::new();
    let jobs = &log.workload.jobs;
    let memory = |share: elastic_policy::rooms::Share| share.memory > 0;
    let with_memory = jobs.iter().filter(|job| job.share.is_some_and(memory)).count();
    let with_cores = jobs.iter().filter(|job| job.share.is_some()).count();
    let nodes = u64::from(cluster.nodes);
    let Some(sharing) = of(log, named, is_sacct) else {
        if is_sacct && named.cores.is_some() {
            notes.push(
                "the log has no AllocCPUS: --cores-per-node is not used, jobs have whole nodes"
                    .to_owned(),
            );
        }
        if log.peak.nodes > nodes {
            let remedy = match (is_sacct, named.cores) {
                (true, None) if with_cores > 0 => "name the cores of each with --cores-per-node",
                (true, _) => {
                    "ask sacct for AllocCPUS, too, and name the cores of each with --cores-per-node"
                }
                (false, Some(_)) => {
                    "name their memory with --memory-per-node, or leave --cores-per-node out"
                }
                (false, None) => {
                    "name their cores with --cores-per-node and their memory with --memory-per-node"
                }
            };
            notes.push(format!(
                "its jobs held {} nodes at the same time, and there are {nodes}: if jobs shared nodes, {remedy}",
                log.peak.nodes
            ));
        }
        return notes;
    };
    let cores = nodes * u64::from(cluster.cores_per_node);
    if log.peak.processors > cores {
        notes.push(format!(
            "its jobs held {} CPUs at the same time, and there are {cores}: name the --nodes and --cores-per-node of then",
            log.peak.processors
        ));
    }
    if with_cores < jobs.len() {
        let without = jobs.len() - with_cores;
        notes.push(format!("{without} jobs have no CPUs in the log: these have whole nodes"));
    }
    match sharing.memory {
        None if with_memory > 0 => notes.push(
            "memory is no limit: name that of a node with --memory-per-node, such as 192G"
                .to_owned(),
        ),
        Some(_) if with_memory < with_cores => {
            let without = with_cores - with_memory;
            notes.push(format!("{without} jobs have no memory in the log: these take none"));
        }
        _ => {}
    }
    notes
}

/// Reads a memory size such as `192G`, in MiB.
pub fn memory(text: &str) -> Result<u32, String> {
    let read = elastic_lab::input::mebibytes(text);
    read.ok_or_else(|| "a size in MiB, or such as 192G, is expected".to_owned())
}
