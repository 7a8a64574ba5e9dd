//! Small files of this user in the directory of segments, which stay for later processes.

use std::os::fd::AsRawFd;
use std::path::Path;

use rustix::fs::{self, AtFlags, Mode, OFlags};
use rustix::io::Errno;

use super::{NodeError, directory, file};

/// Returns the bytes of a file that only this user can have written, if it has at most `most`.
pub(crate) fn read(folder: &Path, name: &str, most: u64) -> Option<Vec<u8>> {
    let folder = directory::open(folder).ok()?;
    // A pipe of another user is refused, not waited for.
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
    let kept = fs::openat(&folder, name, flags, Mode::empty()).ok()?;
    let status = fs::fstat(&kept).ok()?;
    let bytes = u64::try_from(status.st_size).ok()?;
    if file::objection(&status).is_some() || bytes > most {
        return None;
    }
    let mut text = vec![0; usize::try_from(bytes).ok()?];
    file::read_at(&kept, &mut text, 0).ok()?.then_some(text)
}

/// Creates or replaces a file that only this user can open. Readers see the old bytes or the new
/// ones; a process that is killed leaves nothing else.
pub(crate) fn replace(folder: &Path, name: &str, bytes: &[u8]) -> Result<(), NodeError> {
    let path = folder.join(name);
    let system = |call| {
        let object = path.display().to_string();
        move |error: std::io::Error| NodeError::system(call, object, error)
    };
    let folder = directory::open(folder)?;
    let flags = OFlags::TMPFILE | OFlags::WRONLY | OFlags::CLOEXEC;
    let made = fs::openat(&folder, ".", flags, Mode::RUSR | Mode::WUSR)
        .map_err(|error| system("open")(error.into()))?;
    file::reserve(&made, 0, bytes.len() as u64).map_err(system("fallocate"))?;
    file::write_at(&made, bytes, 0).map_err(system("write"))?;
    let unnamed = format!("/proc/self/fd/{}", made.as_raw_fd());
    match fs::unlinkat(&folder, name, AtFlags::empty()) {
        Ok(()) | Err(Errno::NOENT) => {}
        Err(error) => return Err(system("unlink")(error.into())),
    }
    // Another process may have named its own file meanwhile.
    match fs::linkat(fs::CWD, unnamed, &folder, name, AtFlags::SYMLINK_FOLLOW) {
        Ok(()) | Err(Errno::EXIST) => Ok(()),
        Err(error) => Err(system("link")(error.into())),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    #[test]
    fn kept_file_is_private_and_replaced_as_a_whole() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(read(folder.path(), "kept", 100), None);
        for bytes in [&b"first"[..], b"the second"] {
            replace(folder.path(), "kept", bytes).unwrap();
            assert_eq!(read(folder.path(), "kept", 100).as_deref(), Some(bytes));
        }
        let mode = std::fs::metadata(folder.path().join("kept")).unwrap().permissions().mode();
        assert_eq!(mode & 0o7777, 0o600);
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
        assert_eq!(read(folder.path(), "kept", 9), None);
    }

    #[test]
    fn file_that_others_could_have_written_is_not_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("kept");
        replace(folder.path(), "kept", b"text").unwrap();
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o620)).unwrap();
        assert_eq!(read(folder.path(), "kept", 100), None);
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o600)).unwrap();
        std::fs::rename(&path, folder.path().join("other")).unwrap();
        symlink("other", &path).unwrap();
        assert_eq!(read(folder.path(), "kept", 100), None);
        std::fs::remove_file(&path).unwrap();
        fs::mkfifoat(fs::CWD, &path, Mode::RUSR | Mode::WUSR).unwrap();
        assert_eq!(read(folder.path(), "kept", 100), None);
    }
}
