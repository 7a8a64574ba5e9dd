//! Live bytes of small blocks per piece of memory, so that resident memory there can be split.
//!
//! Memory is cut into regions of 4 MiB; a region in use has a leaf, a leaf has granules: pages for the first leaves,
//! larger ones later, so that the table stays small. A granule has a few slots, each with a component and its bytes,
//! and where they do not suffice a chain of further ones. The first slots of a leaf's granules stand side by side,
//! since most blocks touch no other: the working set of a program is then in few lines of the cache.
//!
//! A block counts where it begins, with its bytes there. How far it goes on beyond that granule is one
//! more word: blocks do not overlap, so there is one that does, and to note it is as quick for a block of
//! many pages as for one of two. Only very large ones are noted in each granule.
//!
//! The first thread that uses a leaf owns it and writes its own slots of each granule without atomic operations; others
//! use slots that all share. Bytes of a component are the sum over all slots: a block that one thread noted and another
//! frees is more in one and less in another. The allocator gives threads memory of their own, so nearly all is owner's
//! work.

#![allow(unsafe_code)]

mod leaf_cache;
mod near;
mod place;
mod slots;

use core::ptr;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};
use core::sync::atomic::{AtomicI32, AtomicI64, AtomicPtr, AtomicU32, AtomicUsize, compiler_fence};

use super::{ThreadCounters, large, pool};
use crate::base::arch::Errno;
use crate::base::component::{Component, LIMIT};
use crate::base::lock::SpinLock;
use crate::base::overflow_counters;
use crate::base::thread::Guard;
pub use leaf_cache::LeafCache;
use leaf_cache::{CachedLeaf, NOT_OWN};
use place::Place;

pub const REGION_SHIFT: u32 = 22;
pub const PAGE_SHIFT: u32 = 12;

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
/// The same in the word that tells how far a block goes on.
const BEYOND_SHIFT: u32 = 8;
/// Blocks from this size on are noted in each granule: nothing goes on further.
const FAR: usize = large::FROM;

/// Beside the first.
const OWN_SLOTS: usize = 6;
const SHARED_SLOTS: usize = 3;
const FURTHER_SLOTS: usize = 7;

/// Number of chained groups of slots there can be. Bytes that find none are added up without a
/// name.
const FURTHER: usize = 32 * 1024;

/// The owner's first slot of a granule: a component in the low bits, and bytes far above. It is full at half of the
/// limit of a shared one, which the processor tells with the addition; then the owner takes over the counts that others
/// noted.
pub type First = AtomicI64;
pub const FIRST_SHIFT: u32 = 41;

/// The block that goes on beyond a granule: its component, and how many bytes do. Whoever makes or frees
/// the block writes it.
pub type Beyond = AtomicU32;

/// The part of a granule that most blocks touch, and no other.
#[repr(C, align(16))]
pub struct Front {
    pub first: First,
    pub beyond: Beyond,
}

/// Live bytes in one granule, beside those of its first slot.
#[repr(C)]
struct Granule {
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

/// One region. Behind it stand the fronts of all granules, and then the granules.
#[repr(C, align(16))]
pub struct Leaf {
    /// Address divided by the size of a region.
    region: AtomicUsize,
    /// The number of the state whose thread owns it.
    owner: AtomicU32,
    shift: AtomicU32,
}

/// Bytes of a leaf with granules of this size.
const fn size_of_leaf(shift: u32) -> usize {
    let granules = (size_of::<Front>() + size_of::<Granule>()) << (REGION_SHIFT - shift);
    (size_of::<Leaf>() + granules).next_multiple_of(align_of::<Leaf>())
}

impl Leaf {
    fn fronts(&self) -> *const Front {
        (&raw const *self).wrapping_add(1).cast()
    }

    fn place(&self, address: usize) -> Place<'_> {
        // SAFETY: its own shift.
        unsafe { self.place_by(self.shift.load(Relaxed), address) }
    }

