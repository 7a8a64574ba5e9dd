//! The fast path of most blocks: blocks of the GNU C library in no mapping of their own, made by the object that made
//! the last one. Where a condition does not hold nothing is done, and the block goes the general way ([`blocks`]).

#![allow(unsafe_code)]

use core::sync::atomic::Ordering::Relaxed;

use super::account::{allocated_in_front, freed_in_front, left_after};
use super::blocks::{self, free_generally};
use super::{GRANULES, IN_FLIGHT, LARGE, ThreadCounters, large, next_allocator, tag};
use crate::base::component::{Component, LIMIT};
use crate::base::thread::local;
use crate::owners;

/// Blocks that take as much from the C library, or more, go the general way.
const TOO_LARGE: usize = blocks::LOOK_BEFORE_RELEASE;

/// Enters a block of `size` bytes and room for a tag, made by the C library's malloc, into the ledger. Returns the
/// block.
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
        // SAFETY: who has a caller has counters, which are never given back.
        let state: &ThreadCounters = unsafe { &*local.state.get().cast::<ThreadCounters>() };
        if let Some(left) = left_after(state, size)
            && insert(state, block as usize, size)
        {
            let place = place_of_tag(block, chunk);
            let slack = place as usize - block as usize - size;
            let word = tag::marked(block as usize, slack, state.current.mark.load(Relaxed));
            // SAFETY: the last bytes of the block, which nobody was told of.
            unsafe { place.write_unaligned(word) };
            allocated_in_front(state, left, size);
            return block;
        }
    }
    blocks::enter(block, size, caller, stack)
}

/// Frees a block, which leaves the ledger if it was one of it.
///
/// # Safety
/// As for `free`, of any block but null.
#[inline(always)]
pub unsafe fn free(block: *mut u8) {
    let local = local();
    let mark = local.mark.get();
    // Without a mark the thread has no counters, or blocks do not tell their size.
    if mark != 0
        // SAFETY: with a mark, a live block of the C library or of our own arena.
        && let Some(chunk) = unsafe { next_allocator::chunk_below(block, TOO_LARGE) }
    {
        let place = place_of_tag(block, chunk);
        // SAFETY: the last bytes of a live block.
        let word = unsafe { place.read_unaligned() };
        if let Some(slack) = tag::read_marked(block as usize, word, mark)
            // A program that writes beyond a block's end may have written to the tag.
            && let Some(size) = (place as usize - block as usize).checked_sub(slack)
        {
            // SAFETY: who has a mark has counters, which are never given back.
            let state: &ThreadCounters = unsafe { &*local.state.get().cast::<ThreadCounters>() };
            if remove(state, block as usize, size) {
                // SAFETY: the tag of a live block.
                unsafe { place.write_unaligned(0) };
                freed_in_front(state, size);
                // SAFETY: as the caller's.
                return unsafe { next_allocator::quick_free()(block) };
            }
        }
    }
    // SAFETY: as the caller's; nothing was done.
    unsafe { free_generally(block) }
}

/// The place of the tag of a block that takes `chunk` bytes from the C library.
#[inline(always)]
fn place_of_tag(block: *mut u8, chunk: usize) -> *mut u64 {
    block.wrapping_add(chunk).wrapping_sub(next_allocator::OVERHEAD).cast::<u64>()
}

/// Enters a block of the component that the thread works for into its table; false if that is not done.
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

/// Removes a block of the component that the thread works for from its table; false if that is not done.
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
