//! What is resident, asked a few times a second.

use crate::component::Component;

/// What is about to be given back is looked at first, if it may have raised a peak.
pub fn before_release(_start: usize, _length: usize) {}

/// Asks for a sample soon.
pub fn request() {}

/// Numbers of the last full sample.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct Resident {
    pub now: u64,
    pub peak: u64,
}

/// What was resident of a component at the last full sample, and at most.
pub fn resident(_component: Component) -> Resident {
    Resident::default()
}

/// As [`resident`], of all together.
pub fn total() -> Resident {
    Resident::default()
}

/// When the last full sample was taken: nanoseconds since the trace began.
pub fn seen_time() -> u64 {
    0
}
