//! CPUs that members lend while they wait. README.md in this folder describes the protocol.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::protocol::lending::Taken;

use super::fork::ForkId;
use super::segment::Segment;
use super::{Home, Node, NodeError};
use crate::CpuSet;

/// Loans of a member, given back on drop at the latest.
#[derive(Debug)]
pub(crate) struct Loans {
    home: Arc<Home>,
    taken: Vec<(usize, Taken)>,
}

impl Loans {
    /// Returns true if an owner has returned. One load per owner.
    #[inline]
    pub(crate) fn are_wanted(&self) -> bool {
        let slots = &self.home.segment.slots;
        self.taken.iter().any(|&(owner, taken)| slots[owner].lending.is_wanted(taken))
    }

    /// Returns true if there is a loan from this member.
    pub(crate) fn are_from(&self, member: usize) -> bool {
        self.taken.iter().any(|&(owner, _)| owner == member)
    }

    /// Gives back the loans of all owners for which `keep` is false.
    pub(crate) fn retain(&mut self, keep: impl Fn(usize) -> bool) {
        let (kept, other) = self.taken.iter().partition(|&&(owner, _)| keep(owner));
        self.taken = other;
        self.give_back();
        self.taken = kept;
    }

    /// Gives everything back. Does nothing the second time, and nothing in a forked child, because
    /// its parent has the loans.
    pub(crate) fn give_back(&self) {
        if self.home.process == ForkId::current() {
            for &(owner, taken) in &self.taken {
                self.home.segment.slots[owner].lending.give_back(taken);
            }
        }
    }
}

impl Drop for Loans {
    fn drop(&mut self) {
        self.give_back();
    }
}

impl Node {
    /// Lends this member's CPUs until [`stop_lending`](Self::stop_lending). Returns false if it lends
    /// already. Local, and never waits.
    ///
    /// # Errors
    /// [`NodeError::Left`]; [`NodeError::Forked`].
    #[inline]
    pub(crate) fn start_lending(&self) -> Result<bool, NodeError> {
        let home = &*self.home;
        home.check()?;
        // One thread of this process at a time may write to the member's word.
        if home.lending.swap(true, Ordering::Acquire) {
            return Ok(false);
        }
        home.segment.slots[home.member].lending.lend();
        Ok(true)
    }

    /// Takes this member's CPUs back. Returns false if it lends nothing. Local, and never waits.
    #[inline]
    pub(crate) fn stop_lending(&self) -> bool {
        let home = &*self.home;
        if !home.lending.load(Ordering::Acquire) {
            return false;
        }
        // Leaving the node has taken the CPUs back, and another process may own the word by now.
        if home.check().is_ok() {
            home.segment.slots[home.member].lending.reclaim();
        }
        home.lending.store(false, Ordering::Release);
        true
    }

    /// Returns true if a member lends, or lent when it died. Local.
    pub(crate) fn lends(&self, member: usize) -> bool {
        self.home.segment.slots.get(member).is_some_and(|slot| slot.lending.is_lent())
    }

    /// Returns the number of other members that lend. Local.
    pub(crate) fn lenders(&self) -> usize {
        let slots = self.home.segment.slots.iter().enumerate();
        slots.filter(|(member, slot)| *member != self.home.member && slot.lending.is_lent()).count()
    }

    /// Borrows from all members that lend and have no other borrower. Local, and never waits.
    ///
    /// # Errors
    /// [`NodeError::Left`]; [`NodeError::Forked`].
    pub(crate) fn borrow(&self) -> Result<Loans, NodeError> {
        let home = &self.home;
        home.check()?;
        let slots = home.segment.slots.iter().enumerate();
        let taken = slots.filter(|&(owner, _)| owner != home.member).filter_map(|(owner, slot)| {
            let taken = slot.lending.take(home.member, |other| !self.is_alive(other))?;
            Some((owner, taken))
        });
        Ok(Loans { taken: taken.collect(), home: Arc::clone(home) })
    }
}

/// Ends the offer and the loans of an earlier process under this member number.
pub(super) fn begin(segment: &Segment, member: usize) {
    segment.slots[member].lending.reclaim();
    segment.slots.iter().for_each(|slot| slot.lending.end_loan_of(member));
}

/// Returns the CPUs that a borrower gets: the CPUs of its owners to which no other member is bound.
/// `masks` has the CPUs of each member that may run, by member number; `None` for unused numbers.
/// Pure.
pub(crate) fn borrowed_cpus(
    borrower: usize,
    is_owner: impl Fn(usize) -> bool,
    masks: &[Option<CpuSet>],
) -> CpuSet {
    let all = |wanted: &dyn Fn(usize) -> bool| {
        let masks = masks.iter().enumerate().filter(|&(member, _)| wanted(member));
        masks.filter_map(|(_, mask)| mask.as_ref()).fold(CpuSet::new(), |all, mask| all.union(mask))
    };
    let lent = all(&|member| is_owner(member));
    let in_use = all(&|member| member != borrower && !is_owner(member));
    let own = masks.get(borrower).and_then(Option::as_ref).cloned().unwrap_or_default();
    lent.difference(&in_use).difference(&own)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn borrowed(owners: &[usize], masks: &[&str]) -> String {
        let masks: Vec<Option<CpuSet>> = masks.iter().map(|mask| mask.parse().ok()).collect();
        borrowed_cpus(0, |member| owners.contains(&member), &masks).to_string()
    }

    #[test]
    fn cpus_of_owners_alone_are_borrowed() {
        assert_eq!(borrowed(&[1, 2], &["0", "1", "2", "3"]), "1-2");
        assert_eq!(borrowed(&[], &["0", "1"]), "");
        assert_eq!(borrowed(&[1], &["0-1", "1-2"]), "2", "without the borrower's own");
    }

    #[test]
    fn cpus_of_members_at_work_are_not_borrowed() {
        assert_eq!(borrowed(&[1], &["0", "1-2", "2-3"]), "1");
        assert_eq!(borrowed(&[1, 2], &["0", "1-2", "2-3"]), "1-3");
        assert_eq!(borrowed(&[1], &["0", "1", "0-7"]), "", "an unbound member may run anywhere");
        assert_eq!(borrowed(&[1], &["0", "1", "no rank"]), "1");
    }
}
