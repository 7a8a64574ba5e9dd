//! Promises of a snapshot, on machines of every shape.

use std::path::Path;

use proptest::prelude::*;

use super::*;
use crate::CpuSet;

fn cpus(list: &str) -> CpuSet {
    list.parse().unwrap()
}

fn synthetic(text: &str) -> Topology {
    Topology::from_synthetic(text).unwrap()
}

#[test]
fn this_machine_is_described() {
    let machine = Topology::live().unwrap();
    assert!(!machine.is_simulated());
    assert_eq!(machine.count(ObjectType::Machine), 1);
    assert!(machine.count(ObjectType::Pu) >= machine.allowed().len());
    assert!(machine.allowed().is_subset(machine.machine_cpuset()));
    assert!(machine.count(ObjectType::NumaNode) >= 1);
}

#[test]
fn discovery_leaves_the_mask_of_the_caller_alone() {
    let before = rustix::thread::sched_getaffinity(None).unwrap();
    Topology::live().unwrap();
    assert_eq!(rustix::thread::sched_getaffinity(None).unwrap(), before);
}

#[test]
fn two_sockets_are_counted_and_nested() {
    let machine = synthetic("package:2 numa:1 l3:1 core:8 pu:2");
    for (kind, count) in [
        (ObjectType::Machine, 1),
        (ObjectType::NumaNode, 2),
        (ObjectType::Package, 2),
        (ObjectType::Die, 0),
        (ObjectType::L3Cache, 2),
        (ObjectType::Core, 16),
        (ObjectType::Pu, 32),
    ] {
        assert_eq!(machine.count(kind), count, "{kind}");
    }
    let (package, core) = (ObjectType::Package, ObjectType::Core);
    assert_eq!(machine.count_inside(package, 1, core).unwrap(), 8);
    let inside: Vec<_> =
        machine.objects_inside(package, 1, core).unwrap().map(|core| core.index).collect();
    assert_eq!(inside, (8..16).collect::<Vec<_>>());
    assert_eq!(machine.object(core, 9).unwrap().cpuset, cpus("18-19"));
    assert!(machine.is_simulated());
}

#[test]
fn a_missing_object_is_named_with_what_there_is() {
    let machine = synthetic("package:2 core:2 pu:1");
    let error = machine.object(ObjectType::Package, 7).unwrap_err().to_string();
    assert_eq!(error, "there is no package 7: this machine has 2 packages");
    let error = machine.count_inside(ObjectType::Die, 0, ObjectType::Core).unwrap_err();
    assert_eq!(error.to_string(), "there is no die 0: this machine has no dies");
    assert!(machine.objects_inside(ObjectType::Core, 4, ObjectType::Pu).is_err());
}

#[test]
fn the_enclosing_object_is_the_smallest_or_none() {
    let machine = synthetic("package:2 core:2 pu:2");
    let index = |kind, list| machine.enclosing(kind, &cpus(list)).map(|object| object.index);
    assert_eq!(index(ObjectType::Core, "6-7"), Some(3));
    assert_eq!(index(ObjectType::Core, "5,7"), None);
    assert_eq!(index(ObjectType::Package, "5,7"), Some(1));
    assert_eq!(index(ObjectType::Package, "3-4"), None);
    assert_eq!(index(ObjectType::Machine, "3-4"), Some(0));
    assert_eq!(index(ObjectType::Machine, "8"), None);
    assert_eq!(index(ObjectType::Machine, ""), None);
}

#[test]
fn interleaved_cpu_numbers_do_not_disturb_the_nesting() {
    // A common firmware numbering: all first hardware threads, then all second ones.
    let machine = synthetic("package:2 core:4 pu:2(indexes=2*8:1*2)");
    let core = &machine.objects(ObjectType::Core)[3];
    assert_eq!(core.cpuset.len(), 2);
    for kind in [ObjectType::Package, ObjectType::Core, ObjectType::Pu] {
        let inside = machine.count_inside(ObjectType::Machine, 0, kind).unwrap();
        assert_eq!(inside, machine.count(kind));
    }
    for core in machine.objects(ObjectType::Core) {
        let found = machine.enclosing(ObjectType::Core, &core.cpuset);
        assert_eq!(found, Some(core));
    }
}

