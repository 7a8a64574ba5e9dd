//! Folders that only this user can change, and the files in them.

use std::fs::{self, File};
use std::io::{Error, ErrorKind, Read, Result, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::fs::{
    AtFlags, Dir, FileType, FlockOperation, Mode, OFlags, flock, fstat, mkdirat, openat, renameat,
    unlinkat,
};
use rustix::io::Errno;
use rustix::rand::{GetRandomFlags, getrandom};

use crate::owner::{about, is_trusted, mode, refused, user};

const FOLDER: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW);

/// Permissions of other users on a folder that is still trusted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// None: the folder has mode 0700.
    Private,
    /// Other users may read but not write.
    ReadOnly,
}

impl Access {
    fn objection(self, mode: u32) -> Option<&'static str> {
        match self {
            Self::Private if mode & 0o077 != 0 => Some("is open to others: it needs mode 0700"),
            Self::ReadOnly if mode & 0o022 != 0 => {
                Some("others may write to it: chmod go-w, or name another folder")
            }
            _ => None,
        }
    }
}

/// An open folder of this user. Its files are accessed through the descriptor, wherever its path
/// leads later.
#[derive(Debug)]
pub struct Folder {
    file: OwnedFd,
    path: PathBuf,
}

impl Folder {
    /// Opens a folder, after creating it with mode 0700 and its parents if necessary.
    ///
    /// # Errors
    /// It cannot be created or opened, or is not trusted by [`check`]'s rules.
    pub fn make(path: &Path, access: Access) -> Result<Self> {
        let path = std::path::absolute(path)?;
        if let Some(above) = path.parent() {
            fs::create_dir_all(above)
                .map_err(|error| about("folder", above, &error.to_string(), error.kind()))?;
        }
        match rustix::fs::mkdir(&path, Mode::RWXU) {
            Ok(()) | Err(Errno::EXIST) => Self::open(&path, access),
            Err(error) => Err(system("folder", &path, error)),
        }
    }

    /// Opens an existing folder.
    ///
    /// # Errors
    /// It does not exist, or is not trusted by [`check`]'s rules.
    pub fn open(path: &Path, access: Access) -> Result<Self> {
        Self::open_of(path, access, user())
    }

    fn open_of(path: &Path, access: Access, user: u32) -> Result<Self> {
        let mut path = std::path::absolute(path)?;
        if access == Access::ReadOnly
            && let Ok(found) = fs::symlink_metadata(&path)
            && found.is_symlink()
        {
            if !is_trusted(found.uid()) {
                return refused("folder", &path, "is a link of another user");
            }
            path = path
                .canonicalize()
                .map_err(|error| about("folder", &path, &error.to_string(), error.kind()))?;
        }
        let (above, name) = match (path.parent(), path.file_name()) {
            (Some(above), Some(name)) => (above, name),
            _ => (path.as_path(), std::ffi::OsStr::new(".")),
        };
        // Links in the path are the choice of the caller; the last component must not be a link.
        let above = above
            .canonicalize()
            .map_err(|error| about("folder", above, &error.to_string(), error.kind()))?;
        fixed(&above)?;
        let path = above.join(name);
        let flags = FOLDER | OFlags::CLOEXEC;
        let file = openat(rustix::fs::CWD, &path, flags, Mode::empty());
        Self::judged(file, path, access, user)
    }

