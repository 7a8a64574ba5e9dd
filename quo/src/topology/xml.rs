//! Reads the files that `lstopo` of hwloc 1, 2 and 3 writes.
//!
//! hwloc can read them too, but trusts a file: one whose sets contradict each other makes hwloc
//! write to the terminal or end the process. A path in an environment variable must not be able to
//! do that, so files are read here, and hwloc is used only for the live machine.

use roxmltree::{Document, Error, Node, ParsingOptions};

use crate::CpuSet;

use super::devices::{Device, DeviceKind, MAX_DEVICES};
use super::kinds::{MAX_CORE_KINDS, RawKind, arrange};
use super::{
    MAX_CPU, MAX_NUMA_NODES, MAX_PUS, Object, ObjectType, Origin, Topology, TopologyError,
};

const MOST_OBJECTS: usize = ObjectType::COUNT * MAX_PUS + MAX_NUMA_NODES;

/// Elements and the texts between them: an object needs only a few.
const MOST_NODES: usize = 24 * MOST_OBJECTS;

/// Deeper than any machine, PCI bridges included.
const MAX_DEPTH: usize = 128;

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

/// What an `object` element inherits from its parent.
#[derive(Clone, Copy, Default)]
struct Around<'a> {
    cpuset: Option<&'a CpuSet>,
    /// Device that the element is part of.
    device: Option<usize>,
    depth: usize,
}

#[derive(Default)]
struct Found {
    objects: Vec<Object>,
    nodes: Vec<Object>,
    devices: Vec<Device>,
}

impl Found {
    /// Reads an `object` element and its children. Returns the NUMA nodes that belong to the parent
    /// object: hwloc numbers those of an object after those of its children.
    fn object(&mut self, element: Node<'_, '_>, around: Around<'_>) -> Result<Vec<Object>, String> {
        let (object, cpuset) = object(element, around.cpuset).map_err(at(element))?;
        if around.depth == MAX_DEPTH {
            return Err(at(element)(format!("objects are nested more than {MAX_DEPTH} deep")));
        }
        if self.objects.len() + self.nodes.len() == MOST_OBJECTS {
            return Err(at(element)("it has more objects than any machine".to_owned()));
        }
        let device = match device(element, cpuset.as_ref()) {
            Some(_) if self.devices.len() == MAX_DEVICES => {
                return Err(at(element)("it has more devices than any machine".to_owned()));
            }
            Some(device) => {
                self.devices.push(device);
                Some(self.devices.len() - 1)
            }
            None => around.device,
        };
        let kind = element.attribute("type");
        if let (Some(at), Some("OSDev")) = (device, kind) {
            self.devices[at].names.extend(element.attribute("name").map(str::to_owned));
        }
        let mut attached = Vec::new();
        // A NUMA node, or a cache in front of one: its nodes belong to the object it is attached
        // to.
        let mut belongs_outside = kind == Some("MemCache");
        let mut place = None;
        match object {
            Some(node) if node.kind == ObjectType::NumaNode => {
                belongs_outside = true;
                attached.push(node);
            }
            Some(object) => {
                place = Some(self.objects.len());
                self.objects.push(object);
            }
            None => {}
        }
        let inside = Around { cpuset: cpuset.as_ref(), device, depth: around.depth + 1 };
        for child in element.children() {
            match child.tag_name().name() {
                "object" => attached.append(&mut self.object(child, inside)?),
                "info" => {
                    if let Some(object) = place.and_then(|place| self.objects.get_mut(place)) {
                        describe(object, child);
                    }
                }
                _ => {}
            }
        }
        if belongs_outside {
            return Ok(attached);
        }
        self.nodes.append(&mut attached);
        Ok(attached)
    }
}

/// Prefixes a cause with the line of an element.
fn at(element: Node<'_, '_>) -> impl Fn(String) -> String {
    let row = element.document().text_pos_at(element.range().start).row;
    move |cause| format!("line {row}: {cause}")
}

