//! CPU quotas of real control groups, as root: they cap the threads of phases.
#![allow(clippy::unwrap_used, missing_docs)]

mod support;

use std::fs;
use std::path::{Path, PathBuf};

use quo::affinity::kernel::mask_of;
use quo::group::local::LocalSpace;
use quo::phase::PhaseSpec;
use quo::{Context, CpuSet, ObjectType};
use support::contexts::{options, set};
use support::{Ranks, Segments};

fn main() -> std::process::ExitCode {
    support::run(&[
        ("quota_caps_the_threads_of_a_worker", quota_caps_the_threads_of_a_worker),
        ("quota_is_shared_by_the_workers_of_its_group", quota_is_shared_by_workers),
        ("ignored_quota_caps_nothing", ignored_quota_caps_nothing),
        ("quota_has_no_effect_on_a_simulated_machine", simulated_machine_has_no_quota),
    ])
}

/// A control group with a CPU quota, removed at the end.
struct Group(PathBuf);

impl Group {
    /// Creates a group with `percent` of a CPU.
    fn new(name: &str, percent: u32) -> Self {
        if mask_of(0).unwrap() != CpuSet::from_range(0..2) {
            quo_tests::suite::skip("needs exactly CPUs 0 and 1");
        }
        let places = [("/sys/fs/cgroup/cpu", false), ("/sys/fs/cgroup", true)];
        let file = |unified| if unified { "cpu.max" } else { "cpu.cfs_quota_us" };
        for (root, unified) in places {
            let name = format!("quo-test-{name}-{}", std::process::id());
            let group = Self(Path::new(root).join(name));
            let amount = u64::from(percent) * 1_000;
            let text = if unified { format!("{amount} 100000") } else { amount.to_string() };
            if fs::create_dir(&group.0).is_ok()
                && fs::write(group.0.join(file(unified)), text).is_ok()
            {
                return group;
            }
        }
        quo_tests::suite::skip("no control group with a CPU quota can be made here: needs root")
    }

    /// Moves this process into the group.
    fn enter(&self) {
        fs::write(self.0.join("cgroup.procs"), std::process::id().to_string()).unwrap();
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        let _ = fs::remove_dir(&self.0);
    }
}

/// Returns the threads of each worker of a phase over `kind`, for ranks in a group with this quota;
/// also checks whether the explanation names the quota.
fn threads(percent: u32, ranks: usize, kind: ObjectType, variables: &[(&str, &str)]) -> Vec<usize> {
    let (segments, group) = (Segments::new(), Group::new("threads", percent));
    let space = LocalSpace::new(ranks, segments.path()).unwrap();
    let folder = tempfile::tempdir().unwrap();
    Ranks::fork(ranks, |rank| {
        group.enter();
        variables.iter().for_each(|(name, value)| set(name, value));
        let own = space.join(rank).unwrap();
        let context = Context::create_with(own, options(segments.path())).unwrap();
        let phase = context.phase(PhaseSpec::over(kind)).unwrap();
        let threads = phase.run(|worker| worker.threads()).unwrap().value.unwrap_or(0);
        fs::write(folder.path().join(rank.to_string()), threads.to_string()).unwrap();
        let told = context.explain().unwrap().to_string();
        let low = percent <= 100 && variables.is_empty();
        assert_eq!(told.contains("has a quota of"), low, "{told}");
        context.free().unwrap();
    })
    .succeed();
    let read = |rank: usize| fs::read_to_string(folder.path().join(rank.to_string())).unwrap();
    (0..ranks).map(|rank| read(rank).parse().unwrap()).collect()
}

fn quota_caps_the_threads_of_a_worker() {
    for (percent, expected) in [(50, 1), (100, 1), (150, 2), (400, 2)] {
        assert_eq!(threads(percent, 1, ObjectType::Machine, &[]), [expected], "{percent} %");
    }
}

fn quota_is_shared_by_workers() {
    assert_eq!(threads(100, 2, ObjectType::Machine, &[]), [1, 0]);
    assert_eq!(threads(100, 2, ObjectType::Pu, &[]), [1, 1]);
}

fn ignored_quota_caps_nothing() {
    let ignore = [("QUO_CPU_QUOTA", "ignore")];
    assert_eq!(threads(50, 1, ObjectType::Machine, &ignore), [2]);
}

fn simulated_machine_has_no_quota() {
    let machine = [("QUO_TOPOLOGY", "core:4 pu:1")];
    assert_eq!(threads(50, 1, ObjectType::Machine, &machine), [4]);
}
