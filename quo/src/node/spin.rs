//! How long to poll before sleeping.
//!
//! A successful poll costs a fraction of a microsecond; a sleep costs a wake-up, some tens of
//! microseconds. So the polling budget is about the cost of a wake-up, doubles if polling was
//! enough and halves if it was not. A member that has just woken others polls longer once: the
//! woken members need the time of a wake-up to arrive at the next barrier, and sleeping meanwhile
//! would make every later round a sleep too.

use std::time::{Duration, Instant};

/// About the cost of waking a sleeper.
const MOST: Duration = Duration::from_micros(25);
/// Enough for a member that arrives at the same time.
const LEAST: Duration = Duration::from_micros(3);
/// Long enough for a member that is being woken to arrive.
const AFTER_A_WAKE: Duration = Duration::from_micros(100);
/// Number of polls between two readings of the clock.
const POLLS_PER_LOOK: u32 = 32;

/// Polling budget of one member.
#[derive(Debug)]
pub(crate) struct Spinner {
    budget: Duration,
    woke_others: bool,
}

impl Spinner {
    pub(crate) const fn new() -> Self {
        Self { budget: MOST, woke_others: false }
    }

    /// Records that this member has just woken others.
    pub(crate) fn woke_others(&mut self) {
        self.woke_others = true;
    }

    /// Polls `done`, at most until `deadline`; returns true if `done` was true.
    #[inline]
    pub(crate) fn poll(
        &mut self,
        deadline: Option<Instant>,
        mut done: impl FnMut() -> bool,
    ) -> bool {
        for _ in 0..POLLS_PER_LOOK {
            if done() {
                return self.learn(true);
            }
            std::hint::spin_loop();
        }
        let budget = if std::mem::take(&mut self.woke_others) { AFTER_A_WAKE } else { self.budget };
        let start = Instant::now();
        let end = deadline.map_or(start + budget, |deadline| deadline.min(start + budget));
        while Instant::now() < end {
            for _ in 0..POLLS_PER_LOOK {
                if done() {
                    return self.learn(true);
                }
                std::hint::spin_loop();
            }
        }
        self.learn(false)
    }

    #[inline]
    fn learn(&mut self, enough: bool) -> bool {
        if enough {
            self.budget = (self.budget * 2).min(MOST);
        } else {
            self.budget = (self.budget / 2).max(LEAST);
        }
        enough
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn poll_budget_shrinks_in_vain_and_grows_otherwise() {
        let mut spinner = Spinner::new();
        for _ in 0..10 {
            assert!(!spinner.poll(None, || false));
        }
        assert_eq!(spinner.budget, LEAST);
        for _ in 0..10 {
            assert!(spinner.poll(None, || true));
        }
        assert_eq!(spinner.budget, MOST);
    }

    #[test]
    fn a_deadline_in_the_past_ends_the_polling() {
        let mut spinner = Spinner::new();
        spinner.woke_others();
        let mut polls = 0;
        let past = Instant::now();
        assert!(!spinner.poll(Some(past), || {
            polls += 1;
            false
        }));
        assert_eq!(polls, POLLS_PER_LOOK);
    }
}
