//! Elements of programs as regions of a memory profile. Without a profiler a region costs one load and one branch.
#![allow(unsafe_code)]

use std::ffi::c_char;

use memprof_hooks::{Lookup, Table};

/// The profiler's number of regions of the program, as those made through `memprof.h` have it.
const OF_PROGRAM: u32 = 0;

/// Beginning of the table of functions that `memprof.h` describes.
#[repr(C)]
struct Hooks {
    version: u32,
    size: u32,
    begin: unsafe extern "C" fn(*const c_char, usize, u32) -> u32,
    end: unsafe extern "C" fn(u32),
}

// SAFETY: the beginning of the table.
unsafe impl Table for Hooks {}

static PROFILER: Lookup<Hooks> = Lookup::new();

/// A region from its beginning to its drop; nothing without a profiler.
#[derive(Debug)]
#[must_use = "the region ends as soon as it is dropped"]
pub(super) struct Region {
    /// 0: not recorded.
    id: u32,
}

impl Region {
    /// No region.
    pub(super) const NONE: Region = Region { id: 0 };

    pub(super) fn begin(name: &str) -> Region {
        let Some(hooks) = PROFILER.find() else { return Region::NONE };
        // SAFETY: the profiler reads so many bytes and keeps none of them.
        let id = unsafe { (hooks.begin)(name.as_ptr().cast(), name.len(), OF_PROGRAM) };
        Region { id }
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        if self.id != 0
            && let Some(hooks) = PROFILER.find()
        {
            // SAFETY: any number is understood.
            unsafe { (hooks.end)(self.id) }
        }
    }
}
