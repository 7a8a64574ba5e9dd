//! One granule and the slots that its owner writes.

use core::sync::atomic::Ordering::Relaxed;

use super::near::MOST;
use super::{BYTES_SHIFT, Beyond, FIRST_SHIFT, First, Granule, bytes};

/// A granule with its first slot, and the word that tells how far a block goes on.
#[derive(Copy, Clone)]
pub struct Place<'a> {
    pub first: &'a First,
    pub beyond: &'a Beyond,
    pub granule: &'a Granule,
}

impl Place<'_> {
    /// Component and bytes of each slot of the owner.
    pub fn own(self) -> impl Iterator<Item = (u32, i64)> {
        let first = self.first.load(Relaxed);
        let others = self.granule.own.iter().map(|slot| slot.load(Relaxed));
        core::iter::once((first as u32 & 0xff, first >> FIRST_SHIFT))
            .chain(others.map(|slot| (slot & 0xff, i64::from(bytes(slot)))))
    }

    /// Writes one of these. False if it does not hold as much.
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

    /// Adds to the slot of a component, or takes one that holds nothing. False if there is none, or it does
    /// not hold as much.
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

    /// Makes the first slot that of the component the thread works for, if that has one: the quick way looks at no
    /// other. Else a component that shares a page with bytes that another left there would take the general path for as
    /// long as both live, and the cost of a block would be a matter of addresses. Whoever reads meanwhile may miss one
    /// of the two, or see it twice, in this granule this once.
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
