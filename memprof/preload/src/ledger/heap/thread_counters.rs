//! Counters of the threads. Each part belongs to the module that uses it, which names its type.

#![allow(unsafe_code)]

use core::ptr;
use core::sync::atomic::Ordering::{Acquire, Relaxed};
use core::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64};

use super::leaf_cache::LeafCache;
use super::level::Level;
use super::pending_counters::PendingCounters;
use crate::base::component::LIMIT;
use crate::base::thread::{Local, RECENT, Recent, RecentCallers};
use crate::ledger::call_stacks::{Samples, Seen};

/// Allocations and releases of one thread for one component.
#[repr(C, align(64))]
pub struct Account {
    pub level: Level,
    pub allocations: AtomicU64,
    pub frees: AtomicU64,
    pub allocated_total: AtomicU64,
}

const _: () = assert!(size_of::<Account>() == 64);

/// Registration data of one thread's counters.
#[repr(C)]
pub struct Registration {
    pub next: AtomicPtr<ThreadCounters>,
    /// Number of the counters, from 1.
    pub number: AtomicU32,
    /// 1 while a thread holds the counters.
    pub taken: AtomicU32,
    /// Number of times that the destructors of the thread have run.
    pub rounds: AtomicU32,
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

/// Counters of one thread, in memory that outlives it: a later thread takes them over, so that
/// nothing has to be moved when a thread ends.
#[repr(C, align(64))]
pub struct ThreadCounters {
    pub current: PendingCounters,
    /// Sampling state, which decides when the next stack is kept.
    pub samples: Samples,
    pub registration: Registration,
    /// Level of all components together.
    pub all: Level,
    pub accounts: [Account; LIMIT],
    pub leaves: LeafCache,
    pub recent: RecentCallers,
    /// Stacks that were unwound.
    pub seen: Seen,
}

const _: () = assert!(core::mem::offset_of!(ThreadCounters, samples) == 64);

impl ThreadCounters {
    pub const fn new(number: u32) -> ThreadCounters {
        ThreadCounters {
            current: PendingCounters::new(),
            samples: Samples::new(),
            registration: Registration::new(number),
            all: Level::new(),
            accounts: [const {
                Account {
                    level: Level::new(),
                    allocations: AtomicU64::new(0),
                    frees: AtomicU64::new(0),
                    allocated_total: AtomicU64::new(0),
                }
            }; LIMIT],
            leaves: LeafCache::new(),
            recent: [const { Recent::new() }; RECENT],
            seen: Seen::new(),
        }
    }

    /// Initializes zeroed counters: sets their number, and marks the leaf cache as empty.
    pub fn begin(&self, number: u32) {
        self.registration.number.store(number, Relaxed);
        self.leaves.begin();
    }

    /// Returns the number of these counters, from 1. It identifies the owner of leaves and buckets.
    #[inline(always)]
    pub fn number(&self) -> u32 {
        self.registration.number.load(Relaxed)
    }

    /// Returns the level of one component, or of all (`LIMIT`).
    #[inline(always)]
    pub fn level(&self, index: usize) -> &Level {
        match self.accounts.get(index) {
            Some(account) => &account.level,
            None => &self.all,
        }
    }
}

/// Counters shared by the threads that have none of their own.
pub static SHARED: ThreadCounters = ThreadCounters::new(1);

/// The counters that were created last; the others follow by their registrations.
pub static LATEST: AtomicPtr<ThreadCounters> = AtomicPtr::new(ptr::null_mut());

/// Returns true if these are the shared counters, which are locked while in use.
pub fn is_shared(state: &ThreadCounters) -> bool {
    ptr::eq(state, &SHARED)
}

/// Returns all counters ever created; the shared ones come first.
pub fn each() -> impl Iterator<Item = &'static ThreadCounters> + Clone {
    // SAFETY: counters in the list are never freed.
    let of = |state: *mut ThreadCounters| unsafe { state.as_ref() };
    let listed = core::iter::successors(of(LATEST.load(Acquire)), move |state| {
        of(state.registration.next.load(Acquire))
    });
    core::iter::once(&SHARED).chain(listed)
}

/// Returns the counters of the calling thread, if it has its own.
#[inline(always)]
pub fn own(local: &Local) -> Option<&'static ThreadCounters> {
    // SAFETY: counters are never freed.
    unsafe { local.state.get().cast::<ThreadCounters>().as_ref() }
}
