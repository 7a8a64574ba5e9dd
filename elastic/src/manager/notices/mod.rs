//! Notices: requests of those who take nodes away or give them, without a socket and without a library.
//!
//! | notice | request |
//! |---|---|
//! | a file in a [folder](NoticeFolder) | what stands in it, acknowledged by a file |
//! | [SIGTERM](crate::WorldOptions::term_notice) to rank 0's process | the fewest ranks that the program can have, before the job ends |

mod files;
mod folder;
mod signal;
mod term;

pub use folder::NoticeFolder;
pub(crate) use signal::Term;
pub(crate) use term::TermNotice;
