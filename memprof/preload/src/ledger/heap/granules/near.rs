//! The fast path of a change of a granule: the leaf is at hand and the thread's own, and the component has one of the
//! owner's slots, which holds the change. Else nothing is done.

use core::hint::select_unpredictable;
use core::sync::atomic::Ordering::{Relaxed, Release};

use super::{BYTES_SHIFT, CachedLeaf, FAR, FIRST_SHIFT, Front, Leaf, REGION_SHIFT, beyond, bytes};
use crate::base::component::Component;
use crate::ledger::heap::ThreadCounters;

/// Does what [`super::Table::change`] does; false if it cannot be done here.
#[inline(always)]
pub fn change(
    state: &ThreadCounters,
    start: usize,
    length: usize,
    component: Component,
    sign: i32,
) -> bool {
    if length.wrapping_sub(1) >= FAR - 1 {
        return false;
    }
    let Some(leaf) = own_leaf(state, start) else { return false };
    let front = front(leaf, start);
    let granule = leaf.granule.load(Relaxed) as usize;
    let room = granule - (start & (granule - 1));
    // Processors foretell badly which blocks go on beyond their granule.
    let inside = select_unpredictable(length > room, room, length);
    let amount = i64::from(inside as i32 * sign);
    let wanted = u32::from(component.0 & 0xff);
    let first = front.first.load(Relaxed);
    if first as u32 & 0xff == wanted {
        let Some(after) = first.checked_add(amount << FIRST_SHIFT) else { return false };
        front.first.store(after, Relaxed);
    } else if !change_other(state, leaf, start, amount, wanted) {
        return false;
    }
    let more = if sign == 1 { beyond(component, length - inside) } else { 0 };
    let write_sink = &state.current.write_sink;
    select_unpredictable(length > inside, &front.beyond, write_sink).store(more, Release);
    true
}

/// The same in another of the owner's slots than the first.
#[inline(never)]
fn change_other(
    state: &ThreadCounters,
    leaf: &CachedLeaf,
    start: usize,
    amount: i64,
    wanted: u32,
) -> bool {
    // What the thread works for is to come first.
    if state.current.component.load(Relaxed) == wanted {
        return false;
    }
    // SAFETY: leaves stay.
    let found: Option<&Leaf> = unsafe { leaf.leaf.load(Relaxed).as_ref() };
    let Some(place) = found.map(|found| found.place(start)) else { return false };
    let mut slots = place.granule.own.iter();
    let Some(slot) = slots.find(|slot| slot.load(Relaxed) & 0xff == wanted) else {
        return false;
    };
    let after = i64::from(bytes(slot.load(Relaxed))) + amount;
    if after.abs() > MOST {
        return false;
    }
    slot.store((after << BYTES_SHIFT) as u32 | wanted, Relaxed);
    true
}

/// The leaf that an address is in, if it is at hand and the calling thread's own.
#[inline(always)]
fn own_leaf(state: &ThreadCounters, address: usize) -> Option<&CachedLeaf> {
    let region = address >> REGION_SHIFT;
    let leaf = state.leaves.place(region);
    (leaf.region.load(Relaxed) == region).then_some(leaf)
}

/// What most blocks touch of the granule that an address is in.
#[inline(always)]
fn front(leaf: &CachedLeaf, address: usize) -> &Front {
    let granule = address.wrapping_shr(leaf.shift.load(Relaxed));
    // SAFETY: of a leaf of the thread's own, which stays; the granules before its region are taken off the address of
    // the fronts.
    unsafe { &*leaf.fronts.load(Relaxed).wrapping_add(granule) }
}

/// The most in one of the owner's slots: half of what a shared one holds, so that it is full before they are.
pub const MOST: i64 = (i32::MAX as i64 >> BYTES_SHIFT) / 2;
