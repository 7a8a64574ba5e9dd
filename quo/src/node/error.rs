//! Errors of a node's shared segment.

use std::io;
use std::path::PathBuf;

use super::WaitKind;

/// Reason why a call on a [`Node`](super::Node) failed.
#[non_exhaustive]
#[derive(Debug, thiserror::Error)]
pub enum NodeError {
    /// A system call failed.
    #[error("{call} failed on {object}")]
    System {
        /// The system call.
        call: &'static str,
        /// The object of the call.
        object: String,
        /// The kernel's reason.
        source: io::Error,
    },
    /// The directory has no room for the segment.
    #[error("{directory} has no room for a segment of {bytes} bytes")]
    NoRoom {
        /// The directory.
        directory: PathBuf,
        /// The size requested.
        bytes: u64,
        /// The kernel's reason.
        source: io::Error,
    },
    /// Other users could replace files in the directory.
    #[error("segments are not safe in {directory}: {reason}")]
    UnsafeDirectory {
        /// The directory.
        directory: PathBuf,
        /// How other users could replace them.
        reason: &'static str,
    },
    /// A text is not a segment name of this user.
    #[error("`{name}` is not a segment name of this user: {reason}")]
    InvalidName {
        /// The text.
        name: String,
        /// The cause.
        reason: &'static str,
    },
    /// An option is out of range.
    #[error("a node segment cannot have {option} = {value}: {reason}")]
    InvalidOption {
        /// The option.
        option: &'static str,
        /// Its value.
        value: usize,
        /// The limit it breaks.
        reason: &'static str,
    },
    /// A file is not a segment that this process may use.
    #[error("{path} is refused as a segment: {reason}")]
    Refused {
        /// The file.
        path: PathBuf,
        /// The cause.
        reason: String,
    },
    /// A member number does not exist in the segment.
    #[error("member {member} does not exist: the segment has room for {capacity}")]
    NoSuchMember {
        /// The member asked for.
        member: usize,
        /// The maximum number of members.
        capacity: usize,
    },
    /// The member number is taken.
    #[error("member {member} is taken by another process or thread")]
    MemberTaken {
        /// The member asked for.
        member: usize,
    },
    /// A member reached its deadline; all members of the barrier get this error.
    #[error(
        "barrier: timed out, since not every member arrived within the time that one of them allowed"
    )]
    TimedOut,
    /// Members died; all members of the barrier get this error until the dead are expelled.
    #[error("barrier: member {} of the node died", list(.members))]
    DeadMember {
        /// The dead members, ascending.
        members: Vec<usize>,
    },
    /// The member to expel has not died.
    #[error("expel: member {member} is alive; only dead members are expelled")]
    NotDead {
        /// The member.
        member: usize,
    },
    /// This process has left the node.
    #[error("this process is no longer a member of the node: attach again, or adapt the context")]
    Left,
    /// This process is a forked child of the member.
    #[error("this process was forked from member {member} and is not a member itself")]
    Forked {
        /// The member number of the parent process.
        member: usize,
    },
    /// This kind of waiting does not support the call.
    #[error("{operation} is not supported by the {kind:?} barrier")]
    NotSupported {
        /// The operation.
        operation: &'static str,
        /// The kind of waiting that the segment was created with.
        kind: WaitKind,
    },
    /// The results of the previous exchange are still borrowed.
    #[error("drop the results of the previous exchange before the next collective call")]
    ExchangeInUse,
    /// A member's contribution does not fit.
    #[error("{what} of {bytes} bytes does not fit: there is room for {room}")]
    TooLarge {
        /// The object that does not fit.
        what: &'static str,
        /// Its size in bytes.
        bytes: usize,
        /// The capacity in bytes.
        room: usize,
    },
    /// The members of a named barrier are invalid.
    #[error("the named barrier `{name}` cannot be made: {reason}")]
    InvalidChannel {
        /// Its name.
        name: String,
        /// The cause.
        reason: &'static str,
    },
    /// A mask kept changing while it was read.
    #[error("the mask of member {member} changes too fast to be read")]
    UnsteadyMask {
        /// The member.
        member: usize,
    },
    /// Cross-rank memory could not be allocated; all members of the call get this error.
    #[error("memory of {bytes} bytes could not be shared: member {member} failed")]
    Allocation {
        /// The first member that failed.
        member: usize,
        /// The total size.
        bytes: u64,
        /// The first member's cause.
        source: io::Error,
    },
    /// The shared state is invalid: another program has written to the segment.
    #[error("the segment is damaged: {reason}")]
    Damaged {
        /// The state that was found.
        reason: &'static str,
    },
}

fn list(members: &[usize]) -> String {
    members.iter().map(usize::to_string).collect::<Vec<_>>().join(", ")
}

impl NodeError {
    pub(super) fn system(
        call: &'static str,
        object: impl Into<String>,
        source: impl Into<io::Error>,
    ) -> Self {
        Self::System { call, object: object.into(), source: source.into() }
    }
}
