//! Identities: members, nodes, and units that can only leave together.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A process that can belong to a world. Its id is never given to another process, so an id in an
/// old message or an old process set still means the same process.
///
/// Ids are ordered by generation: later joiners have larger ids.
///
/// ```
/// use elastic::member::MemberId;
/// let first_joiner = MemberId::new(1, 0);
/// assert!(first_joiner > MemberId::new(0, 4095));
/// assert_eq!((first_joiner.generation(), first_joiner.index()), (1, 0));
/// assert_eq!(first_joiner.to_string(), "1.0");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct MemberId(pub u64);

impl MemberId {
    /// Returns the process with this number in its generation; the launcher starts generation 0.
    pub const fn new(generation: u32, index: u32) -> MemberId {
        MemberId((generation as u64) << 32 | index as u64)
    }

    /// Number of the start that created the member: 0 for the launcher's, one more for each group
    /// of joiners.
    pub const fn generation(self) -> u32 {
        (self.0 >> 32) as u32
    }

    /// Number of the member within its generation.
    pub const fn index(self) -> u32 {
        self.0 as u32
    }

    /// Returns true if the member joined while the job was running.
    pub const fn is_joiner(self) -> bool {
        self.generation() > 0
    }
}

impl fmt::Display for MemberId {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(to, "{}.{}", self.generation(), self.index())
    }
}

/// A node, numbered in the order in which the job learned of it; the number is never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct NodeId(pub u32);

impl fmt::Display for NodeId {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(to, "node {}", self.0)
    }
}

/// The smallest group of processes that can be released: the processes of one spawn, or one rank
/// that can be parked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct UnitId(pub u64);

impl fmt::Display for UnitId {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(to, "unit {}", self.0)
    }
}
