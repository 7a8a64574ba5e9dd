//! Errors of a world, and their meaning for the job.

use quo::group::GroupError;

use crate::data::DataError;
use crate::node::mailbox::MailboxError;

/// Why a call of a world failed. Collective calls fail with the same error on every participating
/// rank.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// An error of the communication library.
    #[error("{call}: {source}")]
    Group {
        /// The call.
        call: &'static str,
        /// The error of the group.
        source: GroupError,
    },
    /// An error of the node's runtime.
    #[error("{call}: {source}")]
    Context {
        /// The call.
        call: &'static str,
        /// The error of quo.
        source: quo::Error,
    },
    /// The processes of this node cannot continue together.
    #[error("{call}: {reason}")]
    Node {
        /// The call.
        call: &'static str,
        /// What happened.
        reason: String,
    },
    /// A process of this node has ended without [`World::end`](crate::World::end).
    #[error("{call}: rank {rank} ended without ending the world")]
    Dead {
        /// The call.
        call: &'static str,
        /// Its rank in the world, or among all processes if it is no rank.
        rank: usize,
    },
    /// Agents of other nodes could not be reached, or answered wrongly.
    #[error("{call}: the agent of node {node}: {reason}")]
    Agent {
        /// The call.
        call: &'static str,
        /// The node's index.
        node: usize,
        /// What happened.
        reason: String,
    },
    /// The world cannot be made with these options: a log that cannot be written, a manager that
    /// cannot begin.
    #[error("{call}: {reason}")]
    Misconfigured {
        /// The call.
        call: &'static str,
        /// The option, and the cause.
        reason: String,
    },
    /// The registry of process sets refused the call; nothing has changed.
    #[error("{call}: {reason}")]
    Sets {
        /// The call.
        call: &'static str,
        /// For programs.
        kind: crate::model::sets::SetsErrorKind,
        /// For people.
        reason: String,
    },
    /// The call does not fit the state of the world.
    #[error("{call}: {reason}")]
    InvalidState {
        /// The call.
        call: &'static str,
        /// The state of the world, and the call to make instead.
        reason: &'static str,
    },
    /// An error of the world's arrays.
    #[error(transparent)]
    Data(#[from] DataError),
    /// An invalid report of the program; nothing was recorded.
    #[error(transparent)]
    Progress(#[from] crate::model::progress::ProgressError),
    /// A request was refused; nothing has changed.
    #[error("{call}: refused: {reason}")]
    Refused {
        /// The call.
        call: &'static str,
        /// Why.
        reason: String,
    },
    /// All ranks gave up a resize; the world is unchanged.
    #[error("{call}: the resize was aborted because of rank {rank}: {reason}")]
    Aborted {
        /// The call.
        call: &'static str,
        /// The first rank, in the communicator of the window, with a reason.
        rank: usize,
        /// Why.
        reason: String,
    },
}

impl Error {
    pub(crate) fn group(call: &'static str) -> impl Fn(GroupError) -> Self {
        move |source| Self::Group { call, source }
    }

    /// Returns the rank and the reason, if all ranks have the same.
    pub(crate) fn agreed(&self) -> Option<(usize, String)> {
        match self {
            Self::Data(
                DataError::Disagree { rank, reason, .. } | DataError::Failed { rank, reason },
            ) => Some((*rank, reason.clone())),
            _ => None,
        }
    }

    pub(crate) fn context(call: &'static str) -> impl Fn(quo::Error) -> Self {
        move |source| Self::Context { call, source }
    }

    pub(crate) fn node(call: &'static str) -> impl Fn(MailboxError) -> Self {
        move |error| match error {
            MailboxError::Dead(rank) => Self::Dead { call, rank },
            error => Self::Node { call, reason: error.to_string() },
        }
    }
}
