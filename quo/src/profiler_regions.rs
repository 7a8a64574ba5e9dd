//! Pushed bindings and phases as regions of a profile, and waiting as lent time.
//!
//! The memory profiler, where there is one in the process, has a table of functions that `memprof.h` describes. Without
//! it a region costs one load and one branch.
#![allow(unsafe_code)]

use std::ffi::c_char;

use memprof_hooks::{Lookup, Table};

/// The profiler's number of our regions.
const OF_QUO: u32 = 1;

/// The beginning of the table.
#[repr(C)]
struct Hooks {
    version: u32,
    size: u32,
    begin: unsafe extern "C" fn(*const c_char, usize, u32) -> u32,
    end: unsafe extern "C" fn(u32),
}

// SAFETY: what the table begins with.
unsafe impl Table for Hooks {}

static PROFILER: Lookup<Hooks> = Lookup::new();

/// The table of profilers that take times.
#[repr(C)]
struct Timed {
    hooks: Hooks,
    others: [usize; 5],
    lend_begin: Option<extern "C" fn()>,
    lend_end: Option<extern "C" fn()>,
}

// SAFETY: the layout of memprof.h as far as it goes.
unsafe impl Table for Timed {}

static TIMED: Lookup<Timed> = Lookup::new();

/// Time in which the calling thread waits and its processors are for others, from its making to its drop: a profiler
/// counts it as lent.
#[derive(Debug)]
#[must_use = "the time ends as soon as it is dropped"]
pub(crate) struct Lent(());

impl Lent {
    #[inline]
    pub(crate) fn begin() -> Lent {
        if let Some(begin) = TIMED.find().and_then(|table| table.lend_begin) {
            begin();
        }
        Lent(())
    }
}

impl Drop for Lent {
    #[inline]
    fn drop(&mut self) {
        if let Some(end) = TIMED.find().and_then(|table| table.lend_end) {
            end();
        }
    }
}

/// A region from its making to its drop; nothing without a profiler.
#[derive(Debug)]
#[must_use = "the region ends as soon as it is dropped"]
pub(crate) struct Region {
    /// 0: not recorded.
    id: u32,
}

/// Returns true if regions are recorded in this process.
#[inline]
pub(crate) fn recorded() -> bool {
    PROFILER.find().is_some()
}

impl Region {
    pub(crate) const NONE: Region = Region { id: 0 };

    #[inline]
    pub(crate) fn begin(name: &str) -> Region {
        let Some(hooks) = PROFILER.find() else { return Region::NONE };
        // SAFETY: the profiler reads so many bytes and keeps none of them.
        let id = unsafe { (hooks.begin)(name.as_ptr().cast(), name.len(), OF_QUO) };
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
