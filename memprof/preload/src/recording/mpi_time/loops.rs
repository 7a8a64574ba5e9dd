//! Loops of the program, from the places that the thread that began MPI calls it from.
//!
//! That thread alone has the graph, and copies its sites for others at most once in [`PERIOD`]: as the first loop is found,
//! then where loops have changed or one of them begins an iteration, and at the end.

#![allow(unsafe_code)]

use core::cell::UnsafeCell;
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use memprof_boundary::functions::{self, Kind};
use memprof_boundary::thread::block;
use memprof_loops::graph::{Call, Graph, NONE, Site};
use memprof_loops::notice::Notices;

use super::{KIND_OF, is_owner, now};
use crate::base::kernel;
use crate::base::lock::SpinLock;
use crate::base::thread::Guard;

/// Call sites that are kept.
pub const SITES: usize = 256;
/// Nanoseconds between two copies.
const PERIOD: u64 = 1_000_000_000;
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
    OwnedCell(UnsafeCell::new(Owned { graph: Graph::new(), notices: Notices::every(PERIOD) }));
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

/// Begins to look for loops. To be called after the times are begun, before the first call of MPI.
pub fn start() {
    let ticks = ticks_in_a_millisecond();
    with(|owned| {
        owned.graph.set_window(WINDOW / 1_000_000 * ticks);
        owned.notices.set_period(PERIOD / 1_000_000 * ticks);
    });
    IS_ON.store(true, Ordering::Release);
}

/// Ticks of the clock in a millisecond, as exact as a millisecond tells.
fn ticks_in_a_millisecond() -> u64 {
    let (from, began) = (now(), kernel::monotonic());
    loop {
        let (to, time) = (now(), kernel::monotonic());
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
        _ => {}
    }
}

/// Held while sites are copied; `fork` takes it. Inside of the lock of phases, outside of that of the writer.
pub fn lock() -> &'static SpinLock {
    &LOCK
}
