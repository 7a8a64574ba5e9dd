//! The way that most blocks go: small ones of the GNU C library, made by the object that the last was made
//! by, in memory that the thread used before. All is asked first and then noted; where one answer is
//! no, nothing was done, and the general way is taken.

#![allow(unsafe_code)]

use core::sync::atomic::Ordering::Relaxed;

use super::blocks::{self, free_generally};
use super::{account, large, real, spot, tag};
use crate::component::Component;
use crate::thread::{Current, Own, State, local};
use crate::{arch, objects};

/// Blocks that take as much from the C library are not for here.
const TOO_LARGE: usize = large::FROM;

/// A block that the C library's malloc made of `size` bytes and room for a tag becomes one of the ledger.
/// Gives the block. Keeps no frame, saves no register and calls nothing: every other way is a jump. The
/// fourth argument is none, since the processor shifts by that register.
#[inline(never)]
pub extern "C-unwind" fn enter(
    block: *mut u8,
    size: usize,
    caller: usize,
    _: usize,
    stack: usize,
) -> *mut u8 {
    let local = local();
    // SAFETY: a live block of the C library.
    if unsafe { real::chunk_below(block, TOO_LARGE) }.is_some()
        && objects::is_same_caller(local, caller)
    {
        // SAFETY: who has a caller has counters, which are never given back.
        let state: &State = unsafe { &*local.state.get() };
        let amount = (size as i64) << Current::SHIFT;
        if amount != 0
            && let Some(spot) = spot::own_spot(state, block as usize)
        {
            if spot.goes_on(block as usize, size) {
                return enter_beyond(block, size, state, 0, stack);
            }
            if let Some(after) = spot.after(state, amount)
                && let Some(left) = left_after(state, amount)
            {
                spot.note(after);
                return finish(block, size, state, left, amount);
            }
        }
    }
    enter_generally(block, size, 0, 0, stack)
}

/// What the countdown says after a block, if it does not end.
#[inline(always)]
fn left_after(state: &State, amount: i64) -> Option<i64> {
    // SAFETY: this thread's own.
    let left = unsafe { state.current.countdown.own() } - amount + 1;
    (left >= 0).then_some(left)
}

/// Nothing was done.
#[inline(never)]
extern "C-unwind" fn enter_generally(
    block: *mut u8,
    size: usize,
    _: usize,
    _: usize,
    stack: usize,
) -> *mut u8 {
    blocks::enter(block, size, arch::caller(stack), stack)
}

/// Goes on where the block does not end in the granule it begins in.
#[inline(never)]
extern "C-unwind" fn enter_beyond(
    block: *mut u8,
    size: usize,
    state: &State,
    _: usize,
    stack: usize,
) -> *mut u8 {
    let amount = (size as i64) << Current::SHIFT;
    if let Some(spot) = spot::own_spot(state, block as usize)
        && let room = spot.room(block as usize)
        && let Some(after) = spot.after(state, (room as i64) << Current::SHIFT)
        && let Some(left) = left_after(state, amount)
    {
        spot.note(after);
        spot.note_beyond(state, size - room);
        return finish(block, size, state, left, amount);
    }
    enter_generally(block, size, 0, 0, stack)
}

/// What is left to do when the granules know.
#[inline(always)]
fn finish(block: *mut u8, size: usize, state: &State, left: i64, amount: i64) -> *mut u8 {
    state.current.countdown.store(left, Relaxed);
    // SAFETY: as when it was asked for first: to read it again is as quick as to keep it.
    let chunk = unsafe { real::chunk(block) };
    // SAFETY: this thread's own.
    let mark = unsafe { state.current.mark.own() };
    let word = tag::marked(block as usize, chunk - real::OVERHEAD - size, mark);
    // SAFETY: the last bytes of the block, which nobody was told of.
    unsafe { block.add(chunk - real::OVERHEAD).cast::<u64>().write_unaligned(word) };
    // SAFETY: as before.
    let room = unsafe { state.current.room.own() } - amount;
    if room < 0 {
        return raise(block, state, room);
    }
    state.current.room.store(room, Relaxed);
    arch::unknown(block)
}

