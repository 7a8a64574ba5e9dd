//! The protocol as the library has it, and its models.

#[path = "model.rs"]
mod model;
#[path = "../../../quo/src/node/protocol/barrier.rs"]
#[allow(dead_code)] // The library uses more of it than the models do.
mod protocol;
