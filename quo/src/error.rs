//! The error of the context and phase calls, and its kinds.

use std::time::Duration;

use crate::affinity::BindError;
use crate::cpuset::CpuSet;
use crate::group::{GroupError, Ranks};
use crate::node::NodeError;
use crate::plan::PlanError;
use crate::topology::TopologyError;

/// The subject of a failure; the C interface has one return code for each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
#[non_exhaustive]
pub enum ErrorKind {
    /// A cause without a kind of its own.
    Other = 0,
    /// A system call failed.
    System = 1,
    /// Memory, shared-memory space or slots ran out.
    OutOfResources = 2,
    /// An argument has no meaning.
    InvalidArgument = 3,
    /// MPI is not running: not yet initialised, or already finalised.
    NotRunning = 4,
    /// The machine could not be described.
    Topology = 5,
    /// MPI returned an error.
    Mpi = 6,
    /// The request makes sense but not here.
    NotSupported = 7,
    /// More pops than pushes. Not fatal.
    Pop = 8,
    /// The object does not exist. Not fatal.
    NotFound = 9,
    /// The time given was over. Not fatal.
    Timeout = 10,
    /// A member of the node ended without taking part.
    DeadMember = 11,
    /// The ranks of a collective call gave different arguments.
    Disagreement = 12,
    /// The CPUs asked for are not allowed, or were not granted.
    Binding = 13,
    /// Something that is under way stands against it: a phase, a push, another thread's call.
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

/// Why a call on a context failed.
///
/// A collective call fails with the same error on every member: where the cause was another rank's,
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
    /// The ranks gave different arguments to a collective call; every one of them gets this.
    #[error("{call}: the ranks disagree on {what}: {values}")]
    Disagreement {
        /// The call.
        call: &'static str,
        /// Which argument.
        what: &'static str,
        /// The values with the ranks that gave them.
        values: String,
    },
    /// A collective call failed on one rank, and so on all.
    #[error("{call}: failed on rank {rank}, and so on every rank: {text}")]
    Agreed {
        /// The call.
        call: &'static str,
        /// The first rank it failed on.
        rank: usize,
        /// The subject of that rank's error.
        kind: ErrorKind,
        /// The text of that rank's error.
        text: String,
    },
    /// An argument or a setting from the environment has no meaning.
    #[error("{call}: {reason}")]
    InvalidArgument {
        /// The call.
        call: &'static str,
        /// The cause, with the value.
        reason: String,
    },
    /// The request makes sense but not for this context.
    #[error("{call}: {reason}")]
    NotSupported {
        /// The call.
        call: &'static str,
        /// Why not.
        reason: String,
    },
    /// The process is a forked child of the one that made the context.
    #[error("{call}: this process was forked from a member and is not one itself")]
    Forked {
        /// The call.
        call: &'static str,
    },
    /// Something that is under way on this rank stands against the call.
    #[error("{call}: {reason}")]
    Busy {
        /// The call.
        call: &'static str,
        /// The call under way.
        reason: String,
    },
    /// The rank has retired from the context: there are no others for it.
    #[error("{call}: this rank has left the world of the context; adapting brings it back")]
    Retired {
        /// The call.
        call: &'static str,
    },
    /// CPUs that a phase was to have alone stayed in use.
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
        /// The time that was waited for them.
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
    /// Returns the subject of the failure.
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

/// An error and its causes on one line, without those that the error has named already. Local.
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
