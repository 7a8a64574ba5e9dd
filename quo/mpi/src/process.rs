//! Check that the MPI that runs in this process is the one this library was compiled against.
#![allow(unsafe_code)]

use std::collections::BTreeSet;
use std::ffi::{CStr, c_char};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use quo::group::GroupError;

use crate::identity::{Family, Identity};
use crate::{is_finalized, raw};

/// More than the text of any MPI. The size in the header is not sufficient: the call may reach
/// another MPI than the header's.
const VERSION_BYTES: usize = 32 * 1024;

/// Returns the MPI that this library was compiled against. Local.
#[must_use]
pub fn built_for() -> &'static Identity {
    static BUILT_FOR: OnceLock<Identity> = OnceLock::new();
    BUILT_FOR.get_or_init(|| {
        // SAFETY: a constant C string.
        let version = unsafe { CStr::from_ptr(raw::quo_mpi_built_version()) };
        Identity::from_header(raw::quo_mpi_built_family(), &version.to_string_lossy())
    })
}

/// Returns the MPI that this library's calls reach in this process. Local.
#[must_use]
pub fn running() -> &'static Identity {
    static RUNNING: OnceLock<Identity> = OnceLock::new();
    RUNNING.get_or_init(|| Identity::from_library_version(&library_version()))
}

fn library_version() -> String {
    let mut text = vec![0_u8; VERSION_BYTES];
    // SAFETY: the buffer is longer than any MPI's text, see `VERSION_BYTES`; MPI allows this call at
    // any time and from any thread.
    unsafe { raw::quo_mpi_library_version(text.as_mut_ptr().cast::<c_char>()) };
    // The last byte is never written, so the text is terminated in any case.
    text[VERSION_BYTES - 1] = 0;
    CStr::from_bytes_until_nul(&text).map_or_else(|_| String::new(), |t| t.to_string_lossy().into())
}

/// Refuses another MPI than the one this library was compiled against, because its handles and
/// constants have other meanings. Local, checked once per process.
///
/// # Errors
/// [`GroupError::OtherMpi`].
pub fn is_the_right_mpi() -> Result<(), GroupError> {
    static RIGHT: OnceLock<bool> = OnceLock::new();
    let right = || match built_for().family() {
        // An MPI that offers that interface reports it itself.
        Family::Standard => raw::quo_mpi_offers_standard() != 0,
        _ => built_for().goes_with(running()),
    };
    if *RIGHT.get_or_init(right) { Ok(()) } else { Err(other(running().to_string())) }
}

fn other(running: String) -> GroupError {
    GroupError::OtherMpi { built_for: built_for().to_string(), running }
}

/// Checks that MPI is initialised, not finalised, and the right one. Local; to be called before any
/// handle is used.
///
/// # Errors
/// [`GroupError::OtherMpi`], [`GroupError::NotInitialized`] or [`GroupError::Finalized`].
pub fn is_usable() -> Result<(), GroupError> {
    is_running()?;
    is_the_right_mpi()
}

/// Returns the rank of this process in `MPI_COMM_WORLD`. Local, while MPI [is usable](is_usable).
///
/// # Errors
/// As [`is_usable`]; [`GroupError::Mpi`].
pub fn world_rank() -> Result<i32, GroupError> {
    is_usable()?;
    let mut rank = 0;
    // SAFETY: `rank` lives for the duration of the call, and the communicator until MPI ends.
    let code = unsafe { raw::quo_mpi_comm_rank(raw::quo_mpi_comm_world(), &raw mut rank) };
    raw::succeed("MPI_Comm_rank", code).map(|()| rank)
}

/// Registers `call` to be called when `MPI_Finalize` begins; only the first call has an effect.
/// Local. Without effect if MPI [is not usable](is_usable).
pub fn at_finalize(call: extern "C" fn()) {
    static ASKED: AtomicBool = AtomicBool::new(false);
    if is_usable().is_ok() && !ASKED.swap(true, Ordering::Relaxed) {
        // SAFETY: the function stays valid while this library is loaded, which is until the process
        // ends.
        let _ = unsafe { raw::quo_mpi_at_finalize(call) };
    }
}

