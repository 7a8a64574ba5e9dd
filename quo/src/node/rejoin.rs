//! Coming back after leaving, going for good, and going without a word.

use std::sync::atomic::Ordering;

use super::barrier::{self, Place};
use super::layout::JOINING;
use super::roster::Status;
use super::{Node, NodeError, guard, masks};

impl Node {
    /// Comes back after [`leave`](Self::leave): the others' barriers wait for this member again,
    /// from the current one on. Local. Tells whether anything changed: a member that never left
    /// stays one. Named barriers have to be made again.
    ///
    /// # Errors
    /// [`NodeError::Forked`]; [`NodeError::MemberTaken`] when another process has come in its
    /// place; [`NodeError::NotSupported`] for a pthread barrier.
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

    /// Leaves for good, whatever the kind of barrier: one that counts a fixed number of members is
    /// not going to be used any more. Local.
    pub(crate) fn retire(&self) -> Result<(), NodeError> {
        match self.home.leave() {
            Err(NodeError::Left) => Ok(()),
            result => result,
        }
    }

    /// Stops being a member without leaving in order: the others find this member dead, as they
    /// should when it failed half-way and they may not have. Local.
    pub(crate) fn abandon(self) {
        if self.home.check().is_ok() {
            self.home.left.store(true, Ordering::Relaxed);
            let _ = self.home.segment.file.unlock(self.home.member as u64);
        }
    }
}
