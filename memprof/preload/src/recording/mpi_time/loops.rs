//! Loops of the program, from the places that the thread that began MPI calls it from.
//!
//! That thread alone has the graph, and copies its sites for others at most once in a period: as the first loop is found,
//! then where loops have changed or one of them begins an iteration, and at the end.

#![allow(unsafe_code)]

use core::cell::UnsafeCell;
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use memprof_boundary::functions::{self, Kind};
use memprof_boundary::thread::block;
use memprof_loops::graph::{Call, Graph, NONE, Site};
use memprof_loops::notice::Notices;
use memprof_loops::reduce::{Digest, Joins};

use super::{KIND_OF, both_clocks, is_owner, now};
use crate::base::lock::SpinLock;
use crate::base::thread::Guard;
use crate::owners;

/// Call sites that are kept.
pub const SITES: usize = 256;
/// Nanoseconds that recent times go back, or up to twice as many.
const WINDOW: u64 = 10_000_000_000;

struct Owned {
    graph: Graph<SITES, 1024>,
    notices: Notices,
}

struct OwnedCell(UnsafeCell<Owned>);

// SAFETY: used by the thread whose time it is, with BUSY set.
unsafe impl Sync for OwnedCell {}

static OWNED: OwnedCell =
    OwnedCell(UnsafeCell::new(Owned { graph: Graph::new(), notices: Notices::every(0) }));
/// The graph is at work: a handler of a signal that comes meanwhile leaves it alone.
static BUSY: AtomicBool = AtomicBool::new(false);
static IS_ON: AtomicBool = AtomicBool::new(false);
static PAUSED: AtomicBool = AtomicBool::new(false);

struct Copied {
    sites: [Site; SITES],
    count: usize,
    lost: u64,
}

struct CopiedCell(UnsafeCell<Copied>);

// SAFETY: used with LOCK held.
unsafe impl Sync for CopiedCell {}

static COPIED: CopiedCell =
    CopiedCell(UnsafeCell::new(Copied { sites: [Site::NEW; SITES], count: 0, lost: 0 }));
static LOCK: SpinLock = SpinLock::new();
/// Number of copies made.
static COPIES: AtomicU64 = AtomicU64::new(0);

/// Begins to look for loops, with so many nanoseconds between two copies. To be called after the times are begun, before
/// the first call of MPI.
pub fn start(period: u64) {
    let ticks = ticks_in_a_millisecond();
    with(|owned| {
        owned.graph.set_window(WINDOW / 1_000_000 * ticks);
        owned.notices.set_period(period / 1_000_000 * ticks);
    });
    IS_ON.store(true, Ordering::Release);
}

/// Ticks of the clock in a millisecond, as exact as a millisecond tells.
fn ticks_in_a_millisecond() -> u64 {
    let (from, began) = both_clocks();
    loop {
        let (to, time) = both_clocks();
        let passed = time.saturating_sub(began);
        if passed >= 1_000_000 {
            return (to.saturating_sub(from) as f64 * 1e6 / passed as f64) as u64;
        }
        core::hint::spin_loop();
    }
}

/// Returns true if loops are looked for.
pub fn is_on() -> bool {
    IS_ON.load(Ordering::Acquire)
}

/// Works on the graph, in the thread whose time it is; none where it was interrupted in that.
fn with<R>(work: impl FnOnce(&mut Owned) -> R) -> Option<R> {
    if BUSY.swap(true, Ordering::Acquire) {
        return None;
    }
    // SAFETY: in the only thread that has it, and not inside another such block.
    let result = work(unsafe { &mut *OWNED.0.get() });
    BUSY.store(false, Ordering::Release);
    Some(result)
}

/// A call of MPI from outside returns, in the thread whose time it is.
#[inline]
pub fn left(function: usize, began: u64, ended: u64) {
    if !IS_ON.load(Ordering::Relaxed) || PAUSED.load(Ordering::Relaxed) {
        return;
    }
    // SAFETY: the block of the calling thread.
    let address = unsafe { &*block() }.return_address.get();
    let call = Call { address, function: function as u16, began, ended };
    with(|owned| {
        let step = owned.graph.call(call);
        if owned.notices.after(&step, ended).is_some() {
            copy(&owned.graph);
        }
    });
}

/// Copies the sites for others, if nobody reads them now.
#[cold]
fn copy(graph: &Graph<SITES, 1024>) {
    let _guard = Guard::enter();
    if !LOCK.try_lock() {
        return;
    }
    // SAFETY: the lock is held.
    let copied = unsafe { &mut *COPIED.0.get() };
    let sites = graph.sites();
    copied.sites[..sites.len()].copy_from_slice(sites);
    (copied.count, copied.lost) = (sites.len(), graph.lost());
    COPIES.fetch_add(1, Ordering::Relaxed);
    LOCK.unlock();
}

