//! Live bytes of small blocks per piece of memory, so that what is resident there can be split.
//!
//! Memory is cut into regions of 4 MiB; a region in use has a leaf, a leaf has granules: pages for
//! the first leaves, larger ones later, so that the table stays small. A granule has a few slots, each
//! with a component and its bytes, and where they do not suffice a chain of further ones. The first
//! slots of a leaf's granules stand side by side, since most blocks touch no other: what a program works
//! with is then in few lines of the cache.
//!
//! The first thread that uses a leaf owns it and writes its own slots of each granule without atomic
//! operations; others use slots that all share. What a component has is the sum over all slots: a
//! block that one thread noted and another frees is more in one and less in another. The allocator gives
//! threads memory of their own, so nearly all is owner's work.

#![allow(unsafe_code)]

use core::ptr;
use core::slice;
use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use core::sync::atomic::{AtomicI32, AtomicPtr, AtomicU32, AtomicUsize};

use super::{pages, pool};
use crate::arch::Errno;
use crate::component::{Component, LIMIT};
use crate::lock::SpinLock;
use crate::losses;
use crate::thread::{Guard, LEAVES_AT_HAND, LeafAtHand, NOT_OWN, State};

const REGION_SHIFT: u32 = 22;
pub const PAGE_SHIFT: u32 = 12;

/// Leaves of pages, of 64 KiB, and of 1 MiB: how many of each, and how large a granule is.
const KINDS: [(usize, u32); 3] = [(64, PAGE_SHIFT), (256, 16), (usize::MAX, 20)];

/// Places for leaves; at most three quarters are used.
const PLACES: usize = 16384;
const MOST_LEAVES: usize = PLACES / 4 * 3;
/// Memory for leaves is mapped in pieces of this size.
const PIECE: usize = 1 << 20;

/// A component in the low 8 bits, its bytes above, signed. No bytes: free for another component.
pub type Slot = AtomicU32;
const BYTES_SHIFT: u32 = 8;
/// In a slot of the owner's there is a bit of nothing between: it is full at half of what a shared one
/// holds, which the processor tells with the addition. Then the owner takes over what others noted.
pub const OWN_SHIFT: u32 = 9;

/// Beside the first.
const OWN_SLOTS: usize = 6;
const SHARED_SLOTS: usize = 3;
const FURTHER_SLOTS: usize = 7;

/// How many chained groups of slots there can be. What finds none is added up without a name.
const FURTHER: usize = 32 * 1024;

/// What lives in one granule, beside what its first slot says.
#[repr(C)]
struct Granule {
    own: [Slot; OWN_SLOTS],
    /// The first of the further slots, which all share; 0 for none.
    further: AtomicU32,
    shared: [Slot; SHARED_SLOTS],
    /// Bytes of components that found no slot at all.
    rest: AtomicI32,
}

/// A granule with its first slot.
#[derive(Copy, Clone)]
struct Place<'a> {
    first: &'a Slot,
    granule: &'a Granule,
}

impl<'a> Place<'a> {
    /// The slots of the owner.
    fn own(self) -> impl Iterator<Item = &'a Slot> {
        core::iter::once(self.first).chain(&self.granule.own)
    }
}

/// More slots of a granule.
#[repr(C)]
struct Further {
    slots: [Slot; FURTHER_SLOTS],
    next: AtomicU32,
}

/// One region. Behind it stand the first slots of all granules, and then the granules.
#[repr(C)]
pub struct Leaf {
    /// Address divided by the size of a region.
    region: AtomicUsize,
    /// The number of the state whose thread owns it.
    owner: AtomicU32,
    shift: AtomicU32,
}

/// Between slots and granules: slots are changed by so many at once, of which the last may be of none.
const GAP: usize = size_of::<Slot>() * pages::AT_ONCE;

/// What a leaf with granules of this size takes.
const fn size_of_leaf(shift: u32) -> usize {
    let granules = (size_of::<Slot>() + size_of::<Granule>()) << (REGION_SHIFT - shift);
    (size_of::<Leaf>() + granules + GAP).next_multiple_of(align_of::<Leaf>())
}

impl Leaf {
    fn slots(&self) -> &[Slot] {
        let first = (&raw const *self).wrapping_add(1).cast::<Slot>();
        // SAFETY: the leaf was made with a slot for each granule that its shift needs for a region.
        unsafe { slice::from_raw_parts(first, 1 << (REGION_SHIFT - self.shift.load(Relaxed))) }
    }

