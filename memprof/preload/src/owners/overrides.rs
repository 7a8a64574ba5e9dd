//! Reads the file that assigns objects to components; `memprof_trace::overrides` defines its
//! grammar.

#![allow(unsafe_code)]

use core::ffi::CStr;
use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicUsize, Ordering};

pub use memprof_trace::overrides::{each_fault, find};

use crate::base::kernel;

/// Larger files are read up to this size.
const SIZE_LIMIT: usize = 1 << 20;

static TEXT: AtomicPtr<u8> = AtomicPtr::new(core::ptr::null_mut());
static LENGTH: AtomicUsize = AtomicUsize::new(UNREAD);

const UNREAD: usize = usize::MAX;

/// True if the file could not be read.
static FAILED: AtomicBool = AtomicBool::new(false);

/// Returns the file that `MEMPROF_COMPONENTS` names, up to the first byte that is not text. The
/// first call reads the file.
pub fn text() -> Option<&'static str> {
    let bytes = bytes()?;
    match core::str::from_utf8(bytes) {
        Ok(text) => Some(text),
        Err(error) => core::str::from_utf8(&bytes[..error.valid_up_to()]).ok(),
    }
}

/// Returns the fault of the file as a whole, if there is one.
pub fn trouble() -> Option<&'static str> {
    let bytes = bytes();
    if FAILED.load(Ordering::Acquire) {
        return Some("the file cannot be read");
    }
    let bytes = bytes?;
    if core::str::from_utf8(bytes).is_err() {
        Some("the file is not text to its end")
    } else if bytes.len() == SIZE_LIMIT {
        Some("the file is used up to its first MiB")
    } else {
        None
    }
}

fn bytes() -> Option<&'static [u8]> {
    if LENGTH.load(Ordering::Acquire) == UNREAD {
        // SAFETY: the environment is read as the C library reads it; the tool never changes it.
        let path = unsafe { libc::getenv(c"MEMPROF_COMPONENTS".as_ptr()) };
        // SAFETY: texts of the environment are zero-terminated.
        let path = (!path.is_null()).then(|| unsafe { CStr::from_ptr(path) });
        // A path that is not absolute is refused as a setting.
        let path = path.filter(|path| path.to_bytes().first() == Some(&b'/'));
        let text = path.and_then(map);
        FAILED.store(path.is_some() && text.is_none(), Ordering::Release);
        if let Some((start, _)) = text {
            TEXT.store(start, Ordering::Release);
        }
        LENGTH.store(text.map_or(0, |(_, length)| length), Ordering::Release);
    }
    let length = LENGTH.load(Ordering::Acquire);
    if length == 0 {
        return None;
    }
    // SAFETY: memory of this length that is never unmapped or written again.
    Some(unsafe { core::slice::from_raw_parts(TEXT.load(Ordering::Acquire), length) })
}

/// Copies the file into memory of the tool. Returns `None` for an empty one.
fn map(path: &CStr) -> Option<(*mut u8, usize)> {
    let file =
        kernel::open_with(path, libc::O_RDONLY | libc::O_NONBLOCK | libc::O_CLOEXEC, 0).ok()?;
    let result = copy(file);
    kernel::close(file);
    result
}

fn copy(file: kernel::File) -> Option<(*mut u8, usize)> {
    let address = kernel::map_anonymous(SIZE_LIMIT).ok()?;
    // SAFETY: just mapped, of this size, and never unmapped.
    let memory = unsafe { core::slice::from_raw_parts_mut(address as *mut u8, SIZE_LIMIT) };
    let length = kernel::read_all(file, memory).ok()?;
    Some((address as *mut u8, length))
}
