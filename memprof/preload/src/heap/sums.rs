//! The sums of the process: what each component owns beyond what threads keep to themselves, and the most that all
//! together ever did.

use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use core::sync::atomic::{AtomicI64, AtomicU64, fence};

use super::{Ledger, registry};
use crate::component::{self, Component, LIMIT};
use crate::thread::{Since, State};

/// The account of all components together.
pub const ALL: usize = LIMIT;

/// What the first thread looks at again and again, in few pages.
#[repr(C)]
struct Sums {
    owned: [AtomicI64; LIMIT + 1],
    /// How many phases have begun.
    beginnings: AtomicU64,
}

static SUMS: Sums =
    Sums { owned: [const { AtomicI64::new(0) }; LIMIT + 1], beginnings: AtomicU64::new(0) };

static PEAK: [AtomicI64; LIMIT + 1] = [const { AtomicI64::new(0) }; LIMIT + 1];
/// The peaks of the innermost phase.
pub static PHASE: [AtomicI64; LIMIT + 1] = [const { AtomicI64::new(0) }; LIMIT + 1];

/// Changes of mappings begun and done, and folds of all threads by [`folding`](crate::thread::Current::folding). A reader that saw one under
/// way, or any since, reads again.
static BEGUN: AtomicU64 = AtomicU64::new(0);
static DONE: AtomicU64 = AtomicU64::new(0);
/// How often a reader tries before it takes what it gets.
const TRIES: u32 = 1000;

/// Which components ever had anything, as a bit for each: most objects never allocate.
static KNOWN: [AtomicU64; LIMIT / 64] = [const { AtomicU64::new(0) }; LIMIT / 64];

/// Before the component gets something.
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

/// What a thread kept of a component, or of all, goes to the sums: so much, and it never was further above them than
/// `high`. A peak is looked for while that is in them. False if it stays with the thread, since what the first thread
/// owns, which is in no sum, could not be told just now.
pub fn fold(index: usize, by: i64, high: i64) -> bool {
    let Some(first) = registry::first() else {
        raise(index, SUMS.owned[index].fetch_add(by, AcqRel) + high);
        return true;
    };
    // Where this is missed, it is seen when what has come goes.
    if by > 0 {
        SUMS.owned[index].fetch_add(by, AcqRel);
        raise_beside(first, index, high - by);
        return true;
    }
    let is_seen = raise_beside(first, index, high);
    if is_seen {
        SUMS.owned[index].fetch_add(by, AcqRel);
    }
    is_seen
}

/// All have so much more than the sums and the first thread together.
fn raise_beside(first: &State, index: usize, more: i64) -> bool {
    let now = || SUMS.owned[index].load(Acquire) + level_seen(first, index).0;
    let together = first.current.look_or_give_up(now);
    together.inspect(|together| raise(index, together + more)).is_some()
}

/// Whether the first thread's highest was beside what the sums say now.
#[inline(always)]
pub fn is_beside(first: &State, index: usize) -> bool {
    SUMS.owned[index].load(Acquire) == first.beside(index).load(Relaxed)
}

/// Whether no phase has begun since the first thread last looked.
#[inline(always)]
pub fn is_in_phase(first: &State) -> bool {
    phase() == first.phases.load(Acquire)
}

/// The first thread was so far above what it is beside.
pub fn enter(first: &State, index: usize, high: i64) {
    let most = first.beside(index).load(Relaxed) + high;
    raise_one(&PEAK[index], most);
    if is_in_phase(first) {
        raise_one(&PHASE[index], most);
    }
}

/// What the first thread comes to from now on is beside the sums of now. Only by that thread, or when no thread has its
/// state, and while nobody looks.
pub fn be_beside(first: &State, index: usize) {
    first.beside(index).store(SUMS.owned[index].load(Acquire), Relaxed);
}

/// A phase begins. What the first thread came to before is not of it.
pub fn phase_begins() {
    SUMS.beginnings.fetch_add(1, AcqRel);
}

/// How many phases have begun.
#[inline(always)]
pub fn phase() -> u64 {
    SUMS.beginnings.load(Acquire)
}

/// The first thread has entered all that it came to before the last of so many phases.
pub fn be_in_phase(first: &State, phase: u64) {
    first.phases.store(phase, Release);
}

/// What a component, or all, own in mappings has changed. Peaks are not looked for where another thread may be about to
/// enter it under another name.
pub fn mapped(index: usize, by: i64, peaks: bool) {
    BEGUN.fetch_add(1, AcqRel);
    if !peaks || !fold(index, by, by.max(0)) {
        SUMS.owned[index].fetch_add(by, AcqRel);
    }
    DONE.fetch_add(1, AcqRel);
}

/// In the child of a fork: a change that another thread was in will not end.
pub fn forget_other_threads() {
    BEGUN.store(DONE.load(Relaxed), Relaxed);
}

fn raise(index: usize, to: i64) {
    raise_one(&PEAK[index], to);
    raise_one(&PHASE[index], to);
}

