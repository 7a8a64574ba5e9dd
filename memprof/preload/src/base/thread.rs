//! State of each thread, separate so that hot paths touch nothing that other threads write.

#![allow(unsafe_code)]

use core::cell::Cell;
use core::sync::atomic::{AtomicU32, AtomicUsize};

use memprof_boundary::thread::{BEGAN, Position, block};

use crate::base::component::Component;

/// State of one thread. All zeros is the initial state. The words that MPI calls and malloc use are
/// in its first cache line.
#[repr(C, align(64))]
pub struct Local {
    /// The thread's position in MPI.
    pub mpi: Position,
    /// Greater than zero while the tool itself works in this thread.
    pub guard: Cell<u32>,
    /// Version of the table of objects in which the object below was found.
    pub object_version: Cell<u32>,
    /// Object of the last caller that owns its allocations: its first address; its length and owner
    /// are below.
    pub object_low: Cell<usize>,
    /// Length of that object, or 0 where the fast path does not apply: the tool is at work, the
    /// thread has no counters, or its current component is another one.
    pub object_owns: Cell<usize>,
    /// Tag word of the thread's current component for address zero; 0 without counters.
    pub mark: Cell<u64>,
    /// Counters of this thread in the heap's ledger, which defines their type; null before the
    /// first allocation and after the last destructor.
    pub state: Cell<*const ()>,
    pub object_length: Cell<usize>,
    pub object_component: Cell<Component>,
    /// Objects of recent callers; null without counters.
    pub recent: Cell<*const RecentCallers>,
    /// Component to which the thread's allocations belong if their caller does not determine one.
    pub home: Cell<Component>,
    /// True if the thread has released its counters: it is about to end.
    pub ended: Cell<bool>,
}

const _: () = assert!(core::mem::offset_of!(Local, object_length) == 64);

impl Local {
    /// Marks the thread as working for the tool, until the matching call of [`Local::leave`].
    #[inline]
    pub fn enter(&self) {
        self.object_owns.set(0);
        self.guard.set(self.guard.get() + 1);
    }

    #[inline]
    pub fn leave(&self) {
        self.guard.set(self.guard.get() - 1);
    }

    /// Returns true if a function entered with this stack pointer runs inside MPI. Forgets an MPI
    /// call that was left by longjmp or an exception.
    #[inline]
    pub fn inside_mpi(&self, stack: usize) -> bool {
        self.mpi.is_inside(stack, far_return_address)
    }
}

#[cold]
#[inline(never)]
fn far_return_address(entry: usize) -> Option<usize> {
    let mut word = [0; size_of::<usize>()];
    crate::base::kernel::peek(entry, &mut word).then(|| usize::from_ne_bytes(word))
}

/// Number of callers' objects that a thread finds without a search.
pub const RECENT: usize = 64;

/// A cached object in which a caller was found, in the entry that the page of the caller selects.
/// All zeros is empty.
#[repr(C)]
pub struct Recent {
    pub low: AtomicUsize,
    pub length: AtomicUsize,
    /// Version of the table of objects in which the object was found.
    pub version: AtomicU32,
    /// Component in the low half; above, whether the object allocates for others.
    pub what: AtomicU32,
}

/// Objects of callers that a thread finds without a search.
pub type RecentCallers = [Recent; RECENT];

impl Recent {
    pub const fn new() -> Recent {
        Recent {
            low: AtomicUsize::new(0),
            length: AtomicUsize::new(0),
            version: AtomicU32::new(0),
            what: AtomicU32::new(0),
        }
    }
}

const _: () = assert!(size_of::<Local>() <= BEGAN);

/// Returns the state of the calling thread.
#[inline(always)]
pub fn local() -> &'static Local {
    // SAFETY: the block lives as long as its thread, which alone uses it, and a block of zeros is
    // valid.
    unsafe { &*block().cast::<Local>() }
}

/// While the value lives, the thread's allocations are the tool's.
pub struct Guard(());

impl Guard {
    #[inline]
    pub fn enter() -> Guard {
        local().enter();
        Guard(())
    }
}

impl Drop for Guard {
    #[inline]
    fn drop(&mut self) {
        local().leave();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stack_that_mpi_was_called_on_may_be_gone() {
        // In a separate thread, since the words are the thread's.
        let ask = || {
            let length = 4 << 20;
            let stack = crate::base::kernel::map_anonymous(length).unwrap();
            let entry = stack + length - 64;
            let local = local();
            let enter = || {
                local.mpi.function.set(1);
                local.mpi.stack.set(entry);
                local.mpi.return_address.set(0);
            };
            enter();
            assert!(local.inside_mpi(entry - 100));
            assert!(local.inside_mpi(entry - length / 2), "the same stack, far down");
            local.mpi.forget_stack(stack - 4096, 4096);
            assert!(local.inside_mpi(entry - 100), "another one");
            local.mpi.forget_stack(stack, length);
            assert!(!local.inside_mpi(entry - 100), "given back by this thread");
            enter();
            // SAFETY: mapped above, and no longer used.
            unsafe { libc::munmap(stack as *mut _, length) };
            assert!(!local.inside_mpi(entry - length / 2), "given back by another");
        };
        std::thread::spawn(ask).join().unwrap();
    }

    #[test]
    fn guards_nest_and_belong_to_their_thread() {
        let outer = Guard::enter();
        let inner = Guard::enter();
        assert_eq!(local().guard.get(), 2);
        std::thread::spawn(|| assert_eq!(local().guard.get(), 0)).join().unwrap();
        drop(inner);
        assert_eq!(local().guard.get(), 1);
        drop(outer);
        assert_eq!(local().guard.get(), 0);
    }
}