/// Goes on where the thread never had as much. Gives the block.
#[inline(never)]
fn raise(block: *mut u8, state: &State, room: i64) -> *mut u8 {
    if Current::most(state.current.raise(room)) > account::most() {
        account::fold_both(state, current(state));
    }
    arch::unknown(block)
}

fn current(state: &State) -> Component {
    Component(state.current.component.load(Relaxed) as u16)
}

/// Frees a block, which leaves the ledger if it was one of it. Keeps no frame: every other way is a jump.
///
/// # Safety
/// As for `free`.
#[inline(always)]
pub unsafe fn free(block: *mut u8) {
    let local = local();
    let mark = local.mark.get();
    if mark == 0 {
        // The thread has no counters, or blocks do not tell their size.
        // SAFETY: as the caller's.
        return unsafe { free_generally(block) };
    }
    // SAFETY: a live block of the C library or of our own arena.
    if let Some(chunk) = unsafe { real::chunk_below(block, TOO_LARGE) } {
        let place = block.wrapping_add(chunk).wrapping_sub(real::OVERHEAD).cast::<u64>();
        // SAFETY: the last bytes of a live block.
        let word = unsafe { place.read_unaligned() };
        if let Some(slack) = tag::read_marked(block as usize, word, mark) {
            let size = chunk as isize - slack as isize;
            // SAFETY: who has a mark has counters, which are never given back.
            let state: &'static State = unsafe { &*local.state.get() };
            if size > real::OVERHEAD as isize
                && let Some(spot) = spot::own_spot(state, block as usize)
            {
                let size = size as usize - real::OVERHEAD;
                if spot.goes_on(block as usize, size) {
                    // SAFETY: as the caller's.
                    return unsafe { free_beyond(block, size, place, state) };
                }
                let amount = (size as i64) << Current::SHIFT;
                if let Some(after) = spot.after_less(state, amount) {
                    spot.note(after);
                    // SAFETY: as the caller's.
                    return unsafe { release(block, place, state, amount) };
                }
            }
        }
    }
    // SAFETY: as the caller's; nothing was done.
    unsafe { free_generally(block) }
}

/// Goes on where the block does not end in the granule it begins in.
#[inline(never)]
unsafe fn free_beyond(block: *mut u8, size: usize, place: *mut u64, state: &State) {
    if let Some(spot) = spot::own_spot(state, block as usize) {
        let room = spot.room(block as usize);
        if let Some(after) = spot.after_less(state, (room as i64) << Current::SHIFT) {
            spot.note(after);
            spot.note_beyond(state, 0);
            // SAFETY: as the caller's.
            return unsafe { release(block, place, state, (size as i64) << Current::SHIFT) };
        }
    }
    // SAFETY: as the caller's; nothing was done.
    unsafe { free_generally(block) }
}

/// What is left to do when the granules know.
#[inline(always)]
unsafe fn release(block: *mut u8, place: *mut u64, state: &State, amount: i64) {
    // SAFETY: the tag of a live block.
    unsafe { place.write_unaligned(0) };
    // SAFETY: this thread's own.
    let room = unsafe { state.current.room.own() } + amount + 1;
    state.current.room.store(room, Relaxed);
    if room > account::most() {
        // SAFETY: as the caller's.
        return unsafe { free_and_fold(block, state) };
    }
    // SAFETY: as the caller's.
    unsafe { real::quick_free()(block) }
}

/// Goes on where much was freed.
#[cold]
#[inline(never)]
unsafe fn free_and_fold(block: *mut u8, state: &State) {
    account::fold_both(state, current(state));
    // SAFETY: as for the other.
    unsafe { real::quick_free()(block) }
}
