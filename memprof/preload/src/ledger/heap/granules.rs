//! Live bytes of small blocks per granule of memory, so that resident memory can be split among
//! components.
//!
//! Memory is divided into regions of 4 MiB. A region in use has a leaf, and a leaf has granules:
//! pages for the first leaves, larger granules for later ones, so that the table stays small. A
//! granule has a few slots, each with a component and its bytes, and a chain of overflow slots
//! where those do not suffice. The first slots of a leaf's granules are contiguous, since most
//! blocks touch no other slot: the working set of a program is then in few cache lines.
//!
//! A block is counted in the granule where it begins, with its bytes in that granule. Its overhang,
//! the number of bytes beyond that granule, takes one more word: blocks do not overlap, so at most
//! one block per granule has an overhang, and to record it costs the same for a block of many pages
//! as for one of two. Only very large blocks are recorded in each granule.
//!
//! The first thread that uses a leaf owns the leaf and writes its own slots of each granule without
//! atomic operations; other threads use shared slots. The bytes of a component are the sum over all
//! slots: a block that one thread allocates and another frees adds to one slot and subtracts from
//! another. The allocator gives each thread separate memory, so nearly all changes are made by the
//! owner.

#![allow(unsafe_code)]

mod near;
mod place;
mod slots;

use core::ptr;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};
use core::sync::atomic::{AtomicI32, AtomicPtr, AtomicU32, AtomicUsize, compiler_fence};

use super::leaf::{FIRST_SHIFT, First, HotSlot, Leaf, Overhang};
use super::leaf_cache::{CachedLeaf, NOT_OWN};
use super::{ThreadCounters, large, pool};
use crate::base::arch::Errno;
use crate::base::component::{Component, LIMIT};
use crate::base::lock::SpinLock;
use crate::base::overflow_counters;
use crate::base::thread::Guard;
use place::GranuleSlots;

pub const REGION_SHIFT: u32 = 22;
pub const PAGE_SHIFT: u32 = 12;

/// Kinds of leaves, with granules of one page, 64 KiB, and 1 MiB: up to how many leaves, and the
/// granule size as a power of two.
const KINDS: [(usize, u32); 3] = [(64, PAGE_SHIFT), (256, 16), (usize::MAX, 20)];

/// Entries for leaves; at most three quarters are used.
const PLACES: usize = 16384;
const MOST_LEAVES: usize = PLACES / 4 * 3;
/// Size of the pieces in which memory for leaves is mapped.
const PIECE: usize = 1 << 20;

/// A component in the low 8 bits, and its bytes above, signed. A slot with no bytes is free for
/// another component.
type Slot = AtomicU32;
const BYTES_SHIFT: u32 = 8;
/// Position of the bytes in an overhang word ([`Overhang`]).
const BEYOND_SHIFT: u32 = 8;
/// Blocks of this size and larger are recorded in each granule, so no overhang is longer.
const FAR: usize = large::FROM;

/// Owner's slots of a granule other than the first.
const OWN_SLOTS: usize = 6;
const SHARED_SLOTS: usize = 3;
const FURTHER_SLOTS: usize = 7;

/// Maximum number of chained groups of slots. Bytes that find no slot are added up without a
/// component.
const FURTHER: usize = 32 * 1024;

/// Live bytes in one granule, without the bytes in its first slot.
#[repr(C)]
struct Granule {
    own: [Slot; OWN_SLOTS],
    /// Index of the first group of overflow slots, shared by all threads; 0 for none.
    further: AtomicU32,
    shared: [Slot; SHARED_SLOTS],
    /// Bytes of components that found no slot.
    rest: AtomicI32,
}

/// A group of overflow slots of a granule.
#[repr(C)]
struct OverflowSlots {
    slots: [Slot; FURTHER_SLOTS],
    next: AtomicU32,
}

