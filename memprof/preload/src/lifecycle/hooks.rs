//! Interface for the program and other libraries in the process: regions and numbers. They find it
//! by `memprof_hooks`, the only name that the tool exports besides those of the allocator, and then
//! use a table of functions.

#![allow(unsafe_code)]

use core::cell::UnsafeCell;
use core::ffi::{c_char, c_int};
use core::fmt::Write;
use core::sync::atomic::AtomicU64;

use crate::base::component::{Component, LIMIT};
use crate::base::deferred;
use crate::base::dictionary;
use crate::base::lock::SpinLock;
use crate::base::thread::{Guard, local};
use crate::ledger::heap;
use crate::ledger::heap::Ledger;
use crate::lifecycle::start;
use crate::recording::mpi_time::loops::OutermostLoop;
use crate::recording::phases::Kind;
use crate::recording::{mpi_time, phases};
use crate::sampling::sampler;

/// Version of the table.
pub const VERSION: u32 = 1;

/// Table of functions. Any thread may call each of them at any time, and none allocates memory.
#[repr(C)]
pub struct MemprofHooks {
    /// [`VERSION`].
    pub version: u32,
    /// Size of this table in bytes.
    pub size: u32,
    /// Begins a region and returns its number, 0 if it is not recorded. The name is `length` bytes
    /// of UTF-8; kind 0 is a region of the program, 1 one of quo.
    pub region_begin: unsafe extern "C" fn(name: *const c_char, length: usize, kind: u32) -> u32,
    /// Ends the region with this number and all regions that are open inside it. 0 is no region.
    pub region_end: extern "C" fn(id: u32),
    /// Returns one more than the highest index of a component.
    pub component_count: extern "C" fn() -> u32,
    /// Writes the numbers of a component. Returns 0, or -1 if there is no component with this
    /// index.
    pub component: unsafe extern "C" fn(index: u32, into: *mut MemprofComponent) -> c_int,
    /// Writes the numbers of the process. Returns 0, or -1 before the first sample.
    pub totals: unsafe extern "C" fn(into: *mut MemprofTotals) -> c_int,
    /// Takes a sample now, in the calling thread. Returns 0, or -1 if none is taken because nothing
    /// is recorded or recording is paused.
    pub flush: extern "C" fn() -> c_int,
    /// Writes the times of the process since MPI was ready. Returns 0, or -1 where they are not
    /// measured or MPI is not ready.
    pub time: unsafe extern "C" fn(into: *mut MemprofTime) -> c_int,
    /// Marks the calling thread as lending its processors to others, as in quo's barrier, until
    /// `lend_end`.
    pub lend_begin: extern "C" fn(),
    /// Marks the calling thread as using its processors again.
    pub lend_end: extern "C" fn(),
    /// Controls which MPI calls of the thread that began MPI count for loops: from now on none (1);
    /// all again (0); none until 0, and the times of loops start again (2), as after a change of
    /// the number of ranks; or forgets all loops (3).
    pub loops: extern "C" fn(action: u32),
    /// Number of times that loops were copied, for [`Self::outermost_loops`]. Only the thread that
    /// began MPI writes it.
    pub loop_copies: &'static AtomicU64,
    /// Writes the outermost loops of the last copy, up to `room` of them, in descending order of
    /// time. Returns their number, or -1 where loops are not searched for or not available now.
    pub outermost_loops: unsafe extern "C" fn(into: *mut OutermostLoop, room: u32) -> c_int,
}

/// Times of the thread that began MPI, in nanoseconds.
#[repr(C)]
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MemprofTime {
    pub elapsed: u64,
    pub useful: u64,
    pub mpi: u64,
    pub lent: u64,
    /// `mpi` by kind of function, in the order of trace files.
    pub kinds: [u64; 6],
    pub calls: u64,
}

/// Numbers of one component. Owned bytes are current, resident bytes are those of the last sample.
#[repr(C)]
#[derive(Clone)]
pub struct MemprofComponent {
    /// Name as in reports, terminated by 0.
    pub name: [c_char; 96],
    pub owned: u64,
    pub owned_peak: u64,
    pub resident: u64,
    pub resident_peak: u64,
    /// Time of the last sample in nanoseconds since recording began; 0 if there was none.
    pub sample_time_ns: u64,
}

/// Numbers of the process. Owned bytes are current, the others are those of the last sample.
#[repr(C)]
#[derive(Clone, Default)]
pub struct MemprofTotals {
    pub resident: u64,
    pub resident_peak: u64,
    pub unattributed: u64,
    pub owned: u64,
    /// Time of the last sample in nanoseconds since recording began; 0 if there was none.
    pub sample_time_ns: u64,
}

