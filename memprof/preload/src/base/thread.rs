//! State of each thread for itself, so that the hot paths touch nothing that others write.

#![allow(unsafe_code)]

use core::cell::Cell;
use core::sync::atomic::{AtomicU32, AtomicUsize};

use memprof_boundary::thread::Position;

use crate::base::arch;
use crate::base::component::Component;

/// The thread's own block. All zero is its first state. The words that calls of MPI and of malloc touch are its first
/// line of the cache.
#[repr(C, align(64))]
pub struct Local {
    /// The thread's position in MPI.
    pub mpi: Position,
    /// More than zero while the tool itself works in this thread.
    pub guard: Cell<u32>,
    /// The version of the table of objects that the object below was found in.
    pub object_version: Cell<u32>,
    /// The object of the last caller that owns its allocations: its first address, its length, and its owner.
    pub object_low: Cell<usize>,
    /// 0 instead of the bytes where more has to be asked: the tool is at work, or the thread has no
    /// counters, or they are at another component.
    pub object_owns: Cell<usize>,
    /// Beginning of a tag of the component that the counters are at; 0 without counters.
    pub mark: Cell<u64>,
    /// Counters of this thread in the heap's ledger, which knows their type; null before the first allocation and
    /// after the last destructor.
    pub state: Cell<*const ()>,
    pub object_length: Cell<usize>,
    pub object_component: Cell<Component>,
    /// Objects of recent callers; null without counters.
    pub recent: Cell<*const RecentCallers>,
    /// The component a thread's allocations go to when their caller does not tell.
    pub home: Cell<Component>,
    /// The thread has given its counters back: it is about to end.
    pub ended: Cell<bool>,
}

const _: () = assert!(core::mem::offset_of!(Local, object_length) == 64);

impl Local {
    /// The tool itself works in this thread, until as many calls of [`Local::leave`].
    #[inline]
    pub fn enter(&self) {
        self.object_owns.set(0);
        self.guard.set(self.guard.get() + 1);
    }

    #[inline]
    pub fn leave(&self) {
        self.guard.set(self.guard.get() - 1);
    }

    /// Returns true if a function entered with this stack pointer runs inside MPI. An MPI call that was left by longjmp
    /// or an exception is forgotten here.
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

/// How many callers' objects a thread finds without a search.
pub const RECENT: usize = 64;

/// One of the objects that callers were found in before. They stand at the places that the pages of those
/// callers have. All zeroes: none.
#[repr(C)]
pub struct Recent {
    pub low: AtomicUsize,
    pub length: AtomicUsize,
    /// The version of the table of objects that it was found in.
    pub version: AtomicU32,
    /// The component in the low half; above, whether it allocates for others.
    pub what: AtomicU32,
}

/// The objects of callers that a thread finds without a search.
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

/// The block of the calling thread.
#[inline(always)]
pub fn local() -> &'static Local {
    // SAFETY: the block lives as long as its thread, which is the only one that uses it, and a
    // block of zeroes is a valid one.
    unsafe { &*arch::local() }
}

/// While it lives, the thread's allocations are the tool's own.
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
        // Of a thread of its own: the words are the thread's.
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
            // SAFETY: mapped above, and used by nobody.
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
