//! Machines kept as files: the expected reading of each, and a check that hwloc reads the same.

use std::path::PathBuf;

use super::ObjectType::{Core, Die, L1Cache, L2Cache, L3Cache, Machine, NumaNode, Package, Pu};
use super::*;
use crate::CpuSet;

fn file(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/machines").join(name)
}

fn machine(name: &str) -> Topology {
    Topology::from_xml_file(&file(name)).unwrap()
}

/// A file, and the counts of every type in the order of `ObjectType::ALL`.
const COUNTS: [(&str, [usize; 9]); 9] = [
    ("two-packages.xml", [1, 2, 2, 0, 2, 32, 32, 32, 32]),
    ("four-numa-nodes.xml", [1, 4, 2, 0, 4, 32, 32, 32, 32]),
    ("dies-and-smt.xml", [1, 4, 2, 4, 8, 32, 32, 32, 64]),
    ("fast-and-slow-cores.xml", [1, 1, 1, 0, 1, 8, 14, 14, 20]),
    ("memory-without-cpus.xml", [1, 3, 2, 0, 0, 0, 0, 16, 16]),
    ("gpus.xml", [1, 2, 2, 0, 0, 0, 0, 8, 8]),
    ("large.xml", [1, 8, 8, 0, 0, 0, 0, 576, 1_152]),
    ("hwloc-1.xml", [1, 2, 2, 0, 2, 12, 12, 12, 24]),
    ("hwloc-1-one-node.xml", [1, 1, 1, 0, 1, 4, 4, 4, 8]),
];

#[test]
fn each_machine_has_its_counts() {
    for (name, counts) in COUNTS {
        let machine = machine(name);
        for (kind, count) in ObjectType::ALL.into_iter().zip(counts) {
            assert_eq!(machine.count(kind), count, "{name}: {kind}");
        }
    }
}

#[test]
fn hwloc_reads_the_same_from_each_file() {
    for (name, _) in COUNTS {
        let text = std::fs::read_to_string(file(name)).unwrap();
        let ours = Topology::from_xml(&text).unwrap();
        let mut theirs = hwloc::reference(&text).unwrap();
        // Not queried: versions before 2.4 have no kinds.
        theirs.set_core_kinds(ours.core_kinds().to_vec()).unwrap();
        let theirs = theirs.with_devices(ours.devices());
        assert_eq!(ours, theirs, "{name}");
    }
}

#[test]
fn hwloc_reads_the_same_from_what_it_writes() {
    for text in ["package:2 [numa] die:2 [numa] l3:1 core:2 pu:2", "[numa] 2 2 [numa] 2 2"] {
        let xml = hwloc::written(text);
        let ours = Topology::from_xml(&xml).unwrap();
        assert_eq!(ours, hwloc::reference(&xml).unwrap(), "{text}");
        for kind in ObjectType::ALL {
            let direct = Topology::from_synthetic(text).unwrap();
            assert_eq!(ours.objects(kind), direct.objects(kind), "{text}: {kind}");
        }
    }
}

#[test]
fn each_machine_has_its_containments() {
    for (name, outer, index, inner, count) in [
        ("two-packages.xml", Package, 1, Core, 16),
        ("two-packages.xml", NumaNode, 1, L2Cache, 16),
        ("four-numa-nodes.xml", Package, 0, NumaNode, 2),
        ("four-numa-nodes.xml", NumaNode, 3, Core, 8),
        ("dies-and-smt.xml", Package, 1, Die, 2),
        ("dies-and-smt.xml", Die, 3, L3Cache, 2),
        ("dies-and-smt.xml", Die, 0, NumaNode, 1),
        ("dies-and-smt.xml", Core, 31, Pu, 2),
        ("fast-and-slow-cores.xml", L2Cache, 0, Pu, 2),
        ("fast-and-slow-cores.xml", L2Cache, 6, Core, 4),
        ("fast-and-slow-cores.xml", L2Cache, 6, Pu, 4),
        ("memory-without-cpus.xml", Package, 0, NumaNode, 1),
        ("memory-without-cpus.xml", Machine, 0, NumaNode, 3),
        ("memory-without-cpus.xml", NumaNode, 2, NumaNode, 1),
        ("memory-without-cpus.xml", NumaNode, 2, Pu, 0),
        ("large.xml", NumaNode, 7, Core, 72),
        ("large.xml", Package, 7, Pu, 144),
        ("hwloc-1.xml", NumaNode, 1, Pu, 12),
        ("hwloc-1.xml", Package, 1, L1Cache, 6),
    ] {
        let found = machine(name).count_inside(outer, index, inner).unwrap();
        assert_eq!(found, count, "{name}: {inner} in {outer} {index}");
    }
}