    /// Opens a folder in this one, after creating it if necessary.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn folder(&self, name: &str) -> Result<Self> {
        let path = self.path.join(name);
        match mkdirat(&self.file, name, Mode::RWXU) {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(error) => return Err(system("folder", &path, error)),
        }
        self.existing_folder(name)
    }

    /// Opens an existing folder in this one.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn existing_folder(&self, name: &str) -> Result<Self> {
        let file = openat(&self.file, name, FOLDER | OFlags::CLOEXEC, Mode::empty());
        Self::judged(file, self.path.join(name), Access::ReadOnly, user())
    }

    fn judged(
        file: std::result::Result<OwnedFd, Errno>,
        path: PathBuf,
        access: Access,
        user: u32,
    ) -> Result<Self> {
        let file = match file {
            Ok(file) => file,
            Err(Errno::NOTDIR | Errno::LOOP) => return refused("folder", &path, "is no folder"),
            Err(error) => return Err(system("folder", &path, error)),
        };
        let found = fstat(&file)?;
        if found.st_uid != user {
            return refused("folder", &path, "belongs to another user");
        }
        match access.objection(mode(&found)) {
            Some(what) => refused("folder", &path, what),
            None => Ok(Self { file, path }),
        }
    }

    /// Returns the path under which the folder was opened, without links.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Reads a file.
    ///
    /// # Errors
    /// It does not exist, it cannot be read, or it is not a file of this user.
    pub fn read(&self, name: &str) -> Result<Vec<u8>> {
        let mut bytes = Vec::new();
        self.file(name, OFlags::RDONLY)?.read_to_end(&mut bytes)?;
        Ok(bytes)
    }

    /// Opens a file for reading and writing, creating it if necessary.
    ///
    /// # Errors
    /// It cannot be opened, or is not a file of this user.
    pub fn update(&self, name: &str) -> Result<File> {
        self.file(name, OFlags::RDWR | OFlags::CREATE)
    }

    /// Opens a file for appending, creating it if necessary.
    ///
    /// # Errors
    /// It cannot be opened, or is not a file of this user.
    pub fn append(&self, name: &str) -> Result<File> {
        self.file(name, OFlags::WRONLY | OFlags::APPEND | OFlags::CREATE)
    }

    /// Creates a file for writing.
    ///
    /// # Errors
    /// The name is taken, even by a link, or the file cannot be created.
    pub fn create(&self, name: &str) -> Result<File> {
        self.file(name, OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL)
    }

    /// Opens an existing file for reading.
    ///
    /// # Errors
    /// It does not exist, it cannot be opened, or it is not a file of this user.
    pub fn open_file(&self, name: &str) -> Result<File> {
        self.file(name, OFlags::RDONLY)
    }

    /// Removes a file.
    ///
    /// # Errors
    /// It does not exist, or cannot be removed.
    pub fn remove(&self, name: &str) -> Result<()> {
        unlinkat(&self.file, name, AtFlags::empty())
            .map_err(|error| system("file", &self.path.join(name), error))
    }

    /// Renames a file. A file that has the new name already is replaced.
    ///
    /// # Errors
    /// It does not exist, or cannot be renamed.
    pub fn rename(&self, name: &str, new: &str) -> Result<()> {
        renameat(&self.file, name, &self.file, new)
            .map_err(|error| system("file", &self.path.join(name), error))
    }

    /// Waits until new, renamed and removed files are so on the storage device, too.
    ///
    /// # Errors
    /// The device has an error.
    pub fn sync(&self) -> Result<()> {
        File::from(self.file.try_clone()?).sync_all()
    }

    /// Returns the names of what is in the folder, except names that are not UTF-8.
    ///
    /// # Errors
    /// The folder cannot be read.
    pub fn names(&self) -> Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in Dir::read_from(&self.file)? {
            names.extend(entry?.file_name().to_str().map(str::to_owned));
        }
        Ok(names)
    }

    /// Locks the folder until the returned value is dropped: for that one alone, or shared with
    /// others that share. Returns `None` if another one has locked it. What is locked is the file
    /// `lock` in the folder, which a lock for one alone creates: network file systems pass locks of
    /// files to all nodes, and locks of folders to none. On a file system without locks nothing is
    /// locked.
    ///
    /// # Errors
    /// The file cannot be created or opened, or is not a file of this user.
    pub fn lock(&self, is_shared: bool) -> Result<Option<Lock>> {
        let (flags, operation) = match is_shared {
            true => (OFlags::RDONLY, FlockOperation::NonBlockingLockShared),
            false => (OFlags::RDWR | OFlags::CREATE, FlockOperation::NonBlockingLockExclusive),
        };
        let file = match self.file(LOCK, flags) {
            Ok(file) => file,
            // No process has locked it alone so far.
            Err(error) if is_shared && error.kind() == ErrorKind::NotFound => {
                return Ok(Some(Lock { file: None }));
            }
            Err(error) => return Err(error),
        };
        let is_busy = flock(&file, operation) == Err(Errno::WOULDBLOCK);
        Ok((!is_busy).then_some(Lock { file: Some(file) }))
    }

    /// Replaces the content of a file, as a whole or not at all.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn replace(&self, name: &str, content: &[u8]) -> Result<()> {
        let (new, mut file) = create_beside(&self.file, &self.path, name, Mode::RUSR | Mode::WUSR)?;
        let written = file
            .write_all(content)
            .and_then(|()| renameat(&self.file, &new, &self.file, name).map_err(Error::from));
        written.map_err(|error| {
            let _ = unlinkat(&self.file, &new, AtFlags::empty());
            about("file", &self.path.join(name), &error.to_string(), error.kind())
        })
    }

    /// Opens a file without following a link, and checks that it is a regular file of this user
    /// with one name.
    fn file(&self, name: &str, flags: OFlags) -> Result<File> {
        let path = self.path.join(name);
        let flags = flags | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = match openat(&self.file, name, flags, Mode::RUSR | Mode::WUSR) {
            Ok(file) => File::from(file),
            Err(Errno::LOOP) => return refused("file", &path, "is a link"),
            Err(error) => return Err(system("file", &path, error)),
        };
        own(&file, &path).map(|()| file)
    }
}

