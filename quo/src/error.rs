//! Error of the context and phase calls, and its kinds.

use std::time::Duration;

use crate::affinity::BindError;
use crate::cpuset::CpuSet;
use crate::group::{GroupError, Ranks};
use crate::node::NodeError;
use crate::plan::PlanError;
use crate::topology::TopologyError;

/// Category of a failure; the C interface has one return code for each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
#[non_exhaustive]
pub enum ErrorKind {
    /// A cause without a more specific kind.
    Other = 0,
    /// A system call failed.
    System = 1,
    /// Memory, shared-memory space or slots ran out.
    OutOfResources = 2,
    /// An argument is invalid.
    InvalidArgument = 3,
    /// MPI is not running: not yet initialised, or already finalised.
    NotRunning = 4,
    /// The machine could not be described.
    Topology = 5,
    /// MPI returned an error.
    Mpi = 6,
    /// The request is valid, but not supported here.
    NotSupported = 7,
    /// More pops than pushes. Not fatal.
    Pop = 8,
    /// The object does not exist. Not fatal.
    NotFound = 9,
    /// The time limit was reached. Not fatal.
    Timeout = 10,
    /// A member of the node ended without taking part.
    DeadMember = 11,
    /// The ranks of a collective call passed different arguments.
    Disagreement = 12,
    /// The requested CPUs are not allowed, or were not granted.
    Binding = 13,
    /// An operation in progress prevents the call: a phase, a push, another thread's call.
    Busy = 14,
    /// This rank has left the world.
    Retired = 15,
    /// The work of a phase failed on a rank. Not fatal.
    Work = 16,
}

impl ErrorKind {
    /// All kinds, in the order of their numbers.
    pub const ALL: [Self; 17] = [
        Self::Other,
        Self::System,
        Self::OutOfResources,
        Self::InvalidArgument,
        Self::NotRunning,
        Self::Topology,
        Self::Mpi,
        Self::NotSupported,
        Self::Pop,
        Self::NotFound,
        Self::Timeout,
        Self::DeadMember,
        Self::Disagreement,
        Self::Binding,
        Self::Busy,
        Self::Retired,
        Self::Work,
    ];

    pub(crate) fn from_number(number: u8) -> Self {
        Self::ALL.get(usize::from(number)).copied().unwrap_or(Self::Other)
    }
}

