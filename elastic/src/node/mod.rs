//! Processes of this node: their shared words, their identities, and the checks that they are alive.

pub(crate) mod env_marker;
pub(crate) mod free_memory;
pub(crate) mod guard;
pub(crate) mod liveness;
pub(crate) mod mailbox;
pub(crate) mod process_identity;
