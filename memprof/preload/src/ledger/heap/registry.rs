//! Threads and the counters that they hold.
//!
//! Counters are created once and never freed: their values stay in the sums when their thread ends,
//! and a later thread takes them over. Threads that allocate after their last destructor, and all
//! threads when there is no memory for more counters, share one set under a lock.

#![allow(unsafe_code)]

use core::ffi::c_void;
use core::ptr;
use core::sync::atomic::{AtomicI32, AtomicU32, Ordering};

use super::account;
use super::thread_counters::{LATEST, SHARED, ThreadCounters, each, own};
use crate::base::arch::Errno;
use crate::base::component::Component;
use crate::base::lock::SpinLock;
use crate::base::thread::{Guard, Local, local};

/// Number of times that a thread's destructor lets the destructors of others run first. Within the
/// 4 rounds that POSIX guarantees.
const ROUNDS: u32 = 3;

/// Number of counters up to which a new thread does not take over counters that own leaves of other
/// memory. Leaves belong to their counters permanently: if a thread holds counters that own the
/// leaves of another thread's arena, that other thread cannot take the fast path as long as both
/// live.
const APART: u32 = 32;

static SHARED_LOCK: SpinLock = SpinLock::new();

static LIST_LOCK: SpinLock = SpinLock::new();
static NUMBERS: AtomicU32 = AtomicU32::new(2);

const NO_KEY: i32 = -1;
static KEY: AtomicI32 = AtomicI32::new(NO_KEY);

/// Runs `work` with the counters for one operation on a block: those of the calling thread, or, for
/// a thread that can have none, the shared ones under their lock.
#[inline(always)]
pub fn with<R>(local: &Local, block: usize, work: impl FnOnce(&ThreadCounters) -> R) -> R {
    match own(local) {
        Some(counters) => work(counters),
        None => with_new_or_shared(local, block, work),
    }
}

#[cold]
#[inline(never)]
fn with_new_or_shared<R>(
    local: &Local,
    block: usize,
    work: impl FnOnce(&ThreadCounters) -> R,
) -> R {
    if !local.ended.get()
        && let Some(counters) = take(local, block)
    {
        return work(counters);
    }
    local.enter();
    SHARED_LOCK.lock();
    let result = work(&SHARED);
    SHARED_LOCK.unlock();
    local.leave();
    crate::base::deferred::run();
    result
}

/// Takes counters for the calling thread. The allocator gives a new thread the memory of an ended
/// thread, so the new thread takes over the counters that own the leaves of that memory. A thread
/// with separate memory gets separate counters.
fn take(local: &Local, block: usize) -> Option<&'static ThreadCounters> {
    let errno = Errno::save();
    let _guard = Guard::enter();
    LIST_LOCK.lock();
    make_key();
    let free = each().skip(1).filter(|state| state.registration.taken.load(Ordering::Relaxed) == 0);
    let states = NUMBERS.load(Ordering::Relaxed);
    let state = choose(free.clone(), super::GRANULES.owner_of(block), states)
        .or_else(make)
        .or_else(|| free.clone().next())
        .inspect(|state| state.registration.taken.store(1, Ordering::Relaxed));
    LIST_LOCK.unlock();
    if let Some(state) = state {
        state.registration.rounds.store(0, Ordering::Relaxed);
        state.seen.forget();
        local.state.set(ptr::from_ref(state).cast());
        local.recent.set(&raw const state.recent);
        account::work_for(
            local,
            state,
            Component(state.current.component.load(Ordering::Relaxed) as u16),
        );
        promise(state);
    }
    errno.restore();
    state
}

/// Makes the key whose destructor runs when a thread ends, once. Called under the lock of the list.
fn make_key() {
    let mut key: libc::pthread_key_t = 0;
    if KEY.load(Ordering::Relaxed) == NO_KEY
        // SAFETY: the key is the tool's; the destructor has the required type.
        && unsafe { libc::pthread_key_create(&mut key, Some(thread_ends)) } == 0
    {
        KEY.store(i32::try_from(key).unwrap_or(NO_KEY), Ordering::Release);
    }
}

