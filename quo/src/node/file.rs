//! Files behind shared memory, created and opened so that no other user can interfere.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use rustix::fs::{self, FileType, Mode, OFlags};
use rustix::io::Errno;
use rustix::process::{Resource, getrlimit};

use super::name::{SegmentName, user};
use super::{NodeError, directory};

const FLAGS: OFlags = OFlags::RDWR.union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// Creates an empty file that only this user can open.
pub(super) fn create(directory: &Path, name: &SegmentName) -> Result<OwnedFd, NodeError> {
    let folder = directory::open(directory)?;
    let name = name.to_string();
    let path = directory.join(&name);
    let flags = FLAGS | OFlags::CREATE | OFlags::EXCL;
    let file = fs::openat(&folder, name, flags, Mode::RUSR | Mode::WUSR)
        .map_err(|error| NodeError::system("open", path.display().to_string(), error))?;
    // A umask can only remove permissions; without them the other members would refuse the file.
    fs::fchmod(&file, Mode::RUSR | Mode::WUSR)
        .map_err(|error| NodeError::system("fchmod", path.display().to_string(), error))?;
    Ok(file)
}

/// Opens such a file; the caller verifies it next.
pub(super) fn open(directory: &Path, name: &SegmentName) -> Result<OwnedFd, NodeError> {
    let folder = directory::open(directory)?;
    let name = name.to_string();
    let path = directory.join(&name);
    match fs::openat(&folder, name, FLAGS, Mode::empty()) {
        Ok(file) => Ok(file),
        Err(Errno::LOOP) => {
            Err(NodeError::Refused { path, reason: "it is a symbolic link".to_owned() })
        }
        Err(error) => Err(NodeError::system("open", path.display().to_string(), error)),
    }
}

/// Checks that no other user created the file or can access it. Returns its size.
pub(super) fn verify(
    file: impl AsFd,
    directory: &Path,
    name: &SegmentName,
) -> Result<u64, NodeError> {
    let path = || directory.join(name.to_string());
    let status = match fs::fstat(file) {
        Ok(status) => status,
        Err(error) => return Err(NodeError::system("fstat", path().display().to_string(), error)),
    };
    match objection(&status) {
        Some(reason) => Err(NodeError::Refused { path: path(), reason: reason.to_owned() }),
        None => Ok(u64::try_from(status.st_size).unwrap_or(0)),
    }
}

/// Returns why another user may have created the file or may access it.
pub(super) fn objection(status: &fs::Stat) -> Option<&'static str> {
    let mode = Mode::from_raw_mode(status.st_mode);
    if FileType::from_raw_mode(status.st_mode) != FileType::RegularFile {
        Some("it is not a regular file")
    } else if status.st_uid != user() {
        Some("it belongs to another user")
    } else if mode.intersects(Mode::RWXG | Mode::RWXO) {
        Some("others have rights to it")
    } else if status.st_nlink > 1 {
        Some("it has a second name")
    } else {
        None
    }
}

/// Removes the name; succeeds if it does not exist.
pub(super) fn unlink(directory: &Path, name: &SegmentName) -> Result<(), NodeError> {
    let path = directory.join(name.to_string());
    match fs::unlink(&path) {
        Ok(()) | Err(Errno::NOENT) => Ok(()),
        Err(error) => Err(NodeError::system("unlink", path.display().to_string(), error)),
    }
}

/// Fails if the process may not have files of that size (`ulimit -f`): the kernel would kill it by
/// a signal.
fn check_limit(bytes: u64) -> io::Result<()> {
    match getrlimit(Resource::Fsize).current {
        Some(limit) if bytes > limit => Err(Errno::FBIG.into()),
        _ => Ok(()),
    }
}

/// Sets the size without allocating memory yet.
pub(super) fn resize(file: impl AsFd + Copy, bytes: u64) -> io::Result<()> {
    check_limit(bytes)?;
    Ok(rustix::io::retry_on_intr(|| fs::ftruncate(file, bytes))?)
}

