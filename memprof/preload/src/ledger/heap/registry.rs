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
use super::thread_counters::ThreadCounters;
use crate::base::arch::Errno;
use crate::base::component::Component;
use crate::base::lock::SpinLock;
use crate::base::thread::{Guard, Local, local};

/// Number of times that a thread's destructor lets the destructors of others go first. Within the
/// promise of POSIX (4).
const ROUNDS: u32 = 3;

/// Number of states there may be before a thread takes over one that knows other memory than its own. Leaves belong to
/// a state for good: a thread that has them of an arena where another works costs that other the quick way for as long
/// as both live.
const APART: u32 = 32;

/// The one that threads share which have none of their own.
static SHARED: ThreadCounters = ThreadCounters::new(1);
static SHARED_LOCK: SpinLock = SpinLock::new();

static LATEST: AtomicPtr<ThreadCounters> = AtomicPtr::new(ptr::null_mut());
static LIST_LOCK: SpinLock = SpinLock::new();
static NUMBERS: AtomicU32 = AtomicU32::new(2);

const NO_KEY: i32 = -1;
static KEY: AtomicI32 = AtomicI32::new(NO_KEY);

/// What the registry keeps of one thread's counters.
#[repr(C)]
pub struct Registration {
    next: AtomicPtr<ThreadCounters>,
    /// From 1 on.
    pub number: AtomicU32,
    /// 1 while a thread has them.
    taken: AtomicU32,
    /// How often the destructors of the thread have come by.
    rounds: AtomicU32,
}

impl Registration {
    pub const fn new(number: u32) -> Registration {
        Registration {
            next: AtomicPtr::new(ptr::null_mut()),
            number: AtomicU32::new(number),
            taken: AtomicU32::new(0),
            rounds: AtomicU32::new(0),
        }
    }
}

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
pub fn enter(local: &Local, block: usize) -> &'static ThreadCounters {
    if !local.ended.get()
        && let Some(state) = take(local, block)
    {
        return state;
    }
    local.enter();
    SHARED_LOCK.lock();
    &SHARED
}

/// Ends what [`enter`] began.
pub fn leave(local: &Local, state: &ThreadCounters) {
    if is_shared(state) {
        SHARED_LOCK.unlock();
        local.leave();
        crate::base::deferred::run();
    }
}

/// Whether these are the counters of all that have none of their own, which are locked while they are used.
pub fn is_shared(state: &ThreadCounters) -> bool {
    ptr::eq(state, &SHARED)
}

/// The allocator gives a new thread the memory of one that ended: it takes over the counters that know it. One
/// with memory of its own gets counters of its own.
fn take(local: &Local, block: usize) -> Option<&'static ThreadCounters> {
    let errno = Errno::save();
    let _guard = Guard::enter();
    LIST_LOCK.lock();
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

/// Which of the free states a thread takes whose first block is in a leaf of this owner; none where one is to
/// be made.
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

/// Asks to be told when the thread ends. Never told: the state stays taken, its numbers stay right.
fn promise(state: &ThreadCounters) {
    let key = KEY.load(Ordering::Acquire);
    if key != NO_KEY {
        // SAFETY: a key of ours. This may allocate, which finds the state set.
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
    // SAFETY: fresh pages of zeroes, aligned, are a state that has not begun.
    let state: &'static ThreadCounters = unsafe { &*memory };
    state.begin(NUMBERS.fetch_add(1, Ordering::Relaxed));
    state.registration.next.store(LATEST.load(Ordering::Relaxed), Ordering::Relaxed);
    LATEST.store(memory, Ordering::Release);
    Some(state)
}

extern "C" fn thread_ends(state: *mut c_void) {
    let local = local();
    // SAFETY: the value of our key is always a state, and states are never given back.
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

/// All states there ever were; the shared one first.
pub fn each() -> impl Iterator<Item = &'static ThreadCounters> + Clone {
    // SAFETY: states in the list are never given back.
    let of = |state: *mut ThreadCounters| unsafe { state.as_ref() };
    let listed = core::iter::successors(of(LATEST.load(Ordering::Acquire)), move |state| {
        of(state.registration.next.load(Ordering::Acquire))
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
