//! Counters of a process that advance at equal moments of its work: iterations of loops, entries of
//! phases.

use super::{Course, Frame};
use std::sync::Arc;

/// Thing that is counted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Counted {
    /// Iterations of an outermost loop, by the MPI call that begins them.
    Loop {
        /// Function that is called.
        function: Arc<str>,
        /// Place of the call.
        frame: Frame,
    },
    /// Entries of a phase of the program.
    Phase {
        /// Its name.
        name: Arc<str>,
    },
}

/// A counter over time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Counter {
    /// Thing that is counted.
    pub counted: Counted,
    /// Number at the end.
    pub total: u64,
    /// Time in the loop or phase, in nanoseconds.
    pub time_ns: u64,
    /// Number over time, from the start of the process on.
    pub course: Course,
}
