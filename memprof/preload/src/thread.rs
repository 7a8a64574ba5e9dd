//! What each thread keeps for itself, so that the hot paths touch nothing that others write.

#![allow(unsafe_code)]

use core::cell::Cell;

use crate::arch;
use crate::component::Component;

/// The thread's own block. All zero is its first state.
#[repr(C, align(64))]
pub struct Local {
    /// Inside MPI: the index of the outermost function plus one; 0 outside.
    pub mpi: Cell<usize>,
    /// The stack pointer at the outermost entry into MPI, where its return address is. A look from a
    /// shallower frame means that MPI was left by longjmp or an exception.
    pub mpi_stack: Cell<usize>,
    /// The return address found there; when it is no longer, the frame is gone too.
    pub mpi_return: Cell<usize>,
    /// More than zero while the tool itself works in this thread.
    pub guard: Cell<u32>,
    /// The component a thread's allocations go to when their caller does not tell.
    pub home: Cell<Component>,
    /// The object that the last caller was found in: addresses from, to (exclusive), whose.
    pub object_low: Cell<usize>,
    pub object_high: Cell<usize>,
    pub object_component: Cell<Component>,
    pub object_neutral: Cell<bool>,
    /// The version of the table of objects that this was found in.
    pub object_version: Cell<u32>,
    /// Counters of this thread; null before the first allocation.
    pub state: Cell<*mut State>,
}

impl Local {
    #[cfg(not(all(target_arch = "x86_64", target_os = "linux")))]
    pub const fn new() -> Local {
        Local {
            mpi: Cell::new(0),
            mpi_stack: Cell::new(0),
            mpi_return: Cell::new(0),
            guard: Cell::new(0),
            home: Cell::new(Component::UNATTRIBUTED),
            object_low: Cell::new(0),
            object_high: Cell::new(0),
            object_component: Cell::new(Component::UNATTRIBUTED),
            object_neutral: Cell::new(false),
            object_version: Cell::new(0),
            state: Cell::new(core::ptr::null_mut()),
        }
    }
}

impl Local {
    /// Whether a function entered with this stack pointer runs inside MPI. An MPI call that was left
    /// by longjmp or an exception is forgotten here.
    #[inline]
    pub fn inside_mpi(&self, stack: usize) -> bool {
        if self.mpi.get() == 0 {
            return false;
        }
        let entry = self.mpi_stack.get();
        // SAFETY: at `entry` an MPI function was called, and the stack has grown beyond it since.
        if stack < entry && unsafe { *(entry as *const usize) } == self.mpi_return.get() {
            return true;
        }
        self.mpi.set(0);
        false
    }
}

/// Counters of one thread.
pub struct State {
    _owner: u8,
}

/// The block of the calling thread.
#[inline(always)]
pub fn local() -> &'static Local {
    // SAFETY: the block lives as long as its thread, which is the only one that uses it, and a
    // block of zeroes is a valid one.
    unsafe { &*arch::local() }
}

/// While it lives, what the thread does is the tool's own doing.
pub struct Guard(());

impl Guard {
    pub fn enter() -> Guard {
        let local = local();
        local.guard.set(local.guard.get() + 1);
        Guard(())
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        let local = local();
        local.guard.set(local.guard.get() - 1);
    }
}
