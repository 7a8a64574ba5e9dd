//! Ledger of the memory that programs request from the runtimes of GPUs: how many bytes each call
//! site has allocated, and how many of them are freed. Nothing is allocated before the first call.
//!
//! The bytes of devices are not resident memory of the process, and no other ledger counts them.

#![allow(unsafe_code)]

mod table;

use core::cell::UnsafeCell;
use core::sync::atomic::{AtomicBool, Ordering};

use crate::base::arch::Errno;
use crate::base::component::Component;
use crate::base::lock::SpinLock;
use crate::base::overflow_counters::{self, Table as Overflow};
use crate::base::thread::{Guard, local};

pub use table::{Call, Kind, Of, ROWS, Row, Taken};

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

/// Records that a call has allocated `bytes` at `pointer` for `component`.
pub fn allocated(kind: Kind, pointer: u64, bytes: u64, component: Component, call: Call) {
    if with(|table| table.allocated(kind, pointer, bytes, component, call)) == Some(false) {
        overflow_counters::add(Overflow::Handles);
    }
}

/// Removes memory that is about to be freed: another thread may get the same pointer as soon as it
/// is. Returns `None` for memory that is not in the ledger.
pub fn take(pointer: u64) -> Option<Taken> {
    with(|table| table.take(pointer)).flatten()
}

/// Puts back memory after a failed release.
pub fn put_back(taken: Taken) {
    with(|table| table.put_back(taken));
}

/// Calls `each` with the index and the numbers of every row that has changed since the last call.
pub fn each_changed(mut each: impl FnMut(usize, &Row)) {
    if !HAS_CHANGED.swap(false, Ordering::Acquire) {
        return;
    }
    let _guard = Guard::enter();
    for index in 0..ROWS {
        SHARED.lock.lock();
        // SAFETY: the lock is held.
        let row = unsafe { &mut *SHARED.table.get() }.changed(index);
        SHARED.lock.unlock();
        if let Some(row) = row {
            each(index, &row);
        }
    }
}

/// Returns the lock, for [`crate::lifecycle::fork`].
pub fn lock() -> &'static SpinLock {
    &SHARED.lock
}
