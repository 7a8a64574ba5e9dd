//! Errors of a trace, after which nothing is known, and faults, after which some is.

use std::fmt;
use std::io;
use std::path::PathBuf;

use super::LARGEST_FILE;
use crate::layout::{OLDEST_VERSION, SectionKind, VERSION};

/// Why a file cannot be read as a trace at all.
#[derive(Debug, thiserror::Error)]
pub enum TraceError {
    /// The system refused.
    #[error("cannot read {}: {cause}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The system's error.
        cause: io::Error,
    },
    /// A folder, a pipe, a device.
    #[error("{} is not a regular file", .0.display())]
    NotAFile(PathBuf),
    /// Larger than any trace.
    #[error("{} has {size} bytes; traces have at most {LARGEST_FILE}", path.display())]
    TooLarge {
        /// The file.
        path: PathBuf,
        /// Its size.
        size: u64,
    },
    /// No bytes.
    #[error("the file is empty")]
    Empty,
    /// All zero where the magic number would be.
    #[error("the trace was never begun: its process ended before the header was complete")]
    Unfinished,
    /// Another kind of file.
    #[error("not a trace of memprof")]
    NotATrace,
    /// Fewer bytes than a header.
    #[error("only {length} bytes of the trace are left, not even its header")]
    HeaderCut {
        /// Bytes there are.
        length: u64,
    },
    /// Written with the other order of bytes.
    #[error("the trace was written with the other order of bytes")]
    OtherEndian,
    /// Written by a memprof with another version of the format.
    #[error(
        "the trace has version {version} of the format; this memprof reads versions {OLDEST_VERSION} to {VERSION}"
    )]
    OtherVersion {
        /// That of the file.
        version: u32,
    },
    /// The header does not match its checksum.
    #[error("the header of the trace is damaged")]
    HeaderDamaged,
    /// The header is impossible.
    #[error("the header of the trace makes no sense: {what}")]
    Nonsense {
        /// The impossible value.
        what: &'static str,
    },
}

/// Missing part of a trace that could be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The file is shorter than it was made.
    Truncated {
        /// Bytes there are.
        length: u64,
        /// Bytes there were.
        expected: u64,
    },
    /// Slots or blocks that do not match their checksums. Of a row there may be an older value.
    Damaged {
        /// The section.
        section: SectionKind,
        /// Number of slots.
        count: u64,
    },
    /// Rows, or blocks of the ring, that were written and are not there.
    Missing {
        /// The section.
        section: SectionKind,
        /// Number of blocks.
        count: u64,
    },
    /// Impossible rows or records; put right or left out.
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
