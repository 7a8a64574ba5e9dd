//! The file of a trace: its name, whether that name is free, and disk space for all of it.

use core::ffi::CStr;
use core::fmt::Write as _;

use memprof_trace::layout::{self, HEADER_SIZE, SlotHead, StateRow};

use crate::base::kernel::{self, Errno, File};
use crate::base::options::{PATH, Text};
use crate::recording::identity::Process;

/// Path of a file, zero-terminated.
pub type Path = Text<{ PATH + 128 }>;

/// Maximum number of programs that a process can have been, one after another.
const IMAGES: u32 = 100;

/// Returns a path in the form that system calls require.
pub fn c_path(path: &Path) -> &CStr {
    CStr::from_bytes_until_nul(path.as_bytes()).unwrap_or(c"")
}

/// Returns `HOST.PID.START` in the folder. In containers with the same host name, several ranks of
/// a machine may have the same number and start time: there the name is `HOST.PID-NAMESPACE.START`.
fn stem(folder: &[u8], process: &Process) -> Path {
    let mut path = Path::empty();
    path.push(folder);
    path.push(b"/");
    for &byte in process.host.as_bytes() {
        path.push(if byte == b'/' { b"_" } else { core::slice::from_ref(&byte) });
    }
    let _ = write!(path, ".{}", process.pid);
    if process.namespace != 0 {
        let _ = write!(path, "-{}", process.namespace);
    }
    let _ = write!(path, ".{}", process.start_ticks);
    path
}

/// Returns `HOST.PID.START.memprof`, with `-2` and so on for later programs of the same process.
fn name(folder: &[u8], process: &Process, image: u32) -> Path {
    let mut path = stem(folder, process);
    if image > 0 {
        let _ = write!(path, "-{}", image + 1);
    }
    path.push(b".memprof\0");
    path
}

const NEW: i32 = libc::O_RDWR | libc::O_CREAT | libc::O_EXCL | libc::O_NOFOLLOW | libc::O_CLOEXEC;

/// Returns the number of this program among those of the process that leave a trace.
pub fn image(folder: &[u8], process: &Process) -> u32 {
    (0..IMAGES).find(|image| !is_taken(&name(folder, process, *image))).unwrap_or(0)
}

/// How a file is created that gets its final name only when it has contents.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Way {
    /// Without a name: if the process ends before, nothing is left.
    Unnamed,
    /// With a temporary name. Used where the file system has no unnamed files, as network file
    /// systems.
    Renamed,
}

/// A new file that is to become the trace of a program.
#[derive(Debug)]
pub struct New {
    pub file: File,
    /// Final name.
    pub path: Path,
    /// Name until then.
    before: Option<Path>,
}

/// Creates a file for the program with this number, which [`New::publish`] names.
pub fn create(folder: &[u8], process: &Process, image: u32, way: Way) -> Result<New, Errno> {
    if folder.is_empty() {
        return Err(Errno(libc::EINVAL));
    }
    let path = name(folder, process, image);
    if is_taken(&path) {
        return Err(Errno(libc::EEXIST));
    }
    if way == Way::Unnamed {
        let mut place = Path::empty();
        place.push(folder);
        place.push(b"\0");
        let flags = libc::O_TMPFILE | libc::O_RDWR | libc::O_CLOEXEC;
        let file = kernel::open_with(c_path(&place), flags, 0o600)?;
        return Ok(New { file, path, before: None });
    }
    let before = beginning(folder, process, image);
    let file = kernel::open_with(c_path(&before), NEW, 0o600)?;
    Ok(New { file, path, before: Some(before) })
}

/// Returns true if the name is taken. A program that this process was before and that was not a
/// rank does not count.
fn is_taken(path: &Path) -> bool {
    let flags = libc::O_PATH | libc::O_NOFOLLOW | libc::O_CLOEXEC;
    let Ok(file) = kernel::open_with(c_path(path), flags, 0) else { return false };
    kernel::close(file);
    !was_no_rank(path)
}

