//! The node's barrier. README.md in this folder is the protocol in prose.

pub(crate) mod protocol;
pub(crate) mod spin;

use std::sync::atomic::AtomicU32;

use protocol::{Failure, Outcome, Turn};
use spin::Spinner;

use super::NodeError;
use super::layout::BarrierCell;
use super::roster::{Members, bury};
use super::wait::{FutexWait, Patience};

/// Position of one member at one barrier, and its record of how well polling serves it there.
#[derive(Debug)]
pub(super) struct Place {
    pub(super) turn: Turn,
    pub(super) spinner: Spinner,
}

impl Place {
    /// The place of a member that was counted from the start.
    pub(super) const fn founding() -> Self {
        Self { turn: Turn::founding(), spinner: Spinner::new() }
    }

    /// The place of a member that is counted from now on.
    pub(super) fn joining(cell: &BarrierCell) -> Self {
        Self { turn: Turn::joining(&cell.state), spinner: Spinner::new() }
    }
}

/// Passes one generation of a barrier.
pub(super) fn pass(
    cell: &BarrierCell,
    place: &mut Place,
    members: &Members<'_>,
    patience: Patience,
) -> Result<(), NodeError> {
    let number = place.turn.failed;
    let mut wait = FutexWait::new(patience, &mut place.spinner);
    match protocol::pass(&cell.state, &mut place.turn, members, &mut wait) {
        Outcome::Completed => Ok(()),
        Outcome::Failed(Failure::TimedOut) => Err(NodeError::TimedOut),
        Outcome::Failed(Failure::Dead) => {
            Err(NodeError::DeadMember { members: members.casualties(number) })
        }
    }
}

/// Limits for waking sleepers, of a caller that does not wait.
const IMPATIENT: Patience = Patience { deadline: None, spin: false };

/// Makes the barrier count the roster's members of now, which the caller has `changed` or not.
pub(super) fn reconcile(cell: &BarrierCell, members: &Members<'_>, changed: bool) {
    let mut spinner = Spinner::new();
    let mut wait = FutexWait::new(IMPATIENT, &mut spinner);
    protocol::reconcile(&cell.state, members, changed, &mut wait);
}

/// Makes sure that nothing a dead member did counts in the open generation, and notes when that was.
pub(super) fn disown(
    cell: &BarrierCell,
    graves: &[AtomicU32],
    member: usize,
    still_dead: impl Fn() -> bool,
) {
    let mut spinner = Spinner::new();
    let mut wait = FutexWait::new(IMPATIENT, &mut spinner);
    protocol::disown(&cell.state, &still_dead, &mut wait);
    if still_dead() {
        bury(graves, member, cell.state.word().failed());
    }
}