/// Returns the size in bytes of a leaf with granules of this size.
const fn size_of_leaf(shift: u32) -> usize {
    let granules = (size_of::<HotSlot>() + size_of::<Granule>()) << (REGION_SHIFT - shift);
    (size_of::<Leaf>() + granules).next_multiple_of(align_of::<Leaf>())
}

impl Leaf {
    fn fronts(&self) -> *const HotSlot {
        (&raw const *self).wrapping_add(1).cast()
    }

    fn place(&self, address: usize) -> GranuleSlots<'_> {
        // SAFETY: the leaf's own shift.
        unsafe { self.place_by(self.shift.load(Relaxed), address) }
    }

    /// Returns the same as [`Leaf::place`], without reading the leaf's fields.
    ///
    /// # Safety
    /// `shift` is the leaf's shift.
    #[inline(always)]
    unsafe fn place_by(&self, shift: u32, address: usize) -> GranuleSlots<'_> {
        let index = (address & ((1 << REGION_SHIFT) - 1)) >> shift;
        let fronts = self.fronts();
        let granules = fronts.wrapping_add(1 << (REGION_SHIFT - shift)).cast::<Granule>();
        // SAFETY: a leaf is allocated with one front and one granule for each granule of its
        // region.
        let (front, granule) =
            unsafe { (&*fronts.wrapping_add(index), &*granules.wrapping_add(index)) };
        GranuleSlots { first: &front.first, beyond: &front.beyond, granule }
    }
}

/// A block that extends beyond the granule it begins in, and the address of its end.
#[derive(Copy, Clone)]
struct Coming {
    component: usize,
    end: usize,
}

impl Coming {
    const NONE: Coming = Coming { component: 0, end: 0 };

    /// Returns the block that extends beyond the granule that ends at `granule_end`: one that
    /// begins in the granule, or else `self`.
    fn or(self, place: GranuleSlots<'_>, granule_end: usize) -> Coming {
        match place.beyond.load(Acquire) {
            0 => self,
            word => Coming {
                component: (word & 0xff) as usize,
                end: granule_end + (word >> BEYOND_SHIFT) as usize,
            },
        }
    }

    /// Adds the part of the block that lies between two addresses.
    fn add(self, start: usize, end: usize, into: &mut Split) {
        into.bytes[self.component] += self.end.min(end).saturating_sub(start) as i64;
    }
}

/// Table of leaves by region. Leaves are never removed.
pub struct Table {
    places: [AtomicPtr<Leaf>; PLACES],
    leaves: AtomicUsize,
    lock: SpinLock,
    /// Address of the next leaf, and the room left there.
    free: AtomicUsize,
    room: AtomicUsize,
    /// Groups of overflow slots, and the number handed out. The group at index 0 is not used: the
    /// index means none.
    further: AtomicPtr<OverflowSlots>,
    further_used: AtomicU32,
}

fn bytes(word: u32) -> i32 {
    (word as i32) >> BYTES_SHIFT
}

fn word(component: Component, bytes: i32) -> u32 {
    (bytes as u32) << BYTES_SHIFT | u32::from(component.0 & 0xff)
}