/// Name of the file that is locked in place of its folder.
const LOCK: &str = "lock";

/// A lock of a folder, until it is dropped.
#[derive(Debug)]
pub struct Lock {
    file: Option<File>,
}

impl Drop for Lock {
    fn drop(&mut self) {
        if let Some(file) = &self.file {
            // A child that another thread is forking has the descriptor for a moment longer.
            let _ = flock(file, FlockOperation::NonBlockingUnlock);
        }
    }
}

/// Checks that an open file is a regular one of this user without a second name.
pub(crate) fn own(file: &File, path: &Path) -> Result<()> {
    let found = fstat(file)?;
    if FileType::from_raw_mode(found.st_mode) != FileType::RegularFile {
        return refused("file", path, "is no plain file");
    }
    if found.st_uid != user() {
        return refused("file", path, "belongs to another user");
    }
    if found.st_nlink > 1 {
        return refused("file", path, "has a second name, which may be somebody else's");
    }
    Ok(())
}

/// Checks that a folder exists, belongs to this user, gives others no more permissions than
/// `access`, and has no parent in which all users can replace it. It must not be a link, except one
/// of this user or the administrator if others may read.
///
/// # Errors
/// It does not exist, or is not trusted: of kind [`ErrorKind::PermissionDenied`].
pub fn check(path: &Path, access: Access) -> Result<()> {
    check_of(path, access, user())
}

/// Like [`check`], for a folder of `user`.
///
/// # Errors
/// As [`check`].
pub fn check_of(path: &Path, access: Access, user: u32) -> Result<()> {
    Folder::open_of(path, access, user).map(drop)
}

/// Checks that not all users can replace the folders of a path, which has no links.
fn fixed(path: &Path) -> Result<()> {
    for above in path.ancestors() {
        let found = fs::symlink_metadata(above)
            .map_err(|error| about("folder", above, &error.to_string(), error.kind()))?;
        if found.mode() & 0o002 != 0 && found.mode() & 0o1000 == 0 {
            let what = "all users may write to it and it has no sticky bit, so they could exchange what is in it";
            return refused("folder", above, what);
        }
    }
    Ok(())
}

/// Creates a file under a new name in the folder of `name`. Returns the new name.
pub(crate) fn create_beside(
    folder: &OwnedFd,
    path: &Path,
    name: &str,
    rights: Mode,
) -> Result<(String, File)> {
    const ATTEMPTS: usize = 8;
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    for _ in 0..ATTEMPTS {
        let mut random = [0; 8];
        getrandom(&mut random[..], GetRandomFlags::empty())?;
        let new = format!(".{:016x}.part", u64::from_ne_bytes(random));
        match openat(folder, &new, flags, rights) {
            Err(Errno::EXIST) => {}
            Err(error) => return Err(system("file", &path.join(name), error)),
            Ok(file) => return Ok((new, File::from(file))),
        }
    }
    Err(about("folder", path, "others take each name for a file in it", ErrorKind::AlreadyExists))
}

