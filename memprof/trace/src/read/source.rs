//! Source of the bytes of a trace.

use std::borrow::Cow;
use std::fs::{File, OpenOptions};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use super::{LARGEST_FILE, TraceError};

/// A trace as bytes, or as a file that may change while it is read. The file is not mapped: if it
/// becomes shorter, a read only ends early.
pub(super) enum Source<'a> {
    Bytes(&'a [u8]),
    File { file: File, length: u64, path: PathBuf },
}

impl Source<'_> {
    pub(super) fn open(path: &Path) -> Result<Self, TraceError> {
        let failed = |cause| TraceError::Io { path: path.to_owned(), cause };
        // A pipe with this name must not block the reader before it is recognized.
        let file = OpenOptions::new()
            .read(true)
            .custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY)
            .open(path)
            .map_err(failed)?;
        let about = file.metadata().map_err(failed)?;
        if !about.is_file() {
            return Err(TraceError::NotAFile(path.to_owned()));
        }
        let length = about.len();
        if length > LARGEST_FILE {
            return Err(TraceError::TooLarge { path: path.to_owned(), size: length });
        }
        Ok(Source::File { file, length, path: path.to_owned() })
    }

    pub(super) fn length(&self) -> u64 {
        match self {
            Source::Bytes(bytes) => bytes.len() as u64,
            Source::File { length, .. } => *length,
        }
    }

    /// Returns true if reading again may give other bytes.
    pub(super) fn may_change(&self) -> bool {
        matches!(self, Source::File { .. })
    }

    /// Returns `length` bytes from `offset` on, or as many as there are.
    pub(super) fn read(&self, offset: u64, length: u64) -> Result<Cow<'_, [u8]>, TraceError> {
        let length = length.min(self.length().saturating_sub(offset));
        let size = usize::try_from(length).unwrap_or(0);
        match self {
            Source::Bytes(bytes) => {
                let start = usize::try_from(offset).unwrap_or(usize::MAX).min(bytes.len());
                Ok(Cow::Borrowed(&bytes[start..][..size]))
            }
            Source::File { .. } => {
                let mut bytes = vec![0; size];
                let filled = self.fill(&mut bytes, offset)?;
                bytes.truncate(filled);
                Ok(Cow::Owned(bytes))
            }
        }
    }

    /// Reads the same range in pieces of a size, of which the last may be shorter.
    pub(super) fn each_piece(
        &self,
        offset: u64,
        length: u64,
        size: usize,
        each: &mut dyn FnMut(&[u8]),
    ) -> Result<(), TraceError> {
        let length = length.min(self.length().saturating_sub(offset));
        if let Source::Bytes(_) = self {
            self.read(offset, length)?.chunks(size.max(1)).for_each(each);
            return Ok(());
        }
        // A forged size is limited to the length of the file.
        let size = size.min(usize::try_from(length).unwrap_or(usize::MAX));
        let mut bytes = vec![0; size.max(1)];
        let mut done = 0;
        while done < length {
            let wanted = usize::try_from(length - done).unwrap_or(usize::MAX).min(bytes.len());
            let filled = self.fill(&mut bytes[..wanted], offset + done)?;
            each(&bytes[..filled]);
            if filled < wanted {
                break;
            }
            done += filled as u64;
        }
        Ok(())
    }

    /// Reads as many bytes of a file as there are from `offset` on.
    fn fill(&self, bytes: &mut [u8], offset: u64) -> Result<usize, TraceError> {
        let Source::File { file, path, .. } = self else { return Ok(0) };
        let mut filled = 0;
        while filled < bytes.len() {
            match file.read_at(&mut bytes[filled..], offset + filled as u64) {
                Ok(0) => break,
                Ok(count) => filled += count,
                Err(cause) if cause.kind() == std::io::ErrorKind::Interrupted => {}
                Err(cause) => return Err(TraceError::Io { path: path.clone(), cause }),
            }
        }
        Ok(filled)
    }
}
