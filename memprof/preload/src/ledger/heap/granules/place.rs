//! One granule and the slots that its owner writes.

use core::sync::atomic::Ordering::Relaxed;

use super::near::MOST;
use super::{BYTES_SHIFT, FIRST_SHIFT, First, Granule, Overhang, bytes};

/// A granule, with its first slot and its overhang word.
#[derive(Copy, Clone)]
pub struct GranuleSlots<'a> {
    pub first: &'a First,
    pub beyond: &'a Overhang,
    pub granule: &'a Granule,
}

impl GranuleSlots<'_> {
    /// Returns the component and bytes of each of the owner's slots.
    pub fn own(self) -> impl Iterator<Item = (u32, i64)> {
        let first = self.first.load(Relaxed);
        let others = self.granule.own.iter().map(|slot| slot.load(Relaxed));
        core::iter::once((first as u32 & 0xff, first >> FIRST_SHIFT))
            .chain(others.map(|slot| (slot & 0xff, i64::from(bytes(slot)))))
    }

    /// Writes one of the owner's slots. Returns false if the slot cannot hold as many bytes.
    pub fn set_own(self, which: usize, component: u32, bytes: i64) -> bool {
        let shift = if which == 0 { FIRST_SHIFT } else { BYTES_SHIFT };
        if bytes.abs() > MOST {
            return false;
        }
        let word = bytes << shift | i64::from(component);
        match which {
            0 => self.first.store(word, Relaxed),
            _ => self.granule.own[which - 1].store(word as u32, Relaxed),
        }
        true
    }

    /// Adds to the slot of a component, or takes a slot with no bytes. Returns false if there is no
    /// such slot, or the slot cannot hold as many bytes.
    pub fn add_own(self, component: u32, amount: i64) -> bool {
        let first = self.first.load(Relaxed);
        if first as u32 & 0xff == component {
            return self.set_own(0, component, (first >> FIRST_SHIFT) + amount);
        }
        let mut free = (first >> FIRST_SHIFT == 0).then_some(0);
        for (index, slot) in self.granule.own.iter().enumerate() {
            let word = slot.load(Relaxed);
            if word & 0xff == component {
                return self.set_own(index + 1, component, i64::from(bytes(word)) + amount);
            }
            if free.is_none() && bytes(word) == 0 {
                free = Some(index + 1);
            }
        }
        free.is_some_and(|which| self.set_own(which, component, amount))
    }

    /// Swaps slots so that the first one holds the current component of the thread, if the
    /// component has a slot: the fast path checks only the first. Otherwise a component that shares
    /// a page with bytes left by another would take the general path as long as both have live
    /// bytes, and the cost of a block would depend on its address. A concurrent reader may miss one
    /// of the two components, or count it twice, in this granule for one read.
    pub fn bring_first(self, component: u32) {
        let word = self.first.load(Relaxed);
        let (first, held) = (word as u32 & 0xff, word >> FIRST_SHIFT);
        if first == component {
            return;
        }
        let others = self.granule.own.iter().map(|slot| slot.load(Relaxed));
        if let Some((index, other)) =
            others.enumerate().find(|(_, other)| other & 0xff == component)
            && self.set_own(index + 1, first, held)
        {
            self.set_own(0, component, i64::from(bytes(other)));
        }
    }
}
