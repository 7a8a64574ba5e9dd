//! The sums: what each component owns in blocks and in mappings, and the most it ever did.
//!
//! A thread writes its own accounts only, and in front of them what it does for the component it works
//! for ([`crate::thread::Current`]). What it owns beyond [`KEEP`] is folded into the sums of the process,
//! where peaks are found. What is owned is exact at every moment. A peak is exact with one thread, and in
//! exact mode; with more it is exact to 256 KiB for each of them.

use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use core::sync::atomic::{AtomicI64, AtomicU64, fence};

use super::{Ledger, large, real, registry, tag};
use crate::component::{self, Component, LIMIT};
use crate::lock::SpinLock;
use crate::thread::{Current, Guard, Local, Since, State, local};

/// The account of all components together.
pub const ALL: usize = LIMIT;

/// A word that all threads read, in a line of the cache that nobody writes.
#[repr(align(64))]
struct Alone(AtomicI64);

/// What a thread keeps to itself in its accounts, in bytes; less than nothing in exact mode.
static KEEP: Alone = Alone(AtomicI64::new(80 * 1024));

/// The same of what is in front of them, as [`Current::most`] has it. Together 256 KiB.
static KEEP_CURRENT: Alone = Alone(AtomicI64::new(Current::most(IN_FRONT)));
const IN_FRONT: i64 = 176 * 1024;

/// One block more than may be kept fits the words.
const _: () = assert!(2 * IN_FRONT + (super::blocks::LOOK_BEFORE_RELEASE as i64) < Current::FAR);

static OWNED: [AtomicI64; LIMIT + 1] = [const { AtomicI64::new(0) }; LIMIT + 1];
static PEAK: [AtomicI64; LIMIT + 1] = [const { AtomicI64::new(0) }; LIMIT + 1];
/// The peaks of the innermost phase.
static PHASE: [AtomicI64; LIMIT + 1] = [const { AtomicI64::new(0) }; LIMIT + 1];

/// Changes of mappings begun and done, and folds of all threads by [`Current::folding`]. A reader that saw one under
/// way, or any since, reads again.
static BEGUN: AtomicU64 = AtomicU64::new(0);
static DONE: AtomicU64 = AtomicU64::new(0);
/// How often a reader tries before it takes what it gets.
const TRIES: u32 = 1000;

/// How deep phases nest; deeper ones count for the one they are in.
pub const PHASE_DEPTH: usize = 16;

/// Which components ever had anything, as a bit for each: most objects never allocate.
static KNOWN: [AtomicU64; LIMIT / 64] = [const { AtomicU64::new(0) }; LIMIT / 64];

/// Before the component gets something.
#[inline]
fn know(index: usize) {
    let (word, bit) = (&KNOWN[index / 64 % KNOWN.len()], 1 << (index % 64));
    if word.load(Relaxed) & bit == 0 {
        word.fetch_or(bit, Release);
    }
}

fn is_known(index: usize) -> bool {
    index == usize::from(Component::UNATTRIBUTED.0)
        || KNOWN[index / 64 % KNOWN.len()].load(Acquire) >> (index % 64) & 1 == 1
}

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

/// Every change goes to the sums at once, so that peaks are exact with any number of threads.
pub fn be_exact() {
    KEEP.0.store(-1, Relaxed);
    KEEP_CURRENT.0.store(Current::most(-1), Relaxed);
    // A level that is below its highest would not be noticed.
    fold_own();
}

/// Adds without the price of an atomic addition: only one thread writes the word.
#[inline(always)]
pub fn bump(word: &AtomicU64, by: u64) {
    word.store(word.load(Relaxed).wrapping_add(by), Relaxed);
}

/// The most that the quick ways may have in the word of their room.
#[inline(always)]
pub fn most() -> i64 {
    KEEP_CURRENT.0.load(Relaxed)
}

/// What the countdown says after a block of the component that the thread works for, if it does not end.
#[inline(always)]
pub fn left_after(state: &State, component: Component, size: usize) -> Option<i64> {
    let left = state.current.countdown.load(Relaxed) - ((size as i64) << Current::SHIFT) + 1;
    let same = state.current.component.load(Relaxed) == u32::from(component.0);
    (same && left >= 0).then_some(left)
}