fn raise_one(peak: &AtomicI64, to: i64) {
    if peak.load(Relaxed) < to {
        peak.fetch_max(to, Relaxed);
    }
}

/// How many components there are; one that comes later begins with nothing. Tests have some of their own.
fn count() -> usize {
    if cfg!(test) { LIMIT } else { component::count().min(LIMIT) }
}

/// Accounts of those that ever had anything, and that of all.
pub fn in_use() -> impl Iterator<Item = usize> {
    (0..count()).filter(|index| is_known(*index)).chain([ALL])
}

/// What changes with each change of the sums; none while one is under way.
fn changes() -> Option<u64> {
    let mut changes = DONE.load(Acquire);
    if BEGUN.load(Acquire) != changes {
        return None;
    }
    for state in registry::each() {
        changes = changes.wrapping_add(state.current.folds()?);
    }
    Some(changes)
}

/// Reads the accounts, one after the other.
#[derive(Default)]
pub struct Reader {
    /// What [`changes`] last said.
    seen: Option<u64>,
}

impl Reader {
    /// What is owned now, and the highest that can be told: (owned, peak, peak of the innermost phase).
    pub fn read(&mut self, index: usize) -> (i64, i64, i64) {
        let mut result = (0, 0, 0);
        for _ in 0..TRIES {
            let before = self.seen.or_else(changes);
            let base = SUMS.owned[index].load(Acquire);
            let (mut owned, mut active, mut most) = (base, 0, 0);
            let (mut first, mut first_in_phase) = (i64::MIN, i64::MIN);
            for state in registry::each() {
                let is_first = registry::is_first(state);
                let (in_phase, own, high, beside) = state.current.look(|| {
                    let in_phase = is_first && is_in_phase(state);
                    let (own, high) = level_seen(state, index);
                    let beside = if is_first { state.beside(index) } else { &SUMS.owned[index] };
                    (in_phase, own, high, beside.load(Relaxed))
                });
                owned += own;
                if own != 0 || high != 0 {
                    active += 1;
                    most = beside + high;
                }
                if is_first {
                    first = beside + high;
                    first_in_phase = if in_phase { first } else { i64::MIN };
                }
            }
            // With one thread at work its highest is that of all.
            let most = if active == 1 { owned.max(most) } else { owned };
            // What the first thread has entered before it was looked at is there now.
            let peak = PEAK[index].load(Acquire).max(first).max(most);
            let phase = PHASE[index].load(Acquire).max(first_in_phase).max(most);
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

/// What the sums alone say.
#[cfg(test)]
pub fn owned_beyond_threads(index: usize) -> i64 {
    SUMS.owned[index].load(Relaxed)
}

fn read(index: usize) -> (i64, i64, i64) {
    Reader::default().read(index)
}

/// What a thread keeps to itself of a component, or of all, and the most it did, as a look sees it.
pub fn level_seen(state: &State, index: usize) -> (i64, i64) {
    let (owned, high) = state.level(index).read();
    let since = since(state, index);
    (owned + since.owned, high.max(owned + since.high))
}

/// What the thread did for a component, or for all, that its accounts do not say.
fn since(state: &State, index: usize) -> Since {
    if index != ALL && index != state.current.component.load(Relaxed) as usize {
        return Since::default();
    }
    state.current.since()
}

/// The ledger of one component.
pub fn ledger(component: Component) -> Ledger {
    ledger_at(&mut Reader::default(), usize::from(component.0) % LIMIT)
}

fn ledger_at(reader: &mut Reader, index: usize) -> Ledger {
    let (owned, peak, _) = reader.read(index);
    let mut ledger =
        Ledger { owned: owned.max(0) as u64, peak: peak.max(0) as u64, ..Ledger::default() };
    for state in registry::each() {
        let account = &state.accounts[index];
        let (allocations, frees, total) = state.current.look(|| {
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

/// The ledgers of all components.
pub fn snapshot(into: &mut [Ledger; LIMIT]) {
    let mut reader = Reader::default();
    for (index, ledger_of) in into.iter_mut().enumerate().take(count()) {
        *ledger_of = match is_known(index) {
            true => ledger_at(&mut reader, index),
            false => Ledger::default(),
        };
    }
}

/// What each component owns now.
pub fn owned_each(into: &mut [u64; LIMIT]) {
    let mut reader = Reader::default();
    for (index, owned) in into.iter_mut().enumerate().take(count()) {
        *owned = if is_known(index) { reader.read(index).0.max(0) as u64 } else { 0 };
    }
}

/// What all components own together now, and the most they did.
pub fn all() -> (u64, u64) {
    let (owned, peak, _) = read(ALL);
    (owned.max(0) as u64, peak.max(0) as u64)
}

/// What one component owns now.
pub fn owned(component: Component) -> u64 {
    read(usize::from(component.0) % LIMIT).0.max(0) as u64
}