/// Allocates the memory behind a part of the file now, on this thread's NUMA node: a full directory
/// is an error here rather than a fatal signal later. Extends the file if necessary.
pub(super) fn reserve(file: impl AsFd + Copy, start: u64, bytes: u64) -> io::Result<()> {
    if bytes == 0 {
        return Ok(());
    }
    check_limit(start.saturating_add(bytes))?;
    let flags = fs::FallocateFlags::empty();
    match rustix::io::retry_on_intr(|| fs::fallocate(file, flags, start, bytes)) {
        Err(Errno::OPNOTSUPP | Errno::NOSYS) => fill(file, start, bytes),
        result => Ok(result?),
    }
}

/// Fallback for file systems that cannot reserve: writes zeros. Nothing was written there before.
fn fill(file: impl AsFd + Copy, start: u64, bytes: u64) -> io::Result<()> {
    const ZEROS: &[u8] = &[0; 1 << 16];
    let mut done = 0;
    while done < bytes {
        let chunk = usize::try_from(bytes - done).map_or(ZEROS.len(), |rest| rest.min(ZEROS.len()));
        write_at(file, &ZEROS[..chunk], start + done)?;
        done += chunk as u64;
    }
    Ok(())
}

/// Writes all of `bytes` at an offset of the file.
pub(super) fn write_at(file: impl AsFd + Copy, bytes: &[u8], start: u64) -> io::Result<()> {
    let mut done = 0;
    while done < bytes.len() {
        let more = rustix::io::retry_on_intr(|| {
            rustix::io::pwrite(file, &bytes[done..], start + done as u64)
        })?;
        if more == 0 {
            return Err(io::ErrorKind::WriteZero.into());
        }
        done += more;
    }
    Ok(())
}

/// Fills `buffer` from an offset of the file; returns false if the file is too short.
pub(super) fn read_at(file: impl AsFd + Copy, buffer: &mut [u8], start: u64) -> io::Result<bool> {
    let mut filled = 0;
    while filled < buffer.len() {
        let more = rustix::io::retry_on_intr(|| {
            rustix::io::pread(file, &mut buffer[filled..], start + filled as u64)
        })?;
        if more == 0 {
            return Ok(false);
        }
        filled += more;
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt, symlink};

    fn scratch() -> (tempfile::TempDir, SegmentName) {
        (tempfile::tempdir().unwrap(), SegmentName::random().unwrap())
    }

    #[test]
    fn a_name_is_made_once_for_its_owner_only() {
        let (directory, name) = scratch();
        let file = create(directory.path(), &name).unwrap();
        let mode = fs::fstat(&file).unwrap().st_mode & 0o7777;
        assert_eq!(mode, 0o600);
        assert!(create(directory.path(), &name).is_err());
        unlink(directory.path(), &name).unwrap();
        unlink(directory.path(), &name).unwrap();
    }

    #[test]
    fn links_directories_and_open_modes_are_refused() {
        let (directory, name) = scratch();
        let path = directory.path().join(name.to_string());
        let refusal = || {
            let file = open(directory.path(), &name);
            file.and_then(|file| verify(&file, directory.path(), &name)).unwrap_err().to_string()
        };
        symlink("/dev/null", &path).unwrap();
        assert!(refusal().contains("symbolic link"), "{}", refusal());
        std::fs::remove_file(&path).unwrap();
        rustix::fs::mkfifoat(rustix::fs::CWD, &path, Mode::RUSR | Mode::WUSR).unwrap();
        assert!(refusal().contains("not a regular file"), "{}", refusal());
        std::fs::remove_file(&path).unwrap();
        std::fs::write(&path, b"").unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o640)).unwrap();
        assert!(refusal().contains("others have rights"), "{}", refusal());
    }

    #[test]
    fn a_reserved_part_reads_as_zeros() {
        let (directory, name) = scratch();
        let file = create(directory.path(), &name).unwrap();
        reserve(&file, 0, 5_000).unwrap();
        fill(&file, 5_000, 100_000).unwrap();
        let mut bytes = vec![1; 105_000];
        assert!(read_at(&file, &mut bytes, 0).unwrap());
        assert!(bytes.iter().all(|&byte| byte == 0));
        assert!(!read_at(&file, &mut vec![0; 105_001], 0).unwrap());
    }
}
