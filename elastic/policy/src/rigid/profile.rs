//! The number of free nodes over future time.

use crate::state::State;
use crate::time::{Span, Time};

/// The number of free nodes over future time, as steps. The last step lasts forever.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Profile {
    /// Instants in ascending order with the number of nodes free from then on.
    steps: Vec<(Time, u32)>,
}

impl Profile {
    /// Makes the profile of the running jobs, by their expected ends.
    #[must_use]
    pub fn of_running(state: &State) -> Profile {
        let mut steps = vec![(state.now(), state.idle())];
        for (end, _, nodes) in state.ends() {
            let end = end.max(state.now());
            let (last, free) = steps[steps.len() - 1];
            if last == end {
                let place = steps.len() - 1;
                steps[place].1 += nodes;
            } else {
                steps.push((end, free + nodes));
            }
        }
        Profile { steps }
    }

    /// Returns the steps.
    #[must_use]
    pub fn steps(&self) -> &[(Time, u32)] {
        &self.steps
    }

    /// Drops the time before `now`.
    pub fn advance(&mut self, now: Time) {
        let past = self.steps.partition_point(|step| step.0 <= now);
        self.steps.drain(..past.saturating_sub(1));
        self.steps[0].0 = now;
    }

    /// Returns the earliest instant from which `nodes` nodes are free for `length`. `None` if there
    /// is none.
    #[must_use]
    pub fn earliest(&self, nodes: u32, length: Span) -> Option<Time> {
        let mut from = None;
        for (place, &(at, free)) in self.steps.iter().enumerate() {
            if free < nodes {
                from = None;
                continue;
            }
            let begin = *from.get_or_insert(at);
            let until = self.steps.get(place + 1).map_or(Time::NEVER, |step| step.0);
            if begin + length <= until {
                return Some(begin);
            }
        }
        None
    }

    /// Takes nodes from `from` on for `length`.
    pub fn take(&mut self, nodes: u32, from: Time, length: Span) {
        self.change(from, length, |free| free.saturating_sub(nodes));
    }

    /// Gives nodes back from `from` on for `length`.
    pub fn give(&mut self, nodes: u32, from: Time, length: Span) {
        self.change(from, length, |free| free + nodes);
    }

    fn change(&mut self, from: Time, length: Span, change: impl Fn(u32) -> u32) {
        if length == Span::ZERO {
            return;
        }
        let first = self.split(from);
        let last = self.split(from + length);
        for step in &mut self.steps[first..last] {
            step.1 = change(step.1);
        }
        for place in [last, first] {
            if 0 < place && self.steps[place - 1].1 == self.steps[place].1 {
                self.steps.remove(place);
            }
        }
    }

    /// Makes a step at `at` and returns its index.
    fn split(&mut self, at: Time) -> usize {
        match self.steps.binary_search_by_key(&at, |step| step.0) {
            Ok(place) => place,
            Err(0) => 0,
            Err(place) => {
                let free = self.steps[place - 1].1;
                self.steps.insert(place, (at, free));
                place
            }
        }
    }
}
