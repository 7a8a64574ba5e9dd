//! The way that most blocks go: those of the GNU C library in no mapping of their own, made by the object that the
//! last was made by. All is asked first and then noted; where one answer is no, nothing was done, and the general way is taken.
//! Small ones are noted where they begin, if that is memory that the thread used before, those of 32 KiB up to 1 MiB
//! in a table.

#![allow(unsafe_code)]

use core::hint::select_unpredictable;
use core::sync::atomic::Ordering::Relaxed;

use super::blocks::{self, free_generally};
use super::{LARGE, account, large, motion, real, spot, tag};
use crate::component::Component;
use crate::thread::{Current, Own, State, local};
use crate::{arch, objects};

/// Blocks that take as much from the C library are not small.
const TOO_LARGE: usize = large::FROM;
/// And those are not for here.
const FAR_TOO_LARGE: usize = blocks::LOOK_BEFORE_RELEASE;

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
    if let Some(chunk) = unsafe { real::chunk_below(block, TOO_LARGE) }
        && objects::is_same_caller(local, caller)
    {
        // SAFETY: who has a caller has counters, which are never given back.
        let state: &State = unsafe { &*local.state.get() };
        let place = place_of_tag(block, chunk);
        if let Some(hand) = spot::own_hand(state, block as usize) {
            if !spot::is_with(hand, place as usize, block as usize) {
                return enter_beyond(block, size, state, 0, stack);
            }
            let spot = spot::spot(hand, block as usize);
            if let Some(after) = spot.after(state, size)
                && let Some(left) = left_after(state, (size as i64) << Current::SHIFT)
            {
                spot.note(after);
                return finish(block, size, state, left, place);
            }
        }
    }
    enter_large(block, size, 0, 0, stack)
}

/// Goes on where the block may be a large one; nothing was done.
#[inline(never)]
extern "C-unwind" fn enter_large(
    block: *mut u8,
    size: usize,
    _: usize,
    _: usize,
    stack: usize,
) -> *mut u8 {
    let local = local();
    if size >= large::FROM
        // SAFETY: a live block of the C library.
        && let Some(chunk) = unsafe { real::chunk_below(block, FAR_TOO_LARGE) }
        && objects::is_same_caller(local, arch::caller(stack))
    {
        // SAFETY: who has a caller has counters, which are never given back.
        let state: &State = unsafe { &*local.state.get() };
        if let Some(left) = left_after(state, (size as i64) << Current::SHIFT)
            && LARGE.insert(block as usize, size, current(state), state.number.load(Relaxed))
        {
            motion::came(current(state), size);
            return finish(block, size, state, left, place_of_tag(block, chunk));
        }
    }
    enter_generally(block, size, 0, 0, stack)
}

/// Address of a block's tag. Most blocks that do not go on beyond their granule have it there, and which do not is
/// known before how much was asked for: the header says it, which the C library reads as well.
#[inline(always)]
fn place_of_tag(block: *mut u8, chunk: usize) -> *mut u64 {
    block.wrapping_add(chunk).wrapping_sub(real::OVERHEAD).cast::<u64>()
}

/// Returns the countdown after a block, if it does not end.
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

/// Goes on where the tag is not in the granule that the block begins in.
#[inline(never)]
extern "C-unwind" fn enter_beyond(
    block: *mut u8,
    size: usize,
    state: &State,
    _: usize,
    stack: usize,
) -> *mut u8 {
    if let Some(hand) = spot::own_hand(state, block as usize)
        && let spot = spot::spot(hand, block as usize)
        && let room = spot::room(hand, block as usize)
        && let Some(after) = spot.after(state, size.min(room))
        && let Some(left) = left_after(state, (size as i64) << Current::SHIFT)
    {
        spot.note(after);
        if size > room {
            spot.note_beyond(state, size - room);
        }
        // SAFETY: as when it was asked for first: to read it again is as quick as to keep it.
        let place = place_of_tag(block, unsafe { real::chunk(block) });
        return finish(block, size, state, left, place);
    }
    enter_generally(block, size, 0, 0, stack)
}

