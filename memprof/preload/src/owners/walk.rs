//! Walk over the loader's list of objects.

#![allow(unsafe_code)]

use core::cell::UnsafeCell;
use core::ffi::{CStr, c_int, c_void};
use core::mem::MaybeUninit;
use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};

use memprof_boundary::elf::segment;
use memprof_trace::classify::{self, HandleForm, Node, OfMpi};

use super::known::{Known, NEEDS, PATH, hash};
use super::parts;
use super::refresh_lock::Turn;
use super::table::{LIMIT, Range};
use super::{EXECUTABLE, HANDLES, MPI, TABLE, VERSION, overrides};
use crate::base::component::Component;
use crate::base::dictionary::{self, Class};
use crate::base::kernel;
use crate::base::overflow_counters::{self, Table};
use crate::base::thread::Guard;

struct Registry {
    objects: UnsafeCell<MaybeUninit<[Known; LIMIT]>>,
    work: UnsafeCell<MaybeUninit<Work>>,
    /// One past the last entry ever used.
    used: AtomicUsize,
    turn: Turn,
}

/// Working memory of one walk.
struct Work {
    classes: [Class; LIMIT],
    marks: [u8; LIMIT],
    needs: [[u16; NEEDS]; LIMIT],
    /// Hash table from a name to an index plus one.
    names: [(u64, u16); LIMIT * 4],
    ranges: [Range; LIMIT],
}

// SAFETY: only the thread that holds the lock accesses the contents.
unsafe impl Sync for Registry {}

static REGISTRY: Registry = Registry {
    objects: UnsafeCell::new(MaybeUninit::zeroed()),
    work: UnsafeCell::new(MaybeUninit::zeroed()),
    used: AtomicUsize::new(0),
    turn: Turn::new(),
};

/// Returns the list.
///
/// # Safety
///
/// The calling thread holds the lock, and no other borrow of the list is alive.
#[allow(clippy::mut_from_ref)]
unsafe fn objects() -> &'static mut [Known; LIMIT] {
    // SAFETY: guaranteed by the caller; zeros are a valid list.
    unsafe { (*REGISTRY.objects.get()).assume_init_mut() }
}

static SERIAL: AtomicU32 = AtomicU32::new(0);
/// The loader's counts of added and removed objects at the last walk.
static ADDED: AtomicU64 = AtomicU64::new(u64::MAX);
static REMOVED: AtomicU64 = AtomicU64::new(u64::MAX);

/// Returns the number of the last walk.
pub fn serial() -> u32 {
    SERIAL.load(Ordering::Acquire)
}

/// Updates the table to the loaded objects. Never waits for another thread that does the same: that
/// thread walks again.
pub fn refresh() {
    let _guard = Guard::enter();
    REGISTRY.turn.walk(false, walk);
}

/// Does what [`refresh`] does, but objects loaded at the time of the call are known on return. Not
/// for threads that may hold the loader's lock.
pub fn refresh_surely() {
    let _guard = Guard::enter();
    REGISTRY.turn.walk(true, walk);
}

/// Calls `each` with every loaded object, the program first. Returns false if the list was locked
/// for too long.
pub fn each(mut each: impl FnMut(&Known)) -> bool {
    let _guard = Guard::enter();
    if !REGISTRY.turn.read() {
        return false;
    }
    for index in 0..REGISTRY.used.load(Ordering::Relaxed) {
        // SAFETY: this thread holds the lock.
        let object = unsafe { &objects()[index] };
        if object.live {
            each(object);
        }
    }
    REGISTRY.turn.give();
    true
}

/// Returns the facts of the object with this number, if one is loaded. Numbers are dense and
/// reused. Returns `None` beyond the last number, or when the list is locked for too long.
pub fn at(index: usize) -> Option<Option<Known>> {
    let _guard = Guard::enter();
    if index >= REGISTRY.used.load(Ordering::Acquire) || !REGISTRY.turn.read() {
        return None;
    }
    // SAFETY: this thread holds the lock.
    let object = unsafe { objects()[index] };
    REGISTRY.turn.give();
    Some(object.live.then_some(object))
}

/// Returns the number of the walk that found the object with this number, if one is loaded. Returns
/// `None` beyond the last number, or when the list is locked for too long.
pub fn since(index: usize) -> Option<Option<u32>> {
    let _guard = Guard::enter();
    if index >= REGISTRY.used.load(Ordering::Acquire) || !REGISTRY.turn.read() {
        return None;
    }
    // SAFETY: this thread holds the lock.
    let object = unsafe { &objects()[index] };
    let since = object.live.then_some(object.since);
    REGISTRY.turn.give();
    Some(since)
}

