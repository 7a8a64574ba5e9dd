//! Texts of the configuration that makes Slurm run on a set of hosts. Pure functions.

use std::fmt::Write;

/// Folder of all files on a host; only that host sees it.
pub(super) const FOLDER: &str = "/run/quo-slurm";
/// Socket of the host's credential service, which is separate from the machine's.
pub(super) const CREDENTIALS: &str = "/run/quo-slurm/munge.socket";
/// Configuration file of Slurm's commands and daemons.
pub(super) const MAIN_FILE: &str = "/run/quo-slurm/slurm.conf";

/// File in which the controller writes a line for each ended job.
pub(super) const ACCOUNTS: &str = "/run/quo-slurm/accounts";

/// Hardware that every node claims to have, whatever the machine has.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Claim {
    /// Sockets.
    pub sockets: usize,
    /// Cores per socket, with one hardware thread each.
    pub cores: usize,
}

impl Default for Claim {
    /// Claims one socket of four cores. A claim of several sockets confuses Slurm's own binding on
    /// a machine with one: it spreads tasks over them.
    fn default() -> Self {
        Claim { sockets: 1, cores: 4 }
    }
}

/// A host, as described to the controller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Node {
    /// Slurm's name of the node, unique among all sets, as the machine's control groups are shared.
    pub(super) name: String,
    pub(super) host: String,
    pub(super) address: String,
}

/// Returns the name of the node on host `index` of a set.
pub(super) fn node_name(set: &str, index: usize) -> String {
    format!("{}{index}", node_prefix(set))
}

/// Returns the common beginning of the names of a set's nodes.
pub(super) fn node_prefix(set: &str) -> String {
    format!("quo-{set}-node")
}

/// Returns `slurm.conf`, the same on all hosts and at the controller.
///
/// Processes are tracked and bound without control groups, so that Slurm runs wherever hosts can be
/// created; with `confined` the machine's control groups confine each step to its cores as well.
pub(super) fn main_file(
    controller: (&str, &str),
    nodes: &[Node],
    claim: Claim,
    confined: bool,
) -> String {
    let (name, address) = controller;
    let binding = if confined { "task/affinity,task/cgroup" } else { "task/affinity" };
    let mut text = format!(
        "ClusterName=quo
SlurmctldHost={name}({address})
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={CREDENTIALS}
StateSaveLocation={FOLDER}/state
SlurmdSpoolDir={FOLDER}/spool
SlurmctldPidFile={FOLDER}/slurmctld.pid
SlurmdPidFile={FOLDER}/slurmd.pid
SlurmctldLogFile={FOLDER}/slurmctld.log
SlurmdLogFile={FOLDER}/slurmd.log
ProctrackType=proctrack/linuxproc
TaskPlugin={binding}
JobAcctGatherType=jobacct_gather/none
JobCompType=jobcomp/filetxt
JobCompLoc={ACCOUNTS}
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SlurmdParameters=config_overrides
MpiDefault=pmix
MailProg=/bin/true
ReturnToService=2
KillWait=2
"
    );
    let Claim { sockets, cores } = claim;
    for Node { name, host, address } in nodes {
        let _infallible = writeln!(
            text,
            "NodeName={name} NodeHostname={host} NodeAddr={address} \
             Sockets={sockets} CoresPerSocket={cores} ThreadsPerCore=1 State=UNKNOWN"
        );
    }
    text.push_str("PartitionName=all Nodes=ALL Default=YES State=UP MaxTime=INFINITE\n");
    text
}

/// Returns `cgroup.conf`: the control groups mounted in a folder, or none. The node daemon looks
/// for them at its start even if nothing uses them, and for version 2 it needs systemd. `version`
/// is its answer to `-V`.
pub(super) fn confinement_file(mounted: Option<&str>, version: &str) -> String {
    let Some(mounted) = mounted else {
        // Releases are named by year and month; before this one, version 1 could not be disabled,
        // but touches nothing until it is used.
        let release = version.split_ascii_whitespace().last().unwrap_or_default();
        let plugin = if release >= "23.11" { "disabled" } else { "cgroup/v1" };
        return format!("CgroupPlugin={plugin}\nCgroupMountpoint={FOLDER}\nCgroupAutomount=no\n");
    };
    format!(
        "CgroupPlugin=cgroup/v1\nCgroupMountpoint={mounted}\nCgroupAutomount=no\n\
         ConstrainCores=yes\nConstrainRAMSpace=no\nConstrainDevices=no\n"
    )
}

/// Returns `mpi.conf`: hosts share `/tmp`, so the folders of a job's ranks must lie elsewhere.
pub(super) fn mpi_file(folder: &str) -> String {
    format!("PMIxCliTmpDirBase={folder}\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nodes() -> Vec<Node> {
        let node = |index| Node {
            name: node_name("unit", index),
            host: format!("host{index}"),
            address: format!("10.77.0.{}", index + 1),
        };
        (0..2).map(node).collect()
    }

    fn value<'a>(text: &'a str, key: &str) -> Vec<&'a str> {
        let lines = text.lines().filter_map(|line| line.split_once('='));
        lines.filter(|(found, _)| *found == key).map(|(_, value)| value).collect()
    }

    #[test]
    fn every_host_is_a_node_with_what_is_claimed() {
        let claim = Claim { sockets: 2, cores: 8 };
        let text = main_file(("front", "10.77.0.254"), &nodes(), claim, false);
        assert_eq!(value(&text, "SlurmctldHost"), ["front(10.77.0.254)"]);
        let found = value(&text, "NodeName");
        assert_eq!(found.len(), 2);
        assert!(found[1].starts_with("quo-unit-node1 NodeHostname=host1 NodeAddr=10.77.0.2 "));
        assert!(found.iter().all(|node| node.contains("Sockets=2 CoresPerSocket=8 ")), "{text}");
    }

    #[test]
    fn slurm_files_are_invisible_to_other_hosts_and_the_machine() {
        let text = main_file(("front", "10.77.0.254"), &nodes(), Claim::default(), true);
        let paths = text.split(['=', '\n']).filter(|word| word.starts_with('/'));
        for path in paths.filter(|path| *path != "/bin/true") {
            assert!(path.starts_with("/run/quo-slurm/"), "{path}");
        }
        assert_eq!(value(&text, "AuthInfo"), ["socket=/run/quo-slurm/munge.socket"]);
    }

    #[test]
    fn control_groups_are_used_only_when_asked_for() {
        let text = |confined| main_file(("f", "1.2.3.4"), &nodes(), Claim::default(), confined);
        assert!(!text(false).contains("cgroup"));
        assert_eq!(value(&text(true), "TaskPlugin"), ["task/affinity,task/cgroup"]);
        let file = confinement_file(Some("/sys/fs/cgroup"), "slurm-wlm 22.05.8");
        assert!(file.contains("CgroupMountpoint=/sys/fs/cgroup\n"), "{file}");
        for (version, plugin) in [("slurm-wlm 22.05.8", "cgroup/v1"), ("slurm 24.11.5", "disabled")]
        {
            let file = confinement_file(None, version);
            assert_eq!(value(&file, "CgroupPlugin"), [plugin]);
            assert!(!file.contains("/sys"), "{file}");
        }
    }
}
