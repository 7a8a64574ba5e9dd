//! Functions of the malloc family: each asks the next allocator for eight more bytes, for the tag, and
//! updates the ledger.
//!
//! Each function takes, after its arguments, the return address of its caller and the stack pointer
//! at entry; both are 0 where they are not known.

#![allow(unsafe_code)]

use core::ptr;

use super::blocks::{LOOK_BEFORE_RELEASE, displace, enter, put_back, tag_of};
use super::{IN_FLIGHT, account, bootstrap, fast_path, next_allocator, registry, tag};
use crate::base::arch::Errno;
use crate::base::component::LIMIT;
use crate::base::thread::local;
use crate::ledger::call_stacks;

/// Error number for a size that no allocator can provide.
const NO_MEMORY: i32 = libc::ENOMEM;

#[cold]
#[inline(never)]
fn without_real(size: usize, alignment: usize) -> *mut u8 {
    let block = bootstrap::allocate(size, alignment);
    if block.is_null() {
        Errno::set(NO_MEMORY);
    }
    block
}

/// Enters `block`, which was allocated for `size` bytes, into the ledger.
#[inline(always)]
fn finish(block: *mut u8, size: usize, caller: usize, stack: usize) -> *mut u8 {
    if block.is_null() {
        block
    } else if next_allocator::is_quick() {
        fast_path::enter(block, size, caller, stack)
    } else {
        enter(block, size, caller, stack)
    }
}

/// Allocates a block of `size` bytes by `real`, and enters it into the ledger.
#[inline(always)]
fn allocate(size: usize, caller: usize, stack: usize, real: impl Fn(usize) -> *mut u8) -> *mut u8 {
    if next_allocator::is_disabled() {
        return real(size);
    }
    finish(real(size.saturating_add(tag::SIZE)), size, caller, stack)
}

pub unsafe extern "C-unwind" fn malloc(size: usize, caller: usize, stack: usize) -> *mut u8 {
    if !next_allocator::is_quick() {
        // SAFETY: guaranteed by the caller.
        return unsafe { malloc_generally(size, caller, stack) };
    }
    let Some(ask) = size.checked_add(tag::SIZE) else { return impossible() };
    // SAFETY: guaranteed by the caller.
    let block = unsafe { next_allocator::quick_malloc()(ask) };
    if block.is_null() { block } else { fast_path::enter(block, size, caller, stack) }
}

/// Fails a request for more bytes than can be allocated.
#[cold]
#[inline(never)]
fn impossible() -> *mut u8 {
    Errno::set(NO_MEMORY);
    ptr::null_mut()
}

#[inline(never)]
unsafe fn malloc_generally(size: usize, caller: usize, stack: usize) -> *mut u8 {
    let Some(real) = next_allocator::malloc() else { return without_real(size, 1) };
    // SAFETY: guaranteed by the caller.
    allocate(size, caller, stack, |size| unsafe { real(size) })
}

pub unsafe extern "C-unwind" fn calloc(
    count: usize,
    each: usize,
    caller: usize,
    stack: usize,
) -> *mut u8 {
    let Some(real) = next_allocator::calloc() else {
        return match count.checked_mul(each) {
            Some(size) => without_real(size, 1),
            None => without_real(usize::MAX, 1),
        };
    };
    if next_allocator::is_disabled() {
        // SAFETY: guaranteed by the caller.
        return unsafe { real(count, each) };
    }
    match count.checked_mul(each).and_then(|size| Some((size, size.checked_add(tag::SIZE)?))) {
        // SAFETY: guaranteed by the caller.
        Some((size, ask)) => finish(unsafe { real(1, ask) }, size, caller, stack),
        // SAFETY: as the caller's; the call fails.
        None => unsafe { real(count, each) },
    }
}

pub unsafe extern "C-unwind" fn realloc(
    block: *mut u8,
    size: usize,
    caller: usize,
    stack: usize,
) -> *mut u8 {
    if block.is_null() {
        // SAFETY: guaranteed by the caller.
        return unsafe { malloc(size, caller, stack) };
    }
    if bootstrap::holds(block) {
        // SAFETY: guaranteed by the caller.
        return unsafe { move_out(block, size, caller, stack) };
    }
    let Some(real) = next_allocator::realloc() else {
        if next_allocator::settled() {
            // SAFETY: as before.
            return unsafe { realloc(block, size, caller, stack) };
        }
        Errno::set(NO_MEMORY);
        return ptr::null_mut();
    };
    if next_allocator::is_disabled() {
        // SAFETY: guaranteed by the caller.
        return unsafe { real(block, size) };
    }
    let ask = if size == 0 { 0 } else { size.saturating_add(tag::SIZE) };
    let before = tag_of(block);
    if let Some((tag, place)) = before {
        if tag.size >= LOOK_BEFORE_RELEASE && size < tag.size {
            super::before_release(block as usize, tag.size);
        }
        // SAFETY: the tag of a live block.
        unsafe { place.write_unaligned(0) };
        IN_FLIGHT.leaves(usize::from(tag.component.0) % LIMIT, tag.size);
        registry::with(local(), block as usize, |state| {
            displace(state, block as usize, tag.size, tag.component)
        });
    }
    // SAFETY: guaranteed by the caller.
    let moved = unsafe { real(block, ask) };
    if let Some((tag, at)) = before {
        if moved.is_null() && size != 0 {
            put_back(block, tag, at);
            IN_FLIGHT.entered_again(usize::from(tag.component.0) % LIMIT, tag.size);
            return moved;
        }
        if tag.sampled {
            call_stacks::freed(block as usize);
        }
        registry::with(local(), block as usize, |state| {
            account::freed(state, tag.component, tag.size)
        });
    }
    let moved = finish(moved, size, caller, stack);
    if let Some((tag, _)) = before {
        IN_FLIGHT.entered_again(usize::from(tag.component.0) % LIMIT, tag.size);
    }
    moved
}

