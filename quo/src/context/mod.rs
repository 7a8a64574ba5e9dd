//! The context: one handle for a set of ranks, their machine and their bindings.
//!
//! - [`options`]: what can be chosen, and the environment that fills the gaps;
//! - `record`, `process`, `machine`: what ranks tell each other at creation, and about what;
//! - `create`: the collective creation and release;
//! - `query`: questions about the machine, oneself and the others, answered as of now;
//! - `bind`: the binding stack and its guard;
//! - `collective`: barriers, distribution, cross-rank memory, communicators;
//! - `members`: ranks that go, come back, or died;
//! - `report`: phases for the trace, and how ranks tell each other how a step went.

mod bind;
mod collective;
mod confinement;
mod create;
pub mod launcher;
mod machine;
mod members;
pub mod options;
mod process;
mod query;
mod record;
mod report;
mod verdict;

use std::sync::{Arc, Mutex, OnceLock};

pub use bind::BindGuard;
pub(crate) use collective::Operation;
pub use collective::{NamedBarrier, Request};
pub use launcher::Launcher;
pub use options::{CreateOptions, Wait};

use crate::affinity::{Backend, BindingStack};
use crate::cpuset::CpuSet;
use crate::error::Error;
use crate::group::Group;
use crate::node::{ForkId, Node, NodeError};
use crate::phase::{Clock, PhaseMetrics, ThreadControls};
use crate::plan::Policy;
use crate::topology::{ObjectType, Topology};
use options::Settings;
use record::Process;

/// A set of ranks, the nodes they share, the machine under them and the bindings they push.
///
/// Made collectively over a [`Group`]; several contexts coexist, also over overlapping ranks. All
/// methods may be called from any thread; those marked *collective* are called by one thread per
/// rank at a time, by all ranks of the node (or of the context, where it says so) in the same order.
///
/// ```no_run
/// use quo::affinity::Target;
/// use quo::topology::ObjectType;
/// # fn threaded_library() {}
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let space = quo::group::local::LocalSpace::new(1, "/dev/shm".as_ref())?;
/// # let group = space.join(0)?;
/// let context = quo::Context::create(group)?;
/// if context.auto_distrib(ObjectType::Package, 1)? {
///     let guard = context.push_guard(&Target::Enclosing(ObjectType::Package))?;
///     threaded_library();
///     guard.pop()?;
/// }
/// context.barrier()?; // the others sleep here and leave their cores
/// context.free()?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
#[doc(alias = "QUO_context")]
pub struct Context {
    /// Tells the contexts of this process apart.
    number: u64,
    group: Box<dyn Group>,
    node: Arc<Node>,
    /// Ranks of the context on this node, by node rank.
    members: Vec<usize>,
    node_index: usize,
    node_count: usize,
    /// The node's ranks for the communication library's own barrier, when that is the way to wait.
    waiters: Option<Box<dyn Group>>,
    peers: Vec<Peer>,
    settings: Settings,
    topology: Arc<Topology>,
    whole: Arc<Topology>,
    /// The topology with what this rank may use of it, where ranks of a node may use different parts.
    own: Arc<Topology>,
    /// The CPUs that this rank may use, hidden ones included.
    allowed: CpuSet,
    /// The cpusets of the objects of each type, made when first asked for.
    cpusets: [OnceLock<Vec<CpuSet>>; ObjectType::ALL.len()],
    backend: Arc<dyn Backend>,
    stack: Mutex<BindingStack>,
    /// One for each push, where a memory profile is recorded. Changed under the stack's lock.
    regions: Mutex<Vec<crate::regions::Region>>,
    process: ForkId,
    clock: Clock,
    controls: ThreadControls,
    trace: Mutex<Vec<PhaseMetrics>>,
}

/// What this rank remembers of another one on its node.
#[derive(Clone, Debug)]
pub(crate) struct Peer {
    pub(crate) process: Process,
    /// Its number means the same process here.
    visible: bool,
    pub(crate) launcher: Launcher,
    /// Its mask when the context was made.
    pub(crate) initial: CpuSet,
}

