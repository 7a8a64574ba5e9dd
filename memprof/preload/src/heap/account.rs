//! Accounts of each thread: for each component, its bytes in blocks, and their high-water mark.
//!
//! A thread writes its own accounts only, and in front of them its pending counters for the component it works for
//! ([`crate::thread::Current`]). Bytes beyond [`KEEP`] are folded into the [`sums`] of the process, where peaks are
//! found. The first thread's stay where they are, however many, since a fold costs it locked operations: the others
//! read them when they fold, and it enters its own peaks when the sums beside them have changed. Owned bytes are exact
//! at every moment. A peak is exact with one thread, and in exact mode; with more it is exact to 256 KiB for each of
//! them.

use core::sync::atomic::Ordering::Relaxed;
use core::sync::atomic::{AtomicI64, AtomicU64};

use super::sums::{self, ALL, in_use, know};
use super::{large, real, registry, tag};
use crate::component::{Component, LIMIT};
use crate::thread::{Current, Local, State, local};

/// A word that all threads read, in a line of the cache that nobody writes.
#[repr(align(64))]
struct Alone(AtomicI64);

/// Bytes that a thread keeps to itself in its accounts; negative in exact mode.
static KEEP: Alone = Alone(AtomicI64::new(80 * 1024));

/// The same for the counters in front of them, as [`Current::most`] has it. Together 256 KiB.
static KEEP_CURRENT: Alone = Alone(AtomicI64::new(Current::most(IN_FRONT)));
const IN_FRONT: i64 = 176 * 1024;

/// Distance of the first thread below its high-water mark before that is entered, within the range
/// of the words.
const FURTHEST: i64 = Current::FAR / 2;
const _: () = assert!(FURTHEST + (super::blocks::LOOK_BEFORE_RELEASE as i64) < Current::FAR);

/// One block more than may be kept fits the words.
const _: () = assert!(2 * IN_FRONT + (super::blocks::LOOK_BEFORE_RELEASE as i64) < Current::FAR);

/// Every change goes to the sums at once, so that peaks are exact with any number of threads.
pub fn be_exact() {
    KEEP.0.store(-1, Relaxed);
    KEEP_CURRENT.0.store(Current::most(-1), Relaxed);
    fold_own();
    registry::none_is_first();
    // A level that is below its highest would not be noticed.
    fold_own();
}

