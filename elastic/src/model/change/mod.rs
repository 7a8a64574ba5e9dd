//! Fate of a request to resize the world: its steps, its one end, and the log of both.
//!
//! [`Changes`] is the arbiter: one value in one process, to which all news of a resize is reported.
//! It decides neither when to resize nor where processes go; it ensures that steps are in order,
//! that one resize is under way at a time, that each request ends exactly once, and that each
//! [`Event`] is logged with time, epoch, size and cause.
//!
//! Sources: D. Huber, master's thesis, TU München 2021, sections 6.2 to 6.4 (announced, pending,
//! finalised, aborted); I. A. Comprés Ureña, dissertation, TU München 2017, sections 6.1 and 9.1
//! (joiners are ready before any rank enters; windows do not nest); M. C. Cera, dissertation, UFRGS
//! 2012, section 4.2 (notices queue up, and a shrink cancels growth that waits).

mod changes;
mod error;
mod event;
mod query;
mod request;
mod step;
#[cfg(test)]
mod tests;

pub use changes::{Acceptance, Changes, Turn};
pub use error::ChangeError;
pub use event::{Event, Happening, LineError};
pub use query::{ChangeKind, View};
pub use request::{Cause, CauseKind, Request, RequestId, RequestKind, SetChange};
pub use step::Step;
