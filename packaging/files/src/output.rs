//! Files that a user names for output: written as a whole under a new name, or appended to.

use std::fs::{self, File, OpenOptions};
use std::io::{BufWriter, ErrorKind, Result, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, Mode, OFlags, openat, readlinkat, renameat, unlinkat};
use rustix::io::Errno;

use crate::folder::{create_beside, own, system};
use crate::owner::{about, is_trusted, refused};

/// A file that exists under its name once it is [finished](Output::finish). A name of something
/// other than a regular file, such as `/dev/null` or a pipe, is written to and stays.
#[derive(Debug)]
pub struct Output {
    out: BufWriter<File>,
    part: Option<Part>,
}

/// A file under a temporary name.
#[derive(Debug)]
struct Part {
    folder: OwnedFd,
    new: String,
    name: std::ffi::OsString,
    path: PathBuf,
}

impl Drop for Part {
    fn drop(&mut self) {
        // Does not exist any more after the rename.
        let _ = unlinkat(&self.folder, &self.new, AtFlags::empty());
    }
}

impl Output {
    /// Starts a file.
    ///
    /// # Errors
    /// It is a folder, its folder cannot be written to, or its name is a link or a pipe of another user.
    pub fn create(path: &Path) -> Result<Self> {
        const SIZE: usize = 1 << 16;
        let Some(name) = path.file_name() else {
            return Err(about("file", path, "names no file", ErrorKind::InvalidInput));
        };
        if let Some(file) = special(path)? {
            return Ok(Self { out: BufWriter::with_capacity(SIZE, file), part: None });
        }
        let above = match path.parent() {
            Some(above) if above.as_os_str().is_empty() => Path::new("."),
            Some(above) => above,
            None => Path::new("/"),
        };
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let folder = openat(rustix::fs::CWD, above, flags, Mode::empty())
            .map_err(|error| system("folder", above, error))?;
        // The usual mode of new files; the umask removes permissions.
        let rights = Mode::from_raw_mode(0o666);
        let (new, file) = create_beside(&folder, above, &name.to_string_lossy(), rights)?;
        let part = Part { folder, new, name: name.to_owned(), path: path.to_owned() };
        Ok(Self { out: BufWriter::with_capacity(SIZE, file), part: Some(part) })
    }

    /// Renames the file to its name. Returns its length in bytes, 0 for other than regular files.
    ///
    /// # Errors
    /// It cannot be written; its name is then unchanged.
    pub fn finish(mut self) -> Result<u64> {
        self.out.flush()?;
        let Some(part) = self.part.take() else { return Ok(0) };
        let bytes = self.out.get_ref().metadata()?.len();
        renameat(&part.folder, &part.new, &part.folder, &part.name)
            .map_err(|error| system("file", &part.path, error))?;
        Ok(bytes)
    }
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> Result<usize> {
        self.out.write(bytes)
    }

    fn flush(&mut self) -> Result<()> {
        self.out.flush()
    }
}

/// Writes a file with this content. Returns its length in bytes.
///
/// # Errors
/// As [`Output::create`] and [`Output::finish`].
pub fn write(path: &Path, content: &[u8]) -> Result<u64> {
    let mut output = Output::create(path)?;
    output.write_all(content)?;
    output.finish()
}

/// Opens a file for appending, created with mode 0600 if necessary. Other than regular files are
/// written to.
///
/// # Errors
/// It cannot be opened, it is a file of another user or has a second name, or its name is a link or
/// a pipe of another user.
pub fn append(path: &Path) -> Result<File> {
    if let Some(file) = special(path)? {
        return Ok(file);
    }
    let open = |path: &Path| {
        let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed();
        OpenOptions::new().append(true).create(true).mode(0o600).custom_flags(flags).open(path)
    };
    let file = match open(path) {
        // A trusted link may lead to a file.
        Err(error) if error.raw_os_error() == Some(Errno::LOOP.raw_os_error()) => {
            open(&link(path)?.unwrap_or_else(|| path.to_owned()))
        }
        file => file,
    };
    let file = file.map_err(|error| about("file", path, &error.to_string(), error.kind()))?;
    own(&file, path).map(|()| file)
}

