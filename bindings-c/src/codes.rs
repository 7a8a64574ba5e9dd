//! Return codes, and the code of each error of the `quo` crate.

use std::ffi::CStr;

use quo::ErrorKind;

/// A return code of the C interface; the numbers are those of `quo.h` and never change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(i32)]
#[non_exhaustive]
pub enum Code {
    Success = 0,
    AlreadyDone = 1,
    Error = 2,
    System = 3,
    OutOfResources = 4,
    InvalidArgument = 5,
    CallBeforeInit = 6,
    Topology = 7,
    Mpi = 8,
    NotSupported = 9,
    Pop = 10,
    NotFound = 11,
    Timeout = 12,
    DeadMember = 13,
    Disagree = 14,
    InvalidHandle = 15,
    CallAfterFinalize = 16,
    Busy = 17,
    Detached = 18,
    Internal = 19,
    InvalidState = 20,
    Refused = 21,
    Aborted = 22,
    WorkFailed = 23,
    NotBegun = 24,
}

impl Code {
    /// Every code, in the order of the numbers.
    pub const ALL: [Self; 25] = [
        Self::Success,
        Self::AlreadyDone,
        Self::Error,
        Self::System,
        Self::OutOfResources,
        Self::InvalidArgument,
        Self::CallBeforeInit,
        Self::Topology,
        Self::Mpi,
        Self::NotSupported,
        Self::Pop,
        Self::NotFound,
        Self::Timeout,
        Self::DeadMember,
        Self::Disagree,
        Self::InvalidHandle,
        Self::CallAfterFinalize,
        Self::Busy,
        Self::Detached,
        Self::Internal,
        Self::InvalidState,
        Self::Refused,
        Self::Aborted,
        Self::WorkFailed,
        Self::NotBegun,
    ];

    /// Returns the code with a number, if there is one.
    #[must_use]
    pub fn of_number(number: i32) -> Option<Self> {
        Self::ALL.get(usize::try_from(number).ok()?).copied()
    }

    /// Returns the name in `quo.h`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Success => "QUO_SUCCESS",
            Self::AlreadyDone => "QUO_SUCCESS_ALREADY_DONE",
            Self::Error => "QUO_ERR",
            Self::System => "QUO_ERR_SYS",
            Self::OutOfResources => "QUO_ERR_OOR",
            Self::InvalidArgument => "QUO_ERR_INVLD_ARG",
            Self::CallBeforeInit => "QUO_ERR_CALL_BEFORE_INIT",
            Self::Topology => "QUO_ERR_TOPO",
            Self::Mpi => "QUO_ERR_MPI",
            Self::NotSupported => "QUO_ERR_NOT_SUPPORTED",
            Self::Pop => "QUO_ERR_POP",
            Self::NotFound => "QUO_ERR_NOT_FOUND",
            Self::Timeout => "QUO_ERR_TIMEOUT",
            Self::DeadMember => "QUO_ERR_DEAD_MEMBER",
            Self::Disagree => "QUO_ERR_DISAGREE",
            Self::InvalidHandle => "QUO_ERR_INVLD_HANDLE",
            Self::CallAfterFinalize => "QUO_ERR_CALL_AFTER_FINALIZE",
            Self::Busy => "QUO_ERR_BUSY",
            Self::Detached => "QUO_ERR_DETACHED",
            Self::Internal => "QUO_ERR_INTERNAL",
            Self::InvalidState => "QUO_ERR_STATE",
            Self::Refused => "QUO_ERR_REFUSED",
            Self::Aborted => "QUO_ERR_ABORTED",
            Self::WorkFailed => "QUO_ERR_WORK_FAILED",
            Self::NotBegun => "QUO_ERR_NOT_BEGUN",
        }
    }

    /// Returns the sentence of `QUO_strerror`.
    #[must_use]
    pub const fn text(self) -> &'static CStr {
        match self {
            Self::Success => c"done",
            Self::AlreadyDone => c"done, and it had been done before",
            Self::Error => c"an error without a code of its own",
            Self::System => c"the operating system refused a call",
            Self::OutOfResources => c"no memory, shared memory or handle is left",
            Self::InvalidArgument => c"an argument is NULL, unknown or out of range",
            Self::CallBeforeInit => c"called before MPI_Init",
            Self::Topology => c"the machine's topology cannot be read",
            Self::Mpi => c"MPI returned an error",
            Self::NotSupported => c"the machine or the MPI library cannot do this",
            Self::Pop => c"more pops than pushes; nothing was changed",
            Self::NotFound => c"the machine has no such object",
            Self::Timeout => c"a wait took longer than allowed",
            Self::DeadMember => c"a rank of the node ended without freeing the context",
            Self::Disagree => c"the ranks gave different arguments to one collective call",
            Self::InvalidHandle => c"the handle was freed, is of another kind, or never existed",
            Self::CallAfterFinalize => c"called after MPI_Finalize",
            Self::Busy => c"the object is in use by another thread or by objects made from it",
            Self::Detached => c"the caller has detached from its node",
            Self::Internal => c"a defect of the library, which was kept from spreading",
            Self::InvalidState => c"the world is in a state in which the call is not allowed",
            Self::Refused => {
                c"a request to resize the world, or a change of process sets, was refused"
            }
            Self::Aborted => c"a resize was aborted on all ranks; the world is what it was",
            Self::WorkFailed => c"the work of a phase failed on a rank",
            Self::NotBegun => c"no run of the phase has begun on this thread",
        }
    }
}

impl From<ErrorKind> for Code {
    fn from(kind: ErrorKind) -> Self {
        match kind {
            ErrorKind::System => Self::System,
            ErrorKind::OutOfResources => Self::OutOfResources,
            ErrorKind::InvalidArgument => Self::InvalidArgument,
            // A call before initialisation is distinguished where the error is still known.
            ErrorKind::NotRunning => Self::CallAfterFinalize,
            ErrorKind::Topology => Self::Topology,
            ErrorKind::Mpi => Self::Mpi,
            // By contract a binding that is not granted is QUO_ERR_NOT_SUPPORTED.
            ErrorKind::NotSupported | ErrorKind::Binding => Self::NotSupported,
            ErrorKind::Pop => Self::Pop,
            ErrorKind::NotFound => Self::NotFound,
            ErrorKind::Timeout => Self::Timeout,
            ErrorKind::DeadMember => Self::DeadMember,
            ErrorKind::Disagreement => Self::Disagree,
            ErrorKind::Busy => Self::Busy,
            ErrorKind::Retired => Self::Detached,
            ErrorKind::Work => Self::WorkFailed,
            _ => Self::Error,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn codes_count_from_zero_with_distinct_names_and_texts() {
        let mut names = HashSet::new();
        let mut texts = HashSet::new();
        for (number, code) in Code::ALL.into_iter().enumerate() {
            assert_eq!(usize::try_from(code as i32).unwrap(), number);
            assert!(names.insert(code.name()));
            assert!(texts.insert(code.text()));
            assert!(!code.text().is_empty());
        }
    }

    #[test]
    fn kinds_of_error_keep_apart_as_codes() {
        let mut seen = HashSet::new();
        for kind in ErrorKind::ALL {
            let code = Code::from(kind);
            assert!(code > Code::AlreadyDone, "{kind:?} would look like a success");
            assert_eq!(code == Code::Error, kind == ErrorKind::Other, "{kind:?} has no code");
            // The one pair that shares a code, see `From`.
            assert!(seen.insert(code) || kind == ErrorKind::Binding, "{kind:?} repeats {code:?}");
        }
    }
}