    /// As [`Leaf::place`], without a look at the leaf's own fields.
    ///
    /// # Safety
    /// `shift` is that of the leaf.
    #[inline(always)]
    unsafe fn place_by(&self, shift: u32, address: usize) -> Place<'_> {
        let index = (address & ((1 << REGION_SHIFT) - 1)) >> shift;
        let fronts = self.fronts();
        let granules = fronts.wrapping_add(1 << (REGION_SHIFT - shift)).cast::<Granule>();
        // SAFETY: the leaf was made with a front and a granule for each that its shift needs for a region.
        let (front, granule) =
            unsafe { (&*fronts.wrapping_add(index), &*granules.wrapping_add(index)) };
        Place { first: &front.first, beyond: &front.beyond, granule }
    }
}

/// A block that goes on beyond the granule it begins in, and where it ends.
#[derive(Copy, Clone)]
struct Coming {
    component: usize,
    end: usize,
}

impl Coming {
    const NONE: Coming = Coming { component: 0, end: 0 };

    /// The one that goes on beyond a granule that ends there: this, or one that begins there.
    fn or(self, place: Place<'_>, granule_end: usize) -> Coming {
        match place.beyond.load(Acquire) {
            0 => self,
            word => Coming {
                component: (word & 0xff) as usize,
                end: granule_end + (word >> BEYOND_SHIFT) as usize,
            },
        }
    }

    /// Adds the part of it that lies between two addresses.
    fn add(self, start: usize, end: usize, into: &mut Split) {
        into.bytes[self.component] += self.end.min(end).saturating_sub(start) as i64;
    }
}

/// Leaves by region. Leaves come and stay.
pub struct Table {
    places: [AtomicPtr<Leaf>; PLACES],
    leaves: AtomicUsize,
    lock: SpinLock,
    /// Place of the next leaf, and the room left there.
    free: AtomicUsize,
    room: AtomicUsize,
    /// Groups of further slots, and how many were handed out; the first is none.
    further: AtomicPtr<Further>,
    further_used: AtomicU32,
}

fn bytes(word: u32) -> i32 {
    (word as i32) >> BYTES_SHIFT
}

fn word(component: Component, bytes: i32) -> u32 {
    (bytes as u32) << BYTES_SHIFT | u32::from(component.0 & 0xff)
}

