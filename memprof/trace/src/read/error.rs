//! Errors, after which nothing is known of a trace, and faults, after which part of it is.

use std::fmt;
use std::io;
use std::path::PathBuf;

use super::LARGEST_FILE;
use crate::layout::{OLDEST_VERSION, SectionKind, VERSION};

/// Reason why a file cannot be read as a trace.
#[derive(Debug, thiserror::Error)]
pub enum TraceError {
    /// The system reported an error.
    #[error("cannot read {}: {cause}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The system's error.
        cause: io::Error,
    },
    /// The path is a folder, a pipe, or a device.
    #[error("{} is not a regular file", .0.display())]
    NotAFile(PathBuf),
    /// The file is larger than any trace.
    #[error("{} has {size} bytes; traces have at most {LARGEST_FILE}", path.display())]
    TooLarge {
        /// The file.
        path: PathBuf,
        /// Its size.
        size: u64,
    },
    /// The file is empty.
    #[error("the file is empty")]
    Empty,
    /// There are zeros in place of the magic number.
    #[error("the trace was never begun: its process ended before the header was complete")]
    Unfinished,
    /// The file is of another kind.
    #[error("not a trace of memprof")]
    NotATrace,
    /// The file is shorter than a header.
    #[error("only {length} bytes of the trace are left, not even its header")]
    HeaderCut {
        /// Bytes there are.
        length: u64,
    },
    /// The file was written with the other byte order.
    #[error("the trace was written with the other order of bytes")]
    OtherEndian,
    /// The file was written by a memprof with another version of the format.
    #[error(
        "the trace has version {version} of the format; this memprof reads versions {OLDEST_VERSION} to {VERSION}"
    )]
    OtherVersion {
        /// Version of the file.
        version: u32,
    },
    /// The header does not match its checksum.
    #[error("the header of the trace is damaged")]
    HeaderDamaged,
    /// The header has an impossible value.
    #[error("the header of the trace makes no sense: {what}")]
    Nonsense {
        /// The impossible value.
        what: &'static str,
    },
}

/// Missing part of a trace that is otherwise readable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The file is shorter than it was created.
    Truncated {
        /// Bytes there are.
        length: u64,
        /// Bytes there were.
        expected: u64,
    },
    /// Slots or blocks do not match their checksums. For a row there may be an older value.
    Damaged {
        /// The section.
        section: SectionKind,
        /// Number of slots.
        count: u64,
    },
    /// Rows, or blocks of the ring, were written and are missing.
    Missing {
        /// The section.
        section: SectionKind,
        /// Number of blocks.
        count: u64,
    },
    /// Impossible rows or records were corrected or left out.
    Nonsense {
        /// The section.
        section: SectionKind,
        /// Number of rows.
        count: u64,
    },
    /// The process had more to write than its tables hold.
    NoRoom {
        /// Rows.
        rows: u64,
    },
}

impl fmt::Display for Fault {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fault::Truncated { length, expected } => {
                write!(out, "{length} of {expected} bytes are left of the file")
            }
            Fault::Damaged { section, count } => {
                write!(out, "{}: {count} damaged", section.name())
            }
            Fault::Missing { section, count } => {
                write!(out, "{}: {count} missing", section.name())
            }
            Fault::Nonsense { section, count } => {
                write!(out, "{}: {count} make no sense", section.name())
            }
            Fault::NoRoom { rows } => {
                write!(out, "{rows} rows found no room in the file; a larger one would hold them")
            }
        }
    }
}
