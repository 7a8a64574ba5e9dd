//! Control sockets as files: how they are placed, and how the sockets of dead jobs are removed.
//!
//! A path leads to a socket only once the socket listens, so a socket that refuses a connection
//! belongs to a dead job. A new job could take the path between that check and the removal: the
//! lock of the folder must be held to place or remove sockets.

use std::fs::{self, File, Permissions};
use std::io::{Error, ErrorKind, Result};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::net::{SocketAddr, UnixListener};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};

use super::folder::{Folders, jobs, socket_of};
use super::peer;

/// The name of a socket that does not listen yet. No job uses it: it lacks the suffix.
const NEW: &str = "new";

/// A socket that listens, and its path.
pub(super) type Bound = (UnixListener, PathBuf);

impl Folders {
    /// Listens at a socket of this job, in the first folder that can be used.
    ///
    /// # Errors
    /// A job of this name is running already: of kind [`ErrorKind::AddrInUse`]. No folder is
    /// usable: the causes for all folders.
    pub(super) fn bind(&self, job: &str) -> Result<Bound> {
        for folder in self.list()? {
            let path = socket_of(&folder, job);
            if path.exists() && !is_dead(&path) {
                return Err(in_use(&path));
            }
        }
        let mut causes = Vec::new();
        let mut kind = ErrorKind::NotFound;
        for folder in self.for_new() {
            let bound = folder.and_then(|folder| {
                self.sweep(&folder);
                let path = socket_of(&folder, job);
                bind(&folder, &path).map(|listener| (listener, path))
            });
            match bound {
                Err(error) if error.kind() != ErrorKind::AddrInUse => {
                    kind = error.kind();
                    causes.push(error.to_string());
                }
                bound => return bound,
            }
        }
        Err(Error::new(kind, causes.join("; ")))
    }

    /// Removes the sockets of dead jobs from a folder, if its lock is free and they can be
    /// recognised.
    pub fn sweep(&self, folder: &Path) {
        if !self.are_usual() {
            return;
        }
        let Ok(_lock) = FolderLock::take(folder, FlockOperation::NonBlockingLockExclusive) else {
            return;
        };
        for job in jobs(folder).unwrap_or_default() {
            let path = socket_of(folder, &job);
            let is_own = fs::symlink_metadata(&path).is_ok_and(|found| found.uid() == self.user);
            if is_own && is_dead(&path) {
                let _ = fs::remove_file(&path);
            }
        }
    }
}

/// Returns true if no process listens at a socket.
fn is_dead(path: &Path) -> bool {
    matches!(peer::try_connect(path), Err(error) if error.kind() == ErrorKind::ConnectionRefused)
}

/// Listens at the path. Replaces the socket of a dead job, never that of a live one.
fn bind(folder: &Path, path: &Path) -> Result<UnixListener> {
    let about = |error: Error| Error::new(error.kind(), format!("{}: {error}", path.display()));
    // Checked first: a hard link could be made at a path that is too long for a socket.
    SocketAddr::from_pathname(path).map_err(about)?;
    // Held for a few system calls that do not block.
    let _lock = FolderLock::take(folder, FlockOperation::LockExclusive).map_err(about)?;
    let new = folder.join(NEW);
    match fs::remove_file(&new) {
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(about(error)),
        _ => {}
    }
    let listener = UnixListener::bind(&new).map_err(about)?;
    // The folder is closed to others already.
    let private = Permissions::from_mode(0o600);
    let placed = fs::set_permissions(&new, private).and_then(|()| place(&new, path));
    let _ = fs::remove_file(&new);
    placed.map(|()| listener)
}

/// Places a listening socket at its path.
fn place(new: &Path, path: &Path) -> Result<()> {
    match fs::hard_link(new, path) {
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {
            if !is_dead(path) {
                return Err(in_use(path));
            }
            fs::remove_file(path)?;
            fs::hard_link(new, path)
        }
        placed => placed,
    }
}

fn in_use(path: &Path) -> Error {
    let text = format!("a job of this name is running: {}", path.display());
    Error::new(ErrorKind::AddrInUse, text)
}

/// The lock of a folder, held until it is dropped.
#[derive(Debug)]
pub(in crate::manager) struct FolderLock(File);

impl FolderLock {
    pub(in crate::manager) fn take(folder: &Path, how: FlockOperation) -> Result<Self> {
        let folder = File::open(folder)?;
        flock(&folder, how)?;
        Ok(Self(folder))
    }
}

