//! Fast paths of a change of a granule. They apply if the thread owns the leaf and has it cached,
//! and if the owner's first slot, or another one, holds the component and has room for the change.
//! Otherwise nothing is done.

use core::hint::select_unpredictable;
use core::sync::atomic::Ordering::{Relaxed, Release};

use super::{
    BYTES_SHIFT, CachedLeaf, FAR, FIRST_SHIFT, HotSlot, Leaf, REGION_SHIFT, beyond, bytes,
};
use crate::base::component::Component;
use crate::ledger::heap::ThreadCounters;

/// Does what [`super::Table::change`] does, in the owner's first slot. Returns false, with nothing
/// changed, if the fast path does not apply.
#[inline(always)]
pub fn change_first(
    state: &ThreadCounters,
    start: usize,
    length: usize,
    component: Component,
    sign: i32,
) -> bool {
    change(state, start, length, component, sign, |_, _, _| false)
}

/// Does what [`change_first`] does, in any of the owner's slots.
#[inline(always)]
pub fn change_any(
    state: &ThreadCounters,
    start: usize,
    length: usize,
    component: Component,
    sign: i32,
) -> bool {
    change(state, start, length, component, sign, |leaf, amount, wanted| {
        change_other(state, leaf, start, amount, wanted)
    })
}

/// Changes the granule of a block. `change_other` changes another slot than the first.
#[inline(always)]
fn change(
    state: &ThreadCounters,
    start: usize,
    length: usize,
    component: Component,
    sign: i32,
    change_other: impl FnOnce(&CachedLeaf, i64, u32) -> bool,
) -> bool {
    if length.wrapping_sub(1) >= FAR - 1 {
        return false;
    }
    let Some(leaf) = own_leaf(state, start) else { return false };
    let front = front(leaf, start);
    let granule = leaf.granule.load(Relaxed) as usize;
    let room = granule - (start & (granule - 1));
    // Whether a block extends beyond its granule is hard to predict, so the code avoids a branch.
    let inside = select_unpredictable(length > room, room, length);
    let amount = i64::from(inside as i32 * sign);
    let wanted = u32::from(component.0 & 0xff);
    let first = front.first.load(Relaxed);
    if first as u32 & 0xff == wanted {
        let Some(after) = first.checked_add(amount << FIRST_SHIFT) else { return false };
        front.first.store(after, Relaxed);
    } else if !change_other(leaf, amount, wanted) {
        return false;
    }
    let more = if sign == 1 { beyond(component, length - inside) } else { 0 };
    let write_sink = &state.current.write_sink;
    select_unpredictable(length > inside, &front.beyond, write_sink).store(more, Release);
    true
}

/// Changes one of the owner's slots other than the first.
#[inline(never)]
fn change_other(
    state: &ThreadCounters,
    leaf: &CachedLeaf,
    start: usize,
    amount: i64,
    wanted: u32,
) -> bool {
    // The slot of the thread's current component must become the first one, which the general path
    // does.
    if state.current.component.load(Relaxed) == wanted {
        return false;
    }
    // SAFETY: leaves are never freed.
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

/// Returns the leaf of an address, if the calling thread owns the leaf and has it cached.
#[inline(always)]
fn own_leaf(state: &ThreadCounters, address: usize) -> Option<&CachedLeaf> {
    let region = address >> REGION_SHIFT;
    let leaf = state.leaves.place(region);
    (leaf.region.load(Relaxed) == region).then_some(leaf)
}

/// Returns the front of the granule of an address.
#[inline(always)]
fn front(leaf: &CachedLeaf, address: usize) -> &HotSlot {
    let granule = address.wrapping_shr(leaf.shift.load(Relaxed));
    // SAFETY: the front belongs to a leaf that the thread owns, which is never freed; the address
    // of the fronts was reduced by the granules before the leaf's region.
    unsafe { &*leaf.fronts.load(Relaxed).wrapping_add(granule) }
}

/// Limit of one of the owner's slots: half of that of a shared slot, so that the owner's slot is
/// full first.
pub const MOST: i64 = (i32::MAX as i64 >> BYTES_SHIFT) / 2;
