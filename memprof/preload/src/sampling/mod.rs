//! Samples of what is resident, and of page faults.

pub mod faults;
pub mod sampler;
