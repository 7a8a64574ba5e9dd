//! Limits on how often a graph is reported.

use crate::graph::Step;

/// Reason for a report.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Notice {
    /// Loops have changed.
    Graph,
    /// Times have changed.
    Times,
}

/// Allows at most one notice per period: for a change of loops at once or when the period is over,
/// for times when a loop begins an iteration after it.
#[derive(Debug)]
pub struct Notices {
    period: u64,
    /// Time of the next possible report.
    next: u64,
    has_changed: bool,
}

impl Notices {
    /// Creates notices that are at least a period apart.
    #[must_use]
    pub const fn every(period: u64) -> Notices {
        Notices { period, next: 0, has_changed: false }
    }

    /// Sets the period, counted from the last notice.
    pub fn set_period(&mut self, period: u64) {
        self.next = self.next.saturating_sub(self.period).saturating_add(period);
        self.period = period;
    }

    /// Handles the step of a call that ended now. Returns the notice that is due.
    #[inline]
    pub fn after(&mut self, step: &Step, now: u64) -> Option<Notice> {
        self.has_changed |= step.event.is_some();
        if now < self.next || !(self.has_changed || step.is_turn) {
            return None;
        }
        self.next = now.saturating_add(self.period);
        let has_changed = core::mem::take(&mut self.has_changed);
        Some(if has_changed { Notice::Graph } else { Notice::Times })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::Event;

    fn step(event: Option<Event>, is_turn: bool) -> Step {
        Step { site: 0, event, is_turn }
    }

    #[test]
    fn notices_are_one_a_period_and_changes_go_first() {
        let mut notices = Notices::every(100);
        assert_eq!(notices.after(&step(None, false), 5), None);
        assert_eq!(notices.after(&step(Some(Event::Detected(0)), false), 10), Some(Notice::Graph));
        assert_eq!(notices.after(&step(Some(Event::Exit(0, 1)), false), 20), None);
        assert_eq!(notices.after(&step(None, true), 109), None);
        assert_eq!(notices.after(&step(None, false), 110), Some(Notice::Graph));
        assert_eq!(notices.after(&step(None, false), 300), None);
        assert_eq!(notices.after(&step(None, true), 310), Some(Notice::Times));
        assert_eq!(notices.after(&step(None, true), 320), None);
    }

    #[test]
    fn shorter_period_counts_from_the_last_notice() {
        let mut notices = Notices::every(100);
        assert_eq!(notices.after(&step(None, true), 10), Some(Notice::Times));
        notices.set_period(20);
        assert_eq!(notices.after(&step(None, true), 29), None);
        assert_eq!(notices.after(&step(None, true), 30), Some(Notice::Times));
    }
}
