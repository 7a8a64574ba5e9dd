//! A picture of a machine before it is drawn: nested boxes, and their labels.

use std::path::Path;

use quo::CpuSet;
use quo::topology::{Object, ObjectType, Origin, Topology};

/// Objects drawn as one box, with the same CPUs, outermost first.
pub(crate) struct Part<'a> {
    pub(crate) objects: Vec<&'a Object>,
    pub(crate) cpus: &'a CpuSet,
    pub(crate) children: Vec<Part<'a>>,
}

/// Nesting of objects with the same CPUs: packages contain dies, and dies contain NUMA nodes.
const NESTING: [ObjectType; 8] = [
    ObjectType::Package,
    ObjectType::Die,
    ObjectType::NumaNode,
    ObjectType::L3Cache,
    ObjectType::L2Cache,
    ObjectType::L1Cache,
    ObjectType::Core,
    ObjectType::Pu,
];

impl<'a> Part<'a> {
    /// Returns the boxes of a machine, without NUMA nodes that have no CPUs.
    pub(crate) fn of(topology: &'a Topology) -> Self {
        let mut root = Self {
            objects: topology.objects(ObjectType::Machine).iter().collect(),
            cpus: topology.machine_cpuset(),
            children: Vec::new(),
        };
        let mut objects: Vec<&Object> = NESTING
            .iter()
            .flat_map(|&kind| topology.objects(kind))
            .filter(|object| !object.cpuset.is_empty())
            .collect();
        objects.sort_by_key(|object| std::cmp::Reverse(object.cpuset.len()));
        for object in objects {
            root.insert(object);
        }
        root.sort(&logical(topology));
        root
    }

    fn insert(&mut self, object: &'a Object) {
        let top = self.objects.first().is_some_and(|first| first.kind == ObjectType::Machine);
        if !top && self.cpus == &object.cpuset {
            return self.objects.push(object);
        }
        let first = object.cpuset.first().unwrap_or_default();
        let child = self.children.iter_mut().find(|child| child.cpus.contains(first));
        match child.filter(|child| object.cpuset.is_subset(child.cpus)) {
            Some(child) => child.insert(object),
            None => self.children.push(Self {
                objects: vec![object],
                cpus: &object.cpuset,
                children: Vec::new(),
            }),
        }
    }

    fn sort(&mut self, logical: &[usize]) {
        let order =
            |part: &Self| part.cpus.iter().filter_map(|cpu| logical.get(cpu)).min().copied();
        self.children.sort_by_cached_key(|child| order(child));
        self.children.iter_mut().for_each(|child| child.sort(logical));
    }

    /// Returns true for a core, or a PU that is in no core.
    pub(crate) fn is_unit(&self) -> bool {
        self.objects.iter().any(|object| matches!(object.kind, ObjectType::Core | ObjectType::Pu))
    }

    /// Returns the PUs inside, by logical index.
    pub(crate) fn pus(&self) -> Vec<usize> {
        let own = self.objects.iter().filter(|object| object.kind == ObjectType::Pu);
        let own = own.filter_map(|pu| pu.cpuset.first());
        own.chain(self.children.iter().flat_map(Self::pus)).collect()
    }

    /// Returns a text that is equal for parts that differ only in their numbers.
    pub(crate) fn shape(&self, allowed: &CpuSet) -> String {
        let mut shape = String::new();
        for object in &self.objects {
            shape += &format!("{}{} ", object.kind, object.memory);
        }
        if self.is_unit() {
            shape += &format!("{} {}", self.cpus.len(), self.cpus.intersection(allowed).len());
        }
        for child in &self.children {
            shape += &format!("({})", child.shape(allowed));
        }
        shape
    }

    /// Returns a title such as `package 0 · NUMA 0 96 GiB · L3 36 MiB`.
    pub(crate) fn title(&self) -> String {
        self.objects.iter().map(|object| label(object)).collect::<Vec<_>>().join(" · ")
    }
}

/// Returns for each CPU number the logical index of its PU.
fn logical(topology: &Topology) -> Vec<usize> {
    let mut logical = vec![usize::MAX; topology.machine_cpuset().last().map_or(0, |cpu| cpu + 1)];
    for pu in topology.objects(ObjectType::Pu) {
        for cpu in pu.cpuset.iter() {
            logical[cpu] = pu.index;
        }
    }
    logical
}

