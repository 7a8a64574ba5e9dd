//! Kinds of cores and devices, as reported by the kernel.
//!
//! | file under `/sys/devices` | content |
//! |---|---|
//! | `cpu_core/cpus`, `cpu_atom/cpus`, `cpu_lowpower/cpus` | Intel's types of cores |
//! | `system/cpu/cpuN/cpu_capacity` | the speed of a CPU; 1024 is that of the fastest |
//! | `system/cpu/cpuN/cpufreq/cpuinfo_max_freq` | the highest frequency in kHz |
//!
//! Under `/sys/bus/pci/devices` each device has a folder with its `class`, `vendor` and
//! `local_cpulist`; drivers add folders such as `net` and `infiniband`, which contain a folder per
//! name.

use std::path::Path;

use crate::CpuSet;

use super::devices::{Device, DeviceKind, MAX_DEVICES, in_order};
use super::kinds::RawKind;

pub(super) const ROOT: &str = "/sys/devices";

pub(super) const PCI: &str = "/sys/bus/pci/devices";

/// Folders in which drivers name devices.
const NAMED: [&str; 5] = ["infiniband", "net", "nvme", "drm", "block"];

/// From slow to fast.
const INTEL: [(&str, &str); 3] =
    [("cpu_lowpower", "IntelLowPower"), ("cpu_atom", "IntelAtom"), ("cpu_core", "IntelCore")];

/// Returns the kinds of the cores of a machine; empty if all are alike or the kernel reports none.
/// On a processor without kinds this checks four names.
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

/// Returns the devices on the PCI bus, in its order.
pub(super) fn devices(bus: &Path, machine: &CpuSet) -> Vec<Device> {
    let folders = std::fs::read_dir(bus).into_iter().flatten().flatten();
    let found = folders.filter_map(|folder| device(&folder.path(), machine));
    in_order(found.take(MAX_DEVICES).collect())
}

fn device(folder: &Path, machine: &CpuSet) -> Option<Device> {
    let text = |file: &str| std::fs::read_to_string(folder.join(file)).unwrap_or_default();
    let number = |file: &str| u32::from_str_radix(text(file).trim().trim_start_matches("0x"), 16);
    // The lowest byte is the programming interface.
    let kind = DeviceKind::of_class(u16::try_from(number("class").ok()? >> 8).ok()?)?;
    let near = text("local_cpulist").trim().parse::<CpuSet>().unwrap_or_default();
    let near = near.intersection(machine);
    let listed = |driver: &&str| std::fs::read_dir(folder.join(driver)).into_iter().flatten();
    let mut names: Vec<String> = NAMED
        .iter()
        .flat_map(listed)
        .flatten()
        .map(|name| name.file_name().to_string_lossy().into_owned())
        .collect();
    names.sort_unstable();
    Some(Device {
        kind,
        bus: folder.file_name()?.to_string_lossy().into_owned(),
        vendor: number("vendor").ok().and_then(|vendor| u16::try_from(vendor).ok()).unwrap_or(0),
        names,
        cpuset: if near.is_empty() { machine.clone() } else { near },
    })
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

/// Groups CPUs by capacity; empty unless every CPU has one.
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
    fn devices_of_the_bus_have_names_and_near_cpus() {
        let tree = Tree::new();
        let file = |bus: &str, name: &str, text: &str| tree.write(&format!("{bus}/{name}"), text);
        for (bus, class, vendor, near) in [
            ("0000:c1:00.0", "0x030200", "0x10de", "4-7"),
            ("0000:17:00.0", "0x020700", "0x15b3", "0-3,90"),
            ("0000:00:1f.0", "0x060100", "0x8086", "0-7"),
            ("0000:01:00.0", "0x010802", "0x144d", ""),
        ] {
            file(bus, "class", class);
            file(bus, "vendor", vendor);
            file(bus, "local_cpulist", near);
        }
        file("0000:17:00.0", "infiniband/mlx5_0/x", "");
        file("0000:17:00.0", "net/ib0/x", "");
        let found = devices(tree.0.path(), &CpuSet::from_range(0..8));
        let told: Vec<String> = found.iter().map(ToString::to_string).collect();
        let expected = [
            "storage 0000:01:00.0: near CPUs 0-7",
            "network 0000:17:00.0 (ib0, mlx5_0): near CPUs 0-3",
            "gpu 0000:c1:00.0: near CPUs 4-7",
        ];
        assert_eq!(told, expected);
        assert_eq!(found[2].vendor, 0x10de);
        assert_eq!(devices(&tree.0.path().join("none"), &CpuSet::single(0)), []);
    }

    #[test]
    fn machine_that_tells_nothing_has_no_kinds() {
        assert_eq!(Tree::new().kinds(4), []);
    }
}
