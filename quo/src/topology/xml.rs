//! Reads the files that `lstopo` writes, of hwloc 1, 2 and 3.
//!
//! hwloc can read them too, but takes a file at its word: one whose sets contradict each other makes
//! it write to the terminal or end the process. A path in an environment variable must not be able
//! to do that, so files are read here, and hwloc is left with the live machine.

use crate::CpuSet;

use super::devices::{Device, DeviceKind, MAX_DEVICES};
use super::kinds::{MAX_CORE_KINDS, RawKind, arrange};
use super::markup::{Element, Event, Reader};
use super::{
    MAX_CPU, MAX_NUMA_NODES, MAX_PUS, Object, ObjectType, Origin, Topology, TopologyError,
};

const MOST_OBJECTS: usize = ObjectType::COUNT * MAX_PUS + MAX_NUMA_NODES;

pub(super) fn read(text: &str, origin: Origin) -> Result<Topology, TopologyError> {
    match contents(text) {
        Ok(Contents { objects, allowed, kinds, devices }) => {
            let mut topology = Topology::from_objects(objects, &allowed, origin)?;
            topology.set_core_kinds(arrange(kinds))?;
            Ok(topology.with_devices(devices))
        }
        Err(cause) => Err(TopologyError::Xml { what: origin, cause }),
    }
}

struct Contents {
    objects: Vec<Object>,
    allowed: CpuSet,
    kinds: Vec<RawKind>,
    devices: Vec<Device>,
}

/// An `object` element whose end has not come yet.
struct Open {
    /// Its place among the objects, when it is of a type that counts here.
    at: Option<usize>,
    /// Its own set, or that of its parent when it has none.
    cpuset: Option<CpuSet>,
    /// The NUMA nodes attached to it. hwloc numbers them after those of the objects inside it.
    nodes: Vec<Object>,
    /// The device that it is, or is part of.
    device: Option<usize>,
    /// A NUMA node, or a cache in front of one: its nodes are those of the object it is attached to.
    attached: bool,
}

fn contents(text: &str) -> Result<Contents, String> {
    let mut reader = Reader::new(text);
    let mut objects: Vec<Object> = Vec::new();
    let mut nodes: Vec<Object> = Vec::new();
    let mut open: Vec<Open> = Vec::new();
    let mut allowed = None;
    let mut kinds: Vec<RawKind> = Vec::new();
    let mut in_kind = false;
    let mut devices: Vec<Device> = Vec::new();
    let mut outermost = true;
    while let Some(event) = reader.next()? {
        match event {
            Event::Start(element) if outermost => {
                if element.name != "topology" {
                    let cause = format!("its outermost element is `{}`", element.name);
                    return Err(reader.wrong(&cause));
                }
                outermost = false;
            }
            Event::Start(element) if element.name == "object" => {
                let parent = open.last().and_then(|parent| parent.cpuset.as_ref());
                let (object, cpuset) =
                    object(&element, parent).map_err(|cause| reader.wrong(&cause))?;
                if open.is_empty() && allowed.is_none() {
                    allowed = element.attribute("allowed_cpuset");
                }
                if objects.len() + nodes.len() == MOST_OBJECTS {
                    return Err(reader.wrong("it has more objects than any machine"));
                }
                let device = match device(&element, cpuset.as_ref()) {
                    Some(_) if devices.len() == MAX_DEVICES => {
                        return Err(reader.wrong("it has more devices than any machine"));
                    }
                    Some(device) => {
                        devices.push(device);
                        Some(devices.len() - 1)
                    }
                    None => open.last().and_then(|parent| parent.device),
                };
                if let (Some(at), Some("OSDev")) = (device, element.attribute("type").as_deref()) {
                    devices[at].names.extend(element.attribute("name"));
                }
                let nodes = Vec::new();
                let mut opened = Open { at: None, cpuset, nodes, device, attached: false };
                match object {
                    Some(node) if node.kind == ObjectType::NumaNode => {
                        opened.attached = true;
                        opened.nodes.push(node);
                    }
                    Some(object) => {
                        opened.at = Some(objects.len());
                        objects.push(object);
                    }
                    None => {
                        opened.attached = element.attribute("type").as_deref() == Some("MemCache")
                    }
                }
                open.push(opened);
            }
            Event::Start(element) if element.name == "cpukind" => {
                if kinds.len() == MAX_CORE_KINDS {
                    return Err(reader.wrong("it has more kinds of cores than any machine"));
                }
                kinds.push(core_kind(&element).map_err(|cause| reader.wrong(&cause))?);
                in_kind = true;
            }
            Event::End("cpukind") => in_kind = false,
            Event::Start(element) if element.name == "info" && in_kind => {
                let text = |name| element.attribute(name).unwrap_or_default();
                if let Some(kind) = kinds.last_mut() {
                    kind.describe(&text("name"), &text("value"));
                }
            }
            Event::Start(element) if element.name == "info" => {
                let about = open.last().and_then(|open| objects.get_mut(open.at?));
                if let Some(object) = about {
                    describe(object, &element);
                }
            }
            Event::End("object") => {
                let closed = open.pop();
                let Some(mut closed) = closed else { continue };
                match open.last_mut().filter(|_| closed.attached) {
                    Some(parent) => parent.nodes.append(&mut closed.nodes),
                    None => nodes.append(&mut closed.nodes),
                }
            }
            Event::Start(_) | Event::End(_) => {}
        }
    }
    if objects.is_empty() {
        return Err("it describes no machine".to_owned());
    }
    let everything = objects.iter().fold(CpuSet::new(), |set, object| set.union(&object.cpuset));
    let allowed = match allowed.as_deref().map(mask) {
        // Without bound above: all of them.
        None | Some(Ok(None)) => everything.clone(),
        Some(Ok(Some(set))) => set,
        Some(Err(cause)) => {
            return Err(format!("the allowed set of the machine is wrong: {cause}"));
        }
    };
    // hwloc 1 leaves the node out when there is only one, and its memory is that of the machine.
    let machine = objects.iter_mut().find(|object| object.kind == ObjectType::Machine);
    let memory = machine.map(|machine| std::mem::take(&mut machine.memory)).unwrap_or(0);
    if nodes.is_empty() {
        let node = Object::new(ObjectType::NumaNode, everything);
        nodes.push(node.with_os_index(0).with_memory(memory));
    }
    objects.append(&mut nodes);
    for device in devices.iter_mut().filter(|device| device.cpuset.is_empty()) {
        device.cpuset = objects.iter().fold(CpuSet::new(), |all, it| all.union(&it.cpuset));
    }
    Ok(Contents { objects, allowed, kinds, devices })
}

