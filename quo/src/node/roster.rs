//! The members of a barrier, and the liveness checks behind their statuses.

use std::cell::Cell;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use super::layout::{Rounds, Slot};
use super::protocol::barrier::{FAILURES, Roster};
use super::segment::{ChannelParts, Segment};
use super::status::{Status, contains};

/// Records that a member is expelled after `failures` generations of a barrier have failed.
pub(super) fn record_expulsion(expelled_at: &[AtomicU32], member: usize, failures: u64) {
    if let Some(at) = expelled_at.get(member) {
        at.store((failures as u32).wrapping_add(1), Ordering::Release);
    }
}

/// Returns true if an entry was recorded after the generation that failed with this number. Numbers
/// are assumed to be close to each other: they wrap at 2^28.
fn is_later(at: u32, failure: u64) -> bool {
    let ahead = u64::from(at).wrapping_sub(2).wrapping_sub(failure) & (FAILURES - 1);
    at != 0 && ahead < FAILURES / 2
}

/// Returns true if an entry was recorded while the generation that failed with this number was
/// open, or one that completed after the failure before it.
fn is_in(at: u32, failure: u64) -> bool {
    at != 0 && u64::from(at).wrapping_sub(1).wrapping_sub(failure) & (FAILURES - 1) == 0
}

/// Members that one barrier counts, as one waiter sees them.
pub(super) struct Members<'a> {
    segment: &'a Segment,
    /// Restricts the members to this set; `None` for all members of the node.
    subset: Option<&'a [AtomicU64]>,
    expelled_at: &'a [AtomicU32],
    rounds: &'a Rounds,
    /// Number of inspections at the time this waiter went to sleep.
    seen: Cell<Option<u32>>,
}

impl<'a> Members<'a> {
    /// All members of the node.
    pub(super) fn everyone(segment: &'a Segment) -> Self {
        Self::new(segment, None, &segment.expelled_at, &segment.barrier[0].rounds)
    }

    /// Members of a named barrier.
    pub(super) fn some(segment: &'a Segment, parts: &'a ChannelParts) -> Self {
        Self::new(segment, Some(&parts.members), &parts.expelled_at, &parts.cell[0].barrier.rounds)
    }

    fn new(
        segment: &'a Segment,
        subset: Option<&'a [AtomicU64]>,
        expelled_at: &'a [AtomicU32],
        rounds: &'a Rounds,
    ) -> Self {
        Self { segment, subset, expelled_at, rounds, seen: Cell::new(None) }
    }

    /// Returns the numbers of the members in the wanted statuses, in ascending order.
    pub(super) fn in_status(&self, wanted: impl Fn(Status) -> bool) -> impl Iterator<Item = usize> {
        self.segment.slots.iter().enumerate().filter_map(move |(member, slot)| {
            let belongs = self.subset.is_none_or(|subset| contains(subset, member));
            (belongs && slot.status().is_some_and(&wanted)).then_some(member)
        })
    }

    /// Returns the counted members, in ascending order.
    pub(super) fn counted(&self) -> impl Iterator<Item = usize> {
        self.in_status(Status::is_counted)
    }

    /// Returns the members to name if the generation that failed with this number was broken by a
    /// death: the members dead now, and the members dead then and expelled since.
    pub(super) fn dead_since(&self, failure: u64) -> Vec<usize> {
        let named = |member: usize, slot: &Slot| match slot.status() {
            Some(Status::Dead) if self.subset.is_none_or(|subset| contains(subset, member)) => true,
            // No longer in the subset, but its entry shows whether it was: expelling a member
            // removes it from the lists first and changes its status last.
            Some(Status::Dead | Status::Expelled) => self
                .expelled_at
                .get(member)
                .is_some_and(|at| is_later(at.load(Ordering::Acquire), failure)),
            _ => false,
        };
        let slots = || self.segment.slots.iter().enumerate();
        let all = |wanted: &dyn Fn(usize, &Slot) -> bool| -> Vec<usize> {
            slots()
                .filter(|&(member, slot)| wanted(member, slot))
                .map(|(member, _)| member)
                .collect()
        };
        let dead = all(&named);
        if !dead.is_empty() {
            return dead;
        }
        // The member that ended the generation saw a dead member, and before it ended the
        // generation another member expelled the dead one: from this same generation.
        all(&|member, slot| {
            slot.status() == Some(Status::Expelled)
                && self
                    .expelled_at
                    .get(member)
                    .is_some_and(|at| is_in(at.load(Ordering::Acquire), failure))
        })
    }

    fn test_everyone(&self) {
        for member in self.in_status(|status| status == Status::Present) {
            self.segment.note_if_dead(member);
        }
    }
}

impl Roster for Members<'_> {
    fn expected(&self) -> u64 {
        self.counted().count() as u64
    }

    fn has_dead(&self) -> bool {
        if self.seen.get().is_none() {
            self.seen.set(Some(self.rounds.inspections.load(Ordering::Relaxed)));
        }
        self.segment.has_deaths()
            && self.in_status(|status| status == Status::Dead).next().is_some()
    }

    fn inspect(&self, urgent: bool) -> bool {
        let last = self.rounds.inspections.load(Ordering::Relaxed);
        // Another waiter inspected while this one slept: sufficient until the next time.
        let mine = self.seen.get().is_none_or(|seen| seen == last)
            && self
                .rounds
                .inspections
                .compare_exchange(last, last.wrapping_add(1), Ordering::Relaxed, Ordering::Relaxed)
                .is_ok();
        self.seen.set(Some(self.rounds.inspections.load(Ordering::Relaxed)));
        if mine || urgent {
            self.test_everyone();
        }
        self.has_dead()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_grave_tells_which_failures_it_is_later_than() {
        let expelled_at = [AtomicU32::new(0)];
        assert!(!is_later(0, 0) && !is_later(0, FAILURES - 1), "nobody was buried");
        record_expulsion(&expelled_at, 0, 3);
        let at = expelled_at[0].load(Ordering::Relaxed);
        assert!(is_later(at, 0) && is_later(at, 2));
        assert!(!is_later(at, 3) && !is_later(at, 4));
        record_expulsion(&expelled_at, 0, 1);
        assert!(is_later(expelled_at[0].load(Ordering::Relaxed), FAILURES - 1), "before the wrap");
    }
}
