//! The ledger of ranges: who mapped which addresses. Keyed by address, since who unmaps may be another.

#![allow(unsafe_code)]

mod map;

use core::cell::UnsafeCell;
use core::sync::atomic::{AtomicU32, Ordering};

use crate::component::Component;
use crate::kernel;
use crate::lock::SpinLock;
use crate::thread::Guard;

pub use map::{Kind, Moving, Piece};

struct Shared(UnsafeCell<map::Map>);

// SAFETY: used with LOCK held only.
unsafe impl Sync for Shared {}

static MAP: Shared = Shared(UnsafeCell::new(map::Map::new()));
static LOCK: SpinLock = SpinLock::new();
/// The number of walks through the mappings begun so far.
static WALK: AtomicU32 = AtomicU32::new(0);

fn with<R>(work: impl FnOnce(&mut map::Map) -> R) -> R {
    let _guard = Guard::enter();
    LOCK.lock();
    // SAFETY: the lock is held, and `work` does not come back here.
    let result = work(unsafe { &mut *MAP.0.get() });
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
    crate::start::late();
    insert(start, length, owner, if shared { Kind::Shared } else { Kind::Private });
}

/// What was there when the tool was loaded, and seems to be this owner's.
pub fn found(start: usize, length: usize, owner: Component) {
    insert(start, length, owner, Kind::Found);
}

/// The addresses are about to be unmapped.
pub fn unmapped(start: usize, length: usize) {
    let (start, end) = pages(start, length);
    with(|map| map.remove(start, end));
}

/// Tells the calls that move mappings apart.
static MOVES: AtomicU32 = AtomicU32::new(0);

/// A mapping is about to be moved or to change its length; [`moved`] or [`stayed`] must follow. Until
/// then it counts as what it was, though a walk may find it gone.
pub fn moves(old: usize, length: usize) -> Moving {
    let (old, end) = pages(old, length);
    let mark = map::MARK | MOVES.fetch_add(1, Ordering::Relaxed);
    with(|map| map.moves(old, end - old, mark))
}

/// Nothing was moved after all.
pub fn stayed(moving: &Moving) {
    let known = WALK.load(Ordering::Acquire);
    with(|map| map.stayed(moving, known));
}

/// A mapping moved or changed its length.
pub fn moved(moving: &Moving, new: usize, new_length: usize) {
    let (new, end) = pages(new, new_length);
    let known = WALK.load(Ordering::Acquire);
    with(|map| map.moved(moving, new, end - new, known));
}

/// In the child of a fork: other threads' calls do not come back.
pub fn forget_moves() {
    with(map::Map::forget_moves);
}

/// A thread's stack, by an address in it. To be called by the thread itself.
pub fn stack(address: usize, owner: Component) {
    let _guard = Guard::enter();
    let (mut low, mut size) = (core::ptr::null_mut(), 0);
    // SAFETY: the attributes are made by the first call and given back by the last.
    unsafe {
        let mut attributes = core::mem::zeroed::<libc::pthread_attr_t>();
        if libc::pthread_getattr_np(libc::pthread_self(), &raw mut attributes) != 0 {
            return;
        }
        libc::pthread_attr_getstack(&raw const attributes, &raw mut low, &raw mut size);
        libc::pthread_attr_destroy(&raw mut attributes);
    }
    let low = low as usize;
    if (low..low.saturating_add(size)).contains(&address) {
        insert(low, size, owner, Kind::Stack);
    }
}

/// Bytes of mappings that a component owns; stacks are not counted.
pub fn owned(component: Component) -> u64 {
    with(|map| map.owned(component))
}

/// Bytes of mappings that all components own together.
pub fn total() -> u64 {
    with(|map| map.total())
}

/// Now, at most, and ever mapped, of all components up to the length of `into`.
pub fn owned_all(into: &mut [(u64, u64, u64)]) {
    with(|map| {
        for (index, owned) in into.iter_mut().enumerate() {
            let component = Component(index as u16);
            *owned = (map.owned(component), map.owned_peak(component), map.mapped(component));
        }
    });
}

/// The first piece that ends above an address.
pub fn next(address: usize) -> Option<Piece> {
    with(|map| map.next(address))
}

/// Begins a walk: what is entered from now on is younger than it.
pub fn walk() -> u32 {
    WALK.fetch_add(1, Ordering::AcqRel)
}

/// A walk found nothing mapped between two addresses: what was entered before it is gone, by a way
/// that was not seen.
pub fn gone(start: usize, end: usize, walk: u32) {
    with(|map| map.remove_known(start, end, walk));
}

/// Pieces for which there was no room.
pub fn lost() -> u64 {
    with(|map| map.lost)
}

/// For [`crate::fork`].
pub fn lock() -> &'static SpinLock {
    &LOCK
}
