//! Counters of each thread: for each component, the bytes it owns in blocks and their high-water
//! mark.
//!
//! A thread writes only its own accounts, and first collects the changes of its current component
//! in its [`PendingCounters`]. A balance further from zero than [`KEEP`] is folded into the
//! [`sums`] of the process, where peaks are found. Owned bytes are exact at every moment. A peak is
//! exact with one active thread and in exact mode; with more threads it is exact to 256 KiB for
//! each of them.

use core::sync::atomic::Ordering::Relaxed;
use core::sync::atomic::{AtomicI64, AtomicU64};

use super::sums::{self, ALL, in_use, know};
use super::{PendingCounters, ThreadCounters, next_allocator, tag, thread_counters};
use crate::base::component::{Component, LIMIT};
use crate::base::thread::{Local, local};

/// A word that all threads read, alone in its cache line, so that nothing else is written there.
#[repr(align(64))]
struct Alone(AtomicI64);

/// Bytes that a thread keeps in each of its accounts before they are folded; negative in exact
/// mode.
static KEEP: Alone = Alone(AtomicI64::new(80 * 1024));

/// Bytes that a thread keeps in its pending counters, encoded by [`PendingCounters::most`].
/// Together with [`KEEP`] 256 KiB.
static KEEP_CURRENT: Alone = Alone(AtomicI64::new(PendingCounters::most(PENDING_LIMIT)));
const PENDING_LIMIT: i64 = 176 * 1024;

/// Blocks of this size and larger bypass the pending counters, which would overflow, and are
/// examined before they are released.
pub const MAX_PENDING: usize = 1 << 20;

/// One block beyond the limit still fits the pending counters.
const _: () = assert!(2 * PENDING_LIMIT + (MAX_PENDING as i64) < PendingCounters::FAR);

/// Switches to exact mode: every change goes to the sums at once, so that peaks are exact with any
/// number of threads.
pub fn be_exact() {
    KEEP.0.store(-1, Relaxed);
    KEEP_CURRENT.0.store(PendingCounters::most(-1), Relaxed);
    fold_own();
}

/// Adds to a word without an atomic read-modify-write: only one thread writes the word.
#[inline(always)]
pub fn bump(word: &AtomicU64, by: u64) {
    word.store(word.load(Relaxed).wrapping_add(by), Relaxed);
}

#[inline(always)]
fn most() -> i64 {
    KEEP_CURRENT.0.load(Relaxed)
}

/// Returns true if this component is the current one of the thread, the one that the pending
/// counters count.
#[inline(always)]
pub fn works_for(state: &ThreadCounters, component: Component) -> bool {
    state.current.component.load(Relaxed) == u32::from(component.0)
}

/// Returns the countdown after an allocation of the current component; `None` if the allocation
/// ends the countdown or is too large for the pending counters.
#[inline(always)]
pub fn left_after(state: &ThreadCounters, size: usize) -> Option<i64> {
    if size >= MAX_PENDING {
        return None;
    }
    let left =
        state.current.countdown.load(Relaxed) - ((size as i64) << PendingCounters::SHIFT) + 1;
    (left >= 0).then_some(left)
}

/// Counts an allocation of the current component, after which the countdown is `left`
/// ([`left_after`]).
#[inline(always)]
pub fn count_pending_allocation(state: &ThreadCounters, left: i64, size: usize) {
    let current = &state.current;
    current.countdown.store(left, Relaxed);
    let headroom = current.headroom.load(Relaxed) - ((size as i64) << PendingCounters::SHIFT);
    if headroom >= 0 {
        current.headroom.store(headroom, Relaxed);
        return;
    }
    let folds = current.raised(headroom) > most() >> PendingCounters::SHIFT;
    current.raise(headroom);
    if folds {
        fold_pending(state, size as i64);
    }
}

/// Counts a release of a block of the current component, smaller than [`MAX_PENDING`].
#[inline(always)]
pub fn count_pending_release(state: &ThreadCounters, size: usize) {
    let current = &state.current;
    let headroom = current.headroom.load(Relaxed) + ((size as i64) << PendingCounters::SHIFT) + 1;
    current.headroom.store(headroom, Relaxed);
    // The first test is cheap and compares with the thread's own high-water mark; the second
    // compares with the sums.
    if headroom > most() && current.is_below(most()) {
        fold_pending(state, -(size as i64));
    }
}

/// Counts an allocation of any component.
pub fn allocated(state: &ThreadCounters, component: Component, size: usize) {
    enter_pending(state);
    know(usize::from(component.0) % LIMIT);
    let own = &state.accounts[usize::from(component.0) % LIMIT];
    let keep = KEEP.0.load(Relaxed);
    bump(&own.allocations, 1);
    bump(&own.allocated_total, size as u64);
    if own.level.rise(size as i64, keep) | state.all.rise(size as i64, keep) {
        fold(state, &[usize::from(component.0) % LIMIT, ALL], middle(size as i64, keep));
    }
    run_deferred(state);
}

