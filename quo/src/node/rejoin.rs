//! Rejoining, leaving for good, and abandoning a membership without leaving.

use std::sync::atomic::Ordering;

use super::barrier::{self, Place};
use super::layout::JOINING;
use super::status::Status;
use super::{Node, NodeError, guard, masks};

impl Node {
    /// Rejoins after [`leave`](Self::leave): from the current barrier on, the other members wait
    /// for this member again. Local. Returns false, without any change, for a member that never
    /// left. Named barriers have to be created again.
    ///
    /// # Errors
    /// [`NodeError::Forked`]; [`NodeError::MemberTaken`] if another process has taken this member's
    /// slot; [`NodeError::NotSupported`] for a pthread barrier.
    pub fn rejoin(&self) -> Result<bool, NodeError> {
        let home = &*self.home;
        home.supports("coming back")?;
        match home.check() {
            Err(NodeError::Left) => {}
            Ok(()) => return Ok(false),
            Err(error) => return Err(error),
        }
        let mut place = guard(&home.place);
        let (segment, member) = (&home.segment, home.member);
        let name = || segment.name.to_string();
        let locked = segment.file.lock(member as u64);
        if !locked.map_err(|error| NodeError::system("fcntl", name(), error))? {
            return Err(NodeError::MemberTaken { member });
        }
        masks::publish(&segment.masks[member], None)?;
        let slot = &segment.slots[member];
        slot.joined.store(JOINING, Ordering::Release);
        if !slot.change(Status::Left, Status::Present) {
            let _ = segment.file.unlock(member as u64);
            return Err(NodeError::MemberTaken { member });
        }
        let cell = &segment.barrier[0];
        barrier::reconcile(cell, &home.everyone(), true);
        *place = Place::joining(cell);
        slot.joined.store(place.cursor.completed, Ordering::Release);
        home.left.store(false, Ordering::Relaxed);
        Ok(true)
    }

    /// Leaves for good, whatever the kind of barrier: a barrier that counts a fixed number of
    /// members is not used again. Local.
    pub(crate) fn retire(&self) -> Result<(), NodeError> {
        match self.home.leave() {
            Err(NodeError::Left) => Ok(()),
            result => result,
        }
    }

    /// Gives up the membership without leaving in order: the other members find this member dead,
    /// as they should if it failed half-way and they may not have failed. Local.
    pub(crate) fn abandon(self) {
        if self.home.check().is_ok() {
            self.home.left.store(true, Ordering::Relaxed);
            let _ = self.home.segment.file.unlock(self.home.member as u64);
        }
    }
}