/// Records that MPI or the program opened the object at `base`, which a walk later than `since`
/// found.
pub fn mark_opened(base: usize, since: u32, by_mpi: bool) {
    let _guard = Guard::enter();
    if !REGISTRY.turn.read() {
        return;
    }
    // SAFETY: this thread holds the lock.
    let objects = unsafe { objects() };
    let mut marked = false;
    for object in objects.iter_mut().take(REGISTRY.used.load(Ordering::Relaxed)) {
        if object.live && object.base == base && object.since > since {
            object.opened_by_mpi = by_mpi;
            object.opened_by_program = !by_mpi;
            // Opening parts of MPI changes no classes.
            marked |= !matches!(object.known, Some(Class::MpiCore | Class::MpiDependency));
        }
    }
    if marked {
        assign_components(objects);
    }
    REGISTRY.turn.give();
}

/// True if the forking thread took the lock; only that thread writes it.
static KEPT: AtomicBool = AtomicBool::new(false);

/// Keeps the list unchanged until [`after_fork`], unless another thread holds the lock for too
/// long.
pub fn before_fork() {
    KEPT.store(REGISTRY.turn.read(), Ordering::Relaxed);
}

/// Releases the lock: in the parent, where another thread may hold it, and in the child, which has
/// no other thread.
pub fn after_fork(child: bool) {
    if KEPT.swap(false, Ordering::Relaxed) || child {
        REGISTRY.turn.give();
    }
}

/// Arguments of a walk's callback.
struct Walk<'a> {
    objects: &'a mut [Known; LIMIT],
    serial: u32,
    /// Index at which the next object is looked for first.
    next: usize,
    first: bool,
    changed: bool,
    unchanged: bool,
    /// Number of objects for which there was no room.
    refused: u64,
}

fn walk() {
    let serial = SERIAL.load(Ordering::Relaxed) + 1;
    // SAFETY: this thread holds the lock.
    let list = unsafe { objects() };
    let mut walk = Walk {
        objects: list,
        serial,
        next: 0,
        first: true,
        changed: false,
        unchanged: false,
        refused: 0,
    };
    // SAFETY: the callback gets the argument that it expects, and the loader's lock is held while
    // it runs.
    unsafe { libc::dl_iterate_phdr(Some(visit), core::ptr::from_mut(&mut walk).cast()) };
    if walk.unchanged {
        return;
    }
    overflow_counters::at_least(Table::Objects, walk.refused);
    let mut changed = walk.changed;
    // Entries never used are skipped: their pages are not even resident.
    for object in walk.objects.iter_mut().take(REGISTRY.used.load(Ordering::Relaxed)) {
        if object.live && object.seen != serial {
            object.live = false;
            changed = true;
        }
    }
    if changed {
        SERIAL.store(serial, Ordering::Release);
        assign_components(walk.objects);
    }
}

