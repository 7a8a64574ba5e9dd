//! Members of a node that leave, rejoin, or died.

use super::Context;
use super::state::State;
use crate::error::Error;
use crate::node::NodeError;

impl Context {
    /// Leaves the node's collective calls: barriers, distributions and phases of the other ranks
    /// continue without this rank, until it [attaches](Self::attach) again. Its other calls keep
    /// working. Local. Returns true if anything changed: leaving twice is no error.
    ///
    /// # Errors
    /// [`Error::NotSupported`] if the kind of waiting counts a fixed number of ranks.
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

    /// Attaches again after [`detach`](Self::detach): the others wait for this rank again, from
    /// their current barrier on. Local. Returns true if anything changed.
    ///
    /// # Errors
    /// [`Error::NotSupported`] if the kind of waiting counts a fixed number of ranks,
    /// [`Error::Node`] if the others treated this rank as dead meanwhile.
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
            // The others may have renewed the machine meanwhile.
            state.node.request();
        }
        Ok(changed)
    }

    /// Returns the node ranks whose processes have ended without leaving, in ascending order.
    /// Local.
    #[must_use]
    pub fn dead_node_ranks(&self) -> Vec<usize> {
        self.state().node.dead_members()
    }

    /// Returns the node ranks that have left in order: that have detached, retired or freed the
    /// context. Local.
    #[must_use]
    pub fn left_node_ranks(&self) -> Vec<usize> {
        let state = self.state();
        (0..state.node_size()).filter(|&member| state.node.has_left(member)).collect()
    }

    /// Removes a dead rank so that the others can continue. Local, and meant for every survivor:
    /// each calls it for the ranks that [`Error::DeadMember`] named before its next collective
    /// call; all but the first such call change nothing. Returns true if the rank was still
    /// counted.
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
    /// Fails for the communication library's barrier and the pthread barrier, which have a fixed
    /// membership.
    fn require_open_membership(&self, call: &'static str) -> Result<(), Error> {
        if self.waiters.is_none() {
            return Ok(());
        }
        let reason = "the communication library's barrier counts a fixed number of ranks";
        Err(Error::NotSupported { call, reason: reason.to_owned() })
    }
}
