//! Errors of a request to the registry.

use serde::{Deserialize, Serialize};

use super::{SetName, SetOp};
use crate::model::member::MemberId;

/// Why a request was refused. The registry is unchanged, and every copy that processes the same
/// request returns the same error.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SetsError {
    /// An invalid name of a process set.
    #[error("process set name {name:?}: {cause}")]
    BadName {
        /// The text, shortened.
        name: String,
        /// The fault.
        cause: &'static str,
    },
    /// The set does not exist.
    #[error("{call}: there is no process set {name}")]
    Unknown {
        /// The call that was refused.
        call: &'static str,
        /// The requested name.
        name: SetName,
    },
    /// The set has lost its last member and was deleted; its name is kept until it is pruned.
    #[error("{call}: process set {name} was deleted when its last member left; prune it")]
    Deleted {
        /// The call that was refused.
        call: &'static str,
        /// The requested name.
        name: SetName,
    },
    /// The result would have no member.
    #[error("{call}: {op} of {first} and {second} is empty")]
    EmptyResult {
        /// The call that was refused.
        call: &'static str,
        /// The operation.
        op: SetOp,
        /// Its first set.
        first: SetName,
        /// Its second set.
        second: SetName,
    },
    /// The operation would bring back processes that have left for good.
    #[error("{call}: {name} has members that have left for good")]
    Gone {
        /// The call that was refused.
        call: &'static str,
        /// The set that contains them.
        name: SetName,
    },
    /// The application may not make or change a set with this name.
    #[error("{call}: {name} is not below {application}, where the application's own sets are")]
    NotTheApplications {
        /// The call that was refused.
        call: &'static str,
        /// The requested name.
        name: SetName,
        /// The application's domain.
        application: SetName,
    },
    /// The requested name belongs to another set.
    #[error("{call}: {name} exists; only a result of {name} itself may take its name")]
    NameTaken {
        /// The call that was refused.
        call: &'static str,
        /// The requested name.
        name: SetName,
    },
    /// The set is not an open delta.
    #[error("{call}: {name} is no delta of a resize that is under way")]
    NoOpenDelta {
        /// The call that was refused.
        call: &'static str,
        /// The given name.
        name: SetName,
    },
    /// A delta without members.
    #[error("define: the resize has neither joiners nor leavers")]
    NobodyInDelta,
    /// An id that once identified another process.
    #[error("define: member {member} exists or existed; ids are never reused")]
    IdReused {
        /// The id.
        member: MemberId,
    },
    /// A process that cannot leave because it is not a member.
    #[error("define: member {member} cannot leave: the member is not there, or is already leaving")]
    NotThere {
        /// The id.
        member: MemberId,
    },
    /// The parts do not add up to the set.
    #[error(
        "split: parts of {sum} members in all, all of them at least 1, do not make up {name} with its {size}"
    )]
    BadParts {
        /// The set to split.
        name: SetName,
        /// Number of its members.
        size: u64,
        /// Number of members in all parts.
        sum: u64,
    },
    /// A set in use cannot be pruned.
    #[error("prune: {name} is in use; only deleted sets and deltas of ended resizes are pruned")]
    InUse {
        /// The set.
        name: SetName,
    },
    /// A hint, key or value that is too long or has an invalid name.
    #[error("{call}: {what} {key:?} for {name}: {cause}")]
    BadEntry {
        /// The call that was refused.
        call: &'static str,
        /// `hint` or `key`.
        what: &'static str,
        /// Its set.
        name: SetName,
        /// The key, shortened.
        key: String,
        /// The fault.
        cause: &'static str,
    },
    /// Operations of several processes have to be applied in one order.
    #[error("apply: got operation {given}, expected operation {expected}")]
    OutOfOrder {
        /// The number of the given operation.
        given: u64,
        /// The number of the expected operation.
        expected: u64,
    },
}

/// The kinds of [`SetsError`], as processes exchange them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum SetsErrorKind {
    /// An invalid name of a process set.
    BadName,
    /// The set does not exist.
    Unknown,
    /// The set has lost its last member and was deleted; its name is kept until it is pruned.
    Deleted,
    /// The result would have no member.
    EmptyResult,
    /// The operation would bring back processes that have left for good.
    Gone,
    /// The application may not make or change a set with this name.
    NotTheApplications,
    /// The requested name belongs to another set.
    NameTaken,
    /// The set is not an open delta.
    NoOpenDelta,
    /// A delta without members.
    NobodyInDelta,
    /// An id that once identified another process.
    IdReused,
    /// A process that cannot leave because it is not a member.
    NotThere,
    /// The parts do not add up to the set.
    BadParts,
    /// A set in use cannot be pruned.
    InUse,
    /// A hint, key or value that is too long or has an invalid name.
    BadEntry,
    /// Operations of several processes have to be applied in one order.
    OutOfOrder,
}

impl SetsError {
    /// Kind of the error.
    pub fn kind(&self) -> SetsErrorKind {
        match self {
            SetsError::BadName { .. } => SetsErrorKind::BadName,
            SetsError::Unknown { .. } => SetsErrorKind::Unknown,
            SetsError::Deleted { .. } => SetsErrorKind::Deleted,
            SetsError::EmptyResult { .. } => SetsErrorKind::EmptyResult,
            SetsError::Gone { .. } => SetsErrorKind::Gone,
            SetsError::NotTheApplications { .. } => SetsErrorKind::NotTheApplications,
            SetsError::NameTaken { .. } => SetsErrorKind::NameTaken,
            SetsError::NoOpenDelta { .. } => SetsErrorKind::NoOpenDelta,
            SetsError::NobodyInDelta => SetsErrorKind::NobodyInDelta,
            SetsError::IdReused { .. } => SetsErrorKind::IdReused,
            SetsError::NotThere { .. } => SetsErrorKind::NotThere,
            SetsError::BadParts { .. } => SetsErrorKind::BadParts,
            SetsError::InUse { .. } => SetsErrorKind::InUse,
            SetsError::BadEntry { .. } => SetsErrorKind::BadEntry,
            SetsError::OutOfOrder { .. } => SetsErrorKind::OutOfOrder,
        }
    }
}
