//! Work deferred to a moment at which it is allowed: not in the handler of a fork, nor in a call on
//! a hot path.

use crate::base::registered::Registered;

static WORK: Registered<fn()> = Registered::none();

/// Has `work` called by every [`run`] until [`cancel`].
pub fn defer(work: &'static fn()) {
    WORK.set(work);
}

/// Cancels all deferred work.
pub fn cancel() {
    WORK.clear();
}

/// Runs the deferred work, if there is any. Called in places that are not on a hot path.
#[inline]
pub fn run() {
    if let Some(work) = WORK.get() {
        work();
    }
}
