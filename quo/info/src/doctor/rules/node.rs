//! Situations of the node and of the processes' place on it.

use quo::CpuSet;

use super::Collector;
use crate::doctor::facts::{Facts, Process};

/// Less room than this for segments fails sooner or later.
const ROOM: u64 = 256 << 20;
/// Size of files that segments of a small node reach.
const SEGMENT: u64 = 64 << 20;
/// Fewer open files than this are too few for a job of some hundred ranks.
const FILES: u64 = 1024;
/// More processes and threads than this a node of ranks easily has.
const PROCESSES: u64 = 1024;
/// Memory that a fabric's queues lock.
const LOCKED: u64 = 64 << 20;

pub fn recognise(facts: &Facts, found: &mut Collector) {
    cpus(facts, found);
    memory(facts, found);
    limits(facts, found);
    slurm(facts, found);
}

fn cpus(facts: &Facts, found: &mut Collector) {
    let machine = &facts.machine;
    let ranks = on_this_host(facts);
    let used = ranks.iter().fold(CpuSet::new(), |all, rank| all.union(&rank.mask));
    if let Some((value, first)) = shared(&ranks) {
        // Ranks that all have the same CPUs are not bound; there may be enough for each.
        let alike = ranks.iter().all(|rank| rank.mask == first);
        if alike && used.len() >= ranks.len() {
            found.add("cpus-unbound", format!("{} ranks may each use CPUs {first}", ranks.len()));
        } else {
            found.add("cpus-shared", value);
        }
    }
    if !facts.here.mask.is_empty() {
        let outside = used.difference(&facts.here.mask);
        if !outside.is_empty() {
            found.add(
                "cpus-outside-the-callers",
                format!("the caller has CPUs {}, ranks have also {outside}", facts.here.mask),
            );
        }
        if facts.here.mask != machine.online && facts.here.mask.is_subset(&machine.online) {
            found.add(
                "cpus-fewer-than-machine",
                format!("CPUs {} of {}", facts.here.mask, machine.online),
            );
        }
    }
    found.each(facts, "quota", |process| {
        let quota =
            process.quota.filter(|&quota| u64::from(quota) < 100 * process.mask.len() as u64)?;
        let cpus = process.mask.len();
        Some(format!("{}.{:02} CPUs of time, {cpus} CPUs in the mask", quota / 100, quota % 100))
    });
    if machine.threads_per_core > 1 {
        found.add("smt", format!("{} hardware threads per core", machine.threads_per_core));
    }
    if machine.core_kinds > 1 {
        found.add("cores-hybrid", format!("{} kinds of cores", machine.core_kinds));
    }
    if !machine.offline.is_empty() {
        found.add("cpus-offline", format!("CPUs {}", machine.offline));
    }
    if !machine.numa_without_memory.is_empty() {
        let nodes: Vec<String> =
            machine.numa_without_memory.iter().map(ToString::to_string).collect();
        found.add("numa-without-memory", format!("NUMA nodes {}", nodes.join(", ")));
    }
}

/// Returns the ranks that the doctor's node has.
fn on_this_host(facts: &Facts) -> Vec<&Process> {
    facts.ranks.iter().filter(|rank| rank.host == facts.here.host).collect()
}

/// Returns the first two ranks that share CPUs, and the CPUs of the first.
fn shared(ranks: &[&Process]) -> Option<(String, CpuSet)> {
    for (index, one) in ranks.iter().enumerate() {
        if let Some(other) =
            ranks[index + 1..].iter().find(|other| other.mask.intersects(&one.mask))
        {
            let common = one.mask.intersection(&other.mask);
            let value = format!("ranks {} and {} both have CPUs {common}", one.rank, other.rank);
            return Some((value, one.mask.clone()));
        }
    }
    None
}

fn memory(facts: &Facts, found: &mut Collector) {
    let (machine, shared) = (&facts.machine, &facts.machine.shared);
    if !shared.exists {
        found.add("shared-missing", shared.path.clone());
    } else if shared.is_open_to_others && shared.path != "/dev/shm" {
        found.add("shared-unsafe", shared.path.clone());
    } else if shared.free < ROOM {
        found.add("shared-small", format!("{}: {} MiB free", shared.path, shared.free >> 20));
    }
    if let Some(scope) = machine.ptrace_scope.filter(|&scope| scope > 0 && !facts.here.is_root) {
        found.add("ptrace", format!("kernel.yama.ptrace_scope={scope}"));
    }
    if machine.huge_pages.as_deref() == Some("always") {
        found.add("huge-pages", "/sys/kernel/mm/transparent_hugepage/enabled: always");
    }
}

fn limits(facts: &Facts, found: &mut Collector) {
    let below = |limit: Option<u64>, least: u64| limit.filter(|&limit| limit < least);
    let has_rdma = facts.machine.has_rdma;
    found.each(facts, "limit-file-size", |process| {
        below(process.limits.file_size, SEGMENT).map(|limit| format!("{} KiB", limit >> 10))
    });
    found.each(facts, "limit-files", |process| {
        below(process.limits.files, FILES).map(|limit| format!("{limit} files"))
    });
    found.each(facts, "limit-processes", |process| {
        below(process.limits.processes, PROCESSES)
            .filter(|_| !process.is_root)
            .map(|limit| format!("{limit} processes and threads"))
    });
    found.each(facts, "limit-locked-memory", |process| {
        below(process.limits.locked_memory, LOCKED)
            .filter(|_| has_rdma)
            .map(|limit| format!("{} KiB", limit >> 10))
    });
    found.each(facts, "limit-address-space", |process| {
        process.limits.address_space.map(|limit| format!("{} MiB", limit >> 20))
    });
}

