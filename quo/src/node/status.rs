//! Statuses of the slots, by which members are counted.

use std::sync::atomic::{AtomicU64, Ordering};

use super::layout::Slot;

/// Stage of a slot in the life of a member.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
#[repr(u32)]
pub(super) enum Status {
    /// Unused.
    Free = 0,
    /// Counted since the segment was created; its process has not attached yet.
    Awaited = 1,
    /// A process holds the slot's lock.
    Present = 2,
    /// The member left in order.
    Left = 3,
    /// Found dead; still counted, so that no barrier completes before the other members know.
    Dead = 4,
    /// Dead, and no longer counted.
    Expelled = 5,
}

impl Status {
    pub(super) const fn is_counted(self) -> bool {
        matches!(self, Self::Awaited | Self::Present | Self::Dead)
    }
}

impl Slot {
    pub(super) fn status(&self) -> Option<Status> {
        use Status::{Awaited, Dead, Expelled, Free, Left, Present};
        let value = self.status.load(Ordering::Acquire);
        [Free, Awaited, Present, Left, Dead, Expelled].into_iter().find(|&s| s as u32 == value)
    }

    /// Changes the status from `from` to `to`; returns false if it was not `from`.
    pub(super) fn change(&self, from: Status, to: Status) -> bool {
        let (success, failure) = (Ordering::AcqRel, Ordering::Acquire);
        self.status.compare_exchange(from as u32, to as u32, success, failure).is_ok()
    }
}

/// Returns true if a set of members in shared memory, one bit each, contains a member.
pub(super) fn contains(set: &[AtomicU64], member: usize) -> bool {
    set.get(member / 64).is_some_and(|word| word.load(Ordering::Acquire) >> (member % 64) & 1 == 1)
}
