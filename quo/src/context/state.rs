//! Knowledge of a context about its ranks: everything that another membership replaces.
//!
//! A [`Shared`] stays for the life of a context, a [`State`] for the time of one group of ranks. Calls take the state
//! they find and work in it to their end; an adaptation puts another one in its place. Who still works in the old one,
//! or holds a named barrier of it, keeps it.

use std::any::Any;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, TryLockError};
use std::time::{Duration, Instant};

use super::Peer;
use super::confinement::Machine;
use super::options::Settings;
use super::quota::Quotas;
use crate::affinity::{Backend, BindError, BindingStack, CALLER};
use crate::cpuset::CpuSet;
use crate::error::Error;
use crate::group::{Group, GroupError, WaitLimits};
use crate::metrics::{Clock, PhaseMetrics};
use crate::node::{ForkId, Node, NodeError};
use crate::threading::ThreadControls;

/// Time that short calls of other threads may keep an adaptation waiting before it takes them for
/// calls that wait themselves.
const SHORT_CALLS: Duration = Duration::from_millis(20);

/// The part of a context that is independent of its ranks.
#[derive(Debug)]
pub(crate) struct Shared {
    /// Tells the contexts of this process apart.
    pub(super) number: u64,
    /// The same on every rank of the context, and on no other context.
    pub(super) identity: u64,
    pub(super) settings: Settings,
    pub(super) backend: Arc<dyn Backend>,
    pub(super) process: ForkId,
    pub(super) clock: Clock,
    pub(super) controls: ThreadControls,
    /// Notes on the threads of the last phase.
    pub(super) thread_notes: Mutex<Vec<String>>,
    pub(super) trace: Mutex<Vec<PhaseMetrics>>,
    /// One for each push, where a memory profile is recorded. Changed under the lock of `bindings`.
    pub(super) regions: Mutex<Vec<memprof_hooks::Region>>,
    pub(super) bindings: Mutex<Bindings>,
    /// Loans of this rank.
    pub(super) loan: Mutex<Option<super::lending::Loan>>,
    /// Read by every call, replaced by adaptations; never locked for writing but for a moment, and
    /// never waited for in a queue, so that a call may read it twice.
    state: RwLock<Arc<State>>,
}

/// This rank's pushes, and the part of the state that pushes need: they lock only this.
#[derive(Debug)]
pub(super) struct Bindings {
    pub stack: BindingStack,
    pub own: Arc<crate::topology::Topology>,
    pub node: Arc<Node>,
    /// Entries of the stack that are not this rank's own pushes: 1 while it is kept inside a scope or
    /// a limit.
    pub base: usize,
    /// The rank is to be kept inside the CPUs of `own`.
    pub confined: bool,
    /// CPUs of `own` have changed while bindings were pushed.
    pub unsettled: bool,
    /// The policy for pages that goes with pushes, if there is one.
    pub memory: Option<super::placement::PushedMemory>,
    /// Phases that this rank has entered and not left.
    pub open_phases: usize,
    /// A thread adapts the context: nothing is pushed and no phase entered meanwhile.
    pub adapting: bool,
}

/// The ranks of a context, their nodes and their machine.
#[derive(Debug)]
pub(crate) struct State {
    /// No other state of any context of this process has or had it.
    pub(crate) number: u64,
    pub(super) rank: usize,
    pub(super) size: usize,
    pub(super) group: Arc<dyn Group>,
    pub(super) node: Arc<Node>,
    /// Ranks of the context on this node, by node rank.
    pub(super) members: Vec<usize>,
    pub(super) node_index: usize,
    pub(super) node_count: usize,
    /// The node's ranks for the communication library's own barrier, when that is the way to wait.
    pub(super) waiters: Option<Box<dyn Group>>,
    pub(super) peers: Vec<Peer>,
    /// Replaced when the CPUs that ranks of the node may use have changed.
    pub(super) machine: RwLock<Arc<Machine>>,
    /// The CPUs that ranks of this node were bound to when they came, of those that have gone too.
    pub(super) claimed: CpuSet,
    /// This rank could use all that was allowed when it came.
    pub(super) unbound: bool,
    /// Ranks may have gone since the context was made.
    pub(super) adapted: bool,
    /// This rank has left the world.
    pub(super) retired: bool,
}