pub(crate) fn system(kind: &str, path: &Path, error: Errno) -> Error {
    let error = Error::from(error);
    about(kind, path, &error.to_string(), error.kind())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt, symlink};

    fn said<T>(result: Result<T>) -> String {
        result.err().map(|error| error.to_string()).unwrap_or_default()
    }

    fn rights(path: &Path, mode: u32) {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    }

    #[test]
    fn new_folder_is_private_and_found_again() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("a/b");
        let folder = Folder::make(&path, Access::Private).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o700);
        assert!(folder.path().ends_with("a/b"));
        folder.replace("f", b"one").unwrap();
        folder.replace("f", b"two").unwrap();
        folder.append("f").unwrap().write_all(b"!").unwrap();
        assert_eq!(Folder::open(&path, Access::Private).unwrap().read("f").unwrap(), b"two!");
        assert_eq!(fs::read_dir(&path).unwrap().count(), 1);
        assert_eq!(folder.read("g").unwrap_err().kind(), ErrorKind::NotFound);
        check(&path, Access::Private).unwrap();
    }

    #[test]
    fn folder_that_is_a_link_is_refused() {
        let place = tempfile::tempdir().unwrap();
        fs::create_dir(place.path().join("real")).unwrap();
        symlink("real", place.path().join("link")).unwrap();
        let link = place.path().join("link");
        assert!(said(Folder::make(&link, Access::Private)).ends_with("is no folder"));
        // A link of this user is followed if others may read.
        let followed = Folder::make(&link, Access::ReadOnly).unwrap();
        assert!(followed.path().ends_with("real"));
        let folder = Folder::make(place.path(), Access::ReadOnly).unwrap();
        assert!(said(folder.folder("link")).ends_with("is no folder"));
    }

    #[test]
    fn folder_that_others_may_write_to_is_refused() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("f");
        drop(Folder::make(&path, Access::ReadOnly).unwrap());
        for (mode, private, read_only) in [
            (0o755, false, true),
            (0o775, false, false),
            (0o777, false, false),
            (0o700, true, true),
        ] {
            rights(&path, mode);
            assert_eq!(check(&path, Access::Private).is_ok(), private, "{mode:o}");
            assert_eq!(check(&path, Access::ReadOnly).is_ok(), read_only, "{mode:o}");
        }
    }

    #[test]
    fn folder_above_is_sticky_or_not_for_all() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("f");
        drop(Folder::make(&path, Access::Private).unwrap());
        rights(place.path(), 0o1777);
        check(&path, Access::Private).unwrap();
        rights(place.path(), 0o777);
        assert!(said(check(&path, Access::Private)).contains("no sticky bit"));
        rights(place.path(), 0o775);
        check(&path, Access::Private).unwrap();
    }

    #[test]
    fn files_are_created_once_renamed_listed_and_removed() {
        let place = tempfile::tempdir().unwrap();
        let folder = Folder::make(&place.path().join("f"), Access::Private).unwrap();
        symlink("nowhere", folder.path().join("link")).unwrap();
        assert!(folder.create("link").is_err());
        folder.create("one").unwrap().write_all(b"1").unwrap();
        assert_eq!(folder.create("one").unwrap_err().kind(), ErrorKind::AlreadyExists);
        folder.create("two").unwrap();
        folder.rename("one", "two").unwrap();
        folder.sync().unwrap();
        assert_eq!(folder.read("two").unwrap(), b"1");
        let mut names = folder.names().unwrap();
        names.sort();
        assert_eq!(names, [".", "..", "link", "two"]);
        folder.remove("two").unwrap();
        assert_eq!(folder.open_file("two").unwrap_err().kind(), ErrorKind::NotFound);
        assert!(said(folder.remove("two")).contains("two: No such file"));
    }

    #[test]
    fn locked_folder_is_shared_only_if_all_share() {
        let place = tempfile::tempdir().unwrap();
        let open = || Folder::make(&place.path().join("f"), Access::Private).unwrap();
        let (one, other) = (open(), open());
        let shared = one.lock(true).unwrap().unwrap();
        let alone = other.lock(false).unwrap().unwrap();
        assert!(one.lock(false).unwrap().is_none() && one.lock(true).unwrap().is_none());
        drop((shared, alone));
        let both = [one.lock(true).unwrap().unwrap(), other.lock(true).unwrap().unwrap()];
        assert!(one.lock(false).unwrap().is_none());
        drop(both);
        assert!(one.lock(false).unwrap().is_some());
    }

    #[test]
    fn links_and_second_names_are_not_opened() {
        let place = tempfile::tempdir().unwrap();
        let victim = place.path().join("victim");
        fs::write(&victim, "precious").unwrap();
        let folder = Folder::make(&place.path().join("f"), Access::Private).unwrap();
        symlink(&victim, folder.path().join("link")).unwrap();
        fs::hard_link(&victim, folder.path().join("name")).unwrap();
        fs::create_dir(folder.path().join("folder")).unwrap();
        for (name, what) in [("link", "is a link"), ("name", "second name"), ("folder", "")] {
            for result in [folder.append(name), folder.update(name)] {
                assert!(result.is_err() && said(result).contains(what), "{name}");
            }
            assert!(folder.read(name).is_err(), "{name}");
        }
        // A whole file takes the name, and leaves the previous target of the name unchanged.
        folder.replace("link", b"new").unwrap();
        folder.replace("name", b"new").unwrap();
        assert_eq!(fs::read_to_string(&victim).unwrap(), "precious");
        assert_eq!(folder.read("link").unwrap(), b"new");
    }
}
