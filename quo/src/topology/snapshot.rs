//! The snapshot and its queries.

use crate::CpuSet;

use super::index::Index;
use super::{CoreKind, Device, Object, ObjectType, Origin, TopologyError, kinds};

/// Highest CPU number of a topology; keeps hostile input from allocating memory.
pub const MAX_CPU: usize = (1 << 16) - 1;

/// Maximum number of PUs of a topology.
pub const MAX_PUS: usize = 1 << 14;

/// Maximum number of NUMA nodes of a topology.
pub const MAX_NUMA_NODES: usize = 1 << 10;

/// Immutable description of one machine.
///
/// Indices are logical: objects of a type are numbered from 0 in the order in which hwloc lists
/// them. CPU numbers are physical. Queries take a few nanoseconds and may be made from any thread.
///
/// ```
/// use quo::topology::{ObjectType, Topology};
/// let machine = Topology::from_synthetic("package:2 numa:1 core:8 pu:2")?;
/// assert_eq!(machine.count(ObjectType::Core), 16);
/// assert_eq!(machine.count_inside(ObjectType::Package, 1, ObjectType::Pu)?, 16);
/// let package = machine.enclosing(ObjectType::Package, &"18-19".parse().unwrap());
/// assert_eq!(package.map(|package| package.index), Some(1));
/// # Ok::<(), quo::topology::TopologyError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Topology {
    origin: Origin,
    allowed: CpuSet,
    /// By type, then logical index.
    levels: [Vec<Object>; ObjectType::COUNT],
    index: Index,
    /// From slow to fast; every CPU is of one kind.
    pub(super) kinds: Vec<CoreKind>,
    /// Weight of a core of each kind in plans.
    pub(super) weights: Vec<u64>,
    /// Used only for machines other than the one this process runs on.
    pub(super) devices: Vec<Device>,
}

impl Topology {
    /// Builds a machine from objects of any type in any mixture; the order within a type gives the
    /// logical indices.
    ///
    /// A machine object is added if there is none. Of `allowed`, only CPUs that the machine has
    /// count. A CPU listed by several NUMA nodes goes to the smallest of them, or the first of
    /// equals; a node left without CPUs is only memory.
    ///
    /// # Errors
    ///
    /// [`TopologyError::Invalid`] if the objects contradict each other: a PU without exactly one
    /// CPU, two objects of a type that share a CPU (NUMA nodes may), an object other than a NUMA
    /// node without CPUs, CPUs that no PU has, several machines, nothing allowed, or more than
    /// 16,384 PUs, 1,024 NUMA nodes or CPU number [`MAX_CPU`].
    pub fn from_objects(
        objects: impl IntoIterator<Item = Object>,
        allowed: &CpuSet,
        origin: Origin,
    ) -> Result<Self, TopologyError> {
        match levels(objects) {
            Ok(levels) => Self::assemble(origin, levels, allowed),
            Err(cause) => Err(TopologyError::Invalid { what: origin, cause }),
        }
    }

    fn assemble(
        origin: Origin,
        levels: [Vec<Object>; ObjectType::COUNT],
        allowed: &CpuSet,
    ) -> Result<Self, TopologyError> {
        let allowed = levels[0][0].cpuset.intersection(allowed);
        if allowed.is_empty() {
            let cause = "none of its CPUs is allowed".to_owned();
            return Err(TopologyError::Invalid { what: origin, cause });
        }
        let index = Index::new(&levels);
        let kinds = vec![CoreKind::new(levels[0][0].cpuset.clone())];
        Ok(Self { origin, allowed, levels, index, kinds, weights: vec![1], devices: Vec::new() })
    }

    pub(super) fn set_core_kinds(
        &mut self,
        kinds: impl IntoIterator<Item = CoreKind>,
    ) -> Result<(), TopologyError> {
        let kinds = kinds::complete(kinds, self.machine_cpuset())
            .map_err(|cause| TopologyError::Invalid { what: self.origin.clone(), cause })?;
        self.weights = kinds::weights(&kinds);
        self.kinds = kinds;
        Ok(())
    }

    /// Returns the machine with one PU per core: the lowest allowed PU of each core stays, or its
    /// lowest one if none is allowed.
    ///
    /// Counts and CPU sets shrink accordingly. PUs that belong to no core stay.
    #[must_use]
    #[doc(alias = "QUO_CREATE_NO_MT")]
    pub fn without_smt(&self) -> Self {
        let mut kept = self.machine_cpuset().clone();
        for core in self.objects(ObjectType::Core) {
            let usable = core.cpuset.intersection(&self.allowed);
            let stays = usable.first().or_else(|| core.cpuset.first());
            kept = kept.difference(&core.cpuset);
            kept.extend(stays);
        }
        self.restricted_to(&kept)
    }

