//! Commands that put an object of ours into the ranks that another command starts: which launcher it is, how variables
//! reach the ranks, and where the object is.
//!
//! floors: launcher < preload

pub mod launcher;
pub mod preload;

pub use launcher::Launcher;