/// The device of a `PCIDev` element, near the CPUs of the object that it is attached to.
fn device(element: &Element<'_>, near: Option<&CpuSet>) -> Option<Device> {
    if element.attribute("type").as_deref() != Some("PCIDev") {
        return None;
    }
    // Such as `0302 [10de:20b0] [10de:1450] a1`.
    let described = element.attribute("pci_type")?;
    let class = u16::from_str_radix(described.get(..4)?, 16).ok()?;
    let vendor = described.split_once('[').and_then(|(_, rest)| rest.get(..4));
    Some(Device {
        kind: DeviceKind::of_class(class)?,
        bus: element.attribute("pci_busid")?,
        vendor: vendor.and_then(|text| u16::from_str_radix(text, 16).ok()).unwrap_or(0),
        names: Vec::new(),
        cpuset: near.cloned().unwrap_or_default(),
    })
}

fn core_kind(element: &Element<'_>) -> Result<RawKind, String> {
    let cpuset = element.attribute("cpuset").ok_or("a kind of cores has no cpuset")?;
    let cpuset = match mask(&cpuset) {
        Ok(Some(set)) => set,
        Ok(None) => return Err("the cpuset of a kind of cores has no end".to_owned()),
        Err(cause) => return Err(format!("the cpuset of a kind of cores is wrong: {cause}")),
    };
    let efficiency = element.attribute("forced_efficiency").and_then(|text| text.parse().ok());
    Ok(RawKind { cpuset, efficiency, ..RawKind::default() })
}

