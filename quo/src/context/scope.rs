//! Scopes: contexts of some ranks that are confined to a part of the hardware.
//!
//! A scope is a separate [`Context`] over the ranks that named the same part, on a machine that has
//! only the CPUs of that part. So all operations of the context, such as phases, pushes and
//! barriers, are confined to the part and wait for its ranks only.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use super::Context;
use super::agreement::agree;
use super::handshake::{Established, Participant, handshake, next_number};
use super::live_contexts;
use super::peer_identity::digest;
use super::record::{Role, STATUS_BYTES, encode_status, first_failure, require_agreement};
use super::state::Shared;
use crate::cpuset::CpuSet;
use crate::error::Error;
use crate::group::{Group, WaitLimits};
use crate::plan::{counted, near, shares};
use crate::topology::{Device, DeviceKind, ObjectType, Topology, TopologyError};

const CALL: &str = "split";

/// How the hardware of each node is split into parts.
///
/// ```
/// use quo::context::Split;
/// use quo::{ObjectType, Topology};
/// let machine = Topology::from_synthetic("pack:2 core:4 pu:1")?;
/// let parts = Split::weights(&[3, 1]).parts(&machine)?;
/// assert_eq!(parts[0].to_string(), "0-5");
/// assert_eq!(parts[1].to_string(), "6-7");
/// let parts = Split::equally(2).over(ObjectType::Package).parts(&machine)?;
/// assert_eq!(parts[1].to_string(), "4-7");
/// # Ok::<(), quo::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
pub struct Split {
    over: ObjectType,
    by: By,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum By {
    Weights(Vec<u32>),
    Counts(Vec<u32>),
    Near(DeviceKind),
}

impl Split {
    /// Splits into parts of equal computing power.
    pub fn equally(parts: usize) -> Self {
        Self::weights(&vec![1; parts])
    }

    /// Splits into one part per weight, with computing power in proportion to it: cores count by
    /// the [speed](crate::topology::CoreKind::speed) of their kind. Together the parts cover
    /// everything that the node's ranks may use.
    #[doc(alias = "QUO_split_by_weight")]
    pub fn weights(weights: &[u32]) -> Self {
        Self { over: ObjectType::Core, by: By::Weights(weights.to_vec()) }
    }

    /// Splits into one part per count, with that many whole objects; remaining objects belong to no
    /// part.
    #[doc(alias = "QUO_split_by_count")]
    pub fn counts(counts: &[u32]) -> Self {
        Self { over: ObjectType::Core, by: By::Counts(counts.to_vec()) }
    }

    /// Splits into one part per device of a kind that some rank of the node names, with the objects
    /// near it. Objects near several of these devices are dealt out among them, as evenly as
    /// nearness allows; objects near none of them belong to no part. The number of a part is that
    /// of its device among all of the kind in the order of the bus, see
    /// [`part_near`](Self::part_near), so nodes may have different numbers of devices.
    ///
    /// ```
    /// use quo::context::Split;
    /// use quo::topology::{DeviceKind, Topology};
    /// # let file = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/machines/gpus.xml");
    /// let machine = Topology::from_xml_file(file.as_ref())?;
    /// let parts = Split::near(DeviceKind::Gpu).parts(&machine)?;
    /// assert_eq!(parts[0].to_string(), "0-3");
    /// assert_eq!(parts[1].to_string(), "4-7");
    /// # Ok::<(), quo::Error>(())
    /// ```
    #[doc(alias = "QUO_split_by_device")]
    pub fn near(kind: DeviceKind) -> Self {
        Self { over: ObjectType::Core, by: By::Near(kind) }
    }

    /// Returns the number of the part of a [split by devices](Self::near) that is near this device:
    /// its number among the devices of its kind in the order of the bus, including devices that the
    /// environment hides from the rank. `None` if the machine has no such device. Local.
    ///
    /// ```no_run
    /// # fn example(context: &quo::Context) -> Result<(), quo::Error> {
    /// use quo::context::Split;
    /// use quo::topology::DeviceKind;
    /// // Ranks that use the same GPU share the cores near it.
    /// if let Some(gpu) = context.assign_device(DeviceKind::Gpu)?
    ///     && let Some(part) = Split::part_near(&context.topology(), &gpu)
    /// {
    ///     let scope = context.split(&Split::near(DeviceKind::Gpu), part)?;
    /// #   scope.free()?;
    /// }
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn part_near(machine: &Topology, device: &Device) -> Option<usize> {
        let devices = devices_of(machine, device.kind);
        devices.iter().position(|known| known.bus == device.bus)
    }