/// Finishes an allocation when the granules know the block.
#[inline(always)]
fn finish(block: *mut u8, size: usize, state: &State, left: i64, place: *mut u64) -> *mut u8 {
    state.current.countdown.store(left, Relaxed);
    // SAFETY: this thread's own.
    let mark = unsafe { state.current.mark.own() };
    let word = tag::marked(block as usize, place as usize - block as usize - size, mark);
    // SAFETY: the last bytes of the block, which nobody was told of.
    unsafe { place.write_unaligned(word) };
    // SAFETY: as before.
    let room = unsafe { state.current.room.own() } - ((size as i64) << Current::SHIFT);
    if room < 0 {
        return raise(block, state, room);
    }
    state.current.room.store(room, Relaxed);
    arch::unknown(block)
}

/// Goes on where the thread never had as much. Gives the block.
#[inline(never)]
fn raise(block: *mut u8, state: &State, room: i64) -> *mut u8 {
    account::rise(state, room);
    arch::unknown(block)
}

fn current(state: &State) -> Component {
    Component(state.current.component.load(Relaxed) as u16)
}

/// The smaller of two, of which as often one as the other is.
#[inline(always)]
fn at_most(size: usize, most: usize) -> usize {
    select_unpredictable(size > most, most, size)
}

/// Frees a block, which leaves the ledger if it was one of it. Every other way is a jump. Whether the block
/// goes on beyond its granule is no branch here as where it was made: the processor would foretell it as
/// badly, and see late that it did, since the block's header is often in no near cache.
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
        // In one register.
        let place = arch::unknown(place_of_tag(block, chunk).cast()).cast::<u64>();
        // SAFETY: the last bytes of a live block.
        let word = unsafe { place.read_unaligned() };
        if let Some(slack) = tag::read_marked(block as usize, word, mark) {
            // SAFETY: who has a mark has counters, which are never given back.
            let state: &'static State = unsafe { &*local.state.get() };
            let size = (place as usize).wrapping_sub(block as usize).wrapping_sub(slack);
            // A program that writes beyond a block's end may have written to the tag.
            if size as isize >= 0
                && let Some(hand) = spot::own_hand(state, block as usize)
            {
                let spot = spot::spot(hand, block as usize);
                let inside = at_most(size, spot::room(hand, block as usize));
                if let Some(after) = spot.after_less(state, inside) {
                    spot.note(after);
                    spot.note_none(state, !spot::is_with(hand, place as usize, block as usize));
                    // SAFETY: as the caller's.
                    return unsafe {
                        release(block, place, state, (size as i64) << Current::SHIFT)
                    };
                }
            }
        }
    }
    // SAFETY: as the caller's; nothing was done.
    unsafe { free_large(block) }
}

/// Goes on where the block may be a large one; nothing was done.
///
/// # Safety
/// As for `free`.
#[inline(never)]
unsafe fn free_large(block: *mut u8) {
    let local = local();
    let mark = local.mark.get();
    // SAFETY: a live block of the C library or of our own arena.
    if let Some(chunk) = unsafe { real::chunk_below(block, FAR_TOO_LARGE) }
        && chunk >= TOO_LARGE
    {
        let place = place_of_tag(block, chunk);
        // SAFETY: the last bytes of a live block.
        let word = unsafe { place.read_unaligned() };
        if let Some(slack) = tag::read_marked(block as usize, word, mark)
            && let Some(size) = (place as usize - block as usize).checked_sub(slack)
            && size >= large::FROM
            && LARGE.remove(block as usize)
        {
            // SAFETY: who has a mark has counters, which are never given back.
            let state: &'static State = unsafe { &*local.state.get() };
            // SAFETY: as the caller's.
            return unsafe { release(block, place, state, (size as i64) << Current::SHIFT) };
        }
    }
    // SAFETY: as the caller's; nothing was done.
    unsafe { free_generally(block) }
}

/// Finishes a free when the granules know the block.
#[inline(always)]
unsafe fn release(block: *mut u8, place: *mut u64, state: &State, amount: i64) {
    // SAFETY: the tag of a live block.
    unsafe { place.write_unaligned(0) };
    // SAFETY: this thread's own.
    let room = unsafe { state.current.room.own() } + amount + 1;
    state.current.room.store(room, Relaxed);
    if room > account::most() {
        // SAFETY: as the caller's.
        return unsafe { free_and_fold(block, state, (amount >> Current::SHIFT) as usize) };
    }
    // SAFETY: as the caller's.
    unsafe { real::quick_free()(block) }
}

/// Goes on where much was freed.
#[cold]
#[inline(never)]
unsafe fn free_and_fold(block: *mut u8, state: &State, size: usize) {
    account::fold_if_low(state, size);
    // SAFETY: as for the other.
    unsafe { real::quick_free()(block) }
}