/// The object, when it is of a type that counts here, and the set that bounds its children.
fn object(
    element: &Element<'_>,
    parent: Option<&CpuSet>,
) -> Result<(Option<Object>, Option<CpuSet>), String> {
    let named = element.attribute("type").ok_or("an object has no type")?;
    let Some(kind) = kind(&named, element) else { return Ok((None, parent.cloned())) };
    let cpuset = match element.attribute("cpuset") {
        None if kind == ObjectType::NumaNode => CpuSet::new(),
        None => return Err(format!("a {named} has no cpuset")),
        Some(text) => match mask(&text) {
            Ok(Some(set)) => set,
            Ok(None) => return Err(format!("the cpuset of a {named} has no end")),
            Err(cause) => return Err(format!("the cpuset of a {named} is wrong: {cause}")),
        },
    };
    if let Some(parent) = parent.filter(|parent| !cpuset.is_subset(parent)) {
        return Err(format!("a {named} has CPUs `{cpuset}`, what it is in `{parent}`"));
    }
    let number = |name: &str| match element.attribute(name) {
        None => Ok(None),
        Some(text) => match text.parse::<u64>() {
            Ok(number) => Ok(Some(number)),
            Err(_) => Err(format!("the {name} of a {named} is not a number")),
        },
    };
    // Written as the largest number, or as -1, where there is none.
    let os_index = element.attribute("os_index").and_then(|text| text.parse::<u32>().ok());
    let os_index = os_index.filter(|&index| index != u32::MAX).map(|index| index as usize);
    if kind == ObjectType::Pu && os_index != cpuset.first() {
        return Err(format!("a PU has CPUs `{cpuset}` and another number"));
    }
    let memory = match kind {
        // On the machine, as hwloc 1 writes it, it is the memory of the node that is left out.
        ObjectType::NumaNode | ObjectType::Machine => number("local_memory")?,
        ObjectType::L1Cache | ObjectType::L2Cache | ObjectType::L3Cache => number("cache_size")?,
        _ => None,
    };
    // What has only offline CPUs is of no use; its children cannot have others.
    let counts = kind == ObjectType::NumaNode || !cpuset.is_empty();
    let object = counts.then(|| {
        let object = Object::new(kind, cpuset.clone()).with_memory(memory.unwrap_or(0));
        Object { os_index, ..object }
    });
    Ok((object, Some(cpuset)))
}

fn kind(named: &str, element: &Element<'_>) -> Option<ObjectType> {
    let attribute = |name| element.attribute(name);
    match named {
        "Machine" => Some(ObjectType::Machine),
        "NUMANode" => Some(ObjectType::NumaNode),
        "Package" | "Socket" => Some(ObjectType::Package),
        "Die" => Some(ObjectType::Die),
        // For readers that know no dies.
        "Group" if attribute("subtype").as_deref() == Some("Die") => Some(ObjectType::Die),
        "L3Cache" => Some(ObjectType::L3Cache),
        "L2Cache" => Some(ObjectType::L2Cache),
        "L1Cache" => Some(ObjectType::L1Cache),
        // hwloc 1 has one type for all levels; type 2 holds instructions.
        "Cache" if attribute("cache_type").as_deref() == Some("2") => None,
        "Cache" => match attribute("depth")?.as_str() {
            "1" => Some(ObjectType::L1Cache),
            "2" => Some(ObjectType::L2Cache),
            "3" => Some(ObjectType::L3Cache),
            _ => None,
        },
        "Core" => Some(ObjectType::Core),
        "PU" => Some(ObjectType::Pu),
        _ => None,
    }
}

fn describe(object: &mut Object, info: &Element<'_>) {
    let wanted = match object.kind {
        ObjectType::Machine => "DMIProductName",
        ObjectType::Package => "CPUModel",
        _ => return,
    };
    if info.attribute("name").as_deref() == Some(wanted) {
        object.name = info.attribute("value").unwrap_or_default().trim().to_owned();
    }
}

/// A set as hwloc writes it: 32 CPUs a part, highest first. `None` for one without end.
fn mask(text: &str) -> Result<Option<CpuSet>, String> {
    if text.starts_with("0xf...f") {
        return Ok(None);
    }
    let parts = text.split(',').count();
    if parts > MAX_CPU / 32 + 1 {
        return Err(format!("it has CPU numbers larger than {MAX_CPU}"));
    }
    let mut words = vec![0_u64; parts.div_ceil(2)];
    for (part, at) in text.split(',').zip((0..parts).rev()) {
        let digits = part.trim().strip_prefix("0x").unwrap_or(part.trim());
        let bits = match digits {
            "" => 0,
            _ => u32::from_str_radix(digits, 16).map_err(|_| "it is not a mask".to_owned())?,
        };
        words[at / 2] |= u64::from(bits) << (32 * (at % 2));
    }
    Ok(Some(CpuSet::from_words(&words)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn masks_are_read_from_the_highest_part() {
        let list = |text| mask(text).unwrap().map(|set| set.to_string());
        assert_eq!(list("0x0000000f").unwrap(), "0-3");
        assert_eq!(list("0x00000001,0x80000000").unwrap(), "31-32");
        assert_eq!(list("0x1,,0x0,0x00000003").unwrap(), "0-1,96");
        assert_eq!(list("0x0").unwrap(), "");
        assert_eq!(list("0xf...f,0xfffffff0"), None);
        for wrong in ["0xg", "zero", "0x100000000", "-1", &",".repeat(5_000)] {
            assert!(mask(wrong).is_err(), "{wrong}");
        }
    }
}
