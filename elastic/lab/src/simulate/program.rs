//! The progress of an iterating program.

use crate::workload::Program;
use elastic_policy::job::Class;
use elastic_policy::time::{Span, Time};

/// The next event of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// The program reaches a resize point.
    ResizePoint(Time),
    /// The program ends.
    End(Time),
}

/// A running iterative program.
#[derive(Clone, Debug)]
pub(super) struct Running {
    /// Sizes and iteration times so far, the present one last.
    visited: Vec<(u32, f64)>,
    /// The iterations remaining at `since`.
    left: f64,
    /// The instant up to which progress is counted; later than now while a change of size is under
    /// way.
    since: Time,
    /// The iterations of the present interval between resize points.
    interval: u32,
    /// The number of changes of size; events planned before the last change are void.
    pub(super) version: u32,
}

impl Running {
    pub(super) fn start(program: &Program, nodes: u32, now: Time) -> Running {
        let seconds = program.model.seconds(&[], nodes);
        let left = f64::from(program.iterations);
        Running { visited: vec![(nodes, seconds)], left, since: now, interval: 0, version: 0 }
    }

    /// Returns the time of an iteration on the present size.
    pub(super) fn seconds(&self) -> f64 {
        self.visited.last().map_or(0.0, |present| present.1)
    }

    /// Returns the time of an iteration in whole milliseconds.
    pub(super) fn iteration(&self) -> Span {
        Span::from_seconds(self.seconds())
    }

    /// Returns the number of remaining iterations as a whole number.
    pub(super) fn whole_left(&self) -> u32 {
        self.left.round() as u32
    }

    /// Plans the next event from `since` on.
    pub(super) fn next(&mut self, program: &Program, class: Class) -> Next {
        self.interval = program.resize_every.max(1);
        let is_last = self.left <= f64::from(self.interval);
        let iterations = match class {
            Class::Resizable if !is_last => f64::from(self.interval),
            _ => self.left,
        };
        let at = self.since + Span::from_seconds(iterations * self.seconds());
        match class {
            Class::Resizable if !is_last => Next::ResizePoint(at),
            _ => Next::End(at),
        }
    }

    /// Counts the iterations up to a resize point.
    pub(super) fn reach_resize_point(&mut self, now: Time) {
        self.left = (self.left - f64::from(self.interval)).max(0.0);
        self.since = now;
    }

    /// Counts the iterations up to now, for a program that may change its size at any time.
    pub(super) fn advance(&mut self, now: Time) {
        // While a change of size is under way, the program computes nothing.
        if now > self.since && self.seconds() > 0.0 {
            let done = now.since(self.since).as_seconds() / self.seconds();
            self.left = (self.left - done).max(0.0);
            self.since = now;
        }
    }

    /// Continues on another size after `cost`. Returns the ratio of the iteration times after and
    /// before.
    pub(super) fn resize(&mut self, program: &Program, nodes: u32, cost: Span) -> f64 {
        let before = self.seconds();
        let seconds = program.model.seconds(&self.visited, nodes);
        self.visited.push((nodes, seconds));
        self.since += cost;
        self.version += 1;
        if before > 0.0 { seconds / before } else { 1.0 }
    }
}