static HOOKS: MemprofHooks = MemprofHooks {
    version: VERSION,
    size: size_of::<MemprofHooks>() as u32,
    region_begin,
    region_end,
    component_count,
    component,
    totals,
    flush,
    time,
    lend_begin: mpi_time::lend_begin,
    lend_end: mpi_time::lend_end,
    loops: mpi_time::loops::control,
    loop_copies: mpi_time::loops::copies(),
    outermost_loops,
};

/// Returns the table of this version; null if the version is not known, or recording is not
/// requested.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub extern "C" fn memprof_hooks(version: u32) -> *const MemprofHooks {
    #[cfg(all(feature = "archive", not(test), target_arch = "x86_64", target_os = "linux"))]
    if crate::interpose::archive::stands_aside() {
        return loaded(version);
    }
    let is_there = version == VERSION && start::may_record();
    if is_there { &raw const HOOKS } else { core::ptr::null() }
}

/// Returns the table of the loaded tool: libraries that refer to it by name find the program's
/// definition first.
#[cfg(all(feature = "archive", not(test), target_arch = "x86_64", target_os = "linux"))]
fn loaded(version: u32) -> *const MemprofHooks {
    type Give = extern "C" fn(u32) -> *const MemprofHooks;
    // SAFETY: the name is zero-terminated; the lookup has no other effect.
    let function = unsafe { libc::dlsym(libc::RTLD_NEXT, c"memprof_hooks".as_ptr()) };
    // SAFETY: a function exported under this name has this type.
    let give = unsafe { core::mem::transmute::<*mut libc::c_void, Option<Give>>(function) };
    give.map_or(core::ptr::null(), |give| give(version))
}

unsafe extern "C" fn region_begin(name: *const c_char, length: usize, kind: u32) -> u32 {
    if name.is_null() || length > 4096 {
        return 0;
    }
    // SAFETY: the caller passes as many bytes as stated.
    let bytes = unsafe { core::slice::from_raw_parts(name.cast::<u8>(), length) };
    let text = match core::str::from_utf8(bytes) {
        Ok(text) => text,
        Err(error) => core::str::from_utf8(&bytes[..error.valid_up_to()]).unwrap_or_default(),
    };
    if local().guard.get() > 0 {
        return 0;
    }
    let kind = match kind {
        0 => Kind::User,
        1 => Kind::Quo,
        _ => return 0,
    };
    phases::region_begin(text, kind)
}

extern "C" fn region_end(id: u32) {
    phases::region_end(id);
}

extern "C" fn component_count() -> u32 {
    dictionary::count() as u32
}

struct Work(UnsafeCell<[Ledger; LIMIT]>);

// SAFETY: accessed only while LOCK is held.
unsafe impl Sync for Work {}

static WORK: Work = Work(UnsafeCell::new(
    [const { Ledger { owned: 0, peak: 0, allocations: 0, frees: 0, allocated_total: 0 } }; LIMIT],
));
static LOCK: SpinLock = SpinLock::new();

/// Returns the lock that is held while numbers are collected; `fork` takes it. It is taken outside
/// of the heap's lock.
pub fn lock() -> &'static SpinLock {
    &LOCK
}

fn with_ledgers<R>(work: impl FnOnce(&[Ledger; LIMIT]) -> R) -> R {
    let _guard = Guard::enter();
    LOCK.lock();
    // SAFETY: the lock is held.
    let ledgers = unsafe { &mut *WORK.0.get() };
    heap::snapshot(ledgers);
    let result = work(ledgers);
    LOCK.unlock();
    result
}

unsafe extern "C" fn component(index: u32, into: *mut MemprofComponent) -> c_int {
    let first = u32::from(Component::FIRST_FREE.0);
    let unused = index > u32::from(Component::APPLICATION_SHARED.0) && index < first;
    if into.is_null() || index as usize >= dictionary::count() || unused {
        return -1;
    }
    let which = Component(index as u16);
    let Ledger { mut owned, peak, .. } = {
        let _guard = Guard::enter();
        heap::ledger(which)
    };
    if which == Component::TOOL {
        owned += with_ledgers(heap::tags);
    }
    let resident = sampler::resident(which);
    let mut name = Name { text: [0; 96], length: 0 };
    let _ = write!(name, "{}", dictionary::entered(which));
    // SAFETY: the caller provides room for one.
    unsafe {
        *into = MemprofComponent {
            name: name.text,
            owned,
            owned_peak: peak.max(owned),
            resident: resident.now,
            resident_peak: resident.peak,
            sample_time_ns: sampler::seen_time(),
        };
    }
    0
}

