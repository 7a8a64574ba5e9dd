//! Work that waits for a moment at which much may be done: not in the handler of a fork, nor in a call on a hot path.

use crate::base::registered::Registered;

static WORK: Registered<fn()> = Registered::none();

/// Has `work` called by every [`run`] until [`cancel`].
pub fn defer(work: &'static fn()) {
    WORK.set(work);
}

/// Has nothing called any more.
pub fn cancel() {
    WORK.clear();
}

/// Runs the work that waits, if any. To be called where work is done that is not on a hot path.
#[inline]
pub fn run() {
    if let Some(work) = WORK.get() {
        work();
    }
}
