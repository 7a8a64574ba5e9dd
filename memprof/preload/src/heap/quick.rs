//! The way that most blocks go: small ones of the GNU C library, made by the object that the last was made
//! by, in memory that the thread used before. All is asked first and then noted; where one answer is
//! no, nothing was done, and the general way is taken.

#![allow(unsafe_code)]

use core::sync::atomic::Ordering::Relaxed;

use super::blocks::{self, free_generally};
use super::granules::{self, Run, Slot};
use super::{GRANULES, account, large, own_state, real, tag};
use crate::component::Component;
use crate::objects;
use crate::thread::{State, local};

/// Blocks of the C library from this size on are not for here.
const TOO_LARGE: usize = large::FROM;

/// A block that the C library's malloc made of `size` bytes and room for a tag becomes one of the ledger.
/// Gives the block. Calls nothing: every other way is a jump.
#[inline(always)]
pub fn enter(block: *mut u8, size: usize, caller: usize, stack: usize) -> *mut u8 {
    // SAFETY: a live block of the C library.
    let chunk = unsafe { real::chunk(block) }.filter(|chunk| *chunk < TOO_LARGE);
    let Some(chunk) = chunk else { return blocks::enter(block, size, caller, stack) };
    let local = local();
    let Some(owner) = objects::same_caller(local, caller) else {
        return blocks::enter(block, size, caller, stack);
    };
    // SAFETY: who has a caller has counters, which are never given back.
    let state: &State = unsafe { &*local.state.get() };
    let left = state.until_sample.load(Relaxed) - size as i64;
    if left < 0 {
        return blocks::enter(block, size, caller, stack);
    }
    let Some(leaf) = granules::own_leaf(state, block as usize) else {
        return blocks::enter(block, size, caller, stack);
    };
    let run = granules::run(leaf, size);
    if run.further != 0 {
        return enter_run(block, size, owner, state, run.first, run.rest());
    }
    if !run.change(owner, size, 1) {
        return blocks::enter(block, size, caller, stack);
    }
    finish(block, chunk, size, owner, state, left)
}

/// What is left to do when the granules know.
#[inline(always)]
fn finish(
    block: *mut u8,
    chunk: usize,
    size: usize,
    owner: Component,
    state: &State,
    left: i64,
) -> *mut u8 {
    state.until_sample.store(left, Relaxed);
    let word = tag::quick(block as usize, chunk - real::OVERHEAD - size, owner, real::key());
    // SAFETY: the last bytes of the block, which nobody was told of.
    unsafe { block.add(chunk - real::OVERHEAD).cast::<u64>().write_unaligned(word) };
    if account::allocated(state, owner, size) {
        return fold(block, owner, state);
    }
    block
}

/// Goes on where much was allocated. Gives the block.
#[cold]
#[inline(never)]
fn fold(block: *mut u8, owner: Component, state: &State) -> *mut u8 {
    account::fold_both(state, owner);
    block
}

/// Goes on where the block lies in more than one granule.
#[inline(never)]
fn enter_run(
    block: *mut u8,
    size: usize,
    owner: Component,
    state: &State,
    first: *const Slot,
    rest: usize,
) -> *mut u8 {
    GRANULES.change_run(state, Run::new(first, rest), (block as usize, size), owner, 1);
    let left = state.until_sample.load(Relaxed) - size as i64;
    // SAFETY: a block of the C library, whose size was read before.
    let chunk = unsafe { real::chunk(block) }.unwrap_or(real::OVERHEAD + size);
    finish(block, chunk, size, owner, state, left)
}

/// What the word at a block's end says, and where that is noted.
struct Found {
    place: *mut u64,
    owner: Component,
    size: usize,
    state: &'static State,
    run: Run,
}

/// Looks at a block that is to be freed.
///
/// # Safety
/// A live block of the C library or of our own arena.
#[inline(always)]
unsafe fn look(block: *mut u8) -> Option<Found> {
    // SAFETY: as the caller's.
    let chunk = unsafe { real::chunk(block) }?;
    let place = block.wrapping_add(chunk).wrapping_sub(real::OVERHEAD).cast::<u64>();
    // SAFETY: the last bytes of a live block.
    let word = unsafe { place.read_unaligned() };
    let (owner, slack) = tag::read_quick(block as usize, word, real::key())?;
    let state = own_state(local())?;
    let leaf = granules::own_leaf(state, block as usize)?;
    let size = chunk.wrapping_sub(real::OVERHEAD + slack);
    let run = granules::run(leaf, size);
    (size < TOO_LARGE).then_some(Found { place, owner, size, state, run })
}

/// Frees a block, which leaves the ledger if it was one of it. Keeps no frame: every other way is a jump.
///
/// # Safety
/// As for `free`. The block is not null, and [`real::is_quick`].
#[inline(always)]
pub unsafe fn free(block: *mut u8) {
    // SAFETY: as the caller's.
    let Some(Found { place, owner, size, state, run }) = (unsafe { look(block) }) else {
        // SAFETY: as the caller's.
        return unsafe { free_generally(block) };
    };
    if run.further != 0 {
        // SAFETY: as the caller's.
        return unsafe { free_run(block, size, owner, state, run.first, run.rest()) };
    }
    if !run.change(owner, size, -1) {
        // SAFETY: as the caller's; nothing was done.
        return unsafe { free_generally(block) };
    }
    // SAFETY: the tag of a live block.
    unsafe { place.write_unaligned(0) };
    if account::freed(state, owner, size) {
        // SAFETY: as the caller's.
        return unsafe { free_and_fold(block, owner, state) };
    }
    // SAFETY: as the caller's.
    unsafe { real::quick_free()(block) }
}

/// Goes on where the block lies in more than one granule.
#[inline(never)]
unsafe fn free_run(
    block: *mut u8,
    size: usize,
    owner: Component,
    state: &State,
    first: *const Slot,
    rest: usize,
) {
    GRANULES.change_run(state, Run::new(first, rest), (block as usize, size), owner, -1);
    // SAFETY: a live block of the C library, whose tag was read.
    unsafe {
        if let Some(chunk) = real::chunk(block) {
            block.add(chunk - real::OVERHEAD).cast::<u64>().write_unaligned(0);
        }
    }
    if account::freed(state, owner, size) {
        account::fold_both(state, owner);
    }
    // SAFETY: as the caller's, who is here because blocks tell their size.
    unsafe { real::quick_free()(block) }
}

/// Goes on where much was freed.
#[cold]
#[inline(never)]
unsafe fn free_and_fold(block: *mut u8, owner: Component, state: &State) {
    account::fold_both(state, owner);
    // SAFETY: as for the other.
    unsafe { real::quick_free()(block) }
}
