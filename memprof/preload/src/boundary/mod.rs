//! Where the program enters and leaves MPI, the loader and the kernel's mappings.

/// Patches what is loaded; later objects follow by [`crate::objects::refresh`].
pub fn start() {}