#[test]
fn each_machine_has_its_enclosing_objects() {
    for (name, kind, cpus, index) in [
        ("four-numa-nodes.xml", NumaNode, "8-9", Some(1)),
        ("four-numa-nodes.xml", NumaNode, "7-8", None),
        ("four-numa-nodes.xml", Package, "7-8", Some(0)),
        ("dies-and-smt.xml", Core, "0,32", Some(0)),
        ("dies-and-smt.xml", Die, "8-15,40", Some(1)),
        ("fast-and-slow-cores.xml", L2Cache, "13-14", Some(6)),
        ("fast-and-slow-cores.xml", Core, "10-11", Some(5)),
        ("fast-and-slow-cores.xml", Core, "12-13", None),
        ("memory-without-cpus.xml", NumaNode, "3", Some(0)),
        ("memory-without-cpus.xml", NumaNode, "3,12", None),
        ("large.xml", Package, "1100,1151", Some(7)),
        ("large.xml", Core, "575,1151", Some(575)),
    ] {
        let found = machine(name).enclosing(kind, &cpus.parse().unwrap()).map(|found| found.index);
        assert_eq!(found, index, "{name}: {kind} of {cpus}");
    }
}

#[test]
fn without_smt_an_asymmetric_machine_keeps_all_cores() {
    let single = machine("fast-and-slow-cores.xml").without_smt();
    assert_eq!(single.count(Core), 14);
    assert_eq!(single.count(Pu), 14);
    assert_eq!(single.machine_cpuset(), &"0,2,4,6,8,10,12-19".parse::<CpuSet>().unwrap());
    assert_eq!(machine("large.xml").without_smt().count(Pu), 576);
}

#[test]
fn names_memory_and_allowed_cpus_come_from_the_file() {
    let hybrid = machine("fast-and-slow-cores.xml");
    assert_eq!(hybrid.objects(Machine)[0].name, "Laptop");
    assert_eq!(hybrid.objects(Package)[0].name, "Fast and slow cores");
    assert_eq!(hybrid.objects(NumaNode)[0].memory, 32 << 30);
    assert_eq!(hybrid.objects(L1Cache)[13].memory, 32 << 10);
    let server = machine("memory-without-cpus.xml");
    assert_eq!(server.objects(Package)[1].name, "Server & more");
    assert_eq!(server.allowed(), &"2-9".parse::<CpuSet>().unwrap());
    assert_eq!(server.machine_cpuset().len(), 16);
    let memory: Vec<_> = server.objects(NumaNode).iter().map(|node| node.memory >> 30).collect();
    assert_eq!(memory, [128, 128, 512]);
}

#[test]
fn hybrid_machine_has_its_kinds_of_cores() {
    let kinds = |machine: &Topology| -> Vec<(String, u32, String)> {
        let told = |kind: &CoreKind| (kind.cpuset.to_string(), kind.speed, kind.name.clone());
        machine.core_kinds().iter().map(told).collect()
    };
    let hybrid = machine("fast-and-slow-cores.xml");
    let (slow, fast) = (("12-19", 3_500, "IntelAtom"), ("0-11", 4_700, "IntelCore"));
    let expected = [slow, fast].map(|(cpus, speed, name)| (cpus.into(), speed, name.into()));
    assert_eq!(kinds(&hybrid), expected);
    assert_eq!(kinds(&Topology::from_bytes(&hybrid.to_bytes()).unwrap()), expected);
    assert_eq!(kinds(&hybrid.without_smt())[1].0, "0,2,4,6,8,10");
    assert_eq!(kinds(&machine("two-packages.xml")), [("0-31".to_owned(), 0, String::new())]);
}