    /// Sets the type of the objects that are not cut; cores by default.
    pub fn over(mut self, over: ObjectType) -> Self {
        self.over = over;
        self
    }

    /// Returns the CPUs of each part on a machine: disjoint, and consisting of whole objects except
    /// for CPUs that are not allowed; with devices, as if each device were named. Pure, the same on
    /// every rank.
    ///
    /// # Errors
    /// [`Error::Topology`] if the machine has no object of the type, [`Error::Plan`] if it has too
    /// few of them, a number is 0, or a device has no allowed object near it.
    pub fn parts(&self, machine: &Topology) -> Result<Vec<CpuSet>, Error> {
        self.parts_where(machine, |_| true)
    }

    /// Like [`parts`](Self::parts), but devices that are not named get nothing.
    fn parts_where(
        &self,
        machine: &Topology,
        is_named: impl Fn(usize) -> bool,
    ) -> Result<Vec<CpuSet>, Error> {
        let objects = machine.objects(self.over);
        if objects.is_empty() {
            return Err(TopologyError::NoSuchObject { kind: self.over, index: 0, count: 0 }.into());
        }
        let units: Vec<CpuSet> = objects.iter().map(|object| object.cpuset.clone()).collect();
        let (allowed, weight) = (machine.allowed(), |unit: &CpuSet| machine.weight_of(unit));
        Ok(match &self.by {
            By::Weights(weights) => shares(allowed, &units, weight, weights)?,
            By::Counts(counts) => counted(allowed, &units, counts)?,
            By::Near(kind) => {
                let devices: Vec<CpuSet> =
                    devices_of(machine, *kind).into_iter().map(|device| device.cpuset).collect();
                let named: Vec<usize> = (0..devices.len()).filter(|&it| is_named(it)).collect();
                let mut parts = vec![CpuSet::new(); devices.len()];
                if named.is_empty() {
                    return Ok(parts);
                }
                let places: Vec<CpuSet> = named.iter().map(|&it| devices[it].clone()).collect();
                let own = near(allowed, &units, weight, &places)
                    .map_err(|error| error.of_device(|device| named[device]))?;
                named.into_iter().zip(own).for_each(|(device, cpus)| parts[device] = cpus);
                parts
            }
        })
    }

    /// Returns the CPUs of one part on a node whose ranks name `named`.
    fn part(&self, machine: &Topology, part: usize, named: &[usize]) -> Result<CpuSet, Error> {
        let mut parts = self.parts_where(machine, |device| named.contains(&device))?;
        if part < parts.len() {
            return Ok(parts.swap_remove(part));
        }
        let count = parts.len();
        let reason = match self.by {
            By::Near(kind) => format!("there is no {kind} device {part}, the node has {count}"),
            By::Weights(_) | By::Counts(_) => {
                format!("there is no part {part}, the split has {count}")
            }
        };
        Err(Error::InvalidArgument { call: CALL, reason })
    }
}

/// Returns the devices of a kind in the order of the bus.
fn devices_of(machine: &Topology, kind: DeviceKind) -> Vec<Device> {
    machine.devices().into_iter().filter(|device| device.kind == kind).collect()
}

impl fmt::Display for Split {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (name, numbers) = match &self.by {
            By::Weights(numbers) => ("weights", numbers),
            By::Counts(numbers) => ("counts", numbers),
            By::Near(kind) => return write!(out, "near each {kind} over {}", self.over),
        };
        let numbers: Vec<String> = numbers.iter().map(ToString::to_string).collect();
        write!(out, "{name} {} over {}", numbers.join(","), self.over)
    }
}

/// Context whose ranks and hardware are one part of a [`Split`].
///
/// It is used like any context. It counts and names the objects of its part only; its ranks are
/// those that named the part, on all nodes. It is freed like a context, which restores the binding
/// that the rank had before.
#[derive(Debug)]
pub struct Scope {
    context: Context,
    part: usize,
}

