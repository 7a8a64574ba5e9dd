//! Errors of arrays.

use quo::group::GroupError;

use crate::layout::LayoutError;

/// Why something could not be done with arrays. The failures of moves, [`DataError::Disagree`],
/// [`DataError::Layout`] and [`DataError::Failed`], are the same on all who take part.
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
    #[error("register: there is an array or callback `{name}` already")]
    Twice {
        /// The name.
        name: String,
    },
    /// No array or callback has the name, or none has it any more.
    #[error(
        "{call}: there is no array or callback `{name}`; this process has {}. A resize moves what all ranks have \
         registered before it is granted: register before the first probe",
        list(.registered)
    )]
    Unknown {
        /// The call.
        call: &'static str,
        /// The name.
        name: String,
        /// The names of those that there are.
        registered: Vec<String>,
    },
    /// The array has elements of another size.
    #[error("{call}: elements of `{name}` have {found} bytes, not {expected}")]
    Element {
        /// The call.
        call: &'static str,
        /// The array.
        name: String,
        /// The size that was asked for.
        expected: usize,
        /// The size they have.
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
    /// An array cannot lie on the ranks like that.
    #[error("{call}: `{name}`: {source}")]
    Layout {
        /// The call.
        call: &'static str,
        /// The array.
        name: String,
        /// Why.
        source: LayoutError,
    },
    /// Ranks have not registered the same. Nothing was moved.
    #[error("move: rank {rank}: {reason}")]
    Disagree {
        /// The rank, in the communicator of the window.
        rank: usize,
        /// The difference.
        reason: String,
    },
    /// A rank could not do its part. All have the data that they had.
    #[error("move: rank {rank}: {reason}")]
    Failed {
        /// The first such rank, in the communicator of the window.
        rank: usize,
        /// Why.
        reason: String,
    },
    /// The data have been moved, or have failed to be, in this window.
    #[error("move: {reason}")]
    InvalidState {
        /// The state of the registry.
        reason: &'static str,
    },
    /// The communication library.
    #[error("move: {0}")]
    Group(#[from] GroupError),
}

/// The names in a message, of which there may be none.
fn list(names: &[String]) -> String {
    if names.is_empty() { "none".to_owned() } else { names.join(", ") }
}
