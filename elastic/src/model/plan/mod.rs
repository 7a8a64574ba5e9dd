//! Scripted plans: which size the world is to have at which time, in a text written by people.
//!
//! ```text
//! # three hosts, one after the other
//! at iteration 10: grow 4 on n1,n2
//! at iteration 20: size 12 grace 30s
//! after 90s: move n1 to n3
//! after 2.5min: shrink 2 from n3 grace 500ms
//! at iteration 70: leave n2
//! ```
//!
//! Each line is one step; `#` begins a comment. `at` counts the iterations that the program
//! reports, `after` the time since the start of the job (`ms`, `s`, `min`, `h`). `size`, `grow` and
//! `shrink` take a number of ranks, and optionally `on` or `from` with hosts separated by commas.
//! `leave` names hosts that all ranks leave, `move` hosts from which the ranks move to others.
//! `grace` limits the duration of the resize.
//!
//! [`Plan`] is the parsed text, [`Player`] returns the steps that are due.

mod parse;
mod player;
mod print;
#[cfg(test)]
mod tests;

use std::time::Duration;

pub use parse::{PlanError, duration};
pub use player::Player;

use crate::model::change::Request;

/// Largest length of the text in bytes.
pub const LONGEST_TEXT: usize = 1 << 20;
/// Largest number of steps.
pub const MOST_STEPS: usize = 10_000;
/// Largest number of ranks in a step.
pub const MOST_RANKS: u32 = 1 << 20;
/// Largest number of hosts in a step.
pub const MOST_HOSTS: usize = 1024;
/// Longest time.
pub const LONGEST_TIME: Duration = Duration::from_secs(366 * 24 * 3600);

/// Time at which a step is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    /// When the program begins this iteration.
    Iteration(u64),
    /// When this time, in whole milliseconds, has passed since the start of the job.
    After(Duration),
}

/// One step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// Time at which the step is due.
    pub when: When,
    /// The request to make; its origin is `plan`.
    pub request: Request,
}

/// A plan: steps in the order of their lines.
///
/// ```
/// use elastic::plan::Plan;
/// let plan: Plan = "at 3: grow 2 on n1 # more\n\nafter 1500ms shrink 1".parse().unwrap();
/// assert_eq!(plan.steps().len(), 2);
/// assert_eq!(plan.to_string(), "at iteration 3: grow 2 on n1\nafter 1.5s: shrink 1\n");
/// let wrong = "at 3: grow two".parse::<Plan>().unwrap_err();
/// assert_eq!(wrong.to_string(), "plan, line 1, column 12: a number of ranks is expected, not \"two\"");
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    steps: Vec<Step>,
}

impl Plan {
    /// Steps of the plan, in the order of their lines.
    pub fn steps(&self) -> &[Step] {
        &self.steps
    }
}
