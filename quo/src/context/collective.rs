//! Collective calls of the ranks of a node, or of the whole context.

use std::marker::PhantomData;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use super::confinement::Machine;
use super::exchange::{
    HEADER_BYTES, Header, MASK_BYTES, Message, Operation, disagreement, encode_trouble, kind_name,
    kind_number,
};
use super::record::{STATUS_BYTES, encode_status, first_failure, require_agreement};
use super::selection::LastSelection;
use super::state::State;
use super::{Context, Wait};
use crate::cpuset::CpuSet;
use crate::error::{Error, ErrorKind};
use crate::group::{Group, WaitLimits};
use crate::node::{Channel, Exchange, SharedMemory};
use crate::plan::{DistributeRequest, Distribution, Policy, distribute};
use crate::topology::{ObjectType, TopologyError};

/// Objects to distribute over, as given by a program. All ranks check the arguments together, so
/// that a wrong argument on one rank is an error on every rank and not an endless wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// Object type; `None` for one that does not exist.
    pub kind: Option<ObjectType>,
    /// Maximum number of workers per object; must be positive.
    pub max_per_object: i64,
    /// The policy.
    pub policy: Policy,
}

/// A selection and its inputs, for callers that plan further.
#[derive(Debug)]
pub(crate) struct Selection {
    pub(crate) plan: Arc<Distribution>,
    /// Mask of each node rank; `None` for ranks that have left the node.
    pub(crate) masks: Arc<[Option<CpuSet>]>,
    /// Ranks among which was selected.
    pub(crate) state: Arc<State>,
    /// Machine on which they were selected.
    pub(crate) machine: Arc<Machine>,
}

/// Plans a selection among ranks with these masks. Pure.
fn planned(
    machine: &Machine,
    request: &Request,
    masks: &[Option<CpuSet>],
) -> Result<Distribution, Error> {
    let invalid = |reason: String| Error::InvalidArgument { call: "auto_distrib", reason };
    let Some(kind) = request.kind else {
        return Err(invalid("there is no such object type".to_owned()));
    };
    let max_per_object = usize::try_from(request.max_per_object).unwrap_or(0);
    if max_per_object == 0 {
        let reason = format!(
            "at most {} ranks per {kind} selects nobody; give a positive number",
            request.max_per_object
        );
        return Err(invalid(reason));
    }
    let objects = machine.cpusets(kind);
    if objects.is_empty() {
        return Err(TopologyError::NoSuchObject { kind, index: 0, count: 0 }.into());
    }
    // Ranks that have left the node are not planned for, and keep their numbers.
    let present: Vec<CpuSet> = masks.iter().flatten().cloned().collect();
    let mut plan = distribute(&DistributeRequest {
        objects,
        allowed: machine.topology.allowed(),
        masks: &present,
        max_per_object,
        policy: request.policy,
    })?;
    if present.len() < masks.len() {
        let mut chosen = plan.object_of.into_iter();
        plan.object_of =
            masks.iter().map(|mask| mask.as_ref().and_then(|_| chosen.next()?)).collect();
    }
    Ok(plan)
}

impl Context {
    /// Waits until every rank of this node has arrived, and leaves the core to others meanwhile.
    /// Collective over the node.
    ///
    /// Spins for about the time of a wake-up, then sleeps in the kernel.
    ///
    /// # Errors
    /// [`Error::DeadMember`] on every waiting rank if a member ended without arriving.
    #[doc(alias = "QUO_barrier")]
    pub fn barrier(&self) -> Result<(), Error> {
        const CALL: &str = "barrier";
        self.check(CALL)?;
        let state = self.state();
        let _lent = self.lend_if_asked(&state);
        match &state.waiters {
            Some(group) => Ok(group.barrier()?),
            None => state.node.barrier().map_err(state.name_ranks(CALL)),
        }
    }

    /// Like [`barrier`](Self::barrier), but gives up after `limit`. One barrier has one outcome: a
    /// timeout applies to every rank that waits in it or arrives later.
    ///
    /// # Errors
    /// [`ErrorKind::Timeout`], [`Error::DeadMember`], and [`Error::NotSupported`] if this kind of
    /// waiting has no timeout.
    #[doc(alias = "QUO_barrier_timed")]
    pub fn barrier_timeout(&self, limit: Duration) -> Result<(), Error> {
        const CALL: &str = "barrier with a timeout";
        self.check(CALL)?;
        if self.wait() == Wait::Mpi {
            return Err(Error::NotSupported {
                call: CALL,
                reason: "the communication library's barrier has no timeout".to_owned(),
            });
        }
        let state = self.state();
        let _lent = self.lend_if_asked(&state);
        state.node.barrier_timeout(limit).map_err(state.name_ranks(CALL))
    }