fn contents(text: &str) -> Result<Contents, String> {
    let options = ParsingOptions {
        // A document type names the file of its definitions, which is not read.
        allow_dtd: true,
        nodes_limit: MOST_NODES as u32,
        ..ParsingOptions::default()
    };
    let document = Document::parse_with_options(text, options).map_err(|error| {
        let row = match error {
            Error::UnclosedRootNode => text.lines().count(),
            _ => error.pos().row as usize,
        };
        format!("line {row}: {error}")
    })?;
    let outermost = document.root_element();
    if outermost.tag_name().name() != "topology" {
        let cause = format!("its outermost element is `{}`", outermost.tag_name().name());
        return Err(at(outermost)(cause));
    }
    let mut found = Found::default();
    let mut allowed = None;
    let mut kinds: Vec<RawKind> = Vec::new();
    for element in outermost.children() {
        match element.tag_name().name() {
            "object" => {
                allowed = allowed.or_else(|| element.attribute("allowed_cpuset"));
                let mut nodes = found.object(element, Around::default())?;
                found.nodes.append(&mut nodes);
            }
            "cpukind" if kinds.len() == MAX_CORE_KINDS => {
                let cause = "it has more kinds of cores than any machine".to_owned();
                return Err(at(element)(cause));
            }
            "cpukind" => kinds.push(core_kind(element).map_err(at(element))?),
            _ => {}
        }
    }
    let Found { mut objects, mut nodes, mut devices } = found;
    if objects.is_empty() {
        return Err("it describes no machine".to_owned());
    }
    let everything = objects.iter().fold(CpuSet::new(), |set, object| set.union(&object.cpuset));
    let allowed = match allowed.map(mask) {
        // Unbounded: all CPUs.
        None | Some(Ok(None)) => everything.clone(),
        Some(Ok(Some(set))) => set,
        Some(Err(cause)) => {
            return Err(format!("the allowed set of the machine is wrong: {cause}"));
        }
    };
    // hwloc 1 omits the node if there is only one, and its memory is that of the machine.
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

/// Returns the device of a `PCIDev` element, near the CPUs of the object that it is attached to.
fn device(element: Node<'_, '_>, near: Option<&CpuSet>) -> Option<Device> {
    if element.attribute("type") != Some("PCIDev") {
        return None;
    }
    // For example `0302 [10de:20b0] [10de:1450] a1`.
    let described = element.attribute("pci_type")?;
    let class = u16::from_str_radix(described.get(..4)?, 16).ok()?;
    let vendor = described.split_once('[').and_then(|(_, rest)| rest.get(..4));
    Some(Device {
        kind: DeviceKind::of_class(class)?,
        bus: element.attribute("pci_busid")?.to_owned(),
        vendor: vendor.and_then(|text| u16::from_str_radix(text, 16).ok()).unwrap_or(0),
        names: Vec::new(),
        cpuset: near.cloned().unwrap_or_default(),
    })
}

fn core_kind(element: Node<'_, '_>) -> Result<RawKind, String> {
    let cpuset = element.attribute("cpuset").ok_or("a kind of cores has no cpuset")?;
    let cpuset = match mask(cpuset) {
        Ok(Some(set)) => set,
        Ok(None) => return Err("the cpuset of a kind of cores has no end".to_owned()),
        Err(cause) => return Err(format!("the cpuset of a kind of cores is wrong: {cause}")),
    };
    let efficiency = element.attribute("forced_efficiency").and_then(|text| text.parse().ok());
    let mut kind = RawKind { cpuset, efficiency, ..RawKind::default() };
    for info in element.children().filter(|child| child.has_tag_name("info")) {
        let text = |name| info.attribute(name).unwrap_or_default();
        kind.describe(text("name"), text("value"));
    }
    Ok(kind)
}

/// Returns the object, if its type is used here, and the set that bounds its children.
fn object(
    element: Node<'_, '_>,
    parent: Option<&CpuSet>,
) -> Result<(Option<Object>, Option<CpuSet>), String> {
    let named = element.attribute("type").ok_or("an object has no type")?;
    let Some(kind) = kind(named, element) else { return Ok((None, parent.cloned())) };
    let cpuset = match element.attribute("cpuset") {
        None if kind == ObjectType::NumaNode => CpuSet::new(),
        None => return Err(format!("a {named} has no cpuset")),
        Some(text) => match mask(text) {
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
    // Written as the largest number, or as -1, if there is none.
    let os_index = element.attribute("os_index").and_then(|text| text.parse::<u32>().ok());
    let os_index = os_index.filter(|&index| index != u32::MAX).map(|index| index as usize);
    if kind == ObjectType::Pu && os_index != cpuset.first() {
        return Err(format!("a PU has CPUs `{cpuset}` and another number"));
    }
    let memory = match kind {
        // On the machine, hwloc 1 writes the memory of the omitted node.
        ObjectType::NumaNode | ObjectType::Machine => number("local_memory")?,
        ObjectType::L1Cache | ObjectType::L2Cache | ObjectType::L3Cache => number("cache_size")?,
        _ => None,
    };
    // An object with only offline CPUs is useless; its children cannot have others.
    let counts = kind == ObjectType::NumaNode || !cpuset.is_empty();
    let object = counts.then(|| {
        let object = Object::new(kind, cpuset.clone()).with_memory(memory.unwrap_or(0));
        Object { os_index, ..object }
    });
    Ok((object, Some(cpuset)))
}

fn kind(named: &str, element: Node<'_, '_>) -> Option<ObjectType> {
    let attribute = |name| element.attribute(name);
    match named {
        "Machine" => Some(ObjectType::Machine),
        "NUMANode" => Some(ObjectType::NumaNode),
        "Package" | "Socket" => Some(ObjectType::Package),
        "Die" => Some(ObjectType::Die),
        // Written by hwloc for readers without dies.
        "Group" if attribute("subtype") == Some("Die") => Some(ObjectType::Die),
        "L3Cache" => Some(ObjectType::L3Cache),
        "L2Cache" => Some(ObjectType::L2Cache),
        "L1Cache" => Some(ObjectType::L1Cache),
        // hwloc 1 has one type for all levels; type 2 is an instruction cache.
        "Cache" if attribute("cache_type") == Some("2") => None,
        "Cache" => match attribute("depth")? {
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

fn describe(object: &mut Object, info: Node<'_, '_>) {
    let wanted = match object.kind {
        ObjectType::Machine => "DMIProductName",
        ObjectType::Package => "CPUModel",
        _ => return,
    };
    if info.attribute("name") == Some(wanted) {
        object.name = info.attribute("value").unwrap_or_default().trim().to_owned();
    }
}

/// Parses a set in hwloc's format: 32 CPUs per part, highest first. `None` for an infinite set.
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
    use proptest::prelude::*;

    use super::*;

    fn cause(text: &str) -> String {
        contents(text).err().unwrap_or_default()
    }

    #[test]
    fn document_with_its_type_and_comments_is_read() {
        let text = "\u{feff}<?xml version='1.0'?>\n<!DOCTYPE topology SYSTEM \"hwloc2.dtd\">\n<!-- <x> -->\
            <topology><object type='Machine' cpuset='0x1'>\
            <info name='DMIProductName' value='&lt;A&#65;&amp;'/>\
            <object type='PU' os_index='0' cpuset='0x1'/></object></topology>\n";
        let contents = contents(text).unwrap_or_else(|cause| panic!("{cause}"));
        assert_eq!(contents.objects[0].name, "<AA&");
    }

    #[test]
    fn wrong_document_is_refused_with_its_line() {
        let object = "<object type='Group' cpuset='0x1'>";
        let deep =
            format!("<topology>{}{}</topology>", object.repeat(129), "</object>".repeat(129));
        let flat = format!("<topology>{}</topology>", "<a/>".repeat(MOST_NODES));
        let entities = "<!DOCTYPE topology [<!ENTITY a '&b;&b;'><!ENTITY b '&a;&a;'>]>\
            <topology><object type='&a;'/></topology>";
        for (text, expected) in [
            ("<topology>\n<object></topology>", "2:9"),
            ("<topology/><topology/>", "1:12"),
            ("<topology>\n<object/></topology>", "line 2: an object has no type"),
            ("<topology>\n\n<cpukind/></topology>", "line 3: a kind of cores has no cpuset"),
            ("<html/>", "outermost"),
            (&deep, "nested more than 128 deep"),
            (&flat, "limit"),
            (entities, "loop"),
        ] {
            let found = cause(text);
            assert!(found.contains(expected), "{expected}: {found}");
        }
        // Elements that are not objects may be nested as deep as the text is long.
        let far = 200_000;
        let text = format!("<topology>{}{}</topology>", "<a>".repeat(far), "</a>".repeat(far));
        assert_eq!(cause(&text), "it describes no machine");
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in "[<>/!?a '\"=&;#x\\[\\]é\n-]{0,40}") {
            let _ = contents(&text);
            let _ = contents(&format!("<topology>{text}</topology>"));
        }
    }

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