/// # Safety
///
/// Called by `dl_iterate_phdr` with a [`Walk`].
unsafe extern "C" fn visit(
    information: *mut libc::dl_phdr_info,
    size: usize,
    walk: *mut c_void,
) -> c_int {
    // SAFETY: guaranteed by the caller; only this thread uses both.
    let (information, walk) = unsafe { (&*information, &mut *walk.cast::<Walk<'_>>()) };
    let first = core::mem::replace(&mut walk.first, false);
    if first && size >= size_of::<libc::dl_phdr_info>() {
        let (added, removed) = (information.dlpi_adds, information.dlpi_subs);
        if ADDED.swap(added, Ordering::Relaxed) == added
            && REMOVED.swap(removed, Ordering::Relaxed) == removed
        {
            walk.unchanged = true;
            return 1;
        }
        REMOVED.store(removed, Ordering::Relaxed);
    }
    let (base, headers) = (information.dlpi_addr as usize, information.dlpi_phdr as usize);
    let used = REGISTRY.used.load(Ordering::Relaxed);
    let name: &[u8] = if information.dlpi_name.is_null() {
        b""
    } else {
        // SAFETY: the loader's names are zero-terminated.
        unsafe { CStr::from_ptr(information.dlpi_name) }.to_bytes()
    };
    let same = |object: &Known| {
        object.live
            && object.base == base
            && object.headers == headers
            && (object.executable || object.is_named(&name[..name.len().min(PATH - 1)]))
    };
    // Usually the next one, since the loader's order is that in which they were found.
    let (before, after) = walk.objects[..used].split_at_mut(walk.next.min(used));
    let found = after.iter_mut().enumerate().find(|(_, object)| same(object));
    let found = found.map(|(index, object)| (before.len() + index, object));
    let found = found.or_else(|| before.iter_mut().enumerate().find(|(_, object)| same(object)));
    if let Some((index, object)) = found {
        object.seen = walk.serial;
        walk.next = index + 1;
        return 0;
    }
    let Some(index) = (0..LIMIT).find(|&index| !walk.objects[index].live) else {
        walk.refused += 1;
        return 0;
    };
    let object = &mut walk.objects[index];
    *object = Known { base, headers, header_count: information.dlpi_phnum, ..Known::EMPTY };
    object.executable = first;
    object.initial = walk.serial == 1;
    object.seen = walk.serial;
    object.since = walk.serial;
    object.live = true;
    // SAFETY: the loader's lock is held, so the object stays loaded.
    unsafe { describe(object, name) };
    walk.changed = true;
    walk.next = index + 1;
    REGISTRY.used.store(used.max(index + 1), Ordering::Relaxed);
    0
}

/// Reads the facts of an object that do not change.
///
/// # Safety
///
/// The object is loaded and stays loaded meanwhile.
unsafe fn describe(object: &mut Known, name: &[u8]) {
    if object.executable {
        let mut path = [0; PATH];
        // SAFETY: the buffer has as many bytes.
        let length = unsafe {
            libc::readlink(c"/proc/self/exe".as_ptr(), path.as_mut_ptr().cast(), PATH - 1)
        };
        object.set_path(
            path.get(..length.max(0) as usize)
                .filter(|path| !path.is_empty())
                .unwrap_or_else(|| kernel::started_as()),
        );
    } else {
        object.set_path(name);
    }
    // SAFETY: guaranteed by the caller.
    let headers = unsafe {
        core::slice::from_raw_parts(
            object.headers as *const libc::Elf64_Phdr,
            if object.headers == 0 { 0 } else { usize::from(object.header_count) },
        )
    };
    let (mut low, mut high) = (usize::MAX, 0);
    for header in headers.iter().filter(|header| header.p_type == segment::LOAD) {
        let start = object.base.wrapping_add(header.p_vaddr as usize);
        low = low.min(start & !4095);
        high = high.max(start.wrapping_add(header.p_memsz as usize).wrapping_add(4095) & !4095);
    }
    (object.low, object.high) = if low < high { (low, high) } else { (0, 0) };
    // SAFETY: guaranteed by the caller.
    let image = unsafe { object.image() };
    object.has_search_path = image.has_search_path;
    object.names[0] = hash(object.name().as_bytes());
    object.names[1] = image.soname().map_or(object.names[0], hash);
    image.each_needed(|need| {
        if usize::from(object.need_count) < NEEDS {
            object.needs[usize::from(object.need_count)] = hash(need);
            object.need_count += 1;
        }
    });
    for header in headers.iter().filter(|header| header.p_type == segment::NOTE) {
        let notes = object.base.wrapping_add(header.p_vaddr as usize);
        if let Some(id) = image.build_id(notes, header.p_memsz as usize) {
            let length = id.len().min(object.build_id.len());
            object.build_id[..length].copy_from_slice(&id[..length]);
            object.build_id_length = length as u8;
        }
        if object.executable
            && let Some(word) = image.archive_word(notes, header.p_memsz as usize)
        {
            object.archive_word = word;
        }
    }
    let own = describe as *const () as usize;
    object.tool = own >= object.low && own < object.high && cfg!(not(feature = "archive"));
    object.defines_mpi = image.defines(classify::FUNCTION_IN_C.as_bytes());
    if object.defines_mpi {
        let defines = |symbol: &str| image.defines(symbol.as_bytes());
        object.handles = HandleForm::of_library(object.name(), defines);
    }
    let of_mpi = OfMpi::of_object(|symbol| image.defines(symbol.as_bytes()));
    object.known = classify::known(object.name(), object.executable, object.tool, of_mpi);
    if object.known.is_none() && parts::hold_mpi() && classify::serves_mpi(object.name()) {
        object.known = Some(Class::MpiDependency);
    }
    // Where one object contains several owners, the thread determines the owner of code that the
    // symbols do not show.
    object.neutral = object.holds_mpi() || classify::is_neutral(object.name());
    if object.holds_mpi() {
        parts::divide(object.base, object.low, object.high);
    }
}

/// Determines classes and components of all objects, and publishes the table.
fn assign_components(objects: &mut [Known; LIMIT]) {
    // SAFETY: this thread holds the lock; zeros are valid.
    let work = unsafe { (*REGISTRY.work.get()).assume_init_mut() };
    let used = REGISTRY.used.load(Ordering::Relaxed);
    resolve(work, &objects[..used]);
    let Work { classes, marks, needs, ranges, .. } = work;
    let node = |index: usize| {
        let object = &objects[index];
        if !object.live {
            return Node {
                known: Some(Class::Tool),
                needs: &[],
                opened_by_mpi: false,
                opened_by_program: false,
            };
        }
        Node {
            known: object.known,
            needs: &needs[index][..usize::from(object.need_count)],
            opened_by_mpi: object.opened_by_mpi,
            opened_by_program: object.opened_by_program,
        }
    };
    classify::classify(node, &mut classes[..used], &mut marks[..used]);
    let mut count = 0;
    for (object, &class) in objects[..used].iter_mut().zip(&*classes) {
        if !object.live {
            continue;
        }
        enter(object, class);
        let whole = Range {
            low: object.low,
            high: object.high,
            component: object.component,
            neutral: object.neutral,
            trampoline: object.neutral && classify::is_trampoline(object.name()),
            executable: object.executable,
        };
        count += if object.holds_mpi() {
            parts::ranges(&whole, &mut ranges[count..])
        } else if whole.low < whole.high && count < LIMIT {
            ranges[count] = whole;
            1
        } else {
            0
        };
    }
    ranges[..count].sort_unstable_by_key(|range| range.low);
    TABLE.publish(&ranges[..count]);
    let next = VERSION.load(Ordering::Relaxed).wrapping_add(1).max(1);
    VERSION.store(next, Ordering::Release);
}

/// Assigns a component to an object.
fn enter(object: &mut Known, class: Class) {
    let said = overrides::text().and_then(|text| overrides::find(text, object.path()));
    let class = said.map_or(class, |said| said.class);
    let named = said.and_then(|said| said.name);
    if object.component == Component::UNATTRIBUTED {
        object.component = if object.tool && !object.executable {
            Component::TOOL
        } else {
            dictionary::define(class, named.unwrap_or_else(|| object.name()))
        };
    } else if object.class != class {
        dictionary::reclassify(object.component, class);
    }
    object.class = class;
    if said.is_some() {
        // An object that a site names is an owner.
        object.neutral &= class == Class::System;
    }
    let index = u32::from(object.component.0);
    if object.executable {
        EXECUTABLE.store(index, Ordering::Relaxed);
    }
    if object.holds_mpi() {
        let mpi = dictionary::define(Class::MpiCore, "(static)");
        MPI.store(u32::from(mpi.0), Ordering::Relaxed);
    }
    // The library itself, not a binding that precedes it.
    if class == Class::MpiCore && object.defines_mpi && !object.executable {
        MPI.store(index, Ordering::Relaxed);
        HANDLES.store(object.handles as u8, Ordering::Relaxed);
    }
}

/// Converts the names that objects need into indexes.
fn resolve(work: &mut Work, objects: &[Known]) {
    // Only as much of the table as keeps it half empty.
    let size = (objects.len() * 4).next_power_of_two().min(work.names.len());
    work.names[..size].fill((0, 0));
    for (index, object) in objects.iter().enumerate().filter(|(_, object)| object.live) {
        for name in object.names {
            let mut at = name as usize % size;
            while work.names[at].1 != 0 && work.names[at].0 != name {
                at = (at + 1) % size;
            }
            // The first object of a name is the one that the loader uses.
            if work.names[at].1 == 0 {
                work.names[at] = (name, index as u16 + 1);
            }
        }
    }
    for (index, object) in objects.iter().enumerate().filter(|(_, object)| object.live) {
        for (need, &name) in object.needs[..usize::from(object.need_count)].iter().enumerate() {
            let mut at = name as usize % size;
            while work.names[at].1 != 0 && work.names[at].0 != name {
                at = (at + 1) % size;
            }
            work.needs[index][need] = work.names[at].1.wrapping_sub(1);
        }
    }
}