    /// Returns a separate barrier for some ranks of this node, identified by its name. Collective
    /// over those ranks, which all pass the same list.
    ///
    /// If the context is [adapted](Self::adapt), the barrier continues among those of its ranks
    /// that still hold it.
    ///
    /// # Errors
    /// [`Error::Node`] if the list is invalid or the node's barriers are used up.
    pub fn named_barrier(
        &self,
        name: &str,
        node_ranks: &[usize],
    ) -> Result<NamedBarrier<'_>, Error> {
        const CALL: &str = "named barrier";
        self.check(CALL)?;
        let state = Arc::clone(&self.state());
        let channel = state.node.named_barrier(name, node_ranks).map_err(state.name_ranks(CALL))?;
        Ok(NamedBarrier { channel, state, context: PhantomData })
    }

    /// Selects at most `max_per_object` ranks per object of a type, preferring close and bound
    /// ranks, and returns true if the caller is selected. Collective over the node.
    ///
    /// # Errors
    /// As [`distribute`](Self::distribute).
    #[doc(alias = "QUO_auto_distrib")]
    pub fn auto_distrib(&self, kind: ObjectType, max_per_object: usize) -> Result<bool, Error> {
        let max_per_object = i64::try_from(max_per_object).unwrap_or(i64::MAX);
        let request = Request { kind: Some(kind), max_per_object, policy: self.policy() };
        Ok(self.distribute_request(&request)?.is_selected(self.node_rank()))
    }

    /// Selects at most `max_per_object` ranks per object of a type and returns the whole selection,
    /// which is the same on every rank of the node. Collective over the node.
    ///
    /// # Errors
    /// [`Error::Disagreement`] if the ranks' requests differ, [`Error::InvalidArgument`],
    /// [`Error::Topology`] if the machine has no object of the type; the same on every rank.
    pub fn distribute(
        &self,
        kind: ObjectType,
        max_per_object: usize,
        policy: Policy,
    ) -> Result<Distribution, Error> {
        let max_per_object = i64::try_from(max_per_object).unwrap_or(i64::MAX);
        self.distribute_request(&Request { kind: Some(kind), max_per_object, policy })
            .map(Arc::unwrap_or_clone)
    }

    /// Like [`distribute`](Self::distribute), for arguments that have not been checked.
    ///
    /// # Errors
    /// As [`distribute`](Self::distribute).
    pub fn distribute_request(&self, request: &Request) -> Result<Arc<Distribution>, Error> {
        self.select(request, 0).map(|selection| selection.plan)
    }

    /// Like [`distribute_request`](Self::distribute_request), for a phase that uses these
    /// [`Cores`](crate::phase::Cores). Also returns the inputs of the selection.
    pub(crate) fn select(&self, request: &Request, cores: u8) -> Result<Selection, Error> {
        const CALL: &str = "auto_distrib";
        self.check(CALL)?;
        let state = self.state();
        let header = Header {
            object_type: request.kind.map_or(u8::MAX, kind_number),
            policy: request.policy,
            cores,
            max_per_object: request.max_per_object,
            ..Header::new(Operation::Distribute)
        };
        // Replaced by all ranks of the node together, and never within a call.
        let machine = state.machine();
        let own = self.shared.own_mask().map(|mask| machine.usable_of(mask));
        let all = self.send_set(&state, CALL, header, own)?;
        let mut last = state.last_selection.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(last) = last.as_ref().filter(|last| last.is_of(&machine, &all)) {
            let (plan, masks) = (Arc::clone(&last.plan), Arc::clone(&last.masks));
            return Ok(Selection { plan, masks, state: Arc::clone(&state), machine });
        }
        state.check_messages(CALL, header, &all)?;
        let masks: Arc<[_]> = state.sets(&all).into();
        let plan = Arc::new(planned(&machine, request, &masks)?);
        *last = LastSelection::of(&machine, &all, &plan, &masks);
        Ok(Selection { plan, masks, state: Arc::clone(&state), machine })
    }

    /// Exchanges sets of CPUs and checks that all ranks sent the same header. `None` stands for a
    /// rank that has left the node.
    pub(super) fn exchange_sets(
        &self,
        state: &State,
        call: &'static str,
        header: Header,
        own: Result<CpuSet, Error>,
    ) -> Result<Vec<Option<CpuSet>>, Error> {
        let all = self.send_set(state, call, header, own)?;
        state.check_messages(call, header, &all)?;
        Ok(state.sets(&all))
    }

    /// Sends a header and a set of CPUs to the ranks of the node, and returns the messages of all.
    fn send_set<'a>(
        &self,
        state: &'a State,
        call: &'static str,
        header: Header,
        own: Result<CpuSet, Error>,
    ) -> Result<Exchange<'a>, Error> {
        let mut bytes = Message::from_slice(&header.encode());
        match own {
            Ok(set) => {
                bytes.extend([0; MASK_BYTES]);
                let set = set.intersection(state.machine().whole.machine_cpuset());
                bytes.extend(set.as_words().iter().flat_map(|word| word.to_ne_bytes()));
            }
            // The other ranks must not wait for a rank that has no set.
            Err(error) => encode_trouble(&mut bytes, error.kind(), &error.to_string()),
        }
        state.node.exchange(&bytes).map_err(state.name_ranks(call))
    }

    /// Sends the CPUs that the caller holds for a phase to the ranks of the node. Returns the
    /// union.
    pub(crate) fn exchange_held(
        &self,
        call: &'static str,
        own: Result<CpuSet, Error>,
    ) -> Result<CpuSet, Error> {
        let state = self.state();
        let sets = self.exchange_sets(&state, call, Header::new(Operation::Hold), own)?;
        Ok(sets.iter().flatten().fold(CpuSet::new(), |all, set| all.union(set)))
    }

    /// Returns a group of the ranks that share the caller's object of a type: the object that
    /// contains its mask, or the first of several that its mask overlaps. `Machine` gives the ranks
    /// of the node. Collective over the context.
    ///
    /// # Errors
    /// [`Error::Agreed`] if any rank's machine has no such object, [`Error::Group`].
    #[doc(alias = "QUO_get_mpi_comm_by_type")]
    pub fn group_over(&self, kind: ObjectType) -> Result<Box<dyn Group>, Error> {
        self.group_over_request(Some(kind))
    }

    /// Like [`group_over`](Self::group_over), for a type that has not been checked; `None` stands
    /// for one that does not exist.
    ///
    /// # Errors
    /// As [`group_over`](Self::group_over).
    pub fn group_over_request(&self, kind: Option<ObjectType>) -> Result<Box<dyn Group>, Error> {
        const CALL: &str = "communicator by type";
        /// More objects of one type than any node has.
        const STRIDE: usize = 1 << 14;
        self.check(CALL)?;
        let state = self.state();
        state.require_world(CALL)?;
        state.group.check()?;
        let object = kind
            .ok_or_else(|| Error::InvalidArgument {
                call: CALL,
                reason: "there is no such object type".to_owned(),
            })
            .and_then(|kind| self.first_object_under_mask(&state, kind));
        let limits = WaitLimits::for_at_most(self.shared.settings.create_timeout);
        let mut record = encode_status(object.as_ref().err()).to_vec();
        record.push(kind.map_or(u8::MAX, kind_number));
        let records = state.group.allgather(&record, &limits)?;
        let (mut statuses, mut kinds) = (Vec::new(), Vec::new());
        for (rank, record) in records.chunks_exact(record.len()).enumerate() {
            let (status, kind) = record.split_at(STATUS_BYTES);
            statuses.extend_from_slice(status);
            kinds.push((rank, kind[0]));
        }
        require_agreement(CALL, "the object type", &kinds, |kind| kind_name(*kind))?;
        first_failure(CALL, &statuses)?;
        let colour = u32::try_from(state.node_index * STRIDE + object?).ok();
        let part = state.group.split(colour, state.rank)?;
        part.ok_or_else(|| Error::NotSupported {
            call: CALL,
            reason: "the context has too many nodes to number their objects".to_owned(),
        })
    }

    fn first_object_under_mask(&self, state: &State, kind: ObjectType) -> Result<usize, Error> {
        let mask = self.shared.own_mask()?;
        let machine = state.machine();
        let objects = machine.cpusets(kind);
        objects.iter().position(|object| object.intersects(&mask)).ok_or_else(|| {
            TopologyError::NoSuchObject { kind, index: 0, count: objects.len() }.into()
        })
    }

    /// Allocates memory that all ranks of the node can read and write, `bytes` of it for this rank.
    /// The ranks' parts follow one another without gaps. Collective over the node; ranks may pass
    /// different sizes.
    ///
    /// # Errors
    /// [`Error::Node`], the same on every rank.
    #[doc(alias = "QUO_xpm_allocate")]
    pub fn allocate(&self, bytes: usize) -> Result<SharedMemory, Error> {
        const CALL: &str = "allocate shared memory";
        self.check(CALL)?;
        let state = self.state();
        state.node.allocate(bytes).map_err(state.name_ranks(CALL))
    }

    /// Like [`allocate`](Self::allocate), among some ranks of the node only. Collective over those
    /// ranks.
    ///
    /// # Errors
    /// [`Error::Node`], the same on every rank.
    #[doc(alias = "QUO_xpm_allocate_by_qids")]
    pub fn allocate_among(
        &self,
        node_ranks: &[usize],
        bytes: usize,
    ) -> Result<SharedMemory, Error> {
        const CALL: &str = "allocate shared memory among ranks";
        self.check(CALL)?;
        let state = self.state();
        state.node.allocate_among(node_ranks, bytes).map_err(state.name_ranks(CALL))
    }
}

