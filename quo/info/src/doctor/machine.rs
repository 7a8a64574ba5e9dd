//! Reads the node: processors, memory, folders, Slurm.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use quo::environment::{DIRECTORY, value};
use quo::{CpuSet, ObjectType, Topology};
use rustix::fs::{stat, statvfs};

use super::facts::{Folder, Machine, Slurm};

/// Time that one command of Slurm may take.
const PATIENCE: Duration = Duration::from_secs(5);

const CPUS: &str = "/sys/devices/system/cpu";

pub fn read() -> Machine {
    let online = list(&format!("{CPUS}/online"));
    let topology = Topology::live().ok();
    let count = |kind| topology.as_ref().map_or(0, |topology| topology.count(kind));
    let cores = count(ObjectType::Core).max(1);
    Machine {
        offline: list(&format!("{CPUS}/present")).difference(&online),
        threads_per_core: count(ObjectType::Pu).div_ceil(cores).max(1),
        core_kinds: topology.as_ref().map_or(1, |it| it.core_kinds().len().max(1)),
        numa_without_memory: numa_without_memory(),
        shared: folder(),
        ptrace_scope: word("/proc/sys/kernel/yama/ptrace_scope").and_then(|text| text.parse().ok()),
        huge_pages: chosen("/sys/kernel/mm/transparent_hugepage/enabled"),
        has_ipv6: has_ipv6(&fs::read_to_string("/proc/net/if_inet6").unwrap_or_default()),
        has_rdma: fs::read_dir("/sys/class/infiniband").is_ok_and(|mut all| all.next().is_some()),
        control_groups: control_groups(
            &fs::read_to_string("/proc/self/mountinfo").unwrap_or_default(),
        ),
        slurm: slurm(),
        online,
    }
}

fn word(path: &str) -> Option<String> {
    Some(fs::read_to_string(path).ok()?.trim().to_owned())
}

fn list(path: &str) -> CpuSet {
    word(path).and_then(|text| text.parse().ok()).unwrap_or_default()
}

/// Returns the word in brackets of a file of the kernel that lists its choices.
fn chosen(path: &str) -> Option<String> {
    let text = word(path)?;
    Some(text.split_once('[')?.1.split_once(']')?.0.to_owned())
}

/// Returns the NUMA nodes that have CPUs and no memory.
fn numa_without_memory() -> Vec<usize> {
    const NODES: &str = "/sys/devices/system/node";
    let with_memory = list(&format!("{NODES}/has_memory"));
    let with_cpus = list(&format!("{NODES}/has_cpu"));
    // Kernels without these files have one node with everything.
    if with_memory.is_empty() {
        Vec::new()
    } else {
        with_cpus.difference(&with_memory).iter().collect()
    }
}

/// Returns true if the kernel's table of addresses has one of an interface that leaves the node.
fn has_ipv6(table: &str) -> bool {
    table.lines().any(|line| line.split_whitespace().last().is_some_and(|name| name != "lo"))
}

/// Returns the version of the control groups that limit CPUs.
fn control_groups(mounts: &str) -> Option<u32> {
    let kinds: Vec<&str> = mounts
        .lines()
        .filter_map(|line| line.split_once(" - ")?.1.split(' ').next())
        .filter(|kind| kind.starts_with("cgroup"))
        .collect();
    match () {
        () if kinds.contains(&"cgroup") => Some(1),
        () if kinds.contains(&"cgroup2") => Some(2),
        () => None,
    }
}

/// Reads the folder of shared segments.
fn folder() -> Folder {
    let path = value(&DIRECTORY).unwrap_or_else(|| DIRECTORY.default.to_owned());
    let (Ok(system), Ok(status)) = (statvfs(path.as_str()), stat(path.as_str())) else {
        return Folder { path, ..Folder::default() };
    };
    let others_write = status.st_mode & 0o022 != 0 && status.st_mode & 0o1000 == 0;
    let own = [0, rustix::process::geteuid().as_raw()].contains(&status.st_uid);
    Folder {
        exists: true,
        free: system.f_bavail.saturating_mul(system.f_frsize),
        is_open_to_others: others_write || !own,
        path,
    }
}

/// Asks Slurm's commands, if they are there and have a configuration.
fn slurm() -> Option<Slurm> {
    let sinfo = quo_launch::launcher::in_path("sinfo".as_ref())?;
    let version = output(&sinfo, &["--version"]).unwrap_or_default();
    let version = version.split_whitespace().last().unwrap_or_default().to_owned();
    // Without a configuration the commands are only packages.
    if version.is_empty() && std::env::var_os("SLURM_JOB_ID").is_none() {
        return None;
    }
    let scontrol = sinfo.with_file_name("scontrol");
    let ping = output(&scontrol, &["ping"]);
    let unreachable = match &ping {
        Ok(text) if text.contains("UP") => None,
        Ok(text) => Some(text.split_whitespace().collect::<Vec<_>>().join(" ")),
        Err(reason) => Some(reason.clone()),
    };
    let answers = unreachable.is_none();
    let configuration =
        answers.then(|| output(&scontrol, &["show", "config"]).ok()).flatten().unwrap_or_default();
    let plugin =
        configuration.lines().find_map(|line| line.strip_prefix("TaskPlugin")?.split_once('='));
    let task_plugin = plugin.map(|(_, value)| value.trim().to_owned());
    Some(Slurm { version, unreachable, task_plugin })
}

/// Returns what a command prints, or why it printed nothing in time.
fn output(program: &Path, words: &[&str]) -> Result<String, String> {
    let name = program.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let mut child = Command::new(program)
        .args(words)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .map_err(|error| format!("{name} cannot be run: {error}"))?;
    // The output of these commands fits into a pipe.
    let until = Instant::now() + PATIENCE;
    loop {
        match child.try_wait() {
            Ok(Some(_)) => break,
            Ok(None) if Instant::now() < until => {
                // Sleeps: the command is asked again.
                std::thread::sleep(Duration::from_millis(20));
            }
            _ => {
                let _ = child.kill();
                let _ = child.wait();
                return Err(format!("{name} did not answer within {} s", PATIENCE.as_secs()));
            }
        }
    }
    let output = child.wait_with_output().map_err(|error| format!("{name}: {error}"))?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    match (output.status.success(), text.trim().is_empty()) {
        (false, true) => Err(format!("{name} failed with {}", output.status)),
        _ => Ok(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_the_loopback_reach_no_other_host() {
        let local = "00000000000000000000000000000001 01 80 10 80       lo\n";
        assert!(!has_ipv6(local));
        assert!(has_ipv6(&format!("{local}fe80 02 40 20 80     eth0\n")));
    }

    #[test]
    fn control_groups_of_a_mixed_node_are_the_first() {
        let one = "1 2 0:1 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n";
        let two = "1 2 0:1 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n";
        assert_eq!(control_groups(two), Some(2));
        assert_eq!(control_groups(&format!("{two}{one}")), Some(1));
        assert_eq!(control_groups("1 2 0:1 / / rw - ext4 /dev/a rw\n"), None);
    }

    #[test]
    fn command_that_is_not_there_is_named() {
        let error = output(Path::new("/no/such/scontrol"), &["ping"]).unwrap_err();
        assert!(error.starts_with("scontrol cannot be run: "), "{error}");
    }

    #[test]
    fn machine_of_the_test_has_processors() {
        let machine = read();
        assert!(!machine.online.is_empty() && machine.threads_per_core >= 1, "{machine:?}");
    }
}
