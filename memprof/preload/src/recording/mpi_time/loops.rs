//! Loops of the program, found from the addresses at which the thread that began MPI calls it.
//!
//! Only that thread has the graph. It copies the call sites for other threads at most once in a
//! period: when the first loop is found, then where loops have changed or one of them begins an
//! iteration, and at the end.

#![allow(unsafe_code)]

use core::cell::UnsafeCell;
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use memprof_boundary::functions::{self, Kind};
use memprof_boundary::thread::block;
use memprof_loops::graph::{Call, Graph, NONE, Site};
use memprof_loops::notice::Notices;
use memprof_loops::reduce::{Digest, Joins};

use super::{KIND_OF, both_clocks, is_owner, now};
use crate::base::kernel;
use crate::base::lock::SpinLock;
use crate::base::thread::Guard;
use crate::owners;

/// Maximum number of call sites.
pub const SITES: usize = 256;
/// Length in nanoseconds of the recent past; it may be up to twice as long.
const WINDOW: u64 = 10_000_000_000;

struct Owned {
    graph: Graph<SITES, 1024>,
    notices: Notices,
}

struct OwnedCell(UnsafeCell<Owned>);

// SAFETY: used by the measured thread only, with BUSY set.
unsafe impl Sync for OwnedCell {}

static OWNED: OwnedCell =
    OwnedCell(UnsafeCell::new(Owned { graph: Graph::new(), notices: Notices::every(0) }));
/// True while the graph is in use: a signal handler that interrupts it leaves it alone.
static BUSY: AtomicBool = AtomicBool::new(false);
static IS_ON: AtomicBool = AtomicBool::new(false);
static PAUSED: AtomicBool = AtomicBool::new(false);

struct Copied {
    sites: [Site; SITES],
    count: usize,
    lost: u64,
    /// When it was made, on the monotonic clock.
    time: u64,
}

struct CopiedCell(UnsafeCell<Copied>);

// SAFETY: accessed only while LOCK is held.
unsafe impl Sync for CopiedCell {}

static COPIED: CopiedCell =
    CopiedCell(UnsafeCell::new(Copied { sites: [Site::NEW; SITES], count: 0, lost: 0, time: 0 }));
static LOCK: SpinLock = SpinLock::new();
/// Number of copies made.
static COPIES: AtomicU64 = AtomicU64::new(0);

/// Starts to search for loops, with `period` nanoseconds between two copies. Called after time
/// measurement has started, before the first MPI call.
pub fn start(period: u64) {
    let ticks = ticks_in_a_millisecond();
    with(|owned| {
        owned.graph.set_window(WINDOW / 1_000_000 * ticks);
        owned.notices.set_period(period / 1_000_000 * ticks);
    });
    IS_ON.store(true, Ordering::Release);
}

/// Returns the clock ticks in a millisecond, as precisely as one millisecond allows.
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

/// Returns true if loops are searched for.
pub fn is_on() -> bool {
    IS_ON.load(Ordering::Acquire)
}

/// Runs `work` on the graph, in the measured thread. Returns `None` where it interrupted another
/// use.
fn with<R>(work: impl FnOnce(&mut Owned) -> R) -> Option<R> {
    if BUSY.swap(true, Ordering::Acquire) {
        return None;
    }
    // SAFETY: in the only thread that uses it, and not nested in another use.
    let result = work(unsafe { &mut *OWNED.0.get() });
    BUSY.store(false, Ordering::Release);
    Some(result)
}

/// Handles the return of an outermost MPI call in the measured thread.
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

/// Copies the call sites for other threads, unless one is reading them now.
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
    copied.time = kernel::monotonic();
    COPIES.fetch_add(1, Ordering::Relaxed);
    LOCK.unlock();
}

/// Calls `each` with the number of every site, the site, the number of calls from sites that found
/// no room, and the monotonic time of the copy, if there is a newer copy than number `last`. Returns
/// the number of that copy.
pub fn each(last: u64, each: &mut dyn FnMut(usize, &Site, u64, u64)) -> Option<u64> {
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
            each(index, site, copied.lost, copied.time);
        }
    }
    LOCK.unlock();
    (copies != last).then_some(copies)
}

/// Returns the number of copies, at a fixed address.
pub const fn copies() -> &'static AtomicU64 {
    &COPIES
}

/// A loop that is in no other loop, for `memprof_hooks`. Times are in nanoseconds.
#[repr(C)]
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct OutermostLoop {
    /// Equal in all processes that are in this loop.
    pub id: u64,
    pub iterations: u64,
    pub elapsed: u64,
    pub mpi: u64,
    pub recent_elapsed: u64,
    pub recent_mpi: u64,
}

/// Writes the outermost loops of the newest copy in descending order of time, and returns how many
/// fit. Returns `None` where loops are not searched for, or not available now.
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

/// Calls `look` with the number and the sites of the newest copy.
fn with_copied<R>(look: impl FnOnce(u64, &[Site]) -> R) -> R {
    LOCK.lock();
    // SAFETY: the lock is held.
    let copied = unsafe { &*COPIED.0.get() };
    let result = look(COPIES.load(Ordering::Relaxed), &copied.sites[..copied.count]);
    LOCK.unlock();
    result
}

/// Converts return addresses into keys of object and offset that are equal in all processes.
/// Returns false if the list of objects is busy.
fn to_keys(keys: &mut [u64; SITES]) -> bool {
    let addresses = *keys;
    owners::each(|object| {
        for (key, address) in keys.iter_mut().zip(addresses) {
            // The return address lies behind the call.
            if (object.low as u64..object.high as u64).contains(&address.wrapping_sub(1)) {
                *key = object.name_hash().wrapping_add(address - object.base as u64);
            }
        }
    })
}

/// Returns the name of the function that a site calls.
pub fn name(site: &Site) -> &'static str {
    functions::name(usize::from(site.function))
}

/// Returns the number of the kind of that function.
pub fn kind(site: &Site) -> u32 {
    let kind = KIND_OF.get(usize::from(site.function));
    u32::from(kind.map_or(Kind::Other as u8, |kind| kind.load(Ordering::Relaxed)))
}

/// Returns the number of the head of the loop around a site, or [`memprof_trace::layout::NONE`].
pub fn around(site: &Site) -> u32 {
    match (site.head, site.outer) {
        (NONE, NONE) => memprof_trace::layout::NONE,
        (NONE, outer) => outer.into(),
        (head, _) => head.into(),
    }
}

/// Implements `loops` of the table in [`crate::lifecycle::hooks`].
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

/// Returns the lock that is held while sites are copied; `fork` takes it. It is taken inside the
/// lock of phases, outside of the writer's.
pub fn lock() -> &'static SpinLock {
    &LOCK
}
