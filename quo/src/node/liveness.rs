#![allow(unsafe_code)]
//! Liveness: a record lock per member on the segment's file.
//!
//! Each member holds a POSIX record lock (`F_SETLK`, not the open-file-description kind) on its own
//! byte. The kernel drops the lock when the process ends, however it ends and even before its
//! parent has reaped it, and when the process executes another program. A forked child does not
//! inherit the lock; a stopped process keeps it. Process ids are not compared, so PID namespaces
//! and reused ids do not matter.
//!
//! Such locks have one trap: closing *any* descriptor of the file drops all of the process's locks
//! on it. All descriptors of a file are therefore kept together until the last user is gone.

use std::collections::BTreeSet;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use super::fork::ForkId;
use crate::own_file::OwnFile;

/// Device and inode of a file.
pub(super) type Identity = (u64, u64);

static FILES: Mutex<Vec<Weak<LockedFile>>> = Mutex::new(Vec::new());

/// Locks a mutex, even after a panic elsewhere: the data under these mutexes are always consistent.
pub(super) fn guard<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A segment's file with the locks that this process holds on it.
#[derive(Debug)]
pub(super) struct LockedFile {
    identity: Identity,
    first: RawFd,
    held: Mutex<Held>,
}

#[derive(Debug)]
struct Held {
    process: ForkId,
    bytes: BTreeSet<u64>,
    // Closed together, at the end: see the trap above.
    descriptors: Vec<OwnFile>,
}

impl LockedFile {
    /// Takes ownership of a descriptor and keeps it with any others of the same file.
    pub(super) fn keep(descriptor: OwnedFd) -> io::Result<Arc<Self>> {
        let first = descriptor.as_raw_fd();
        let descriptor = OwnFile::keep(descriptor)?;
        let identity = descriptor.identity();
        let mut files = guard(&FILES);
        files.retain(|file| file.strong_count() > 0);
        if let Some(file) =
            files.iter().filter_map(Weak::upgrade).find(|file| file.identity == identity)
        {
            file.held().descriptors.push(descriptor);
            return Ok(file);
        }
        let file = Arc::new(Self {
            identity,
            first,
            held: Mutex::new(Held {
                process: ForkId::current(),
                bytes: BTreeSet::new(),
                descriptors: vec![descriptor],
            }),
        });
        files.push(Arc::downgrade(&file));
        Ok(file)
    }

    /// Returns the identities of the files that this process has open.
    pub(super) fn identities() -> Vec<Identity> {
        guard(&FILES).iter().filter_map(Weak::upgrade).map(|file| file.identity).collect()
    }

    pub(super) fn identity(&self) -> Identity {
        self.identity
    }

    /// Returns a descriptor of the file.
    pub(super) fn descriptor(&self) -> BorrowedFd<'_> {
        // SAFETY: `first` is among the descriptors that stay open as long as `self` lives.
        unsafe { BorrowedFd::borrow_raw(self.first) }
    }

    fn held(&self) -> MutexGuard<'_, Held> {
        let mut held = guard(&self.held);
        // In a forked child the descriptors are inherited, the locks are not.
        if held.process != ForkId::current() {
            held.process = ForkId::current();
            held.bytes.clear();
        }
        held
    }

    /// Locks a byte; returns false if another process, or another user in this one, holds it.
    pub(super) fn lock(&self, byte: u64) -> io::Result<bool> {
        let mut held = self.held();
        if held.bytes.contains(&byte) {
            return Ok(false);
        }
        let mut record = record(libc::F_WRLCK, byte, 1);
        match control(self.first, libc::F_SETLK, &mut record) {
            Ok(()) => {
                held.bytes.insert(byte);
                Ok(true)
            }
            Err(error)
                if matches!(error.raw_os_error(), Some(libc::EAGAIN) | Some(libc::EACCES)) =>
            {
                Ok(false)
            }
            Err(error) => Err(error),
        }
    }

    /// Releases a byte; does nothing if this process does not hold it.
    pub(super) fn unlock(&self, byte: u64) -> io::Result<()> {
        let mut held = self.held();
        if held.bytes.remove(&byte) {
            control(self.first, libc::F_SETLK, &mut record(libc::F_UNLCK, byte, 1))?;
        }
        Ok(())
    }

    /// Returns true if any living process holds the byte, this one included.
    pub(super) fn is_locked(&self, byte: u64) -> io::Result<bool> {
        if self.held().bytes.contains(&byte) {
            return Ok(true);
        }
        is_locked_by_others(self.first, byte, 1)
    }

    /// Returns true if no living process holds any byte.
    pub(super) fn is_unused(&self) -> io::Result<bool> {
        Ok(self.held().bytes.is_empty() && !is_locked_by_others(self.first, 0, 0)?)
    }
}

/// Returns true if another process holds any of `bytes` bytes from `start`; zero means all bytes
/// that follow.
fn is_locked_by_others(descriptor: RawFd, start: u64, bytes: u64) -> io::Result<bool> {
    let mut record = record(libc::F_WRLCK, start, bytes);
    control(descriptor, libc::F_GETLK, &mut record)?;
    Ok(i32::from(record.l_type) != libc::F_UNLCK)
}

fn record(kind: i32, start: u64, bytes: u64) -> libc::flock {
    // SAFETY: the structure is plain integers, for which zero is a value.
    let mut record: libc::flock = unsafe { std::mem::zeroed() };
    record.l_type = kind as libc::c_short;
    record.l_whence = libc::SEEK_SET as libc::c_short;
    record.l_start = start as libc::off_t;
    record.l_len = bytes as libc::off_t;
    record
}

fn control(descriptor: RawFd, command: i32, record: &mut libc::flock) -> io::Result<()> {
    loop {
        // SAFETY: `record` is a valid lock description for the duration of the call; a descriptor
        // that is not open is an error and nothing worse.
        if unsafe { libc::fcntl(descriptor, command, &raw mut *record) } != -1 {
            return Ok(());
        }
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn locks_survive_the_closing_of_a_second_descriptor() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let open = || LockedFile::keep(file.reopen().unwrap().into()).unwrap();
        let (first, second) = (open(), open());
        assert!(first.lock(3).unwrap());
        assert!(!second.lock(3).unwrap(), "taken within the process");
        drop(second);
        assert!(first.is_locked(3).unwrap());
        assert!(!first.is_locked(4).unwrap());
        let listed = std::fs::read_to_string("/proc/locks").unwrap();
        let mark = format!(":{} 3 3", first.identity.1);
        assert!(listed.lines().any(|line| line.ends_with(&mark)), "{mark} not in\n{listed}");
        first.unlock(3).unwrap();
        assert!(!first.is_locked(3).unwrap());
    }
}
