//! Non-blocking MPI operations, waited for within limits.
#![allow(unsafe_code)]

use std::ffi::c_int;
use std::ptr;
use std::time::{Duration, Instant};

use quo::group::{GroupError, WaitLimits};

use crate::raw::succeed;
use crate::{Comm, raw};

/// Polls before the waiter starts to yield: about the time of a collective among awake ranks.
const EAGER_POLLS: u32 = 2_000;
/// Yields before the waiter starts to sleep between polls.
const YIELDS: u32 = 200;
/// Time to sleep between later polls: the awaited rank may need this core.
const NAP: Duration = Duration::from_micros(50);
/// Time between two checks of the deadline and of the other members; a wait that lasts longer sleeps
/// between polls. Not a number of polls: more ranks than cores yield in each poll of Open MPI, which
/// on a busy machine takes as long as the time slices of all other processes.
const CHECK_INTERVAL: Duration = Duration::from_millis(5);

/// A started non-blocking operation. MPI writes into C's memory until the operation has completed,
/// which may be after the wait was given up: only a completed operation is freed.
#[derive(Debug)]
pub(crate) struct Operation {
    call: &'static str,
    operation: *mut raw::Operation,
}

impl Operation {
    /// Starts an operation by a C call that returns MPI's code.
    pub(crate) fn begin(
        call: &'static str,
        begin: impl FnOnce(*mut *mut raw::Operation) -> c_int,
    ) -> Result<Self, GroupError> {
        let mut operation = ptr::null_mut();
        succeed(call, begin(&raw mut operation))?;
        Ok(Self { call, operation })
    }

    /// Returns true if the operation is complete; then [`end`](Self::end) must follow.
    pub(crate) fn test(&mut self) -> Result<bool, GroupError> {
        let mut done: c_int = 0;
        // SAFETY: the operation has been started and not freed.
        succeed(self.call, unsafe { raw::quo_mpi_test(self.operation, &raw mut done) })?;
        Ok(done != 0)
    }

    /// Frees a complete operation. Returns its communicator, which only a duplication has.
    pub(crate) fn end(self) -> Comm {
        // SAFETY: complete, and no longer used.
        Comm(unsafe { raw::quo_mpi_operation_end(self.operation) })
    }

    /// Waits for its end; returns the communicator of a duplication, otherwise the null
    /// communicator.
    pub(crate) fn wait(mut self, limits: &WaitLimits<'_>) -> Result<Comm, GroupError> {
        poll(self.call, limits, || Ok(self.test()?.then_some(())))?;
        Ok(self.end())
    }
}

/// Calls `test` until it returns a value.
pub(crate) fn poll<T>(
    call: &'static str,
    limits: &WaitLimits<'_>,
    mut test: impl FnMut() -> Result<Option<T>, GroupError>,
) -> Result<T, GroupError> {
    let mut polls: u32 = 0;
    let mut checked = None;
    loop {
        if let Some(value) = test()? {
            return Ok(value);
        }
        polls = polls.saturating_add(1);
        if polls > EAGER_POLLS + YIELDS {
            std::thread::sleep(NAP);
        } else if polls > EAGER_POLLS {
            std::thread::yield_now();
        }
        if checked.get_or_insert_with(Instant::now).elapsed() >= CHECK_INTERVAL {
            limits.check(call)?;
            checked = None;
            polls = polls.max(EAGER_POLLS + YIELDS);
        }
    }
}