/// That component allocated, for which [`left_after`] has said what is left.
#[inline(always)]
pub fn allocated_again(state: &State, left: i64, size: usize) {
    state.current.countdown.store(left, Relaxed);
    let room = state.current.room.load(Relaxed) - ((size as i64) << Current::SHIFT);
    if room >= 0 {
        state.current.room.store(room, Relaxed);
    } else if Current::most(state.current.raise(room)) > most() {
        fold_both(state, Component(state.current.component.load(Relaxed) as u16));
    }
}

/// A component allocated.
pub fn allocated(state: &State, component: Component, size: usize) {
    settle(state);
    know(usize::from(component.0) % LIMIT);
    let own = &state.accounts[usize::from(component.0) % LIMIT];
    let keep = KEEP.0.load(Relaxed);
    bump(&own.allocations, 1);
    bump(&own.allocated_total, size as u64);
    if own.level.rise(size as i64, keep) | state.all.rise(size as i64, keep) {
        fold_to(state, component, middle(size as i64, keep));
    }
}

/// How much of a change that went too far is kept: what goes the other way then does not go too far. Programs
/// that free a large block often make another as large.
fn middle(by: i64, keep: i64) -> i64 {
    if by.abs() <= 2 * keep { by / 2 } else { 0 }
}

/// What a component allocated was freed.
pub fn freed(state: &State, component: Component, size: usize) {
    let current = &state.current;
    if size < large::FROM && current.component.load(Relaxed) == u32::from(component.0) {
        let room = current.room.load(Relaxed) + ((size as i64) << Current::SHIFT) + 1;
        current.room.store(room, Relaxed);
        if room > most() {
            fold_if_low(state);
        }
        return;
    }
    if current.component.load(Relaxed) == u32::from(component.0) {
        settle(state);
    } else {
        // What is in front of the accounts stays there. It may have been higher than it is, beside what goes
        // now: that is entered, and what it comes to from now on is beside less.
        let high = current.high.load(Relaxed);
        if state.all.is_below(high) {
            current.guarded(|| state.all.was_above(high));
        }
    }
    let own = &state.accounts[usize::from(component.0) % LIMIT];
    let keep = KEEP.0.load(Relaxed);
    bump(&own.frees, 1);
    if own.level.fall(size as i64, keep) | state.all.fall(size as i64, keep) {
        fold_to(state, component, middle(-(size as i64), keep));
    }
}

/// Enters what the thread did for the component it works for. Only by the thread that has the state, or
/// when no thread has it.
fn settle(state: &State) {
    if !state.current.is_empty() {
        restart(state, state.current.left(), state.current.component.load(Relaxed));
    }
}

/// As [`settle`]; then so many bytes are to go, and the work is for this component.
fn restart(state: &State, left: i64, component: u32) {
    let was_empty = state.current.is_empty();
    let own = enter_current(state, left, component);
    if was_empty {
        return;
    }
    let keep = KEEP.0.load(Relaxed);
    if state.level(own).is_beyond(keep) || state.all.is_beyond(keep) {
        fold_both(state, Component(own as u16));
    }
}

/// The same, whatever the thread then keeps. Gives the component whose account has changed.
fn enter_current(state: &State, left: i64, component: u32) -> usize {
    if state.current.is_empty() {
        // Nothing but the words in front.
        let before = state.current.component.load(Relaxed) as usize % LIMIT;
        state.current.restart(left, component, || {});
        return before;
    }
    let since = state.current.since();
    let index = since.component as usize % LIMIT;
    let own = &state.accounts[index];
    state.current.restart(left, component, || {
        bump(&own.allocations, since.allocations);
        bump(&own.frees, since.frees);
        bump(&own.allocated_total, since.allocated);
        own.level.follow(since.owned, since.high);
        state.all.follow(since.owned, since.high);
    });
    index
}

/// So many bytes are to go until an allocation is looked at closely.
pub fn count_down(state: &State, left: i64) {
    restart(state, left, state.current.component.load(Relaxed));
}

/// The thread works for this component: its blocks go the quick way.
pub fn work_for(local: &Local, state: &State, component: Component) {
    if state.current.component.load(Relaxed) != u32::from(component.0) {
        know(usize::from(component.0) % LIMIT);
        restart(state, state.current.left(), u32::from(component.0));
    }
    // Without a mark nothing goes the quick way.
    let mark = if real::is_quick() { tag::quick(0, 0, component, real::key()) } else { 0 };
    local.mark.set(mark);
    state.current.mark.store(mark, Relaxed);
}

