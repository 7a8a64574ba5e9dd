//! What the program was doing: phases that begin and end, one inside the other.

/// The index of the innermost phase of the process.
pub fn current() -> u16 {
    0
}

/// The program asked for silence: no samples, no phases, until it asks for them again.
pub fn paused() -> bool {
    false
}
