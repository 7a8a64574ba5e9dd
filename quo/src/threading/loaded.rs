//! Objects loaded by the dynamic loader, whatever their scope, and the functions that each defines
//! itself.
#![allow(unsafe_code)]

use std::collections::BTreeSet;
use std::ffi::{CStr, CString, c_int, c_void};
use std::ptr::{self, NonNull};

use libc::dl_phdr_info;

/// A loaded object: the loader's name for it, empty for the program, and its addresses.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Object {
    low: usize,
    high: usize,
    name: CString,
}

impl Object {
    /// Returns true if an address lies in the object.
    pub(super) fn contains(&self, address: usize) -> bool {
        (self.low..self.high).contains(&address)
    }

    /// Returns the name of the object's file without its folder.
    pub(super) fn file_name(&self) -> String {
        let name = self.name.to_string_lossy();
        match name.rsplit('/').next() {
            Some("") | None => "the program".to_owned(),
            Some(file) => file.to_owned(),
        }
    }
}

/// An object that cannot be unloaded while this value lives.
#[derive(Debug)]
pub(super) struct Opened<'a> {
    object: &'a Object,
    handle: NonNull<c_void>,
}

impl<'a> Opened<'a> {
    /// Opens a loaded object; `None` if the loader does not know it by its name.
    fn open(object: &'a Object) -> Option<Self> {
        let name = if object.name.is_empty() { ptr::null() } else { object.name.as_ptr() };
        // SAFETY: the name is NULL, for the program, or ends in NUL. RTLD_NOLOAD loads nothing and runs no
        // initialiser.
        let handle = unsafe { libc::dlopen(name, libc::RTLD_LAZY | libc::RTLD_NOLOAD) };
        Some(Self { object, handle: NonNull::new(handle)? })
    }

    /// Returns the address of a function that the object defines itself, not one of its
    /// dependencies.
    pub(super) fn function(&self, name: &CStr) -> Option<usize> {
        // SAFETY: the handle is open, and the name ends in NUL.
        let address = unsafe { libc::dlsym(self.handle.as_ptr(), name.as_ptr()) } as usize;
        self.object.contains(address).then_some(address)
    }

    /// Returns the name of the object's file.
    pub(super) fn file_name(&self) -> String {
        self.object.file_name()
    }

    /// Returns the object with its addresses.
    pub(super) fn object(&self) -> &'a Object {
        self.object
    }

    /// Keeps the object loaded until the process ends.
    pub(super) fn keep(self) {
        std::mem::forget(self);
    }
}

impl Drop for Opened<'_> {
    fn drop(&mut self) {
        // SAFETY: the handle is open and not used afterwards.
        unsafe { libc::dlclose(self.handle.as_ptr()) };
    }
}

/// Objects that have been examined, so that each is examined once.
#[derive(Debug, Default)]
pub(super) struct Seen {
    loads: Option<u64>,
    objects: BTreeSet<Object>,
}

impl Seen {
    /// Calls `look` for each object that was loaded since the last call. If there is none, only
    /// reads the loader's counter.
    pub(super) fn each_new(&mut self, mut look: impl FnMut(Opened<'_>)) {
        let loads = loads();
        if loads.is_some() && self.loads == loads {
            return;
        }
        self.loads = loads;
        let now = objects();
        for object in now.iter().filter(|object| !self.objects.contains(object)) {
            if let Some(opened) = Opened::open(object) {
                look(opened);
            }
        }
        self.objects = now.into_iter().collect();
        // The thread would keep the text of the last failure; the second call frees it.
        // SAFETY: dlerror only reads and frees what belongs to the calling thread.
        unsafe { (libc::dlerror(), libc::dlerror()) };
    }
}

/// Returns the number of objects loaded so far; `None` if the loader does not report it.
fn loads() -> Option<u64> {
    unsafe extern "C" fn first(info: *mut dl_phdr_info, size: usize, found: *mut c_void) -> c_int {
        if size >= size_of::<dl_phdr_info>() {
            // SAFETY: the loader passes a record of `size` bytes, and `found` is the pointer given
            // to dl_iterate_phdr below, which outlives the call.
            unsafe { *found.cast::<Option<u64>>() = Some((*info).dlpi_adds) };
        }
        1 // The count is the same in every record: stop at the first.
    }
    let mut found: Option<u64> = None;
    // SAFETY: the callback matches the expected signature and only writes to `found`.
    unsafe { libc::dl_iterate_phdr(Some(first), (&raw mut found).cast()) };
    found
}

/// Returns the objects that are loaded now, in the order of loading, the program first.
fn objects() -> Vec<Object> {
    unsafe extern "C" fn each(info: *mut dl_phdr_info, _: usize, found: *mut c_void) -> c_int {
        // SAFETY: the loader's description of an object that stays loaded during the call, and the
        // pointer given to dl_iterate_phdr below, which outlives it.
        let (info, found) = unsafe { (&*info, &mut *found.cast::<Vec<Object>>()) };
        // SAFETY: the loader gives the number of headers.
        let headers =
            unsafe { std::slice::from_raw_parts(info.dlpi_phdr, usize::from(info.dlpi_phnum)) };
        let (mut low, mut high) = (usize::MAX, 0);
        for header in headers.iter().filter(|header| header.p_type == libc::PT_LOAD) {
            let start = (info.dlpi_addr as usize).wrapping_add(header.p_vaddr as usize);
            (low, high) = (low.min(start), high.max(start.wrapping_add(header.p_memsz as usize)));
        }
        let name = match info.dlpi_name.is_null() {
            true => CString::default(),
            // SAFETY: the loader's name of the object, which ends in NUL.
            false => unsafe { CStr::from_ptr(info.dlpi_name) }.to_owned(),
        };
        found.push(Object { low, high, name });
        0
    }
    let mut found: Vec<Object> = Vec::new();
    // SAFETY: the callback matches the expected signature and only writes to `found`.
    unsafe { libc::dl_iterate_phdr(Some(each), (&raw mut found).cast()) };
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_object_is_looked_at_once() {
        let mut seen = Seen::default();
        let mut libc_has = Vec::new();
        seen.each_new(|opened| {
            libc_has.extend(opened.function(c"getpid").map(|_| opened.file_name()))
        });
        assert_eq!(
            libc_has.len(),
            1,
            "a function counts for the object that defines it: {libc_has:?}"
        );
        let mut again = 0;
        seen.loads = None;
        seen.each_new(|_| again += 1);
        assert_eq!(again, 0);
    }
}
