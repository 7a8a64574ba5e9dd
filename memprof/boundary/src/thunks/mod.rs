//! Entries into MPI. Each function has one with its exact arity for its `MPI_` name and one for its
//! `PMPI_` name. Entering writes three words of the thread, leaving writes one:
//!
//! - If the thread is inside MPI already (a callback of the program, a binding on top of another),
//!   the call goes straight to the function.
//! - An entry from outside stores its stack pointer and return address, so that the next check
//!   notices if MPI was left by longjmp or by an exception ([`Position::is_inside`] and the entries
//!   themselves).
//!
//! The entries are written in assembly, since they must know the exact stack pointer at entry; they
//! contain the unwind information that exceptions need to pass through them.
//!
//! [`Position::is_inside`]: crate::thread::Position::is_inside

#[cfg_attr(target_arch = "x86_64", path = "x86_64.rs")]
#[cfg_attr(target_arch = "aarch64", path = "aarch64.rs")]
#[cfg_attr(not(any(target_arch = "x86_64", target_arch = "aarch64")), path = "elsewhere.rs")]
mod machine;

use core::sync::atomic::{AtomicUsize, Ordering};

use crate::functions::Name;

/// Functions that are called around MPI calls from outside, by any thread.
#[derive(Copy, Clone, Debug)]
pub struct Observer {
    /// The call of the function with this index returns now. It began at the time in the thread's
    /// block, and the thread's position is still inside.
    pub left: extern "C" fn(function: usize),
    /// Reads the clock; `None` for the processor's time-stamp counter.
    pub clock: Option<extern "C" fn() -> u64>,
}

/// Observes calls through all entries requested from now on: they take about ten more instructions
/// and two clock readings. Called before the first entry is requested.
pub fn observe(observer: Observer) {
    machine::observe(observer);
}

/// Returns the entry of a function, a timed one while calls are observed. `None` where the processor has none.
#[must_use]
pub fn entry(name: Name) -> Option<usize> {
    machine::entry(name)
}

/// Makes the entry call `address`. Returns false if it has another target already, or does not
/// exist.
pub fn set_real(name: Name, address: usize) -> bool {
    machine::set_real(name, address)
}

/// Makes the entry call `wrapper` for calls from outside; nested calls still go to the function. The
/// wrapper takes the words of the function and calls [`real`]. Called after [`set_real`].
pub fn wrap(name: Name, wrapper: usize) {
    machine::wrap(name, wrapper);
}

/// Returns the address of the function behind the entry; 0 if it has none.
#[must_use]
pub fn real(name: Name) -> usize {
    machine::real(name)
}

/// Stores an address in the cell of nested calls and in the cell of calls from outside, unless that
/// one has a wrapper. Returns false if the function has another address already.
#[cfg_attr(not(any(target_arch = "x86_64", target_arch = "aarch64")), allow(dead_code))]
fn set(real: Option<&AtomicUsize>, outer: Option<&AtomicUsize>, address: usize) -> bool {
    let (Some(real), Some(outer)) = (real, outer) else { return false };
    let store =
        |cell: &AtomicUsize| cell.compare_exchange(0, address, Ordering::AcqRel, Ordering::Acquire);
    let is_right = store(real).map_or_else(|before| before == address, |_| true);
    if is_right {
        // A cell that is not zero has the address already, or a wrapper.
        let _ = store(outer);
    }
    is_right
}

#[cfg_attr(not(any(target_arch = "x86_64", target_arch = "aarch64")), allow(dead_code))]
fn replace(outer: Option<&AtomicUsize>, wrapper: usize) {
    if let Some(outer) = outer {
        outer.store(wrapper, Ordering::Release);
    }
}

#[cfg(test)]
mod tests;