/// Small blocks of a stretch of memory, by component.
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
    #[inline(never)]
    pub fn change(
        &self,
        state: &ThreadCounters,
        start: usize,
        length: usize,
        component: Component,
        sign: i32,
    ) {
        if !near::change(state, start, length, component, sign) {
            self.change_generally(state, start, length, component, sign);
        }
    }

    /// As [`Table::change`]; false if the fast path cannot do it, and then nothing is done.
    #[inline(always)]
    pub fn change_near(
        &self,
        state: &ThreadCounters,
        start: usize,
        length: usize,
        component: Component,
        sign: i32,
    ) -> bool {
        near::change(state, start, length, component, sign)
    }

    /// The same, of what is not in one of the slots that [`near`] looks at.
    #[inline(never)]
    fn change_generally(
        &self,
        state: &ThreadCounters,
        start: usize,
        length: usize,
        component: Component,
        sign: i32,
    ) {
        if length >= FAR {
            return self.change_each(state, start, length, component, sign);
        }
        if length == 0 {
            return;
        }
        let Some((leaf, shift, own)) = self.at_hand(state, start >> REGION_SHIFT) else {
            // No room for a leaf: nothing is known there.
            return overflow_counters::add(overflow_counters::Table::Granules);
        };
        let whole = 1_usize << shift;
        let inside = length.min(whole - (start & (whole - 1)));
        // SAFETY: as it was read from the leaf.
        let place = unsafe { leaf.place_by(shift, start) };
        if own {
            self.change_own(place, component, inside as i32 * sign);
            let current = state.current.component.load(Relaxed);
            if current == u32::from(component.0) {
                place.bring_first(current);
            }
        } else {
            self.change_shared(place.granule, component, inside as i32 * sign);
        }
        if length > inside {
            let beyond = if sign == 1 { beyond(component, length - inside) } else { 0 };
            place.beyond.store(beyond, Release);
        }
    }

    /// Notes a block in each granule.
    #[inline(never)]
    fn change_each(
        &self,
        state: &ThreadCounters,
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
                Some((leaf, shift, own)) => {
                    while at < stop {
                        let next = (((at >> shift) + 1) << shift).min(stop);
                        let amount = (next - at) as i32 * sign;
                        if own {
                            self.change_own(leaf.place(at), component, amount);
                        } else {
                            self.change_shared(leaf.place(at).granule, component, amount);
                        }
                        at = next;
                    }
                }
                // No room for a leaf: nothing is known there.
                None => {
                    overflow_counters::add(overflow_counters::Table::Granules);
                    at = stop;
                }
            }
        }
    }

    /// The leaf of a region, its shift, and whether the thread owns it. Kept at hand.
    #[inline(always)]
    fn at_hand(&self, state: &ThreadCounters, region: usize) -> Option<(&Leaf, u32, bool)> {
        let hand = state.leaves.place(region);
        if hand.region.load(Relaxed) == region
            // SAFETY: a leaf of this table, which stays.
            && let Some(leaf) = unsafe { hand.leaf.load(Relaxed).as_ref() }
        {
            return Some((leaf, hand.shift.load(Relaxed), true));
        }
        self.take_in_hand(state, hand, region)
    }

    /// The same of one that the thread does not own, or has not at hand.
    #[inline(never)]
    fn take_in_hand(
        &self,
        state: &ThreadCounters,
        hand: &CachedLeaf,
        region: usize,
    ) -> Option<(&Leaf, u32, bool)> {
        // SAFETY: a leaf of this table, which stays.
        if let Some(leaf) = unsafe { hand.leaf.load(Relaxed).as_ref() }
            && leaf.region.load(Relaxed) == region
        {
            return Some((leaf, leaf.shift.load(Relaxed), hand.region.load(Relaxed) == region));
        }
        let leaf = self.find(region).or_else(|| self.make(state, region))?;
        let own = leaf.owner.load(Relaxed) == state.number();
        let shift = leaf.shift.load(Relaxed);
        let before = region << (REGION_SHIFT - shift);
        // A handler of a signal that comes in the middle of it finds nothing here, or puts its own here.
        hand.region.store(NOT_OWN, Relaxed);
        compiler_fence(SeqCst);
        hand.leaf.store(ptr::from_ref(leaf).cast_mut(), Relaxed);
        hand.shift.store(shift, Relaxed);
        hand.granule.store(1 << shift, Relaxed);
        hand.fronts.store(leaf.fronts().wrapping_sub(before).cast_mut(), Relaxed);
        compiler_fence(SeqCst);
        hand.region.store(if own { region } else { NOT_OWN }, Relaxed);
        compiler_fence(SeqCst);
        if !ptr::eq(hand.leaf.load(Relaxed), leaf) {
            hand.region.store(NOT_OWN, Relaxed);
            hand.leaf.store(ptr::null_mut(), Relaxed);
        }
        Some((leaf, shift, own))
    }

    fn find(&self, region: usize) -> Option<&Leaf> {
        self.place(region).1
    }

    /// Place of the leaf of a region, made or not.
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

    fn make(&self, state: &ThreadCounters, region: usize) -> Option<&Leaf> {
        let errno = Errno::save();
        let _guard = Guard::enter();
        self.lock.lock();
        let leaf = self.make_locked(state, region);
        self.lock.unlock();
        errno.restore();
        leaf
    }

    fn make_locked(&self, state: &ThreadCounters, region: usize) -> Option<&Leaf> {
        let (place, found) = self.place(region);
        let leaves = self.leaves.load(Relaxed);
        if found.is_some() || leaves >= MOST_LEAVES {
            return found;
        }
        let (_, shift) = *KINDS.iter().find(|(up_to, _)| leaves < *up_to)?;
        let size = size_of_leaf(shift);
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
        leaf.owner.store(state.number(), Relaxed);
        leaf.shift.store(shift, Relaxed);
        self.places[place].store(memory as *mut Leaf, Release);
        self.leaves.store(leaves + 1, Relaxed);
        Some(leaf)
    }

    /// Adds to `into` the live bytes between two addresses. False if nothing is known of some of
    /// it. Where granules are larger than the stretch, an even spread is assumed.
    pub fn split(&self, start: usize, end: usize, into: &mut Split) -> bool {
        let mut known = true;
        let mut coming = self.coming(start);
        let mut at = start;
        while at < end {
            let region_end = ((at >> REGION_SHIFT) + 1) << REGION_SHIFT;
            let stop = region_end.min(end);
            let Some(leaf) = self.find(at >> REGION_SHIFT) else {
                known = false;
                coming.add(at, stop, into);
                at = stop;
                continue;
            };
            let shift = leaf.shift.load(Relaxed);
            while at < stop {
                let granule_end = ((at >> shift) + 1) << shift;
                let next = granule_end.min(stop);
                let place = leaf.place(at);
                self.split_granule(place, (next - at) as i64, 1 << shift, into);
                coming.add(at, next, into);
                coming = coming.or(place, granule_end);
                at = next;
            }
        }
        known
    }

    /// Calls `each` with the component that worked last in each granule between two addresses, and the bytes there that
    /// are free by what is known of it. Of a granule where no block ever began nothing is.
    pub fn freed(&self, start: usize, end: usize, each: &mut dyn FnMut(Component, u64)) {
        let mut at = start;
        while at < end {
            let stop = (((at >> REGION_SHIFT) + 1) << REGION_SHIFT).min(end);
            let Some(leaf) = self.find(at >> REGION_SHIFT) else {
                at = stop;
                continue;
            };
            let shift = leaf.shift.load(Relaxed);
            while at < stop {
                let next = (((at >> shift) + 1) << shift).min(stop);
                if let Some((component, bytes)) = self.freed_in(leaf.place(at), 1 << shift) {
                    each(component, bytes.min((next - at) as u64));
                }
                at = next;
            }
        }
    }

    /// The block that begins before the granule of this address and goes on to it.
    fn coming(&self, address: usize) -> Coming {
        let mut end = address;
        if let Some(leaf) = self.find(address >> REGION_SHIFT) {
            end = address >> leaf.shift.load(Relaxed) << leaf.shift.load(Relaxed);
        }
        let furthest = end.saturating_sub(FAR);
        while end > furthest {
            // A region without a leaf may be skipped: a block that comes through it began in one before.
            let region = (end - 1) >> REGION_SHIFT;
            let Some(leaf) = self.find(region) else {
                end = region << REGION_SHIFT;
                continue;
            };
            let coming = Coming::NONE.or(leaf.place(end - 1), end);
            if coming.end > end {
                // The nearest: what was noted further away is not there any more, or ends before.
                return coming;
            }
            end = (end - 1) >> leaf.shift.load(Relaxed) << leaf.shift.load(Relaxed);
        }
        Coming::NONE
    }

    /// The number of the state that the leaf of an address belongs to.
    pub fn owner_of(&self, address: usize) -> Option<u32> {
        self.find(address >> REGION_SHIFT).map(|leaf| leaf.owner.load(Relaxed))
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

/// Returns the word that tells how far a block goes on.
pub fn beyond(component: Component, bytes: usize) -> u32 {
    (bytes as u32) << BEYOND_SHIFT | u32::from(component.0 & 0xff)
}

#[cfg(test)]
#[path = "granules_tests.rs"]
mod tests;
