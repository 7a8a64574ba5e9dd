//! The two words by which a member lends its CPUs, free of system calls.
//!
//! `../lending/README.md` describes the protocol. The owner only stores to its own word and never
//! reads what borrowers wrote, so that lending and taking back cost two stores. Borrowers exclude
//! each other by a compare-and-swap on the other word. Generic over the atomic type, so that the
//! model checker runs the same code as the processes.

use std::sync::atomic::Ordering;

use crate::atomic_word::AtomicWord;

/// Low bits of the loan word: the borrower's number plus one, or zero for no borrower.
const BORROWER_BITS: u32 = 12;
const BORROWER: u64 = (1 << BORROWER_BITS) - 1;

/// Words of one owner.
#[repr(C)]
#[derive(Debug)]
pub(crate) struct State<A> {
    /// Count of offers and their ends: odd while the owner lends. Written by the owner only.
    offer: A,
    /// The borrower, and above it a count of changes that makes each value unique. Written by
    /// borrowers only.
    loan: A,
}

/// One loan, as its borrower remembers it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Taken {
    offer: u64,
    loan: u64,
}

const fn borrower(loan: u64) -> Option<usize> {
    match loan & BORROWER {
        0 => None,
        number => Some(number as usize - 1),
    }
}

/// Returns the value after `loan`, for another borrower or none.
const fn next(loan: u64, borrower: Option<usize>) -> u64 {
    let number = match borrower {
        Some(member) => member as u64 + 1,
        None => 0,
    };
    (loan >> BORROWER_BITS).wrapping_add(1) << BORROWER_BITS | number & BORROWER
}

const fn is_open(offer: u64) -> bool {
    offer & 1 == 1
}

impl<A: AtomicWord> State<A> {
    /// Returns the state of an owner that lends nothing.
    #[cfg(loom)]
    pub(crate) fn new(offer: A, loan: A) -> Self {
        Self { offer, loan }
    }

    /// Lends, by one store. Called only by the owner, one thread at a time.
    #[inline]
    pub(crate) fn lend(&self) {
        let offer = self.offer.load(Ordering::Relaxed);
        self.offer.store(offer | 1, Ordering::Release);
    }

    /// Takes back, by one store. Called only by the owner, one thread at a time; does nothing if
    /// the owner lends nothing.
    #[inline]
    pub(crate) fn reclaim(&self) {
        let offer = self.offer.load(Ordering::Relaxed);
        self.offer.store(offer.wrapping_add(offer & 1), Ordering::Release);
    }

    /// Returns true if the owner lends now, whether or not a member has borrowed.
    #[inline]
    pub(crate) fn is_lent(&self) -> bool {
        is_open(self.offer.load(Ordering::Acquire))
    }

    /// Borrows for `member`, unless the owner lends nothing or another borrower has not given back.
    /// The loan of a borrower that `is_gone` counts as given back.
    pub(crate) fn take(&self, member: usize, is_gone: impl Fn(usize) -> bool) -> Option<Taken> {
        let offer = self.offer.load(Ordering::Acquire);
        if !is_open(offer) {
            return None;
        }
        let seen = self.loan.load(Ordering::Acquire);
        if borrower(seen).is_some_and(|other| other == member || !is_gone(other)) {
            return None;
        }
        let loan = next(seen, Some(member));
        self.loan.exchange(seen, loan).ok()?;
        let taken = Taken { offer, loan };
        if self.is_wanted(taken) {
            // The owner has taken back in between.
            self.give_back(taken);
            return None;
        }
        Some(taken)
    }

    /// Returns true if the owner has taken back since the loan was made, even if it lends again.
    #[inline]
    pub(crate) fn is_wanted(&self, taken: Taken) -> bool {
        self.offer.load(Ordering::Acquire) != taken.offer
    }

    /// Ends a loan. Does nothing if the loan is no longer the borrower's, which is possible after
    /// the member left the node.
    pub(crate) fn give_back(&self, taken: Taken) {
        let _ = self.loan.exchange(taken.loan, next(taken.loan, None));
    }

    /// Ends a loan that an earlier process had under this member number.
    pub(crate) fn end_loan_of(&self, member: usize) {
        let loan = self.loan.load(Ordering::Acquire);
        if borrower(loan) == Some(member) {
            // May fail against a borrower that found the earlier process gone; the loan has ended
            // either way.
            let _ = self.loan.exchange(loan, next(loan, None));
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicU64;

    fn owner() -> State<AtomicU64> {
        State { offer: AtomicU64::new(0), loan: AtomicU64::new(0) }
    }

    const ALIVE: fn(usize) -> bool = |_| false;
    const GONE: fn(usize) -> bool = |_| true;

    #[test]
    fn offer_is_borrowed_by_one_until_given_back() {
        let owner = owner();
        assert_eq!(owner.take(1, ALIVE), None, "nothing is lent");
        owner.lend();
        let taken = owner.take(1, ALIVE).unwrap();
        assert_eq!(owner.take(2, ALIVE), None);
        assert_eq!(owner.take(1, ALIVE), None, "not twice by one member");
        assert!(!owner.is_wanted(taken));
        owner.give_back(taken);
        assert!(owner.take(2, ALIVE).is_some());
    }

    #[test]
    fn early_return_of_the_owner_is_seen_after_another_offer() {
        let owner = owner();
        owner.lend();
        let taken = owner.take(1, ALIVE).unwrap();
        owner.reclaim();
        owner.lend();
        assert!(owner.is_wanted(taken));
        assert_eq!(owner.take(2, ALIVE), None, "the first borrower may still be at work");
        owner.give_back(taken);
        assert!(owner.take(2, ALIVE).is_some());
    }

    #[test]
    fn repeated_lend_and_reclaim_change_nothing() {
        let owner = owner();
        owner.reclaim();
        assert!(!owner.is_lent());
        owner.lend();
        let taken = owner.take(1, ALIVE).unwrap();
        owner.lend();
        assert!(!owner.is_wanted(taken) && owner.is_lent());
    }

    #[test]
    fn loan_of_a_dead_borrower_is_taken_over() {
        let owner = owner();
        owner.lend();
        let dead = owner.take(4_094, ALIVE).unwrap();
        let taken = owner.take(0, GONE).unwrap();
        // The process is dead, but a forked copy of its memory may still use the loan.
        owner.give_back(dead);
        assert_eq!(owner.take(2, ALIVE), None);
        owner.give_back(taken);
        assert!(owner.take(2, ALIVE).is_some());
    }

    #[test]
    fn loan_ends_when_its_number_is_given_anew() {
        let owner = owner();
        owner.lend();
        owner.take(3, ALIVE).unwrap();
        owner.end_loan_of(2);
        assert_eq!(owner.take(5, ALIVE), None);
        owner.end_loan_of(3);
        assert!(owner.take(3, ALIVE).is_some());
    }
}