/// Moves a block out of the bootstrap arena, which served requests before the real allocator was
/// known.
#[cold]
unsafe fn move_out(block: *mut u8, size: usize, caller: usize, stack: usize) -> *mut u8 {
    // SAFETY: as the caller's; both blocks hold the copied bytes.
    unsafe {
        let new = malloc(size, caller, stack);
        if !new.is_null() {
            ptr::copy_nonoverlapping(block, new, bootstrap::size(block).min(size));
        }
        new
    }
}

pub unsafe extern "C-unwind" fn reallocarray(
    block: *mut u8,
    count: usize,
    each: usize,
    caller: usize,
    stack: usize,
) -> *mut u8 {
    match count.checked_mul(each) {
        // SAFETY: guaranteed by the caller.
        Some(size) => unsafe { realloc(block, size, caller, stack) },
        None => {
            Errno::set(NO_MEMORY);
            ptr::null_mut()
        }
    }
}

#[inline(always)]
pub unsafe extern "C-unwind" fn free(block: *mut u8, _caller: usize, _stack: usize) {
    if block.is_null() {
        return;
    }
    // SAFETY: guaranteed by the caller.
    unsafe { fast_path::free(block) }
}

pub unsafe extern "C-unwind" fn memalign(
    alignment: usize,
    size: usize,
    caller: usize,
    stack: usize,
) -> *mut u8 {
    let Some(real) = next_allocator::memalign() else { return without_real(size, alignment) };
    // SAFETY: guaranteed by the caller.
    allocate(size, caller, stack, |size| unsafe { real(alignment, size) })
}

pub unsafe extern "C-unwind" fn aligned_alloc(
    alignment: usize,
    size: usize,
    caller: usize,
    stack: usize,
) -> *mut u8 {
    if alignment.is_power_of_two() {
        // The aligned_alloc of some allocators requires a multiple of the alignment, which the tag
        // would break.
        // SAFETY: guaranteed by the caller.
        return unsafe { memalign(alignment, size, caller, stack) };
    }
    let Some(real) = next_allocator::aligned_alloc() else { return without_real(size, 1) };
    // SAFETY: guaranteed by the caller.
    allocate(size, caller, stack, |size| unsafe { real(alignment, size) })
}

pub unsafe extern "C-unwind" fn posix_memalign(
    into: *mut *mut u8,
    alignment: usize,
    size: usize,
    caller: usize,
    stack: usize,
) -> i32 {
    let Some(real) = next_allocator::posix_memalign() else {
        let block = bootstrap::allocate(size, alignment);
        if block.is_null() {
            return NO_MEMORY;
        }
        // SAFETY: guaranteed by the caller.
        unsafe { *into = block };
        return 0;
    };
    if next_allocator::is_disabled() {
        // SAFETY: guaranteed by the caller.
        return unsafe { real(into, alignment, size) };
    }
    // SAFETY: guaranteed by the caller.
    let result = unsafe { real(into, alignment, size.saturating_add(tag::SIZE)) };
    if result == 0 {
        // SAFETY: the call above has just written the pointer.
        finish(unsafe { *into }, size, caller, stack);
    }
    result
}

fn page_size() -> usize {
    // SAFETY: no precondition.
    usize::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).unwrap_or(4096)
}

pub unsafe extern "C-unwind" fn valloc(size: usize, caller: usize, stack: usize) -> *mut u8 {
    // SAFETY: guaranteed by the caller.
    unsafe { memalign(page_size(), size, caller, stack) }
}

pub unsafe extern "C-unwind" fn pvalloc(size: usize, caller: usize, stack: usize) -> *mut u8 {
    match size.checked_next_multiple_of(page_size()) {
        // SAFETY: guaranteed by the caller.
        Some(size) => unsafe { memalign(page_size(), size, caller, stack) },
        None => match next_allocator::pvalloc() {
            // SAFETY: as the caller's; the call fails.
            Some(real) => unsafe { real(size) },
            None => without_real(size, 1),
        },
    }
}

pub unsafe extern "C-unwind" fn malloc_usable_size(
    block: *mut u8,
    _caller: usize,
    _stack: usize,
) -> usize {
    if block.is_null() {
        return 0;
    }
    if bootstrap::holds(block) {
        // SAFETY: a block of the arena.
        return unsafe { bootstrap::size(block) };
    }
    let Some(real) = next_allocator::usable() else { return 0 };
    // SAFETY: guaranteed by the caller.
    let bytes = unsafe { real(block) };
    if tag_of(block).is_some() { bytes - tag::SIZE } else { bytes }
}
