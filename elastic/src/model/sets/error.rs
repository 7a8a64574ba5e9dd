//! Errors of a request to the registry.

use serde::{Deserialize, Serialize};

use super::{SetName, SetOp};
use crate::model::member::MemberId;

/// Why a request was refused. The registry is as it was before, and every copy that was asked the
/// same gives the same error.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SetsError {
    /// A text that is no name of a process set.
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
        /// The name that was asked for.
        name: SetName,
    },
    /// The set has lost its last member and was deleted; its name is kept until it is pruned.
    #[error("{call}: process set {name} was deleted when its last member left; prune it")]
    Deleted {
        /// The call that was refused.
        call: &'static str,
        /// The name that was asked for.
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
        /// The set they would come from.
        name: SetName,
    },
    /// The application may not make or change a set of this name.
    #[error("{call}: {name} is not below {application}, where the application's own sets are")]
    NotTheApplications {
        /// The call that was refused.
        call: &'static str,
        /// The name that was wanted.
        name: SetName,
        /// The application's domain.
        application: SetName,
    },
    /// The wanted name belongs to another set.
    #[error("{call}: {name} exists; only a result of {name} itself may take its name")]
    NameTaken {
        /// The call that was refused.
        call: &'static str,
        /// The name that was wanted.
        name: SetName,
    },
    /// The set is not one that says who joins or leaves.
    #[error("{call}: {name} is no delta of a resize that is under way")]
    NoOpenDelta {
        /// The call that was refused.
        call: &'static str,
        /// The name that was given.
        name: SetName,
    },
    /// A delta without members.
    #[error("define: the resize has neither joiners nor leavers")]
    NobodyInDelta,
    /// An id that once meant another process.
    #[error("define: member {member} exists or existed; ids are never reused")]
    IdReused {
        /// The id.
        member: MemberId,
    },
    /// A process that cannot leave because it is not there.
    #[error("define: member {member} cannot leave: the member is not there, or is already leaving")]
    NotThere {
        /// The id.
        member: MemberId,
    },
    /// The parts do not make up the set.
    #[error(
        "split: parts of {sum} members in all, all of them at least 1, do not make up {name} with its {size}"
    )]
    BadParts {
        /// The set to be split.
        name: SetName,
        /// Its members.
        size: u64,
        /// The members of all parts together.
        sum: u64,
    },
    /// A set that is still there cannot be pruned.
    #[error("prune: {name} is in use; only deleted sets and deltas of ended resizes are pruned")]
    InUse {
        /// The set.
        name: SetName,
    },
    /// A hint, key or value that is too long or has no proper name.
    #[error("{call}: {what} {key:?} for {name}: {cause}")]
    BadEntry {
        /// The call that was refused.
        call: &'static str,
        /// `hint` or `key`.
        what: &'static str,
        /// The set it was meant for.
        name: SetName,
        /// The key, shortened.
        key: String,
        /// The fault.
        cause: &'static str,
    },
    /// Operations of several processes have to be applied in one order.
    #[error("apply: got operation {given}, expected operation {expected}")]
    OutOfOrder {
        /// The number that came.
        given: u64,
        /// The number that has to come.
        expected: u64,
    },
}

/// The kinds of [`SetsError`], as they travel between processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum SetsErrorKind {
    /// A text that is no name of a process set.
    BadName,
    /// The set does not exist.
    Unknown,
    /// The set has lost its last member and was deleted; its name is kept until it is pruned.
    Deleted,
    /// The result would have no member.
    EmptyResult,
    /// The operation would bring back processes that have left for good.
    Gone,
    /// The application may not make or change a set of this name.
    NotTheApplications,
    /// The wanted name belongs to another set.
    NameTaken,
    /// The set is not one that says who joins or leaves.
    NoOpenDelta,
    /// A delta without members.
    NobodyInDelta,
    /// An id that once meant another process.
    IdReused,
    /// A process that cannot leave because it is not there.
    NotThere,
    /// The parts do not make up the set.
    BadParts,
    /// A set that is still there cannot be pruned.
    InUse,
    /// A hint, key or value that is too long or has no proper name.
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
