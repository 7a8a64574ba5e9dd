#![allow(unsafe_code)]
//! Forking, and calls that only a process with one thread may make.

use std::panic::{AssertUnwindSafe, catch_unwind};

use nix::unistd::{ForkResult, Pid, fork};

/// The status of a process that panicked.
pub const PANICKED: i32 = 101;

/// Runs `act` in a forked child, which ends with the status that `act` returns.
///
/// The caller has one thread, or its child does not take a lock that another thread may hold.
pub fn spawn(act: impl FnOnce() -> i32) -> nix::Result<Pid> {
    // SAFETY: as the caller promises. Allocation works in children of processes with threads too,
    // the C library sees to that.
    match unsafe { fork() }? {
        ForkResult::Parent { child } => Ok(child),
        ForkResult::Child => {
            end(catch_unwind(AssertUnwindSafe(act)).unwrap_or(PANICKED));
        }
    }
}

/// Ends this process at once, with nothing freed and no exit handler run.
pub fn end(status: i32) -> ! {
    // SAFETY: ends the process.
    unsafe { nix::libc::_exit(status) }
}

/// Sets or removes a variable of this process, which has one thread.
pub fn set_variable(name: &str, value: Option<&str>) {
    match value {
        // SAFETY: no other thread is there to read the environment.
        Some(value) => unsafe { std::env::set_var(name, value) },
        // SAFETY: as above.
        None => unsafe { std::env::remove_var(name) },
    }
}
