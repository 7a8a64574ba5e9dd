//! Thread numbers of OpenMP, BLAS and rayon. Public under [`phase`](crate::phase).
//!
//! - `loaded`: the objects that the process has loaded, and their functions;
//! - `openmp_runtime`: an OpenMP runtime among them, its limits and its teams;
//! - `thread_controls`: the thread counts of libraries that the process has loaded;
//! - `openmp_places`: evidence of a binding that OpenMP made at its start;
//! - `rayon_pool`: a rayon pool as wide as the current binding.

mod loaded;
mod openmp_places;
mod openmp_runtime;
#[cfg(feature = "rayon")]
mod rayon_pool;
mod thread_controls;

pub(crate) use openmp_places::bound_by_openmp;
pub(crate) use openmp_runtime::{Family, Fewer, OpenMpRuntime};
#[cfg(feature = "rayon")]
pub use rayon_pool::{PoolError, rayon_pool};
pub use thread_controls::{Saved, Setting, ThreadControls, ThreadLibrary};
