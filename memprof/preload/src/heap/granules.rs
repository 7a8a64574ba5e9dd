//! Live bytes of small blocks per piece of memory, so that what is resident there can be split.
//!
//! Memory is cut into regions of 4 MiB; a region in use has a leaf, a leaf has granules: pages for
//! the first leaves, larger ones later, so that the table stays small. A granule has a few slots, each
//! with a component and its bytes, and where they do not suffice a chain of further ones.
//!
//! The first thread that uses a leaf owns it and writes its own slots of each granule without atomic
//! operations; others use slots that all share. What a component has is the sum over all slots: a
//! block that one thread noted and another frees is more in one and less in another. The allocator gives threads memory of their own, so nearly
//! all is owner's work.

#![allow(unsafe_code)]

use core::ptr;
use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use core::sync::atomic::{AtomicI32, AtomicPtr, AtomicU32, AtomicUsize};

use super::pool;
use crate::arch::Errno;
use crate::component::{Component, LIMIT};
use crate::lock::SpinLock;
use crate::thread::{Guard, LEAVES_AT_HAND, State};

const REGION_SHIFT: u32 = 22;
const PAGE_SHIFT: u32 = 12;

/// Leaves of pages, of 64 KiB, and of 1 MiB: how many of each, and how large a granule is.
const KINDS: [(usize, u32); 3] = [(64, PAGE_SHIFT), (256, 16), (usize::MAX, 20)];

/// Places for leaves; at most three quarters are used.
const PLACES: usize = 16384;
const MOST_LEAVES: usize = PLACES / 4 * 3;
/// Memory for leaves is mapped in pieces of this size.
const PIECE: usize = 1 << 20;

/// A component in the low 8 bits, its bytes above, signed. No bytes: free for another component.
type Slot = AtomicU32;
const BYTES_SHIFT: u32 = 8;
/// Bytes of a slot from which on the owner takes over what others noted.
const FAR: i32 = 4 << 20;

const OWN_SLOTS: usize = 7;
const SHARED_SLOTS: usize = 3;
const FURTHER_SLOTS: usize = 7;

/// How many chained groups of slots there can be. What finds none is added up without a name.
const FURTHER: usize = 32 * 1024;

/// What lives in one granule.
#[repr(C)]
pub struct Granule {
    own: [Slot; OWN_SLOTS],
    /// The first of the further slots, which all share; 0 for none.
    further: AtomicU32,
    shared: [Slot; SHARED_SLOTS],
    /// Bytes of components that found no slot at all.
    rest: AtomicI32,
}

/// More slots of a granule.
#[repr(C)]
struct Further {
    slots: [Slot; FURTHER_SLOTS],
    next: AtomicU32,
}

/// One region.
#[repr(C)]
pub struct Leaf {
    /// Address divided by the size of a region.
    region: AtomicUsize,
    /// The number of the state whose thread owns it.
    owner: AtomicU32,
    shift: AtomicU32,
    granules: [Granule; 0],
}

impl Leaf {
    fn first(&self) -> *const Granule {
        (&raw const *self).cast::<u8>().wrapping_add(size_of::<Leaf>()).cast::<Granule>()
    }

    fn granule(&self, address: usize) -> &Granule {
        // SAFETY: the leaf was made with as many granules as its shift needs for a region.
        unsafe { &*self.first().add(index(address, self.shift.load(Relaxed))) }
    }
}

/// Leaves by region. Leaves come and stay.
pub struct Table {
    places: [AtomicPtr<Leaf>; PLACES],
    leaves: AtomicUsize,
    lock: SpinLock,
    /// Where the next leaf goes, and how much room is left there.
    free: AtomicUsize,
    room: AtomicUsize,
    /// Groups of further slots, and how many were handed out; the first is none.
    further: AtomicPtr<Further>,
    further_used: AtomicU32,
}

/// Which granule of its leaf an address is in.
#[inline(always)]
fn index(address: usize, shift: u32) -> usize {
    (address & ((1 << REGION_SHIFT) - 1)) >> shift
}

fn bytes(word: u32) -> i32 {
    (word as i32) >> BYTES_SHIFT
}

#[inline]
fn word(component: Component, bytes: i32) -> u32 {
    (bytes as u32) << BYTES_SHIFT | u32::from(component.0 & 0xff)
}

