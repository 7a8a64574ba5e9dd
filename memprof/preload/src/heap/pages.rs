//! The slots of a few pages changed at once: a block of some pages costs as much as one of two, and the
//! processor has no number of pages to guess.

#![allow(unsafe_code)]

use super::granules::Slot;
use crate::component::Component;

/// How many slots are looked at.
pub const AT_ONCE: usize = 8;

/// Notes that a block came (`sign` 1) or went (-1) that begins `within` its first page, whose slot is
/// `first`, and ends at most [`AT_ONCE`] pages on. False if a slot is of another component or full: then
/// nothing was changed.
///
/// # Safety
/// From `first` on there are [`AT_ONCE`] slots that only the calling thread writes.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
pub unsafe fn change(
    first: *const Slot,
    (within, length): (usize, usize),
    component: Component,
    sign: i32,
) -> bool {
    use super::granules::{OWN_SHIFT, PAGE_SHIFT};
    use core::arch::x86_64::*;

    const PAGE: i16 = 1 << PAGE_SHIFT;
    const _: () = assert!(PAGE as usize * AT_ONCE <= 1 << 15);
    // SAFETY: arithmetic that every processor of this kind has; loads and stores of the slots.
    unsafe {
        // What lies beyond the start of each page, at most a page of it, and not what is before.
        let starts =
            _mm_setr_epi16(0, PAGE, 2 * PAGE, 3 * PAGE, 4 * PAGE, 5 * PAGE, 6 * PAGE, 7 * PAGE);
        let beyond = _mm_subs_epu16(_mm_set1_epi16((within + length) as i16), starts);
        let inside = _mm_sub_epi16(beyond, _mm_subs_epu16(beyond, _mm_set1_epi16(PAGE)));
        let bytes = _mm_sub_epi16(inside, _mm_cvtsi32_si128(within as i32));
        let zero = _mm_setzero_si128();
        let owner = _mm_set1_epi32(i32::from(component.0 & 0xff));
        let next = |slots: __m128i, bytes: __m128i| {
            let amount = _mm_slli_epi32::<{ OWN_SHIFT as i32 }>(bytes);
            // An amount is never negative, so the sign tells when a slot is full.
            let (after, full) = if sign == 1 {
                let after = _mm_add_epi32(slots, amount);
                (after, _mm_andnot_si128(slots, after))
            } else {
                let after = _mm_sub_epi32(slots, amount);
                (after, _mm_andnot_si128(after, slots))
            };
            let differs = _mm_slli_epi32::<24>(_mm_xor_si128(slots, owner));
            let is_fine =
                _mm_or_si128(_mm_cmpeq_epi32(differs, zero), _mm_cmpeq_epi32(bytes, zero));
            let full = _mm_movemask_ps(_mm_castsi128_ps(full));
            (after, full | (_mm_movemask_ps(_mm_castsi128_ps(is_fine)) ^ 0xf))
        };
        let place = first.cast::<__m128i>().cast_mut();
        let (low, bad) = next(_mm_loadu_si128(place), _mm_unpacklo_epi16(bytes, zero));
        let (high, worse) = next(_mm_loadu_si128(place.add(1)), _mm_unpackhi_epi16(bytes, zero));
        if bad | worse != 0 {
            return false;
        }
        _mm_storeu_si128(place, low);
        _mm_storeu_si128(place.add(1), high);
    }
    true
}

/// Elsewhere each page is changed by itself.
///
/// # Safety
/// None.
#[cfg(not(target_arch = "x86_64"))]
#[inline(always)]
pub unsafe fn change(_: *const Slot, _: (usize, usize), _: Component, _: i32) -> bool {
    false
}
