//! The context: one handle for a set of ranks, their machine and their bindings.
//!
//! - `options`: the options, and the environment that fills the gaps;
//! - `record`, `process`, `machine`: data that ranks exchange at creation, and their subjects;
//! - `form`: the protocol in which ranks come together, `state` its result;
//! - `create`: the collective creation and release, `adapt`: the same context over other ranks,
//!   `registry`: the contexts of this process, for whoever changes its ranks;
//! - `query`: questions about the machine, oneself and the others, answered as of now;
//! - `bind`: the binding stack and its guard;
//! - `collective`: barriers, distribution, cross-rank memory, communicators;
//! - `allowed`, `renew`: CPUs that are taken or given while a context lives;
//! - `devices`: the devices of a node, shared out among its ranks;
//! - `lending`: CPUs that waiting ranks lend to threaded ones;
//! - `limit`: CPUs of a running job, limited from outside;
//! - `scope`: some ranks of a context on a part of its hardware;
//! - `overlap`: what other contexts of the node have pushed;
//! - `members`: ranks that go, come back, or died;
//! - `report`: phases for the trace, and how ranks tell each other how a step went.

mod adapt;
mod agreement;
mod allowed;
mod bind;
mod collective;
mod confinement;
mod control_groups;
mod create;
mod devices;
mod exchange;
mod handshake;
mod launcher;
mod lending;
mod limit;
mod machine;
mod members;
mod options;
pub(crate) mod overlap;
mod peer_identity;
mod placement;
mod query;
pub(crate) mod quota;
mod record;
mod registry;
mod renew;
mod report;
mod scope;
mod state;

use std::sync::Arc;

pub use adapt::{AdaptOptions, Leaving};
pub use bind::BindGuard;
pub(crate) use collective::Selection;
pub use collective::{NamedBarrier, Request};
pub(crate) use confinement::Machine;
pub(crate) use exchange::Operation;
pub use launcher::Launcher;
pub use lending::Borrowed;
pub use limit::limit_cpus;
pub use options::CreateOptions;
pub(crate) use options::Wait;
pub use placement::MemoryPlaces;
pub use registry::Registered;
pub use scope::{Scope, Split};
pub(crate) use state::{Current, State};

use crate::cpuset::CpuSet;
use crate::error::Error;
use crate::group::Group;
use crate::plan::Policy;
use crate::topology::Topology;
use peer_identity::PeerProcess;
use quota::Quotas;
use state::Shared;

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
///
/// A context outlives a change of its ranks, see [`adapt`](Context::adapt).
#[derive(Debug)]
#[doc(alias = "QUO_context")]
pub struct Context {
    shared: Arc<Shared>,
}

/// A rank's knowledge of another one on its node.
#[derive(Clone, Debug)]
pub(crate) struct Peer {
    pub(crate) process: PeerProcess,
    /// Its number means the same process here.
    visible: bool,
    pub(crate) launcher: Launcher,
    /// The CPU quotas around it when the context was made.
    pub(crate) quotas: Quotas,
    /// OpenMP had bound it when the context was made.
    pub(crate) bound_by_openmp: bool,
    /// Its mask when the context was made.
    pub(crate) initial: CpuSet,
}

impl Peer {
    /// Returns true if the number of its process means the same process here.
    pub(crate) fn is_visible(&self) -> bool {
        self.visible
    }
}

impl Context {
    /// This process's rank in the context, from 0. Local.
    #[must_use]
    pub fn rank(&self) -> usize {
        self.state().rank
    }

    /// The number of ranks in the context. Local.
    #[must_use]
    pub fn size(&self) -> usize {
        self.state().size
    }

    /// This process's number among the ranks of its node, from 0. Local.
    #[must_use]
    #[doc(alias = "QUO_id")]
    pub fn node_rank(&self) -> usize {
        self.state().node_rank()
    }

    /// The number of ranks of the context on this node. Local.
    #[must_use]
    #[doc(alias = "QUO_nqids")]
    pub fn node_size(&self) -> usize {
        self.state().node_size()
    }

    /// The number of nodes the context spans. Local.
    #[must_use]
    #[doc(alias = "QUO_nnodes")]
    pub fn node_count(&self) -> usize {
        self.state().node_count
    }

    /// The number of this node among those of the context, from 0. Local.
    #[must_use]
    pub fn node_index(&self) -> usize {
        self.state().node_index
    }

    /// The rank in the context of a node rank; `None` when there is no such node rank. Local.
    #[must_use]
    pub fn rank_of(&self, node_rank: usize) -> Option<usize> {
        self.state().rank_of(node_rank)
    }

    /// The machine as it is for the ranks that there are, without the PUs that the no-SMT option
    /// hides. The allowed CPUs are those that the ranks of the node may use together. Local.
    #[must_use]
    pub fn topology(&self) -> Arc<Topology> {
        Arc::clone(&self.state().machine().topology)
    }

    /// The group the context is over now: a duplicate of the caller's communicator, for MPI. Local.
    #[must_use]
    pub fn group(&self) -> Arc<dyn Group> {
        Arc::clone(&self.state().group)
    }

    /// The way ranks wait in [`barrier`](Self::barrier). Local.
    pub(crate) fn wait(&self) -> Wait {
        self.shared.settings.wait
    }

    /// The policy of [`auto_distrib`](Self::auto_distrib). Local.
    #[must_use]
    pub fn policy(&self) -> Policy {
        self.shared.settings.policy
    }

    /// Returns true if the no-SMT option is on. Local.
    #[must_use]
    pub fn hides_smt(&self) -> bool {
        self.shared.settings.no_smt
    }

    /// Returns this rank's pushes in this context that were not popped, oldest first: the mask
    /// before and the mask pushed. Local.
    #[must_use]
    pub fn pushed(&self) -> Vec<(CpuSet, CpuSet)> {
        let bindings = self.shared.bindings();
        bindings.stack.entries().split_off(bindings.base)
    }

    /// A number that no other context of this process has or had.
    pub(crate) fn number(&self) -> u64 {
        self.shared.number
    }

    /// The ranks and the machine as they are, for the length of a call.
    #[inline]
    pub(crate) fn state(&self) -> Current<'_> {
        self.shared.state()
    }

    /// Refuses calls from forked children.
    #[inline]
    pub(crate) fn check(&self, call: &'static str) -> Result<(), Error> {
        self.shared.check(call)
    }
}