/// Returns the part of a change beyond the limit that the thread keeps, so that an opposite change
/// does not exceed the limit again. Programs that free a large block often allocate another of the
/// same size.
fn middle(by: i64, keep: i64) -> i64 {
    if by.abs() <= 2 * keep { by / 2 } else { 0 }
}

/// Counts a release of a block of any component.
pub fn freed(state: &ThreadCounters, component: Component, size: usize) {
    if works_for(state, component) {
        if size < MAX_PENDING {
            return count_pending_release(state, size);
        }
        enter_pending(state);
    } else {
        // The pending counters stay. Their high-water mark is entered first: the total drops now,
        // so a later maximum must not be added to the old total.
        let high = state.current.high.load(Relaxed);
        if state.all.is_below(high) {
            state.current.write(|| state.all.was_above(high));
        }
    }
    let own = &state.accounts[usize::from(component.0) % LIMIT];
    let keep = KEEP.0.load(Relaxed);
    bump(&own.frees, 1);
    if own.level.fall(size as i64, keep) | state.all.fall(size as i64, keep) {
        fold(state, &[usize::from(component.0) % LIMIT, ALL], middle(-(size as i64), keep));
        run_deferred(state);
    }
}

/// Runs deferred work, unless the calling thread holds the lock of the shared counters: the thread
/// that releases the lock runs the work.
fn run_deferred(state: &ThreadCounters) {
    if !thread_counters::is_shared(state) {
        crate::base::deferred::run();
    }
}

/// Enters the pending counters into the accounts. Called only by the thread that holds the
/// counters, or when no thread holds them.
fn enter_pending(state: &ThreadCounters) {
    if !state.current.is_empty() {
        restart(state, state.current.left(), state.current.component.load(Relaxed));
    }
}

/// Does what [`enter_pending`] does, then sets the countdown to `left` bytes and the current component to
/// `component`.
fn restart(state: &ThreadCounters, left: i64, component: u32) {
    let was_empty = state.current.is_empty();
    let own = enter_current(state, left, component);
    let keep = KEEP.0.load(Relaxed);
    if !was_empty && (state.level(own).is_beyond(keep) || state.all.is_beyond(keep)) {
        fold(state, &[own, ALL], 0);
        run_deferred(state);
    }
}

/// Enters the pending counters and restarts them, without a check of the limits. Returns the index
/// of the account that has changed.
#[inline]
fn enter_current(state: &ThreadCounters, left: i64, component: u32) -> usize {
    let since = state.current.snapshot();
    let index = since.component as usize % LIMIT;
    if state.current.is_empty() {
        state.current.restart(left, component, || {});
        return index;
    }
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

/// Sets the number of bytes until an allocation is next considered for sampling.
pub fn count_down(state: &ThreadCounters, left: i64) {
    restart(state, left, state.current.component.load(Relaxed));
}

/// Makes a component the current one of the thread, so that its blocks take the fast path.
pub fn work_for(local: &Local, state: &ThreadCounters, component: Component) {
    if !works_for(state, component) {
        know(usize::from(component.0) % LIMIT);
        restart(state, state.current.left(), u32::from(component.0));
    }
    // Without a mark, no block takes the fast path.
    let mark = if next_allocator::is_quick() {
        tag::quick(0, 0, component, next_allocator::key())
    } else {
        0
    };
    local.mark.set(mark);
    state.current.mark.store(mark, Relaxed);
}

/// Makes the component of the last caller's object, which is not neutral, the current one. The fast
/// path then needs no lookup of the owner as long as the object stays the same.
pub fn work_for_caller(local: &Local) {
    if local.guard.get() == 0
        && let Some(state) = thread_counters::own(local)
    {
        work_for(local, state, local.object_component.get());
        // Without a mark, for example while the next allocator is being looked up, there is no fast
        // path.
        if local.mark.get() != 0 {
            local.object_owns.set(local.object_length.get());
        }
    }
}

/// Moves a block from one component to another; this counts neither as an allocation nor as a
/// release.
pub fn given(state: &ThreadCounters, from: Component, to: Component, size: usize) {
    enter_pending(state);
    let (from, to) = (usize::from(from.0) % LIMIT, usize::from(to.0) % LIMIT);
    know(to);
    state.level(from).fall(size as i64, 0);
    state.level(to).rise(size as i64, 0);
    fold(state, &[from, to], 0);
}

/// Enters a change of a component's mapped bytes. `peaks` is false where another thread may be
/// about to enter the same memory for another component.
pub fn mapped(component: Component, by: i64, peaks: bool) {
    let index = usize::from(component.0) % LIMIT;
    sums::know(index);
    for index in [index, ALL] {
        // Not in a signal handler that interrupted another change of the counters.
        if let Some(state) = thread_counters::own(local())
            && state.current.is_at_rest()
        {
            // The high-water mark of the blocks belongs to the mappings before this change.
            fold(state, &[index], 0);
        }
        sums::mapped(index, by, peaks);
    }
}

/// Folds the account of the current component and that of all components after a change of `by`
/// bytes, of which the pending counters keep the [`middle`].
#[cold]
#[inline(never)]
fn fold_pending(state: &ThreadCounters, by: i64) {
    let index = state.current.component.load(Relaxed) as usize % LIMIT;
    let kept = middle(by, most() >> PendingCounters::SHIFT);
    fold(state, &[index, ALL], kept);
    if kept != 0 {
        state.current.write(|| {
            state.level(index).start_at(0);
            state.all.start_at(0);
            state.current.start_at(kept);
        });
    }
    run_deferred(state);
}

/// Adds the balance of the thread in some accounts, less `kept` bytes, to the sums. Called only by
/// the thread that holds the counters, or when no thread holds them.
#[cold]
#[inline(never)]
fn fold(state: &ThreadCounters, indexes: &[usize], kept: i64) {
    // The pending counters may exceed the limit of the accounts, and may be of another component.
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
            sums::fold(index, owned - kept, high.max(owned));
            level.start_at(kept);
        };
        indexes.iter().for_each(|index| one(*index, kept));
        other.into_iter().for_each(|index| one(index, 0));
    });
}

