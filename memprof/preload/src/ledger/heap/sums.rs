//! Sums of the process: bytes of each component that are not kept in the threads' counters, and
//! high-water marks, also of all components together.

use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use core::sync::atomic::{AtomicI64, AtomicU64, fence};

use super::pending_counters::Snapshot;
use super::thread_counters::ThreadCounters;
use super::{Ledger, thread_counters};
use crate::base::component::{Component, LIMIT};
use crate::base::dictionary;

/// Index of the account of all components together.
pub const ALL: usize = LIMIT;

static OWNED: [AtomicI64; LIMIT + 1] = [const { AtomicI64::new(0) }; LIMIT + 1];
static PEAK: [AtomicI64; LIMIT + 1] = [const { AtomicI64::new(0) }; LIMIT + 1];
/// Peaks of the innermost phase.
pub static PHASE: [AtomicI64; LIMIT + 1] = [const { AtomicI64::new(0) }; LIMIT + 1];

/// Numbers of mapping changes begun and done. Together with the folds of all threads
/// ([`folding`](super::PendingCounters::folding)) they show a reader that a change was in progress
/// or has happened since, so that it reads again.
static BEGUN: AtomicU64 = AtomicU64::new(0);
static DONE: AtomicU64 = AtomicU64::new(0);
/// Number of attempts of a reader before it takes the values it gets.
const TRIES: u32 = 1000;

/// One bit for each component that ever had memory: most objects never allocate.
static KNOWN: [AtomicU64; LIMIT / 64] = [const { AtomicU64::new(0) }; LIMIT / 64];

/// Marks a component as known, before it gets memory.
#[inline]
pub fn know(index: usize) {
    let (word, bit) = (&KNOWN[index / 64 % KNOWN.len()], 1 << (index % 64));
    if word.load(Relaxed) & bit == 0 {
        word.fetch_or(bit, Release);
    }
}

fn is_known(index: usize) -> bool {
    index == usize::from(Component::UNATTRIBUTED.0)
        || KNOWN[index / 64 % KNOWN.len()].load(Acquire) >> (index % 64) & 1 == 1
}

/// Adds `by` bytes, which a thread kept for a component or for all, to the sums. The thread was
/// never more than `high` bytes above the sums, which is checked for a new peak.
pub fn fold(index: usize, by: i64, high: i64) {
    raise(index, OWNED[index].fetch_add(by, AcqRel) + high);
}

/// Enters a change of the mapped bytes of a component, or of all. Peaks are not updated where
/// another thread may be about to enter the same memory for another component.
pub fn mapped(index: usize, by: i64, peaks: bool) {
    BEGUN.fetch_add(1, AcqRel);
    if peaks {
        fold(index, by, by.max(0));
    } else {
        OWNED[index].fetch_add(by, AcqRel);
    }
    DONE.fetch_add(1, AcqRel);
}

/// In the child of a fork, abandons the changes of other threads, which will not end.
pub fn forget_other_threads() {
    BEGUN.store(DONE.load(Relaxed), Relaxed);
}

fn raise(index: usize, to: i64) {
    for peak in [&PEAK[index], &PHASE[index]] {
        if peak.load(Relaxed) < to {
            peak.fetch_max(to, Relaxed);
        }
    }
}

/// Returns the number of components; one added later starts without memory. Tests use indexes of
/// their own.
fn count() -> usize {
    if cfg!(test) { LIMIT } else { dictionary::count().min(LIMIT) }
}

/// Returns the indexes of all components that ever had memory, and that of all together.
pub fn in_use() -> impl Iterator<Item = usize> {
    (0..count()).filter(|index| is_known(*index)).chain([ALL])
}

/// Returns a number that changes with each change of the sums; `None` while one is in progress.
fn changes() -> Option<u64> {
    let mut changes = DONE.load(Acquire);
    if BEGUN.load(Acquire) != changes {
        return None;
    }
    for state in thread_counters::each() {
        changes = changes.wrapping_add(state.current.folds()?);
    }
    Some(changes)
}

/// Reads one account after another.
#[derive(Default)]
pub struct Reader {
    /// Last result of [`changes`].
    seen: Option<u64>,
}

