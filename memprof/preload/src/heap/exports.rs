//! The names under which the program finds us instead of the C library.

#![allow(unsafe_code)]

use super::blocks;
use crate::arch::entry;

entry! {
    1 malloc(size: usize) -> *mut u8 = blocks::malloc;
    2 calloc(count: usize, each: usize) -> *mut u8 = blocks::calloc;
    2 realloc(block: *mut u8, size: usize) -> *mut u8 = blocks::realloc;
    3 reallocarray(block: *mut u8, count: usize, each: usize) -> *mut u8 = blocks::reallocarray;
    1 free(block: *mut u8) = blocks::free;
    1 cfree(block: *mut u8) = blocks::free;
    2 free_sized(block: *mut u8, size: usize) = blocks::free_sized;
    3 free_aligned_sized(block: *mut u8, alignment: usize, size: usize)
        = blocks::free_aligned_sized;
    2 memalign(alignment: usize, size: usize) -> *mut u8 = blocks::memalign;
    2 aligned_alloc(alignment: usize, size: usize) -> *mut u8 = blocks::aligned_alloc;
    3 posix_memalign(into: *mut *mut u8, alignment: usize, size: usize) -> i32
        = blocks::posix_memalign;
    1 valloc(size: usize) -> *mut u8 = blocks::valloc;
    1 pvalloc(size: usize) -> *mut u8 = blocks::pvalloc;
    1 malloc_usable_size(block: *mut u8) -> usize = blocks::malloc_usable_size;
}