#[test]
fn cpu_numbers_beyond_1024_are_as_good_as_others() {
    let machine = synthetic("package:16 core:64 pu:2");
    assert_eq!(machine.machine_cpuset().len(), 2_048);
    let package = machine.enclosing(ObjectType::Package, &cpus("2040-2047")).unwrap();
    assert_eq!(package.index, 15);
    assert_eq!(machine.count_inside(ObjectType::Package, 15, ObjectType::Pu).unwrap(), 128);
}

#[test]
fn without_smt_the_lowest_allowed_pu_of_each_core_stays() {
    let machine = synthetic("package:2 core:2 pu:2");
    let machine = machine.with_allowed(&cpus("1,2,4-7")).unwrap();
    let single = machine.without_smt();
    assert_eq!(single.machine_cpuset(), &cpus("1,2,4,6"));
    assert_eq!(single.allowed(), &cpus("1,2,4,6"));
    assert_eq!(single.count(ObjectType::Pu), 4);
    assert_eq!(single.object(ObjectType::Pu, 3).unwrap().os_index, Some(6));
    assert_eq!(single.object(ObjectType::Package, 1).unwrap().cpuset, cpus("4,6"));
    let none_allowed = machine.with_allowed(&cpus("6")).unwrap().without_smt();
    assert_eq!(none_allowed.count(ObjectType::Pu), 4);
    assert_eq!(none_allowed.allowed(), &cpus("6"));
}

#[test]
fn the_allowed_set_is_kept_apart_from_the_machine() {
    let machine = synthetic("core:4 pu:1");
    assert_eq!(machine.allowed(), machine.machine_cpuset());
    let part = machine.with_allowed(&cpus("1-2")).unwrap();
    assert_eq!(part.count(ObjectType::Core), 4);
    assert_eq!(part.allowed(), &cpus("1-2"));
    assert!(machine.with_allowed(&CpuSet::new()).is_err());
    let error = machine.with_allowed(&cpus("3-4")).unwrap_err().to_string();
    assert!(error.contains("`3-4`") && error.contains("`0-3`"), "{error}");
}

#[test]
fn numa_node_without_cpus_lies_in_the_machine_only() {
    let pu = |cpu| Object::new(ObjectType::Pu, CpuSet::single(cpu));
    let objects = [
        pu(0),
        pu(1),
        Object::new(ObjectType::Package, cpus("0-1")),
        Object::new(ObjectType::NumaNode, cpus("0-1")).with_memory(64 << 30),
        Object::new(ObjectType::NumaNode, CpuSet::new()).with_memory(512 << 30),
    ];
    let machine = Topology::from_objects(objects, &cpus("0-1"), Origin::Built).unwrap();
    let inside = |outer, index, inner| machine.count_inside(outer, index, inner).unwrap();
    let numa = ObjectType::NumaNode;
    assert_eq!(inside(ObjectType::Machine, 0, numa), 2);
    assert_eq!(inside(ObjectType::Package, 0, numa), 1);
    assert_eq!(inside(numa, 0, numa), 1);
    assert_eq!(inside(numa, 1, numa), 1);
    for kind in ObjectType::ALL.into_iter().filter(|&kind| kind != numa) {
        assert_eq!(inside(numa, 1, kind), 0, "{kind}");
    }
    assert_eq!(machine.enclosing(numa, &cpus("1")).map(|node| node.index), Some(0));
    assert_eq!(machine.without_smt().count(numa), 2);
}

