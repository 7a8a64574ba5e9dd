//! Errors of programs.

use super::machine::{Action, Event};
use elastic::Error;

/// Error of a block of a program.
pub type BlockError = Box<dyn std::error::Error + Send + Sync>;

/// Why a program stopped.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ProgramError {
    /// An invalid element. Detected before anything is run, so on all processes alike.
    #[error("program: element {position}: {reason}")]
    Element {
        /// Its position.
        position: usize,
        /// The mistake, and the remedy.
        reason: String,
    },
    /// A branch named a position that is no element after INIT.
    #[error(
        "program: the branch at element {position} goes to {target}, and a branch goes to an element after INIT, which \
         are 1 to {}", size - 1
    )]
    Branch {
        /// Position of the branch.
        position: usize,
        /// The position that it named.
        target: i64,
        /// Number of elements.
        size: usize,
    },
    /// A block of the program failed.
    #[error("program: element {position}, `{name}`: {source}")]
    Block {
        /// Position of the element.
        position: usize,
        /// Its name.
        name: String,
        /// The error of the block.
        source: BlockError,
    },
    /// An error of the world.
    #[error("program: {0}")]
    World(#[from] Error),
    /// A driver returned the result of another action than the machine requested, or a joiner was
    /// sent to an element that is no elastic phase.
    #[error(
        "program: {event:?} is no result of {action:?}: the driver takes the actions of the machine in order"
    )]
    Driver {
        /// The requested action.
        action: Action,
        /// The given event.
        event: Event,
    },
}

impl ProgramError {
    /// The number of the error in EPOP: -1 for an element, -2 for a branch.
    #[must_use]
    pub fn code(&self) -> Option<i32> {
        match self {
            Self::Element { .. } => Some(-1),
            Self::Branch { .. } => Some(-2),
            _ => None,
        }
    }
}
