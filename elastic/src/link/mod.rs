//! Connections between the agents of nodes.

pub(crate) mod acceptor;
pub(crate) mod address_families;
pub(crate) mod agents;
pub(crate) mod endpoint;
