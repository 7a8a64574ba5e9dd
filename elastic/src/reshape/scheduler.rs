//! Who decides at a resize point.

use crate::points::{Configuration, Decision, Growth, History, Report, Topology};

/// What a scheduler may choose from.
#[derive(Clone, Copy)]
pub struct Choice<'a> {
    /// What the program has just said.
    pub report: &'a Report,
    /// How fast it was on what, and what moving its data has cost.
    pub history: &'a History,
    /// Which configuration follows which, with those that the program cannot work with left out.
    pub growth: Growth<'a>,
}

/// Decides at resize points, in the process of rank 0. What others ask the world for comes first.
pub trait Scheduler {
    /// What the program is to do.
    #[doc(alias = "RemapScheduler")]
    fn decide(&mut self, choice: &Choice<'_>) -> Decision;
}

impl<F: FnMut(&Choice<'_>) -> Decision> Scheduler for F {
    fn decide(&mut self, choice: &Choice<'_>) -> Decision {
        self(choice)
    }
}

/// Expands as long as iterations become faster; undoes one expansion that did not help, and stays there: the sweet spot
/// of section 2.4.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SweetSpot {
    found: bool,
}

impl Scheduler for SweetSpot {
    fn decide(&mut self, choice: &Choice<'_>) -> Decision {
        let history = choice.history;
        let before = history.visits().rev().nth(1).map(|visit| visit.configuration);
        match (history.last_resize_helped(), before) {
            _ if self.found => Decision::Continue,
            (Some(false), Some(before)) if before.size() < history.current().size() => {
                self.found = true;
                Decision::Shrink(before)
            }
            (None, Some(_)) => Decision::Continue,
            _ => choice.growth.next(history.current()).map_or(Decision::Continue, Decision::Expand),
        }
    }
}

/// How a program's processors are arranged, and what it begins with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[doc(alias = "struct ProcessorTopology")]
pub struct ProcessorTopology {
    /// Which sizes there are.
    pub kind: Topology,
    /// What it begins with.
    pub start: Configuration,
}

impl ProcessorTopology {
    /// How so many processors are arranged: as nearly square as can be, or in a line.
    #[must_use]
    pub fn arranged(&self, size: usize) -> Configuration {
        match self.kind {
            Topology::NearlySquare { .. } => {
                let grid = crate::data::Grids::NearlySquare.of(size);
                Configuration::Grid(grid.rows as u32, grid.columns as u32)
            }
            Topology::Arbitrary { .. } | Topology::PowerOfTwo => Configuration::Line(size as u32),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_expansion_that_does_not_help_is_undone_and_then_nothing_changes() {
        let mut scheduler = SweetSpot::default();
        let mut history = History::new(Configuration::Line(1));
        let growth =
            Growth { topology: Topology::PowerOfTwo, most: 8, valid: &|one| one.size() != 2 };
        let mut decided = Vec::new();
        for seconds in [4.0, 2.0, 3.0, 2.0, 2.0] {
            history.iteration(seconds).unwrap();
            let configuration = history.current();
            let report = Report {
                configuration,
                iteration_seconds: seconds,
                redistribution_seconds: None,
                iteration: 0,
            };
            let decision = scheduler.decide(&Choice { report: &report, history: &history, growth });
            if let Decision::Expand(to) | Decision::Shrink(to) = decision {
                history.resized(to, 0.1).unwrap();
            }
            decided.push(decision);
        }
        let line = Configuration::Line;
        let go_on = Decision::Continue;
        let right = [
            Decision::Expand(line(4)),
            Decision::Expand(line(8)),
            Decision::Shrink(line(4)),
            go_on,
            go_on,
        ];
        assert_eq!(decided, right);
    }
}
