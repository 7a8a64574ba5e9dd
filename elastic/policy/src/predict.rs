//! The benefit of more nodes, from measured times.

use serde::{Deserialize, Serialize};

use crate::job::{Job, Resize, Sample};
use crate::points::{Measure, Predictor, SmallerSize, Stay, smaller_sizes};

/// Groups samples, oldest first, into stays.
#[must_use]
pub fn stays(history: &[Sample]) -> Vec<Stay> {
    let mut stays: Vec<Stay> = Vec::new();
    for sample in history {
        let seconds = sample.iteration.as_seconds();
        match stays.last_mut() {
            Some(stay) if stay.nodes == sample.nodes => {
                stay.samples += 1;
                stay.seconds += (seconds - stay.seconds) / f64::from(stay.samples);
            }
            _ => stays.push(Stay { nodes: sample.nodes, seconds, samples: 1 }),
        }
    }
    stays
}

/// The judgement on a job's last change of size.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LastResize {
    /// There was no expansion, or the last change was a shrink, or times are not known for both
    /// sizes.
    Unknown,
    /// An iteration takes less time than before the expansion.
    Helped,
    /// An iteration takes as long as before the expansion, or longer.
    DidNotHelp {
        /// The size before the expansion.
        before: u32,
    },
}

/// The settings of prediction.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Prediction {
    /// Parameters of the curve fitted to the last stays: window, threshold and measure.
    pub predictor: Predictor,
    /// The fraction by which an expansion must lower the iteration time to count as helpful; 0: any
    /// gain.
    pub least_gain: f64,
    /// True if an expansion must save more time than it costs, if both are known.
    pub gate: bool,
}

impl Default for Prediction {
    /// Three stays, a slope of 0.2 of the scaled speedup, any gain, and no gate.
    fn default() -> Prediction {
        let predictor = Predictor { measure: Measure::ScaledSpeedup, ..Predictor::default() };
        Prediction { predictor, least_gain: 0.0, gate: false }
    }
}

/// The balance of an expansion: the time that it saves and the time that it costs, in seconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Gain {
    /// The time saved over the remaining iterations.
    pub saved: f64,
    /// The time for spawning processes and redistributing data.
    pub cost: f64,
}

impl Gain {
    /// Returns true if more time is saved than spent.
    #[must_use]
    pub fn is_worth_it(&self) -> bool {
        self.saved > self.cost
    }
}

impl Prediction {
    /// Returns the expand potential: the slope of the measure at the present size, of a parabola
    /// over three stays or more, or a line over two; `None` with fewer. The stay at the start is
    /// not counted: it follows no resize.
    #[must_use]
    pub fn potential(&self, job: &Job) -> Option<f64> {
        let stays = stays(&job.history);
        let (first, later) = stays.split_first()?;
        let reached: Vec<(u32, f64)> =
            later.iter().map(|stay| (stay.nodes, stay.seconds)).collect();
        self.predictor.potential_of((first.nodes, first.seconds), &reached, job.size())
    }

    /// Returns true if the potential exceeds the threshold, or is not known yet.
    #[must_use]
    pub fn promises(&self, potential: Option<f64>) -> bool {
        potential.is_none_or(|slope| self.predictor.promises(slope))
    }

    /// Judges the last change of a job's size by the times before and after it.
    #[must_use]
    pub fn last_resize(&self, job: &Job) -> LastResize {
        let stays = stays(&job.history);
        let (Some(last), [.., before, now]) = (job.resizes.last(), stays.as_slice()) else {
            return LastResize::Unknown;
        };
        let is_expansion = last.from < last.to && (last.from, last.to) == (before.nodes, now.nodes);
        if !is_expansion || now.nodes != job.size() {
            return LastResize::Unknown;
        }
        match now.is_faster_than(before, self.least_gain) {
            true => LastResize::Helped,
            false => LastResize::DidNotHelp { before: before.nodes },
        }
    }

    /// Predicts the iteration time in seconds on another size, from the slope of the rate at the
    /// present one. `None` if there is no slope, or the rate would fall to zero.
    #[must_use]
    pub fn seconds_on(&self, job: &Job, nodes: u32) -> Option<f64> {
        let stays = stays(&job.history);
        let now = stays.last().filter(|stay| stay.nodes == job.size() && stay.seconds > 0.0)?;
        if let Some(known) = stays.iter().rfind(|stay| stay.nodes == nodes) {
            return Some(known.seconds);
        }
        let rate = Predictor { measure: Measure::Rate, ..self.predictor };
        let slope = Prediction { predictor: rate, ..*self }.potential(job)?;
        let predicted = 1.0 / now.seconds + slope * (f64::from(nodes) - f64::from(job.size()));
        (predicted > 0.0).then(|| 1.0 / predicted)
    }

