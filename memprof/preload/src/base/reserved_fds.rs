//! Kernel files that stay open, although the program may use descriptors as it likes.
//!
//! They have high numbers, which programs and shells do not choose. A program that closes all
//! numbers, or reuses one of the tool's, keeps its own file: before a descriptor is used or closed,
//! its identity is compared with that of the file that was opened.

#![allow(unsafe_code)]

use core::ffi::CStr;

use crate::base::kernel::{self, Errno, File};

/// Distance of the first numbers tried below the limit, or below the numbers that `select`
/// supports.
const BELOW: u64 = 32;
const SELECT: u64 = 1024;

/// A file that stays open (see the module).
#[derive(Debug)]
pub struct Kept {
    path: &'static CStr,
    file: File,
    /// Device and inode.
    identity: (u64, u64),
}

impl Kept {
    /// Opens a file for reading.
    pub fn open(path: &'static CStr) -> Result<Kept, Errno> {
        let low = kernel::open(path)?;
        let file = match kernel::duplicate(low, first()) {
            Ok(high) => {
                kernel::close(low);
                high
            }
            Err(_) => low,
        };
        let identity = kernel::identity(file);
        identity.map(|identity| Kept { path, file, identity }).inspect_err(|_| kernel::close(file))
    }

    fn is_ours(&self) -> bool {
        kernel::identity(self.file) == Ok(self.identity)
    }

    /// Returns the file; opens it again if the program has closed it.
    pub fn file(&mut self) -> Result<File, Errno> {
        if !self.is_ours() {
            *self = Kept::open(self.path)?;
        }
        Ok(self.file)
    }

    /// Does what [`kernel::read_at`] does.
    pub fn read_at(&mut self, into: &mut [u8], offset: u64) -> Result<usize, Errno> {
        kernel::read_at(self.file()?, into, offset)
    }

    /// Closes the file if the descriptor still refers to it.
    pub fn close(self) {
        if self.is_ours() {
            kernel::close(self.file);
        }
    }
}

fn first() -> i32 {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the kernel fills the structure.
    let known = unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) } == 0;
    let end = if known { limit.rlim_cur.min(SELECT) } else { SELECT };
    end.saturating_sub(BELOW) as i32
}

#[cfg(test)]
mod tests {
    use std::fs::{self, File};
    use std::io::Read;
    use std::os::fd::AsRawFd;

    use super::*;

    fn text(kept: &mut Kept) -> String {
        let mut text = [0; 64];
        let length = kept.read_at(&mut text, 0).unwrap();
        String::from_utf8_lossy(&text[..length]).into_owned()
    }

    #[test]
    fn closed_or_replaced_file_is_reopened_and_the_programs_kept() {
        let mut kept = Kept::open(c"/proc/self/comm").unwrap();
        assert!(kept.file.0 >= first(), "{kept:?}");
        let before = text(&mut kept);
        kernel::close(kept.file);
        assert_eq!(text(&mut kept), before);
        let taken = kept.file;
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("theirs"), "the program's").unwrap();
        let theirs = File::open(folder.path().join("theirs")).unwrap();
        // SAFETY: the number belongs to this test, which closes it below.
        unsafe { libc::dup3(theirs.as_raw_fd(), taken.0, libc::O_CLOEXEC) };
        assert_eq!(text(&mut kept), before);
        assert_ne!(kept.file, taken);
        let other = kept.file;
        // SAFETY: as above; the number is now the kept file's.
        unsafe { libc::dup3(theirs.as_raw_fd(), other.0, libc::O_CLOEXEC) };
        kept.close();
        for number in [taken, other] {
            // SAFETY: both are still open, and no other code owns them.
            let mut file = unsafe { <File as std::os::fd::FromRawFd>::from_raw_fd(number.0) };
            let mut content = String::new();
            file.read_to_string(&mut content).unwrap();
            std::io::Seek::rewind(&mut file).unwrap();
            assert_eq!(content, "the program's");
        }
    }
}
