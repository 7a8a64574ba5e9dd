//! Loading and end of the object in its process, forks, and the interface for programs.

pub mod fork;
pub mod hooks;
pub mod start;
