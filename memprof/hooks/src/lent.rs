//! Marks waiting as lent time in a profile.
#![allow(unsafe_code)]

use crate::{Lookup, Table};

/// Table of profilers that measure times.
#[repr(C)]
struct Timed {
    version: u32,
    size: u32,
    others: [usize; 7],
    lend_begin: Option<extern "C" fn()>,
    lend_end: Option<extern "C" fn()>,
}

// SAFETY: the layout of the beginning of memprof.h's table.
unsafe impl Table for Timed {}

static TIMED: Lookup<Timed> = Lookup::new();

/// Time in which the calling thread waits and lends its processors, from the creation of the value
/// to its drop: a profiler counts it as lent. Without a profiler it costs one load and one branch.
#[derive(Debug)]
#[must_use = "the time ends as soon as it is dropped"]
pub struct Lent(());

impl Lent {
    /// Begins the lent time.
    #[inline]
    pub fn begin() -> Lent {
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
