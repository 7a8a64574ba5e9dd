//! The context: one handle for a set of ranks, their machine and their bindings.
//!
//! - `options`: the options, and their defaults from the environment;
//! - `record`, `peer_identity`, `machine`: data that ranks exchange at creation, and their
//!   subjects; `machine_file`: the machine's description for later processes;
//! - `handshake`: the protocol in which ranks meet, `state` its result;
//! - `create`: the collective creation and release, `adapt`: the same context over other ranks,
//!   `registry`: the contexts of this process, for code that changes its ranks;
//! - `query`: the current state of the machine, this rank and the others;
//! - `bind`: the binding stack and its guard;
//! - `collective`: barriers, distribution, cross-rank memory, communicators;
//! - `allowed`, `renew`: CPUs that are taken or given while a context exists;
//! - `devices`: assignment of a node's devices to its ranks;
//! - `lending`: CPUs that waiting ranks lend to threaded ones;
//! - `limit`: limits on the CPUs of a running job, set from outside;
//! - `scope`: some ranks of a context on a part of its hardware;
//! - `overlap`: pushes of other contexts on the node;
//! - `members`: ranks that leave, rejoin, or died;
//! - `report`: phases for the trace, and agreement of the ranks on the result of a step.
//!
//! floors: peer_identity < control_groups < allowed < machine_file < machine < quota < options <
//!     launcher < record < agreement < confinement < selection < state < members < placement <
//!     exchange < report < limit < handshake < adapt < lending < query < live_contexts < create <
//!     scope < bind < devices < registry < renew < overlap < collective

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
mod live_contexts;
mod machine;
mod machine_file;
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
mod selection;
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
pub use quota::cpu_quota;
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

/// Set of ranks, with the nodes they share, their machine and the bindings they push.
///
/// Created collectively over a [`Group`]; several contexts can coexist, even over overlapping
/// ranks. All methods may be called from any thread; those marked *collective* are called by one
/// thread per rank at a time, by all ranks of the node (or of the context, if stated) in the same
/// order.
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
/// A context can outlive a change of its ranks, see [`adapt`](Context::adapt).
#[derive(Debug)]
#[doc(alias = "QUO_context")]
pub struct Context {
    shared: Arc<Shared>,
}

/// What a rank knows about another rank on its node.
#[derive(Clone, Debug)]
pub(crate) struct Peer {
    pub(crate) process: PeerProcess,
    /// True if the process id is valid in this process's namespace.
    visible: bool,
    pub(crate) launcher: Launcher,
    /// CPU quotas that applied to it when the context was made.
    pub(crate) quotas: Quotas,
    /// True if OpenMP had bound it when the context was made.
    pub(crate) bound_by_openmp: bool,
    /// Its mask when the context was made.
    pub(crate) initial: CpuSet,
}

impl Peer {
    /// Returns true if the peer's process id is valid in this process's namespace.
    pub(crate) fn is_visible(&self) -> bool {
        self.visible
    }
}

impl Context {
    /// Returns this process's rank in the context, from 0. Local.
    #[must_use]
    pub fn rank(&self) -> usize {
        self.state().rank
    }

    /// Returns the number of ranks in the context. Local.
    #[must_use]
    pub fn size(&self) -> usize {
        self.state().size
    }

    /// Returns this process's number among the ranks of its node, from 0. Local.
    #[must_use]
    #[doc(alias = "QUO_id")]
    pub fn node_rank(&self) -> usize {
        self.state().node_rank()
    }

    /// Returns the number of ranks of the context on this node. Local.
    #[must_use]
    #[doc(alias = "QUO_nqids")]
    pub fn node_size(&self) -> usize {
        self.state().node_size()
    }

    /// Returns the number of nodes the context spans. Local.
    #[must_use]
    #[doc(alias = "QUO_nnodes")]
    pub fn node_count(&self) -> usize {
        self.state().node_count
    }

    /// Returns the number of this node among those of the context, from 0. Local.
    #[must_use]
    pub fn node_index(&self) -> usize {
        self.state().node_index
    }

    /// Returns the rank in the context of a node rank; `None` if there is no such node rank. Local.
    #[must_use]
    pub fn rank_of(&self, node_rank: usize) -> Option<usize> {
        self.state().rank_of(node_rank)
    }

    /// Returns the machine of the current ranks, without the PUs that the no-SMT option hides. The
    /// allowed CPUs are those that the ranks of the node may use together. Local.
    #[must_use]
    pub fn topology(&self) -> Arc<Topology> {
        Arc::clone(&self.state().machine().topology)
    }

    /// Returns the current group of the context: with MPI, a duplicate of the caller's
    /// communicator. Local.
    #[must_use]
    pub fn group(&self) -> Arc<dyn Group> {
        Arc::clone(&self.state().group)
    }

    /// Returns how ranks wait in [`barrier`](Self::barrier). Local.
    pub(crate) fn wait(&self) -> Wait {
        self.shared.settings.wait
    }

    /// Returns the policy of [`auto_distrib`](Self::auto_distrib). Local.
    #[must_use]
    pub fn policy(&self) -> Policy {
        self.shared.settings.policy
    }

    /// Returns true if the no-SMT option is on. Local.
    #[must_use]
    pub fn hides_smt(&self) -> bool {
        self.shared.settings.no_smt
    }

    /// Returns this rank's pushes in this context that have not been popped, oldest first: the mask
    /// before and the mask pushed. Local.
    #[must_use]
    pub fn pushed(&self) -> Vec<(CpuSet, CpuSet)> {
        let bindings = self.shared.bindings();
        bindings.stack.entries().split_off(bindings.base)
    }

    /// Returns a number that is unique to this context within the process.
    pub(crate) fn number(&self) -> u64 {
        self.shared.number
    }

    /// Returns the current ranks and machine, for the duration of a call.
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
