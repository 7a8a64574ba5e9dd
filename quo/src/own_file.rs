//! Long-lived open files, in programs that may close descriptors they do not own and reuse the
//! numbers for other files.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, IntoRawFd, OwnedFd};

use rustix::fs::{Stat, fstat};

/// File that is closed on drop only if its descriptor still refers to it.
#[derive(Debug)]
pub(crate) struct OwnFile {
    // `Some` until the drop.
    file: Option<File>,
    identity: (u64, u64),
}

impl OwnFile {
    /// Takes ownership of a file.
    ///
    /// # Errors
    /// The error of `fstat`.
    pub(crate) fn keep(file: impl Into<OwnedFd>) -> io::Result<Self> {
        let file = File::from(file.into());
        let identity = identity(&fstat(&file)?);
        Ok(Self { file: Some(file), identity })
    }

    /// Returns the file with its current status; `None` if the program has closed the descriptor or
    /// opened another file under its number.
    pub(crate) fn verified(&self) -> Option<(BorrowedFd<'_>, Stat)> {
        let file = self.file.as_ref()?.as_fd();
        let status = fstat(file).ok()?;
        (identity(&status) == self.identity).then_some((file, status))
    }

    /// Returns the device and inode of the file.
    pub(crate) fn identity(&self) -> (u64, u64) {
        self.identity
    }
}

fn identity(status: &Stat) -> (u64, u64) {
    (status.st_dev, status.st_ino)
}

impl Drop for OwnFile {
    fn drop(&mut self) {
        if self.verified().is_none()
            && let Some(file) = self.file.take()
        {
            // The number now belongs to another file, which stays open.
            let _ = file.into_raw_fd();
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use std::os::fd::AsRawFd;

    use super::*;

    /// Replaces the file by another under the same number, as a program does that closes all
    /// descriptors and opens its own. Returns the number.
    pub(crate) fn replace(own: &mut OwnFile, other: &File) -> i32 {
        let mut place = OwnedFd::from(own.file.take().unwrap());
        rustix::io::dup2(other, &mut place).unwrap();
        let number = place.as_raw_fd();
        own.file = Some(place.into());
        number
    }

    pub(crate) fn is_open_as(number: i32, path: &std::path::Path) -> bool {
        std::fs::read_link(format!("/proc/self/fd/{number}")).is_ok_and(|found| found == path)
    }

    #[test]
    fn file_in_the_place_of_ours_stays_open() {
        let other = tempfile::NamedTempFile::new().unwrap();
        let mut own = OwnFile::keep(tempfile::tempfile().unwrap()).unwrap();
        assert!(own.verified().is_some());
        let number = replace(&mut own, other.as_file());
        assert!(own.verified().is_none());
        drop(own);
        assert!(is_open_as(number, other.path()));
    }

    #[test]
    fn own_file_is_closed_in_the_end() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let own = OwnFile::keep(file.reopen().unwrap()).unwrap();
        let number = own.verified().unwrap().0.as_raw_fd();
        assert!(is_open_as(number, file.path()));
        drop(own);
        assert!(!is_open_as(number, file.path()));
    }
}
