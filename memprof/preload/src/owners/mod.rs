//! The loaded objects: which object the code at an address belongs to.
//!
//! The list is read from the loader by `dl_iterate_phdr`, which takes only the lock that exceptions
//! take, so that it may be read inside an allocation and inside `dlopen`. No thread waits for a
//! lock of the tool while it holds the loader's, or the other way round.

#![allow(unsafe_code)]

pub mod dladdr;
mod known;
pub mod overrides;
mod parts;
pub mod refresh_lock;
mod symbols;
mod table;
mod walk;

use core::sync::atomic::{AtomicU8, AtomicU32, Ordering, fence};

use memprof_trace::classify::HandleForm;

use crate::base::component::Component;
use crate::base::dictionary::{self, Class};
use crate::base::thread::{Local, RECENT, Recent, local};

pub use known::Known;
pub use parts::are_known as parts_are_known;
pub use table::LIMIT;
pub use walk::{
    after_fork, at, before_fork, each, mark_opened, refresh, refresh_surely, serial, since,
};

/// Object of a caller.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Caller {
    pub component: Component,
    /// True if the object allocates for others (libc, libstdc++, ...): then its caller or thread
    /// determines the owner.
    pub neutral: bool,
    /// True if the object, which is neutral, calls functions for others through pointers.
    pub trampoline: bool,
}

impl Caller {
    const fn of(component: Component, flags: u32) -> Caller {
        Caller { component, neutral: flags & 1 != 0, trampoline: flags & 2 != 0 }
    }

    fn flags(self) -> u32 {
        u32::from(self.neutral) | u32::from(self.trampoline) << 1
    }
}

static TABLE: table::Table = table::Table::new();

/// Increases when earlier lookups may no longer be valid. Never 0, the value of new threads.
static VERSION: AtomicU32 = AtomicU32::new(1);

/// Returns a number that changes when the objects at any addresses change.
pub fn version() -> u32 {
    VERSION.load(Ordering::Acquire)
}

static MPI: AtomicU32 = AtomicU32::new(0);
static EXECUTABLE: AtomicU32 = AtomicU32::new(0);
/// Form of the MPI library's handles.
static HANDLES: AtomicU8 = AtomicU8::new(HandleForm::Unknown as u8);

/// Returns the owner of the code at a return address. Fast for the object of the last call and for
/// those of recent calls.
#[inline]
pub fn caller(return_address: usize) -> Caller {
    let local = local();
    if return_address.wrapping_sub(local.object_low.get()) < local.object_length.get()
        && local.object_version.get() == VERSION.load(Ordering::Relaxed)
    {
        return Caller::of(local.object_component.get(), 0);
    }
    look_back(local, return_address)
}

/// Returns true if the return address is still in the object that the thread counts for: then the
/// thread has counters, the component of this object is the current one, and no guard is set.
#[inline(always)]
pub fn is_same_caller(local: &Local, return_address: usize) -> bool {
    return_address.wrapping_sub(local.object_low.get()) < local.object_owns.get()
        && local.object_version.get() == VERSION.load(Ordering::Relaxed)
}

/// In place of a version: some of the entry's words have been written.
const WRITING: u32 = u32::MAX;

/// Returns the entry in which the object of a caller is cached, if the thread has counters.
#[inline(always)]
fn recent(local: &Local, address: usize) -> Option<&'static Recent> {
    // SAFETY: counters of a thread are never freed.
    let recent = unsafe { local.recent.get().as_ref() }?;
    Some(&recent[(address >> 12) % RECENT])
}

/// Looks in the cache, because callers in several objects often alternate.
#[inline(never)]
fn look_back(local: &Local, address: usize) -> Caller {
    if let Some(recent) = recent(local, address)
        && let low = recent.low.load(Ordering::Relaxed)
        && let length = recent.length.load(Ordering::Relaxed)
        && address.wrapping_sub(low) < length
        && let version = recent.version.load(Ordering::Relaxed)
        && version == VERSION.load(Ordering::Relaxed)
    {
        let what = recent.what.load(Ordering::Relaxed);
        let found = Caller::of(Component(what as u16), what >> 16);
        keep(local, found, low, length, version);
        return found;
    }
    look_up(local, address)
}

/// Makes this object the last caller's. An object that allocates for others is not stored: it is
/// called too often between two calls of one that does not.
#[inline(always)]
fn keep(local: &Local, found: Caller, low: usize, length: usize, version: u32) {
    if found.neutral {
        return;
    }
    local.object_owns.set(0);
    local.object_low.set(low);
    local.object_length.set(length);
    local.object_component.set(found.component);
    local.object_version.set(version);
}

#[cold]
fn look_up(local: &Local, address: usize) -> Caller {
    // Read before the table, so that a result from an older table is not stored under a newer
    // version.
    let version = VERSION.load(Ordering::Acquire);
    let mut found = TABLE.find(address);
    if found.is_none() && local.guard.get() == 0 && dladdr::may_be_new(address) {
        walk::refresh();
        found = TABLE.find(address);
    }
    let Some(range) = found else {
        // Code made at run time: its owner cannot be determined.
        return OF_NO_OBJECT;
    };
    let found = range.caller();
    let length = range.high - range.low;
    keep(local, found, range.low, length, version);
    // A signal handler that interrupts these stores leaves the entry alone.
    if let Some(recent) = recent(local, address)
        && recent.version.load(Ordering::Relaxed) != WRITING
    {
        recent.version.store(WRITING, Ordering::Relaxed);
        fence(Ordering::Release);
        recent.low.store(range.low, Ordering::Relaxed);
        recent.length.store(length, Ordering::Relaxed);
        let what = u32::from(found.component.0) | found.flags() << 16;
        recent.what.store(what, Ordering::Relaxed);
        recent.version.store(version, Ordering::Release);
    }
    found
}

