//! One array of the program's own, moved once, among the ranks of a group.

use quo::group::Group as _;
use quo_mpi::MpiGroup;

use super::message::{Moved, Participants};
use super::moving::Move;
use super::registry::State;
use super::{DataError, Element, Pattern, Registry};

const NAME: &str = "array";

/// Moves one array between ranks of a group, and returns this process's new part, which is empty if
/// it has none. Collective over the group.
///
/// # Errors
/// The same on all ranks: [`DataError`] if the length of a part does not match its distribution, or
/// a rank refuses.
pub fn redistribute<T: Element>(
    group: MpiGroup,
    change: Participants,
    (old, new): (Pattern, Pattern),
    part: &[T],
) -> Result<(Vec<T>, Moved), DataError> {
    let me = group.rank();
    let seat = (me < change.old).then_some((me, change.old));
    let place = change.new.iter().position(|&place| place == me);
    let next = place.map(|rank| (rank, change.new.len()));
    let mut registry = Registry::new(seat);
    if seat.is_some() {
        let made = registry.register_with(NAME, old, part).map(drop);
        if let Err(error) = made.and_then(|()| registry.lay_out(NAME, new)) {
            registry.state = State::Failed(error.to_string());
        }
    }
    let moved = Move::begin(&mut registry, group, change)?.finish()?;
    registry.end_transfer(true, next);
    if next.is_none() {
        return Ok((Vec::new(), moved));
    }
    let array = registry.array::<T>(NAME)?;
    Ok((registry.local(array)?.to_vec(), moved))
}

/// Takes part in [`redistribute`] only to refuse it, and returns the error that all ranks get.
/// Collective over the group.
pub fn refuse(group: MpiGroup, change: Participants, reason: &str) -> DataError {
    let me = group.rank();
    let mut registry = Registry::new((me < change.old).then_some((me, change.old)));
    registry.state = State::Failed(reason.to_owned());
    match Move::begin(&mut registry, group, change) {
        Err(error) => error,
        Ok(_) => {
            DataError::InvalidState { reason: "the move has begun, though this rank refused it" }
        }
    }
}
