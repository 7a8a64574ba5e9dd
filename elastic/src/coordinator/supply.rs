//! Nodes from outside the job for a growth.

use std::fmt;
use std::time::Duration;

use crate::model::change::{Cause, RequestId};

/// Source of nodes outside the job: a part of a [`ResourceManager`](super::ResourceManager).
///
/// A request for [new nodes](crate::model::change::Request::nodes) is checked, and refused or
/// accepted; in its turn the nodes are brought, and it continues like a request that names hosts.
/// The manager learns the outcome through [`on_event`](super::ResourceManager::on_event).
pub trait Supply: Send + Sync + fmt::Debug {
    /// Checks that this many nodes could be obtained for a growth that may take `grace`. Called
    /// within a request, which blocks all others: use known facts only.
    ///
    /// # Errors
    /// Why the nodes cannot be obtained.
    fn check(&self, nodes: u32, grace: Option<Duration>) -> Result<(), Cause>;

    /// Brings nodes for this request, and returns their names as the launcher knows them. May take
    /// long, but must end by itself, and soon after [`ends`](super::ResourceManager::ends). Called
    /// in a separate thread.
    ///
    /// # Errors
    /// Why there are none; the request is aborted with this cause.
    fn obtain_nodes(&self, request: RequestId, nodes: u32) -> Result<Vec<String>, Cause>;
}