/// Folds all accounts of a thread that ends, is gone, or begins a phase.
pub fn fold_all(state: &ThreadCounters) {
    enter_pending(state);
    for index in in_use() {
        if state.level(index).read() != (0, 0) {
            fold(state, &[index], 0);
        }
    }
}

/// Folds all accounts of the calling thread, which begins or ends a phase.
pub fn fold_own() {
    if let Some(state) = thread_counters::own(local()) {
        fold_all(state);
    }
}

/// In the child of a fork, abandons the folds of other threads, which will not end.
pub fn forget_other_threads() {
    sums::forget_other_threads();
    thread_counters::each().for_each(|state| state.current.forget_thread());
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// The steps are small enough that nothing is folded into the sums, which all tests share.
        #[test]
        fn the_most_of_all_components_together_is_exact(
            steps in prop::collection::vec((0_u16..3, 1_usize..200, any::<bool>()), 0..80)
        ) {
            let state = Box::new(ThreadCounters::new(7));
            let (mut owned, mut most) = ([0_i64; 3], 0_i64);
            for (which, size, more) in steps {
                let component = Component(250 + which);
                let bytes = size as i64;
                if more && which == 2 {
                    // As for an object that owns what it allocates.
                    restart(&state, 100_000, 252);
                }
                if more {
                    match left_after(&state, size).filter(|_| works_for(&state, component)) {
                        Some(left) => count_pending_allocation(&state, left, size),
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
    fn large_blocks_of_one_size_in_turns_are_folded_once() {
        let state = Box::new(ThreadCounters::new(7));
        know(247);
        restart(&state, PendingCounters::FAR, 247);
        let size = 2 * PENDING_LIMIT as usize;
        let owned = || sums::owned_beyond_threads(247) + sums::level_seen(&state, 247).0;
        let turn = || {
            count_pending_allocation(&state, left_after(&state, size).unwrap(), size);
            assert_eq!(owned(), size as i64);
            count_pending_release(&state, size);
            assert_eq!(owned(), 0);
        };
        turn();
        let folds = state.current.folds();
        (0..20).for_each(|_| turn());
        assert_eq!(state.current.folds(), folds);
        fold_all(&state);
        assert_eq!(sums::owned_beyond_threads(247), 0);
    }

    #[test]
    fn pending_counters_fit_what_the_accounts_keep() {
        let (own, other) = (Component(248), Component(249));
        let state = Box::new(ThreadCounters::new(7));
        let keep = KEEP.0.load(Relaxed);
        for round in 0..6 {
            // In turn, the thread allocates many blocks of its current component and frees blocks
            // of another.
            restart(&state, PendingCounters::FAR, 248);
            for _ in 0..150 {
                let left = left_after(&state, 1024).unwrap();
                count_pending_allocation(&state, left, 1024);
            }
            freed(&state, other, 90_000);
            let kept = state.level(248).read();
            assert!(kept.0 <= keep && kept.1 <= keep, "{round}: {kept:?} of {keep}");
        }
        [248, 249].into_iter().for_each(know);
        fold_all(&state);
        let sums = || [248, 249].map(sums::owned_beyond_threads);
        assert_eq!(sums(), [6 * 150 * 1024, -6 * 90_000]);
        // All tests share one sum of all components.
        freed(&state, own, 6 * 150 * 1024);
        allocated(&state, other, 6 * 90_000);
        fold_all(&state);
        assert_eq!(sums(), [0, 0]);
    }
}
