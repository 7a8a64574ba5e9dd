//! The counters of all threads, living and gone.
//!
//! A state is made once and never given back: its numbers stay in the sums when its thread ends, and
//! the next thread takes it over. Threads that allocate after their last destructor, and all when
//! there is no memory for more states, share one under a lock.

#![allow(unsafe_code)]

use core::ffi::c_void;
use core::ptr;
use core::sync::atomic::{AtomicI32, AtomicPtr, AtomicU32, Ordering};

use super::account;
use crate::arch::Errno;
use crate::component::Component;
use crate::lock::SpinLock;
use crate::thread::{Guard, Local, State, local};

/// Number of times that a thread's destructor lets the destructors of others go first. Within the
/// promise of POSIX (4).
const ROUNDS: u32 = 3;

/// Number of states there may be before a thread takes over one that knows other memory than its own. Leaves belong to
/// a state for good: a thread that has them of an arena where another works costs that other the quick way for as long
/// as both live.
const APART: u32 = 32;

/// The one that threads share which have none of their own.
static SHARED: State = State::new(1);
static SHARED_LOCK: SpinLock = SpinLock::new();

static LATEST: AtomicPtr<State> = AtomicPtr::new(ptr::null_mut());
/// The first that was made; null in exact mode. Its thread folds nothing (see [`account`]).
static FIRST: AtomicPtr<State> = AtomicPtr::new(ptr::null_mut());
static LIST_LOCK: SpinLock = SpinLock::new();
static NUMBERS: AtomicU32 = AtomicU32::new(2);

const NO_KEY: i32 = -1;
static KEY: AtomicI32 = AtomicI32::new(NO_KEY);

/// Called once, before the first thread registers.
pub fn prepare() {
    let mut key: libc::pthread_key_t = 0;
    // SAFETY: the key is ours; the destructor fits.
    if unsafe { libc::pthread_key_create(&mut key, Some(thread_ends)) } == 0 {
        KEY.store(i32::try_from(key).unwrap_or(NO_KEY), Ordering::Release);
    }
}

/// The counters for one operation of a thread that has none at hand, on a block. [`leave`] must follow.
#[cold]
#[inline(never)]
pub fn enter(local: &Local, block: usize) -> &'static State {
    if !local.ended.get()
        && let Some(state) = take(local, block)
    {
        return state;
    }
    local.enter();
    SHARED_LOCK.lock();
    &SHARED
}

/// Ends the section that [`enter`] began.
pub fn leave(local: &Local, state: &State) {
    if is_shared(state) {
        SHARED_LOCK.unlock();
        local.leave();
        crate::start::late();
    }
}

/// Returns true if these are the counters of all that have none of their own, which are locked while they are used.
pub fn is_shared(state: &State) -> bool {
    ptr::eq(state, &SHARED)
}

/// The allocator gives a new thread the memory of one that ended: it takes over the counters that know it. One
/// with memory of its own gets counters of its own.
fn take(local: &Local, block: usize) -> Option<&'static State> {
    let errno = Errno::save();
    let _guard = Guard::enter();
    LIST_LOCK.lock();
    let free = each().skip(1).filter(|state| state.taken.load(Ordering::Relaxed) == 0);
    let states = NUMBERS.load(Ordering::Relaxed);
    let state = choose(free.clone(), super::GRANULES.owner_of(block), states)
        .or_else(make)
        .or_else(|| free.clone().next())
        .inspect(|state| state.taken.store(1, Ordering::Relaxed));
    LIST_LOCK.unlock();
    if let Some(state) = state {
        state.rounds.store(0, Ordering::Relaxed);
        state.seen.forget();
        local.state.set(state);
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

/// Which of the free states a thread takes whose first block is in a leaf of this owner; none where one is to
/// be made.
fn choose<'a>(
    mut free: impl Iterator<Item = &'a State> + Clone,
    owner: Option<u32>,
    states: u32,
) -> Option<&'a State> {
    let number = |state: &State| Some(state.number.load(Ordering::Relaxed));
    free.clone()
        .find(|state| number(state) == owner)
        .or_else(|| free.next().filter(|_| states >= APART))
}

/// Asks to be told when the thread ends. Never told: the state stays taken, its numbers stay right.
fn promise(state: &State) {
    let key = KEY.load(Ordering::Acquire);
    if key != NO_KEY {
        // SAFETY: a key of ours. This may allocate, which finds the state set.
        unsafe {
            libc::pthread_setspecific(key as libc::pthread_key_t, ptr::from_ref(state).cast())
        };
    }
}

