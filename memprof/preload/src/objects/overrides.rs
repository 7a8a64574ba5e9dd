//! What a site says about objects: lines `PATTERN CLASS[:NAME]` that come before what is worked out.

#![allow(unsafe_code)]

use core::ffi::CStr;
use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicUsize, Ordering};

use crate::component::Class;
use crate::kernel;

/// How a line says it.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Override<'a> {
    pub class: Class,
    pub name: Option<&'a str>,
}

/// What a line that is not understood gets wrong.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// There is a pattern and nothing after it, or more than two words.
    Words,
    /// No class has this name, or objects cannot be of it.
    Class,
}

impl Fault {
    pub const fn text(self) -> &'static str {
        match self {
            Fault::Words => "a line is PATTERN CLASS[:NAME]",
            Fault::Class => "no such class for objects",
        }
    }
}

/// Larger files are read to here.
const SIZE_LIMIT: usize = 1 << 20;

static TEXT: AtomicPtr<u8> = AtomicPtr::new(core::ptr::null_mut());
static LENGTH: AtomicUsize = AtomicUsize::new(UNREAD);

const UNREAD: usize = usize::MAX;

/// The file could not be read.
static FAILED: AtomicBool = AtomicBool::new(false);

/// The file that `MEMPROF_COMPONENTS` names, up to where it stops being text; read the first time.
pub fn text() -> Option<&'static str> {
    let bytes = bytes()?;
    match core::str::from_utf8(bytes) {
        Ok(text) => Some(text),
        Err(error) => core::str::from_utf8(&bytes[..error.valid_up_to()]).ok(),
    }
}

/// What is wrong with the file as a whole.
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
        // SAFETY: the environment is read as the C library does; the tool never changes it.
        let path = unsafe { libc::getenv(c"MEMPROF_COMPONENTS".as_ptr()) };
        // SAFETY: texts of the environment end with a mark.
        let path = (!path.is_null()).then(|| unsafe { CStr::from_ptr(path) });
        // Another than an absolute one is refused as a setting.
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
    // SAFETY: memory of this length that is never unmapped nor written again.
    Some(unsafe { core::slice::from_raw_parts(TEXT.load(Ordering::Acquire), length) })
}

/// A copy of the file in memory of our own; nothing of an empty one.
fn map(path: &CStr) -> Option<(*mut u8, usize)> {
    let file =
        kernel::open_with(path, libc::O_RDONLY | libc::O_NONBLOCK | libc::O_CLOEXEC, 0).ok()?;
    let result = copy(file);
    kernel::close(file);
    result
}

fn copy(file: kernel::File) -> Option<(*mut u8, usize)> {
    let address = kernel::map_anonymous(SIZE_LIMIT).ok()?;
    // SAFETY: mapped just now, of this size, and never unmapped.
    let memory = unsafe { core::slice::from_raw_parts_mut(address as *mut u8, SIZE_LIMIT) };
    let length = kernel::read_all(file, memory).ok()?;
    Some((address as *mut u8, length))
}

/// Calls `each` with the number of every line that is not understood, and why.
pub fn each_fault(text: &str, mut each: impl FnMut(usize, Fault)) {
    for (index, text) in text.lines().enumerate() {
        if let Err(fault) = line(text) {
            each(index + 1, fault);
        }
    }
}

/// What a line says: nothing, or a pattern and what its objects are.
pub fn line(line: &str) -> Result<Option<(&str, Override<'_>)>, Fault> {
    let line = line.split('#').next().unwrap_or_default();
    let mut words = line.split_whitespace();
    let Some(pattern) = words.next() else {
        return Ok(None);
    };
    let (Some(what), None) = (words.next(), words.next()) else {
        return Err(Fault::Words);
    };
    let (class, name) = what
        .split_once(':')
        .map_or((what, None), |(class, name)| (class, Some(name).filter(|name| !name.is_empty())));
    let class = Class::from_name(class)
        .filter(|class| {
            matches!(
                class,
                Class::AppExecutable
                    | Class::AppLibrary
                    | Class::MpiCore
                    | Class::MpiDependency
                    | Class::Runtime
                    | Class::OpenMp
                    | Class::System
                    | Class::Tool
            )
        })
        .ok_or(Fault::Class)?;
    Ok(Some((pattern, Override { class, name })))
}

/// What the first line that fits says of an object.
pub fn find<'a>(text: &'a str, path: &str) -> Option<Override<'a>> {
    let file = path.rsplit('/').next().unwrap_or(path);
    text.lines().filter_map(|text| line(text).ok().flatten()).find_map(|(pattern, what)| {
        let subject = if pattern.contains('/') { path } else { file };
        fits(pattern.as_bytes(), subject.as_bytes()).then_some(what)
    })
}

/// `*` is any text, `?` one character (byte).
fn fits(pattern: &[u8], text: &[u8]) -> bool {
    let (mut at, mut position) = (0, 0);
    let mut star: Option<(usize, usize)> = None;
    while position < text.len() {
        if pattern.get(at) == Some(&b'*') {
            star = Some((at, position));
            at += 1;
        } else if pattern.get(at).is_some_and(|&byte| byte == b'?' || byte == text[position]) {
            at += 1;
            position += 1;
        } else if let Some((star_at, from)) = star {
            star = Some((star_at, from + 1));
            at = star_at + 1;
            position = from + 1;
        } else {
            return false;
        }
    }
    pattern[at..].iter().all(|&byte| byte == b'*')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_understood_or_refused() {
        assert_eq!(line("  # only words"), Ok(None));
        assert_eq!(line(""), Ok(None));
        assert_eq!(
            line("libhdf5*.so* app.lib:hdf5 # ours"),
            Ok(Some(("libhdf5*.so*", Override { class: Class::AppLibrary, name: Some("hdf5") })))
        );
        assert_eq!(
            line("a system"),
            Ok(Some(("a", Override { class: Class::System, name: None })))
        );
        assert_eq!(line("a"), Err(Fault::Words));
        assert_eq!(line("a b c"), Err(Fault::Words));
        assert_eq!(line("a mpi"), Err(Fault::Class));
        assert_eq!(line("a kernel"), Err(Fault::Class));
    }

    #[test]
    fn the_first_line_that_fits_wins() {
        let text = "nonsense\n/opt/*/libx.so runtime\nlib?.so app.lib:letters\n*.so system\n";
        let class = |path| find(text, path).map(|found| (found.class, found.name));
        assert_eq!(class("/opt/deep/er/libx.so"), Some((Class::Runtime, None)));
        assert_eq!(class("/usr/lib/libx.so"), Some((Class::AppLibrary, Some("letters"))));
        assert_eq!(class("/usr/lib/libxy.so"), Some((Class::System, None)));
        assert_eq!(class("/usr/lib/libxy.so.1"), None);
    }

    #[test]
    fn stars_meet_every_length() {
        for (pattern, text, expected) in [
            ("*", "", true),
            ("", "", true),
            ("a*b*c", "aXbYbZc", true),
            ("a*b*c", "aXbYbZ", false),
            ("**a", "bba", true),
            ("?", "", false),
        ] {
            assert_eq!(fits(pattern.as_bytes(), text.as_bytes()), expected, "{pattern} {text}");
        }
    }
}
