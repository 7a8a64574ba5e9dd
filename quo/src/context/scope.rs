//! Scopes: contexts of some ranks that are confined to a part of the hardware.
//!
//! A scope is a [`Context`] of its own over the ranks that named the same part, on a machine that has
//! only the CPUs of that part. So all that a context does, such as phases, pushes and barriers, is
//! confined to the part and waits for its ranks only.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use super::Context;
use super::agreement::agree;
use super::handshake::{Established, Participant, handshake, next_number};
use super::peer_identity::digest;
use super::record::{Role, STATUS_BYTES, encode_status, first_failure, require_agreement};
use super::registry;
use super::state::Shared;
use crate::cpuset::CpuSet;
use crate::error::Error;
use crate::group::{Group, WaitLimits};
use crate::plan::{counted, shares};
use crate::topology::{ObjectType, Topology, TopologyError};

const CALL: &str = "split";

/// The parts that the hardware of each node is split into.
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
    numbers: Numbers,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Numbers {
    Weights(Vec<u32>),
    Counts(Vec<u32>),
}

impl Split {
    /// Parts of equal computing power.
    pub fn equally(parts: usize) -> Self {
        Self::weights(&vec![1; parts])
    }

    /// A part for each weight, with computing power in proportion to it: cores count by the
    /// [speed](crate::topology::CoreKind::speed) of their kind. Together the parts are all that the
    /// node's ranks may use.
    #[doc(alias = "QUO_split_by_weight")]
    pub fn weights(weights: &[u32]) -> Self {
        Self { over: ObjectType::Core, numbers: Numbers::Weights(weights.to_vec()) }
    }

    /// A part for each count, with that many whole objects; what is left over belongs to no part.
    #[doc(alias = "QUO_split_by_count")]
    pub fn counts(counts: &[u32]) -> Self {
        Self { over: ObjectType::Core, numbers: Numbers::Counts(counts.to_vec()) }
    }

    /// The type of the objects that are not cut: cores, unless told otherwise.
    pub fn over(mut self, over: ObjectType) -> Self {
        self.over = over;
        self
    }

    /// The number of parts.
    #[must_use]
    pub fn len(&self) -> usize {
        self.numbers().len()
    }

    /// Returns true if there are no parts.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.numbers().is_empty()
    }

    fn numbers(&self) -> &[u32] {
        match &self.numbers {
            Numbers::Weights(numbers) | Numbers::Counts(numbers) => numbers,
        }
    }

    /// The CPUs of each part on a machine: disjoint, and of whole objects as far as these are
    /// allowed. Pure, the same on every rank.
    ///
    /// # Errors
    /// [`Error::Topology`] when the machine has no object of the type, [`Error::Plan`] when it has
    /// too few of them or a number is 0.
    pub fn parts(&self, machine: &Topology) -> Result<Vec<CpuSet>, Error> {
        let objects = machine.objects(self.over);
        if objects.is_empty() {
            return Err(TopologyError::NoSuchObject { kind: self.over, index: 0, count: 0 }.into());
        }
        let units: Vec<CpuSet> = objects.iter().map(|object| object.cpuset.clone()).collect();
        let allowed = machine.allowed();
        Ok(match &self.numbers {
            Numbers::Weights(weights) => {
                shares(allowed, &units, |unit| machine.weight_of(unit), weights)?
            }
            Numbers::Counts(counts) => counted(allowed, &units, counts)?,
        })
    }
}

impl fmt::Display for Split {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = match self.numbers {
            Numbers::Weights(_) => "weights",
            Numbers::Counts(_) => "counts",
        };
        let numbers: Vec<String> = self.numbers().iter().map(ToString::to_string).collect();
        write!(out, "{what} {} over {}", numbers.join(","), self.over)
    }
}

/// A context whose ranks and hardware are one part of a [`Split`].
///
/// It is used as the context that it is. It counts and names the objects of its part only; its ranks
/// are those that named the part, on all nodes. Freed as a context is, which puts the binding back
/// that the rank had before.
#[derive(Debug)]
pub struct Scope {
    context: Context,
    part: usize,
}

impl Scope {
    /// The part of the split, from 0. Local.
    #[must_use]
    pub fn part(&self) -> usize {
        self.part
    }

    /// The CPUs of the part on this node, as far as they are allowed now. Local.
    #[must_use]
    pub fn cpus(&self) -> CpuSet {
        self.context.topology().allowed().clone()
    }

    /// The scope as the context that it is.
    #[must_use]
    pub fn into_context(self) -> Context {
        self.context
    }