/// Owner of code that was made at run time, in no object.
const OF_NO_OBJECT: Caller =
    Caller { component: Component::UNATTRIBUTED, neutral: true, trampoline: false };

/// Returns what [`caller`] returns, for a frame that is not the innermost: the object does not
/// become the last caller's.
pub fn caller_further_out(return_address: usize) -> Caller {
    TABLE.find(return_address).map_or(OF_NO_OBJECT, |range| range.caller())
}

/// Returns the owner of any mapped address of an object: code, constants, data, bss.
pub fn component_at(address: usize) -> Option<Component> {
    TABLE.find(address).map(|range| range.component)
}

/// Returns the range of the first object that ends above an address.
pub fn next_above(address: usize) -> Option<(usize, usize)> {
    TABLE.next_above(address).map(|range| (range.low, range.high))
}

/// Returns true if an address is in no object.
pub fn is_nobodys(address: usize) -> bool {
    TABLE.find(address).is_none()
}

/// Returns true if an address is in the program's file.
pub fn is_executables(address: usize) -> bool {
    TABLE.find(address).is_some_and(|range| range.executable)
}

/// Returns the component of the MPI library, once one is loaded.
pub fn mpi() -> Option<Component> {
    match MPI.load(Ordering::Relaxed) {
        0 => None,
        index => Some(Component(index as u16)),
    }
}

/// Returns the form of the MPI library's handles, once one is loaded.
pub fn handle_form() -> HandleForm {
    match HANDLES.load(Ordering::Relaxed) {
        form if form == HandleForm::Integers as u8 => HandleForm::Integers,
        form if form == HandleForm::Addresses as u8 => HandleForm::Addresses,
        form if form == HandleForm::Standard as u8 => HandleForm::Standard,
        _ => HandleForm::Unknown,
    }
}

/// In a program that was linked with the archive, returns the address of the word that directs the
/// program's MPI calls.
pub fn archive_word() -> Option<usize> {
    let mut word = 0;
    each(|object| word |= object.archive_word);
    (word != 0).then_some(word)
}

/// Returns the component of the program: the home of threads that no other component started.
pub fn executable() -> Component {
    Component(EXECUTABLE.load(Ordering::Relaxed) as u16)
}

/// Returns the owner of memory that is allocated or mapped by a call from `return_address` with
/// this stack pointer: the object that calls or, if that allocates for others, MPI if the thread is
/// inside it, else the thread's home.
pub fn owner(return_address: usize, stack: usize) -> Component {
    let local = local();
    if local.guard.get() > 0 {
        return Component::TOOL;
    }
    let caller = caller(return_address);
    if !caller.neutral {
        return caller.component;
    }
    if local.inside_mpi(stack)
        && let Some(mpi) = mpi()
    {
        return mpi;
    }
    match local.home.get() {
        Component::UNATTRIBUTED => executable(),
        home => home,
    }
}

/// Returns the component of the stacks of threads that `owner` starts.
pub fn stacks_of(owner: Component) -> Component {
    dictionary::define(Class::Stack, dictionary::entered(owner).name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::thread::Guard;

    #[test]
    fn this_program_and_its_libraries_are_told_apart() {
        refresh();
        let own = caller(this_program_and_its_libraries_are_told_apart as *const () as usize);
        assert_eq!(dictionary::class(own.component), Class::Tool, "it holds the tool");
        let mut names = Vec::new();
        each(|object| {
            names.push((object.name().to_owned(), object.component, object.low, object.high))
        });
        let (name, component, low, high) = names
            .iter()
            .find(|entry| entry.0.starts_with("libc.so"))
            .cloned()
            .expect("a C library");
        assert_eq!(dictionary::entered(component).to_string(), format!("system:{name}"));
        assert_eq!(component_at(low), Some(component));
        assert_eq!(component_at(high - 1), Some(component));
        // SAFETY: only the address is used.
        let inside = unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"qsort".as_ptr()) } as usize;
        let expected = Caller { component, neutral: true, trampoline: false };
        assert_eq!(caller(inside), expected);
        assert_eq!(caller(inside + 1), expected);
    }

    #[test]
    fn code_of_nobody_is_neutral() {
        let heap = Box::new(0u64);
        let found = caller(core::ptr::from_ref(&*heap) as usize);
        assert_eq!(found, OF_NO_OBJECT);
    }

    #[test]
    fn objects_that_come_and_go_are_noticed() {
        // A small library that is not loaded in this process.
        let name = c"libutil.so.1";
        refresh();
        // SAFETY: a system library is loaded and closed again.
        let handle = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW) };
        if handle.is_null() {
            return;
        }
        refresh();
        let count = || {
            let mut count = 0;
            each(|object| count += usize::from(object.name().starts_with("libutil")));
            count
        };
        assert_eq!(count(), 1);
        refresh();
        assert_eq!(count(), 1);
        // SAFETY: the handle is the one from above.
        unsafe { libc::dlclose(handle) };
        refresh();
        let _guard = Guard::enter();
        assert!(count() <= 1);
    }
}