    /// Returns the machine with only some of its CPUs. Objects without any are removed, except NUMA
    /// nodes; the remaining objects have new indices.
    pub(crate) fn restricted_to(&self, kept: &CpuSet) -> Self {
        let levels = self.levels.clone().map(|level| {
            let mut level: Vec<Object> = level
                .into_iter()
                .filter_map(|mut object| {
                    object.cpuset = object.cpuset.intersection(kept);
                    let stays = object.kind == ObjectType::NumaNode || !object.cpuset.is_empty();
                    stays.then_some(object)
                })
                .collect();
            number(&mut level);
            level
        });
        let index = Index::new(&levels);
        let allowed = self.allowed.intersection(kept);
        let kinds = kinds::restricted(&self.kinds, kept);
        let weights = kinds::weights(&kinds);
        let (origin, devices) = (self.origin.clone(), self.devices.clone());
        Self { origin, allowed, levels, index, kinds, weights, devices }
    }

    /// Returns the machine with another allowed set.
    ///
    /// # Errors
    ///
    /// [`TopologyError::Allowed`] if the set is empty or names a CPU the machine does not have.
    pub fn with_allowed(&self, allowed: &CpuSet) -> Result<Self, TopologyError> {
        let refuse = |cause| {
            let (cpus, machine) = (allowed.to_string(), self.machine_cpuset().to_string());
            Err(TopologyError::Allowed { cpus, machine, cause })
        };
        if allowed.is_empty() {
            return refuse("nothing could run");
        }
        if !allowed.is_subset(self.machine_cpuset()) {
            return refuse("it does not have them all");
        }
        Ok(Self { allowed: allowed.clone(), ..self.clone() })
    }

    /// Returns the number of objects of the type on the machine; 0 if it has none.
    #[must_use]
    #[doc(alias = "QUO_nobjs_by_type")]
    #[doc(alias = "QUO_nnumanodes")]
    #[doc(alias = "QUO_nsockets")]
    #[doc(alias = "QUO_ncores")]
    #[doc(alias = "QUO_npus")]
    pub fn count(&self, kind: ObjectType) -> usize {
        self.levels[kind.slot()].len()
    }

    /// Returns the objects of a type, by logical index.
    #[must_use]
    pub fn objects(&self, kind: ObjectType) -> &[Object] {
        &self.levels[kind.slot()]
    }

    /// Returns the object of a type with this logical index.
    ///
    /// # Errors
    ///
    /// [`TopologyError::NoSuchObject`] if the machine has fewer of them.
    pub fn object(&self, kind: ObjectType, index: usize) -> Result<&Object, TopologyError> {
        self.objects(kind).get(index).ok_or_else(|| self.no_such(kind, index))
    }

    /// Returns the objects of type `inner` whose CPUs all lie in one object, by ascending logical
    /// index.
    ///
    /// An object lies in itself and in any object with the same CPUs. A NUMA node without CPUs lies
    /// in itself and in the machine, and contains nothing else.
    ///
    /// # Errors
    ///
    /// [`TopologyError::NoSuchObject`] if there is no such outer object.
    pub fn objects_inside(
        &self,
        outer: ObjectType,
        index: usize,
        inner: ObjectType,
    ) -> Result<impl DoubleEndedIterator<Item = &Object> + ExactSizeIterator + Clone, TopologyError>
    {
        let inside = self.index.inside(outer, index, inner);
        let inside = inside.ok_or_else(|| self.no_such(outer, index))?;
        let level = self.objects(inner);
        Ok(inside.iter().map(move |&index| &level[index as usize]))
    }

    /// Returns the number of objects that [`objects_inside`](Self::objects_inside) would return.
    ///
    /// # Errors
    ///
    /// [`TopologyError::NoSuchObject`] if there is no such outer object.
    #[doc(alias = "QUO_nobjs_in_type_by_type")]
    pub fn count_inside(
        &self,
        outer: ObjectType,
        index: usize,
        inner: ObjectType,
    ) -> Result<usize, TopologyError> {
        self.index.count_inside(outer, index, inner).ok_or_else(|| self.no_such(outer, index))
    }

    /// Returns the smallest object of the type that contains every CPU of `cpus`; `None` if no
    /// single one does, or if the set is empty.
    #[must_use]
    #[doc(alias = "QUO_BIND_PUSH_OBJ")]
    pub fn enclosing(&self, kind: ObjectType, cpus: &CpuSet) -> Option<&Object> {
        let first = cpus.first()?;
        let holds = |object: &&Object| cpus.is_subset(&object.cpuset);
        self.objects(kind).get(self.index.owner(kind, first)?).filter(holds)
    }