/// What a stretch of memory holds of small blocks.
pub struct Split {
    pub bytes: [i64; LIMIT],
    /// Bytes of which only the granule is known.
    pub rest: i64,
}

impl Table {
    pub const fn new() -> Table {
        Table {
            places: [const { AtomicPtr::new(ptr::null_mut()) }; PLACES],
            leaves: AtomicUsize::new(0),
            lock: SpinLock::new(),
            free: AtomicUsize::new(0),
            room: AtomicUsize::new(0),
            further: AtomicPtr::new(ptr::null_mut()),
            further_used: AtomicU32::new(1),
        }
    }

    /// A block of `length` bytes came (`sign` 1) or went (-1).
    #[inline(always)]
    pub fn change(
        &self,
        state: &State,
        start: usize,
        length: usize,
        component: Component,
        sign: i32,
    ) {
        let region = start >> REGION_SHIFT;
        let hand = &state.leaves[region % LEAVES_AT_HAND];
        let last = start.wrapping_add(length).wrapping_sub(1);
        // One region, and a length of more than nothing.
        let at_hand =
            hand.region.load(Relaxed) == region as u64 && (start ^ last) >> REGION_SHIFT == 0;
        if at_hand && hand.own.load(Relaxed) != 0 {
            let shift = hand.shift.load(Relaxed);
            let granules = hand.granules.load(Relaxed);
            let (first, last) = (index(start, shift), index(last, shift));
            // SAFETY: the leaf of the region has as many granules as its shift needs, and stays.
            let granule = unsafe { &*granules.add(first) };
            if first == last {
                self.change_own(granule, component, length as i32 * sign);
            } else {
                self.change_run(
                    granule,
                    last.wrapping_sub(first),
                    (start, length, shift),
                    component,
                    sign,
                );
            }
        } else {
            self.change_some(state, start, length, component, sign);
        }
    }

    /// Where more than one region is concerned, or another thread's, or one not at hand.
    #[cold]
    #[inline(never)]
    fn change_some(
        &self,
        state: &State,
        start: usize,
        length: usize,
        component: Component,
        sign: i32,
    ) {
        let (mut at, end) = (start, start + length);
        while at < end {
            let region_end = ((at >> REGION_SHIFT) + 1) << REGION_SHIFT;
            let stop = region_end.min(end);
            match self.at_hand(state, at >> REGION_SHIFT) {
                Some((leaf, own)) => {
                    let shift = leaf.shift.load(Relaxed);
                    while at < stop {
                        let next = (((at >> shift) + 1) << shift).min(stop);
                        let amount = (next - at) as i32 * sign;
                        if own {
                            self.change_own(leaf.granule(at), component, amount);
                        } else {
                            self.change_shared(leaf.granule(at), component, amount);
                        }
                        at = next;
                    }
                }
                // No room for a leaf: nothing is known there.
                None => at = stop,
            }
        }
    }

    /// The leaf of a region, and whether the thread owns it. Kept at hand.
    fn at_hand(&self, state: &State, region: usize) -> Option<(&Leaf, bool)> {
        let hand = &state.leaves[region % LEAVES_AT_HAND];
        let granules = hand.granules.load(Relaxed);
        if hand.region.load(Relaxed) == region as u64 && !granules.is_null() {
            let leaf = granules.cast::<u8>().wrapping_sub(size_of::<Leaf>()).cast::<Leaf>();
            // SAFETY: granules stand behind the head of their leaf, which stays.
            return Some((unsafe { &*leaf }, hand.own.load(Relaxed) != 0));
        }
        let leaf = self.find(region).or_else(|| self.make(state, region))?;
        let own = leaf.owner.load(Relaxed) == state.number.load(Relaxed);
        hand.region.store(region as u64, Relaxed);
        hand.granules.store(leaf.first().cast_mut(), Relaxed);
        hand.shift.store(leaf.shift.load(Relaxed), Relaxed);
        hand.own.store(u32::from(own), Relaxed);
        Some((leaf, own))
    }

    fn find(&self, region: usize) -> Option<&Leaf> {
        self.place(region).1
    }

