//! The node's barrier. README.md in this folder describes the protocol.

use std::sync::atomic::AtomicU32;

use super::protocol::barrier::{self as protocol, Failure, GenerationCursor, Outcome};
use super::spin::Spinner;

use super::NodeError;
use super::exchange::Sent;
use super::layout::BarrierCell;
use super::roster::{Members, record_expulsion};
use super::wait::{FutexWait, WaitOptions};

/// Position of one member at one barrier, and its polling budget there.
#[derive(Debug)]
pub(super) struct Place {
    pub(super) cursor: GenerationCursor,
    pub(super) spinner: Spinner,
    pub(super) sent: Sent,
}

impl Place {
    /// Returns the place of a member that was counted from the start.
    pub(super) fn founding() -> Self {
        Self {
            cursor: GenerationCursor::founding(),
            spinner: Spinner::new(),
            sent: Sent::default(),
        }
    }

    /// Returns the place of a member that is counted from now on.
    pub(super) fn joining(cell: &BarrierCell) -> Self {
        Self { cursor: GenerationCursor::joining(&cell.state), ..Self::founding() }
    }
}

/// Passes one generation of a barrier.
pub(super) fn pass(
    cell: &BarrierCell,
    place: &mut Place,
    members: &Members<'_>,
    options: WaitOptions,
) -> Result<(), NodeError> {
    let number = place.cursor.failed;
    let mut wait = FutexWait::new(options, &mut place.spinner);
    match protocol::pass(&cell.state, &mut place.cursor, members, &mut wait) {
        Outcome::Completed => Ok(()),
        Outcome::Failed(Failure::TimedOut) => Err(NodeError::TimedOut),
        Outcome::Failed(Failure::Dead) => {
            Err(NodeError::DeadMember { members: members.dead_since(number) })
        }
    }
}

/// Wait options for callers that only wake sleepers and do not wait.
const IMPATIENT: WaitOptions = WaitOptions { deadline: None, spin: false };

/// Makes the barrier count the current members of the roster; `changed` if the caller has changed
/// it.
pub(super) fn reconcile(cell: &BarrierCell, members: &Members<'_>, changed: bool) {
    let mut spinner = Spinner::new();
    let mut wait = FutexWait::new(IMPATIENT, &mut spinner);
    protocol::reconcile(&cell.state, members, changed, &mut wait);
}

/// Removes a dead member's arrival from the open generation and records the expulsion.
pub(super) fn discard_arrivals(
    cell: &BarrierCell,
    expelled_at: &[AtomicU32],
    member: usize,
    still_dead: impl Fn() -> bool,
) {
    let mut spinner = Spinner::new();
    let mut wait = FutexWait::new(IMPATIENT, &mut spinner);
    protocol::discard_arrivals(&cell.state, &still_dead, &mut wait);
    if still_dead() {
        record_expulsion(expelled_at, member, cell.state.word().failed());
    }
}