/// Calls `each` with the number of every site, the site, and the number of calls from sites that found no room, if there
/// is a newer copy than that of number `last`. Returns its number.
pub fn each(last: u64, each: &mut dyn FnMut(usize, &Site, u64)) -> Option<u64> {
    if !is_on() {
        return None;
    }
    if is_owner() {
        with(|owned| copy(&owned.graph));
    }
    let _guard = Guard::enter();
    LOCK.lock();
    let copies = COPIES.load(Ordering::Relaxed);
    if copies != last {
        // SAFETY: the lock is held.
        let copied = unsafe { &*COPIED.0.get() };
        for (index, site) in copied.sites[..copied.count].iter().enumerate() {
            each(index, site, copied.lost);
        }
    }
    LOCK.unlock();
    (copies != last).then_some(copies)
}

/// Number of copies made, at a place that does not move.
pub const fn copies() -> &'static AtomicU64 {
    &COPIES
}

/// A loop that is in no other, for `memprof_hooks`. Times are in nanoseconds.
#[repr(C)]
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct OutermostLoop {
    /// Equal in the processes that are in this loop.
    pub id: u64,
    pub iterations: u64,
    pub elapsed: u64,
    pub mpi: u64,
    pub recent_elapsed: u64,
    pub recent_mpi: u64,
}

/// Fills in the outermost loops of the newest copy, those with most time first, and returns how many there were room for.
/// None where loops are not looked for, or cannot be told now.
pub fn outermost(into: &mut [OutermostLoop]) -> Option<usize> {
    if !is_on() {
        return None;
    }
    let scale = super::scale();
    let scaled = |ticks: u64| (ticks as f64 * scale).round() as u64;
    let _guard = Guard::enter();
    let mut keys = [0; SITES];
    let copies = with_copied(|copies, sites| {
        for (key, site) in keys.iter_mut().zip(sites) {
            *key = site.address as u64;
        }
        copies
    });
    if !to_keys(&mut keys) {
        return None;
    }
    with_copied(|now, sites| {
        if now != copies {
            return None;
        }
        let mut count = 0;
        for (at, head) in sites.iter().enumerate() {
            if !head.is_head || around(head) != memprof_trace::layout::NONE {
                continue;
            }
            let mut digest = Digest::default();
            let body = |(_, site): &(usize, &Site)| !site.is_head && usize::from(site.head) == at;
            let sites = sites.iter().enumerate();
            for (at, site) in core::iter::once((at, head)).chain(sites.filter(body)) {
                digest.push(Joins::of_kind(kind(site)), keys[at]);
            }
            let (measured, recent) = (head.measured, head.recent());
            let found = OutermostLoop {
                id: digest.finish(),
                iterations: head.revisits + 1,
                elapsed: scaled(measured.time),
                mpi: scaled(measured.mpi),
                recent_elapsed: scaled(recent.time),
                recent_mpi: scaled(recent.mpi),
            };
            let place = into[..count].partition_point(|known| known.elapsed >= found.elapsed);
            if place < into.len() {
                count = (count + 1).min(into.len());
                into[place..count].rotate_right(1);
                into[place] = found;
            }
        }
        Some(count)
    })
}

/// Looks at the newest copy, of this number.
fn with_copied<R>(look: impl FnOnce(u64, &[Site]) -> R) -> R {
    LOCK.lock();
    // SAFETY: the lock is held.
    let copied = unsafe { &*COPIED.0.get() };
    let result = look(COPIES.load(Ordering::Relaxed), &copied.sites[..copied.count]);
    LOCK.unlock();
    result
}

/// Turns addresses that calls return to into keys that are the same in all processes, of object and offset. Returns false
/// if the list of objects is busy.
fn to_keys(keys: &mut [u64; SITES]) -> bool {
    let addresses = *keys;
    owners::each(|object| {
        for (key, address) in keys.iter_mut().zip(addresses) {
            // The address continued at is behind the call.
            if (object.low as u64..object.high as u64).contains(&address.wrapping_sub(1)) {
                *key = object.name_hash().wrapping_add(address - object.base as u64);
            }
        }
    })
}

/// Name of the function that a site calls.
pub fn name(site: &Site) -> &'static str {
    functions::name(usize::from(site.function))
}

/// Number of its kind.
pub fn kind(site: &Site) -> u32 {
    let kind = KIND_OF.get(usize::from(site.function));
    u32::from(kind.map_or(Kind::Other as u8, |kind| kind.load(Ordering::Relaxed)))
}

/// Number of the head of the loop around a site, or [`memprof_trace::layout::NONE`].
pub fn around(site: &Site) -> u32 {
    match (site.head, site.outer) {
        (NONE, NONE) => memprof_trace::layout::NONE,
        (NONE, outer) => outer.into(),
        (head, _) => head.into(),
    }
}

/// See the table of [`crate::lifecycle::hooks`].
pub extern "C" fn control(action: u32) {
    if !is_on() || !is_owner() {
        return;
    }
    match action {
        0 => PAUSED.store(false, Ordering::Relaxed),
        1 => {
            PAUSED.store(true, Ordering::Relaxed);
            with(|owned| owned.graph.interrupt());
        }
        2 => {
            PAUSED.store(true, Ordering::Relaxed);
            with(|owned| owned.graph.reset(now()));
        }
        3 => {
            PAUSED.store(true, Ordering::Relaxed);
            with(|owned| owned.graph.clear());
        }
        _ => {}
    }
}

/// Held while sites are copied; `fork` takes it. Inside of the lock of phases, outside of that of the writer.
pub fn lock() -> &'static SpinLock {
    &LOCK
}
