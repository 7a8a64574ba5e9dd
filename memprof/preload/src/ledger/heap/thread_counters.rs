//! Counters of one thread. Each part belongs to the module that uses it, which names its type.

use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::Relaxed;

use super::granules::LeafCache;
use super::level::Level;
use super::pending_counters::PendingCounters;
use super::registry::Registration;
use crate::base::component::LIMIT;
use crate::base::thread::{RECENT, Recent, RecentCallers};
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