#[test]
fn each_cpu_belongs_to_one_numa_node() {
    // Two memories per package, as with high-bandwidth memory, and one for all packages.
    let machine = synthetic("[numa] package:2 [numa] [numa] core:2 pu:1");
    let sets: Vec<_> =
        machine.objects(ObjectType::NumaNode).iter().map(|node| node.cpuset.to_string()).collect();
    assert_eq!(sets, ["0-1", "", "2-3", "", ""]);
    assert_eq!(machine.count_inside(ObjectType::Package, 1, ObjectType::NumaNode).unwrap(), 1);
    assert_eq!(machine.enclosing(ObjectType::NumaNode, &cpus("1-2")), None);
}

#[test]
fn objects_that_contradict_each_other_are_refused_with_the_contradiction() {
    let pu = |cpu| Object::new(ObjectType::Pu, CpuSet::single(cpu));
    let core = |list| Object::new(ObjectType::Core, cpus(list));
    for (objects, cause) in [
        (vec![], "no PU"),
        (vec![pu(0), pu(0)], "shares CPUs"),
        (vec![pu(0), pu(1), core("0-1"), core("1")], "shares CPUs"),
        (vec![pu(0), core("0-1")], "belong to no PU"),
        (vec![pu(0), core("")], "has no CPU"),
        (vec![pu(MAX_CPU + 1)], "larger than"),
        (vec![Object::new(ObjectType::Pu, cpus("0-1"))], "instead of one"),
        (vec![pu(0), Object::new(ObjectType::Machine, cpus("0-1"))], "the machine has CPUs"),
        (vec![Object::new(ObjectType::Machine, cpus("0")); 2], "more than one machine"),
    ] {
        let built = Topology::from_objects(objects, &cpus("0"), Origin::Built);
        let error = built.unwrap_err().to_string();
        assert!(error.contains(cause), "{error} / {cause}");
    }
    let error = Topology::from_objects([pu(0)], &cpus("1"), Origin::Built).unwrap_err();
    assert!(error.to_string().contains("allowed"), "{error}");
}

#[test]
fn nonsense_is_refused_as_a_synthetic_machine_with_its_cause() {
    for (text, cause) in [
        ("", "empty"),
        ("   ", "empty"),
        ("garbage", "no count"),
        ("package:two", "not a number"),
        ("package:", "not a number"),
        ("package:0 pu:2", "zero"),
        ("core:1000000000 pu:4", "more than"),
        ("core:99999999999999999999999999", "more than"),
        ("core:2 pu:1000000", "more than"),
        ("2424 4 1", "too few levels"),
        ("core:1 pu:16384", "too few levels"),
        ("core:2(memory=1GB", "missing"),
        ("core:2) pu:1", "closes nothing"),
        ("core:2 pu:2(indexes=0,1,2,99999999)", "larger than"),
        ("pack\nage:2", "character"),
        ("pu:2 core:2", "last level"),
        ("core:2", "last level"),
        ("core:2 core:2 pu:2", "not understand"),
        ("wheel:4 pu:2", "not one of"),
        ("memcache:2 pu:2", "not one of"),
        ("numa:2(indexes=0,0) pu:1", "twice"),
        ("package:2(indexes=core) core:2 pu:1", "no level `core` above"),
        ("package:2 [numa(memory=1GB] pu:1", "do not match"),
        ("package:2 [numa pu:1", "missing"),
        (":2 pu:2", "no type"),
    ] {
        let error = Topology::from_synthetic(text).unwrap_err().to_string();
        assert!(error.contains(cause), "{text}: {error}");
    }
}

#[test]
fn every_way_to_write_a_synthetic_machine_is_taken() {
    for (text, pus) in [
        ("4", 4),
        ("2 3 2", 12),
        ("Package:2 NUMANode:1 L3Cache:1 L2:2 l1d:1 l1i:1 Core:1 PU:2", 8),
        ("socket:2 node:2 core:2 pu:1", 8),
        ("pack:2 numa:1 co:2 pu:1", 4),
        ("(memory=4GB) core:2 pu:2(indexes=0,2,1,3)", 4),
        ("package:2 [numa(memory=1GB)] [numa(memory=2GB)] core:2 pu:2(indexes=core:package)", 8),
        ("[numa(memory=1GB)] group:2 core:2 pu:2(indexes=2*4:1*2)", 8),
        ("l3:2(size=16MB) core:2 pu:1", 4),
    ] {
        assert_eq!(synthetic(text).count(ObjectType::Pu), pus, "{text}");
    }
}

