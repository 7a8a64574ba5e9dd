//! Commands that put an object of ours into the ranks that another command starts: which launcher it is, how variables
//! reach the ranks, where the object is, and what a launcher's variables tell about a job.
//!
//! floors: job < launcher < preload

pub mod job;
pub mod launcher;
pub mod preload;

pub use launcher::Launcher;