    /// Where the leaf of a region is or would be.
    fn place(&self, region: usize) -> (usize, Option<&Leaf>) {
        let mut place =
            ((region as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40) as usize % PLACES;
        loop {
            // SAFETY: a leaf of this table, which stays.
            match unsafe { self.places[place].load(Acquire).as_ref() } {
                Some(leaf) if leaf.region.load(Relaxed) != region => place = (place + 1) % PLACES,
                found => return (place, found),
            }
        }
    }

    fn make(&self, state: &State, region: usize) -> Option<&Leaf> {
        let errno = Errno::save();
        let _guard = Guard::enter();
        self.lock.lock();
        let leaf = self.make_locked(state, region);
        self.lock.unlock();
        errno.restore();
        leaf
    }

    fn make_locked(&self, state: &State, region: usize) -> Option<&Leaf> {
        let (place, found) = self.place(region);
        let leaves = self.leaves.load(Relaxed);
        if found.is_some() || leaves >= MOST_LEAVES {
            return found;
        }
        let (_, shift) = *KINDS.iter().find(|(up_to, _)| leaves < *up_to)?;
        let size = size_of::<Leaf>() + size_of::<Granule>() * (1 << (REGION_SHIFT - shift));
        if self.room.load(Relaxed) < size {
            let piece = pool::map(PIECE);
            if piece.is_null() {
                return None;
            }
            self.free.store(piece as usize, Relaxed);
            self.room.store(PIECE, Relaxed);
        }
        let memory = self.free.load(Relaxed);
        self.free.store(memory + size, Relaxed);
        self.room.store(self.room.load(Relaxed) - size, Relaxed);
        // SAFETY: fresh memory of zeroes, which is a leaf whose granules are empty. Sizes of leaves
        // are multiples of 16, and so are addresses.
        let leaf = unsafe { &*(memory as *const Leaf) };
        leaf.region.store(region, Relaxed);
        leaf.owner.store(state.number.load(Relaxed), Relaxed);
        leaf.shift.store(shift, Relaxed);
        self.places[place].store(memory as *mut Leaf, Release);
        self.leaves.store(leaves + 1, Relaxed);
        Some(leaf)
    }

    /// Adds to `into` what lives between two addresses. False if nothing is known of some of it.
    /// Where granules are larger than what is asked for, an even spread is assumed.
    pub fn split(&self, start: usize, end: usize, into: &mut Split) -> bool {
        let mut known = true;
        let mut at = start;
        while at < end {
            let region_end = ((at >> REGION_SHIFT) + 1) << REGION_SHIFT;
            let stop = region_end.min(end);
            let Some(leaf) = self.find(at >> REGION_SHIFT) else {
                known = false;
                at = stop;
                continue;
            };
            let shift = leaf.shift.load(Relaxed);
            while at < stop {
                let next = (((at >> shift) + 1) << shift).min(stop);
                self.split_granule(leaf.granule(at), (next - at) as i64, 1 << shift, into);
                at = next;
            }
        }
        known
    }

    /// True if small blocks lived in this region at some time.
    pub fn knows(&self, address: usize) -> bool {
        self.find(address >> REGION_SHIFT).is_some()
    }

    pub fn before_fork(&self) {
        self.lock.lock();
    }

    pub fn after_fork(&self) {
        self.lock.unlock();
    }
}

impl Table {
    /// A block that begins in one granule and ends `further` granules on, in the same leaf. An empty
    /// block that begins at the edge of a granule ends before it begins.
    #[inline(never)]
    fn change_run(
        &self,
        first: &Granule,
        further: usize,
        (start, length, shift): (usize, usize, u32),
        component: Component,
        sign: i32,
    ) {
        let whole = 1_usize << shift;
        if length == 0 {
            return;
        }
        let head = whole - (start & (whole - 1));
        self.change_own(first, component, head as i32 * sign);
        let mut left = length - head;
        for step in 1..=further {
            // SAFETY: the leaf goes on at least to where the block ends.
            let granule = unsafe { &*(&raw const *first).add(step) };
            self.change_own(granule, component, left.min(whole) as i32 * sign);
            left = left.saturating_sub(whole);
        }
    }

    #[inline(always)]
    fn change_own(&self, granule: &Granule, component: Component, amount: i32) {
        let first = &granule.own[0];
        let before = first.load(Relaxed);
        let after = before.wrapping_add((amount as u32) << BYTES_SHIFT);
        if before & 0xff == u32::from(component.0) && is_near(after) {
            first.store(after, Relaxed);
        } else {
            self.change_other(granule, component, amount);
        }
    }

