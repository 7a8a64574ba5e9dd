//! Lookup of the object at an address with the loader's functions, for use before the table exists.

#![allow(unsafe_code)]

use core::ffi::{CStr, c_char, c_int};
use core::sync::atomic::{AtomicUsize, Ordering};

/// An object, identified by its start address.
#[derive(Copy, Clone)]
pub struct Holder {
    start: usize,
    name: *const c_char,
}

impl PartialEq for Holder {
    fn eq(&self, other: &Holder) -> bool {
        self.start == other.start
    }
}

impl Holder {
    /// Returns the path at which the loader found the object; empty for the program.
    pub fn path(&self) -> &'static [u8] {
        if self.name.is_null() {
            return b"";
        }
        // SAFETY: the loader's zero-terminated text; the objects in question stay loaded.
        unsafe { CStr::from_ptr(self.name) }.to_bytes()
    }
}

/// Address of `_dl_find_object`; 0 where the C library lacks it, or before the lookup.
static FINDER: AtomicUsize = AtomicUsize::new(0);

/// Start of the result of `dl_find_object`, and no smaller than the result.
#[repr(C)]
#[derive(Default)]
struct Found {
    flags: u64,
    start: usize,
    end: usize,
    /// The loader's entry, a word followed by the name.
    entry: usize,
    more: [usize; 4],
}

/// Looks up the function, unless it is known already.
pub fn prepare() {
    #[cfg(not(feature = "archive"))]
    if FINDER.load(Ordering::Acquire) == 0 {
        // SAFETY: a zero-terminated text.
        let finder = unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"_dl_find_object".as_ptr()) };
        if finder.is_null() {
            // The program must not find the error of this lookup.
            // SAFETY: no arguments.
            unsafe { libc::dlerror() };
        }
        FINDER.store(finder as usize, Ordering::Release);
    }
}

/// Returns the result of `_dl_find_object` if the function exists: it takes no lock.
fn find(address: usize) -> Option<Result<Found, c_int>> {
    let finder = FINDER.load(Ordering::Acquire);
    if finder == 0 {
        return None;
    }
    // SAFETY: the function of the C library with this signature; it only reads.
    let finder: unsafe extern "C" fn(usize, *mut Found) -> c_int =
        unsafe { core::mem::transmute(finder) };
    let mut found = Found::default();
    // SAFETY: the result of `dl_find_object` is no larger.
    match unsafe { finder(address, &raw mut found) } {
        0 => Some(Ok(found)),
        error => Some(Err(error)),
    }
}

/// Returns true if an address that is not in the table may be in an object loaded since.
pub fn may_be_new(address: usize) -> bool {
    find(address).is_none_or(|found| found.is_ok())
}

/// Returns the object that an address is in. Not for objects that may be unloaded meanwhile.
pub fn of(address: usize) -> Option<Holder> {
    if let Some(Ok(found)) = find(address)
        && found.entry != 0
    {
        // SAFETY: the second word of the loader's entry, which exists as long as the object.
        let name = unsafe { *(found.entry as *const *const c_char).add(1) };
        return Some(Holder { start: found.start, name });
    }
    // The C library searches all its symbols for the nearest one.
    // SAFETY: plain data, for which zeros are valid.
    let mut found: libc::Dl_info = unsafe { core::mem::zeroed() };
    // SAFETY: the call writes to `found` only; names live as long as their objects.
    let known = unsafe { libc::dladdr(address as *const _, &mut found) } != 0;
    known.then_some(Holder { start: found.dli_fbase as usize, name: found.dli_fname })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_of_one_object_have_one_holder_whoever_is_asked() {
        let own = functions_of_one_object_have_one_holder_whoever_is_asked as *const () as usize;
        let system = libc::getpid as *const () as usize;
        let ask =
            || (of(own).unwrap(), of(prepare as *const () as usize).unwrap(), of(system).unwrap());
        let before = ask();
        prepare();
        for (own, also, system) in [before, ask()] {
            assert!(own == also && own != system);
            assert!(system.path().windows(7).any(|part| part == b"libc.so"), "{:?}", system.path());
        }
        let here = Box::new(0);
        assert!(of(core::ptr::from_ref(&*here) as usize).is_none());
    }
}
