//! What the kernel tells of the kinds of cores.
//!
//! | file under `/sys/devices` | tells |
//! |---|---|
//! | `cpu_core/cpus`, `cpu_atom/cpus`, `cpu_lowpower/cpus` | Intel's types of cores |
//! | `system/cpu/cpuN/cpu_capacity` | the speed of a CPU; 1024 is that of the fastest |
//! | `system/cpu/cpuN/cpufreq/cpuinfo_max_freq` | the highest frequency in kHz |

use std::path::Path;

use crate::CpuSet;

use super::kinds::RawKind;

pub(super) const ROOT: &str = "/sys/devices";

/// From slow to fast.
const INTEL: [(&str, &str); 3] =
    [("cpu_lowpower", "IntelLowPower"), ("cpu_atom", "IntelAtom"), ("cpu_core", "IntelCore")];

/// The kinds of the cores of a machine; none where all are alike, or nothing is told. Costs a
/// processor without kinds a look at four names.
pub(super) fn core_kinds(root: &Path, machine: &CpuSet) -> Vec<RawKind> {
    let mut kinds = intel(root, machine);
    if kinds.len() < 2 {
        kinds = by_capacity(root, machine);
    }
    if kinds.len() < 2 {
        return Vec::new();
    }
    for kind in &mut kinds {
        kind.capacity = kind.cpuset.iter().filter_map(|cpu| capacity(root, cpu)).max();
        let highest = |cpu| number(root, cpu, "cpufreq/cpuinfo_max_freq");
        kind.highest_mhz = kind.cpuset.iter().filter_map(highest).max().map(|khz| khz / 1000);
    }
    kinds
}

fn intel(root: &Path, machine: &CpuSet) -> Vec<RawKind> {
    let kind = |(rank, (folder, name)): (u64, (&str, &str))| {
        let list = std::fs::read_to_string(root.join(folder).join("cpus")).ok()?;
        let cpuset = list.trim().parse::<CpuSet>().ok()?.intersection(machine);
        let (efficiency, name) = (Some(rank), name.to_owned());
        (!cpuset.is_empty()).then(|| RawKind { cpuset, efficiency, name, ..RawKind::default() })
    };
    (0..).zip(INTEL).filter_map(kind).collect()
}

/// Every CPU has a capacity, or it means nothing.
fn by_capacity(root: &Path, machine: &CpuSet) -> Vec<RawKind> {
    let mut kinds: Vec<RawKind> = Vec::new();
    for cpu in machine.iter() {
        let Some(own) = capacity(root, cpu) else { return Vec::new() };
        match kinds.iter_mut().find(|kind| kind.capacity == Some(own)) {
            Some(kind) => kind.cpuset.insert(cpu),
            None => kinds.push(RawKind {
                cpuset: CpuSet::single(cpu),
                capacity: Some(own),
                ..RawKind::default()
            }),
        }
    }
    kinds
}

fn capacity(root: &Path, cpu: usize) -> Option<u32> {
    number(root, cpu, "cpu_capacity")
}

fn number(root: &Path, cpu: usize, file: &str) -> Option<u32> {
    let path = root.join(format!("system/cpu/cpu{cpu}")).join(file);
    std::fs::read_to_string(path).ok()?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::super::kinds::arrange;
    use super::*;

    struct Tree(tempfile::TempDir);

    impl Tree {
        fn new() -> Self {
            Self(tempfile::tempdir().unwrap())
        }

        fn write(&self, path: &str, text: &str) {
            let path = self.0.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, format!("{text}\n")).unwrap();
        }

        fn kinds(&self, cpus: usize) -> Vec<(String, u32, String)> {
            let kinds = arrange(core_kinds(self.0.path(), &CpuSet::from_range(0..cpus)));
            let told = kinds.into_iter();
            told.map(|kind| (kind.cpuset.to_string(), kind.speed, kind.name)).collect()
        }
    }

    #[test]
    fn intel_core_types_are_kinds_with_their_frequencies() {
        let tree = Tree::new();
        tree.write("cpu_core/cpus", "0-3");
        tree.write("cpu_atom/cpus", "4-7");
        for cpu in 0..8 {
            let khz = if cpu < 4 { 4_700_000 + cpu } else { 3_500_000 };
            let file = format!("system/cpu/cpu{cpu}/cpufreq/cpuinfo_max_freq");
            tree.write(&file, &khz.to_string());
        }
        let (slow, fast) = (("4-7", 3_500, "IntelAtom"), ("0-3", 4_700, "IntelCore"));
        let expected = [slow, fast].map(|(cpus, speed, name)| (cpus.into(), speed, name.into()));
        assert_eq!(tree.kinds(8), expected);
        assert_eq!(tree.kinds(4), [], "one kind is none");
    }

    #[test]
    fn capacities_of_the_kernel_make_kinds() {
        let tree = Tree::new();
        for cpu in 0..6 {
            let capacity = if cpu < 4 { "446" } else { "1024" };
            tree.write(&format!("system/cpu/cpu{cpu}/cpu_capacity"), capacity);
        }
        let expected = [("0-3", 446), ("4-5", 1024)];
        let expected = expected.map(|(cpus, speed)| (cpus.to_owned(), speed, String::new()));
        assert_eq!(tree.kinds(6), expected);
        assert_eq!(tree.kinds(7), [], "CPU 6 has none");
    }

    #[test]
    fn machine_that_tells_nothing_has_no_kinds() {
        assert_eq!(Tree::new().kinds(4), []);
    }
}