impl Scope {
    /// Returns the part of the split, from 0. Local.
    #[must_use]
    pub fn part(&self) -> usize {
        self.part
    }

    /// Returns the CPUs of the part on this node that are currently allowed. Local.
    #[must_use]
    pub fn cpus(&self) -> CpuSet {
        self.context.topology().allowed().clone()
    }

    /// Converts the scope into its context.
    #[must_use]
    pub fn into_context(self) -> Context {
        self.context
    }

    /// Frees the scope like [`Context::free`]; the binding is what it was before the split.
    ///
    /// # Errors
    /// As [`Context::free`].
    pub fn free(self) -> Result<(), Error> {
        self.context.free()
    }
}

impl Deref for Scope {
    type Target = Context;

    fn deref(&self) -> &Context {
        &self.context
    }
}

impl Context {
    /// Splits the hardware of each node into disjoint parts and gives the ranks that name the same
    /// part a scope there: a context of these ranks on these CPUs. Components that run at the same
    /// time on parts of one split cannot disturb each other. Collective over the context.
    ///
    /// The rank is bound inside its part until the scope is freed: to the part of its mask that is
    /// inside, or to the whole part if there is none. Phases, pushes and barriers of the scope are
    /// confined to it; a scope can be split in turn. This context stays usable, over all of its
    /// ranks and hardware.
    ///
    /// A scope keeps its ranks: free scopes before the ranks of this context [change](Self::adapt),
    /// and split it again afterwards. CPUs that are taken from the job are taken from the scope;
    /// CPUs that are given to the job belong to no scope until the next split.
    ///
    /// # Errors
    /// The same on every rank: [`Error::Disagreement`] if the ranks pass different splits,
    /// [`Error::Agreed`] if the machine of some node has too few objects or some rank names a part
    /// that does not exist, and as [`create`](Self::create).
    ///
    /// ```no_run
    /// # fn example(context: &quo::Context, ocean: bool) -> Result<(), quo::Error> {
    /// use quo::context::Split;
    /// use quo::phase::PhaseSpec;
    /// use quo::ObjectType;
    /// // The atmosphere gets three quarters of each node, the ocean one.
    /// let scope = context.split(&Split::weights(&[3, 1]), usize::from(ocean))?;
    /// let phase = scope.phase(PhaseSpec::over(ObjectType::Machine))?;
    /// phase.run(|_worker| ())?; // waits for the ranks of the own component only
    /// scope.free()
    /// # }
    /// ```
    #[doc(alias = "QUO_split_by_weight")]
    #[doc(alias = "QUO_split_by_count")]
    #[doc(alias = "QUO_split_by_device")]
    pub fn split(&self, split: &Split, part: usize) -> Result<Scope, Error> {
        self.split_request(Ok(split), part)
    }

    /// Like [`split`](Self::split), for arguments that may have been found wrong: an `Err` makes
    /// the call fail on every rank, for this reason.
    ///
    /// # Errors
    /// As [`split`](Self::split).
    pub fn split_request(
        &self,
        split: Result<&Split, String>,
        part: usize,
    ) -> Result<Scope, Error> {
        self.check(CALL)?;
        // A failure on this node makes all ranks fail, below.
        let renewed = self.renew_machine();
        let state = self.state();
        state.require_world(CALL)?;
        state.group.check()?;
        let invalid = |reason: String| Error::InvalidArgument { call: CALL, reason };
        let text = split.as_ref().map(ToString::to_string).unwrap_or_default();
        let own = renewed.and_then(|()| {
            let split = split.map_err(invalid)?;
            Ok((split, split.part(&state.machine().topology, part, &[part])?))
        });
        let limits = WaitLimits::for_at_most(self.shared.settings.create_timeout);
        let records = state.group.allgather(&record(own.as_ref().err(), &text, part), &limits)?;
        let named = check_records(&records)?;
        let (split, mut own) = own?;
        if let By::Near(_) = split.by {
            // Ranks of this node may name other devices near the same CPUs.
            let named: Vec<usize> = state.members.iter().map(|&rank| named[rank]).collect();
            let shared = split.part(&state.machine().topology, part, &named);
            own = agree(&*state.group, CALL, shared, &limits)?;
        }
        let colour = u32::try_from(part).ok();
        let group = state.group.split(colour, state.rank)?.ok_or_else(|| Error::NotSupported {
            call: CALL,
            reason: format!("there are too many parts to number {part}"),
        })?;
        drop(state);
        let context = self.confined(Arc::from(group), own)?;
        Ok(Scope { context, part })
    }