/// Ends all processes of the job with a status. Returns only if MPI cannot end them. Local, while
/// MPI [is usable](is_usable).
pub fn abort(status: i32) {
    if is_usable().is_ok() {
        // SAFETY: MPI is running.
        unsafe { raw::quo_mpi_abort(status) };
    }
}

/// Checks that MPI is initialised and not finalised. Local.
///
/// # Errors
/// [`GroupError::NotInitialized`] or [`GroupError::Finalized`]; [`GroupError::OtherMpi`] if the
/// process has a second MPI, which may be the one that is running.
pub fn is_running() -> Result<(), GroupError> {
    if raw::quo_mpi_is_initialized() == 0 {
        let second = || Some(other(format!("(also) {}", second_library()?.display())));
        return Err(second().unwrap_or(GroupError::NotInitialized));
    }
    if is_finalized() { Err(GroupError::Finalized) } else { Ok(()) }
}

/// Returns the file of the MPI library that our calls reach.
pub(crate) fn library() -> Option<PathBuf> {
    let mut file = vec![0_u8; 4096];
    // SAFETY: the buffer has the length given.
    unsafe { raw::quo_mpi_library_file(file.as_mut_ptr().cast::<c_char>(), file.len()) };
    let file = CStr::from_bytes_until_nul(&file).ok()?.to_str().ok()?;
    Path::new(file).canonicalize().ok()
}

/// Returns an MPI library in this process other than the one that our calls reach: a program may
/// have loaded its own privately, as interpreters do.
fn second_library() -> Option<PathBuf> {
    let ours = library()?;
    let maps = std::fs::read_to_string("/proc/self/maps").ok()?;
    mpi_libraries(&maps).into_iter().find(|file| *file != ours)
}

/// Returns the MPI libraries among the files of a memory map.
fn mpi_libraries(maps: &str) -> BTreeSet<PathBuf> {
    let files = maps.lines().filter_map(|line| Some(Path::new(&line[line.find('/')?..])));
    let is_mpi = |file: &&Path| {
        let name = file.file_name().unwrap_or_default().to_string_lossy();
        ["libmpi.so", "libmpich.so", "libmpi_abi.so"].iter().any(|start| name.starts_with(start))
    };
    files.filter(is_mpi).map(Path::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_has_the_mpi_that_this_was_compiled_against() {
        assert_ne!(built_for().family(), Family::Other, "{}", built_for());
        assert!(is_the_right_mpi().is_ok(), "{} and {}", built_for(), running());
        assert!(second_library().is_none(), "{:?}", second_library());
        assert_eq!(is_usable(), Err(GroupError::NotInitialized));
    }

    #[test]
    fn mpi_libraries_are_known_by_their_names() {
        let maps = "7f00-7f01 r--p 00000000 08:01 12  /usr/lib/libc.so.6\n\
            7f01-7f02 r-xp 00000000 08:01 13       /opt/a b/lib/libmpi.so.12.0.0\n\
            7f02-7f03 rw-p 00001000 08:01 13       /opt/a b/lib/libmpi.so.12.0.0\n\
            7f03-7f04 rw-p 00000000 00:00 0\n\
            7f04-7f05 r-xp 00000000 08:01 14       /usr/lib/libmpi_mpifh.so.40\n\
            7f05-7f06 r-xp 00000000 08:01 15       /usr/lib/libmpich.so.12.2.2\n";
        let found: Vec<PathBuf> = mpi_libraries(maps).into_iter().collect();
        assert_eq!(
            found,
            ["/opt/a b/lib/libmpi.so.12.0.0", "/usr/lib/libmpich.so.12.2.2"].map(PathBuf::from)
        );
    }
}
