//! Ledger of ranges: which component mapped which addresses. Keyed by address, since another
//! component may unmap them. Memory mapped in ways that the tool does not see is entered by the
//! walks that find it.

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

// SAFETY: accessed only while LOCK is held.
unsafe impl Sync for Shared {}

static MAP: Shared = Shared(UnsafeCell::new(map::Map::new()));
static LOCK: SpinLock = SpinLock::new();
/// Number of walks through the mappings begun so far.
static WALK: AtomicU32 = AtomicU32::new(0);

fn with<R>(work: impl FnOnce(&mut map::Map) -> R) -> R {
    with_peaks(true, work)
}

/// Runs `work` on the map and updates the sums of owned bytes and, if `peaks` is set, their peaks.
fn with_peaks<R>(peaks: bool, work: impl FnOnce(&mut map::Map) -> R) -> R {
    let _guard = Guard::enter();
    LOCK.lock();
    // SAFETY: the lock is held, and neither `work` nor the sums call this function again.
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

/// Records that `owner` mapped `length` bytes at `start`.
pub fn mapped(start: usize, length: usize, owner: Component, shared: bool) {
    insert(start, length, owner, if shared { Kind::Shared } else { Kind::Private });
    crate::base::deferred::run();
}

/// Enters memory that was mapped when the tool was loaded and seems to belong to `owner`.
pub fn found(start: usize, length: usize, owner: Component) {
    insert(start, length, owner, Kind::Found);
}

/// Makes `to` the owner of whole pages that components of which `from` returns true have mapped.
pub fn give(start: usize, length: usize, from: impl Fn(Component) -> bool, to: Component) {
    give_pages(start, length, from, to, map::Map::insert);
}

/// Does what [`give`] does for memory that `to` had mapped before.
pub fn give_back(start: usize, length: usize, from: impl Fn(Component) -> bool, to: Component) {
    give_pages(start, length, from, to, map::Map::renew);
}

fn give_pages(
    start: usize,
    length: usize,
    from: impl Fn(Component) -> bool,
    to: Component,
    enter: fn(&mut map::Map, Piece),
) {
    let mask = kernel::page() - 1;
    let (start, end) = (start.saturating_add(mask) & !mask, start.saturating_add(length) & !mask);
    if start < end {
        with(|map| map.give((start, end), from, to, enter));
    }
}

/// Announces that the addresses are about to be unmapped; [`left`] must follow. Until then they
/// count.
pub fn leaves(start: usize, length: usize) -> Leaving {
    let (start, end) = pages(start, length);
    with(|map| map.leaves(start, end))
}

/// Records the end of the call that [`leaves`] announced: the range is unmapped, or still there.
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

/// Records that the addresses have been unmapped, where no other thread can have mapped anything
/// there.
pub fn unmapped(start: usize, length: usize) {
    left(&leaves(start, length), true);
}

/// Announces that a mapping is about to be moved or to change its length; [`moved`] or [`stayed`]
/// must follow. Until then it counts as before, though a walk may find it gone.
pub fn moves(old: usize, length: usize) -> Moving {
    let (old, end) = pages(old, length);
    with(|map| map.moves(old, end))
}

/// Records that nothing was moved.
pub fn stayed(moving: &Moving) {
    let known = WALK.load(Ordering::Acquire);
    with(|map| map.not_moved(moving, known));
}

/// Records that a mapping moved or changed its length.
pub fn moved(moving: &Moving, new: usize, new_length: usize) {
    let (new, end) = pages(new, new_length);
    let known = WALK.load(Ordering::Acquire);
    with(|map| map.moved(moving, new, end, known));
}

/// Records that the pages of a mapping moved while its old addresses stay mapped.
pub fn doubled(moving: &Moving, new: usize, new_length: usize) {
    let (new, end) = pages(new, new_length);
    let known = WALK.load(Ordering::Acquire);
    with(|map| map.doubled(moving, new, end, known));
}

/// Forgets the calls of other threads, in the child of a fork, where they never return.
pub fn forget_calls() {
    with(map::Map::forget_marks);
}

/// Enters a thread's stack, by an address in it, and returns its start and length; a length of 0
/// where the C library does not report it. Called by the thread itself.
pub fn stack(address: usize, owner: Component) -> (usize, usize) {
    let _guard = Guard::enter();
    let (mut low, mut size) = (core::ptr::null_mut(), 0);
    // SAFETY: the first call creates the attributes and the last destroys them.
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

/// Records that the calling thread began to run on memory that the program provided as its stack.
/// [`given_back`] or [`look_at_threads`] ends this.
pub fn given(start: usize, length: usize, owner: Component) {
    let thread = kernel::thread();
    with(|map| map.given.begins(given::Stack { start, end: start + length, owner, thread }));
}

/// Records that the thread no longer uses the stack at `start`.
pub fn given_back(start: usize) {
    with(|map| map.given.ends(start));
}

/// Forgets the stacks of threads that are gone: a thread may end in ways that the tool does not
/// see.
pub fn look_at_threads() {
    with(|map| map.given.retain(|stack| kernel::is_thread(stack.thread)));
}

/// Does what [`next`] does for questions about the use of memory. Returns start, end, and owner.
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

/// Records that `owner` requested private memory from the kernel, bypassing the functions that the
/// tool sees.
pub fn asked(start: usize, length: usize, owner: Component) {
    let (start, end) = pages(start, length);
    with(|map| map.asked.enter(asked::Stretch { start, end, owner }));
}

/// Forgets such a request for these addresses.
pub fn not_asked(start: usize, length: usize) {
    let (start, end) = pages(start, length);
    with(|map| map.asked.forget(start, end));
}

/// Returns the first such range that ends above an address: start, end, and the component that
/// requested it.
pub fn next_asked(address: usize) -> Option<(usize, usize, Component)> {
    let next = with(|map| map.asked.next(address))?;
    Some((next.start, next.end, next.owner))
}

/// Counts the bytes of such memory that a walk found without another owner as owned by the
/// component that requested them.
pub fn own_asked(bytes: &[u64; LIMIT]) {
    // No peak, as for other findings of a walk.
    with_peaks(false, |map| map.own_asked(bytes));
}

/// Returns the bytes of mappings that all components own together.
pub fn total() -> u64 {
    with(|map| map.total())
}

/// Returns the bytes of mappings that each component owns now, and the total ever mapped for it.
/// Stacks are not counted.
pub fn owned_all(into: &mut [(u64, u64)]) {
    with(|map| {
        for (index, owned) in into.iter_mut().enumerate() {
            let component = Component(index as u16);
            *owned = (map.owned(component), map.mapped(component));
        }
    });
}

/// Returns the first piece that ends above an address.
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
    /// True if earlier walks have entered something.
    pub corrects: bool,
}

/// Begins a walk: later entries are newer than the walk. Only one walk runs at a time.
pub fn walk() -> Walk {
    with(|map| {
        let number = WALK.fetch_add(1, Ordering::AcqRel);
        map.walking = Some(number);
        Walk { number, corrects: map.seen > 0 }
    })
}

/// Records the end of the walk.
pub fn walked() {
    with(|map| map.walking = None);
}

/// Enters a range that a walk found mapped, for `owner` if the tool saw no call that mapped it.
pub fn seen(start: usize, end: usize, owner: Option<Component>, walk: Walk) {
    // No peak: the range may be what a call has just mapped, whose thread enters it next for
    // another component. It counts for peaks with the sample.
    with_peaks(false, |map| map.seen(start, end, owner, walk.number));
}

/// Records that a walk found nothing mapped between two addresses: older entries there are gone, by
/// a call that the tool did not see.
pub fn gone(start: usize, end: usize, walk: Walk) {
    with(|map| map.remove_known(start, end, walk.number));
}

/// Returns the number of pieces for which there was no room.
pub fn lost() -> u64 {
    with(|map| map.lost)
}

/// Returns the lock, for [`crate::lifecycle::fork`].
pub fn lock() -> &'static SpinLock {
    &LOCK
}