#[test]
fn text_with_a_slash_or_xml_ending_names_a_file() {
    for spec in ["/nonexistent/machine", "./package:2", "machine.xml"] {
        let error = Topology::from_spec(spec).unwrap_err();
        assert!(matches!(error, TopologyError::File { .. }), "{error}");
        assert!(error.to_string().contains(spec) && error.to_string().contains("No such file"));
    }
    assert!(Topology::from_spec("core:2 pu:1").is_ok());
    for spec in ["/tmp", "/dev/zero"] {
        let error = Topology::from_spec(spec).unwrap_err().to_string();
        assert!(error.contains("not a regular file"), "{error}");
    }
}

#[test]
fn what_is_not_hwloc_xml_is_refused() {
    for text in ["", "hello", "<", "<topology", "<topology/>", "<html></html>", "\0", "<a>\0</a>"] {
        let error = Topology::from_xml(text).unwrap_err();
        assert!(matches!(error, TopologyError::Xml { .. }), "{text:?}: {error}");
    }
    let missing = Path::new("/nonexistent.xml");
    assert!(matches!(Topology::from_xml_file(missing), Err(TopologyError::File { .. })));
}

#[test]
fn bytes_of_another_layout_are_refused() {
    let mut bytes = synthetic("core:2 pu:1").to_bytes();
    assert!(Topology::from_bytes(&bytes).is_ok());
    let error = Topology::from_bytes(&bytes[..bytes.len() - 1]).unwrap_err();
    assert!(matches!(error, TopologyError::Bytes { .. }), "{error}");
    bytes.push(0);
    let error = Topology::from_bytes(&bytes).unwrap_err().to_string();
    assert!(error.contains("left over"), "{error}");
    bytes[0] = 9;
    let error = Topology::from_bytes(&bytes).unwrap_err().to_string();
    assert!(error.contains("left over") || error.contains("layout"), "{error}");
}