impl Drop for FolderLock {
    fn drop(&mut self) {
        // Not only by closing: a forked process may have a copy of the descriptor.
        let _ = flock(&self.0, FlockOperation::Unlock);
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixStream;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::{Duration, Instant};

    use super::super::folder::tests::Scratch;
    use super::*;

    fn names(folder: &Path) -> Vec<String> {
        let entries = fs::read_dir(folder).unwrap();
        let mut names: Vec<String> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort_unstable();
        names
    }

    #[test]
    fn dead_jobs_socket_is_replaced_and_living_ones_kept() {
        let scratch = Scratch::new("replaced");
        let folders = Folders::only(&scratch.0);
        let (listener, path) = folders.bind("test").unwrap();
        assert_eq!(folders.bind("test").unwrap_err().kind(), ErrorKind::AddrInUse);
        drop(listener);
        let (_listener, again) = folders.bind("test").unwrap();
        assert_eq!(again, path);
        UnixStream::connect(&path).unwrap();
        assert_eq!(names(&scratch.0), ["test.sock"]);
    }

    #[test]
    fn job_name_in_use_in_another_folder_is_refused() {
        let scratch = Scratch::new("elsewhere");
        let (_listener, _) = scratch.usual().bind("test").unwrap();
        let error = scratch.usual_with_runtime().bind("test").unwrap_err();
        assert_eq!(error.kind(), ErrorKind::AddrInUse, "{error}");
    }

    #[test]
    fn new_socket_sweeps_dead_ones_and_keeps_living_ones() {
        let scratch = Scratch::new("swept");
        let folders = scratch.usual();
        let (living, path) = folders.bind("living").unwrap();
        let folder = path.parent().unwrap();
        // As a killed job leaves them: at its path, and before it has one.
        drop(folders.bind("dead").unwrap());
        drop(UnixListener::bind(folder.join(NEW)).unwrap());
        fs::write(folder.join("file.sock"), "").unwrap();
        assert_eq!(names(folder), ["dead.sock", "file.sock", "living.sock", NEW]);
        let (_other, _) = folders.bind("other").unwrap();
        assert_eq!(names(folder), ["file.sock", "living.sock", "other.sock"]);
        drop(living);
    }

    #[test]
    fn named_folder_is_not_swept() {
        let scratch = Scratch::new("named");
        let folders = Folders::only(&scratch.0);
        drop(folders.bind("elsewhere").unwrap());
        let (_listener, _) = folders.bind("test").unwrap();
        assert_eq!(names(&scratch.0), ["elsewhere.sock", "test.sock"]);
    }

    #[test]
    fn folder_that_is_locked_is_not_swept() {
        let scratch = Scratch::new("locked");
        let folders = scratch.usual();
        let (dead, path) = folders.bind("dead").unwrap();
        drop(dead);
        let folder = path.parent().unwrap();
        let lock = FolderLock::take(folder, FlockOperation::LockExclusive).unwrap();
        folders.sweep(folder);
        assert!(path.exists());
        drop(lock);
        folders.sweep(folder);
        assert!(!path.exists());
    }

    #[test]
    fn new_socket_waits_for_the_lock_of_its_folder() {
        let scratch = Scratch::new("waits");
        let folder = &scratch.0;
        let path = socket_of(folder, "test");
        let inode = format!(":{} ", fs::metadata(folder).unwrap().ino());
        let lock = FolderLock::take(folder, FlockOperation::LockExclusive).unwrap();
        std::thread::scope(|scope| {
            let binding = scope.spawn(|| bind(folder, &path));
            let is_waiting = || {
                let locks = fs::read_to_string("/proc/locks").unwrap();
                locks.lines().any(|line| line.contains("-> FLOCK") && line.contains(&inode))
            };
            let bound = Instant::now() + Duration::from_secs(60);
            while !is_waiting() {
                let is_due = binding.is_finished() || bound <= Instant::now();
                assert!(!is_due, "nobody waits for the lock");
            }
            assert!(names(folder).is_empty());
            drop(lock);
            binding.join().unwrap().unwrap();
        });
    }

    #[test]
    fn existing_socket_accepts_connections_while_others_sweep() {
        const SOCKETS: usize = 200;
        let scratch = Scratch::new("connected");
        let folders = scratch.usual();
        let folder = folders.for_new().remove(0).unwrap();
        let path = |number: usize| socket_of(&folder, &number.to_string());
        let bound = AtomicUsize::new(0);
        let listeners = std::thread::scope(|scope| {
            scope.spawn(|| {
                for number in 0..SOCKETS {
                    let is_there = || number % 2 == 1 && path(number).exists();
                    while !is_there() && bound.load(Ordering::Acquire) <= number {}
                    UnixStream::connect(path(number)).unwrap();
                }
            });
            scope.spawn(|| {
                while bound.load(Ordering::Acquire) < SOCKETS {
                    folders.sweep(&folder);
                }
            });
            (0..SOCKETS)
                .map(|number| {
                    // Half of them take the place of a dead one.
                    if number % 2 == 0 {
                        drop(UnixListener::bind(folder.join("dead")).unwrap());
                        fs::rename(folder.join("dead"), path(number)).unwrap();
                    }
                    let listener = bind(&folder, &path(number));
                    bound.store(number + 1, Ordering::Release);
                    listener
                })
                .collect::<Vec<Result<UnixListener>>>()
        });
        listeners.iter().for_each(|listener| assert!(listener.is_ok(), "{listener:?}"));
        assert!((0..SOCKETS).all(|number| path(number).exists()));
    }
}
