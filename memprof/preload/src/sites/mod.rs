//! Where the program allocates: stacks of a random sample of allocations.

use crate::component::Component;
use crate::thread::{Local, State};

/// The countdown of a thread has run out. True if this allocation's stack is kept.
pub fn allocated(_: &Local, state: &State, _: usize, _: usize, _: Component) -> bool {
    state.until_sample.store(i64::MAX, core::sync::atomic::Ordering::Relaxed);
    false
}

/// A sampled block is freed.
pub fn freed(_: usize) {}

pub fn before_fork() {}

pub fn after_fork() {}