/// Returns `HOST.PID.START.memprof.new`, which is not mistaken for a trace. A process that is
/// killed in between leaves it.
fn beginning(folder: &[u8], process: &Process, image: u32) -> Path {
    let mut path = stem(folder, process);
    let _ = write!(path, "-{}.memprof.new\0", image + 1);
    path
}

impl New {
    /// Gives the file its name, unless the name is taken.
    pub fn publish(&self) -> Result<(), Errno> {
        match self.link() {
            // An earlier program of the process that was not a rank leaves no trace.
            Err(Errno(libc::EEXIST)) if was_no_rank(&self.path) => {
                kernel::unlink(c_path(&self.path))?;
                self.link()
            }
            result => result,
        }
    }

    fn link(&self) -> Result<(), Errno> {
        let path = c_path(&self.path);
        let Some(before) = &self.before else { return kernel::link_file(self.file, path) };
        match kernel::rename_new(c_path(before), path) {
            // Not every file system supports this.
            Err(Errno(libc::EINVAL | libc::ENOSYS)) => {
                kernel::link(c_path(before), path)?;
                kernel::unlink(c_path(before))
            }
            result => result,
        }
    }

    /// Removes the file if there will be no trace.
    pub fn discard(self) {
        if let Some(before) = &self.before {
            let _ = kernel::unlink(c_path(before));
        }
        kernel::close(self.file);
    }
}

/// Returns true if an unnamed file cannot be created there, or cannot be named.
pub fn needs_a_name(error: Errno) -> bool {
    !matches!(error.0, libc::ENOSPC | libc::EDQUOT | libc::EEXIST | libc::EROFS | libc::ENOTDIR)
}

/// Records in the folder that this rank has no trace, and why: an empty file
/// `HOST.PID.START.RANK.ERROR.missing`, for which there is usually room even on a full disk.
pub fn leave_word(folder: &[u8], process: &Process, rank: i32, error: Errno) {
    let mut path = stem(folder, process);
    let _ = write!(path, ".{rank}.{}.missing\0", error.0);
    if let Ok(file) = kernel::open_with(c_path(&path), NEW, 0o600) {
        kernel::close(file);
    }
}

/// Records in the folder that children of this process hold memory that is in no trace: an empty
/// file `HOST.PID.START.RANK.children`, one for all of them.
pub fn tell_of_children(folder: &[u8], process: &Process, rank: i32) {
    let mut path = stem(folder, process);
    let _ = write!(path, ".{rank}.children\0");
    let flags = libc::O_WRONLY | libc::O_CREAT | libc::O_NOFOLLOW | libc::O_CLOEXEC;
    if let Ok(file) = kernel::open_with(c_path(&path), flags, 0o600) {
        kernel::close(file);
    }
}

/// Returns true if the file is a trace whose process never called MPI, nor held much memory when
/// another program replaced it. Returns false for a file that must not be read: a link, or a pipe,
/// on which the open could block.
fn was_no_rank(path: &Path) -> bool {
    let flags = libc::O_RDONLY | libc::O_NOFOLLOW | libc::O_NONBLOCK | libc::O_CLOEXEC;
    let Ok(file) = kernel::open_with(c_path(path), flags, 0) else { return false };
    let mut header = [0; HEADER_SIZE];
    let whole = kernel::read_all(file, &mut header) == Ok(HEADER_SIZE);
    let flags = if whole { state_flags(&header, file) } else { None };
    kernel::close(file);
    flags.is_some_and(|flags| flags & (layout::flags::MPI_SEEN | layout::flags::REPLACED) == 0)
}

