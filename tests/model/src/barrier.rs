//! The barrier protocol as in the library, and its models.

#[path = "model.rs"]
mod model;
#[path = "../../../quo/src/node/protocol/barrier.rs"]
#[allow(dead_code)] // The library uses more of it than the models do.
mod protocol;