/// Generates shapes of up to 4 x 3 x 3 x 3 x 4 PUs, some with interleaved numbers.
fn shape() -> impl Strategy<Value = String> {
    (1..4_usize, 1..3_usize, 0..3_usize, 1..4_usize, 1..4_usize, any::<bool>()).prop_map(
        |(packages, nodes, dies, cores, pus, interleaved)| {
            let mut text = format!("package:{packages} ");
            if dies > 0 {
                text += &format!("die:{dies} ");
            }
            text += &format!("numa:{nodes} l3:1 core:{cores} pu:{pus}");
            if interleaved {
                let cores = packages * dies.max(1) * nodes * cores;
                text += &format!("(indexes={pus}*{cores}:1*{pus})");
            }
            text
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn objects_nest_and_their_parts_make_up_the_whole(text in shape()) {
        let machine = synthetic(&text);
        for outer in ObjectType::ALL {
            for object in machine.objects(outer) {
                for inner in ObjectType::ALL {
                    let inside: Vec<_> =
                        machine.objects_inside(outer, object.index, inner).unwrap().collect();
                    let count = machine.count_inside(outer, object.index, inner).unwrap();
                    prop_assert_eq!(inside.len(), count);
                    let slow: Vec<_> = machine
                        .objects(inner)
                        .iter()
                        .filter(|part| part.cpuset.is_subset(&object.cpuset))
                        .collect();
                    prop_assert_eq!(inside, slow);
                }
                let pus = machine.objects_inside(outer, object.index, ObjectType::Pu).unwrap();
                let union = pus.fold(CpuSet::new(), |set, pu| set.union(&pu.cpuset));
                prop_assert_eq!(&union, &object.cpuset);
            }
        }
    }

    #[test]
    fn the_enclosing_object_is_minimal(text in shape(), picks in proptest::collection::vec(any::<prop::sample::Index>(), 1..4)) {
        let machine = synthetic(&text);
        let every: Vec<_> = machine.machine_cpuset().iter().collect();
        let set: CpuSet = picks.iter().map(|pick| *pick.get(&every)).collect();
        for kind in ObjectType::ALL {
            let slow = machine
                .objects(kind)
                .iter()
                .filter(|object| set.is_subset(&object.cpuset))
                .min_by_key(|object| object.cpuset.len());
            prop_assert_eq!(machine.enclosing(kind, &set), slow);
        }
    }

    #[test]
    fn without_smt_every_core_has_one_pu(text in shape(), picks in proptest::collection::vec(any::<prop::sample::Index>(), 1..9)) {
        let machine = synthetic(&text);
        let every: Vec<_> = machine.machine_cpuset().iter().collect();
        let allowed: CpuSet = picks.iter().map(|pick| *pick.get(&every)).collect();
        let machine = machine.with_allowed(&allowed).unwrap();
        let single = machine.without_smt();
        prop_assert_eq!(single.count(ObjectType::Pu), machine.count(ObjectType::Core));
        prop_assert!(!single.allowed().is_empty());
        for core in single.objects(ObjectType::Core) {
            prop_assert_eq!(core.cpuset.len(), 1);
            let whole = &machine.objects(ObjectType::Core)[core.index].cpuset;
            let usable = whole.intersection(&allowed);
            let stays = usable.first().or_else(|| whole.first());
            prop_assert_eq!(core.cpuset.first(), stays);
        }
        prop_assert_eq!(&single.without_smt(), &single);
    }

    #[test]
    fn bytes_and_json_round_trip(text in shape()) {
        let machine = synthetic(&text);
        let bytes = machine.to_bytes();
        prop_assert_eq!(&Topology::from_bytes(&bytes).unwrap(), &machine);
        let json = serde_json::to_string(&machine).unwrap();
        prop_assert_eq!(&serde_json::from_str::<Topology>(&json).unwrap(), &machine);
        for cut in (0..bytes.len()).step_by(7) {
            prop_assert!(Topology::from_bytes(&bytes[..cut]).is_err());
        }
    }

    #[test]
    fn damaged_bytes_are_refused_or_consistent(text in shape(), at in any::<prop::sample::Index>(), value in any::<u8>()) {
        let mut bytes = synthetic(&text).to_bytes();
        let at = at.index(bytes.len());
        bytes[at] = value;
        if let Ok(machine) = Topology::from_bytes(&bytes) {
            prop_assert!(machine.allowed().is_subset(machine.machine_cpuset()));
            for kind in ObjectType::ALL {
                let inside = machine.count_inside(ObjectType::Machine, 0, kind).unwrap();
                prop_assert_eq!(inside, machine.count(kind));
            }
        }
    }

    #[test]
    fn any_bytes_are_refused_or_consistent(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        if let Ok(machine) = Topology::from_bytes(&bytes) {
            prop_assert!(machine.count(ObjectType::Pu) > 0);
        }
    }

    #[test]
    fn any_text_is_a_synthetic_machine_or_refused(text in "[a-z0-9:()\\[\\]= ,*]{0,30}") {
        let _ = Topology::from_synthetic(&text);
    }

    #[test]
    fn any_mixture_of_levels_is_a_synthetic_machine_or_refused(
        levels in proptest::collection::vec("(package|numa|l3|l2|l1|l1i|die|core|pu|group|machine|\\[numa\\]|):[0-4](\\(memory=[0-9]\\)|\\(indexes=[0-4](,[0-4]){0,4}\\)|\\(size=3\\)|)", 1..6)
    ) {
        let _ = Topology::from_synthetic(&levels.join(" "));
    }
}