pub fn is_exact() -> bool {
    KEEP.0.load(Relaxed) < 0
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

/// Returns the countdown after a block of the component that the thread works for, if it does not end.
#[inline(always)]
pub fn left_after(state: &State, component: Component, size: usize) -> Option<i64> {
    let left = state.current.countdown.load(Relaxed) - ((size as i64) << Current::SHIFT) + 1;
    let same = state.current.component.load(Relaxed) == u32::from(component.0);
    (same && left >= 0).then_some(left)
}

/// Enters an allocation of that component, for which [`left_after`] has returned the countdown.
#[inline(always)]
pub fn allocated_again(state: &State, left: i64, size: usize) {
    state.current.countdown.store(left, Relaxed);
    let room = state.current.room.load(Relaxed) - ((size as i64) << Current::SHIFT);
    if room >= 0 {
        state.current.room.store(room, Relaxed);
    } else {
        rise(state, room);
    }
}

/// The thread never had as much in front of its accounts: the room would be `room`, less than nothing.
#[inline(always)]
pub fn rise(state: &State, room: i64) {
    if state.current.raised(room) > most() >> Current::SHIFT {
        rise_and_fold(state, room);
    } else {
        state.current.raise(room);
    }
}

/// A component allocated.
pub fn allocated(state: &State, component: Component, size: usize) {
    settle(state);
    know(usize::from(component.0) % LIMIT);
    if registry::is_first(state) {
        enter_if_disturbed(state, component);
    }
    let own = &state.accounts[usize::from(component.0) % LIMIT];
    let keep = KEEP.0.load(Relaxed);
    bump(&own.allocations, 1);
    bump(&own.allocated_total, size as u64);
    if own.level.rise(size as i64, keep) | state.all.rise(size as i64, keep) {
        fold_to(state, component, middle(size as i64, keep));
    } else if registry::is_first(state) {
        crate::start::late();
    }
}

/// Part of a change beyond the limit that is kept: an opposite change then does not pass the limit. Programs that free
/// a large block often make another as large.
fn middle(by: i64, keep: i64) -> i64 {
    if by.abs() <= 2 * keep { by / 2 } else { 0 }
}

/// Enters the free of a block of a component.
pub fn freed(state: &State, component: Component, size: usize) {
    let current = &state.current;
    if size < large::FROM && current.component.load(Relaxed) == u32::from(component.0) {
        let room = current.room.load(Relaxed) + ((size as i64) << Current::SHIFT) + 1;
        current.room.store(room, Relaxed);
        if room > most() {
            fold_if_low(state, size);
        }
        return;
    }
    if registry::is_first(state) {
        enter_if_disturbed(state, component);
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

/// Enters the thread's pending counters into the account of the component it works for. Only by the thread that has the
/// state, or when no thread has it.
fn settle(state: &State) {
    if !state.current.is_empty() {
        restart(state, state.current.left(), state.current.component.load(Relaxed));
    }
}

/// As [`settle`]; then so many bytes are to go, and the work is for this component.
fn restart(state: &State, left: i64, component: u32) {
    let was_empty = state.current.is_empty();
    if !was_empty && registry::is_first(state) && !is_undisturbed(state) {
        begin_anew(state, 0);
    }
    let own = enter_current(state, left, component, || {});
    if was_empty {
        return;
    }
    let keep = KEEP.0.load(Relaxed);
    if state.level(own).is_beyond(keep) || state.all.is_beyond(keep) {
        fold_both(state, Component(own as u16));
    }
}

/// The same, whatever the thread then keeps, and `then` before anybody looks. Gives the component whose account has
/// changed.
#[inline]
fn enter_current(state: &State, left: i64, component: u32, then: impl FnOnce()) -> usize {
    if state.current.is_empty() {
        // Nothing but the words in front.
        let before = state.current.component.load(Relaxed) as usize % LIMIT;
        state.current.restart(left, component, then);
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
        then();
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
    if registry::is_first(state) {
        enter_if_disturbed(state, from);
        enter_if_disturbed(state, to);
    }
    let (from, to) = (usize::from(from.0) % LIMIT, usize::from(to.0) % LIMIT);
    know(to);
    state.level(from).fall(size as i64, 0);
    state.level(to).rise(size as i64, 0);
    fold(state, &[from, to], 0);
}

/// Enters a change of a component's mapped bytes. `peaks` is false where it may be memory that another thread is about
/// to enter under another name.
pub fn mapped(component: Component, by: i64, peaks: bool) {
    let index = usize::from(component.0) % LIMIT;
    sums::know(index);
    for index in [index, ALL] {
        // Not in a handler of a signal that came during another.
        if let Some(state) = super::own_state(local())
            && state.current.is_at_rest()
        {
            // The highest of the blocks was beside what was mapped until now.
            fold(state, &[index], 0);
        }
        sums::mapped(index, by, peaks);
        if let Some(state) = super::own_state(local()).filter(|_| peaks)
            && registry::is_first(state)
            && state.current.is_at_rest()
        {
            // It has just begun anew, and this is its own doing.
            state.current.guarded(|| sums::be_beside(state, index));
        }
    }
}

/// Folds the thread's accounts of a component, and of all, into the sums.
fn fold_both(state: &State, component: Component) {
    fold_to(state, component, 0);
}

/// As [`rise`], to more than may be kept. The first thread keeps it.
#[cold]
#[inline(never)]
fn rise_and_fold(state: &State, room: i64) {
    let current = &state.current;
    if !registry::is_first(state) {
        current.raise(room);
        return fold_both(state, Component(current.component.load(Relaxed) as u16));
    }
    if is_undisturbed(state) {
        current.raise(room);
    } else {
        // This block is counted already; its bytes are not.
        let size = current.below_high() - (room >> Current::SHIFT);
        begin_anew(state, 0);
        current.raise(current.room.load(Relaxed) - (size << Current::SHIFT));
    }
    crate::start::late();
}

/// Folds if the fast paths have freed much: so many bytes at last. They see that the thread is as far below its own
/// high-water mark; the distance below the sums is asked.
#[cold]
#[inline(never)]
pub fn fold_if_low(state: &State, size: usize) {
    let current = &state.current;
    if registry::is_first(state) {
        // Small ones would all come here that are freed below what was much: the first of many has it entered.
        let is_small = size < large::FROM;
        if is_small || !is_undisturbed(state) || current.below_high() > FURTHEST {
            begin_anew(state, size as i64);
        }
        crate::start::late();
    } else if current.is_below(most()) {
        fold_both(state, Component(current.component.load(Relaxed) as u16));
    }
}

/// As [`fold_both`], but for so much.
#[cold]
#[inline(never)]
fn fold_to(state: &State, component: Component, kept: i64) {
    if !registry::is_first(state) {
        fold(state, &[usize::from(component.0) % LIMIT, ALL], kept);
    }
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
        let index = enter_current(state, left, component, || {});
        let is_beyond = state.level(index).is_beyond(KEEP.0.load(Relaxed));
        other = Some(index).filter(|index| is_beyond && !indexes.contains(index));
    }
    if registry::is_first(state) {
        return indexes.iter().chain(&other).for_each(|index| begin_account_anew(state, *index));
    }
    state.current.folding(|| {
        let one = |index: usize, kept: i64| {
            let level = state.level(index);
            let (owned, high) = level.read();
            if sums::fold(index, owned - kept, high.max(owned)) {
                level.start_at(kept);
            }
        };
        indexes.iter().for_each(|index| one(*index, kept));
        other.into_iter().for_each(|index| one(index, 0));
    });
}

/// Returns true if the base of the first thread's high-water mark, for the component it works for,
/// equals the sums now.
#[inline(always)]
fn is_undisturbed(first: &State) -> bool {
    sums::is_beside(first, first.current.component.load(Relaxed) as usize % LIMIT)
        && sums::is_beside(first, ALL)
        && sums::is_in_phase(first)
}

/// The first thread enters the high-water mark of the component it works for, and restarts it at the bytes owned now,
/// with so much headroom.
#[cold]
#[inline(never)]
fn begin_anew(first: &State, above: i64) {
    let phase = sums::phase();
    let (since, left) = (first.current.since(), first.current.left());
    let indexes = [since.component as usize % LIMIT, ALL];
    for index in indexes {
        sums::enter(first, index, first.level(index).highest_with(since.high));
    }
    enter_current(first, left, since.component, || {
        for index in indexes {
            begin_level(first, index, above);
        }
    });
    begin_phase_anew(first, phase, &indexes);
}

/// The first thread is about to do something for this component by the accounts: its highest is entered if that was
/// beside something else.
fn enter_if_disturbed(first: &State, component: Component) {
    let index = usize::from(component.0) % LIMIT;
    if is_undisturbed(first) && sums::is_beside(first, index) {
        return;
    }
    begin_anew(first, 0);
    begin_account_anew(first, index);
}

/// The same for the accounts of one component.
fn begin_account_anew(first: &State, index: usize) {
    let (owned, high) = first.level(index).read();
    sums::enter(first, index, high);
    if owned != high || !sums::is_beside(first, index) {
        first.current.guarded(|| begin_level(first, index, 0));
    }
}

/// Only while nobody looks.
fn begin_level(first: &State, index: usize, above: i64) {
    let level = first.level(index);
    level.start_at(level.read().0);
    level.was_above(above);
    sums::be_beside(first, index);
}

/// A phase may have begun on another thread, as this one: nothing that the first came to before is of it. `begun` are
/// accounts that have begun anew since.
fn begin_phase_anew(first: &State, phase: u64, begun: &[usize]) {
    if !sums::is_in_phase(first) {
        let others = in_use().filter(|index| !begun.contains(index));
        others.for_each(|index| begin_account_anew(first, index));
        sums::be_in_phase(first, phase);
    }
}

/// Folds all of a thread that ends, or is gone, or begins a phase.
pub fn fold_all(state: &State) {
    settle(state);
    if registry::is_first(state) {
        return in_use().for_each(|index| begin_account_anew(state, index));
    }
    for index in in_use() {
        if state.level(index).read() != (0, 0) {
            fold(state, &[index], 0);
        }
    }
}

/// As [`fold_all`], of the calling thread, which begins a phase or ends one.
pub fn fold_own() {
    if let Some(state) = super::own_state(local()) {
        fold_all(state);
    }
}

/// Restarts the high-water mark for a phase that the calling thread has begun, with no work since [`fold_own`]: later
/// bytes are of the phase.
pub fn own_phase_begins() {
    if is_own_first()
        && let Some(state) = super::own_state(local())
    {
        be_first(state);
    }
}

/// Returns true if the calling thread is the first.
pub fn is_own_first() -> bool {
    super::own_state(local()).is_some_and(registry::is_first)
}

/// The first thread's state begins with the present sums as its base, in which it has no part, or its high-water mark
/// is its present amount.
pub fn be_first(state: &State) {
    let phase = sums::phase();
    state.current.guarded(|| in_use().for_each(|index| sums::be_beside(state, index)));
    sums::be_in_phase(state, phase);
}

/// In the child: a fold that another thread was in will not end.
pub fn forget_other_threads() {
    sums::forget_other_threads();
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
                prop_assert_eq!(sums::level_seen(&state, ALL), (sum, most));
                for (component, owned) in (250..).zip(owned) {
                    prop_assert_eq!(sums::level_seen(&state, component).0, owned);
                }
            }
        }
    }

    #[test]
    fn pending_counters_fit_what_the_accounts_keep() {
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
        let sums = || [248, 249].map(sums::owned_beyond_threads);
        assert_eq!(sums(), [6 * 150 * 1024, -6 * 90_000]);
        // All tests have one sum of all.
        freed(&state, own, 6 * 150 * 1024);
        allocated(&state, other, 6 * 90_000);
        fold_all(&state);
        assert_eq!(sums(), [0, 0]);
    }
}