fn slurm(facts: &Facts, found: &mut Collector) {
    let Some(slurm) = &facts.machine.slurm else { return };
    if let Some(reason) = &slurm.unreachable {
        found.add("slurm-unreachable", reason.clone());
    }
    if let Some(plugin) = &slurm.task_plugin
        && !plugin.contains("affinity")
    {
        found.add("slurm-task-plugin", format!("TaskPlugin={plugin}"));
    }
    let release =
        slurm.version.rsplit_once('.').map_or(slurm.version.as_str(), |(release, _)| release);
    let is_tried = ("22.05"..="26.05").contains(&release);
    if !is_tried && !slurm.version.is_empty() {
        found.add("slurm-version", slurm.version.clone());
    }
    if facts.machine.control_groups == Some(2) && slurm.unreachable.is_none() {
        found.add("control-groups-2", "version 2");
    }
}

#[cfg(test)]
mod tests {
    use super::super::examples::recognised;
    use super::*;
    use crate::doctor::facts::Slurm;

    #[test]
    fn ranks_without_a_binding_are_told_from_crowded_ones() {
        let all = |cpus| {
            move |facts: &mut Facts| {
                facts.ranks.iter_mut().for_each(|rank| rank.mask = CpuSet::from_range(0..cpus));
            }
        };
        assert_eq!(recognised(all(4)), ["cpus-unbound"]);
        assert_eq!(recognised(all(1)), ["cpus-shared"]);
    }

    #[test]
    fn ranks_outside_of_the_callers_mask_are_recognised() {
        let ids = recognised(|facts| facts.here.mask = CpuSet::from_range(0..3));
        assert_eq!(ids, ["cpus-outside-the-callers", "cpus-fewer-than-machine"]);
    }

    #[test]
    fn quota_counts_below_the_cpus_of_the_mask() {
        let quota = |hundredths| move |facts: &mut Facts| facts.ranks[0].quota = Some(hundredths);
        assert_eq!(recognised(quota(150)), ["quota"]);
        assert_eq!(recognised(quota(200)), [""; 0]);
    }

    #[test]
    fn hardware_that_surprises_is_recognised() {
        for (change, id) in [
            (
                (|machine| machine.threads_per_core = 2) as fn(&mut crate::doctor::facts::Machine),
                "smt",
            ),
            (|machine| machine.core_kinds = 2, "cores-hybrid"),
            (|machine| machine.offline = CpuSet::single(4), "cpus-offline"),
            (|machine| machine.numa_without_memory = vec![1], "numa-without-memory"),
            (|machine| machine.shared.free = 1 << 20, "shared-small"),
            (|machine| machine.shared.exists = false, "shared-missing"),
            (|machine| machine.ptrace_scope = Some(1), "ptrace"),
            (|machine| machine.huge_pages = Some("always".to_owned()), "huge-pages"),
        ] {
            assert_eq!(recognised(|facts| change(&mut facts.machine)), [id]);
        }
    }

    #[test]
    fn folder_that_others_may_change_is_an_error() {
        let ids = recognised(|facts| {
            facts.machine.shared.path = "/tmp/open".to_owned();
            facts.machine.shared.is_open_to_others = true;
        });
        assert_eq!(ids, ["shared-unsafe"]);
    }

    #[test]
    fn low_limits_are_recognised_in_any_rank() {
        type Change = fn(&mut crate::doctor::facts::Limits);
        for (change, id) in [
            ((|limits| limits.file_size = Some(4 << 20)) as Change, "limit-file-size"),
            (|limits| limits.files = Some(256), "limit-files"),
            (|limits| limits.processes = Some(100), "limit-processes"),
            (|limits| limits.address_space = Some(8 << 30), "limit-address-space"),
        ] {
            assert_eq!(recognised(|facts| change(&mut facts.ranks[1].limits)), [id]);
        }
        let locked = |facts: &mut Facts| facts.ranks[0].limits.locked_memory = Some(64 << 10);
        assert_eq!(recognised(locked), [""; 0], "without a fabric");
        let with_fabric = |facts: &mut Facts| {
            locked(facts);
            facts.machine.has_rdma = true;
        };
        assert_eq!(recognised(with_fabric), ["limit-locked-memory"]);
    }

    #[test]
    fn slurm_is_judged_by_what_it_answers() {
        let with = |version: &str, plugin: Option<&str>, unreachable: Option<&str>| Slurm {
            version: version.to_owned(),
            task_plugin: plugin.map(str::to_owned),
            unreachable: unreachable.map(str::to_owned),
        };
        for (slurm, ids) in [
            (with("22.05.8", Some("task/cgroup,task/affinity"), None), &[][..]),
            (with("24.11.5", Some("task/none"), None), &["slurm-task-plugin"]),
            (with("21.08.8", None, Some("down")), &["slurm-unreachable", "slurm-version"]),
            (with("27.05.0", None, None), &["slurm-version"]),
        ] {
            assert_eq!(recognised(|facts| facts.machine.slurm = Some(slurm)), ids);
        }
        let second = |facts: &mut Facts| {
            facts.machine.slurm = Some(with("26.05.5", None, None));
            facts.machine.control_groups = Some(2);
        };
        assert_eq!(recognised(second), ["control-groups-2"]);
    }
}