/// Returns a name such as `package 0`, `NUMA 0`, `L3 0`.
pub(crate) fn name(object: &Object) -> String {
    match object.kind {
        ObjectType::NumaNode => format!("NUMA {}", object.index),
        ObjectType::L3Cache => format!("L3 {}", object.index),
        ObjectType::L2Cache => format!("L2 {}", object.index),
        ObjectType::L1Cache => format!("L1 {}", object.index),
        ObjectType::Pu => format!("PU {}", object.index),
        kind => format!("{kind} {}", object.index),
    }
}

/// Returns a label such as `package 0`, `NUMA 0 96 GiB`, `L3 36 MiB`.
pub(crate) fn label(object: &Object) -> String {
    let name = match object.kind {
        ObjectType::L3Cache => "L3".to_owned(),
        ObjectType::L2Cache => "L2".to_owned(),
        ObjectType::L1Cache => "L1".to_owned(),
        _ => name(object),
    };
    if object.memory > 0 { format!("{name} {}", size(object.memory)) } else { name }
}

/// Returns a number of bytes in the largest unit that keeps it at 1 or more.
pub(crate) fn size(bytes: u64) -> String {
    let mut unit = "B";
    let mut value = bytes as f64;
    for larger in ["KiB", "MiB", "GiB", "TiB", "PiB"] {
        if value < 1024.0 {
            break;
        }
        value /= 1024.0;
        unit = larger;
    }
    // One digit after the point if it is significant.
    if value < 10.0 && (value - value.round()).abs() > 0.05 {
        format!("{value:.1} {unit}")
    } else {
        format!("{value:.0} {unit}")
    }
}

/// Returns a summary of the machine in one line: `2 packages · 2 NUMA nodes 192 GiB · … · 64 PUs`.
pub(crate) fn summary(topology: &Topology) -> String {
    let mut parts = Vec::new();
    for kind in ObjectType::ALL {
        let objects = topology.objects(kind);
        let (Some(first), false) = (objects.first(), kind == ObjectType::Machine) else { continue };
        let count = objects.len();
        let name = match (count, kind) {
            (1, ObjectType::NumaNode) => "NUMA node".to_owned(),
            (1, ObjectType::Package | ObjectType::Die | ObjectType::Core) => kind.to_string(),
            (1, _) => kind.plural().trim_end_matches('s').to_owned(),
            _ => kind.plural().to_owned(),
        };
        let alike = objects.iter().all(|object| object.memory == first.memory);
        let memory = match kind {
            ObjectType::NumaNode => objects.iter().map(|node| node.memory).sum(),
            _ if alike => first.memory,
            _ => 0,
        };
        let memory = if memory > 0 { format!(" {}", size(memory)) } else { String::new() };
        parts.push(format!("{count} {name}{memory}"));
    }
    let (allowed, pus) = (topology.allowed().len(), topology.machine_cpuset().len());
    if allowed < pus {
        parts.push(format!("{allowed} allowed"));
    }
    parts.join(" · ")
}

/// Shortens a text and replaces control characters, which could spoil the picture.
fn shortened(text: &str) -> String {
    const LONGEST: usize = 120;
    let plain = |c: char| if c.is_control() { char::REPLACEMENT_CHARACTER } else { c };
    let cut = text.chars().nth(LONGEST).map(|_| '…');
    text.chars().take(LONGEST).map(plain).chain(cut).collect()
}

/// Returns the heading: the model of the machine, or the source of its description.
pub(crate) fn heading(topology: &Topology) -> String {
    let machine = &topology.objects(ObjectType::Machine)[0];
    let package = topology.objects(ObjectType::Package).first();
    let names = [Some(machine), package].into_iter().flatten().map(|object| object.name.as_str());
    let names: Vec<_> = names.filter(|name| !name.is_empty()).collect();
    let origin = match topology.origin() {
        Origin::Xml(path) => {
            let file = Path::new(path).file_name().map(|name| name.to_string_lossy());
            format!("simulated from {}", file.unwrap_or_default())
        }
        Origin::Synthetic(text) => format!("simulated: {}", shortened(text)),
        Origin::Live => "this machine".to_owned(),
        other => format!("simulated: {other}"),
    };
    if names.is_empty() { origin } else { format!("{} ({origin})", names.join(", ")) }
}