/// A block goes from one component to another; neither allocates nor frees.
pub fn given(state: &State, from: Component, to: Component, size: usize) {
    settle(state);
    let (from, to) = (usize::from(from.0) % LIMIT, usize::from(to.0) % LIMIT);
    know(to);
    state.level(from).fall(size as i64, 0);
    state.level(to).rise(size as i64, 0);
    fold(state, &[from, to], 0);
}

/// What a component owns in mappings has changed. `peaks` is false where it may be what another thread
/// is about to enter under another name.
pub fn mapped(component: Component, by: i64, peaks: bool) {
    let index = usize::from(component.0) % LIMIT;
    know(index);
    for index in [index, ALL] {
        // Not in a handler of a signal that came during another.
        if let Some(state) = super::own_state(local())
            && state.current.folds().is_some()
        {
            // The highest of the blocks was beside what was mapped until now.
            fold(state, &[index], 0);
        }
        BEGUN.fetch_add(1, AcqRel);
        let now = OWNED[index].fetch_add(by, AcqRel) + by;
        if peaks && by > 0 {
            PEAK[index].fetch_max(now, Relaxed);
            PHASE[index].fetch_max(now, Relaxed);
        }
        DONE.fetch_add(1, AcqRel);
    }
}

/// What the thread kept of a component, and of all, goes to the sums.
#[cold]
#[inline(never)]
pub fn fold_both(state: &State, component: Component) {
    fold_to(state, component, 0);
}

/// What the quick ways kept goes to the sums, if the thread is as far below them. That it is as far below its own
/// highest is what they see.
#[cold]
#[inline(never)]
pub fn fold_if_low(state: &State) {
    if state.current.is_below(most()) {
        fold_both(state, Component(state.current.component.load(Relaxed) as u16));
    }
}

/// As [`fold_both`], but for so much.
#[cold]
#[inline(never)]
fn fold_to(state: &State, component: Component, kept: i64) {
    fold(state, &[usize::from(component.0) % LIMIT, ALL], kept);
    // What threads share is locked now; who gives that back asks.
    if !registry::is_shared(state) {
        crate::start::late();
    }
}

/// Only by the thread that has the state, or when no thread has it.
fn fold(state: &State, indexes: &[usize], kept: i64) {
    // What was in front of the accounts may be more than they are to keep, and of another component.
    let mut other = None;
    if !state.current.is_empty() {
        let (left, component) = (state.current.left(), state.current.component.load(Relaxed));
        let index = enter_current(state, left, component);
        let is_beyond = state.level(index).is_beyond(KEEP.0.load(Relaxed));
        other = Some(index).filter(|index| is_beyond && !indexes.contains(index));
    }
    state.current.folding(|| {
        let one = |index: usize, kept: i64| {
            let level = state.level(index);
            let (owned, high) = level.read();
            let before = OWNED[index].fetch_add(owned - kept, AcqRel);
            let most = before + high.max(owned);
            raise(&PEAK[index], most);
            raise(&PHASE[index], most);
            level.start_at(kept);
        };
        indexes.iter().for_each(|index| one(*index, kept));
        other.into_iter().for_each(|index| one(index, 0));
    });
}

fn raise(peak: &AtomicI64, to: i64) {
    if peak.load(Relaxed) < to {
        peak.fetch_max(to, Relaxed);
    }
}

/// Folds all of a thread that ends, or is gone, or begins a phase.
pub fn fold_all(state: &State) {
    settle(state);
    for index in in_use() {
        if state.level(index).read() != (0, 0) {
            fold(state, &[index], 0);
        }
    }
}

/// How many components there are; one that comes later begins with nothing. Tests have some of their own.
fn count() -> usize {
    if cfg!(test) { LIMIT } else { component::count().min(LIMIT) }
}

