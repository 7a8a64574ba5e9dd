//! Where the program enters and leaves MPI, the loader and the kernel's mappings.

mod thunks;

/// Patches what is loaded; later objects follow by [`crate::objects::refresh`].
pub fn start() {}

/// Where the main thread is now: the index of an MPI function plus one, 0 outside MPI.
pub fn main_thread() -> usize {
    0
}

/// The name of what [`crate::thread::Local::mpi`] says, empty for 0.
pub fn function_name(_word: usize) -> &'static str {
    ""
}