/// Zero-terminated text, cut to fit.
struct Name {
    text: [c_char; 96],
    length: usize,
}

impl Write for Name {
    fn write_str(&mut self, more: &str) -> core::fmt::Result {
        for byte in more.bytes() {
            if self.length < self.text.len() - 1 {
                self.text[self.length] = byte as c_char;
                self.length += 1;
            }
        }
        Ok(())
    }
}

unsafe extern "C" fn time(into: *mut MemprofTime) -> c_int {
    if into.is_null() || local().guard.get() > 0 {
        return -1;
    }
    let Some(times) = phases::whole_time() else { return -1 };
    let row = times.row(0, mpi_time::scale());
    let mpi = row.mpi_ns.iter().sum::<u64>();
    let time = MemprofTime {
        elapsed: row.elapsed_ns,
        useful: row.elapsed_ns.saturating_sub(mpi).saturating_sub(row.lent_ns),
        mpi,
        lent: row.lent_ns,
        kinds: core::array::from_fn(|kind| row.mpi_ns[kind]),
        calls: row.calls.iter().sum(),
    };
    // SAFETY: the caller provides room for one.
    unsafe { *into = time };
    0
}

unsafe extern "C" fn outermost_loops(into: *mut OutermostLoop, room: u32) -> c_int {
    if local().guard.get() > 0 {
        return -1;
    }
    let into = match into.is_null() {
        true => &mut [],
        // SAFETY: the caller provides room for as many.
        false => unsafe { core::slice::from_raw_parts_mut(into, room as usize) },
    };
    mpi_time::loops::outermost(into).and_then(|count| c_int::try_from(count).ok()).unwrap_or(-1)
}

unsafe extern "C" fn totals(into: *mut MemprofTotals) -> c_int {
    if into.is_null() || sampler::seen_time() == 0 {
        return -1;
    }
    let owned = with_ledgers(|ledgers| {
        ledgers.iter().map(|ledger| ledger.owned).sum::<u64>() + heap::tags(ledgers)
    });
    let resident = sampler::total();
    // SAFETY: the caller provides room for one.
    unsafe {
        *into = MemprofTotals {
            resident: resident.now,
            resident_peak: resident.peak,
            unattributed: sampler::resident(Component::UNATTRIBUTED).now,
            owned,
            sample_time_ns: sampler::seen_time(),
        };
    }
    0
}

extern "C" fn flush() -> c_int {
    // In a signal handler, the thread may be taking a sample already.
    if local().guard.get() > 0 {
        return -1;
    }
    // The child of a fork may have its own trace.
    deferred::run();
    if sampler::request() { 0 } else { -1 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_of_one_version() {
        assert!(memprof_hooks(0).is_null());
        assert!(memprof_hooks(2).is_null());
        let table = memprof_hooks(1);
        assert!(!table.is_null());
        // SAFETY: not null, and lives as long as the process.
        let table = unsafe { &*table };
        assert_eq!((table.version, table.size as usize), (1, size_of::<MemprofHooks>()));
        assert_eq!(size_of::<MemprofComponent>(), 136);
        assert_eq!(size_of::<MemprofTotals>(), 40);
    }

    #[test]
    fn components_have_names_and_what_is_none_is_refused() {
        // SAFETY: all zeros is a valid value.
        let mut into: MemprofComponent = unsafe { core::mem::zeroed() };
        // SAFETY: there is room for one.
        unsafe {
            assert_eq!(component(1, &raw mut into), 0);
            assert_eq!(
                into.name[..5].iter().map(|&byte| byte as u8).collect::<Vec<_>>(),
                b"tool\0"
            );
            assert_eq!(component(9, &raw mut into), -1);
            assert_eq!(component(u32::MAX, &raw mut into), -1);
            assert_eq!(component(0, core::ptr::null_mut()), -1);
            assert_eq!(totals(core::ptr::null_mut()), -1);
        }
    }

    #[test]
    fn regions_begin_and_end_from_outside() {
        let name = "assemble";
        // SAFETY: the name has the stated length.
        unsafe {
            let id = region_begin(name.as_ptr().cast(), name.len(), 0);
            assert_ne!(id, 0);
            region_end(id);
            region_end(id);
            assert_eq!(region_begin(core::ptr::null(), 0, 0), 0);
            assert_eq!(region_begin(name.as_ptr().cast(), name.len(), 7), 0);
        }
    }
}
