//! Errors in a program's description of itself.

use super::Configuration;

/// Why a call was rejected; nothing has changed.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum PointsError {
    /// An arrangement of no processors, or of more than can be counted.
    #[error("{call}: {rows} x {columns} processors: the number has to be from 1 to {}", u32::MAX)]
    NoProcessors {
        /// The call that was rejected.
        call: &'static str,
        /// Rows.
        rows: u32,
        /// Columns; 1 for a line.
        columns: u32,
    },
    /// The arrangement does not match the program's topology.
    #[error("start: expected {wanted}, got {configuration}")]
    NotOfThisKind {
        /// The configuration that the program starts with.
        configuration: Configuration,
        /// Description of the topology.
        wanted: &'static str,
    },
    /// An increment, block or interval of 0.
    #[error("{call}: {what} is 0")]
    Zero {
        /// The call that was rejected.
        call: &'static str,
        /// The value in question.
        what: &'static str,
    },
    /// A time that is negative, infinite, or NaN.
    #[error("{call}: {seconds} is not a time: give seconds, finite and not negative")]
    BadTime {
        /// The call that was rejected.
        call: &'static str,
        /// The value given.
        seconds: f64,
    },
    /// A decision that does not apply to the present configuration.
    #[error("{call}: a resize from {from} to {to}, but the decision was: {decided}")]
    NotDecided {
        /// The call that was rejected.
        call: &'static str,
        /// The configuration of the loop.
        from: Configuration,
        /// The given configuration.
        to: Configuration,
        /// The decision that the program got: `continue`, `expand` or `shrink`.
        decided: &'static str,
    },
}