/// Reason why a call on a context failed.
///
/// A collective call fails with the same error on every member: if the cause was on another rank,
/// the error is [`Error::Agreed`] and names that rank.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The machine could not be described, or has no such object.
    #[error(transparent)]
    Topology(#[from] TopologyError),
    /// A distribution or split was not possible.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// A binding was not changed.
    #[error(transparent)]
    Bind(#[from] BindError),
    /// The shared segment of the node failed.
    #[error(transparent)]
    Node(#[from] NodeError),
    /// The communication library failed.
    #[error(transparent)]
    Group(#[from] GroupError),
    /// Members ended without taking part in a collective call.
    #[error("{call}: {} ended without taking part", Ranks(ranks))]
    DeadMember {
        /// The call.
        call: &'static str,
        /// Their ranks in the context.
        ranks: Vec<usize>,
    },
    /// The ranks passed different arguments to a collective call; each of them gets this error.
    #[error("{call}: the ranks disagree on {what}: {values}")]
    Disagreement {
        /// The call.
        call: &'static str,
        /// The argument.
        what: &'static str,
        /// The values, with the ranks that passed them.
        values: String,
    },
    /// A collective call failed on one rank, and therefore on all.
    #[error("{call}: failed on rank {rank}, and so on every rank: {text}")]
    Agreed {
        /// The call.
        call: &'static str,
        /// The first rank on which it failed.
        rank: usize,
        /// The kind of that rank's error.
        kind: ErrorKind,
        /// The text of that rank's error.
        text: String,
    },
    /// An argument or a setting from the environment is invalid.
    #[error("{call}: {reason}")]
    InvalidArgument {
        /// The call.
        call: &'static str,
        /// The cause, with the value.
        reason: String,
    },
    /// The request is valid, but not supported by this context.
    #[error("{call}: {reason}")]
    NotSupported {
        /// The call.
        call: &'static str,
        /// The cause.
        reason: String,
    },
    /// The process is a forked child of the one that made the context.
    #[error("{call}: this process was forked from a member and is not one itself")]
    Forked {
        /// The call.
        call: &'static str,
    },
    /// An operation in progress on this rank prevents the call.
    #[error("{call}: {reason}")]
    Busy {
        /// The call.
        call: &'static str,
        /// The operation in progress.
        reason: String,
    },
    /// The rank has retired from the context, so there are no other ranks for it.
    #[error("{call}: this rank has left the world of the context; adapting brings it back")]
    Retired {
        /// The call.
        call: &'static str,
    },
    /// CPUs that a phase needs exclusively stayed in use.
    #[error(
        "{call}: CPUs {cpus} were not free within {} s: an exclusive phase of another context or job \
         holds them",
        limit.as_secs_f64()
    )]
    HardwareInUse {
        /// The call.
        call: &'static str,
        /// The CPUs.
        cpus: CpuSet,
        /// How long was waited for them.
        limit: Duration,
    },
    /// A file could not be opened, locked or written.
    #[error("{call}: {path}: {source}")]
    File {
        /// The call.
        call: &'static str,
        /// The file.
        path: String,
        /// The system's own error.
        source: std::io::Error,
    },
}

impl Error {
    /// Returns the kind of the failure.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Topology(TopologyError::NoSuchObject { .. }) => ErrorKind::NotFound,
            Self::Topology(_) => ErrorKind::Topology,
            Self::Plan(_) | Self::InvalidArgument { .. } => ErrorKind::InvalidArgument,
            Self::Bind(error) => match error {
                BindError::NothingPushed => ErrorKind::Pop,
                BindError::NotEnclosed { .. } => ErrorKind::NotFound,
                BindError::Topology(TopologyError::NoSuchObject { .. }) => ErrorKind::NotFound,
                BindError::Topology(_) => ErrorKind::Topology,
                BindError::System { .. } => ErrorKind::System,
                BindError::OutsideAllowed { .. }
                | BindError::Empty { .. }
                | BindError::NotGranted { .. } => ErrorKind::Binding,
            },
            Self::Node(error) => node_kind(error),
            Self::Group(error) => match error {
                GroupError::NotInitialized | GroupError::Finalized => ErrorKind::NotRunning,
                GroupError::OtherMpi { .. } => ErrorKind::NotSupported,
                GroupError::Unsuitable { .. } => ErrorKind::InvalidArgument,
                GroupError::Mpi { .. } => ErrorKind::Mpi,
                GroupError::Dead { .. } => ErrorKind::DeadMember,
                GroupError::Late { .. } => ErrorKind::Timeout,
                GroupError::Node { .. } => ErrorKind::System,
                GroupError::Quiesced { .. } => ErrorKind::Busy,
            },
            Self::DeadMember { .. } => ErrorKind::DeadMember,
            Self::Disagreement { .. } => ErrorKind::Disagreement,
            Self::Agreed { kind, .. } => *kind,
            Self::NotSupported { .. } | Self::Forked { .. } => ErrorKind::NotSupported,
            Self::Busy { .. } => ErrorKind::Busy,
            Self::HardwareInUse { .. } => ErrorKind::Timeout,
            Self::Retired { .. } => ErrorKind::Retired,
            Self::File { .. } => ErrorKind::System,
        }
    }
}

/// Returns an error and its causes on one line, without causes that the error text already
/// contains. Local.
///
/// ```
/// use quo::error::with_causes;
/// let error = quo::node::NodeError::System {
///     call: "open",
///     object: "a file".to_owned(),
///     source: std::io::ErrorKind::NotFound.into(),
/// };
/// assert_eq!(with_causes(&error), "open failed on a file: entity not found");
/// ```
#[must_use]
pub fn with_causes(error: &(dyn std::error::Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let more = error.to_string();
        if !text.contains(&more) {
            text.push_str(": ");
            text.push_str(&more);
        }
        cause = error.source();
    }
    text
}

fn node_kind(error: &NodeError) -> ErrorKind {
    match error {
        NodeError::TimedOut => ErrorKind::Timeout,
        NodeError::DeadMember { .. } => ErrorKind::DeadMember,
        NodeError::NotSupported { .. } | NodeError::Forked { .. } => ErrorKind::NotSupported,
        NodeError::NoRoom { .. } | NodeError::TooLarge { .. } | NodeError::Allocation { .. } => {
            ErrorKind::OutOfResources
        }
        NodeError::InvalidName { .. }
        | NodeError::InvalidOption { .. }
        | NodeError::NoSuchMember { .. }
        | NodeError::NotDead { .. }
        | NodeError::InvalidChannel { .. } => ErrorKind::InvalidArgument,
        _ => ErrorKind::System,
    }
}