    /// Creates a context over a group of this context's ranks that all have the same CPUs on a
    /// node. Collective over the group.
    fn confined(&self, group: Arc<dyn Group>, cpus: CpuSet) -> Result<Self, Error> {
        let mut settings = self.shared.settings.clone();
        // Only this context writes the trace file.
        settings.trace = None;
        let limit = settings.create_timeout;
        let established = handshake(
            Arc::clone(&group),
            Participant {
                role: Role::Creates,
                settings: Ok(settings),
                limit,
                watch: &|| Ok(()),
                prepare: &mut || Ok(()),
                backend: Some(Arc::clone(&self.shared.backend)),
                claimed: CpuSet::new(),
                scope: Some(cpus),
            },
        )?;
        let Established { state, settings, identity, backend } = established;
        let shared = Arc::new(Shared::new(next_number(), identity, settings, backend, state));
        let first = self.shared.bindings().stack.depth() == 0;
        let unbound = |now: &CpuSet| first && self.has_all_of_its_own_accord(now);
        // Dropped if a rank cannot be bound, which restores the bindings of the others.
        let scope = Self { shared };
        let entered = scope.enter_scope(unbound);
        agree(&*group, CALL, entered, &WaitLimits::for_at_most(limit))?;
        live_contexts::register(&scope.shared);
        Ok(scope)
    }

    /// Binds this rank inside the CPUs to which the context is confined, for its lifetime.
    fn enter_scope(&self, unbound: impl FnOnce(&CpuSet) -> bool) -> Result<(), Error> {
        let mut bindings = self.shared.bindings();
        bindings.confined = true;
        bindings.enter(unbound)
    }

    /// Returns the CPUs to which this context is confined, if it is a [`Scope`]. Local.
    #[must_use]
    pub fn confinement(&self) -> Option<CpuSet> {
        self.state().machine().bounds.scope.clone()
    }
}

/// Capacity for the text of a split; longer texts are distinguished by their digest.
const TEXT_BYTES: usize = 64;

/// Encodes a rank's message to the others: its failure if any, the part it names, and its split.
fn record(failure: Option<&Error>, split: &str, part: usize) -> Vec<u8> {
    let mut record = encode_status(failure).to_vec();
    record.extend((part as u64).to_ne_bytes());
    record.extend(digest(split.bytes()).to_ne_bytes());
    record.extend(split.bytes().chain(std::iter::repeat(0)).take(TEXT_BYTES));
    record
}

