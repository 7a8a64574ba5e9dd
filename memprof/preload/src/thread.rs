//! What each thread keeps for itself, so that the hot paths touch nothing that others write.

#![allow(unsafe_code)]

use core::cell::Cell;
use core::ptr;
use core::sync::atomic::{AtomicI64, AtomicPtr, AtomicU32, AtomicU64};

use crate::arch;
use crate::component::{Component, LIMIT};

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
    /// The thread has given its counters back: it is about to end.
    pub ended: Cell<bool>,
    /// Counters of this thread; null before the first allocation and after the last destructor.
    pub state: Cell<*const State>,
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
            ended: Cell::new(false),
            state: Cell::new(ptr::null()),
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

/// What one thread allocated and freed for one component. Its thread is the only writer; others
/// read. `owned` is what is not yet in the sum of the process, and negative where a thread frees what
/// others allocated.
#[repr(C, align(64))]
pub struct Account {
    pub owned: AtomicI64,
    /// The highest `owned` since it was last folded into the sum.
    pub high: AtomicI64,
    pub allocations: AtomicU64,
    pub frees: AtomicU64,
    pub allocated_total: AtomicU64,
}

/// How many leaves of the granule table a thread finds without a search.
pub const LEAVES_AT_HAND: usize = 16;

/// A leaf of the granule table that was used before: which 4 MiB, where its granules are, how large
/// they are and whether the thread owns them (see [`crate::heap::granules`]).
#[repr(C, align(32))]
pub struct LeafAtHand {
    pub region: AtomicU64,
    pub granules: AtomicPtr<crate::heap::granules::Granule>,
    pub shift: AtomicU32,
    pub own: AtomicU32,
}

/// Counters of one thread, in memory that outlives it: a later thread takes them over, so that
/// nothing has to be moved when a thread ends.
#[repr(C, align(64))]
pub struct State {
    /// Bytes to go until an allocation's stack is kept.
    pub until_sample: AtomicI64,
    /// State of the random numbers that say when; 0 before the first.
    pub random: AtomicU64,
    pub next: AtomicPtr<State>,
    /// From 1 on. Names the owner of a leaf.
    pub number: AtomicU32,
    /// 1 while a thread has it.
    pub taken: AtomicU32,
    /// How often the destructors of the thread have come by.
    pub rounds: AtomicU32,
    /// As in an account, of all components together. Their place within a line of the cache is none
    /// of an account's: a processor takes words 4 KiB apart for each other for a moment, and waits.
    pub all_owned: AtomicI64,
    pub all_high: AtomicI64,
    pub accounts: [Account; LIMIT],
    pub leaves: [LeafAtHand; LEAVES_AT_HAND],
}

const _: () = assert!(core::mem::offset_of!(State, all_owned) == 40);
const _: () = assert!(core::mem::offset_of!(State, accounts) == 64);

impl State {
    pub const fn new(number: u32) -> State {
        State {
            until_sample: AtomicI64::new(0),
            random: AtomicU64::new(0),
            next: AtomicPtr::new(ptr::null_mut()),
            number: AtomicU32::new(number),
            taken: AtomicU32::new(0),
            rounds: AtomicU32::new(0),
            all_owned: AtomicI64::new(0),
            all_high: AtomicI64::new(0),
            accounts: [const {
                Account {
                    owned: AtomicI64::new(0),
                    high: AtomicI64::new(0),
                    allocations: AtomicU64::new(0),
                    frees: AtomicU64::new(0),
                    allocated_total: AtomicU64::new(0),
                }
            }; LIMIT],
            leaves: [const {
                LeafAtHand {
                    region: AtomicU64::new(0),
                    granules: AtomicPtr::new(ptr::null_mut()),
                    shift: AtomicU32::new(0),
                    own: AtomicU32::new(0),
                }
            }; LEAVES_AT_HAND],
        }
    }

    /// What this thread owns beyond the sums of the process, and the most it did: of one component,
    /// or of all (`LIMIT`).
    #[inline(always)]
    pub fn owned(&self, index: usize) -> (&AtomicI64, &AtomicI64) {
        match self.accounts.get(index) {
            Some(account) => (&account.owned, &account.high),
            None => (&self.all_owned, &self.all_high),
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

/// While it lives, what the thread does is the tool's own doing.
pub struct Guard(());

impl Guard {
    #[inline]
    pub fn enter() -> Guard {
        let local = local();
        local.guard.set(local.guard.get() + 1);
        Guard(())
    }
}

impl Drop for Guard {
    #[inline]
    fn drop(&mut self) {
        let local = local();
        local.guard.set(local.guard.get() - 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
