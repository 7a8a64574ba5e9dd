//! Peaks of phases, which nest.

use core::sync::atomic::Ordering::Relaxed;
use core::sync::atomic::{AtomicI64, AtomicU64};

use super::account::fold_own;
use super::sums::{ALL, PHASE, Reader, in_use};
use crate::base::component::LIMIT;
use crate::base::lock::SpinLock;
use crate::base::thread::Guard;

/// Maximum depth of nested phases; deeper ones count for the phase that contains them.
pub const PHASE_DEPTH: usize = 16;

struct Phases {
    lock: SpinLock,
    depth: AtomicU64,
    /// Peaks so far of the phases around the innermost one.
    outer: [[AtomicI64; LIMIT + 1]; PHASE_DEPTH],
}

static PHASES: Phases = Phases {
    lock: SpinLock::new(),
    depth: AtomicU64::new(0),
    outer: [const { [const { AtomicI64::new(0) }; LIMIT + 1] }; PHASE_DEPTH],
};

/// Begins a new innermost phase, whose peaks start at the bytes owned now.
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

/// Ends the innermost phase and returns its peaks, which also count for the enclosing phase.
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

/// Returns the peaks so far of the open phase at a depth, 0 the outermost. `into` holds the peaks
/// of the phases inside it.
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

/// Takes the lock before a fork.
pub fn before_fork() {
    PHASES.lock.lock();
}

pub fn after_fork() {
    PHASES.lock.unlock();
}
