//! The steps of a plan that are due.

use std::time::Duration;

use super::{Plan, When};
use crate::model::change::Request;

/// Goes through a plan and returns each step once.
///
/// ```
/// use std::time::Duration;
/// use elastic::plan::Player;
/// let mut player = Player::new("at 5: grow 1\nafter 2s: shrink 1".parse().unwrap());
/// assert!(player.due(4, Duration::ZERO).is_empty());
/// assert_eq!(player.due(7, Duration::ZERO).len(), 1); // a step that was passed by is due, too
/// assert_eq!(player.due(8, Duration::from_secs(3)).len(), 1);
/// assert!(player.is_done());
/// ```
#[derive(Clone, Debug)]
pub struct Player {
    waiting: Vec<super::Step>,
}

impl Player {
    /// Starts before the first step.
    pub fn new(plan: Plan) -> Player {
        Player { waiting: plan.steps }
    }

    /// Returns the requests that are due, in the order of the lines, when the program begins this
    /// iteration, this long after the start of the job. Each is returned once.
    pub fn due(&mut self, iteration: u64, since_start: Duration) -> Vec<Request> {
        let is_due = |step: &super::Step| match step.when {
            When::Iteration(number) => number <= iteration,
            When::After(time) => time <= since_start,
        };
        if !self.waiting.iter().any(is_due) {
            return Vec::new();
        }
        let (due, waiting) = std::mem::take(&mut self.waiting).into_iter().partition(is_due);
        self.waiting = waiting;
        due.into_iter().map(|step: super::Step| step.request).collect()
    }

    /// Returns the lowest iteration and the earliest time at which a step is due.
    pub fn next(&self) -> (Option<u64>, Option<Duration>) {
        let iterations = self.waiting.iter().filter_map(|step| match step.when {
            When::Iteration(number) => Some(number),
            When::After(_) => None,
        });
        let times = self.waiting.iter().filter_map(|step| match step.when {
            When::After(time) => Some(time),
            When::Iteration(_) => None,
        });
        (iterations.min(), times.min())
    }

    /// Returns the steps that have not been due, in the order of the lines.
    pub fn waiting(&self) -> &[super::Step] {
        &self.waiting
    }

    /// Returns true if every step has been returned.
    pub fn is_done(&self) -> bool {
        self.waiting.is_empty()
    }
}
