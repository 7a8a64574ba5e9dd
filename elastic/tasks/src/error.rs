//! Errors of tasks.

use quo::group::GroupError;

use elastic::Error;

/// Error of a task.
pub type TaskError = Box<dyn std::error::Error + Send + Sync>;

/// Why a run of tasks has no result: the same on all ranks, except for the first variant and the
/// last two.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TasksError {
    /// Options that cannot be used. Nothing was run.
    #[error("tasks: option {option}: {reason}")]
    Options {
        /// The option.
        option: &'static str,
        /// Its value, and the remedy.
        reason: &'static str,
    },
    /// A rank could not begin: its threads could not be started, or rank 0 has no root. Nothing was
    /// run.
    #[error("tasks: rank {rank} could not begin: {reason}")]
    Start {
        /// The rank.
        rank: usize,
        /// The cause.
        reason: String,
    },
    /// A task failed, or could not be sent. Tasks that had not begun were not computed.
    #[error("tasks: a task failed on rank {rank}: {reason}")]
    Task {
        /// The rank that computed it.
        rank: usize,
        /// The error of the task, with its sources.
        reason: String,
    },
    /// An error of the communication library.
    #[error("tasks: {0}")]
    Group(#[from] GroupError),
    /// An error of the elastic world.
    #[error("tasks: {0}")]
    World(#[from] Error),
}

/// Text of an error with its sources.
pub(crate) fn with_sources(error: &dyn std::error::Error) -> String {
    let sources = std::iter::successors(error.source(), |error| error.source());
    sources.fold(error.to_string(), |text, source| format!("{text}: {source}"))
}
