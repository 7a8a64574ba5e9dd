//! What a context knows about its ranks: everything that another membership replaces.
//!
//! A [`Shared`] lives as long as the context, a [`State`] as long as one group of ranks. A call
//! uses the state it finds to its end; an adaptation replaces the state. Calls still in progress in
//! the old state, and holders of its named barriers, keep it alive.

use std::any::Any;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, TryLockError};
use std::time::{Duration, Instant};

use super::Peer;
use super::confinement::Machine;
use super::options::Settings;
use super::quota::Quotas;
use super::selection::LastSelection;
use crate::affinity::memory::KernelPolicy;
use crate::affinity::{Backend, BindError, BindingStack, CALLER, MemoryPolicy};
use crate::cpuset::CpuSet;
use crate::error::Error;
use crate::group::{Group, GroupError, WaitLimits};
use crate::metrics::{Clock, PhaseMetrics};
use crate::node::{ForkId, Loans, Node, NodeError};
use crate::threading::ThreadControls;

/// Time that short calls of other threads may delay an adaptation before they are treated as calls
/// that wait for other ranks.
const SHORT_CALLS: Duration = Duration::from_millis(20);

/// Part of a context that is independent of its ranks.
#[derive(Debug)]
pub(crate) struct Shared {
    /// Identifies the context within this process.
    pub(super) number: u64,
    /// The same on every rank of the context, and different for every other context.
    pub(super) identity: u64,
    pub(super) settings: Settings,
    pub(super) backend: Arc<dyn Backend>,
    pub(super) process: ForkId,
    pub(super) clock: Clock,
    pub(super) controls: ThreadControls,
    /// Notes on the threads of the last phase.
    pub(super) thread_notes: Mutex<Vec<String>>,
    pub(super) trace: Mutex<Vec<PhaseMetrics>>,
    /// One per push, if a memory profile is recorded. Changed under the lock of `bindings`.
    pub(super) regions: Mutex<Vec<memprof_hooks::Region>>,
    pub(super) bindings: Mutex<Bindings>,
    /// Loans of this rank.
    pub(super) loan: Mutex<Option<Loan>>,
    /// Read by every call, replaced by adaptations. Locked for writing only for a moment and
    /// without queueing, so that a call may read it twice.
    state: RwLock<Arc<State>>,
}

/// Policy that follows the pushes of a rank, and the previous policy of its thread.
#[derive(Debug)]
pub(super) struct PushedMemory {
    pub(super) policy: MemoryPolicy,
    pub(super) before: KernelPolicy,
}

/// Loans of this rank, and the push depth at which they were taken; `None` if nothing was pushed.
#[derive(Debug)]
pub(super) struct Loan {
    pub(super) loans: Arc<Loans>,
    pub(super) depth: Option<usize>,
}

/// This rank's pushes, and the part of the state that pushes need, so that they lock only this.
#[derive(Debug)]
pub(super) struct Bindings {
    pub stack: BindingStack,
    pub own: Arc<crate::topology::Topology>,
    pub node: Arc<Node>,
    /// Number of stack entries that are not this rank's own pushes: 1 while the rank is confined to
    /// a scope or a limit.
    pub base: usize,
    /// True if the rank must be kept inside the CPUs of `own`.
    pub confined: bool,
    /// True if the CPUs of `own` have changed while bindings were pushed.
    pub unsettled: bool,
    /// Memory policy that follows pushes, if there is one.
    pub memory: Option<PushedMemory>,
    /// Number of phases that this rank has entered and not left.
    pub open_phases: usize,
    /// True while a thread adapts the context: nothing is pushed and no phase entered meanwhile.
    pub adapting: bool,
}

/// Ranks of a context, their nodes and their machine.
#[derive(Debug)]
pub(crate) struct State {
    /// Unique among all states of all contexts of this process.
    pub(crate) number: u64,
    pub(super) rank: usize,
    pub(super) size: usize,
    pub(super) group: Arc<dyn Group>,
    pub(super) node: Arc<Node>,
    /// Ranks of the context on this node, by node rank.
    pub(super) members: Vec<usize>,
    pub(super) node_index: usize,
    pub(super) node_count: usize,
    /// The node's ranks for the communication library's own barrier, if ranks wait in that.
    pub(super) waiters: Option<Box<dyn Group>>,
    pub(super) peers: Vec<Peer>,
    /// Replaced when the CPUs that ranks of the node may use have changed.
    pub(super) machine: RwLock<Arc<Machine>>,
    pub(super) last_selection: Mutex<Option<LastSelection>>,
    /// CPUs that ranks of this node were bound to when they joined, including ranks that have left.
    pub(super) claimed: CpuSet,
    /// True if this rank could use all allowed CPUs when it joined.
    pub(super) unbound: bool,
    /// True if ranks may have left since the context was made.
    pub(super) adapted: bool,
    /// True if this rank has left the world.
    pub(super) retired: bool,
}

/// The state, locked for the duration of a call.
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
        // A panic cannot leave the state half-way: it is replaced as a whole.
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

    /// Returns the calling thread's mask, read now.
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

    /// Replaces the current state once no call uses it; returns the old one.
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
    /// Refuses calls that need other ranks after this rank has left the world.
    pub(super) fn require_world(&self, call: &'static str) -> Result<(), Error> {
        if self.retired { Err(Error::Retired { call }) } else { Ok(()) }
    }

    /// Returns the machine on which the ranks of the node agreed last.
    pub(crate) fn machine(&self) -> Arc<Machine> {
        // Locked only while it is copied, so no caller waits for other ranks here.
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

    /// Returns the CPUs bound to by ranks of this node that are no longer present, given the masks
    /// of the present ranks. The same on every rank.
    pub(crate) fn left_by_others(&self, masks: &[Option<CpuSet>]) -> CpuSet {
        if !self.adapted && masks.iter().all(Option::is_some) {
            return CpuSet::new();
        }
        masks.iter().flatten().fold(self.claimed.clone(), |left, mask| left.difference(mask))
    }

    /// Returns the CPU quotas around each node rank.
    pub(crate) fn quotas(&self) -> Vec<Quotas> {
        self.peers.iter().map(|peer| peer.quotas).collect()
    }

    pub(crate) fn peer(&self, node_rank: usize) -> Option<&Peer> {
        self.peers.get(node_rank)
    }

    /// Returns the mask a rank published last, by a push or a pop or when it joined.
    pub(crate) fn published_mask(&self, node_rank: usize) -> CpuSet {
        self.node.mask_of(node_rank).ok().flatten().unwrap_or_default()
    }

    /// Converts node errors, which name members of a node, into errors that name ranks.
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

    /// Returns this state for a rank that has left the world, under another number.
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
            last_selection: Mutex::default(),
            claimed: self.claimed.clone(),
            unbound: self.unbound,
            adapted: self.adapted,
            retired: true,
        }
    }
}

/// Replaces the group of a rank that has left the world: rank and size are kept, calls are refused.
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
