//! The quick way to the granule that a block begins in: a leaf at hand that the thread owns, whose first
//! slot is of the component that the thread works for.

#![allow(unsafe_code)]

use core::hint::select_unpredictable;
use core::mem::offset_of;
use core::ptr;
use core::sync::atomic::Ordering::{Relaxed, Release};

use super::granules::{FIRST_SHIFT, Front, Leaf, REGION_SHIFT, beyond};
use crate::arch::unknown;
use crate::component::Component;
use crate::thread::{Hand, LEAVES_AT_HAND, Own, State};

/// The leaf that an address is in, if it is at hand and the calling thread's own.
#[inline(always)]
pub fn own_hand(state: &State, address: usize) -> Option<&Hand> {
    let region = address >> REGION_SHIFT;
    let step = region % LEAVES_AT_HAND * size_of::<Hand>();
    // As an address of its own it is computed once, and the distance to the first is part of each access.
    let base = unknown(ptr::from_ref(state).cast::<u8>().wrapping_add(step).cast_mut());
    let hand = base.wrapping_add(offset_of!(State, hands)).cast::<Hand>();
    // SAFETY: one of the state's.
    let hand = unsafe { &*hand };
    // SAFETY: this thread's own.
    (unsafe { hand.region.own() } == region).then_some(hand)
}

/// The leaf of a hand.
#[inline(always)]
pub fn leaf(hand: &Hand) -> Option<&Leaf> {
    // SAFETY: leaves stay.
    unsafe { hand.leaf.load(Relaxed).as_ref() }
}

/// Returns true if an address is in the granule where a block begins, which it is no megabytes away
/// from.
#[inline(always)]
pub fn is_with(hand: &Hand, address: usize, begin: usize) -> bool {
    // SAFETY: this thread's own.
    ((begin ^ address) as u32) < unsafe { hand.granule.own() }
}

/// Beginning of a block in a leaf that the calling thread owns.
#[derive(Copy, Clone)]
pub struct Spot {
    front: *const Front,
}

/// Finds the beginning of a block, in its leaf.
#[inline(always)]
pub fn spot(hand: &Hand, address: usize) -> Spot {
    // SAFETY: this thread's own.
    let (shift, fronts) = unsafe { (hand.shift.own(), hand.fronts.own()) };
    let front = fronts.wrapping_add(address.wrapping_shr(shift));
    // So that it takes one register.
    Spot { front: unknown(front.cast()).cast_const().cast() }
}

/// Bytes from an address to the end of its granule.
#[inline(always)]
pub fn room(hand: &Hand, address: usize) -> usize {
    // SAFETY: this thread's own.
    let granule = unsafe { hand.granule.own() } as usize;
    granule - (address & (granule - 1))
}

impl Spot {
    #[inline(always)]
    pub fn front<'a>(self) -> &'a Front {
        // SAFETY: of a leaf of the thread's own, which stays.
        unsafe { &*self.front }
    }

    /// The first slot, if it is of the component that the thread works for.
    #[inline(always)]
    fn slot(&self, state: &State) -> Option<i64> {
        // SAFETY: this thread's own.
        let (before, component) =
            unsafe { (self.front().first.own(), state.current.component.own()) };
        (before as u8 == component as u8).then_some(before)
    }

    /// The slot's value after so many bytes more, if it holds that.
    #[inline(always)]
    pub fn after(&self, state: &State, bytes: usize) -> Option<i64> {
        self.slot(state)?.checked_add((bytes as i64) << FIRST_SHIFT)
    }

    /// As [`Spot::after`], so many less.
    #[inline(always)]
    pub fn after_less(&self, state: &State, bytes: usize) -> Option<i64> {
        self.slot(state)?.checked_sub((bytes as i64) << FIRST_SHIFT)
    }

    #[inline(always)]
    pub fn note(&self, after: i64) {
        self.front().first.store(after, Relaxed);
    }

    /// Notes that no block goes on any more, if the one that goes may: writes to where nobody reads if not.
    #[inline(always)]
    pub fn note_none(&self, state: &State, may: bool) {
        let (beyond, nowhere) = (&raw const self.front().beyond, &raw const state.current.nowhere);
        let place = select_unpredictable(may, beyond, nowhere);
        // SAFETY: both stay.
        unsafe { &*place }.store(0, Release);
    }

    /// Notes that a block goes on for so many bytes.
    #[inline(always)]
    pub fn note_beyond(&self, state: &State, bytes: usize) {
        // SAFETY: this thread's own.
        let component = Component(unsafe { state.current.component.own_again() } as u16);
        self.front().beyond.store(beyond(component, bytes), Release);
    }
}
