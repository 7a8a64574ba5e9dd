//! Identity of a process in reports.

use super::Child;
use crate::terminal::clean;
use serde::Serialize;
use std::sync::Arc;

/// Which process a number is from.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct ProcessKey {
    /// Its rank, where it has one.
    pub rank: Option<u32>,
    /// Of a rank that others have started: which start it was.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub spawned: Option<u32>,
    /// Of a process that a rank has started.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub child: Option<Child>,
    /// Its process number.
    pub pid: u32,
    /// Its machine.
    pub host: Arc<str>,
}

impl ProcessKey {
    /// Returns true if it has a rank, or is a child of one.
    pub fn is_numbered(&self) -> bool {
        self.rank.is_some() || self.child.is_some()
    }

    /// Returns the process as it is named in a sentence: `rank 3`, `rank 0 of start 2`, `child 1 of
    /// rank 0`, or `process 4711 on host`.
    pub fn label(&self) -> String {
        match (self.rank, &self.child) {
            (Some(_), _) => format!("rank {self}"),
            (None, Some(child)) => child.to_string(),
            (None, None) => format!("process {} on {}", self.pid, clean(&self.host)),
        }
    }
}

impl std::fmt::Display for ProcessKey {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match (self.rank, self.spawned, &self.child) {
            (Some(rank), None, _) => write!(out, "{rank}"),
            (Some(rank), Some(start), _) => write!(out, "{rank} of start {start}"),
            (None, _, Some(child)) => write!(out, "{child}"),
            (None, _, None) => write!(out, "pid {}", self.pid),
        }
    }
}
