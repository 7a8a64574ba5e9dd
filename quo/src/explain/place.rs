//! Description of a set of CPUs as objects of the machine.

use crate::cpuset::CpuSet;
use crate::topology::{ObjectType, Topology};

/// Describes a mask as logical objects, in the largest units that fit: `package 1`, `cores 0-2`,
/// `the whole machine`. Pure.
///
/// ```
/// use quo::topology::Topology;
/// let machine = Topology::from_synthetic("pack:2 core:4 pu:2")?;
/// assert_eq!(quo::explain::describe_place(&machine, &"0-7".parse()?), "package 0");
/// assert_eq!(quo::explain::describe_place(&machine, &"2-5".parse()?), "cores 1-2");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use]
pub fn describe_place(topology: &Topology, mask: &CpuSet) -> String {
    let usable = topology.allowed();
    let mask = mask.intersection(topology.machine_cpuset());
    if usable.is_subset(&mask) {
        return "the whole machine".to_owned();
    }
    let units = [ObjectType::Package, ObjectType::NumaNode, ObjectType::Core, ObjectType::Pu];
    for kind in units {
        let mut covered = CpuSet::new();
        let mut indices = CpuSet::new();
        for object in topology.objects(kind) {
            let cpus = object.cpuset.intersection(usable);
            if !cpus.is_empty() && cpus.is_subset(&mask) {
                covered = covered.union(&cpus);
                indices.insert(object.index);
            }
        }
        if !covered.is_empty() && covered == mask.intersection(usable) {
            return format!("{} {indices}", counted(kind, indices.len()));
        }
    }
    "no CPU of this machine".to_owned()
}

/// Returns the name of a type for use in a sentence, in the singular or plural.
pub(super) fn counted(kind: ObjectType, count: usize) -> &'static str {
    let plural = kind.plural();
    if count == 1 { plural.strip_suffix('s').unwrap_or(plural) } else { plural }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_a_core_and_foreign_cpus_are_named() {
        let machine = Topology::from_synthetic("pack:2 core:4 pu:2").unwrap();
        let place = |text: &str| describe_place(&machine, &text.parse().unwrap());
        assert_eq!(place("3"), "PU 3");
        assert_eq!(place("0-15"), "the whole machine");
        assert_eq!(place("99"), "no CPU of this machine");
        assert_eq!(place("8-15,99"), "package 1");
    }

    #[test]
    fn disallowed_pus_do_not_split_an_object() {
        let machine = Topology::from_synthetic("pack:2 core:4 pu:2").unwrap();
        let machine = machine.with_allowed(&"0-6,8-15".parse().unwrap()).unwrap();
        assert_eq!(describe_place(&machine, &"0-6".parse().unwrap()), "package 0");
    }
}
