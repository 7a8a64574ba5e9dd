//! Members of a node that go, come back, or died.

use super::Context;
use super::state::State;
use crate::error::Error;
use crate::node::NodeError;

impl Context {
    /// Leaves the node's collective calls: barriers, distributions and phases of the others go on
    /// without this rank, until it [attaches](Self::attach) again. Its other calls go on working.
    /// Local. Tells whether anything changed: leaving twice is no error.
    ///
    /// # Errors
    /// [`Error::NotSupported`] where the way to wait counts a fixed number of ranks.
    #[doc(alias = "QUO_detach")]
    pub fn detach(&self) -> Result<bool, Error> {
        const CALL: &str = "detach";
        self.check(CALL)?;
        let state = self.state();
        state.require_open_membership(CALL)?;
        let counted = state.node.is_counted(state.node_rank());
        state.node.leave().map_err(state.name_ranks(CALL))?;
        Ok(counted)
    }

    /// Comes back after [`detach`](Self::detach): the others wait for this rank again, from their
    /// current barrier on. Local. Tells whether anything changed.
    ///
    /// # Errors
    /// [`Error::NotSupported`] where the way to wait counts a fixed number of ranks, [`Error::Node`]
    /// when the others took this rank for dead meanwhile.
    #[doc(alias = "QUO_attach")]
    pub fn attach(&self) -> Result<bool, Error> {
        const CALL: &str = "attach";
        self.check(CALL)?;
        let state = self.state();
        state.require_world(CALL)?;
        state.require_open_membership(CALL)?;
        let changed = state.node.rejoin().map_err(state.name_ranks(CALL))?;
        if changed {
            state.node.publish_mask(&self.shared.own_mask()?)?;
            // The others may have looked at the machine meanwhile.
            state.node.request();
        }
        Ok(changed)
    }

    /// The node ranks whose processes have ended without leaving, ascending. Local.
    #[must_use]
    pub fn dead_node_ranks(&self) -> Vec<usize> {
        self.state().node.dead_members()
    }

    /// The node ranks that have left in good order: detached, retired or free of the context. Local.
    #[must_use]
    pub fn left_node_ranks(&self) -> Vec<usize> {
        let state = self.state();
        (0..state.node_size()).filter(|&member| state.node.has_left(member)).collect()
    }

    /// Goes on without a dead rank. Local, and meant for every survivor: each calls it for the ranks
    /// that [`Error::DeadMember`] named before its next collective call; all but the first such call
    /// change nothing. Tells whether the rank was still counted.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] for a rank that is not dead or does not exist.
    #[doc(alias = "QUO_expel")]
    pub fn expel(&self, node_rank: usize) -> Result<bool, Error> {
        const CALL: &str = "expel";
        self.check(CALL)?;
        let state = self.state();
        state.require_open_membership(CALL)?;
        let counted = state.node.is_counted(node_rank);
        match state.node.expel(node_rank) {
            Ok(()) => Ok(counted),
            Err(error @ (NodeError::NotDead { .. } | NodeError::NoSuchMember { .. })) => {
                Err(Error::InvalidArgument { call: CALL, reason: error.to_string() })
            }
            Err(error) => Err(state.name_ranks(CALL)(error)),
        }
    }
}

impl State {
    /// The communication library's barrier has a fixed membership, as has the pthread barrier.
    fn require_open_membership(&self, call: &'static str) -> Result<(), Error> {
        if self.waiters.is_none() {
            return Ok(());
        }
        let reason = "the communication library's barrier counts a fixed number of ranks";
        Err(Error::NotSupported { call, reason: reason.to_owned() })
    }
}
