//! Reading of a trace, of a process that runs, has ended, or was killed; the file may be cut off or
//! damaged anywhere.
//!
//! [`Trace`] is the content of the file, independent of its encoding. Data that cannot be read are
//! omitted and named in [`Trace::faults`]; only a file with an invalid header is an error. No
//! content of a file can make a reader panic, run long, or use more memory than a few times the
//! size of the file. Component numbers are always below [`crate::layout::COMPONENTS_LIMIT`].

mod error;
mod file;
mod model;
mod source;

use std::path::Path;

pub use error::{Fault, TraceError};
pub use model::{Bin, History, PhaseEdge, PhasePeaks, Row, Sample, Segment, Summary, Trace};
use source::Source;

use crate::layout::{ENDIAN_MARK, HEADER_SIZE, HeaderStart, MAGIC, OLDEST_VERSION, VERSION};

/// Size up to which a file is accepted as a trace.
pub const LARGEST_FILE: u64 = 1 << 30;

/// Parts of a trace to read.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// The ring: every sample of the last part of the run. It is most of a file; the timeline,
    /// which is always read, covers the whole run.
    pub history: bool,
    /// The timeline and the large tables: peaks of phases, segments, sites, touches. Without them
    /// the result contains the identity of the process, its last and highest memory, and its
    /// phases.
    pub detail: bool,
}

impl Default for Options {
    /// Reads everything.
    fn default() -> Self {
        Self { history: true, detail: true }
    }
}

impl Trace {
    /// Reads the trace in a file, which may be written at the same time.
    ///
    /// # Errors
    /// If the file cannot be read, is not a trace, or has a version that this reader does not know.
    pub fn open(path: impl AsRef<Path>) -> Result<Trace, TraceError> {
        Self::open_with(path, Options::default())
    }

    /// Reads part of the trace in a file.
    ///
    /// # Errors
    /// If the file cannot be read, is not a trace, or has a version that this reader does not know.
    pub fn open_with(path: impl AsRef<Path>, options: Options) -> Result<Trace, TraceError> {
        decode(&Source::open(path.as_ref())?, options)
    }

    /// Reads a trace that is in memory.
    ///
    /// # Errors
    /// If the bytes are not a trace, or have a version that this reader does not know.
    pub fn from_bytes(bytes: &[u8]) -> Result<Trace, TraceError> {
        decode(&Source::Bytes(bytes), Options::default())
    }
}

fn decode(source: &Source<'_>, options: Options) -> Result<Trace, TraceError> {
    let header = source.read(0, HEADER_SIZE as u64)?;
    let length = source.length();
    if length == 0 {
        return Err(TraceError::Empty);
    }
    let known = header.len().min(MAGIC.len());
    if header[..known].iter().all(|byte| *byte == 0) {
        return Err(TraceError::Unfinished);
    }
    if header[..known] != MAGIC[..known] {
        return Err(TraceError::NotATrace);
    }
    let start = HeaderStart::from_bytes(&header).ok_or(TraceError::HeaderCut { length })?;
    if start.endian == ENDIAN_MARK.swap_bytes() {
        return Err(TraceError::OtherEndian);
    }
    if start.endian != ENDIAN_MARK {
        return Err(TraceError::HeaderDamaged);
    }
    if !(OLDEST_VERSION..=VERSION).contains(&start.version) {
        return Err(TraceError::OtherVersion { version: start.version });
    }
    file::decode(source, &header, &start, options)
}

#[cfg(test)]
mod tests;
