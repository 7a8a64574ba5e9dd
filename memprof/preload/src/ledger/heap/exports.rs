//! Exported functions, which the program calls instead of the C library's.

#![allow(unsafe_code)]

use core::ffi::CStr;

use super::{calls, malloc_family, next_allocator};
use crate::base::arch::entry;
use crate::base::symbols;

entry! {
    1 malloc(size: usize) -> *mut u8 = calls::malloc;
    2 calloc(count: usize, each: usize) -> *mut u8 = calls::calloc;
    2 realloc(block: *mut u8, size: usize) -> *mut u8 = calls::realloc;
    3 reallocarray(block: *mut u8, count: usize, each: usize) -> *mut u8 = malloc_family::reallocarray;
    1 cfree(block: *mut u8) = malloc_family::cfree;
    2 free_sized(block: *mut u8, size: usize) = malloc_family::free_sized;
    3 free_aligned_sized(block: *mut u8, alignment: usize, size: usize)
        = malloc_family::free_aligned_sized;
    2 memalign(alignment: usize, size: usize) -> *mut u8 = malloc_family::memalign;
    2 aligned_alloc(alignment: usize, size: usize) -> *mut u8 = malloc_family::aligned_alloc;
    3 posix_memalign(into: *mut *mut u8, alignment: usize, size: usize) -> i32
        = malloc_family::posix_memalign;
    1 valloc(size: usize) -> *mut u8 = malloc_family::valloc;
    1 pvalloc(size: usize) -> *mut u8 = malloc_family::pvalloc;
    1 malloc_usable_size(block: *mut u8) -> usize = malloc_family::malloc_usable_size;
}

/// Functions that allocate, free or measure blocks, by name.
const NAMED: [(&CStr, *const ()); 12] = [
    (c"malloc", malloc as *const ()),
    (c"calloc", calloc as *const ()),
    (c"realloc", realloc as *const ()),
    (c"reallocarray", reallocarray as *const ()),
    (c"free", free as *const ()),
    (c"cfree", cfree as *const ()),
    (c"memalign", memalign as *const ()),
    (c"aligned_alloc", aligned_alloc as *const ()),
    (c"posix_memalign", posix_memalign as *const ()),
    (c"valloc", valloc as *const ()),
    (c"pvalloc", pvalloc as *const ()),
    (c"malloc_usable_size", malloc_usable_size as *const ()),
];

/// Returns true for the name of a function that [`in_place_of`] may replace.
pub fn is_named(symbol: &[u8]) -> bool {
    NAMED.iter().any(|(name, _)| name.to_bytes() == symbol)
}

/// Returns the address of the function of this name that the tool's function calls next, or 0.
pub fn next(name: &CStr) -> usize {
    match next_allocator::is_disabled() {
        true => 0,
        false => symbols::dlsym_next(name),
    }
}

/// Returns the tool's function in place of `found`, which a lookup of `symbol` has found, if the
/// tool's function would call that one next.
pub fn in_place_of(symbol: &[u8], found: usize) -> Option<usize> {
    let (name, ours) = NAMED.iter().find(|(name, _)| name.to_bytes() == symbol)?;
    // An allocator may lack some of the functions; the C library's do not know its blocks.
    let is_next = !next_allocator::is_disabled()
        && symbols::dlsym_next(name) == found
        && next_allocator::same_object(symbols::dlsym_next(c"malloc"), found);
    is_next.then_some(*ours as usize)
}

/// Frees a block. Its tag names the owner, whatever the caller is.
///
/// # Safety
/// As required by the C library's function of this name.
#[cfg_attr(not(test), unsafe(no_mangle))]
#[cfg_attr(test, allow(dead_code))]
pub unsafe extern "C-unwind" fn free(block: *mut u8) {
    // SAFETY: guaranteed by the caller.
    unsafe { calls::free(block, 0, 0) }
}
