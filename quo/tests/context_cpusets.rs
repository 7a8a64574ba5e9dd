//! Contexts whose control group loses CPUs while they live: real cpusets, as root.
#![allow(clippy::unwrap_used, missing_docs)]

mod support;

use std::fs;
use std::path::{Path, PathBuf};

use quo::affinity::Target;
use quo::group::local::LocalSpace;
use quo::{Context, CpuSet, ObjectType};
use support::contexts::options;
use support::{Ranks, Segments};

fn main() {
    support::run(&[("shrunk_cpuset_is_used_by_contexts", shrunk_cpuset_is_used_by_contexts)]);
}

/// A control group of version 1, removed at the end.
struct Group(PathBuf);

impl Group {
    fn new() -> Self {
        let root = Path::new("/sys/fs/cgroup/cpuset");
        let Ok(memory) = fs::read_to_string(root.join("cpuset.mems")) else {
            support::skip("no cpuset of control groups version 1 is mounted");
        };
        let group = root.join(format!("quo-test-{}", std::process::id()));
        if fs::create_dir(&group).is_err() {
            support::skip("control groups cannot be made here: needs root");
        }
        let group = Self(group);
        group.write("cpuset.mems", memory.trim());
        group
    }

    fn write(&self, file: &str, text: &str) {
        fs::write(self.0.join(file), text).unwrap();
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        let _ = fs::remove_dir(&self.0);
    }
}

fn shrunk_cpuset_is_used_by_contexts() {
    if quo::affinity::kernel::mask_of(0).unwrap() != CpuSet::from_range(0..2) {
        support::skip("needs exactly CPUs 0 and 1");
    }
    let (segments, group) = (Segments::new(), Group::new());
    group.write("cpuset.cpus", "0-1");
    let spaces = [0, 1].map(|_| LocalSpace::new(1, segments.path()).unwrap());
    Ranks::fork(1, |_| {
        let both = CpuSet::from_range(0..2);
        let left = CpuSet::single(0);
        group.write("cgroup.procs", &std::process::id().to_string());
        let create = |space: &LocalSpace| {
            Context::create_with(space.join(0).unwrap(), options(segments.path())).unwrap()
        };
        let context = create(&spaces[0]);
        let machine = Target::Object(ObjectType::Machine, 0);
        assert_eq!(context.push(&machine).unwrap(), both);
        group.write("cpuset.cpus", "0");
        context.pop().unwrap();
        assert_eq!(context.binding().unwrap(), left);
        assert!(context.explain().unwrap().to_string().contains("only 0 are allowed"));
        assert_eq!(context.push(&machine).unwrap(), left);
        context.pop().unwrap();
        let error = context.push(&Target::Cpus(CpuSet::single(1))).unwrap_err();
        assert_eq!(error.kind(), quo::ErrorKind::Binding, "{error}");
        let later = create(&spaces[1]);
        assert_eq!(later.allowed(), left);
        assert!(!later.is_bound().unwrap());
        group.write("cpuset.cpus", "0-1");
        assert_eq!(context.push(&machine).unwrap(), both);
        context.pop().unwrap();
    })
    .succeed();
}