    /// Weighs an expansion to `nodes`. `None` if the remaining iterations, the time there or the
    /// cost is not known.
    #[must_use]
    pub fn gain(&self, job: &Job, nodes: u32) -> Option<Gain> {
        let now = stays(&job.history).last()?.seconds;
        let there = self.seconds_on(job, nodes)?;
        let cost = expected_cost(&job.resizes, job.size(), nodes)?;
        Some(Gain { saved: (now - there) * f64::from(job.iterations_left?), cost })
    }
}

/// Returns the measured cost of this change, or the highest of the job's changes if this one has
/// not happened yet, in seconds. `None` before the first change.
#[must_use]
pub fn expected_cost(resizes: &[Resize], from: u32, to: u32) -> Option<f64> {
    let measured = || resizes.iter().filter_map(|resize| Some((resize, resize.cost?.as_seconds())));
    let same = measured().rfind(|(resize, _)| (resize.from, resize.to) == (from, to));
    let any = measured().map(|(_, cost)| cost).max_by(f64::total_cmp);
    same.map(|(_, cost)| cost).or(any)
}

/// Returns the sizes to which a job can be shrunk at a resize point, the one with the least effect
/// first: sizes on which it has run, below the present one and not below its minimum. The effect is
/// relative to the time on the present size, or on the last one with a time if there is none for it
/// yet.
#[must_use]
pub fn shrink_points(job: &Job) -> Vec<SmallerSize> {
    smaller_sizes(&stays(&job.history), job.size(), job.smallest())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::job::{Class, JobId, Limits};
    use crate::nodes::{Interval, NodeList};
    use crate::time::{Span, Time};

    /// Makes a job that has been on these sizes with these iteration times, twice each.
    fn job(stays: &[(u32, f64)]) -> Job {
        let limits = Limits::between(1, 1000, stays[0].0);
        let mut job = Job::new(JobId(0), Class::Resizable, limits, Time::ZERO, Span::seconds(10));
        job.started_on = stays[0].0;
        for (index, (nodes, seconds)) in stays.iter().enumerate() {
            if index > 0 {
                let from = stays[index - 1].0;
                let cost = Some(Span::seconds(index as u64));
                job.resizes.push(Resize { from, to: *nodes, at: Time::ZERO, cost });
            }
            let iteration = Span::from_seconds(*seconds);
            job.history.extend([Sample { nodes: *nodes, iteration }; 2]);
        }
        job.nodes = NodeList::default();
        job.nodes.push(Interval { first: 0, count: stays[stays.len() - 1].0 });
        job
    }

    /// LU of 16000 x 16000: table 2.3 of the dissertation.
    const LU: [(u32, f64); 6] =
        [(4, 161.54), (16, 63.49), (20, 54.99), (25, 46.59), (64, 33.73), (100, 28.32)];

    #[test]
    fn potential_is_a_parabola_over_three_a_line_over_two() {
        let predictor = Predictor { measure: Measure::Time, ..Predictor::default() };
        let prediction = Prediction { predictor, ..Prediction::default() };
        assert_eq!(prediction.potential(&job(&LU[..2])), None);
        let line = prediction.potential(&job(&LU[..3])).unwrap();
        assert!((line - (54.99 - 63.49) / 4.0).abs() < 1e-9);
        // Lagrange through (16, 63.49), (20, 54.99), (25, 46.59), differentiated at 25.
        let expected = 63.49 * 5.0 / 36.0 - 54.99 * 9.0 / 20.0 + 46.59 * 14.0 / 45.0;
        let parabola = prediction.potential(&job(&LU[..4])).unwrap();
        assert!((parabola - expected).abs() < 1e-9, "{parabola} {expected}");
        let wide = Prediction { predictor: Predictor { window: 5, ..predictor }, ..prediction };
        assert_ne!(wide.potential(&job(&LU)), prediction.potential(&job(&LU)));
    }

    #[test]
    fn scaled_speedup_is_one_where_added_nodes_work_as_well() {
        let ideal = job(&[(4, 60.0), (8, 30.0), (12, 20.0), (16, 15.0)]);
        let potential = Prediction::default().potential(&ideal).unwrap();
        assert!((potential - 1.0).abs() < 1e-9, "{potential}");
        assert!(Prediction::default().promises(Some(potential)));
        assert!(Prediction::default().promises(None), "first expansions need no potential");
        assert!(
            !Prediction::default().promises(Some(0.2)),
            "the slope has to exceed the threshold"
        );
        let time = Predictor { measure: Measure::Time, ..Predictor::default() };
        let time = Prediction { predictor: time, ..Prediction::default() };
        assert!(
            time.promises(Some(-1.0)) && !time.promises(Some(1.0)),
            "time falls where nodes help"
        );
    }

    #[test]
    fn an_expansion_helped_if_iterations_are_faster() {
        let prediction = Prediction::default();
        let judge = |stays: &[(u32, f64)]| prediction.last_resize(&job(stays));
        assert_eq!(judge(&[(4, 60.0)]), LastResize::Unknown);
        assert_eq!(judge(&[(4, 60.0), (8, 59.0)]), LastResize::Helped);
        assert_eq!(judge(&[(4, 60.0), (8, 60.0)]), LastResize::DidNotHelp { before: 4 });
        assert_eq!(judge(&[(4, 60.0), (8, 70.0), (4, 60.0)]), LastResize::Unknown, "a shrink");
        let picky = Prediction { least_gain: 0.05, ..prediction };
        let nearly = job(&[(4, 60.0), (8, 59.0)]);
        assert_eq!(picky.last_resize(&nearly), LastResize::DidNotHelp { before: 4 });
        let mut silent = job(&[(4, 60.0), (8, 50.0)]);
        silent.history.truncate(2);
        assert_eq!(prediction.last_resize(&silent), LastResize::Unknown, "no time on 8 nodes yet");
    }

    #[test]
    fn gain_is_the_time_saved_against_the_measured_cost() {
        let mut ideal = job(&[(4, 60.0), (8, 30.0), (12, 20.0)]);
        let prediction = Prediction::default();
        assert_eq!(prediction.gain(&ideal, 16), None, "the iterations left are not known");
        ideal.iterations_left = Some(10);
        let there = prediction.seconds_on(&ideal, 16).unwrap();
        assert!((there - 15.0).abs() < 1e-6, "{there}");
        let gain = prediction.gain(&ideal, 16).unwrap();
        assert!((gain.saved - 50.0).abs() < 1e-6 && gain.cost == 2.0, "{gain:?}");
        assert!(gain.is_worth_it());
        assert!(!Gain { saved: 2.0, cost: 2.0 }.is_worth_it());
        assert_eq!(prediction.seconds_on(&ideal, 4), Some(60.0), "it was there");
        assert_eq!(expected_cost(&ideal.resizes, 4, 8), Some(1.0));
        assert_eq!(expected_cost(&ideal.resizes, 12, 20), Some(2.0), "the highest of all");
        assert_eq!(expected_cost(&[], 4, 8), None);
    }

    #[test]
    fn shrink_points_are_sizes_it_had_down_to_its_start() {
        let points = shrink_points(&job(&LU[..4]));
        let sizes: Vec<u32> = points.iter().map(|point| point.nodes).collect();
        assert_eq!(sizes, [20, 16, 4], "least effect first");
        assert!((points[2].factor - 161.54 / 46.59).abs() < 1e-9);
        let mut later = job(&[(8, 40.0), (16, 25.0), (4, 80.0), (16, 24.0)]);
        assert_eq!(shrink_points(&later).len(), 1, "4 is below the start");
        later.history.clear();
        assert!(shrink_points(&later).is_empty());
    }

    proptest! {
        #[test]
        fn predictions_are_finite_and_points_are_allowed(
            stays in proptest::collection::vec((1..200u32, 0.0..500.0f64), 1..8), to in 1..300u32, left in 0..100u32,
        ) {
            let mut job = job(&stays);
            job.iterations_left = Some(left);
            let prediction = Prediction::default();
            prop_assert!(prediction.potential(&job).is_none_or(f64::is_finite));
            prop_assert!(prediction.seconds_on(&job, to).is_none_or(|seconds| seconds >= 0.0));
            prop_assert!(prediction.gain(&job, to).is_none_or(|gain| gain.saved.is_finite()));
            for point in shrink_points(&job) {
                prop_assert!(point.nodes >= job.started_on && point.nodes < job.size());
                prop_assert!(stays.iter().any(|(nodes, _)| *nodes == point.nodes));
            }
        }
    }
}