    #[inline(never)]
    fn change_other(&self, granule: &Granule, component: Component, amount: i32) {
        for slot in &granule.own {
            let before = slot.load(Relaxed);
            if before & 0xff == u32::from(component.0) {
                let after = before.wrapping_add((amount as u32) << BYTES_SHIFT);
                slot.store(after, Relaxed);
                if !is_near(after) {
                    self.settle(granule);
                }
                return;
            }
        }
        self.claim_own(granule, component, amount);
    }

    #[cold]
    #[inline(never)]
    fn claim_own(&self, granule: &Granule, component: Component, amount: i32) {
        for attempt in 0..2 {
            if let Some(slot) = granule.own.iter().find(|slot| bytes(slot.load(Relaxed)) == 0) {
                slot.store(word(component, amount), Relaxed);
                return;
            }
            if attempt == 0 {
                self.settle(granule);
            }
        }
        self.change_shared(granule, component, amount);
    }

    /// The owner takes over what others noted for its components, which frees slots of both.
    #[cold]
    #[inline(never)]
    fn settle(&self, granule: &Granule) {
        for shared in self.shared(granule) {
            let noted = shared.load(Acquire);
            let Some(own) = granule.own.iter().find(|own| {
                let own = own.load(Relaxed);
                bytes(noted) != 0 && bytes(own) != 0 && own & 0xff == noted & 0xff
            }) else {
                continue;
            };
            if shared.compare_exchange(noted, 0, AcqRel, Relaxed).is_ok() {
                let sum = own.load(Relaxed).wrapping_add(noted & !0xff);
                own.store(sum, Relaxed);
            }
        }
    }

    /// The slots of a granule that all threads share.
    fn shared<'a>(&'a self, granule: &'a Granule) -> impl Iterator<Item = &'a Slot> {
        let chain = core::iter::successors(self.linked(&granule.further), |further| {
            self.linked(&further.next)
        });
        granule.shared.iter().chain(chain.flat_map(|further| &further.slots))
    }

    fn linked(&self, link: &AtomicU32) -> Option<&Further> {
        match link.load(Acquire) {
            0 => None,
            // SAFETY: what is linked was handed out, from memory that stays.
            index => Some(unsafe { &*self.further.load(Acquire).add(index as usize) }),
        }
    }

    #[cold]
    #[inline(never)]
    fn change_shared(&self, granule: &Granule, component: Component, amount: i32) {
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

    /// Links a new group of slots. None if there is no more.
    fn extend(&self, link: &AtomicU32) -> Option<&Further> {
        if self.further.load(Acquire).is_null() {
            let errno = Errno::save();
            let _guard = Guard::enter();
            self.lock.lock();
            if self.further.load(Relaxed).is_null() {
                let memory = pool::map(FURTHER * size_of::<Further>());
                self.further.store(memory.cast(), Release);
            }
            self.lock.unlock();
            errno.restore();
        }
        let more = |used: u32| (used < FURTHER as u32).then_some(used + 1);
        if self.further.load(Acquire).is_null() {
            return None;
        }
        let index = self.further_used.fetch_update(Relaxed, Relaxed, more).ok()?;
        // Whoever links first wins; the other group is not used again.
        let _ = link.compare_exchange(0, index, AcqRel, Acquire);
        self.linked(link)
    }

    /// Adds the share of `part` bytes of a granule of `whole`.
    fn split_granule(&self, granule: &Granule, part: i64, whole: i64, into: &mut Split) {
        let share = |bytes: i64| if part == whole { bytes } else { bytes * part / whole };
        for slot in granule.own.iter().chain(self.shared(granule)) {
            let word = slot.load(Relaxed);
            if bytes(word) != 0 {
                into.bytes[(word & 0xff) as usize] += share(i64::from(bytes(word)));
            }
        }
        into.rest += share(i64::from(granule.rest.load(Relaxed)));
    }
}

/// Not so far from nothing that both kinds of slots have to be settled.
#[inline(always)]
fn is_near(word: u32) -> bool {
    const _: () = assert!(FAR == 1 << (30 - BYTES_SHIFT));
    (word ^ word << 1) >> 31 == 0
}

/// Changes a shared slot if it is the component's (`own`) or nobody's.
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

#[cfg(test)]
#[path = "granules_tests.rs"]
mod tests;
