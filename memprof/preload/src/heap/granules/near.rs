//! The way that most changes of a granule go: the leaf is at hand and the thread's own, and the component has
//! one of the owner's slots, which holds the change. Else nothing is done.

use core::sync::atomic::Ordering::{Relaxed, Release};

use super::super::spot;
use super::{BYTES_SHIFT, FAR, FIRST_SHIFT, beyond, bytes};
use crate::component::Component;
use crate::thread::State;

/// Does the work of [`super::Table::change`], if it can be done here.
#[inline(always)]
pub fn change(state: &State, start: usize, length: usize, component: Component, sign: i32) -> bool {
    if length.wrapping_sub(1) >= FAR - 1 {
        return false;
    }
    let Some(hand) = spot::own_hand(state, start) else { return false };
    let front = spot::spot(hand, start).front();
    let inside = length.min(spot::room(hand, start));
    let amount = i64::from(inside as i32 * sign);
    let wanted = u32::from(component.0 & 0xff);
    let first = front.first.load(Relaxed);
    if first as u32 & 0xff == wanted {
        let Some(after) = first.checked_add(amount << FIRST_SHIFT) else { return false };
        front.first.store(after, Relaxed);
    } else {
        // What the thread works for is to come first.
        if state.current.component.load(Relaxed) == wanted {
            return false;
        }
        let Some(place) = spot::leaf(hand).map(|leaf| leaf.place(start)) else { return false };
        let mut slots = place.granule.own.iter();
        let Some(slot) = slots.find(|slot| slot.load(Relaxed) & 0xff == wanted) else {
            return false;
        };
        let after = i64::from(bytes(slot.load(Relaxed))) + amount;
        if after.abs() > MOST {
            return false;
        }
        slot.store((after << BYTES_SHIFT) as u32 | wanted, Relaxed);
    }
    if length > inside {
        front.beyond.store(if sign == 1 { beyond(component, length - inside) } else { 0 }, Release);
    }
    true
}

/// The most in one of the owner's slots: half of the limit of a shared one, so that it is full before they are.
pub const MOST: i64 = (i32::MAX as i64 >> BYTES_SHIFT) / 2;
