//! The peaks of phases, which nest.

use core::sync::atomic::Ordering::Relaxed;
use core::sync::atomic::{AtomicI64, AtomicU64};

use super::account::fold_own;
use super::sums::{ALL, PHASE, Reader, in_use};
use crate::base::component::LIMIT;
use crate::base::lock::SpinLock;
use crate::base::thread::Guard;

/// Depth of nested phases; deeper ones count for the one they are in.
pub const PHASE_DEPTH: usize = 16;

struct Phases {
    lock: SpinLock,
    depth: AtomicU64,
    /// The peaks so far of those around the innermost.
    outer: [[AtomicI64; LIMIT + 1]; PHASE_DEPTH],
}

static PHASES: Phases = Phases {
    lock: SpinLock::new(),
    depth: AtomicU64::new(0),
    outer: [const { [const { AtomicI64::new(0) }; LIMIT + 1] }; PHASE_DEPTH],
};

/// A new innermost phase: its peaks start at the bytes owned now.
pub fn peaks_begin() {
    let _guard = Guard::enter();
    fold_own();
    PHASES.lock.lock();
    let depth = PHASES.depth.load(Relaxed);
    PHASES.depth.store(depth + 1, Relaxed);
    if let Some(outer) = PHASES.outer.get(depth as usize) {
        let mut reader = Reader::default();
        for index in in_use() {
            let (owned, _, _) = reader.read(index);
            outer[index].store(PHASE[index].swap(owned, Relaxed), Relaxed);
        }
    }
    PHASES.lock.unlock();
}

/// The innermost phase ends: its peaks, which also count for the one around it.
pub fn peaks_end(into: &mut [u64; LIMIT]) {
    let _guard = Guard::enter();
    fold_own();
    PHASES.lock.lock();
    let depth = PHASES.depth.load(Relaxed);
    into.fill(0);
    let mut reader = Reader::default();
    for index in in_use().filter(|index| *index != ALL) {
        into[index] = reader.read(index).2.max(0) as u64;
    }
    if depth > 0 {
        PHASES.depth.store(depth - 1, Relaxed);
        if let Some(outer) = PHASES.outer.get(depth as usize - 1) {
            for index in in_use() {
                PHASE[index].fetch_max(outer[index].load(Relaxed), Relaxed);
            }
        }
    }
    PHASES.lock.unlock();
}

/// The peaks so far of the phase that is open at a depth, 0 the outermost, given those of the ones
/// inside it.
pub fn peaks_open(depth: usize, into: &mut [u64; LIMIT]) {
    let _guard = Guard::enter();
    PHASES.lock.lock();
    let inner =
        PHASES.outer.get(depth + 1).filter(|_| depth + 1 < PHASES.depth.load(Relaxed) as usize);
    let mut reader = Reader::default();
    for index in in_use().filter(|index| *index != ALL) {
        let peak = inner.map_or_else(|| reader.read(index).2, |outer| outer[index].load(Relaxed));
        into[index] = into[index].max(peak.max(0) as u64);
    }
    PHASES.lock.unlock();
}

/// As for the other locks of a fork.
pub fn before_fork() {
    PHASES.lock.lock();
}

pub fn after_fork() {
    PHASES.lock.unlock();
}
