//! The ledger of ranges: who mapped which addresses. Keyed by address, since who unmaps may be another. Memory mapped
//! by ways that are not seen is entered by the walks that find it.

#![allow(unsafe_code)]

mod asked;
mod calls;
mod given;
mod map;

use core::cell::UnsafeCell;
use core::sync::atomic::{AtomicU32, Ordering};

use crate::base::component::{Component, LIMIT};
use crate::base::kernel;
use crate::base::lock::SpinLock;
use crate::base::thread::Guard;
use crate::ledger::heap;

pub use calls::{Leaving, Moving};
pub use map::{Kind, Piece};

struct Shared(UnsafeCell<map::Map>);

// SAFETY: used with LOCK held only.
unsafe impl Sync for Shared {}

static MAP: Shared = Shared(UnsafeCell::new(map::Map::new()));
static LOCK: SpinLock = SpinLock::new();
/// The number of walks through the mappings begun so far.
static WALK: AtomicU32 = AtomicU32::new(0);

fn with<R>(work: impl FnOnce(&mut map::Map) -> R) -> R {
    with_peaks(true, work)
}

/// The sums of owned bytes follow, and their peaks if that is asked for.
fn with_peaks<R>(peaks: bool, work: impl FnOnce(&mut map::Map) -> R) -> R {
    let _guard = Guard::enter();
    LOCK.lock();
    // SAFETY: the lock is held, and neither `work` nor the sums come back here.
    let map = unsafe { &mut *MAP.0.get() };
    let result = work(map);
    map.changes(|component, by| heap::mapped(component, by, peaks));
    LOCK.unlock();
    result
}

fn pages(start: usize, length: usize) -> (usize, usize) {
    let mask = kernel::page() - 1;
    (start & !mask, start.saturating_add(length).saturating_add(mask) & !mask)
}

fn insert(start: usize, length: usize, owner: Component, kind: Kind) {
    let (start, end) = pages(start, length);
    let known = WALK.load(Ordering::Acquire);
    with(|map| map.insert(Piece { start, end, owner, kind, known }));
}

/// `owner` mapped `length` bytes at `start`.
pub fn mapped(start: usize, length: usize, owner: Component, shared: bool) {
    insert(start, length, owner, if shared { Kind::Shared } else { Kind::Private });
    crate::base::deferred::run();
}

/// Enters memory that was there when the tool was loaded, and seems to be this owner's.
pub fn found(start: usize, length: usize, owner: Component) {
    insert(start, length, owner, Kind::Found);
}

/// The addresses are about to be unmapped; [`left`] must follow. Until then they count.
pub fn leaves(start: usize, length: usize) -> Leaving {
    let (start, end) = pages(start, length);
    with(|map| map.leaves(start, end))
}

/// Notes the end of a call on them: unmapped, or still there.
pub fn left(leaving: &Leaving, unmapped: bool) {
    let known = WALK.load(Ordering::Acquire);
    with(|map| match unmapped {
        true => {
            map.left(leaving);
            map.asked.forget(leaving.start, leaving.end);
        }
        false => map.stayed(leaving, known),
    });
}

/// The addresses have been unmapped, and nobody else maps anything there.
pub fn unmapped(start: usize, length: usize) {
    left(&leaves(start, length), true);
}

/// A mapping is about to be moved or to change its length; [`moved`] or [`stayed`] must follow. Until then it counts as
/// before, though a walk may find it gone.
pub fn moves(old: usize, length: usize) -> Moving {
    let (old, end) = pages(old, length);
    with(|map| map.moves(old, end))
}

/// Nothing was moved after all.
pub fn stayed(moving: &Moving) {
    let known = WALK.load(Ordering::Acquire);
    with(|map| map.not_moved(moving, known));
}

/// A mapping moved or changed its length.
pub fn moved(moving: &Moving, new: usize, new_length: usize) {
    let (new, end) = pages(new, new_length);
    let known = WALK.load(Ordering::Acquire);
    with(|map| map.moved(moving, new, end, known));
}

/// The pages of a mapping moved, and its old addresses stay mapped.
pub fn doubled(moving: &Moving, new: usize, new_length: usize) {
    let (new, end) = pages(new, new_length);
    let known = WALK.load(Ordering::Acquire);
    with(|map| map.doubled(moving, new, end, known));
}

/// In the child of a fork: other threads' calls do not come back.
pub fn forget_calls() {
    with(map::Map::forget_marks);
}