/// Returns the part that each rank names.
fn check_records(records: &[u8]) -> Result<Vec<usize>, Error> {
    const NUMBER: usize = size_of::<u64>();
    let length = STATUS_BYTES + 2 * NUMBER + TEXT_BYTES;
    let (mut statuses, mut parts, mut splits) = (Vec::new(), Vec::new(), Vec::new());
    for (rank, record) in records.chunks_exact(length).enumerate() {
        let (status, rest) = record.split_at(STATUS_BYTES);
        let (part, split) = rest.split_at(NUMBER);
        statuses.extend_from_slice(status);
        let part = part.try_into().map_or(u64::MAX, u64::from_ne_bytes);
        parts.push(usize::try_from(part).unwrap_or(usize::MAX));
        splits.push((rank, split));
    }
    first_failure(CALL, &statuses)?;
    require_agreement(CALL, "the split", &splits, |split| {
        let text = split.get(NUMBER..).unwrap_or_default();
        String::from_utf8_lossy(text).trim_end_matches('\0').to_owned()
    })?;
    Ok(parts)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(split: &Split, machine: &Topology) -> Vec<String> {
        split.parts(machine).unwrap().iter().map(CpuSet::to_string).collect()
    }

    #[test]
    fn parts_are_made_of_whole_objects_of_the_type() {
        let machine = Topology::from_synthetic("pack:2 core:4 pu:2").unwrap();
        assert_eq!(texts(&Split::equally(2), &machine), ["0-7", "8-15"]);
        assert_eq!(texts(&Split::weights(&[1, 7]), &machine), ["0-1", "2-15"]);
        assert_eq!(texts(&Split::counts(&[1, 2]), &machine), ["0-1", "2-5"]);
        let by_package = Split::weights(&[3, 1]).over(ObjectType::Package);
        assert_eq!(texts(&by_package, &machine), ["0-7", "8-15"]);
        let by_thread = Split::equally(16).over(ObjectType::Pu);
        assert_eq!(texts(&by_thread, &machine)[15], "15");
    }

    #[test]
    fn fast_and_slow_cores_are_split_by_their_speeds() {
        let xml = include_str!("../../tests/machines/fast-and-slow-cores.xml");
        let machine = Topology::from_xml(xml).unwrap();
        assert_eq!(texts(&Split::equally(2), &machine), ["0-5,12-15", "6-11,16-19"]);
    }

    #[test]
    fn cores_near_the_named_devices_are_dealt_out() {
        let xml = include_str!("../../tests/machines/gpus.xml");
        let machine = Topology::from_xml(xml).unwrap();
        let gpus = Split::near(DeviceKind::Gpu);
        assert_eq!(texts(&gpus, &machine), ["0-3", "4-7"]);
        assert_eq!(texts(&gpus.clone().over(ObjectType::Package), &machine), ["0-3", "4-7"]);
        assert_eq!(texts(&Split::near(DeviceKind::Network), &machine), ["0-3"]);
        let part = |part, named: &[usize]| gpus.part(&machine, part, named).unwrap().to_string();
        assert_eq!((part(0, &[0, 0]), part(1, &[0, 1])), ("0-3".to_owned(), "4-7".to_owned()));
        let devices = machine.devices();
        let found: Vec<_> =
            devices.iter().map(|device| Split::part_near(&machine, device)).collect();
        assert_eq!(found, [Some(0), Some(0), Some(0), Some(1)]);
        let elsewhere = Topology::from_synthetic("core:2 pu:1").unwrap();
        assert_eq!(Split::part_near(&elsewhere, &devices[0]), None);
        assert!(texts(&gpus, &elsewhere).is_empty());
    }

    #[test]
    fn devices_without_a_near_core_are_refused_by_number() {
        let xml = include_str!("../../tests/machines/gpus.xml");
        let machine = Topology::from_xml(xml).unwrap();
        let machine = machine.with_allowed(&"0-2".parse().unwrap()).unwrap();
        let gpus = Split::near(DeviceKind::Gpu);
        let error = |part| gpus.part(&machine, part, &[part]).unwrap_err().to_string();
        assert!(error(1).contains("device 1") && error(1).contains("4-7"), "{}", error(1));
        assert!(error(2).contains("no gpu device 2, the node has 2"), "{}", error(2));
        assert_eq!(gpus.part(&machine, 0, &[0]).unwrap().to_string(), "0-2");
    }

    #[test]
    fn allowed_cpus_alone_are_split() {
        let machine = Topology::from_synthetic("pack:2 core:4 pu:1").unwrap();
        let machine = machine.with_allowed(&"0-2,4-6".parse().unwrap()).unwrap();
        assert_eq!(texts(&Split::weights(&[2, 1]), &machine), ["0-2,4", "5-6"]);
        let by_package = Split::equally(2).over(ObjectType::Package);
        assert_eq!(texts(&by_package, &machine), ["0-2", "4-6"]);
    }

    #[test]
    fn impossible_splits_name_what_there_is() {
        let machine = Topology::from_synthetic("pack:2 core:4 pu:1").unwrap();
        let error = |split: &Split| split.parts(&machine).unwrap_err().to_string();
        let few = error(&Split::equally(3).over(ObjectType::Package));
        assert!(few.contains("2 whole objects") && few.contains("3 parts"), "{few}");
        assert!(error(&Split::weights(&[1, 0])).contains("part 1"));
        assert!(error(&Split::equally(0)).contains("0 parts"));
        assert!(error(&Split::equally(2).over(ObjectType::Die)).contains("die"));
    }
}