/// Chooses one of the free counters for a thread whose first block is in a leaf of `owner`; `None`
/// if new ones are to be created.
fn choose<'a>(
    mut free: impl Iterator<Item = &'a ThreadCounters> + Clone,
    owner: Option<u32>,
    states: u32,
) -> Option<&'a ThreadCounters> {
    let number = |state: &ThreadCounters| Some(state.number());
    free.clone()
        .find(|state| number(state) == owner)
        .or_else(|| free.next().filter(|_| states >= APART))
}

/// Registers the counters with the thread's destructor. If it never runs, the counters stay taken
/// and their values stay right.
fn promise(state: &ThreadCounters) {
    let key = KEY.load(Ordering::Acquire);
    if key != NO_KEY {
        // SAFETY: the key is the tool's. The call may allocate, which finds the counters already
        // set.
        unsafe {
            libc::pthread_setspecific(key as libc::pthread_key_t, ptr::from_ref(state).cast())
        };
    }
}

fn make() -> Option<&'static ThreadCounters> {
    let memory = super::pool::map(size_of::<ThreadCounters>()).cast::<ThreadCounters>();
    if memory.is_null() {
        return None;
    }
    // SAFETY: fresh zeroed pages, aligned, are valid counters before `begin`.
    let state: &'static ThreadCounters = unsafe { &*memory };
    state.begin(NUMBERS.fetch_add(1, Ordering::Relaxed));
    state.registration.next.store(LATEST.load(Ordering::Relaxed), Ordering::Relaxed);
    LATEST.store(memory, Ordering::Release);
    Some(state)
}

extern "C" fn thread_ends(state: *mut c_void) {
    let local = local();
    // SAFETY: the value of the tool's key always points to counters, and counters are never freed.
    let state: &'static ThreadCounters = unsafe { &*state.cast::<ThreadCounters>() };
    if !ptr::eq(local.state.get().cast(), state) {
        return;
    }
    if state.registration.rounds.fetch_add(1, Ordering::Relaxed) < ROUNDS {
        promise(state);
        return;
    }
    let _guard = Guard::enter();
    local.ended.set(true);
    local.state.set(ptr::null());
    local.recent.set(ptr::null());
    local.mark.set(0);
    account::fold_all(state);
    LIST_LOCK.lock();
    state.registration.taken.store(0, Ordering::Relaxed);
    LIST_LOCK.unlock();
}

/// Takes the locks, so that the child of a fork finds them free and the data under them consistent.
pub fn before_fork() {
    SHARED_LOCK.lock();
    LIST_LOCK.lock();
}

/// Releases the locks after a fork, in parent and child.
pub fn after_fork() {
    LIST_LOCK.unlock();
    SHARED_LOCK.unlock();
}

/// In the child, after [`after_fork`]: releases the counters of the other threads, which are gone,
/// and keeps their bytes.
pub fn forget_other_threads() {
    let own = local().state.get().cast::<ThreadCounters>();
    for state in each().skip(1).filter(|state| !ptr::eq(*state, own)) {
        account::fold_all(state);
        state.registration.taken.store(0, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thread_gets_the_leaves_of_its_own_arena_only() {
        let states = [ThreadCounters::new(7), ThreadCounters::new(8)];
        let chosen = |owner, states_made| {
            choose(states.iter(), owner, states_made).map(|state| state.number())
        };
        assert_eq!(chosen(Some(8), 9), Some(8), "the one that knows its memory");
        assert_eq!(chosen(None, 9), None, "new memory, new counters");
        assert_eq!(chosen(Some(5), 9), None, "the leaf's owner lives");
        assert_eq!(chosen(Some(5), APART), Some(7), "there are many");
        assert_eq!(chosen(Some(8), APART), Some(8));
    }
}