fn make() -> Option<&'static State> {
    let memory = super::pool::map(size_of::<State>()).cast::<State>();
    if memory.is_null() {
        return None;
    }
    // SAFETY: fresh pages of zeroes, aligned, are a state that has not begun.
    let state: &'static State = unsafe { &*memory };
    state.begin(NUMBERS.fetch_add(1, Ordering::Relaxed));
    state.next.store(LATEST.load(Ordering::Relaxed), Ordering::Relaxed);
    if LATEST.load(Ordering::Relaxed).is_null() && !account::is_exact() {
        begin_first(state);
    }
    LATEST.store(memory, Ordering::Release);
    Some(state)
}

/// A state that has nothing that the sums do not have is that of the first thread from now on.
fn begin_first(state: &'static State) {
    account::be_first(state);
    state.is_first.store(true, Ordering::Relaxed);
    FIRST.store(ptr::from_ref(state).cast_mut(), Ordering::Release);
}

/// The state of the first thread, which folds nothing.
#[inline]
pub fn first() -> Option<&'static State> {
    // SAFETY: states in the list are never given back.
    unsafe { FIRST.load(Ordering::Acquire).as_ref() }
}

#[inline]
pub fn is_first(state: &State) -> bool {
    state.is_first.load(Ordering::Relaxed)
}

/// From now on it folds as the others do.
pub fn none_is_first() {
    if let Some(state) = first() {
        state.is_first.store(false, Ordering::Relaxed);
        FIRST.store(ptr::null_mut(), Ordering::Release);
    }
}

extern "C" fn thread_ends(state: *mut c_void) {
    let local = local();
    // SAFETY: the value of our key is always a state, and states are never given back.
    let state: &'static State = unsafe { &*state.cast::<State>() };
    if !ptr::eq(local.state.get(), state) {
        return;
    }
    if state.rounds.fetch_add(1, Ordering::Relaxed) < ROUNDS {
        promise(state);
        return;
    }
    let _guard = Guard::enter();
    local.ended.set(true);
    local.state.set(ptr::null());
    local.mark.set(0);
    account::fold_all(state);
    LIST_LOCK.lock();
    state.taken.store(0, Ordering::Relaxed);
    LIST_LOCK.unlock();
}

/// All states there ever were; the shared one first.
pub fn each() -> impl Iterator<Item = &'static State> + Clone {
    // SAFETY: states in the list are never given back.
    let of = |state: *mut State| unsafe { state.as_ref() };
    let listed = core::iter::successors(of(LATEST.load(Ordering::Acquire)), move |state| {
        of(state.next.load(Ordering::Acquire))
    });
    core::iter::once(&SHARED).chain(listed)
}

/// Takes the locks, so that the child of a fork finds them free and the data under them whole.
pub fn before_fork() {
    SHARED_LOCK.lock();
    LIST_LOCK.lock();
}

/// In parent and child.
pub fn after_fork() {
    LIST_LOCK.unlock();
    SHARED_LOCK.unlock();
}

/// In the child, after [`after_fork`]: the other threads are gone, and their bytes are kept.
pub fn forget_other_threads() {
    let own = local().state.get();
    for state in each().skip(1).filter(|state| !ptr::eq(*state, own)) {
        account::fold_all(state);
        state.taken.store(0, Ordering::Relaxed);
    }
    if let (Some(first), Some(own)) = (first(), super::own_state(local()))
        && !ptr::eq(first, own)
    {
        // As that of the only thread its peaks are exact. What the first had come to is entered above.
        none_is_first();
        account::fold_all(first);
        account::fold_all(own);
        begin_first(own);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thread_gets_the_leaves_of_its_own_arena_only() {
        let states = [State::new(7), State::new(8)];
        let chosen = |owner, states_made| {
            choose(states.iter(), owner, states_made)
                .map(|state| state.number.load(Ordering::Relaxed))
        };
        assert_eq!(chosen(Some(8), 9), Some(8), "the one that knows its memory");
        assert_eq!(chosen(None, 9), None, "new memory, new counters");
        assert_eq!(chosen(Some(5), 9), None, "the leaf's owner lives");
        assert_eq!(chosen(Some(5), APART), Some(7), "there are many");
        assert_eq!(chosen(Some(8), APART), Some(8));
    }
}
