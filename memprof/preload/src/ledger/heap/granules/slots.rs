//! Slots of a granule: the owner's slots, the slots that all threads share, and the chain of
//! overflow slots.

use core::sync::atomic::AtomicU32;
use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};

use super::{FURTHER, Granule, GranuleSlots, OverflowSlots, Slot, Split, Table, bytes, pool, word};
use crate::base::arch::Errno;
use crate::base::component::Component;
use crate::base::thread::Guard;

impl Table {
    pub(super) fn change_own(&self, place: GranuleSlots<'_>, component: Component, amount: i32) {
        let wanted = u32::from(component.0 & 0xff);
        for attempt in 0..2 {
            if place.add_own(wanted, i64::from(amount)) {
                return;
            }
            if attempt == 0 {
                self.merge_shared(place);
            }
        }
        self.change_shared(place.granule, component, amount);
    }

    /// Moves the shared counts of the owner's components into the owner's slots, which frees slots
    /// of both kinds.
    #[cold]
    #[inline(never)]
    fn merge_shared(&self, place: GranuleSlots<'_>) {
        for shared in self.shared(place.granule) {
            let noted = shared.load(Acquire);
            let own = |(component, own): (u32, i64)| {
                bytes(noted) != 0 && own != 0 && component == noted & 0xff
            };
            let Some(which) = place.own().position(own) else { continue };
            let Some((component, held)) = place.own().nth(which) else { continue };
            if shared.compare_exchange(noted, 0, AcqRel, Relaxed).is_ok()
                && !place.set_own(which, component, held + i64::from(bytes(noted)))
            {
                self.change_shared(place.granule, Component(component as u16), bytes(noted));
            }
        }
    }

    /// Returns the slots of a granule that all threads share.
    fn shared<'a>(&'a self, granule: &'a Granule) -> impl Iterator<Item = &'a Slot> {
        let chain = core::iter::successors(self.linked(&granule.further), |further| {
            self.linked(&further.next)
        });
        granule.shared.iter().chain(chain.flat_map(|further| &further.slots))
    }

    /// Returns the component that last used a granule, and the bytes of the granule that belong to
    /// no block that begins there; `None` if no block ever began there.
    pub(super) fn freed_in(&self, place: GranuleSlots<'_>, whole: i64) -> Option<(Component, u64)> {
        let (last, _) = place.own().next().filter(|(component, _)| *component != 0)?;
        let live = self.live_in(place).min(whole as u64);
        Some((Component(last as u16), whole as u64 - live))
    }

    /// Returns the bytes of live blocks in the granule that they begin in.
    pub(super) fn live_in(&self, place: GranuleSlots<'_>) -> u64 {
        let own: i64 = place.own().map(|(_, bytes)| bytes).sum();
        let shared: i64 =
            self.shared(place.granule).map(|slot| i64::from(bytes(slot.load(Acquire)))).sum();
        (own + shared + i64::from(place.granule.rest.load(Relaxed))).max(0) as u64
    }

    fn linked(&self, link: &AtomicU32) -> Option<&OverflowSlots> {
        match link.load(Acquire) {
            0 => None,
            // SAFETY: a linked index was handed out, and its memory is never freed.
            index => Some(unsafe { &*self.further.load(Acquire).add(index as usize) }),
        }
    }

    #[cold]
    #[inline(never)]
    pub(super) fn change_shared(&self, granule: &Granule, component: Component, amount: i32) {
        for own in [true, false] {
            if self.shared(granule).any(|slot| change_slot(slot, component, amount, own)) {
                return;
            }
        }
        let mut link = &granule.further;
        while let Some(further) = self.linked(link).or_else(|| self.extend(link)) {
            if further.slots.iter().any(|slot| change_slot(slot, component, amount, false)) {
                return;
            }
            link = &further.next;
        }
        granule.rest.fetch_add(amount, Relaxed);
    }

    /// Links a new group of slots. Returns `None` if no group is left.
    fn extend(&self, link: &AtomicU32) -> Option<&OverflowSlots> {
        if self.further.load(Acquire).is_null() {
            let errno = Errno::save();
            let _guard = Guard::enter();
            self.lock.lock();
            if self.further.load(Relaxed).is_null() {
                let memory = pool::map(FURTHER * size_of::<OverflowSlots>());
                self.further.store(memory.cast(), Release);
            }
            self.lock.unlock();
            errno.restore();
        }
        let more = |used: u32| (used + 1 < FURTHER as u32).then_some(used + 1);
        if self.further.load(Acquire).is_null() {
            return None;
        }
        // Newer compilers call it by a name that older ones do not have.
        #[allow(deprecated)]
        let index = self.further_used.fetch_update(Relaxed, Relaxed, more).ok()? + 1;
        // The first thread to link a group wins; a second group is not used again.
        let _ = link.compare_exchange(0, index, AcqRel, Acquire);
        self.linked(link)
    }

    /// Adds the share of `part` bytes of a granule of `whole` bytes.
    pub(super) fn split_granule(
        &self,
        place: GranuleSlots<'_>,
        part: i64,
        whole: i64,
        into: &mut Split,
    ) {
        let share = |bytes: i64| if part == whole { bytes } else { bytes * part / whole };
        let mut add = |word: u32, bytes: i64| {
            if bytes != 0 {
                into.bytes[(word & 0xff) as usize] += share(bytes);
            }
        };
        for (component, bytes) in place.own() {
            add(component, bytes);
        }
        for word in self.shared(place.granule).map(|slot| slot.load(Relaxed)) {
            add(word, i64::from(bytes(word)));
        }
        into.rest += share(i64::from(place.granule.rest.load(Relaxed)));
    }
}

/// Changes a shared slot if it holds the component or, with `own` false, if it is free.
fn change_slot(slot: &Slot, component: Component, amount: i32, own: bool) -> bool {
    let mut before = slot.load(Relaxed);
    loop {
        let same = before & 0xff == u32::from(component.0);
        if !same && (own || bytes(before) != 0) {
            return false;
        }
        let held = if same { bytes(before) } else { 0 };
        let after = word(component, held.wrapping_add(amount));
        match slot.compare_exchange_weak(before, after, AcqRel, Relaxed) {
            Ok(_) => return true,
            Err(now) => before = now,
        }
    }
}