/// Returns the flags in the newer of the two state slots.
fn state_flags(header: &[u8; HEADER_SIZE], file: File) -> Option<u64> {
    if header[..8] != layout::MAGIC {
        return None;
    }
    let kind = layout::SectionKind::State as u32;
    let section = (0..layout::SECTIONS_LIMIT)
        .filter_map(|index| {
            let at = layout::SECTION_TABLE + index * layout::SectionEntry::SIZE;
            layout::SectionEntry::from_bytes(&header[at..at + layout::SectionEntry::SIZE])
        })
        .find(|section| section.kind == kind)?;
    let mut newest = (0, None);
    for slot in 0..section.slots.min(4) {
        let mut bytes = [0; SlotHead::SIZE + StateRow::SIZE];
        let at = section.offset + u64::from(slot) * u64::from(section.slot_size);
        kernel::read_at(file, &mut bytes, at).ok()?;
        let head = SlotHead::from_bytes(&bytes[..SlotHead::SIZE])?;
        let row = StateRow::from_bytes(&bytes[SlotHead::SIZE..])?;
        if head.sequence > newest.0 {
            newest = (head.sequence, Some(row.flags));
        }
    }
    newest.1
}

/// Reserves disk space for a new file, so that no later store can fail. A file system that copies
/// rewritten blocks (btrfs, bcachefs) is asked not to. If it does so nevertheless (a folder that it
/// compresses, a snapshot), a disk that becomes full later ends the process with SIGBUS.
pub fn allocate(file: File, size: usize) -> Result<(), Errno> {
    kernel::write_in_place(file);
    match kernel::allocate(file, size) {
        // The file system cannot guarantee space, or refuses the call. Written blocks have space,
        // but some file systems (NFS) report only on a sync that they have not.
        Err(Errno(libc::EOPNOTSUPP | libc::ENOSYS | libc::EPERM)) => {
            let zeroes = [0; 4096];
            for at in (0..size).step_by(zeroes.len()) {
                kernel::write_at(file, &zeroes, at as u64)?;
            }
            kernel::sync(file)
        }
        result => result,
    }
}

