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
        /// Columns; 1 where there are none.
        columns: u32,
    },
    /// The arrangement is not of the kind the program said.
    #[error("start: expected {wanted}, got {configuration}")]
    NotOfThisKind {
        /// The configuration that the program starts with.
        configuration: Configuration,
        /// Its words.
        wanted: &'static str,
    },
    /// An increment, block or interval of 0.
    #[error("{call}: {what} is 0")]
    Zero {
        /// The call that was rejected.
        call: &'static str,
        /// The time in question.
        what: &'static str,
    },
    /// A time that is negative, infinite, or no number.
    #[error("{call}: {seconds} is not a time: give seconds, finite and not negative")]
    BadTime {
        /// The call that was rejected.
        call: &'static str,
        /// The value given.
        seconds: f64,
    },
    /// A decision that leads nowhere from here.
    #[error("{call}: a resize from {from} to {to}, but the decision was: {decided}")]
    NotDecided {
        /// The call that was rejected.
        call: &'static str,
        /// The configuration of the loop.
        from: Configuration,
        /// The one that was given.
        to: Configuration,
        /// The decision that the program got: `continue`, `expand` or `shrink`.
        decided: &'static str,
    },
}