/// Bytes of small blocks in a range of memory, by component.
pub struct Split {
    pub bytes: [i64; LIMIT],
    /// Bytes whose component is not known.
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
            further_used: AtomicU32::new(0),
        }
    }

    /// Records that a block of `length` bytes was allocated (`sign` 1) or freed (-1).
    #[inline(never)]
    pub fn change(
        &self,
        state: &ThreadCounters,
        start: usize,
        length: usize,
        component: Component,
        sign: i32,
    ) {
        if !near::change_any(state, start, length, component, sign) {
            self.change_generally(state, start, length, component, sign);
        }
    }

    /// Does what [`Table::change`] does for a block of the thread's current component: in most
    /// granules, the first slot holds its bytes. Returns false, with nothing changed, if another
    /// slot does.
    #[inline(always)]
    pub fn change_near(
        &self,
        state: &ThreadCounters,
        start: usize,
        length: usize,
        component: Component,
        sign: i32,
    ) -> bool {
        near::change_first(state, start, length, component, sign)
    }

    /// Does what [`Table::change`] does where [`near`] cannot.
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
            // There is no room for a leaf, so the block is not recorded.
            return overflow_counters::add(overflow_counters::Table::Granules);
        };
        let whole = 1_usize << shift;
        let inside = length.min(whole - (start & (whole - 1)));
        // SAFETY: the shift was read from the leaf.
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

    /// Records a block in each of its granules.
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
                // There is no room for a leaf, so this part is not recorded.
                None => {
                    overflow_counters::add(overflow_counters::Table::Granules);
                    at = stop;
                }
            }
        }
    }

    /// Returns the leaf of a region, its shift, and whether the thread owns the leaf. Uses the
    /// thread's cache.
    #[inline(always)]
    fn at_hand(&self, state: &ThreadCounters, region: usize) -> Option<(&Leaf, u32, bool)> {
        let hand = state.leaves.place(region);
        if hand.region.load(Relaxed) == region
            // SAFETY: a leaf of this table, which is never freed.
            && let Some(leaf) = unsafe { hand.leaf.load(Relaxed).as_ref() }
        {
            return Some((leaf, hand.shift.load(Relaxed), true));
        }
        self.take_in_hand(state, hand, region)
    }

    /// Does what [`Table::at_hand`] does for a leaf that the thread does not own or has not cached,
    /// and caches the leaf.
    #[inline(never)]
    fn take_in_hand(
        &self,
        state: &ThreadCounters,
        hand: &CachedLeaf,
        region: usize,
    ) -> Option<(&Leaf, u32, bool)> {
        // SAFETY: a leaf of this table, which is never freed.
        if let Some(leaf) = unsafe { hand.leaf.load(Relaxed).as_ref() }
            && leaf.region.load(Relaxed) == region
        {
            return Some((leaf, leaf.shift.load(Relaxed), hand.region.load(Relaxed) == region));
        }
        let leaf = self.find(region).or_else(|| self.make(state, region))?;
        let own = leaf.owner.load(Relaxed) == state.number();
        let shift = leaf.shift.load(Relaxed);
        let before = region << (REGION_SHIFT - shift);
        // A signal handler that interrupts these stores finds no leaf here, or stores its own.
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

    /// Returns the index of a region's entry, and the leaf if there is one.
    fn place(&self, region: usize) -> (usize, Option<&Leaf>) {
        let mut place =
            ((region as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40) as usize % PLACES;
        loop {
            // SAFETY: a leaf of this table, which is never freed.
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
        // SAFETY: fresh zeroed memory, which is a leaf with empty granules. Sizes of leaves are
        // multiples of 16, and so are their addresses.
        let leaf = unsafe { &*(memory as *const Leaf) };
        leaf.region.store(region, Relaxed);
        leaf.owner.store(state.number(), Relaxed);
        leaf.shift.store(shift, Relaxed);
        self.places[place].store(memory as *mut Leaf, Release);
        self.leaves.store(leaves + 1, Relaxed);
        Some(leaf)
    }

    /// Calls `each` with the parts of a range in ascending order: begin, end, and the granule with its
    /// size as a power of two. A part is one granule, or memory without a leaf, at most one region.
    fn parts<'t>(
        &'t self,
        start: usize,
        end: usize,
        mut each: impl FnMut(usize, usize, Option<(GranuleSlots<'t>, u32)>),
    ) {
        let mut at = start;
        while at < end {
            let stop = (((at >> REGION_SHIFT) + 1) << REGION_SHIFT).min(end);
            let Some(leaf) = self.find(at >> REGION_SHIFT) else {
                each(at, stop, None);
                at = stop;
                continue;
            };
            let shift = leaf.shift.load(Relaxed);
            while at < stop {
                let next = granule_end(at, shift).min(stop);
                each(at, next, Some((leaf.place(at), shift)));
                at = next;
            }
        }
    }

    /// Adds to `into` the live bytes between two addresses. Returns false if part of the range has
    /// no leaf. Where granules are larger than the range, an even distribution is assumed.
    pub fn split(&self, start: usize, end: usize, into: &mut Split) -> bool {
        let mut known = true;
        let mut coming = self.coming(start);
        self.parts(start, end, |at, next, granule| {
            coming.add(at, next, into);
            let Some((place, shift)) = granule else {
                known = false;
                return;
            };
            self.split_granule(place, (next - at) as i64, 1 << shift, into);
            coming = coming.or(place, granule_end(at, shift));
        });
        known
    }

    /// Calls `each` with the component that last used each granule between two addresses, and the
    /// bytes that the granule's counts leave free there. Skips granules in which no block ever
    /// began.
    pub fn freed(&self, start: usize, end: usize, each: &mut dyn FnMut(Component, u64)) {
        self.parts(start, end, |at, next, granule| {
            let found = granule.and_then(|(place, shift)| self.freed_in(place, 1 << shift));
            if let Some((component, bytes)) = found {
                each(component, bytes.min((next - at) as u64));
            }
        });
    }

    /// Calls `each` with the parts of a range in ascending order: begin, end, and the live bytes of
    /// small blocks there. A part is a granule, or memory in which no block ever began.
    pub fn live(&self, start: usize, end: usize, each: &mut dyn FnMut(usize, usize, u64)) {
        let mut coming = self.coming(start);
        self.parts(start, end, |at, next, granule| {
            let Some((place, shift)) = granule else {
                let covered = coming.end.next_multiple_of(1 << PAGE_SHIFT).clamp(at, next);
                if at < covered {
                    each(at, covered, (covered - at) as u64);
                }
                if covered < next {
                    each(covered, next, 0);
                }
                return;
            };
            let beyond = coming.end.min(next).saturating_sub(at);
            each(at, next, self.live_in(place) + beyond as u64);
            coming = coming.or(place, granule_end(at, shift));
        });
    }

    /// Returns the block that begins before the granule of this address and extends into the
    /// granule.
    fn coming(&self, address: usize) -> Coming {
        let mut end = address;
        if let Some(leaf) = self.find(address >> REGION_SHIFT) {
            end = address >> leaf.shift.load(Relaxed) << leaf.shift.load(Relaxed);
        }
        let furthest = end.saturating_sub(FAR);
        while end > furthest {
            // A region without a leaf can be skipped: a block that extends through it began in an
            // earlier region.
            let region = (end - 1) >> REGION_SHIFT;
            let Some(leaf) = self.find(region) else {
                end = region << REGION_SHIFT;
                continue;
            };
            let coming = Coming::NONE.or(leaf.place(end - 1), end);
            if coming.end > end {
                // The nearest such block. Blocks recorded further away were freed since, or end
                // earlier.
                return coming;
            }
            end = (end - 1) >> leaf.shift.load(Relaxed) << leaf.shift.load(Relaxed);
        }
        Coming::NONE
    }

    /// Returns the number of the counters that own the leaf of an address.
    pub fn owner_of(&self, address: usize) -> Option<u32> {
        self.find(address >> REGION_SHIFT).map(|leaf| leaf.owner.load(Relaxed))
    }

    /// Returns true if small blocks have ever been in this region.
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

/// Returns the end of the granule of an address.
fn granule_end(address: usize, shift: u32) -> usize {
    ((address >> shift) + 1) << shift
}

/// Returns the overhang word of a block ([`Overhang`]).
pub fn beyond(component: Component, bytes: usize) -> u32 {
    (bytes as u32) << BEYOND_SHIFT | u32::from(component.0 & 0xff)
}

#[cfg(test)]
#[path = "granules_tests.rs"]
mod tests;