impl Context {
    /// This process's rank in the context, from 0. Local.
    #[must_use]
    pub fn rank(&self) -> usize {
        self.group.rank()
    }

    /// The number of ranks in the context. Local.
    #[must_use]
    pub fn size(&self) -> usize {
        self.group.size()
    }

    /// This process's number among the ranks of its node, from 0. Local.
    #[must_use]
    #[doc(alias = "QUO_id")]
    pub fn node_rank(&self) -> usize {
        self.node.member()
    }

    /// The number of ranks of the context on this node. Local.
    #[must_use]
    #[doc(alias = "QUO_nqids")]
    pub fn node_size(&self) -> usize {
        self.members.len()
    }

    /// The number of nodes the context spans. Local.
    #[must_use]
    #[doc(alias = "QUO_nnodes")]
    pub fn node_count(&self) -> usize {
        self.node_count
    }

    /// The number of this node among those of the context, from 0. Local.
    #[must_use]
    pub fn node_index(&self) -> usize {
        self.node_index
    }

    /// The rank in the context of a node rank; `None` when there is no such node rank. Local.
    #[must_use]
    pub fn rank_of(&self, node_rank: usize) -> Option<usize> {
        self.members.get(node_rank).copied()
    }

    /// The machine, without the PUs that the no-SMT option hides. Allowed is what the ranks of the
    /// node may use together. Local.
    #[must_use]
    pub fn topology(&self) -> &Topology {
        &self.topology
    }

    /// The group the context was made over: a duplicate of the caller's communicator, for MPI.
    #[must_use]
    pub fn group(&self) -> &dyn Group {
        &*self.group
    }

    /// The way ranks wait in [`barrier`](Self::barrier). Local.
    #[must_use]
    pub fn wait(&self) -> Wait {
        self.settings.wait
    }

    /// The policy of [`auto_distrib`](Self::auto_distrib). Local.
    #[must_use]
    pub fn policy(&self) -> Policy {
        self.settings.policy
    }

    /// Whether the no-SMT option is on. Local.
    #[must_use]
    pub fn hides_smt(&self) -> bool {
        self.settings.no_smt
    }

    /// What this rank has pushed in this context and not popped, oldest first: the mask before and
    /// the mask pushed. Local.
    #[must_use]
    pub fn pushed(&self) -> Vec<(CpuSet, CpuSet)> {
        let stack = self.stack();
        stack.entries().map(|(before, pushed)| (before.clone(), pushed.clone())).collect()
    }

    /// A number that no other context of this process has or had.
    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    pub(crate) fn peer(&self, node_rank: usize) -> Option<&Peer> {
        self.peers.get(node_rank)
    }

    /// The cpusets of the objects of a type, by logical index.
    pub(crate) fn cpusets(&self, kind: ObjectType) -> &[CpuSet] {
        let place = ObjectType::ALL.iter().position(|&known| known == kind).unwrap_or(0);
        self.cpusets[place].get_or_init(|| {
            self.topology.objects(kind).iter().map(|object| object.cpuset.clone()).collect()
        })
    }

    /// Refuses calls from forked children, and calls after MPI is gone.
    fn check(&self, call: &'static str) -> Result<(), Error> {
        if self.is_forked() { Err(Error::Forked { call }) } else { Ok(()) }
    }

    /// Whether this process is a forked child of the one that made the context.
    fn is_forked(&self) -> bool {
        self.process != ForkId::current()
    }

    /// Node errors speak of members of a node; the context's callers know ranks.
    fn name_ranks(&self, call: &'static str) -> impl Fn(NodeError) -> Error + '_ {
        move |error| match error {
            NodeError::DeadMember { members, .. } => Error::DeadMember {
                call,
                ranks: members.iter().filter_map(|&member| self.rank_of(member)).collect(),
            },
            error => Error::Node(error),
        }
    }
}
