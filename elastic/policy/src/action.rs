//! Changes that a scheduler orders, each with its reason.

use std::borrow::Cow;
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::job::JobId;
use crate::nodes::NodeList;
use crate::time::{Span, Time};

/// The nodes of an action: a number, or particular nodes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Choice {
    /// This many nodes: the lowest free ones when a job gains, the last received when it loses.
    Count(u32),
    /// Exactly these.
    Nodes(NodeList),
}

impl Choice {
    /// Returns the number of nodes.
    #[must_use]
    pub fn count(&self) -> u32 {
        match self {
            Choice::Count(count) => *count,
            Choice::Nodes(nodes) => nodes.count(),
        }
    }
}

impl From<u32> for Choice {
    fn from(count: u32) -> Choice {
        Choice::Count(count)
    }
}

impl From<NodeList> for Choice {
    fn from(nodes: NodeList) -> Choice {
        Choice::Nodes(nodes)
    }
}

/// A change that a scheduler orders.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Action {
    /// Starts a queued job.
    Start {
        /// The job.
        job: JobId,
        /// The nodes it starts on.
        nodes: Choice,
    },
    /// Gives a running job more nodes.
    Grow {
        /// The job.
        job: JobId,
        /// The additional nodes.
        nodes: Choice,
    },
    /// Takes nodes from a running job.
    Shrink {
        /// The job.
        job: JobId,
        /// The nodes it loses.
        nodes: Choice,
        /// The grace time until the nodes are taken; `None` at a resize point, where they are free
        /// at once.
        grace: Option<Span>,
    },
    /// Ends a running best-effort job at once; its results are lost.
    Stop {
        /// The job.
        job: JobId,
    },
    /// Leaves a running job unchanged.
    Keep {
        /// The job.
        job: JobId,
    },
    /// Promises nodes to a queued job. Replaces an earlier promise to the same job.
    Reserve {
        /// The job.
        job: JobId,
        /// The number of nodes.
        nodes: u32,
        /// The instant from which they are promised.
        at: Time,
    },
}

impl Action {
    /// Returns the job that the action is about.
    #[must_use]
    pub fn job(&self) -> JobId {
        match self {
            Action::Start { job, .. }
            | Action::Grow { job, .. }
            | Action::Shrink { job, .. }
            | Action::Stop { job }
            | Action::Keep { job }
            | Action::Reserve { job, .. } => *job,
        }
    }
}

/// The reason for an action as text.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Reason(pub Cow<'static, str>);

impl From<&'static str> for Reason {
    fn from(words: &'static str) -> Reason {
        Reason(Cow::Borrowed(words))
    }
}

impl From<String> for Reason {
    fn from(words: String) -> Reason {
        Reason(Cow::Owned(words))
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// An action with its reason.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Decision {
    /// The action, with the chosen nodes.
    pub action: Action,
    /// The reason.
    pub reason: Reason,
}