impl Reader {
    /// Returns the bytes owned now and the highest known: (owned, peak, peak of the innermost
    /// phase).
    pub fn read(&mut self, index: usize) -> (i64, i64, i64) {
        let mut result = (0, 0, 0);
        for _ in 0..TRIES {
            let before = self.seen.or_else(changes);
            let base = OWNED[index].load(Acquire);
            let (mut owned, mut active, mut most) = (base, 0, 0);
            for state in thread_counters::each() {
                let (own, high) = state.current.read(|| level_seen(state, index));
                owned += own;
                if own != 0 || high != 0 {
                    active += 1;
                    most = base + high;
                }
            }
            // With one active thread, the high-water mark of the thread is that of the process.
            let most = if active == 1 { owned.max(most) } else { owned };
            let peak = PEAK[index].load(Acquire).max(most);
            let phase = PHASE[index].load(Acquire).max(most);
            result = (owned, peak, phase);
            fence(AcqRel);
            self.seen = changes();
            if self.seen.is_some() && self.seen == before {
                break;
            }
            core::hint::spin_loop();
        }
        result
    }
}

/// Returns the bytes in the sums, without the bytes that threads keep.
#[cfg(test)]
pub fn owned_beyond_threads(index: usize) -> i64 {
    OWNED[index].load(Relaxed)
}

fn read(index: usize) -> (i64, i64, i64) {
    Reader::default().read(index)
}

/// Returns the bytes that a thread keeps for a component, or for all, and their high-water mark,
/// including the pending counters.
pub fn level_seen(state: &ThreadCounters, index: usize) -> (i64, i64) {
    let (owned, high) = state.level(index).read();
    let since = since(state, index);
    (owned + since.owned, high.max(owned + since.high))
}

/// Returns what the thread counted for a component, or for all, that is not yet in its accounts.
fn since(state: &ThreadCounters, index: usize) -> Snapshot {
    if index != ALL && index != state.current.component.load(Relaxed) as usize {
        return Snapshot::default();
    }
    state.current.snapshot()
}

/// Returns the ledger of one component.
pub fn ledger(component: Component) -> Ledger {
    ledger_at(&mut Reader::default(), usize::from(component.0) % LIMIT)
}

fn ledger_at(reader: &mut Reader, index: usize) -> Ledger {
    let (owned, peak, _) = reader.read(index);
    let mut ledger =
        Ledger { owned: owned.max(0) as u64, peak: peak.max(0) as u64, ..Ledger::default() };
    for state in thread_counters::each() {
        let account = &state.accounts[index];
        let (allocations, frees, total) = state.current.read(|| {
            let since = since(state, index);
            (
                account.allocations.load(Relaxed) + since.allocations,
                account.frees.load(Relaxed) + since.frees,
                account.allocated_total.load(Relaxed) + since.allocated,
            )
        });
        ledger.allocations += allocations;
        ledger.frees += frees;
        ledger.allocated_total += total;
    }
    ledger
}

/// Returns the ledgers of all components.
pub fn snapshot(into: &mut [Ledger; LIMIT]) {
    let mut reader = Reader::default();
    for (index, ledger_of) in into.iter_mut().enumerate().take(count()) {
        *ledger_of = match is_known(index) {
            true => ledger_at(&mut reader, index),
            false => Ledger::default(),
        };
    }
}

/// Returns the bytes that each component owns now.
pub fn owned_each(into: &mut [u64; LIMIT]) {
    let mut reader = Reader::default();
    for (index, owned) in into.iter_mut().enumerate().take(count()) {
        *owned = if is_known(index) { reader.read(index).0.max(0) as u64 } else { 0 };
    }
}

/// Returns the bytes that all components together own now, and their peak.
pub fn all() -> (u64, u64) {
    let (owned, peak, _) = read(ALL);
    (owned.max(0) as u64, peak.max(0) as u64)
}

/// Returns the bytes that one component owns now.
pub fn owned(component: Component) -> u64 {
    read(usize::from(component.0) % LIMIT).0.max(0) as u64
}
