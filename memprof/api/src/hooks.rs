//! The profiler's own side: a table of functions that the object in the process exports.
#![allow(unsafe_code)]

use std::ffi::{c_char, c_int};
use std::mem::size_of;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The version of the table that we know.
const VERSION: u32 = 1;

/// What a region is: one of the program.
const USER: u32 = 0;

/// As in memprof.h.
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

/// As in memprof.h.
#[repr(C)]
#[derive(Copy, Clone, Default)]
pub struct Totals {
    pub resident: u64,
    pub resident_peak: u64,
    pub unattributed: u64,
    pub owned: u64,
    pub sample_time_ns: u64,
}

/// The table. Later versions of the profiler append to it.
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
        // SAFETY: the profiler reads so many bytes and keeps none of them.
        unsafe { (self.region_begin)(name.as_ptr().cast(), name.len(), USER) }
    }

    pub fn region_end(&self, id: u32) {
        // SAFETY: any number is understood.
        unsafe { (self.region_end)(id) }
    }

    pub fn component_count(&self) -> u32 {
        // SAFETY: no arguments.
        unsafe { (self.component_count)() }
    }

    pub fn component(&self, index: u32) -> Option<Component> {
        let mut out = Component::EMPTY;
        // SAFETY: it fills what it is given, which has the layout of this version.
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

/// Nobody has looked yet.
const UNKNOWN: usize = 0;
/// There is no profiler. No table is at this address.
const ABSENT: usize = 1;

/// Where the table is. The profiler is loaded before the program or not at all, so one look is enough.
static PLACE: AtomicUsize = AtomicUsize::new(UNKNOWN);

/// The table of the profiler in this process.
#[inline]
pub fn find() -> Option<&'static Hooks> {
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
        ".pushsection .data.rel.ro.memprof_api_hooks, \"aw\"",
        ".balign 8",
        ".weak memprof_api_hooks",
        ".hidden memprof_api_hooks",
        "memprof_api_hooks: .quad memprof_hooks",
        ".popsection",
    );

    unsafe extern "C" {
        #[link_name = "memprof_api_hooks"]
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
    (!table.is_null() && unsafe { (*table).size } as usize >= size_of::<Hooks>())
        .then_some(table as usize)
}
