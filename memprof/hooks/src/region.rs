//! Regions of a profile that other libraries begin and end.
#![allow(unsafe_code)]

use std::ffi::c_char;

use crate::{Lookup, Table};

/// Origin of a region, as shown in reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Origin {
    /// The program.
    Program = 0,
    /// The runtime quo.
    Quo = 1,
}

#[repr(C)]
struct Regions {
    version: u32,
    size: u32,
    begin: unsafe extern "C" fn(*const c_char, usize, u32) -> u32,
    end: unsafe extern "C" fn(u32),
}

// SAFETY: the beginning of the table.
unsafe impl Table for Regions {}

static PROFILER: Lookup<Regions> = Lookup::new();

/// A region of the process, from [`Region::begin`] to its drop. Without a profiler it does nothing,
/// at the cost of one load and one branch.
#[derive(Debug)]
#[must_use = "the region ends as soon as it is dropped"]
pub struct Region {
    /// 0 if not recorded.
    id: u32,
}

impl Region {
    /// No region.
    pub const NONE: Region = Region { id: 0 };

    /// Returns true if regions are recorded in this process.
    #[inline]
    #[must_use]
    pub fn are_recorded() -> bool {
        PROFILER.find().is_some()
    }

    /// Begins a region of this name.
    #[inline]
    pub fn begin(name: &str, of: Origin) -> Region {
        let Some(hooks) = PROFILER.find() else { return Region::NONE };
        // SAFETY: the profiler reads the name's bytes and keeps none of them.
        let id = unsafe { (hooks.begin)(name.as_ptr().cast(), name.len(), of as u32) };
        Region { id }
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        if self.id != 0
            && let Some(hooks) = PROFILER.find()
        {
            // SAFETY: any number is valid.
            unsafe { (hooks.end)(self.id) }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn region_without_a_profiler_is_none() {
        let region = Region::begin("step", Origin::Program);
        assert!(!Region::are_recorded() && region.id == Region::NONE.id);
    }
}
