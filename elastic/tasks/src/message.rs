//! Messages between the ranks of a run, and the state that is handed back before ranks change.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::neighbours::Scope;
use super::policy::Place;

/// Cause for which a task has no result.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Failure {
    /// The task failed on a rank, with this text.
    Failed { rank: usize, reason: String },
    /// It was not computed, since another one had failed.
    Skipped,
}

/// Position to which a result goes: a node of a rank's ledger, and the number of the child.
#[derive(Copy, Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) struct Origin {
    pub rank: usize,
    pub node: u64,
    pub slot: usize,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) enum Message<T, O> {
    /// A rank without work asks for a task; ranks that have none pass it on, but not to the seen ones.
    Request {
        thief: usize,
        seen: Vec<usize>,
        scope: Scope,
    },
    /// The answer: a task.
    Task {
        task: T,
        place: Place,
        origin: Option<Origin>,
    },
    /// The other answer: none of those asked has a task.
    None,
    /// Result of a task. Acknowledged.
    Result {
        origin: Option<Origin>,
        result: Result<O, Failure>,
        /// Time for which the sender had the task; none where it got it in another way than by a message.
        held: Option<Duration>,
    },
    /// A task has failed: the others need not be computed. Acknowledged.
    Cancel,
    Acknowledged,
    /// The ranks probe for a resize, from rank 0.
    Probe,
    /// The run has ended, from rank 0.
    Stop(Result<(), Failure>),
    /// This rank has stopped, to rank 0: it sends nothing more by itself.
    Quiet,
    /// All ranks are quiet, from rank 0: no message is under way.
    Leave,
}

/// A task of a rank that has stopped.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Returned<T, O> {
    /// Number in the ledger of the rank.
    pub node: u64,
    /// None: the root.
    pub origin: Option<Origin>,
    pub place: Place,
    pub task: T,
    /// Results of its children so far; none: it has not been split.
    pub results: Option<Vec<Option<Result<O, Failure>>>>,
}

/// All that a rank hands back.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Handover<T, O> {
    pub rank: usize,
    pub tasks: Vec<Returned<T, O>>,
    /// Result of the root, where it is known already.
    pub output: Option<Result<O, Failure>>,
}
