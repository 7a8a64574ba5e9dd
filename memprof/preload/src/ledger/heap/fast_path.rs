//! Fast path for most blocks: blocks of the GNU C library that are not in a separate mapping,
//! allocated by the same object as the previous block. Where a condition does not hold, nothing is
//! done and the block takes the general path ([`blocks`]).

#![allow(unsafe_code)]

use core::sync::atomic::Ordering::Relaxed;

use super::account::{MAX_PENDING, count_pending_allocation, count_pending_release, left_after};
use super::blocks::{self, free_generally};
use super::{GRANULES, IN_FLIGHT, LARGE, ThreadCounters, large, next_allocator, tag};
use crate::base::component::{Component, LIMIT};
use crate::base::thread::local;
use crate::owners;

/// Blocks for which the C library uses this many bytes or more take the general path.
const TOO_LARGE: usize = MAX_PENDING;

/// Enters a block with `size` bytes and room for a tag, made by the C library's malloc, into the
/// ledger. Returns the block.
#[inline(never)]
pub extern "C-unwind" fn enter(
    block: *mut u8,
    size: usize,
    caller: usize,
    stack: usize,
) -> *mut u8 {
    let local = local();
    // SAFETY: a live block of the C library.
    if let Some(chunk) = unsafe { next_allocator::chunk_below(block, TOO_LARGE) }
        && owners::is_same_caller(local, caller)
    {
        // SAFETY: a thread that has a caller has counters, which are never freed.
        let state: &ThreadCounters = unsafe { &*local.state.get().cast::<ThreadCounters>() };
        if size >= large::FROM {
            return enter_large(state, chunk, block, size, caller, stack);
        }
        if let Some(left) = left_after(state, size)
            && GRANULES.change_near(state, block as usize, size, current(state), 1)
        {
            return finish_entry(state, left, chunk, block, size);
        }
    }
    blocks::enter(block, size, caller, stack)
}

/// Does what [`enter`] does, for a block of the table of large blocks.
#[inline(never)]
fn enter_large(
    state: &ThreadCounters,
    chunk: usize,
    block: *mut u8,
    size: usize,
    caller: usize,
    stack: usize,
) -> *mut u8 {
    let component = current(state);
    if let Some(left) = left_after(state, size)
        && LARGE.insert(block as usize, size, component, state.number())
    {
        IN_FLIGHT.entered(usize::from(component.0) % LIMIT, size);
        return finish_entry(state, left, chunk, block, size);
    }
    blocks::enter(block, size, caller, stack)
}

/// Writes the tag of a block that is in its table, and counts the block.
#[inline(always)]
fn finish_entry(
    state: &ThreadCounters,
    left: i64,
    chunk: usize,
    block: *mut u8,
    size: usize,
) -> *mut u8 {
    let place = place_of_tag(block, chunk);
    let slack = place as usize - block as usize - size;
    let word = tag::marked(block as usize, slack, state.current.mark.load(Relaxed));
    // SAFETY: the last bytes of the block, which the program does not know yet.
    unsafe { place.write_unaligned(word) };
    count_pending_allocation(state, left, size);
    block
}

/// Frees a block and, if the block is in the ledger, removes it from the ledger.
///
/// # Safety
/// As for `free`; the block is not null.
#[inline(always)]
pub unsafe fn free(block: *mut u8) {
    let local = local();
    let mark = local.mark.get();
    // Without a mark, the thread has no counters or the size of a block cannot be read from its
    // header.
    if mark != 0
        // SAFETY: with a mark, a live block of the C library or of our own arena.
        && let Some(chunk) = unsafe { next_allocator::chunk_below(block, TOO_LARGE) }
    {
        let place = place_of_tag(block, chunk);
        // SAFETY: the last bytes of a live block.
        let word = unsafe { place.read_unaligned() };
        if let Some(slack) = tag::read_marked(block as usize, word, mark)
            // A program that writes beyond the end of a block may have overwritten the tag.
            && let Some(size) = (place as usize - block as usize).checked_sub(slack)
        {
            // SAFETY: a thread that has a mark has counters, which are never freed.
            let state: &ThreadCounters = unsafe { &*local.state.get().cast::<ThreadCounters>() };
            if size >= large::FROM {
                // SAFETY: guaranteed by the caller; the place of its tag.
                return unsafe { free_large(state, block, size, place) };
            }
            if GRANULES.change_near(state, block as usize, size, current(state), -1) {
                // SAFETY: as above.
                return unsafe { finish_free(state, block, size, place) };
            }
        }
    }
    // SAFETY: as the caller's; nothing was done above.
    unsafe { free_generally(block) }
}

/// Returns the address of the tag of a block for which the C library uses `chunk` bytes.
#[inline(always)]
fn place_of_tag(block: *mut u8, chunk: usize) -> *mut u64 {
    block.wrapping_add(chunk).wrapping_sub(next_allocator::OVERHEAD).cast::<u64>()
}

/// Does what [`free`] does, for a block of the table of large blocks.
///
/// # Safety
/// As for `free`; `place` is that of the block's tag.
#[inline(never)]
unsafe fn free_large(state: &ThreadCounters, block: *mut u8, size: usize, place: *mut u64) {
    if LARGE.remove(block as usize) {
        // SAFETY: guaranteed by the caller.
        return unsafe { finish_free(state, block, size, place) };
    }
    // SAFETY: guaranteed by the caller; nothing was done above.
    unsafe { free_generally(block) }
}

/// Erases the tag of a block that is no longer in its table, counts the release, and frees the
/// block.
///
/// # Safety
/// As for [`free_large`].
#[inline(always)]
unsafe fn finish_free(state: &ThreadCounters, block: *mut u8, size: usize, place: *mut u64) {
    // SAFETY: the tag of a live block.
    unsafe { place.write_unaligned(0) };
    count_pending_release(state, size);
    // SAFETY: guaranteed by the caller.
    unsafe { next_allocator::quick_free()(block) }
}

/// Returns the current component of the thread.
#[inline(always)]
fn current(state: &ThreadCounters) -> Component {
    Component(state.current.component.load(Relaxed) as u16)
}
