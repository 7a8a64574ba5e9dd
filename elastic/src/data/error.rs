//! Errors of arrays.

use quo::group::GroupError;

use crate::layout::LayoutError;

/// Why an operation on arrays failed. The failures of moves, [`DataError::Disagree`],
/// [`DataError::Layout`] and [`DataError::Failed`], are the same on all participants.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DataError {
    /// A process that is no rank holds no arrays.
    #[error("{call}: a process that is no rank holds no arrays: it gets them when it joins")]
    NoRank {
        /// The call.
        call: &'static str,
    },
    /// The name is taken.
    #[error("{call}: there is already the {kind} `{name}`: choose another name")]
    Twice {
        /// The call.
        call: &'static str,
        /// Kind of the data with the name, such as `matrix`.
        kind: &'static str,
        /// The name.
        name: String,
    },
    /// No data of this kind have the name.
    #[error(
        "{call}: there is no {kind} `{name}`; this process has {}. A resize moves what all ranks have registered \
         before it is granted: register before the first probe",
        list(.registered)
    )]
    Unknown {
        /// The call.
        call: &'static str,
        /// Kind of the data, such as `matrix`.
        kind: &'static str,
        /// The name.
        name: String,
        /// The kinds and names of registered data.
        registered: Vec<String>,
    },
    /// The array has elements of another size.
    #[error("{call}: elements of `{name}` have {found} bytes, not {expected}")]
    Element {
        /// The call.
        call: &'static str,
        /// The array.
        name: String,
        /// The requested size.
        expected: usize,
        /// The size of the array's elements.
        found: usize,
    },
    /// Data of another length than this rank's part of the array.
    #[error("{call}: this rank's part of `{name}` has {expected} elements; {found} were given")]
    Length {
        /// The call.
        call: &'static str,
        /// The array.
        name: String,
        /// The part's length, in elements.
        expected: usize,
        /// The length given.
        found: usize,
    },
    /// No memory for the array.
    #[error("{call}: no memory for {bytes} bytes of `{name}`: {reason}")]
    Memory {
        /// The call.
        call: &'static str,
        /// The array.
        name: String,
        /// Number of bytes.
        bytes: usize,
        /// The kernel's error.
        reason: String,
    },
    /// An array cannot have this layout on the ranks.
    #[error("{call}: `{name}`: {source}")]
    Layout {
        /// The call.
        call: &'static str,
        /// The array.
        name: String,
        /// Why.
        source: LayoutError,
    },
    /// Ranks have registered different data. Nothing was moved.
    #[error("{call}: rank {rank}: {reason}")]
    Disagree {
        /// The call.
        call: &'static str,
        /// The rank, in the communicator of the window.
        rank: usize,
        /// The difference.
        reason: String,
    },
    /// A rank failed in the move. All ranks keep their previous data.
    #[error("move: rank {rank}: {reason}")]
    Failed {
        /// The first such rank, in the communicator of the window.
        rank: usize,
        /// Why.
        reason: String,
    },
    /// The data of this window have already been moved, or their move has failed.
    #[error("move: {reason}")]
    InvalidState {
        /// The state of the registry.
        reason: &'static str,
    },
    /// Rows of a matrix, or items, do not fit.
    #[error("{call}: `{name}`: {reason}")]
    Rows {
        /// The call.
        call: &'static str,
        /// The matrix, or the list of items.
        name: String,
        /// The wrong value, and the right ones.
        reason: String,
    },
    /// Two arrays differ in their patterns or in their elements.
    #[error(
        "swap: `{name}` and `{other}` have different patterns or elements: register them alike"
    )]
    Unlike {
        /// The array.
        name: String,
        /// The other array.
        other: String,
    },
    /// The array is not in a state for the call.
    #[error("{call}: `{name}`: {reason}")]
    Unfit {
        /// The call.
        call: &'static str,
        /// The array.
        name: String,
        /// The state, and the call to make instead.
        reason: &'static str,
    },
    /// A checkpoint cannot be written or read: the same on all ranks.
    #[error("{call}: rank {rank}: {reason}")]
    Files {
        /// The call.
        call: &'static str,
        /// The first such rank.
        rank: usize,
        /// The file, and its fault.
        reason: String,
    },
    /// The data of the ranks do not fit a checkpoint: the same on all ranks.
    #[error("{call}: rank {rank}: {reason}")]
    Unstored {
        /// The call.
        call: &'static str,
        /// The first such rank.
        rank: usize,
        /// The name of the data, and the difference.
        reason: String,
    },
    /// An error of the communication library.
    #[error("move: {0}")]
    Group(#[from] GroupError),
}

/// Lists the names in a message, or `none`.
fn list(names: &[String]) -> String {
    if names.is_empty() { "none".to_owned() } else { names.join(", ") }
}