/// Opens a file that is not a regular one. `None` for a regular file, and if it does not exist.
fn special(path: &Path) -> Result<Option<File>> {
    let place = link(path)?.unwrap_or_else(|| path.to_owned());
    match fs::metadata(&place) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(about("file", path, &error.to_string(), error.kind())),
        Ok(found) if found.is_file() => return Ok(None),
        Ok(found) if found.is_dir() => {
            return Err(about("file", path, "is a folder", ErrorKind::IsADirectory));
        }
        Ok(_) => {}
    }
    let file = OpenOptions::new().write(true).open(&place);
    let file = file.map_err(|error| about("file", path, &error.to_string(), error.kind()))?;
    let found = file.metadata()?;
    if found.file_type().is_fifo() && !is_trusted(found.uid()) && !is_descriptor(&place) {
        return refused("file", path, "is a pipe of another user");
    }
    Ok(Some(file))
}

/// Returns true if a path names a descriptor of this process, which its parent chose.
fn is_descriptor(path: &Path) -> bool {
    path.starts_with("/proc/self/fd") || path.starts_with("/dev/fd")
}

/// Returns the target of a link, `None` for a name that is not a link. Only links of this user and
/// of the administrator are followed: others could point anywhere.
fn link(path: &Path) -> Result<Option<PathBuf>> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let file = match openat(rustix::fs::CWD, path, flags, Mode::empty()) {
        Err(Errno::NOENT) => return Ok(None),
        file => file.map_err(|error| system("file", path, error))?,
    };
    let found = File::from(file.try_clone()?).metadata()?;
    if !found.file_type().is_symlink() {
        return Ok(None);
    }
    if !is_trusted(found.uid()) {
        return refused("file", path, "is a link of another user");
    }
    let target = readlinkat(file.as_fd(), "", Vec::new())?;
    let target = PathBuf::from(std::ffi::OsString::from(
        String::from_utf8_lossy(target.as_bytes()).into_owned(),
    ));
    Ok(Some(path.parent().unwrap_or(Path::new("")).join(target)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn file_is_replaced_whole_and_kept_if_abandoned() {
        let place = tempfile::tempdir().unwrap();
        let file = place.path().join("file");
        assert_eq!(write(&file, b"first").unwrap(), 5);
        let mut half = Output::create(&file).unwrap();
        half.write_all(b"half").unwrap();
        drop(half);
        assert_eq!(fs::read(&file).unwrap(), b"first");
        write(&file, b"second").unwrap();
        assert_eq!(fs::read(&file).unwrap(), b"second");
        assert_eq!(fs::read_dir(place.path()).unwrap().count(), 1);
    }

    #[test]
    fn own_link_is_replaced_by_outputs_and_followed_by_appends() {
        let place = tempfile::tempdir().unwrap();
        let (real, link) = (place.path().join("real"), place.path().join("link"));
        fs::write(&real, "precious").unwrap();
        symlink("real", &link).unwrap();
        append(&link).unwrap().write_all(b"!").unwrap();
        assert_eq!(fs::read_to_string(&real).unwrap(), "precious!");
        write(&link, b"new").unwrap();
        assert_eq!(fs::read_to_string(&real).unwrap(), "precious!");
        assert_eq!(fs::read_to_string(&link).unwrap(), "new");
    }

    #[test]
    fn devices_and_standard_output_are_written_to() {
        assert_eq!(write(Path::new("/dev/null"), b"gone").unwrap(), 0);
        append(Path::new("/dev/null")).unwrap().write_all(b"gone").unwrap();
        assert!(write(Path::new("/dev/full"), &[0; 1 << 17]).is_err());
        assert!(write(Path::new("/"), b"").unwrap_err().to_string().contains("names no file"));
    }

    #[test]
    fn file_with_a_second_name_is_not_appended_to() {
        let place = tempfile::tempdir().unwrap();
        let (one, two) = (place.path().join("one"), place.path().join("two"));
        fs::write(&one, "precious").unwrap();
        fs::hard_link(&one, &two).unwrap();
        assert!(append(&two).unwrap_err().to_string().contains("second name"));
        write(&two, b"new").unwrap();
        assert_eq!(fs::read_to_string(&one).unwrap(), "precious");
    }
}
