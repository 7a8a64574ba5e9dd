//! Descriptions of machines. An accepted topology must be consistent: every query must answer, and
//! the form sent to other ranks must give the same machine again.

use quo::{CpuSet, ObjectType, Topology};
use quo_machine_picture::draw;

/// Pictures grow with the machine; small ones show errors as well.
const MOST_DRAWN: usize = 64;

pub fn xml(bytes: &[u8]) {
    if let Ok(text) = std::str::from_utf8(bytes) {
        examine(Topology::from_xml(text));
    }
}

pub fn synthetic(bytes: &[u8]) {
    if let Ok(text) = std::str::from_utf8(bytes) {
        examine(Topology::from_synthetic(text));
    }
}

pub fn bytes(bytes: &[u8]) {
    examine(Topology::from_bytes(bytes));
}

fn examine(read: Result<Topology, quo::TopologyError>) {
    let machine = match read {
        Ok(machine) => machine,
        // Formatted, since a reader quotes pieces of the input in its error.
        Err(error) => return assert!(error.to_string().len() < 4_096, "a complaint too long"),
    };
    consistent(&machine);
    consistent(&machine.without_smt());
    let again = Topology::from_bytes(&machine.to_bytes()).expect("its own bytes are refused");
    assert!(again == machine, "the bytes tell of another machine");
    if machine.count(ObjectType::Pu) <= MOST_DRAWN {
        assert!(!draw(&machine).width(80).height(40).to_string().is_empty());
        assert!(draw(&machine).to_svg().starts_with("<svg"));
    }
}

fn consistent(machine: &Topology) {
    assert_eq!(machine.count(ObjectType::Machine), 1);
    assert!(!machine.allowed().is_empty());
    assert!(machine.allowed().is_subset(machine.machine_cpuset()));
    assert_eq!(machine.machine_cpuset().len(), machine.count(ObjectType::Pu));
    for kind in ObjectType::ALL {
        let mut seen = CpuSet::new();
        for (index, object) in machine.objects(kind).iter().enumerate() {
            assert_eq!((object.kind, object.index), (kind, index));
            assert!(!object.cpuset.intersects(&seen), "{kind} {index} overlaps another");
            assert!(object.cpuset.is_subset(machine.machine_cpuset()));
            seen = seen.union(&object.cpuset);
            if let Some(enclosing) = machine.enclosing(kind, &object.cpuset) {
                assert_eq!(enclosing.index, index);
            }
            for inner in [ObjectType::Core, ObjectType::Pu] {
                let inside = machine.objects_inside(kind, index, inner).expect("it exists");
                assert_eq!(inside.len(), machine.count_inside(kind, index, inner).unwrap_or(0));
                assert!(inside.clone().all(|part| part.cpuset.is_subset(&object.cpuset)));
            }
        }
        assert!(machine.object(kind, machine.count(kind)).is_err());
    }
}
