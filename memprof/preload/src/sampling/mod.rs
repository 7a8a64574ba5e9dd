//! Samples of resident memory, and of page faults.

pub mod faults;
pub mod sampler;
