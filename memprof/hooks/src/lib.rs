//! Lookup of the function table of a process's memory profiler, which `memprof.h` describes.
//!
//! The profiler exports `memprof_hooks` and is loaded or linked before the program runs, or not at
//! all: it is looked up once, and without it a lookup costs one load and one branch. Nothing here
//! prints, fails or allocates.
//!
//! ```
//! use memprof_hooks::{Lookup, Table};
//!
//! /// As much of the table as is used.
//! #[repr(C)]
//! struct Head {
//!     version: u32,
//!     size: u32,
//! }
//!
//! // SAFETY: what the table begins with.
//! unsafe impl Table for Head {}
//!
//! static PROFILER: Lookup<Head> = Lookup::new();
//! assert!(PROFILER.find().is_none_or(|head| head.version == 1));
//! ```
#![deny(missing_docs)]
#![allow(unsafe_code)]

mod lent;
mod region;

use std::marker::PhantomData;
use std::sync::atomic::{AtomicUsize, Ordering};

pub use lent::Lent;
pub use region::{Origin, Region};

/// Requested version of the table.
pub const VERSION: u32 = 1;

/// Beginning of a table of [`VERSION`].
///
/// # Safety
///
/// The layout is the beginning of that in `memprof.h`, and contains at least the fields `version`
/// and `size`.
pub unsafe trait Table: Sync + 'static {}

/// Not looked up yet.
const UNKNOWN: usize = 0;
/// There is no profiler. No table has this address.
const ABSENT: usize = 1;

/// A table that is looked up once.
#[derive(Debug)]
pub struct Lookup<T: 'static> {
    place: AtomicUsize,
    table: PhantomData<&'static T>,
}

impl<T: Table> Lookup<T> {
    /// Creates a lookup that has not been done yet.
    #[must_use]
    pub const fn new() -> Lookup<T> {
        Lookup { place: AtomicUsize::new(UNKNOWN), table: PhantomData }
    }

    /// Returns the table of the profiler in this process; `None` if there is no profiler, or its
    /// table lacks the required part. Callable from any thread after the program's libraries are
    /// loaded.
    #[inline]
    #[must_use]
    pub fn find(&self) -> Option<&'static T> {
        let place = match self.place.load(Ordering::Acquire) {
            ABSENT => return None,
            UNKNOWN => self.find_table(),
            place => place,
        };
        // SAFETY: `find_table` found a table at this address, which is never freed.
        (place != ABSENT).then(|| unsafe { &*(place as *const T) })
    }

    #[cold]
    fn find_table(&self) -> usize {
        // SAFETY: the name is zero-terminated; the lookup has no other effect.
        let loaded =
            || unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"memprof_hooks".as_ptr()) } as usize;
        let used = size_of::<T>();
        let place = table(linked::find(), used).or_else(|| table(loaded(), used)).unwrap_or(ABSENT);
        self.place.store(place, Ordering::Release);
        place
    }
}

impl<T: Table> Default for Lookup<T> {
    fn default() -> Lookup<T> {
        Lookup::new()
    }
}

/// Access to the profiler that is linked into a static program, where no name can be looked up,
/// otherwise to the loaded one. 0 if there is none, or if the linker resolved the weak reference
/// before it saw the profiler.
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
mod linked {
    // Rust has no weak references. Several libraries may contain this in one program.
    std::arch::global_asm!(
        ".weak memprof_hooks",
        ".pushsection .data.rel.ro.memprof_hooks_linked, \"aw\"",
        ".balign 8",
        ".weak memprof_hooks_linked",
        ".hidden memprof_hooks_linked",
        "memprof_hooks_linked: .quad memprof_hooks",
        ".popsection",
    );

    unsafe extern "C" {
        #[link_name = "memprof_hooks_linked"]
        static HOOKS: usize;
    }

    pub fn find() -> usize {
        // SAFETY: the word above, which is not written once the process runs.
        unsafe { HOOKS }
    }
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
mod linked {
    pub fn find() -> usize {
        0
    }
}

/// The beginning of every table.
#[repr(C)]
struct Head {
    version: u32,
    size: u32,
}

/// Returns the table from the function that exports tables; nothing if there is none, or it gives none that is large
/// enough.
fn table(function: usize, used: usize) -> Option<usize> {
    type Give = unsafe extern "C" fn(u32) -> *const Head;
    if function == 0 {
        return None;
    }
    // SAFETY: a function exported under this name has this type.
    let give: Give = unsafe { std::mem::transmute(function as *const ()) };
    // SAFETY: the function returns null or a table of the requested version, which is never freed.
    let head = unsafe { give(VERSION).as_ref() }?;
    (head.version == VERSION && head.size as usize >= used)
        .then(|| std::ptr::from_ref(head) as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    // SAFETY: the beginning of every table.
    unsafe impl Table for Head {}

    static SMALL: Head = Head { version: VERSION, size: 16 };
    static LATER: Head = Head { version: VERSION + 1, size: 16 };

    extern "C" fn small(version: u32) -> *const Head {
        assert_eq!(version, VERSION);
        &raw const SMALL
    }

    extern "C" fn later(_: u32) -> *const Head {
        &raw const LATER
    }

    extern "C" fn none(_: u32) -> *const Head {
        std::ptr::null()
    }

    #[test]
    fn a_table_is_used_that_has_all_of_the_version() {
        assert_eq!(table(small as *const () as usize, 16), Some(&raw const SMALL as usize));
        assert_eq!(table(small as *const () as usize, 17), None);
        assert_eq!(table(later as *const () as usize, 16), None);
        assert_eq!(table(none as *const () as usize, 16), None);
        assert_eq!(table(0, 16), None);
    }

    #[test]
    fn without_a_profiler_there_is_none() {
        static HERE: Lookup<Head> = Lookup::new();
        assert!(HERE.find().is_none() && HERE.find().is_none());
    }
}