impl State {
    /// Returns the sets of an exchange; `None` for ranks that have left the node.
    fn sets(&self, all: &Exchange<'_>) -> Vec<Option<CpuSet>> {
        let set = |node_rank| {
            let words = all.of(node_rank)?.get(HEADER_BYTES + MASK_BYTES..)?;
            Some(mask_from(words))
        };
        (0..self.node_size()).map(set).collect()
    }

    /// Checks that all ranks of the node sent this header, and none an error.
    pub(super) fn check_messages(
        &self,
        call: &'static str,
        header: Header,
        all: &Exchange<'_>,
    ) -> Result<(), Error> {
        let message = header.encode();
        let mut trouble = None;
        for (node_rank, &rank) in self.members.iter().enumerate() {
            let Some(theirs) = all.of(node_rank) else {
                if self.node.was_awaited(node_rank, all) {
                    let values = format!("a barrier on rank {rank}, {call} elsewhere");
                    return Err(Error::Disagreement { call, what: "the call they make", values });
                }
                continue;
            };
            if !theirs.starts_with(&message) {
                let headers: Vec<(usize, Header)> = (0..self.members.len())
                    .filter_map(|other| {
                        Some((self.members[other], Header::decode(all.of(other)?)?))
                    })
                    .collect();
                return Err(disagreement(call, &headers));
            }
            let rest = theirs.get(HEADER_BYTES..).unwrap_or_default();
            if let (None, [1, kind, text @ ..]) = (&trouble, rest) {
                trouble = Some(Error::Agreed {
                    call,
                    rank,
                    kind: ErrorKind::from_number(*kind),
                    text: String::from_utf8_lossy(text).into_owned(),
                });
            }
        }
        trouble.map_or(Ok(()), Err)
    }
}

/// Barrier identified by a name, see [`Context::named_barrier`].
#[derive(Debug)]
pub struct NamedBarrier<'a> {
    channel: Channel,
    /// Ranks for which the barrier was made, whichever are present now.
    state: Arc<State>,
    context: PhantomData<&'a Context>,
}

impl NamedBarrier<'_> {
    /// Waits for the ranks the barrier was made for. Collective over them.
    ///
    /// # Errors
    /// As [`Context::barrier`].
    pub fn wait(&self) -> Result<(), Error> {
        self.channel.barrier().map_err(self.state.name_ranks("named barrier"))
    }

    /// Like [`wait`](Self::wait), for at most `limit`.
    ///
    /// # Errors
    /// As [`Context::barrier_timeout`].
    pub fn wait_timeout(&self, limit: Duration) -> Result<(), Error> {
        self.channel.barrier_timeout(limit).map_err(self.state.name_ranks("named barrier"))
    }
}

fn mask_from(bytes: &[u8]) -> CpuSet {
    let words: smallvec::SmallVec<[u64; 16]> = bytes
        .chunks_exact(size_of::<u64>())
        .map(|word| word.try_into().map_or(0, u64::from_ne_bytes))
        .collect();
    CpuSet::from_words(&words)
}