    fn granules(&self) -> &[Granule] {
        let count = 1 << (REGION_SHIFT - self.shift.load(Relaxed));
        let slots = (&raw const *self).wrapping_add(1).cast::<Slot>();
        let first = slots.wrapping_add(count).wrapping_byte_add(GAP).cast::<Granule>();
        // SAFETY: as many stand behind the slots.
        unsafe { slice::from_raw_parts(first, count) }
    }

    fn place(&self, address: usize) -> Place<'_> {
        let index = (address & ((1 << REGION_SHIFT) - 1)) >> self.shift.load(Relaxed);
        Place { first: &self.slots()[index], granule: &self.granules()[index] }
    }
}

/// Where a block lies in a leaf that the calling thread owns.
#[derive(Copy, Clone)]
pub struct Run {
    /// The first slot of the first granule.
    pub first: *const Slot,
    /// How many granules the block goes on. Wraps for an empty block at the edge of one.
    pub further: usize,
    /// How large granules are.
    pub shift: u32,
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

fn bytes(word: u32) -> i32 {
    (word as i32) >> BYTES_SHIFT
}

fn own_bytes(word: u32) -> i32 {
    (word as i32) >> OWN_SHIFT
}

fn word(component: Component, bytes: i32, shift: u32) -> u32 {
    (bytes as u32) << shift | u32::from(component.0 & 0xff)
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
    #[inline]
    pub fn change(
        &self,
        state: &State,
        start: usize,
        length: usize,
        component: Component,
        sign: i32,
    ) {
        match own_leaf(state, start).map(|leaf| run(leaf, length)) {
            Some(run) if run.further == 0 => {
                if !run.change(component, length, sign) {
                    self.change_some(state, start, length, component, sign);
                }
            }
            Some(run) => self.change_run(state, run, (start, length), component, sign),
            None => self.change_some(state, start, length, component, sign),
        }
    }

    /// A block in more than one granule, of a leaf of this thread's.
    #[inline]
    pub fn change_run(
        &self,
        state: &State,
        run: Run,
        (start, length): (usize, usize),
        component: Component,
        sign: i32,
    ) {
        if length == 0 || (start ^ (start + length - 1)) >> REGION_SHIFT != 0 {
            return self.change_some(state, start, length, component, sign);
        }
        let whole = 1_usize << run.shift;
        let within = start & (whole - 1);
        // SAFETY: the block ends in the same leaf, which has a slot for each of its granules and a gap.
        let done = run.shift == PAGE_SHIFT
            && run.further < pages::AT_ONCE
            && unsafe { pages::change(run.first, (within, length), component, sign) };
        if done {
            return;
        }
        let (mut at, mut left) = (start, length);
        let mut amount = whole - within;
        for step in 0..=run.further {
            let here = Run { first: run.first.wrapping_add(step), ..run };
            if !here.change(component, amount, sign) {
                self.change_some(state, at, amount, component, sign);
            }
            (at, left) = (at + amount, left - amount);
            amount = left.min(whole);
        }
    }

    /// Where more than one region is concerned, or another thread's, or one not at hand.
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
                            self.change_own(leaf.place(at), component, amount);
                        } else {
                            self.change_shared(leaf.place(at).granule, component, amount);
                        }
                        at = next;
                    }
                }
                // No room for a leaf: nothing is known there.
                None => {
                    losses::add(losses::Table::Granules);
                    at = stop;
                }
            }
        }
    }

    /// The leaf of a region, and whether the thread owns it. Kept at hand.
    fn at_hand(&self, state: &State, region: usize) -> Option<(&Leaf, bool)> {
        let hand = &state.leaves[region % LEAVES_AT_HAND];
        // SAFETY: a leaf of this table, which stays.
        if let Some(leaf) = unsafe { hand.leaf.load(Relaxed).as_ref() }
            && leaf.region.load(Relaxed) == region
        {
            return Some((leaf, hand.low.load(Relaxed) != NOT_OWN));
        }
        let leaf = self.find(region).or_else(|| self.make(state, region))?;
        let own = leaf.owner.load(Relaxed) == state.number.load(Relaxed);
        let shift = leaf.shift.load(Relaxed);
        hand.leaf.store(ptr::from_ref(leaf).cast_mut(), Relaxed);
        hand.low.store(if own { region << REGION_SHIFT } else { NOT_OWN }, Relaxed);
        hand.slots.store(leaf.slots().as_ptr().cast_mut(), Relaxed);
        hand.shift.store(shift, Relaxed);
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
                self.split_granule(leaf.place(at), (next - at) as i64, 1 << shift, into);
                at = next;
            }
        }
        known
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

