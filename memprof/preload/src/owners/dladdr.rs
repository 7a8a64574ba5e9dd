//! Object at an address, as the loader knows it: for questions before the table is there.

#![allow(unsafe_code)]

use core::ffi::{CStr, c_char, c_int};
use core::sync::atomic::{AtomicUsize, Ordering};

/// An object, by where it begins.
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
    /// Path at which the loader found it; empty for the program.
    pub fn path(&self) -> &'static [u8] {
        if self.name.is_null() {
            return b"";
        }
        // SAFETY: the loader's text with its end mark; the objects that are asked for stay.
        unsafe { CStr::from_ptr(self.name) }.to_bytes()
    }
}

/// `_dl_find_object`, where the C library has it; 0 where it has not, or is not known to.
static FINDER: AtomicUsize = AtomicUsize::new(0);

/// Beginning of the result of `dl_find_object`, and no less than it takes.
#[repr(C)]
#[derive(Default)]
struct Found {
    flags: u64,
    start: usize,
    end: usize,
    /// The loader's entry: a word, and then the name.
    entry: usize,
    more: [usize; 4],
}

/// Looks for the function, unless that is known.
pub fn prepare() {
    #[cfg(not(feature = "archive"))]
    if FINDER.load(Ordering::Acquire) == 0 {
        // SAFETY: a text with its end mark.
        let finder = unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"_dl_find_object".as_ptr()) };
        if finder.is_null() {
            // Nobody is to find our error.
            // SAFETY: no arguments.
            unsafe { libc::dlerror() };
        }
        FINDER.store(finder as usize, Ordering::Release);
    }
}

/// The answer of `_dl_find_object`, if there is one: it takes no lock.
fn find(address: usize) -> Option<Result<Found, c_int>> {
    let finder = FINDER.load(Ordering::Acquire);
    if finder == 0 {
        return None;
    }
    // SAFETY: the function of the C library with this signature; it only reads.
    let finder: unsafe extern "C" fn(usize, *mut Found) -> c_int =
        unsafe { core::mem::transmute(finder) };
    let mut found = Found::default();
    // SAFETY: `dl_find_object` is no larger.
    match unsafe { finder(address, &raw mut found) } {
        0 => Some(Ok(found)),
        error => Some(Err(error)),
    }
}

/// Returns true if an address that is not in the table can be of an object loaded since.
pub fn may_be_new(address: usize) -> bool {
    find(address).is_none_or(|found| found.is_ok())
}

/// The object that an address is in. Not of one that may be unloaded meanwhile.
pub fn of(address: usize) -> Option<Holder> {
    if let Some(Ok(found)) = find(address)
        && found.entry != 0
    {
        // SAFETY: the second word of the loader's entry, which stays as long as the object.
        let name = unsafe { *(found.entry as *const *const c_char).add(1) };
        return Some(Holder { start: found.start, name });
    }
    // The C library goes through all its symbols for the one that is nearest.
    // SAFETY: plain data, for which zeroes are valid.
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