/// The state as it is while a call works in it.
pub(crate) type Current<'a> = RwLockReadGuard<'a, Arc<State>>;

impl Shared {
    pub(super) fn new(
        number: u64,
        identity: u64,
        settings: Settings,
        backend: Arc<dyn Backend>,
        state: State,
    ) -> Self {
        let bindings = Bindings {
            stack: BindingStack::new(Arc::clone(&backend)),
            own: Arc::clone(&state.machine().own),
            node: Arc::clone(&state.node),
            base: 0,
            confined: false,
            unsettled: false,
            memory: None,
            open_phases: 0,
            adapting: false,
        };
        Self {
            number,
            identity,
            settings,
            backend,
            process: ForkId::current(),
            clock: Clock::new(),
            controls: ThreadControls::new(),
            thread_notes: Mutex::default(),
            trace: Mutex::default(),
            regions: Mutex::default(),
            bindings: Mutex::new(bindings),
            loan: Mutex::default(),
            state: RwLock::new(Arc::new(state)),
        }
    }

    #[inline]
    pub(super) fn state(&self) -> Current<'_> {
        // A panic cannot leave it half-way: it is replaced as a whole.
        self.state.read().unwrap_or_else(PoisonError::into_inner)
    }

    #[inline]
    pub(super) fn bindings(&self) -> MutexGuard<'_, Bindings> {
        // A panic cannot leave the stack half-way: entries are added and removed last.
        self.bindings.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Refuses calls from forked children.
    #[inline]
    pub(super) fn check(&self, call: &'static str) -> Result<(), Error> {
        if self.is_forked() { Err(Error::Forked { call }) } else { Ok(()) }
    }

    /// Returns true if this process is a forked child of the one that made the context.
    pub(super) fn is_forked(&self) -> bool {
        self.process != ForkId::current()
    }

    /// The calling thread's mask, read now.
    pub(super) fn own_mask(&self) -> Result<CpuSet, Error> {
        self.backend.mask(CALLER).map_err(|source| {
            Error::Bind(BindError::System { call: "binding", action: "reading the mask", source })
        })
    }

    /// Returns true if no other thread of this process is in a call that waits for other ranks.
    pub(super) fn is_idle(&self) -> bool {
        let patience = Instant::now() + SHORT_CALLS;
        loop {
            match self.state.try_write() {
                Err(TryLockError::WouldBlock) if Instant::now() >= patience => return false,
                Err(TryLockError::WouldBlock) => std::thread::yield_now(),
                Ok(_) | Err(TryLockError::Poisoned(_)) => return true,
            }
        }
    }

    /// Puts a state in the place of the present one, as soon as no call works in that; returns it.
    pub(super) fn replace(&self, state: State) -> Arc<State> {
        let (own, node) = (Arc::clone(&state.machine().own), Arc::clone(&state.node));
        let confined = state.machine().bounds.confine();
        let state = Arc::new(state);
        let mut place = loop {
            match self.state.try_write() {
                Ok(place) => break place,
                Err(TryLockError::Poisoned(place)) => break place.into_inner(),
                Err(TryLockError::WouldBlock) => std::thread::sleep(Duration::from_micros(20)),
            }
        };
        let old = std::mem::replace(&mut *place, state);
        drop(place);
        let mut bindings = self.bindings();
        (bindings.own, bindings.node) = (own, node);
        bindings.confined = confined;
        old
    }
}

impl State {
    /// Refuses calls that need the others once this rank has left the world.
    pub(super) fn require_world(&self, call: &'static str) -> Result<(), Error> {
        if self.retired { Err(Error::Retired { call }) } else { Ok(()) }
    }

