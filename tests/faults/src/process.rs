#![allow(unsafe_code)]
//! Forking, and calls that only a process with one thread may make.

use std::panic::{AssertUnwindSafe, catch_unwind};

use nix::unistd::{ForkResult, Pid, fork};

/// Exit status of a process that panicked.
pub const PANICKED: i32 = 101;

/// Runs `act` in a forked child, which ends with the status that `act` returns.
///
/// The caller must have one thread, or the child must not take a lock that another thread may hold.
pub fn spawn(act: impl FnOnce() -> i32) -> nix::Result<Pid> {
    // SAFETY: the caller ensures it. Allocation also works in children of processes with threads,
    // which the C library guarantees.
    match unsafe { fork() }? {
        ForkResult::Parent { child } => Ok(child),
        ForkResult::Child => {
            end(catch_unwind(AssertUnwindSafe(act)).unwrap_or(PANICKED));
        }
    }
}

/// Ends this process at once, without freeing anything or running exit handlers.
pub fn end(status: i32) -> ! {
    // SAFETY: ends the process.
    unsafe { nix::libc::_exit(status) }
}

/// Sets or removes a variable of this process, which has one thread.
pub fn set_variable(name: &str, value: Option<&str>) {
    match value {
        // SAFETY: no other thread exists that could read the environment.
        Some(value) => unsafe { std::env::set_var(name, value) },
        // SAFETY: no other thread exists that could read the environment.
        None => unsafe { std::env::remove_var(name) },
    }
}
