//! Messages between the ranks of a run, and the state handed back before ranks change.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::neighbours::Scope;
use super::policy::Place;

/// Why a task has no result.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Failure {
    /// The task failed on a rank, with this text.
    Failed { rank: usize, reason: String },
    /// The task was not computed because another one had failed.
    Skipped,
}

/// Destination of a result: a node of a rank's ledger, and the number of the child.
#[derive(Copy, Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) struct Origin {
    pub rank: usize,
    pub node: u64,
    pub slot: usize,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) enum Message<T, O> {
    /// A rank without work asks for a task; ranks without tasks pass the request on, but not to the
    /// seen ones.
    Request {
        thief: usize,
        seen: Vec<usize>,
        scope: Scope,
    },
    /// Answer to a request: a task.
    Task {
        task: T,
        place: Place,
        origin: Option<Origin>,
    },
    /// Answer to a request: none of the asked ranks has a task.
    None,
    /// Result of a task, to be acknowledged.
    Result {
        origin: Option<Origin>,
        result: Result<O, Failure>,
        /// Time for which the sender had the task; `None` if it did not get the task by a message.
        held: Option<Duration>,
    },
    /// A task has failed: the others need not be computed. To be acknowledged.
    Cancel,
    Acknowledged,
    /// From rank 0: the ranks probe for a resize.
    Probe,
    /// From rank 0: the run has ended.
    Stop(Result<(), Failure>),
    /// To rank 0: this rank has stopped, and from now on only answers.
    Quiet,
    /// From rank 0: all ranks are quiet, and no message is under way.
    Leave,
}

/// A task of a stopped rank.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Returned<T, O> {
    /// Number in the ledger of the rank.
    pub node: u64,
    /// `None`: the task is the root.
    pub origin: Option<Origin>,
    pub place: Place,
    pub task: T,
    /// Results of its children so far; `None`: it has not been split.
    pub results: Option<Vec<Option<Result<O, Failure>>>>,
}

/// Everything that a rank hands back.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Handover<T, O> {
    pub rank: usize,
    pub tasks: Vec<Returned<T, O>>,
    /// Result of the root, if known already.
    pub output: Option<Result<O, Failure>>,
}
