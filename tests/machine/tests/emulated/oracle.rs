//! The kernel's own answers, without quo: objects from sysfs, masks by sched_getaffinity, pages
//! from numa_maps.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::unistd::Pid;
use quo::ObjectType;

/// Kernel numbers of CPUs.
pub type Cpus = BTreeSet<usize>;

const CPUS: &str = "/sys/devices/system/cpu";
const NODES: &str = "/sys/devices/system/node";

/// Returns the CPUs of each object of a type, in quo's order. Dies are left out: these machines
/// have one per package, which is then not a separate object.
pub fn objects(kind: ObjectType) -> Vec<Cpus> {
    let mut objects = unordered(kind);
    // Objects of a NUMA node are consecutive, whatever the kernel's numbers are.
    let nodes = numa_nodes();
    objects.sort_by_key(|cpus| {
        // Nodes without CPUs are last.
        let first = cpus.first().copied().unwrap_or(usize::MAX);
        let node = nodes.iter().position(|node| node.contains(&first)).unwrap_or(usize::MAX);
        (node, first)
    });
    objects
}

fn unordered(kind: ObjectType) -> Vec<Cpus> {
    match kind {
        ObjectType::Machine => vec![online()],
        ObjectType::NumaNode => numa_nodes(),
        ObjectType::Package => shared_by("topology/package_cpus_list"),
        ObjectType::L3Cache => caches(3),
        ObjectType::L2Cache => caches(2),
        ObjectType::L1Cache => caches(1),
        ObjectType::Core => shared_by("topology/core_cpus_list"),
        ObjectType::Pu => online().into_iter().map(|cpu| Cpus::from([cpu])).collect(),
        _ => Vec::new(),
    }
}

/// Returns all CPUs.
pub fn online() -> Cpus {
    list(&read(&format!("{CPUS}/online")))
}

/// Returns the memory of a NUMA node in MiB, less the part that the kernel took before it counted.
pub fn memory_of(node: usize) -> usize {
    let text = read(&format!("{NODES}/node{node}/meminfo"));
    let line = text.lines().find(|line| line.contains("MemTotal:")).unwrap();
    line.split_whitespace().rev().nth(1).unwrap().parse::<usize>().unwrap() / 1024
}

/// Returns the distances of the NUMA nodes from a node.
pub fn distances_from(node: usize) -> Vec<u8> {
    let text = read(&format!("{NODES}/node{node}/distance"));
    text.split_whitespace().map(|distance| distance.parse().unwrap()).collect()
}

fn numa_nodes() -> Vec<Cpus> {
    let nodes = list(&read(&format!("{NODES}/has_memory")));
    nodes.into_iter().map(|node| list(&read(&format!("{NODES}/node{node}/cpulist")))).collect()
}

fn caches(level: usize) -> Vec<Cpus> {
    let mut groups = BTreeSet::new();
    for cpu in online() {
        for index in 0.. {
            let folder = format!("{CPUS}/cpu{cpu}/cache/index{index}");
            if !Path::new(&folder).exists() {
                break;
            }
            let kind = read(&format!("{folder}/type"));
            if read(&format!("{folder}/level")) == level.to_string() && kind != "Instruction" {
                groups.insert(list(&read(&format!("{folder}/shared_cpu_list"))));
            }
        }
    }
    groups.into_iter().collect()
}

fn shared_by(file: &str) -> Vec<Cpus> {
    let groups: BTreeSet<Cpus> =
        online().iter().map(|cpu| list(&read(&format!("{CPUS}/cpu{cpu}/{file}")))).collect();
    groups.into_iter().collect()
}

fn read(file: &str) -> String {
    fs::read_to_string(file).unwrap_or_else(|error| panic!("{file}: {error}")).trim().to_owned()
}

/// Parses a list such as `0-3,8`.
fn list(text: &str) -> Cpus {
    let mut cpus = Cpus::new();
    for part in text.split(',').filter(|part| !part.is_empty()) {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        cpus.extend(first.parse::<usize>().unwrap()..=last.parse::<usize>().unwrap());
    }
    cpus
}

/// Returns the mask of a thread; the caller's for 0.
pub fn mask_of(thread: i32) -> Cpus {
    let mask = sched_getaffinity(Pid::from_raw(thread)).unwrap();
    (0..CpuSet::count()).filter(|&cpu| mask.is_set(cpu).unwrap()).collect()
}

/// Returns the masks of all threads of this process, by thread.
pub fn masks() -> BTreeMap<i32, Cpus> {
    let threads = fs::read_dir("/proc/self/task").unwrap();
    let thread = |entry: fs::DirEntry| entry.file_name().to_str().unwrap().parse().unwrap();
    threads.map(|entry| thread(entry.unwrap())).map(|id| (id, mask_of(id))).collect()
}

/// Binds the caller and no other thread.
pub fn bind(cpus: &Cpus) {
    let mut mask = CpuSet::new();
    for &cpu in cpus {
        mask.set(cpu).unwrap();
    }
    sched_setaffinity(Pid::from_raw(0), &mask).unwrap();
}

/// Converts CPUs to quo's set.
pub fn as_set(cpus: &Cpus) -> quo::CpuSet {
    cpus.iter().copied().collect()
}

/// Touches fresh memory, and checks that its pages lie on a NUMA node, by the kernel's number.
pub fn touch_and_find_on(node: usize) {
    // Large enough to be a separate mapping, fresh from the kernel: the C library keeps freed
    // blocks of up to 32 MiB with their pages.
    const BYTES: usize = 40 << 20;
    const PAGE: usize = 4096;
    let mut memory = vec![0_u8; BYTES];
    memory.iter_mut().step_by(PAGE).for_each(|byte| *byte = 1);
    let address = memory.as_ptr() as usize;
    let (start, end) = mapping_around(address);
    let pages = pages_of(start);
    let all = (end - start) / PAGE;
    // The mapping may also contain a neighbour's pages, and the block does not begin on a page.
    let others = all - BYTES / PAGE + 2;
    let there = pages.get(&node).copied().unwrap_or(0);
    let elsewhere: usize = pages.values().sum::<usize>() - there;
    assert!(
        there + 2 >= BYTES / PAGE && elsewhere <= others,
        "{} pages were touched, by node there are {pages:?}, {there} of them on node {node}",
        BYTES / PAGE
    );
}

fn mapping_around(address: usize) -> (usize, usize) {
    let maps = fs::read_to_string("/proc/self/maps").unwrap();
    let number = |text: &str| usize::from_str_radix(text, 16).unwrap();
    let ranges = maps.lines().map(|line| line.split(' ').next().unwrap().split_once('-').unwrap());
    let mut ranges = ranges.map(|(start, end)| (number(start), number(end)));
    ranges.find(|(start, end)| (*start..*end).contains(&address)).unwrap()
}

/// Returns the 4-KiB pages of a mapping, by NUMA node.
fn pages_of(start: usize) -> BTreeMap<usize, usize> {
    let maps = fs::read_to_string("/proc/self/numa_maps").unwrap();
    let begin = format!("{start:x} ");
    let line = maps.lines().find(|line| line.trim_start_matches('0').starts_with(&begin)).unwrap();
    let words: BTreeMap<&str, &str> =
        line.split_whitespace().filter_map(|word| word.split_once('=')).collect();
    let factor = words["kernelpagesize_kB"].parse::<usize>().unwrap() / 4;
    let node = |name: &str| name.strip_prefix('N')?.parse::<usize>().ok();
    let pages = words.iter().filter_map(|(name, count)| Some((node(name)?, *count)));
    pages.map(|(node, count)| (node, count.parse::<usize>().unwrap() * factor)).collect()
}