/// Returns the meaning of an error number for a trace.
pub fn why(error: Errno) -> &'static str {
    match error.0 {
        libc::ENOSPC => "the disk is full",
        libc::EDQUOT => "the quota is used up",
        libc::EFBIG => "files may not be that large here",
        libc::ENOENT => "it is not there",
        libc::ENOTDIR => "it is not a folder",
        libc::EACCES | libc::EPERM => "it may not be written",
        libc::EROFS => "it is read-only",
        libc::ENAMETOOLONG => "its path is too long",
        libc::EEXIST | libc::ELOOP => "something else has the name of the trace",
        libc::EMFILE | libc::ENFILE => "too many files are open",
        libc::ENOMEM => "there is no memory",
        libc::EINVAL => "none is named that can be used",
        _ => "the system refuses",
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;
    use std::os::unix::fs::{PermissionsExt, symlink};
    use std::path::PathBuf;

    use super::*;

    fn process() -> Process {
        Process {
            pid: 7,
            namespace: 0,
            start_ticks: 99,
            boot: [0; 16],
            host: Text::cut(b"a/b.c"),
            program: Text::empty(),
        }
    }

    fn place(folder: &tempfile::TempDir) -> Vec<u8> {
        folder.path().as_os_str().as_bytes().to_vec()
    }

    fn file(path: &Path) -> PathBuf {
        PathBuf::from(OsStr::from_bytes(c_path(path).to_bytes()))
    }

    #[test]
    fn equal_process_numbers_in_two_containers_have_separate_traces() {
        let inside = Process { namespace: 4_026_532_837, ..process() };
        let (one, other) = (name(b"/x", &process(), 0), name(b"/x", &inside, 1));
        assert_eq!(c_path(&one).to_bytes(), b"/x/a_b.c.7.99.memprof");
        assert_eq!(c_path(&other).to_bytes(), b"/x/a_b.c.7-4026532837.99-2.memprof");
    }

    #[test]
    fn a_name_that_something_else_has_is_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let inside = place(&folder);
        let taken = file(&name(&inside, &process(), 0));
        let elsewhere = folder.path().join("elsewhere");
        std::fs::write(&elsewhere, "kept").unwrap();
        symlink(&elsewhere, &taken).unwrap();
        let refused = |way| create(&inside, &process(), 0, way).unwrap_err();
        assert_eq!([Way::Unnamed, Way::Renamed].map(refused), [Errno(libc::EEXIST); 2]);
        assert_eq!(image(&inside, &process()), 1);
        assert_eq!(std::fs::read(&elsewhere).unwrap(), b"kept");
        std::fs::remove_file(&taken).unwrap();
        // Opening a pipe without a writer would block.
        assert!(std::process::Command::new("mkfifo").arg(&taken).status().unwrap().success());
        assert_eq!([Way::Unnamed, Way::Renamed].map(refused), [Errno(libc::EEXIST); 2]);
        let new = create(&inside, &process(), 1, Way::Renamed).unwrap();
        new.publish().unwrap();
        assert!(file(&new.path).ends_with("a_b.c.7.99-2.memprof"));
        kernel::close(new.file);
    }

    /// Returns the names of the files in the folder.
    fn names(folder: &tempfile::TempDir) -> Vec<String> {
        let entries = std::fs::read_dir(folder.path()).unwrap();
        let mut names: Vec<String> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    #[test]
    fn trace_gets_its_name_when_it_has_content() {
        for way in [Way::Unnamed, Way::Renamed] {
            let folder = tempfile::tempdir().unwrap();
            let new = match create(&place(&folder), &process(), 0, way) {
                Err(error) if way == Way::Unnamed && needs_a_name(error) => continue,
                new => new.unwrap(),
            };
            assert!(names(&folder).iter().all(|name| name.ends_with(".new")), "{way:?}");
            kernel::write_at(new.file, b"header", 0).unwrap();
            new.publish().unwrap();
            assert_eq!(names(&folder), ["a_b.c.7.99.memprof"], "{way:?}");
            assert_eq!(std::fs::read(file(&new.path)).unwrap(), b"header");
            let mode = std::fs::metadata(file(&new.path)).unwrap().permissions().mode();
            assert_eq!(mode & 0o777, 0o600);
            kernel::close(new.file);
        }
    }

    #[test]
    fn taken_name_is_left_alone_and_discarded_traces_leave_nothing() {
        for way in [Way::Unnamed, Way::Renamed] {
            let folder = tempfile::tempdir().unwrap();
            let new = match create(&place(&folder), &process(), 0, way) {
                Err(error) if way == Way::Unnamed && needs_a_name(error) => continue,
                new => new.unwrap(),
            };
            std::fs::write(file(&new.path), "another's").unwrap();
            assert_eq!(new.publish(), Err(Errno(libc::EEXIST)));
            new.discard();
            assert_eq!(names(&folder), ["a_b.c.7.99.memprof"], "{way:?}");
            let path = folder.path().join("a_b.c.7.99.memprof");
            assert_eq!(std::fs::read(path).unwrap(), b"another's");
        }
    }

    #[test]
    fn a_word_is_left_where_a_trace_could_not_be() {
        let folder = tempfile::tempdir().unwrap();
        leave_word(&place(&folder), &process(), 3, Errno(libc::ENOSPC));
        assert!(folder.path().join("a_b.c.7.99.3.28.missing").exists());
    }

    #[test]
    fn word_on_children_is_left_once() {
        let folder = tempfile::tempdir().unwrap();
        tell_of_children(&place(&folder), &process(), 3);
        tell_of_children(&place(&folder), &process(), 3);
        assert!(folder.path().join("a_b.c.7.99.3.children").exists());
        assert_eq!(folder.path().read_dir().unwrap().count(), 1);
    }

    #[test]
    fn folder_that_is_none_is_a_named_error() {
        for way in [Way::Unnamed, Way::Renamed] {
            let refused = |folder| why(create(folder, &process(), 0, way).unwrap_err());
            assert_eq!(refused(b""), "none is named that can be used");
            assert_eq!(refused(b"/nowhere/at/all"), "it is not there");
            assert_eq!(refused(b"/proc/version"), "it is not a folder");
        }
    }
}
