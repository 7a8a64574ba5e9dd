#![allow(unsafe_code)]
//! A process-shared pthread barrier as the node's barrier, for comparison.
//!
//! It has the limits of the C library's barrier: it counts a fixed number of members, has no
//! timeout, does not notice a death, and no member can join or leave. A member that dies leaves the
//! others waiting forever. All members must use the same C library.

use std::io;
use std::mem::MaybeUninit;

use super::NodeError;
use super::layout::PthreadCell;

/// Initialises the barrier in a segment that no other process knows yet.
pub(super) fn prepare(cell: &PthreadCell, members: usize) -> Result<(), NodeError> {
    let count = u32::try_from(members).map_err(|_| NodeError::InvalidOption {
        option: "members",
        value: members,
        reason: "more than a pthread barrier can count",
    })?;
    let mut attributes = MaybeUninit::uninit();
    // SAFETY: the attributes are initialised by the first call and destroyed by the last, and the
    // cell is memory of the right size and alignment that nothing else uses yet.
    unsafe {
        check("pthread_barrierattr_init", libc::pthread_barrierattr_init(attributes.as_mut_ptr()))?;
        let shared = libc::PTHREAD_PROCESS_SHARED;
        let result = check(
            "pthread_barrierattr_setpshared",
            libc::pthread_barrierattr_setpshared(attributes.as_mut_ptr(), shared),
        )
        .and_then(|()| {
            check(
                "pthread_barrier_init",
                libc::pthread_barrier_init(cell.0.get(), attributes.as_ptr(), count),
            )
        });
        libc::pthread_barrierattr_destroy(attributes.as_mut_ptr());
        result
    }
}

/// Waits until all members have arrived.
pub(super) fn wait(cell: &PthreadCell) -> Result<(), NodeError> {
    // SAFETY: `prepare` made the barrier before anyone could attach, and nothing destroys it.
    match unsafe { libc::pthread_barrier_wait(cell.0.get()) } {
        libc::PTHREAD_BARRIER_SERIAL_THREAD => Ok(()),
        result => check("pthread_barrier_wait", result),
    }
}

fn check(call: &'static str, result: i32) -> Result<(), NodeError> {
    match result {
        0 => Ok(()),
        error => Err(NodeError::system(
            call,
            "the node's pthread barrier",
            io::Error::from_raw_os_error(error),
        )),
    }
}
