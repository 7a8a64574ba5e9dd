//! Notices: requests of a system that gives or takes nodes, without a socket and without a library.
//!
//! | notice | request |
//! |---|---|
//! | a file in a [folder](NoticeFolder) | its content, acknowledged by a file |
//! | [SIGTERM](crate::WorldOptions::term_notice) to rank 0's process | shrink to the program's smallest size before the job ends |

mod files;
mod folder;
mod signal;
mod term;

pub use folder::NoticeFolder;
pub(crate) use signal::SigtermGuard;
pub(crate) use term::TermNotice;