    /// The machine as the ranks of the node agreed on it last.
    pub(crate) fn machine(&self) -> Arc<Machine> {
        // Never locked for longer than a copy, so nobody waits for others here.
        Arc::clone(&self.machine.read().unwrap_or_else(PoisonError::into_inner))
    }

    pub(crate) fn node_rank(&self) -> usize {
        self.node.member()
    }

    pub(crate) fn node_size(&self) -> usize {
        self.members.len()
    }

    pub(crate) fn rank_of(&self, node_rank: usize) -> Option<usize> {
        self.members.get(node_rank).copied()
    }

    /// The CPUs that ranks of this node were bound to that are not there now, given the masks of those
    /// who are. The same on every rank.
    pub(crate) fn left_by_others(&self, masks: &[Option<CpuSet>]) -> CpuSet {
        if !self.adapted && masks.iter().all(Option::is_some) {
            return CpuSet::new();
        }
        masks.iter().flatten().fold(self.claimed.clone(), |left, mask| left.difference(mask))
    }

    /// The CPU quotas around each node rank.
    pub(crate) fn quotas(&self) -> Vec<Quotas> {
        self.peers.iter().map(|peer| peer.quotas).collect()
    }

    pub(crate) fn peer(&self, node_rank: usize) -> Option<&Peer> {
        self.peers.get(node_rank)
    }

    /// The mask a rank published last, by a push, a pop or its coming.
    pub(crate) fn published_mask(&self, node_rank: usize) -> CpuSet {
        self.node.mask_of(node_rank).ok().flatten().unwrap_or_default()
    }

    /// Node errors speak of members of a node; the context's callers know ranks.
    pub(super) fn name_ranks(&self, call: &'static str) -> impl Fn(NodeError) -> Error + '_ {
        move |error| match error {
            NodeError::DeadMember { members, .. } => Error::DeadMember {
                call,
                ranks: members.iter().filter_map(|&member| self.rank_of(member)).collect(),
            },
            NodeError::Left if self.retired => Error::Retired { call },
            error => Error::Node(error),
        }
    }

    /// The same for a rank that has left the world, under another number.
    pub(super) fn retired(&self, number: u64) -> Self {
        Self {
            number,
            rank: self.rank,
            size: self.size,
            group: Arc::new(Gone { rank: self.rank, size: self.size, tag: self.group.tag() }),
            node: Arc::clone(&self.node),
            members: self.members.clone(),
            node_index: self.node_index,
            node_count: self.node_count,
            waiters: None,
            peers: self.peers.clone(),
            machine: RwLock::new(self.machine()),
            claimed: self.claimed.clone(),
            unbound: self.unbound,
            adapted: self.adapted,
            retired: true,
        }
    }
}

/// Stands for the group of a rank that has left the world: its place is remembered, nobody is there.
#[derive(Debug)]
struct Gone {
    rank: usize,
    size: usize,
    tag: u64,
}

impl Gone {
    fn refuse<T>(call: &'static str) -> Result<T, GroupError> {
        Err(GroupError::Unsuitable { call, reason: "this rank has left the world".into() })
    }
}

impl Group for Gone {
    fn rank(&self) -> usize {
        self.rank
    }

    fn size(&self) -> usize {
        self.size
    }

    fn check(&self) -> Result<(), GroupError> {
        Self::refuse("the group")
    }

    fn allgather(&self, _: &[u8], _: &WaitLimits<'_>) -> Result<Vec<u8>, GroupError> {
        Self::refuse("gather")
    }

    fn barrier(&self) -> Result<(), GroupError> {
        Self::refuse("barrier")
    }

    fn split(&self, _: Option<u32>, _: usize) -> Result<Option<Box<dyn Group>>, GroupError> {
        Self::refuse("split")
    }

    fn tag(&self) -> u64 {
        self.tag
    }

    fn as_any(&self) -> &dyn Any {
        self
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }
}
