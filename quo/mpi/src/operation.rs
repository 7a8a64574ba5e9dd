//! Non-blocking operations of MPI, waited for within limits.
#![allow(unsafe_code)]

use std::ffi::c_int;
use std::ptr;
use std::time::Duration;

use quo::group::{GroupError, WaitLimits};

use crate::raw::succeed;
use crate::{Comm, raw};

/// Polls before the waiter starts to yield: about the time of a collective among awake ranks.
const EAGER_POLLS: u32 = 2_000;
/// Yields before the waiter starts to sleep between polls.
const YIELDS: u32 = 200;
/// Time to sleep between later polls: the awaited rank may need this core.
const NAP: Duration = Duration::from_micros(50);
/// Polls between two looks at the clock and at the other members.
const POLLS_PER_CHECK: u32 = 64;

/// A non-blocking operation that has begun. MPI writes into C's memory until it has completed, which
/// may be after the wait was given up: only a completed one is freed.
#[derive(Debug)]
pub(crate) struct Operation {
    call: &'static str,
    operation: *mut raw::Operation,
}

impl Operation {
    /// Begins one by a call of C that gives MPI's code.
    pub(crate) fn begin(
        call: &'static str,
        begin: impl FnOnce(*mut *mut raw::Operation) -> c_int,
    ) -> Result<Self, GroupError> {
        let mut operation = ptr::null_mut();
        succeed(call, begin(&raw mut operation))?;
        Ok(Self { call, operation })
    }

    /// Returns true if it is complete; [`end`](Self::end) is next then.
    pub(crate) fn test(&mut self) -> Result<bool, GroupError> {
        let mut done: c_int = 0;
        // SAFETY: the operation has begun and was not given back.
        succeed(self.call, unsafe { raw::quo_mpi_test(self.operation, &raw mut done) })?;
        Ok(done != 0)
    }

    /// Gives back the resources of a complete one, and its communicator, which only a duplication
    /// has.
    pub(crate) fn end(self) -> Comm {
        // SAFETY: complete, and used by nobody any more.
        Comm(unsafe { raw::quo_mpi_operation_end(self.operation) })
    }

    /// Waits for its end; gives the communicator of a duplication, else the null communicator.
    pub(crate) fn wait(mut self, limits: &WaitLimits<'_>) -> Result<Comm, GroupError> {
        let mut polls: u32 = 0;
        loop {
            if self.test()? {
                return Ok(self.end());
            }
            polls = polls.saturating_add(1);
            if polls > EAGER_POLLS {
                if polls > EAGER_POLLS + YIELDS {
                    std::thread::sleep(NAP);
                } else {
                    std::thread::yield_now();
                }
                if polls.is_multiple_of(POLLS_PER_CHECK) {
                    limits.check(self.call)?;
                }
            }
        }
    }
}
