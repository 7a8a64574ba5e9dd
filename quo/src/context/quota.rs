//! CPU quotas: limits of control groups on the total CPU time of their processes.
//!
//! Most containers and pods are limited this way (`docker --cpus`, the CPU limit of Kubernetes):
//! all CPUs of the machine are allowed, and the processes are stopped for the rest of each period
//! once they have used up the quota. If there are more threads than the quota has CPUs, they stop
//! each other.

use std::fmt;
use std::os::unix::fs::MetadataExt;

use serde::{Deserialize, Serialize};

use super::control_groups::{Folder, folders};
use super::peer_identity::{digest, read_unsized};

/// Maximum number of groups around a process whose quotas count, innermost first.
const MOST: usize = 3;

/// CPU time that the processes of a control group may use together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Quota {
    /// Identifier of the group, equal on all processes of the machine.
    pub group: u64,
    /// The quota in hundredths of a CPU.
    pub hundredths: u32,
}

impl Quota {
    /// Returns the CPUs of the quota, rounded up; at least 1.
    pub(crate) fn cpus(self) -> usize {
        self.hundredths.div_ceil(100).max(1) as usize
    }
}

impl fmt::Display for Quota {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}.{:02}", self.hundredths / 100, self.hundredths % 100)
    }
}

/// Quotas of the groups around a process.
pub(crate) type Quotas = [Option<Quota>; MOST];

/// Returns the quotas of the groups around this process, read now.
pub(super) fn of_this_process() -> Quotas {
    let mut quotas = folders("cpu").into_iter().filter_map(|folder| {
        let hundredths = hundredths_of(&folder)?;
        let place = std::fs::metadata(&folder.path).ok()?;
        let name = place.dev().to_ne_bytes().into_iter().chain(place.ino().to_ne_bytes());
        Some(Quota { group: digest(name), hundredths })
    });
    std::array::from_fn(|_| quotas.next())
}

/// Returns the smallest CPU quota of the control groups around this process, read now, in hundredths
/// of a CPU; `None` without a quota.
#[must_use]
pub fn cpu_quota() -> Option<u32> {
    of_this_process().into_iter().flatten().map(|quota| quota.hundredths).min()
}

/// Returns the quota of a group; `None` without one.
fn hundredths_of(folder: &Folder) -> Option<u32> {
    let text = |name: &str| {
        let text = read_unsized(&format!("{}/{name}", folder.path)).ok()?;
        Some(String::from_utf8_lossy(&text).into_owned())
    };
    let text = if folder.unified {
        text("cpu.max")?
    } else {
        format!("{} {}", text("cpu.cfs_quota_us")?, text("cpu.cfs_period_us")?)
    };
    hundredths(&text)
}

/// Computes hundredths of a CPU from a quota and a period in the same unit. Pure.
fn hundredths(text: &str) -> Option<u32> {
    let mut numbers = text.split_ascii_whitespace();
    // `max` and -1 mean no quota.
    let quota: u64 = numbers.next()?.parse().ok()?;
    let period: u64 = numbers.next()?.parse().ok().filter(|&period| period > 0)?;
    u32::try_from(quota.checked_mul(100)?.div_ceil(period)).ok()
}

/// Lowers the numbers of threads, one number per rank, until the ranks of a group have in total at
/// most as many as its quota has CPUs; 0 is a rank that sleeps, and others keep at least one. The
/// highest number is lowered first, that of the last rank among equals. Pure.
pub(crate) fn cap(threads: &mut [usize], quotas: &[Quotas]) {
    let mut done: Vec<u64> = Vec::new();
    for quota in quotas.iter().flatten().flatten() {
        if done.contains(&quota.group) {
            continue;
        }
        done.push(quota.group);
        let is_inside = |rank: usize| {
            quotas
                .get(rank)
                .is_some_and(|all| all.iter().flatten().any(|one| one.group == quota.group))
        };
        let ranks: Vec<usize> = (0..threads.len()).filter(|&rank| is_inside(rank)).collect();
        let mut sum: usize = ranks.iter().map(|&rank| threads[rank]).sum();
        while sum > quota.cpus() {
            let most = ranks.iter().copied().max_by_key(|&rank| threads[rank]);
            let Some(most) = most.filter(|&rank| threads[rank] > 1) else { break };
            threads[most] -= 1;
            sum -= 1;
        }
    }
}

/// Describes the quotas that are lower than the CPUs of the node's ranks. Pure.
pub(crate) fn notes(quotas: &[Quotas], ranks: &[usize], cpus: usize) -> Vec<String> {
    let mut told: Vec<u64> = Vec::new();
    let mut notes = Vec::new();
    for quota in quotas.iter().flatten().flatten() {
        if told.contains(&quota.group) || quota.cpus() >= cpus {
            continue;
        }
        told.push(quota.group);
        let inside = quotas
            .iter()
            .zip(ranks)
            .filter(|(all, _)| all.iter().flatten().any(|one| one.group == quota.group));
        let inside: crate::cpuset::CpuSet = inside.map(|(_, &rank)| rank).collect();
        notes.push(format!(
            "the control group of ranks {inside} has a quota of {quota} CPUs: their phases have at most \
             {most} threads together, at least one each (QUO_CPU_QUOTA=ignore plans without it)",
            most = quota.cpus(),
        ));
    }
    notes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn quota(group: u64, hundredths: u32) -> Option<Quota> {
        Some(Quota { group, hundredths })
    }

    #[test]
    fn quotas_of_both_versions_are_read() {
        assert_eq!(hundredths("max 100000\n"), None);
        assert_eq!(hundredths("-1\n 100000\n"), None);
        assert_eq!(hundredths("150000 100000\n"), Some(150));
        assert_eq!(hundredths("1000 100000"), Some(1));
        assert_eq!(hundredths("100000 0"), None);
        assert_eq!(hundredths("18446744073709551615 1"), None);
        assert_eq!(quota(0, 150).unwrap().cpus(), 2);
        assert_eq!(quota(0, 0).unwrap().cpus(), 1);
        assert_eq!(quota(0, 205).unwrap().to_string(), "2.05");
    }

    #[test]
    fn quota_is_shared_by_the_ranks_of_its_group() {
        let one = [quota(7, 250), None, None];
        let mut threads = [4, 0, 4, 8];
        cap(&mut threads, &[one, one, one, [None; 3]]);
        assert_eq!(threads, [2, 0, 1, 8]);
        let mut alone = [8];
        cap(&mut alone, &[one]);
        assert_eq!(alone, [3]);
    }

    #[test]
    fn quotas_of_outer_groups_count_too() {
        let pod = quota(1, 300);
        let quotas = [[quota(2, 200), pod, None], [quota(3, 200), pod, None]];
        let mut threads = [4, 4];
        cap(&mut threads, &quotas);
        assert_eq!(threads, [2, 1]);
        let mut many = [1, 1];
        cap(&mut many, &[[quota(1, 50), None, None]; 2]);
        assert_eq!(many, [1, 1], "every worker has a thread");
    }

    #[test]
    fn quota_lower_than_the_cpus_is_told_once() {
        let one = [quota(7, 150), None, None];
        let notes = notes(&[one, one], &[4, 5], 8);
        assert_eq!(notes.len(), 1);
        assert!(notes[0].contains("ranks 4-5 has a quota of 1.50 CPUs"), "{}", notes[0]);
        assert!(super::notes(&[one, one], &[4, 5], 2).is_empty());
    }
}