    /// As [`Context::free`]: the binding is what it was before the split.
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
    /// time on parts of one split cannot get in each other's way. Collective over the context.
    ///
    /// The rank is bound inside its part until the scope is freed: to what its mask has of the part,
    /// else to the whole part. Phases, pushes and barriers of the scope are confined to it; a scope
    /// can be split in turn. This context goes on working, over all of its ranks and hardware.
    ///
    /// A scope keeps its ranks: free scopes before the ranks of this context
    /// [change](Self::adapt), and split it anew afterwards. CPUs that are taken from the job are
    /// taken from the scope; CPUs that are given to the job belong to no scope until the next split.
    ///
    /// # Errors
    /// The same on every rank: [`Error::Disagreement`] when the ranks give different splits,
    /// [`Error::Agreed`] when the machine of some node has too few objects or some rank names a part
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
    pub fn split(&self, split: &Split, part: usize) -> Result<Scope, Error> {
        self.split_request(Ok(split), part)
    }

    /// As [`split`](Self::split), for arguments that have been found wrong: then it fails on every
    /// rank, for this reason.
    ///
    /// # Errors
    /// As [`split`](Self::split).
    pub fn split_request(
        &self,
        split: Result<&Split, String>,
        part: usize,
    ) -> Result<Scope, Error> {
        self.check(CALL)?;
        // What goes wrong on this node fails on all, below.
        let renewed = self.renew_machine();
        let state = self.state();
        state.require_world(CALL)?;
        state.group.check()?;
        let invalid = |reason: String| Error::InvalidArgument { call: CALL, reason };
        let text = split.as_ref().map(ToString::to_string).unwrap_or_default();
        let own = renewed.and_then(|()| {
            let split = split.map_err(invalid)?;
            let mut parts = split.parts(&state.machine().topology)?;
            if part >= parts.len() {
                let parts = parts.len();
                return Err(invalid(format!("there is no part {part}, the split has {parts}")));
            }
            Ok(parts.swap_remove(part))
        });
        let limits = WaitLimits::for_at_most(self.shared.settings.create_timeout);
        let records = state.group.allgather(&record(own.as_ref().err(), &text), &limits)?;
        check_records(&records)?;
        let own = own?;
        let colour = u32::try_from(part).ok();
        let group = state.group.split(colour, state.rank)?.ok_or_else(|| Error::NotSupported {
            call: CALL,
            reason: format!("there are too many parts to number {part}"),
        })?;
        drop(state);
        let context = self.confined(Arc::from(group), own)?;
        Ok(Scope { context, part })
    }

    /// Makes a context over a group of ranks of this one that all have the same CPUs on a node.
    /// Collective over the group.
    fn confined(&self, group: Arc<dyn Group>, cpus: CpuSet) -> Result<Self, Error> {
        let mut settings = self.shared.settings.clone();
        // The file of the trace is that of this context.
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
        let unbound = self.is_unbound();
        // Dropped when a rank cannot be bound, which puts the others back.
        let scope = Self { shared };
        let entered = scope.enter_scope(unbound);
        agree(&*group, CALL, entered, &WaitLimits::for_at_most(limit))?;
        registry::register(&scope.shared);
        Ok(scope)
    }

    /// Binds this rank inside the CPUs that the context is confined to, for as long as it is there.
    fn enter_scope(&self, unbound: bool) -> Result<(), Error> {
        let mut bindings = self.shared.bindings();
        bindings.confined = true;
        bindings.enter(unbound)
    }

    /// The CPUs that this context is confined to, where it is a [`Scope`]. Local.
    #[must_use]
    pub fn confinement(&self) -> Option<CpuSet> {
        self.state().machine().bounds.scope.clone()
    }
}

/// Room for the text of a split; what is longer is told apart by its digest.
const TEXT_BYTES: usize = 64;

/// What a rank tells the others: its failure if any, and the split it was given.
fn record(failure: Option<&Error>, split: &str) -> Vec<u8> {
    let mut record = encode_status(failure).to_vec();
    record.extend(digest(split.bytes()).to_ne_bytes());
    record.extend(split.bytes().chain(std::iter::repeat(0)).take(TEXT_BYTES));
    record
}

fn check_records(records: &[u8]) -> Result<(), Error> {
    let length = STATUS_BYTES + size_of::<u64>() + TEXT_BYTES;
    let (mut statuses, mut splits) = (Vec::new(), Vec::new());
    for (rank, record) in records.chunks_exact(length).enumerate() {
        let (status, split) = record.split_at(STATUS_BYTES);
        statuses.extend_from_slice(status);
        splits.push((rank, split));
    }
    first_failure(CALL, &statuses)?;
    require_agreement(CALL, "the split", &splits, |split| {
        let text = split.get(size_of::<u64>()..).unwrap_or_default();
        String::from_utf8_lossy(text).trim_end_matches('\0').to_owned()
    })
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