impl Table {
    fn change_own(&self, place: Place<'_>, component: Component, amount: i32) {
        let of = |slot: &&Slot| slot.load(Relaxed) & 0xff == u32::from(component.0);
        for attempt in 0..2 {
            let own = place.own().find(of);
            if let Some(slot) = own
                && let Some(after) = slot_after(slot.load(Relaxed), amount)
            {
                return slot.store(after, Relaxed);
            }
            if own.is_none()
                && let Some(slot) = place.own().find(|slot| own_bytes(slot.load(Relaxed)) == 0)
            {
                return slot.store(word(component, amount, OWN_SHIFT), Relaxed);
            }
            if attempt == 0 {
                self.settle(place);
            }
        }
        self.change_shared(place.granule, component, amount);
    }

    /// The owner takes over what others noted for its components, which frees slots of both.
    #[cold]
    #[inline(never)]
    fn settle(&self, place: Place<'_>) {
        for shared in self.shared(place.granule) {
            let noted = shared.load(Acquire);
            let Some(own) = place.own().find(|own| {
                let own = own.load(Relaxed);
                bytes(noted) != 0 && own_bytes(own) != 0 && own & 0xff == noted & 0xff
            }) else {
                continue;
            };
            if let Some(sum) = slot_after(own.load(Relaxed), bytes(noted))
                && shared.compare_exchange(noted, 0, AcqRel, Relaxed).is_ok()
            {
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
    fn split_granule(&self, place: Place<'_>, part: i64, whole: i64, into: &mut Split) {
        let share = |bytes: i64| if part == whole { bytes } else { bytes * part / whole };
        let mut add = |word: u32, bytes: i32| {
            if bytes != 0 {
                into.bytes[(word & 0xff) as usize] += share(i64::from(bytes));
            }
        };
        for word in place.own().map(|slot| slot.load(Relaxed)) {
            add(word, own_bytes(word));
        }
        for word in self.shared(place.granule).map(|slot| slot.load(Relaxed)) {
            add(word, bytes(word));
        }
        into.rest += share(i64::from(place.granule.rest.load(Relaxed)));
    }
}

/// The leaf of an address, if it is at hand and the thread's own, and how far into its region that is.
#[inline(always)]
pub fn own_leaf(state: &State, address: usize) -> Option<(&LeafAtHand, usize)> {
    let hand = &state.leaves[(address >> REGION_SHIFT) % LEAVES_AT_HAND];
    let offset = address.wrapping_sub(hand.low.load(Relaxed));
    (offset < 1 << REGION_SHIFT).then_some((hand, offset))
}

/// Where a block is in its leaf.
#[inline(always)]
pub fn run((hand, offset): (&LeafAtHand, usize), length: usize) -> Run {
    let shift = hand.shift.load(Relaxed);
    let first = offset.wrapping_shr(shift);
    let last = offset.wrapping_add(length).wrapping_sub(1).wrapping_shr(shift);
    let slot = hand.slots.load(Relaxed).wrapping_add(first);
    Run { first: slot, further: last.wrapping_sub(first), shift }
}

impl Run {
    /// All but the first slot, in one word.
    #[inline(always)]
    pub fn rest(&self) -> usize {
        self.further << 8 | self.shift as usize
    }

    #[inline(always)]
    pub fn new(first: *const Slot, rest: usize) -> Run {
        Run { first, further: rest >> 8, shift: (rest & 0xff) as u32 }
    }

    /// Notes in the first granule that `bytes` came (`sign` 1) or went (-1), at most as many as it has.
    /// False if its slot is of another component, or full.
    #[inline(always)]
    pub fn change(&self, component: Component, bytes: usize, sign: i32) -> bool {
        // SAFETY: the slot of a leaf that stays.
        let slot = unsafe { &*self.first };
        let before = slot.load(Relaxed);
        if before as u8 != component.0 as u8 {
            return false;
        }
        let amount = (bytes as i32) << OWN_SHIFT;
        let after = match sign {
            1 => (before as i32).checked_add(amount),
            _ => (before as i32).checked_sub(amount),
        };
        let Some(after) = after else { return false };
        slot.store(after as u32, Relaxed);
        true
    }
}

/// What a slot of the owner says after so much more.
fn slot_after(before: u32, amount: i32) -> Option<u32> {
    let amount = amount.checked_mul(1 << OWN_SHIFT)?;
    (before as i32).checked_add(amount).map(|after| after as u32)
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
        let after = word(component, held.wrapping_add(amount), BYTES_SHIFT);
        match slot.compare_exchange_weak(before, after, AcqRel, Relaxed) {
            Ok(_) => return true,
            Err(now) => before = now,
        }
    }
}

#[cfg(test)]
#[path = "granules_tests.rs"]
mod tests;
