//! Builds a snapshot from hwloc's description. The only file that uses hwloc.

use std::ffi::CStr;
use std::path::Path;

use hwlocality::errors::{HybridError, RawHwlocError};
use hwlocality::object::TopologyObject;
use hwlocality::object::attributes::ObjectAttributes;
use hwlocality::object::types::ObjectType as Type;
use hwlocality::topology::builder::{BuildFlags, TopologyBuilder};

use crate::CpuSet;

use super::kinds::arrange;
use super::origin::shortened;
use super::{MAX_CPU, Object, ObjectType, Origin, Topology, TopologyError, sysfs};

const TYPES: [(Type, ObjectType); ObjectType::COUNT] = [
    (Type::Machine, ObjectType::Machine),
    // Outside hwloc's tree of levels since version 2, so always queried by type.
    (Type::NUMANode, ObjectType::NumaNode),
    (Type::Package, ObjectType::Package),
    (Type::Die, ObjectType::Die),
    (Type::L3Cache, ObjectType::L3Cache),
    (Type::L2Cache, ObjectType::L2Cache),
    (Type::L1Cache, ObjectType::L1Cache),
    (Type::Core, ObjectType::Core),
    (Type::PU, ObjectType::Pu),
];

/// Variables that make hwloc itself describe another machine.
const REDIRECTIONS: [&str; 4] =
    ["HWLOC_FSROOT", "HWLOC_CPUID_PATH", "HWLOC_SYNTHETIC", "HWLOC_XMLFILE"];

/// Returns the version of hwloc's interface this library was built for, such as `2.9`.
#[must_use]
pub fn hwloc_version() -> String {
    let version = hwlocality::hwloc_api_version();
    format!("{}.{}", version >> 16, version >> 8 & 0xff)
}

pub(super) fn live() -> Result<Topology, TopologyError> {
    let machine = discover().map_err(|(call, source)| TopologyError::Discovery {
        what: Origin::Live,
        call,
        source,
    })?;
    let origin = if machine.is_this_system() {
        Origin::Live
    } else {
        let set = REDIRECTIONS.into_iter().filter(|name| std::env::var_os(name).is_some());
        Origin::Foreign(set.collect::<Vec<_>>().join(", "))
    };
    snapshot(&machine, origin)
}

/// Creates a synthetic machine. The text must have been checked before: hwloc accepts sizes that
/// exhaust the memory.
pub(super) fn synthetic(text: &str) -> Result<Topology, TopologyError> {
    let refuse = |cause| TopologyError::Synthetic { text: shortened(text), cause };
    let builder = TopologyBuilder::new()
        .from_synthetic(text)
        .map_err(|_| refuse("hwloc does not understand it".to_owned()))?;
    let machine = load(builder).map_err(|(call, source)| refuse(format!("{call}: {source}")))?;
    snapshot(&machine, Origin::Synthetic(text.to_owned()))
}

/// Discovers the machine. hwloc's x86 component binds the calling thread to each PU in turn and
/// takes as long as everything else together, so it is used only if the kernel does not list the
/// cores.
fn discover() -> Result<hwlocality::Topology, (&'static str, std::io::Error)> {
    if let Ok(builder) = TopologyBuilder::new().without_component("x86") {
        let machine = load(builder)?;
        if machine.objects_with_type(Type::Core).len() > 0 {
            return Ok(machine);
        }
    }
    load(TopologyBuilder::new())
}

/// Loads a topology. Disallowed objects are included: the machine and its allowed part are queried
/// separately.
fn load(builder: TopologyBuilder) -> Result<hwlocality::Topology, (&'static str, std::io::Error)> {
    let reason = |error: RawHwlocError| match error.errno {
        Some(errno) => std::io::Error::from_raw_os_error(errno.0),
        None => std::io::Error::other("no reason given"),
    };
    let builder = match builder.with_flags(BuildFlags::INCLUDE_DISALLOWED) {
        Ok(builder) => builder,
        Err(HybridError::Hwloc(error)) => {
            return Err(("hwloc_topology_set_flags", reason(error)));
        }
        Err(HybridError::Rust(error)) => {
            return Err(("hwloc_topology_set_flags", std::io::Error::other(error)));
        }
    };
    builder.build().map_err(|error| ("hwloc_topology_load", reason(error)))
}

fn snapshot(machine: &hwlocality::Topology, origin: Origin) -> Result<Topology, TopologyError> {
    let refuse =
        |cause: &str| TopologyError::Invalid { what: origin.clone(), cause: cause.to_owned() };
    let mut objects = Vec::new();
    for (theirs, kind) in TYPES {
        for object in machine.objects_with_type(theirs) {
            let set = object.cpuset().map(|set| cpus(&set));
            let cpuset = set.unwrap_or(Some(CpuSet::new()));
            let cpuset = cpuset.ok_or_else(|| refuse("a CPU number is too large"))?;
            // Objects with only offline CPUs, or without CPUs, are useless unless they are memory.
            if kind == ObjectType::NumaNode || !cpuset.is_empty() {
                objects.push(convert(object, kind, cpuset));
            }
        }
    }
    let allowed = cpus(&machine.allowed_cpuset()).ok_or_else(|| refuse("all CPUs are allowed"))?;
    let mut topology = Topology::from_objects(objects, &allowed, origin)?;
    if !topology.is_simulated() {
        // hwloc reports kinds only from version 2.4 on.
        let kinds = sysfs::core_kinds(Path::new(sysfs::ROOT), topology.machine_cpuset());
        topology.set_core_kinds(arrange(kinds))?;
    }
    Ok(topology)
}

fn convert(object: &TopologyObject, kind: ObjectType, cpuset: CpuSet) -> Object {
    let text = |key| object.info(key).map(CStr::to_string_lossy).unwrap_or_default();
    let name = match kind {
        ObjectType::Machine => text("DMIProductName"),
        ObjectType::Package => text("CPUModel"),
        _ => "".into(),
    };
    let memory = match object.attributes() {
        Some(ObjectAttributes::NUMANode(node)) => node.local_memory().map_or(0, u64::from),
        Some(ObjectAttributes::Cache(cache)) => cache.size().map_or(0, u64::from),
        _ => 0,
    };
    let name = name.trim().to_owned();
    Object { kind, index: 0, os_index: object.os_index(), cpuset, memory, name }
}

/// Converts a set; `None` for infinite sets and for CPU numbers beyond the limit.
fn cpus(set: &hwlocality::cpu::cpuset::CpuSet) -> Option<CpuSet> {
    if set.is_empty() {
        return Some(CpuSet::new());
    }
    let last = usize::from(set.last_set()?);
    (last <= MAX_CPU).then(|| set.iter_set().map(usize::from).collect())
}

/// Returns hwloc's own reading of a file that is known to be valid.
#[cfg(test)]
pub(super) fn reference(xml: &str) -> Result<Topology, TopologyError> {
    let machine = load(TopologyBuilder::new().from_xml(xml).unwrap()).unwrap();
    snapshot(&machine, Origin::Xml("-".to_owned()))
}

/// Returns the file that hwloc writes for a synthetic string.
#[cfg(test)]
pub(super) fn written(synthetic: &str) -> String {
    use hwlocality::topology::export::xml::XMLExportFlags;
    let machine = load(TopologyBuilder::new().from_synthetic(synthetic).unwrap()).unwrap();
    machine.export_xml(XMLExportFlags::empty()).unwrap().to_string()
}
