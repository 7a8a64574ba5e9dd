//! The quick way to the granule that a block begins in: a leaf at hand that the thread owns, whose first
//! slot is of the component that the thread works for.

#![allow(unsafe_code)]

use core::sync::atomic::Ordering::{Relaxed, Release};

use super::granules::{Front, REGION_SHIFT, beyond};
use crate::component::Component;
use crate::thread::{LEAVES_AT_HAND, Own, State};

/// Where a block begins in a leaf that the calling thread owns.
#[derive(Copy, Clone)]
pub struct Spot {
    front: *const Front,
    /// The address divided by the size of granules.
    index: usize,
    shift: u32,
}

/// Where a block begins, if its leaf is at hand and the thread's own.
#[inline(always)]
pub fn own_spot(state: &State, address: usize) -> Option<Spot> {
    let region = address >> REGION_SHIFT;
    let at = region % LEAVES_AT_HAND;
    let hand = &state.leaves;
    // SAFETY: this thread's own.
    let (here, shift, fronts) =
        unsafe { (hand.regions[at].own(), hand.shifts[at].own(), hand.fronts[at].own()) };
    if here != region {
        return None;
    }
    let index = address.wrapping_shr(shift);
    Some(Spot { front: fronts.cast_const().wrapping_add(index), index, shift })
}

impl Spot {
    #[inline(always)]
    fn front(&self) -> &Front {
        // SAFETY: of a leaf of the thread's own, which stays.
        unsafe { &*self.front }
    }

    /// Whether a block of so many bytes, at least one, goes on beyond its granule.
    #[inline(always)]
    pub fn goes_on(&self, address: usize, length: usize) -> bool {
        (address + length - 1).wrapping_shr(self.shift) != self.index
    }

    /// How much of a block that goes on lies in its granule.
    #[inline(always)]
    pub fn room(&self, address: usize) -> usize {
        (self.index + 1).wrapping_shl(self.shift) - address
    }

    /// What the first slot says, if that is of the component that the thread works for.
    #[inline(always)]
    fn slot(&self, state: &State) -> Option<i64> {
        // SAFETY: this thread's own.
        let (before, component) =
            unsafe { (self.front().first.own(), state.current.component.own()) };
        (before as u8 == component as u8).then_some(before)
    }

    /// What that says after so much more, as [`crate::thread::Current`] has it, if it holds that.
    #[inline(always)]
    pub fn after(&self, state: &State, amount: i64) -> Option<i64> {
        self.slot(state)?.checked_add(amount)
    }

    /// As [`Spot::after`], so much less.
    #[inline(always)]
    pub fn after_less(&self, state: &State, amount: i64) -> Option<i64> {
        self.slot(state)?.checked_sub(amount)
    }

    #[inline(always)]
    pub fn note(&self, after: i64) {
        self.front().first.store(after, Relaxed);
    }

    /// Notes that a block goes on for so many bytes, or none any more.
    #[inline(always)]
    pub fn note_beyond(&self, state: &State, bytes: usize) {
        // SAFETY: this thread's own.
        let component = Component(unsafe { state.current.component.own_again() } as u16);
        let word = if bytes == 0 { 0 } else { beyond(component, bytes) };
        self.front().beyond.store(word, Release);
    }
}
