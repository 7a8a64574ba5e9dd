//! The profiler's side: a table of functions.
#![allow(unsafe_code)]

use std::ffi::{c_char, c_int};

use memprof_hooks::{Lookup, Table};

/// Kind of a region: one of the program.
const USER: u32 = 0;

/// Layout of `memprof_component_t` in memprof.h.
#[repr(C)]
#[derive(Clone)]
pub struct Component {
    pub name: [u8; 96],
    pub owned: u64,
    pub owned_peak: u64,
    pub resident: u64,
    pub resident_peak: u64,
    pub sample_time_ns: u64,
}

impl Component {
    pub const EMPTY: Component = Component {
        name: [0; 96],
        owned: 0,
        owned_peak: 0,
        resident: 0,
        resident_peak: 0,
        sample_time_ns: 0,
    };
}

/// Layout of `memprof_totals_t` in memprof.h.
#[repr(C)]
#[derive(Copy, Clone, Default)]
pub struct Totals {
    pub resident: u64,
    pub resident_peak: u64,
    pub unattributed: u64,
    pub owned: u64,
    pub sample_time_ns: u64,
}

/// Table of functions. Later versions of the profiler append to it.
#[repr(C)]
pub struct Hooks {
    version: u32,
    size: u32,
    region_begin: unsafe extern "C" fn(*const c_char, usize, u32) -> u32,
    region_end: unsafe extern "C" fn(u32),
    component_count: unsafe extern "C" fn() -> u32,
    component: unsafe extern "C" fn(u32, *mut Component) -> c_int,
    totals: unsafe extern "C" fn(*mut Totals) -> c_int,
    flush: unsafe extern "C" fn() -> c_int,
}

impl Hooks {
    pub fn region_begin(&self, name: &[u8]) -> u32 {
        // SAFETY: the profiler reads `length` bytes and keeps none of them.
        unsafe { (self.region_begin)(name.as_ptr().cast(), name.len(), USER) }
    }

    pub fn region_end(&self, id: u32) {
        // SAFETY: any number is valid.
        unsafe { (self.region_end)(id) }
    }

    pub fn component_count(&self) -> u32 {
        // SAFETY: no arguments.
        unsafe { (self.component_count)() }
    }

    pub fn component(&self, index: u32) -> Option<Component> {
        let mut out = Component::EMPTY;
        // SAFETY: the function fills the structure, which has the layout of this version.
        let status = unsafe { (self.component)(index, &raw mut out) };
        (status == 0).then_some(out)
    }

    pub fn totals(&self) -> Option<Totals> {
        let mut out = Totals::default();
        // SAFETY: as above.
        let status = unsafe { (self.totals)(&raw mut out) };
        (status == 0).then_some(out)
    }

    pub fn flush(&self) -> bool {
        // SAFETY: no arguments.
        unsafe { (self.flush)() == 0 }
    }
}

// SAFETY: the layout of memprof.h.
unsafe impl Table for Hooks {}

/// Layout of `memprof_time_t` in memprof.h, in nanoseconds.
#[repr(C)]
#[derive(Copy, Clone, Default)]
pub struct Time {
    pub elapsed: u64,
    pub useful: u64,
    pub mpi: u64,
    pub lent: u64,
    pub point_to_point: u64,
    pub collective: u64,
    pub one_sided: u64,
    pub file: u64,
    pub wait: u64,
    pub other: u64,
    pub calls: u64,
}

/// Table of profilers that measure times.
#[repr(C)]
struct Timed {
    hooks: Hooks,
    time: Option<unsafe extern "C" fn(*mut Time) -> c_int>,
}

// SAFETY: the layout of memprof.h.
unsafe impl Table for Timed {}

static TIMED: Lookup<Timed> = Lookup::new();

/// Returns the times of the process; `None` where they are not measured.
pub fn time() -> Option<Time> {
    let time = TIMED.find()?.time?;
    let mut out = Time::default();
    // SAFETY: the function fills the structure, which has the layout of this version.
    let status = unsafe { time(&raw mut out) };
    (status == 0).then_some(out)
}

static PROFILER: Lookup<Hooks> = Lookup::new();

/// Returns the table of the profiler in this process.
#[inline]
pub fn find() -> Option<&'static Hooks> {
    PROFILER.find()
}
