//! Yes-or-no decisions, made by whichever member asks first, without waiting.
//!
//! Between two passes of the node's barrier all members are at the same turn, so the turn
//! identifies the question. The first member to ask determines its answer and writes it by one
//! compare-and-swap; the others read it. A member that finds the answer to a later question was
//! overtaken: the barrier it is about to arrive at has failed already, and its actions until then
//! do not matter.

use std::sync::atomic::{AtomicU64, Ordering};

use super::exchange::stamp;
use super::{Node, NodeError};

/// Meaning of the word for a member at a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Answer {
    /// Undecided.
    Open,
    Decided(bool),
    /// Other members are at a later turn.
    Overtaken,
}

/// Returns the word of a decision at the turn with this stamp. Stamps wrap after 2^63.
fn word(stamp: u64, yes: bool) -> u64 {
    stamp << 1 | u64::from(yes)
}

/// Interprets a word for a member at the turn with this stamp. Pure.
fn answer(word: u64, stamp: u64) -> Answer {
    match ((word >> 1).wrapping_sub(stamp) << 1).cast_signed() {
        0 => Answer::Decided(word & 1 == 1),
        1.. => Answer::Overtaken,
        _ => Answer::Open,
    }
}

fn decide(place: &AtomicU64, stamp: u64, look: impl FnOnce() -> bool) -> bool {
    let mut look = Some(look);
    let mut own = false;
    let mut seen = place.load(Ordering::Acquire);
    loop {
        match answer(seen, stamp) {
            Answer::Decided(yes) => return yes,
            Answer::Overtaken => return false,
            Answer::Open => {}
        }
        if let Some(look) = look.take() {
            own = look();
        }
        let next = word(stamp, own);
        match place.compare_exchange(seen, next, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => return own,
            Err(now) => seen = now,
        }
    }
}

impl Node {
    /// Returns the answer of the first member that asks since the last collective call, the same on
    /// all members. The member that finds no answer computes it with `look`. Local; all members
    /// call it between the same two collective calls.
    ///
    /// # Errors
    /// [`NodeError::Left`]; [`NodeError::Forked`].
    pub(crate) fn decide(&self, look: impl FnOnce() -> bool) -> Result<bool, NodeError> {
        self.home.check()?;
        let stamp = stamp(&self.home.position());
        Ok(decide(&self.home.segment.decision[0].word, stamp, look))
    }

    /// Counts a request to answer yes at the next decision. Local.
    pub(crate) fn request(&self) {
        self.home.segment.decision[0].requests.fetch_add(1, Ordering::AcqRel);
    }

    /// Returns the number of requests so far. Local.
    pub(crate) fn requests(&self) -> u64 {
        self.home.segment.decision[0].requests.load(Ordering::Acquire)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn first_answer_of_a_turn_is_everyones() {
        let place = AtomicU64::new(0);
        assert!(decide(&place, 1, || true));
        assert!(decide(&place, 1, || unreachable!("it was decided")));
        assert!(!decide(&place, 2, || false));
        assert!(!decide(&place, 2, || unreachable!("it was decided")));
    }

    #[test]
    fn overtaken_member_says_no_and_changes_nothing() {
        let place = AtomicU64::new(word(9, true));
        assert!(!decide(&place, 8, || unreachable!("others went on")));
        assert_eq!(place.into_inner(), word(9, true));
    }

    #[test]
    fn stamps_that_wrap_round_are_later() {
        let last = u64::MAX >> 1;
        assert_eq!(answer(word(last, true), last.wrapping_add(1)), Answer::Open);
        assert_eq!(answer(word(0, true), last), Answer::Overtaken);
        assert_eq!(answer(word(last, true), last), Answer::Decided(true));
    }

    /// A member on its way through turns, with one access to the word at a time, like `decide`.
    #[derive(Clone, Debug, Default)]
    struct Member {
        turn: u64,
        seen: Option<u64>,
        decisions: Vec<Option<bool>>,
    }

    impl Member {
        fn step(&mut self, place: &mut u64, look: bool) {
            let stamp = self.turn + 1;
            let found = match self.seen.take() {
                None => *place,
                Some(seen) if seen == *place => {
                    *place = word(stamp, look);
                    *place
                }
                Some(_) => *place,
            };
            match answer(found, stamp) {
                Answer::Open => self.seen = Some(found),
                Answer::Decided(yes) => self.end(Some(yes)),
                Answer::Overtaken => self.end(None),
            }
        }

        fn end(&mut self, decision: Option<bool>) {
            self.decisions.push(decision);
            self.turn += 1;
        }
    }

    proptest! {
        /// In any order of accesses, whatever members see, and even if failed barriers let some
        /// members go ahead, no two members decide differently at the same turn.
        #[test]
        fn members_never_differ_at_a_turn(
            steps in proptest::collection::vec((0..4_usize, any::<bool>()), 1..200),
            ahead in 0..3_u64,
        ) {
            let mut members = vec![Member::default(); 4];
            let mut place = 0;
            for (index, look) in steps {
                // With `ahead` of zero no member continues before all have decided, as barriers
                // ensure.
                let last = members.iter().map(|member| member.turn).min().unwrap_or(0);
                if members[index].turn <= last + ahead {
                    members[index].step(&mut place, look);
                }
            }
            for turn in 0..members.iter().map(|member| member.decisions.len()).max().unwrap_or(0) {
                let mut said = members.iter().filter_map(|member| *member.decisions.get(turn)?);
                let first = said.next();
                prop_assert!(said.all(|other| Some(other) == first));
                let overtaken = members.iter().any(|it| it.decisions.get(turn) == Some(&None));
                prop_assert!(ahead > 0 || !overtaken);
            }
        }
    }
}
