//! Pushed bindings and phases as regions of a memory profile.
//!
//! The memory profiler, where it is loaded into the process, exports `memprof_hooks`: a table of functions
//! that `memprof.h` describes. It is looked up once; without it a region costs one load and one branch.
#![allow(unsafe_code)]

use std::ffi::c_char;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The version of the table that we know, and how much of it we use.
const VERSION: u32 = 1;
const USED: usize = size_of::<Hooks>();

/// What the profiler calls our regions.
const OF_QUO: u32 = 1;

/// The beginning of the table.
#[repr(C)]
struct Hooks {
    version: u32,
    size: u32,
    begin: unsafe extern "C" fn(*const c_char, usize, u32) -> u32,
    end: unsafe extern "C" fn(u32),
}

/// Nobody has looked yet.
const UNKNOWN: usize = 0;
/// There is no profiler. No table is at this address.
const ABSENT: usize = 1;

/// Where the table is. A profiler is loaded before the program or not at all.
static PLACE: AtomicUsize = AtomicUsize::new(UNKNOWN);

/// A region from its making to its drop; nothing without a profiler.
#[derive(Debug)]
#[must_use = "the region ends as soon as it is dropped"]
pub(crate) struct Region {
    /// 0: not recorded.
    id: u32,
}

/// Whether regions are recorded in this process.
#[inline]
pub(crate) fn recorded() -> bool {
    find().is_some()
}

impl Region {
    pub(crate) const NONE: Region = Region { id: 0 };

    #[inline]
    pub(crate) fn begin(name: &str) -> Region {
        let Some(hooks) = find() else { return Region::NONE };
        // SAFETY: the profiler reads so many bytes and keeps none of them.
        let id = unsafe { (hooks.begin)(name.as_ptr().cast(), name.len(), OF_QUO) };
        Region { id }
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        if self.id != 0
            && let Some(hooks) = find()
        {
            // SAFETY: any number is understood.
            unsafe { (hooks.end)(self.id) }
        }
    }
}

#[inline]
fn find() -> Option<&'static Hooks> {
    let place = match PLACE.load(Ordering::Acquire) {
        ABSENT => return None,
        UNKNOWN => look(),
        place => place,
    };
    // SAFETY: `look` found a table there, which is never freed.
    (place != ABSENT).then(|| unsafe { &*(place as *const Hooks) })
}

/// The profiler that is linked into a static program, where no name can be looked up; else the one that was loaded
/// before. 0 where there is none, and where the linker has not waited to know.
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
mod linked {
    // Rust has no weak references.
    std::arch::global_asm!(
        ".weak memprof_hooks",
        ".pushsection .data.rel.ro.quo_memprof_hooks, \"aw\"",
        ".balign 8",
        ".weak quo_memprof_hooks",
        ".hidden quo_memprof_hooks",
        "quo_memprof_hooks: .quad memprof_hooks",
        ".popsection",
    );

    unsafe extern "C" {
        #[link_name = "quo_memprof_hooks"]
        static HOOKS: usize;
    }

    pub fn find() -> usize {
        // SAFETY: the word above, which nobody writes once the process runs.
        unsafe { HOOKS }
    }
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
mod linked {
    pub fn find() -> usize {
        0
    }
}

#[cold]
fn look() -> usize {
    // SAFETY: the name ends with a zero; looking a name up has no other effect.
    let loaded = || unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"memprof_hooks".as_ptr()) } as usize;
    let place = table(linked::find()).or_else(|| table(loaded())).unwrap_or(ABSENT);
    PLACE.store(place, Ordering::Release);
    place
}

/// What the function that exports tables gives; nothing if there is none, or it gives none that we know.
fn table(function: usize) -> Option<usize> {
    type Give = unsafe extern "C" fn(u32) -> *const Hooks;
    if function == 0 {
        return None;
    }
    // SAFETY: whoever exports this name promises this type.
    let give: Give = unsafe { std::mem::transmute(function as *const ()) };
    // SAFETY: it gives null or a table of the version asked for, which stays.
    let table = unsafe { give(VERSION) };
    // SAFETY: as above; a table that lacks what we use is not used.
    (!table.is_null() && unsafe { (*table).size } as usize >= USED).then_some(table as usize)
}
