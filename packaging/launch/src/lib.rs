//! Commands that preload an object into the ranks that another command starts: identifying the
//! launcher, passing variables to the ranks, finding the object, and a launcher's variables about a
//! job.
//!
//! floors: job < launcher < preload

pub mod job;
pub mod launcher;
pub mod preload;

pub use launcher::Launcher;