/// Enters a thread's stack, by an address in it, and returns its start and length; no length where the C library does
/// not tell. To be called by the thread itself.
pub fn stack(address: usize, owner: Component) -> (usize, usize) {
    let _guard = Guard::enter();
    let (mut low, mut size) = (core::ptr::null_mut(), 0);
    // SAFETY: the attributes are made by the first call and given back by the last.
    unsafe {
        let mut attributes = core::mem::zeroed::<libc::pthread_attr_t>();
        if libc::pthread_getattr_np(libc::pthread_self(), &raw mut attributes) != 0 {
            return (0, 0);
        }
        libc::pthread_attr_getstack(&raw const attributes, &raw mut low, &raw mut size);
        libc::pthread_attr_destroy(&raw mut attributes);
    }
    let low = low as usize;
    if !(low..low.saturating_add(size)).contains(&address) {
        return (0, 0);
    }
    insert(low, size, owner, Kind::Stack);
    (low, size)
}

/// The calling thread has begun on memory that the program has given it for a stack; [`given_back`] or
/// [`look_at_threads`] tell its end.
pub fn given(start: usize, length: usize, owner: Component) {
    let thread = kernel::thread();
    with(|map| map.given.begins(given::Stack { start, end: start + length, owner, thread }));
}

/// The thread is done with it.
pub fn given_back(start: usize) {
    with(|map| map.given.ends(start));
}

/// Threads may end in ways that are not seen: whose is gone has no stack any more.
pub fn look_at_threads() {
    with(|map| map.given.retain(|stack| kernel::is_thread(stack.thread)));
}

/// As [`next`], for questions about the use of the memory: start, end, and owner.
pub fn next_use(address: usize) -> Option<(usize, usize, Component)> {
    let (given, piece) = (with(|map| map.given.next(address)), next(address));
    let Some(given) = given else {
        return piece.map(|piece| (piece.start, piece.end, piece.owner));
    };
    match piece {
        Some(piece) if piece.start.max(address) < given.start => {
            Some((piece.start, piece.end.min(given.start), piece.owner))
        }
        _ => Some((given.start, given.end, given.owner)),
    }
}

/// `owner` has asked the kernel for private memory, past the functions that are seen.
pub fn asked(start: usize, length: usize, owner: Component) {
    let (start, end) = pages(start, length);
    with(|map| map.asked.enter(asked::Stretch { start, end, owner }));
}

/// Such memory is asked for no longer.
pub fn not_asked(start: usize, length: usize) {
    let (start, end) = pages(start, length);
    with(|map| map.asked.forget(start, end));
}

/// The first stretch of such memory that ends above an address: start, end, and who asked.
pub fn next_asked(address: usize) -> Option<(usize, usize, Component)> {
    let next = with(|map| map.asked.next(address))?;
    Some((next.start, next.end, next.owner))
}

/// Counts what a walk found of it, and nobody else's, as owned by who asked.
pub fn own_asked(bytes: &[u64; LIMIT]) {
    // No peak, as with other findings of a walk.
    with_peaks(false, |map| map.own_asked(bytes));
}

/// Bytes of mappings that all components own together.
pub fn total() -> u64 {
    with(|map| map.total())
}

/// Bytes of mappings that each component owns now, and that were ever mapped for it; stacks are not
/// counted.
pub fn owned_all(into: &mut [(u64, u64)]) {
    with(|map| {
        for (index, owned) in into.iter_mut().enumerate() {
            let component = Component(index as u16);
            *owned = (map.owned(component), map.mapped(component));
        }
    });
}

/// The first piece that ends above an address.
pub fn next(mut address: usize) -> Option<Piece> {
    with(|map| {
        loop {
            let piece = map.next(address)?;
            if piece.kind != Kind::Hole {
                return Some(piece);
            }
            address = piece.end;
        }
    })
}

/// A walk through the mappings.
#[derive(Copy, Clone)]
pub struct Walk {
    number: u32,
    /// Earlier walks have entered something.
    pub corrects: bool,
}

/// Begins a walk: later entries are younger than it. One at a time.
pub fn walk() -> Walk {
    with(|map| {
        let number = WALK.fetch_add(1, Ordering::AcqRel);
        map.walking = Some(number);
        Walk { number, corrects: map.seen > 0 }
    })
}

/// The walk has ended.
pub fn walked() {
    with(|map| map.walking = None);
}

/// A walk found this mapped, and `owner`'s if nobody was seen to map it.
pub fn seen(start: usize, end: usize, owner: Option<Component>, walk: Walk) {
    // No peak: it may be what a call has just made, whose thread enters it next under another name. It
    // counts for peaks with the sample.
    with_peaks(false, |map| map.seen(start, end, owner, walk.number));
}

/// Notes that a walk found nothing mapped between two addresses: entries from before it are gone,
/// by a way that was not seen.
pub fn gone(start: usize, end: usize, walk: Walk) {
    with(|map| map.remove_known(start, end, walk.number));
}

/// Pieces for which there was no room.
pub fn lost() -> u64 {
    with(|map| map.lost)
}

/// For [`crate::lifecycle::fork`].
pub fn lock() -> &'static SpinLock {
    &LOCK
}