/// Accounts of those that ever had anything, and that of all.
fn in_use() -> impl Iterator<Item = usize> {
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
struct Reader {
    /// What [`changes`] last said.
    seen: Option<u64>,
}

impl Reader {
    /// What is owned now, and the highest that can be told: (owned, peak, peak of the innermost phase).
    fn read(&mut self, index: usize) -> (i64, i64, i64) {
        let mut result = (0, 0, 0);
        for _ in 0..TRIES {
            let before = self.seen.or_else(changes);
            let base = OWNED[index].load(Acquire);
            let (mut owned, mut active, mut high) = (base, 0, 0);
            for (own, top) in registry::each().map(|state| level(state, index)) {
                owned += own;
                if own != 0 || top != 0 {
                    active += 1;
                    high = top;
                }
            }
            // With one thread at work its highest is that of all.
            let most = if active == 1 { owned.max(base + high) } else { owned };
            let peak = PEAK[index].load(Relaxed).max(most);
            result = (owned, peak, PHASE[index].load(Relaxed).max(most));
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

fn read(index: usize) -> (i64, i64, i64) {
    Reader::default().read(index)
}

/// What a thread keeps to itself of a component, or of all, and the most it did.
fn level(state: &State, index: usize) -> (i64, i64) {
    state.current.look(|| {
        let (owned, high) = state.level(index).read();
        let since = since(state, index);
        (owned + since.owned, high.max(owned + since.high))
    })
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

/// What all components own together now, and the most they did.
pub fn all() -> (u64, u64) {
    let (owned, peak, _) = read(ALL);
    (owned.max(0) as u64, peak.max(0) as u64)
}

/// What one component owns now.
pub fn owned(component: Component) -> u64 {
    read(usize::from(component.0) % LIMIT).0.max(0) as u64
}

fn fold_own() {
    if let Some(state) = super::own_state(local()) {
        fold_all(state);
    }
}

/// A new innermost phase: its peaks start at what is owned now.
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

/// In the child: a fold that another thread was in will not end.
pub fn forget_other_threads() {
    BEGUN.store(DONE.load(Relaxed), Relaxed);
    registry::each().for_each(|state| state.current.forget_thread());
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Little enough that nothing is folded into the sums, which all tests share.
        #[test]
        fn the_most_of_all_components_together_is_exact(
            steps in prop::collection::vec((0_u16..3, 1_usize..200, any::<bool>()), 0..80)
        ) {
            let state = Box::new(State::new(7));
            let (mut owned, mut most) = ([0_i64; 3], 0_i64);
            for (which, size, more) in steps {
                let component = Component(250 + which);
                let bytes = size as i64;
                if more && which == 2 {
                    // As an object does that owns what it allocates.
                    restart(&state, 100_000, 252);
                }
                if more {
                    match left_after(&state, component, size) {
                        Some(left) => allocated_again(&state, left, size),
                        None => allocated(&state, component, size),
                    }
                    owned[usize::from(which)] += bytes;
                } else {
                    freed(&state, component, size);
                    owned[usize::from(which)] -= bytes;
                }
                let sum = owned.iter().sum::<i64>();
                most = most.max(sum);
                prop_assert_eq!(level(&state, ALL), (sum, most));
                for (component, owned) in (250..).zip(owned) {
                    prop_assert_eq!(level(&state, component).0, owned);
                }
            }
        }
    }

    #[test]
    fn what_goes_from_the_front_to_the_accounts_is_no_more_than_they_keep() {
        let (own, other) = (Component(248), Component(249));
        let state = Box::new(State::new(7));
        let keep = KEEP.0.load(Relaxed);
        for round in 0..6 {
            // By turns it makes much of what it works for, and frees what others made.
            restart(&state, Current::FAR, 248);
            for _ in 0..150 {
                let left = left_after(&state, own, 1024).unwrap();
                allocated_again(&state, left, 1024);
            }
            freed(&state, other, 90_000);
            let kept = state.level(248).read();
            assert!(kept.0 <= keep && kept.1 <= keep, "{round}: {kept:?} of {keep}");
        }
        [248, 249].into_iter().for_each(know);
        fold_all(&state);
        let sums = || [248, 249].map(|index: usize| OWNED[index].load(Relaxed));
        assert_eq!(sums(), [6 * 150 * 1024, -6 * 90_000]);
        // All tests have one sum of all.
        freed(&state, own, 6 * 150 * 1024);
        allocated(&state, other, 6 * 90_000);
        fold_all(&state);
        assert_eq!(sums(), [0, 0]);
    }
}
