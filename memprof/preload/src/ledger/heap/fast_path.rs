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
        if let Some(left) = left_after(state, size)
            && insert(state, block as usize, size)
        {
            let place = place_of_tag(block, chunk);
            let slack = place as usize - block as usize - size;
            let word = tag::marked(block as usize, slack, state.current.mark.load(Relaxed));
            // SAFETY: the last bytes of the block, which the program does not know yet.
            unsafe { place.write_unaligned(word) };
            count_pending_allocation(state, left, size);
            return block;
        }
    }
    blocks::enter(block, size, caller, stack)
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
            if remove(state, block as usize, size) {
                // SAFETY: the tag of a live block.
                unsafe { place.write_unaligned(0) };
                count_pending_release(state, size);
                // SAFETY: guaranteed by the caller.
                return unsafe { next_allocator::quick_free()(block) };
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

/// Enters a block of the current component into its table. Returns false if the fast path cannot do
/// this.
#[inline(always)]
fn insert(state: &ThreadCounters, start: usize, size: usize) -> bool {
    let component = Component(state.current.component.load(Relaxed) as u16);
    if size < large::FROM {
        return GRANULES.change_near(state, start, size, component, 1);
    }
    insert_large(state, start, size, component)
}

#[inline(never)]
fn insert_large(state: &ThreadCounters, start: usize, size: usize, component: Component) -> bool {
    let is_inserted = LARGE.insert(start, size, component, state.number());
    if is_inserted {
        IN_FLIGHT.entered(usize::from(component.0) % LIMIT, size);
    }
    is_inserted
}

/// Removes a block of the current component from its table. Returns false if the fast path cannot
/// do this.
#[inline(always)]
fn remove(state: &ThreadCounters, start: usize, size: usize) -> bool {
    let component = Component(state.current.component.load(Relaxed) as u16);
    if size < large::FROM {
        return GRANULES.change_near(state, start, size, component, -1);
    }
    remove_large(start)
}

#[inline(never)]
fn remove_large(start: usize) -> bool {
    LARGE.remove(start)
}
