//! Prediction of the gain of more processors.

use serde::{Deserialize, Serialize};

use super::History;

/// Measure for comparing configurations.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Measure {
    /// Speed relative to the start. Rises if processors help, and has no unit, so that one
    /// threshold fits all programs.
    Speedup,
    /// The speedup, with the size as a multiple of the start: a slope of 1 means that the added
    /// nodes work as well as the initial ones. One threshold fits programs of all sizes.
    ScaledSpeedup,
    /// Iterations in a second.
    Rate,
    /// Seconds for an iteration, as in the dissertation; falls if processors help.
    Time,
}

/// Prediction of the future from the past; section 2.4.1 of the dissertation.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Predictor {
    /// Largest number of past resizes considered.
    pub window: usize,
    /// Slope from which more processors are likely to help.
    pub threshold: f64,
    /// The measure to compare.
    pub measure: Measure,
}

impl Default for Predictor {
    /// The last three resizes, and a slope of 0.2, of the speedup.
    fn default() -> Predictor {
        Predictor { window: 3, threshold: 0.2, measure: Measure::Speedup }
    }
}

impl Predictor {
    /// Returns the change of the measure per additional processor at the present size: the slope of
    /// the curve through the results of the last resizes. One resize gives one sample, the size it
    /// led to; two samples give a line, three a parabola, more a least-squares parabola. `None`
    /// with fewer than two.
    #[doc(alias = "expand potential")]
    pub fn potential(&self, history: &History) -> Option<f64> {
        let first = history.seconds(history.start())?;
        let reached = history.visits().skip(1).filter(|visit| visit.reports > 0);
        let reached: Vec<(u32, f64)> =
            reached.map(|visit| (visit.configuration.size(), visit.mean)).collect();
        self.potential_of((history.start().size(), first), &reached, history.current().size())
    }

    /// Returns the potential at size `at` of a job that started on `first` (size and iteration time) and
    /// with resizes that led to `reached`, oldest first.
    pub fn potential_of(&self, first: (u32, f64), reached: &[(u32, f64)], at: u32) -> Option<f64> {
        if first.1 <= 0.0 || first.0 == 0 {
            return None;
        }
        let unit = match self.measure {
            Measure::ScaledSpeedup => f64::from(first.0),
            _ => 1.0,
        };
        let recent = &reached[reached.len().saturating_sub(self.window)..];
        let samples: Vec<(f64, f64)> = recent
            .iter()
            .filter(|(_, seconds)| *seconds > 0.0)
            .map(|(size, seconds)| {
                let measured = match self.measure {
                    Measure::Speedup | Measure::ScaledSpeedup => first.1 / seconds,
                    Measure::Rate => 1.0 / seconds,
                    Measure::Time => *seconds,
                };
                (f64::from(*size) / unit, measured)
            })
            .collect();
        slope(&samples, f64::from(at) / unit)
    }

    /// Returns true if more processors are likely to help; `None` if that cannot be predicted.
    pub fn says_yes(&self, history: &History) -> Option<bool> {
        self.potential(history).map(|potential| self.promises(potential))
    }

    /// Returns true if this potential exceeds the threshold.
    #[must_use]
    pub fn promises(&self, potential: f64) -> bool {
        match self.measure {
            Measure::Time => -potential > self.threshold,
            _ => potential > self.threshold,
        }
    }
}

/// Returns the slope at `at` of the least-squares parabola through these points, which is exact for
/// three points; of the line for two. Of points at the same place the last counts. `None` with
/// fewer than two.
pub fn slope(points: &[(f64, f64)], at: f64) -> Option<f64> {
    let mut distinct: Vec<(f64, f64)> = Vec::new();
    for &(x, y) in points.iter().rev() {
        if !distinct.iter().any(|(other, _)| *other == x) {
            distinct.push((x, y));
        }
    }
    match distinct.as_slice() {
        [] | [_] => None,
        [(x0, y0), (x1, y1)] => Some((y1 - y0) / (x1 - x0)).filter(|slope| slope.is_finite()),
        _ => parabola(&distinct, at),
    }
}

/// Fits around the mean place, in units of the spread, so that large processor counts lose no
/// precision.
fn parabola(points: &[(f64, f64)], at: f64) -> Option<f64> {
    let count = points.len() as f64;
    let centre = points.iter().map(|(x, _)| x).sum::<f64>() / count;
    let spread = points.iter().map(|(x, _)| (x - centre).abs()).fold(0.0, f64::max);
    let mut sums = [0.0; 5];
    let mut right = [0.0; 3];
    for (x, y) in points {
        let x = (x - centre) / spread;
        let mut power = 1.0;
        for (index, sum) in sums.iter_mut().enumerate() {
            *sum += power;
            if index < 3 {
                right[index] += power * y;
            }
            power *= x;
        }
    }
    let column = |index: usize| [sums[index], sums[index + 1], sums[index + 2]];
    let (a, b, c) = (column(0), column(1), column(2));
    let whole = determinant(a, b, c);
    let linear = determinant(a, right, c) / whole;
    let quadratic = determinant(a, b, right) / whole;
    let slope = (linear + 2.0 * quadratic * (at - centre) / spread) / spread;
    slope.is_finite().then_some(slope)
}

fn determinant(a: [f64; 3], b: [f64; 3], c: [f64; 3]) -> f64 {
    a[0] * (b[1] * c[2] - b[2] * c[1]) - b[0] * (a[1] * c[2] - a[2] * c[1])
        + c[0] * (a[1] * b[2] - a[2] * b[1])
}