    /// Returns every CPU of the machine, including disallowed ones.
    #[must_use]
    pub fn machine_cpuset(&self) -> &CpuSet {
        &self.levels[ObjectType::Machine.slot()][0].cpuset
    }

    /// Returns the CPUs that this job may use, as set by the administrator or the container
    /// (cgroup).
    ///
    /// The mask a launcher gives to one process is not considered.
    #[must_use]
    pub fn allowed(&self) -> &CpuSet {
        &self.allowed
    }

    /// Returns the source of the description.
    #[must_use]
    pub fn origin(&self) -> &Origin {
        &self.origin
    }

    /// Returns true if this describes another machine than the one the process runs on.
    #[must_use]
    pub fn is_simulated(&self) -> bool {
        self.origin != Origin::Live
    }

    fn no_such(&self, kind: ObjectType, index: usize) -> TopologyError {
        TopologyError::NoSuchObject { kind, index, count: self.count(kind) }
    }
}

fn number(level: &mut [Object]) {
    for (index, object) in level.iter_mut().enumerate() {
        object.index = index;
    }
}

/// Sorts objects by type and checks the assumptions of [`Index`] and every query, in time and
/// memory bounded by the limits, on any input.
fn levels(
    objects: impl IntoIterator<Item = Object>,
) -> Result<[Vec<Object>; ObjectType::COUNT], String> {
    let mut levels: [Vec<Object>; ObjectType::COUNT] = std::array::from_fn(|_| Vec::new());
    let mut covered: [CpuSet; ObjectType::COUNT] = std::array::from_fn(|_| CpuSet::new());
    for object in objects {
        let (kind, slot) = (object.kind, object.kind.slot());
        let count = levels[slot].len();
        let most = match kind {
            ObjectType::Machine => 1,
            ObjectType::NumaNode => MAX_NUMA_NODES,
            _ => MAX_PUS,
        };
        if count == most && kind == ObjectType::Machine {
            return Err("it is more than one machine".to_owned());
        }
        if count == most {
            return Err(format!("it has more than {most} {}", kind.plural()));
        }
        if object.cpuset.last().is_some_and(|cpu| cpu > MAX_CPU) {
            return Err(format!("a CPU number of {kind} {count} is larger than {MAX_CPU}"));
        }
        if kind != ObjectType::NumaNode {
            if object.cpuset.is_empty() {
                return Err(format!("{kind} {count} has no CPU"));
            }
            if object.cpuset.intersects(&covered[slot]) {
                return Err(format!("{kind} {count} shares CPUs with another {kind}"));
            }
        }
        covered[slot] = covered[slot].union(&object.cpuset);
        levels[slot].push(object);
    }
    let every = covered[ObjectType::Pu.slot()].clone();
    if every.is_empty() {
        return Err("it has no PU".to_owned());
    }
    let machines = &mut levels[ObjectType::Machine.slot()];
    match machines.first() {
        None => machines.push(Object::new(ObjectType::Machine, every.clone())),
        Some(machine) if machine.cpuset != every => {
            return Err(format!("the machine has CPUs `{}`, its PUs `{every}`", machine.cpuset));
        }
        Some(_) => {}
    }
    for pu in &mut levels[ObjectType::Pu.slot()] {
        if pu.cpuset.len() != 1 {
            return Err(format!("a PU has CPUs `{}` instead of one", pu.cpuset));
        }
        pu.os_index = pu.cpuset.first();
    }
    for (slot, cpus) in covered.iter().enumerate() {
        if !cpus.is_subset(&every) {
            let foreign = cpus.difference(&every);
            let kind = ObjectType::ALL[slot];
            return Err(format!("CPUs `{foreign}` of a {kind} belong to no PU"));
        }
    }
    claim(&mut levels[ObjectType::NumaNode.slot()]);
    levels.iter_mut().for_each(|level| number(level));
    Ok(levels)
}

/// Assigns each CPU to one NUMA node: the smallest that lists it, or the first of equals.
///
/// For memory without CPUs (high-bandwidth memory, memory on a bus) hwloc lists the CPUs next to
/// it, which the kernel assigns to another node. Work spread over NUMA nodes must use each CPU
/// once.
fn claim(nodes: &mut [Object]) {
    let mut order: Vec<usize> = (0..nodes.len()).collect();
    order.sort_by_key(|&node| nodes[node].cpuset.len());
    let mut claimed = CpuSet::new();
    for node in order {
        let own = nodes[node].cpuset.difference(&claimed);
        claimed = claimed.union(&own);
        nodes[node].cpuset = own;
    }
}
