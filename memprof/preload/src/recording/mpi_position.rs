//! Position of the main thread: the MPI function that it is in.

#![allow(unsafe_code)]

use core::sync::atomic::{AtomicUsize, Ordering};

use crate::base::registered::Registered;
use crate::base::thread::local;

/// Returns the name of the MPI function with an index.
pub type Names = fn(usize) -> &'static str;

/// Address of the main thread's `Local`.
static MAIN: AtomicUsize = AtomicUsize::new(0);
static NAMES: Registered<Names> = Registered::none();

/// Makes the calling thread the main thread.
pub fn be_main() {
    MAIN.store(core::ptr::from_ref(local()) as usize, Ordering::Release);
}

/// Sets the function that returns names.
pub fn named_by(names: &'static Names) {
    NAMES.set(names);
}

/// Returns the index plus one of the MPI function that the main thread is in, 0 outside MPI.
pub fn main_thread() -> usize {
    let main = MAIN.load(Ordering::Acquire) as *const AtomicUsize;
    // SAFETY: the first word of the main thread's block, which lives as long as the process; it is
    // aligned and written as a whole.
    if main.is_null() { 0 } else { unsafe { (*main).load(Ordering::Relaxed) } }
}

/// Returns the name for a word from [`crate::base::thread::Local::mpi`], empty for 0.
pub fn function_name(word: usize) -> &'static str {
    match (word.checked_sub(1), NAMES.get()) {
        (Some(index), Some(names)) => names(index),
        _ => "",
    }
}
