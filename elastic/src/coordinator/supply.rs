//! Nodes from outside for a growth.

use std::fmt;
use std::time::Duration;

use crate::model::change::{Cause, RequestId};

/// Source of nodes that the job does not have yet: a part of a [`ResourceManager`](super::ResourceManager).
///
/// A request that wants [new nodes](crate::model::change::Request::nodes) is checked, and refused or accepted; when its turn
/// has come they are brought, and it goes on as one for hosts that were named. Whoever brought them hears by
/// [`on_event`](super::ResourceManager::on_event) how the request ended.
pub trait Supply: Send + Sync + fmt::Debug {
    /// Checks that so many nodes might be had for a growth that may take so long. Called by a request, while no other
    /// is heard: it may only look at known facts.
    ///
    /// # Errors
    /// Why not.
    fn check(&self, nodes: u32, grace: Option<Duration>) -> Result<(), Cause>;

    /// Brings them, for this request: their names, as the launcher knows them. It may take long, but has to end by
    /// itself, and soon once [`ends`](super::ResourceManager::ends) has been called. Called by a thread for it.
    ///
    /// # Errors
    /// Why there are none; the request is aborted with it.
    fn bring(&self, request: RequestId, nodes: u32) -> Result<Vec<String>, Cause>;
}
