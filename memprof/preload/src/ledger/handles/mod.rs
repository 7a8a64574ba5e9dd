//! Ledger of MPI objects: how many each call site of the program has made, and how many of them are
//! freed. Nothing is allocated before the first object is made.

#![allow(unsafe_code)]

mod table;

use core::cell::UnsafeCell;
use core::sync::atomic::{AtomicBool, Ordering};

use memprof_boundary::handles::Handle;

use crate::base::arch::Errno;
use crate::base::lock::SpinLock;
use crate::base::overflow_counters::{self, Table as Overflow};
use crate::base::thread::{Guard, local};

pub use table::{SITES, Site, Taken};

struct Shared {
    lock: SpinLock,
    table: UnsafeCell<table::Table>,
}

// SAFETY: the table is only touched under the lock.
unsafe impl Sync for Shared {}

static SHARED: Shared =
    Shared { lock: SpinLock::new(), table: UnsafeCell::new(table::Table::new()) };

/// True if numbers have changed since the last pass over them.
static HAS_CHANGED: AtomicBool = AtomicBool::new(false);

/// Runs `work` on the table under the lock. Returns `None` where the thread already works for the
/// tool: a signal handler may have interrupted another use.
fn with<R>(work: impl FnOnce(&mut table::Table) -> R) -> Option<R> {
    if local().guard.get() > 0 {
        return None;
    }
    let errno = Errno::save();
    let _guard = Guard::enter();
    SHARED.lock.lock();
    // SAFETY: the lock is held, and `work` does not call this function again.
    let result = work(unsafe { &mut *SHARED.table.get() });
    SHARED.lock.unlock();
    HAS_CHANGED.store(true, Ordering::Release);
    errno.restore();
    Some(result)
}

/// Records that a call of `function` that returns to `address` has made an object.
pub fn made(kind: Handle, handle: u64, function: usize, address: usize) {
    if with(|table| table.made(kind, handle, function, address)) == Some(false) {
        overflow_counters::add(Overflow::Handles);
    }
}

/// Removes an object that is about to be freed: another thread may get the same handle as soon as
/// it is. Returns `None` for an object that is not in the ledger.
pub fn take(kind: Handle, handle: u64) -> Option<Taken> {
    with(|table| table.take(kind, handle)).flatten()
}

/// Puts back an object after a failed release.
pub fn put_back(taken: Taken) {
    with(|table| table.put_back(taken));
}

/// Calls `each` with the index and the numbers of every site that has changed since the last call.
pub fn each_changed(mut each: impl FnMut(usize, &Site)) {
    if !HAS_CHANGED.swap(false, Ordering::Acquire) {
        return;
    }
    let _guard = Guard::enter();
    for index in 0..SITES {
        SHARED.lock.lock();
        // SAFETY: the lock is held.
        let site = unsafe { &mut *SHARED.table.get() }.changed(index);
        SHARED.lock.unlock();
        if let Some(site) = site {
            each(index, &site);
        }
    }
}

/// Returns the lock, for [`crate::lifecycle::fork`].
pub fn lock() -> &'static SpinLock {
    &SHARED.lock
}