#[test]
fn devices_of_a_file_have_names_and_near_cpus() {
    let gpus = machine("gpus.xml");
    let told = |machine: &Topology| -> Vec<String> {
        machine.devices().iter().map(ToString::to_string).collect()
    };
    let expected = [
        "network 0000:17:00.0 (ib0, mlx5_0): near CPUs 0-3",
        "gpu 0000:3b:00.0 (cuda0): near CPUs 0-3",
        "storage 0000:81:00.0 (nvme0n1): near CPUs 4-7",
        "gpu 0000:c1:00.0 (cuda1): near CPUs 4-7",
    ];
    assert_eq!(told(&gpus), expected);
    assert_eq!(told(&Topology::from_bytes(&gpus.to_bytes()).unwrap()), expected);
    assert!(gpus.devices()[1].is_near(&"3-4".parse().unwrap()));
    assert!(!gpus.devices()[1].is_near(&"4".parse().unwrap()));
    assert_eq!(told(&machine("two-packages.xml")), [""; 0]);
}

#[test]
fn kinds_of_cores_that_share_a_cpu_are_refused() {
    let text = std::fs::read_to_string(file("fast-and-slow-cores.xml")).unwrap();
    let wrong = text.replace("cpukind cpuset=\"0x000ff000\"", "cpukind cpuset=\"0x000ff800\"");
    let error = Topology::from_xml(&wrong).unwrap_err().to_string();
    assert!(error.contains("CPUs `11` are of two kinds"), "{error}");
    let wrong = text.replace("cpukind cpuset=\"0x000ff000\"", "cpukind");
    assert!(Topology::from_xml(&wrong).unwrap_err().to_string().contains("has no cpuset"));
}

#[test]
fn what_contradicts_itself_is_refused_with_its_line() {
    let text = std::fs::read_to_string(file("memory-without-cpus.xml")).unwrap();
    for (from, to, cause) in [
        ("cpuset=\"0x00000001\" complete", "cpuset=\"0x00000100\" complete", "line 9: a Core has"),
        ("type=\"PU\" os_index=\"3\"", "type=\"PU\" os_index=\"4\"", "another number"),
        ("type=\"Core\"", "type=\"PU\"", "shares CPUs"),
        ("type=\"PU\"", "type=\"Thread\"", "its PUs `1-15`"),
        ("local_memory=\"549", "local_memory=\"x549", "line 5: the local_memory"),
        ("</topology>", "", "never closed"),
        ("<topology", "<machine", "line 63: expected 'machine' tag"),
        (" cpuset=\"0x000000ff\"", "", "no cpuset"),
        (" cpuset=\"0x000000ff\"", " cpuset=\"0xf...f\"", "no end"),
        ("allowed_cpuset=\"0x000003fc\"", "allowed_cpuset=\"many\"", "allowed set"),
        ("allowed_cpuset=\"0x000003fc\"", "allowed_cpuset=\"0x0\"", "none of its CPUs is allowed"),
    ] {
        assert!(text.contains(from), "{from}");
        let wrong = text.replacen(from, to, 1);
        let error = Topology::from_xml(&wrong).unwrap_err().to_string();
        assert!(error.contains(cause), "{from} -> {to}: {error}");
    }
    for cut in (0..text.len() - 2).step_by(97) {
        assert!(Topology::from_xml(&text[..cut]).is_err(), "cut at {cut}");
    }
}

proptest::proptest! {
    #![proptest_config(proptest::prelude::ProptestConfig::with_cases(200))]

    /// The damage must be reported as an error or be harmless; it must never end the process.
    #[test]
    fn damaged_files_are_refused_or_consistent(
        which in 0..COUNTS.len(),
        damage in proptest::collection::vec((proptest::prelude::any::<proptest::sample::Index>(), 0..5_u8, "[ -~]"), 1..4),
    ) {
        let (name, _) = COUNTS[if COUNTS[which].0 == "large.xml" { 0 } else { which }];
        let mut lines: Vec<String> =
            std::fs::read_to_string(file(name)).unwrap().lines().map(str::to_owned).collect();
        for (at, how, with) in damage {
            let line = at.index(lines.len());
            match how {
                0 => drop(lines.remove(line)),
                1 => lines.insert(line, lines[at.index(lines.len() / 2 + 1)].clone()),
                2 => lines.swap(line, 0),
                _ => {
                    let cut = at.index(lines[line].len() + 1);
                    let end = (cut + usize::from(how == 3)).min(lines[line].len());
                    lines[line].replace_range(cut..end, &with);
                }
            }
        }
        if let Ok(machine) = Topology::from_xml(&lines.join("\n")) {
            for kind in ObjectType::ALL {
                let inside = machine.count_inside(Machine, 0, kind).unwrap();
                proptest::prop_assert_eq!(inside, machine.count(kind));
            }
        }
    }
}
