//! Thread numbers of OpenMP, BLAS and rayon. Public under [`phase`](crate::phase).
//!
//! - `thread_controls`: the thread counts of libraries that the process has loaded;
//! - `openmp_places`: evidence of a binding that OpenMP made at its start;
//! - `rayon_pool`: a rayon pool as wide as the current binding.

mod openmp_places;
#[cfg(feature = "rayon")]
mod rayon_pool;
mod thread_controls;

pub(crate) use openmp_places::bound_by_openmp;
#[cfg(feature = "rayon")]
pub use rayon_pool::{PoolError, rayon_pool};
pub(crate) use thread_controls::symbol;
pub use thread_controls::{Saved, Setting, ThreadControls, ThreadLibrary};
