//! Thread numbers of OpenMP, BLAS and rayon. Public under [`phase`](crate::phase).
//!
//! - `thread_controls`: the thread counts of libraries that the process has loaded;
//! - `rayon_pool`: a rayon pool as wide as the current binding.

#[cfg(feature = "rayon")]
mod rayon_pool;
mod thread_controls;

#[cfg(feature = "rayon")]
pub use rayon_pool::{PoolError, rayon_pool};
pub(crate) use thread_controls::symbol;
pub use thread_controls::{Saved, Setting, ThreadControls, ThreadLibrary};
