//! Decisions at a resize point.

use elastic_policy::action::Action;
use elastic_policy::event::Event;
use elastic_policy::job::{Class, Job, JobId, Limits};
use elastic_policy::policy::{Draft, Policy};
use elastic_policy::resizing::{self, Scenario};
use elastic_policy::state::{Cluster, Refusal, State};
use elastic_policy::time::{Span, Time};

use elastic_policy::points::{Configuration, Decision, Growth, History, Report, Topology, Visit};

/// Facts for a scheduler's choice.
#[derive(Clone, Copy)]
pub struct Choice<'a> {
    /// The program's latest report.
    pub report: &'a Report,
    /// Times on each configuration, and costs of moving the data.
    pub history: &'a History,
    /// Order of the configurations that the program can work with.
    pub growth: Growth<'a>,
}

/// Decides at resize points, in the process of rank 0. Requests of managers take precedence.
pub trait Scheduler {
    /// Returns the decision for the program.
    #[doc(alias = "RemapScheduler")]
    fn decide(&mut self, choice: &Choice<'_>) -> Decision;
}

impl<F: FnMut(&Choice<'_>) -> Decision> Scheduler for F {
    fn decide(&mut self, choice: &Choice<'_>) -> Decision {
        self(choice)
    }
}

/// Expands as long as iterations become faster; undoes one expansion that did not help, and stays
/// there: the sweet spot of section 2.4. Decides like the scheduler of a cluster with only this
/// job.
#[derive(Clone, Debug)]
pub struct SweetSpot {
    policy: resizing::Reshape,
}

impl Default for SweetSpot {
    fn default() -> SweetSpot {
        SweetSpot { policy: resizing::Reshape::new(Scenario::GREEDY_R) }
    }
}

impl Scheduler for SweetSpot {
    fn decide(&mut self, choice: &Choice<'_>) -> Decision {
        let current = choice.history.current();
        let next = choice.growth.next(current);
        let mut visits = choice.history.visits().rev();
        let Some(now) = visits.next() else { return Decision::Continue };
        // The previous size matters if it was smaller: an expansion is compared with it.
        let before = visits.next().filter(|before| before.configuration.size() < current.size());
        if before.is_some_and(|before| before.reports == 0) {
            return Decision::Continue;
        }
        let size = decided(&mut self.policy, before, now, next.map(Configuration::size));
        match (size, before, next) {
            (Ok(Some(size)), _, Some(next)) if size == next.size() => Decision::Expand(next),
            (Ok(Some(size)), Some(before), _) if size == before.configuration.size() => {
                Decision::Shrink(before.configuration)
            }
            _ => Decision::Continue,
        }
    }
}

/// Returns the new size of the only job of a cluster, which was on `before` and is on `now`; `None`
/// if it keeps its size.
fn decided(
    policy: &mut resizing::Reshape,
    before: Option<&Visit>,
    now: &Visit,
    next: Option<u32>,
) -> Result<Option<u32>, Refusal> {
    let current = now.configuration.size();
    let first = before.map_or(current, |before| before.configuration.size());
    let mut allowed: Vec<u32> = [Some(first), Some(current), next].into_iter().flatten().collect();
    allowed.dedup();
    let most = next.unwrap_or(current);
    let mut state = State::new(Cluster { nodes: most, cores_per_node: 1 });
    let id = JobId(0);
    let limits = Limits { min: first, max: most, start: first, allowed };
    state.submit(Job::new(id, Class::Resizable, limits, Time::ZERO, Span::ZERO))?;
    state.apply(&Action::Start { job: id, nodes: first.into() })?;
    // Only the ratio of the times counts: without scaling, times below a millisecond would be
    // equal.
    let longest = before.map_or(now.mean, |before| before.mean.max(now.mean));
    let scale = if longest > 0.0 { 1e6 / longest } else { 1.0 };
    let point = |seconds: f64| {
        let iteration = Span::from_seconds(seconds * scale);
        Event::ResizePoint { job: id, iteration, left: None }
    };
    if let Some(before) = before {
        state.record(point(before.mean))?;
        state.apply(&Action::Grow { job: id, nodes: (current - first).into() })?;
    }
    let event = point(now.mean);
    state.record(event)?;
    let mut draft = Draft::new(&mut state);
    policy.decide(&[event], &mut draft)?;
    let size = state.job(id).map(Job::size);
    Ok(size.filter(|size| *size != current))
}

/// Arrangement of a program's processors, and the initial one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[doc(alias = "struct ProcessorTopology")]
pub struct ProcessorTopology {
    /// Possible sizes.
    pub kind: Topology,
    /// The initial configuration.
    pub start: Configuration,
}

impl ProcessorTopology {
    /// Returns the arrangement of `size` processors: as nearly square as possible, or in a line.
    #[must_use]
    pub fn arranged(&self, size: usize) -> Configuration {
        match self.kind {
            Topology::NearlySquare { .. } => {
                let grid = elastic::data::Grids::NearlySquare.of(size);
                Configuration::Grid(grid.rows as u32, grid.columns as u32)
            }
            Topology::Arbitrary { .. } | Topology::PowerOfTwo => Configuration::Line(size as u32),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Has a program report these times, one at each resize point, and returns the answers.
    fn answers(times: &[f64]) -> Vec<Decision> {
        let mut scheduler = SweetSpot::default();
        let mut history = History::new(Configuration::Line(1));
        let growth =
            Growth { topology: Topology::PowerOfTwo, most: 8, valid: &|one| one.size() != 2 };
        let mut answers = Vec::new();
        for seconds in times {
            history.iteration(*seconds).unwrap();
            let configuration = history.current();
            let report = Report {
                configuration,
                iteration_seconds: *seconds,
                redistribution_seconds: None,
                iteration: 0,
            };
            let decision = scheduler.decide(&Choice { report: &report, history: &history, growth });
            if let Decision::Expand(to) | Decision::Shrink(to) = decision {
                history.resized(to, 0.1).unwrap();
            }
            answers.push(decision);
        }
        answers
    }

    #[test]
    fn unhelpful_expansion_is_undone_once_and_then_nothing_changes() {
        let line = Configuration::Line;
        let go_on = Decision::Continue;
        let right = [
            Decision::Expand(line(4)),
            Decision::Expand(line(8)),
            Decision::Shrink(line(4)),
            go_on,
            go_on,
        ];
        assert_eq!(answers(&[4.0, 2.0, 3.0, 2.0, 2.0]), right);
        let microseconds = answers(&[4e-6, 2e-6, 3e-6, 2e-6, 2e-6]);
        assert_eq!(microseconds, right, "times below the resolution of the scheduler's clock");
    }

    #[test]
    fn shrink_by_others_is_not_a_failed_expansion() {
        let mut scheduler = SweetSpot::default();
        let mut history = History::new(Configuration::Line(4));
        let growth = Growth { topology: Topology::PowerOfTwo, most: 8, valid: &|_| true };
        history.iteration(1.0).unwrap();
        history.resized(Configuration::Line(2), 0.1).unwrap();
        history.iteration(2.0).unwrap();
        let report = Report {
            configuration: history.current(),
            iteration_seconds: 2.0,
            redistribution_seconds: None,
            iteration: 0,
        };
        let decision = scheduler.decide(&Choice { report: &report, history: &history, growth });
        assert_eq!(decision, Decision::Expand(Configuration::Line(4)));
    }
}
