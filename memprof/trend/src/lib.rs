//! Growth of memory over the iterations of a program, or over time.
//!
//! The slope is the median of the slopes between all pairs of points (Theil and Sen), which some
//! outliers do not change. Its interval is that of the ranks of these slopes (Kendall), made wider
//! where the deviations of neighbouring points depend on each other. A series grows only if the
//! interval excludes zero and the last part of the series grows too: a cache that has filled up does
//! not.

#![forbid(unsafe_code)]
#![deny(missing_docs)]

/// Smallest number of points after the warm-up from which growth is judged.
pub const FEWEST: usize = 12;
/// Quantile of the normal distribution for an interval of 99 %.
const QUANTILE: f64 = 2.576;
/// Largest correlation of neighbouring deviations that is assumed.
const MOST_CORRELATED: f64 = 0.95;
/// Part of the growth within which the final level counts as reached.
const LEVEL: f64 = 0.1;
/// Part of the run for which the final level must have been held.
const HELD: f64 = 1.0 / 3.0;
/// Part of its slope that a sum of samples must have at the end.
const LEFT: f64 = 0.5;
/// Ratio of the slopes of both halves below which growth becomes slower.
const SLOWER: f64 = 0.7;

/// An amount at a position.
#[derive(Copy, Clone, Debug, PartialEq)]
pub struct Point {
    /// Iterations or seconds.
    pub at: f64,
    /// Amount in bytes.
    pub bytes: f64,
}

/// Growth in bytes per iteration or second.
#[derive(Copy, Clone, Debug, PartialEq)]
pub struct Slope {
    /// Median of the slopes between all pairs of points.
    pub bytes: f64,
    /// Lower end of its interval of 99 %.
    pub low: f64,
    /// Upper end of its interval of 99 %.
    pub high: f64,
}

/// Finding about a series.
#[derive(Copy, Clone, Debug, PartialEq)]
pub enum Verdict {
    /// There are too few points for a judgement.
    TooShort,
    /// No growth is shown.
    Steady,
    /// The noise hides whether the growth has ended.
    Unclear(Slope),
    /// It grew to a position, and has stayed since.
    Ended {
        /// Position from which it has stayed.
        until: f64,
        /// Growth after the warm-up.
        bytes: f64,
    },
    /// It grows to the end, more and more slowly: it may have a bound.
    Slowing(Slope),
    /// It grows to the end.
    Grows(Slope),
}

impl Verdict {
    /// Returns the slope of growth that has not ended.
    #[must_use]
    pub fn slope(&self) -> Option<Slope> {
        match self {
            Verdict::Grows(slope) | Verdict::Slowing(slope) => Some(*slope),
            _ => None,
        }
    }
}

/// Position at which a limit is passed.
#[derive(Copy, Clone, Debug, PartialEq)]
pub struct Passing {
    /// Expected position.
    pub at: f64,
    /// Earliest position, by the upper end of the slope's interval.
    pub earliest: f64,
    /// Latest position, by the lower end.
    pub latest: f64,
}

impl Slope {
    /// Returns where an amount that grows from `now` passes a limit; `now` if it has.
    #[must_use]
    pub fn passing(&self, now: Point, limit: f64) -> Option<Passing> {
        let left = (limit - now.bytes).max(0.0);
        let after = |bytes: f64| (bytes > 0.0).then(|| now.at + left / bytes);
        Some(Passing {
            at: after(self.bytes)?,
            earliest: after(self.high)?,
            latest: after(self.low)?,
        })
    }
}

/// Returns the points after the warm-up, the first quarter.
fn after_warm_up(points: &[Point]) -> &[Point] {
    &points[points.len().div_ceil(4)..]
}

/// Judges a series in ascending order of positions. Growth of fewer than `least` bytes after the
/// warm-up does not count.
#[must_use]
pub fn judge(points: &[Point], least: f64) -> Verdict {
    let points = after_warm_up(points);
    let [first, .., last] = points else { return Verdict::TooShort };
    if points.len() < FEWEST || last.at <= first.at {
        return Verdict::TooShort;
    }
    let amounts = points.iter().map(|point| point.bytes);
    let (low, high) =
        amounts.fold((f64::MAX, f64::MIN), |(low, high), bytes| (low.min(bytes), high.max(bytes)));
    if high - low < least {
        return Verdict::Steady;
    }
    let levels = smoothed(points);
    let count = points.len();
    let end = median(points[count - (count / 10).max(3)..].iter().map(|point| point.bytes));
    let begin = median(points[..3].iter().map(|point| point.bytes));
    let growth = end - begin;
    let Some(slope) = slope(points) else { return Verdict::TooShort };
    let whole = slope.bytes * (last.at - first.at);
    if growth < least && whole < least {
        return Verdict::Steady;
    }
    // Where the steps from point to point are small, the levels show when growth ended.
    let is_smooth = 2.0 * noise(points, slope.bytes) <= LEVEL * growth;
    if is_smooth {
        let near = |level: &f64| (level - end).abs() <= LEVEL * growth;
        let held = levels.iter().rposition(|level| !near(level)).map_or(0, |at| at + 1);
        let since = points.get(held).map_or(last.at, |point| point.at);
        if last.at - since >= HELD * (last.at - first.at) {
            return Verdict::Ended { until: since, bytes: growth };
        }
    }
    if slope.low <= 0.0 {
        return Verdict::Steady;
    }
    let (earlier, later) = points.split_at(count / 2);
    let (Some(earlier), Some(later)) = (crate::slope(earlier), crate::slope(later)) else {
        return Verdict::Unclear(slope);
    };
    if !is_smooth && later.low <= 0.0 {
        return match later.high < slope.bytes / 2.0 {
            true => Verdict::Ended { until: points[count / 2].at, bytes: growth },
            false => Verdict::Unclear(slope),
        };
    }
    // Smooth growth that ended too late for the halves to show it.
    let tail = &points[count - (count / 10).max(4)..];
    let rise = end - tail[0].bytes.max(levels[count - tail.len()]);
    let expected = slope.bytes * (last.at - tail[0].at);
    if is_smooth && rise < expected / 4.0 {
        return Verdict::Unclear(slope);
    }
    let is_slower = later.bytes < SLOWER * earlier.bytes && later.high < earlier.bytes;
    match is_slower {
        true => Verdict::Slowing(slope),
        false => Verdict::Grows(slope),
    }
}

/// Judges a sum of samples in ascending order of positions, as [`judge`]. Its slope is the mean, with
/// the interval of independent changes: samples add up to a random walk, which deviates from a line
/// for long. It grows to the end if it does in the last quarter; it is never said to have ended.
#[must_use]
pub fn judge_samples(points: &[Point], least: f64) -> Verdict {
    let points = after_warm_up(points);
    let Some(slope) = mean_slope(points).filter(|_| points.len() >= FEWEST) else {
        return Verdict::TooShort;
    };
    let length = points[points.len() - 1].at - points[0].at;
    if slope.low <= 0.0 || slope.bytes * length < least {
        return Verdict::Steady;
    }
    let end = mean_slope(&points[points.len() - points.len() / 4 - 1..]);
    match end.is_some_and(|end| end.bytes >= LEFT * slope.bytes) {
        true => Verdict::Grows(slope),
        false => Verdict::Unclear(slope),
    }
}

/// Returns the slope from the first to the last point, with the interval of independent changes;
/// `None` if both have one position.
fn mean_slope(points: &[Point]) -> Option<Slope> {
    let [first, .., last] = points else { return None };
    let length = last.at - first.at;
    if length <= 0.0 {
        return None;
    }
    let bytes = (last.bytes - first.bytes) / length;
    let deviation =
        |pair: &[Point]| pair[1].bytes - pair[0].bytes - bytes * (pair[1].at - pair[0].at);
    let square: f64 = points.windows(2).map(|pair| deviation(pair).powi(2)).sum();
    let spread = QUANTILE * square.sqrt() / length;
    Some(Slope { bytes, low: bytes - spread, high: bytes + spread })
}

/// Returns the slope of points in ascending order of positions; `None` if all have one position.
#[must_use]
pub fn slope(points: &[Point]) -> Option<Slope> {
    let mut slopes = Vec::with_capacity(points.len() * points.len() / 2);
    for (at, one) in points.iter().enumerate() {
        let others = points[at + 1..].iter().filter(|other| other.at > one.at);
        slopes.extend(others.map(|other| (other.bytes - one.bytes) / (other.at - one.at)));
    }
    if slopes.is_empty() {
        return None;
    }
    slopes.sort_by(f64::total_cmp);
    let bytes = middle(&slopes);
    let count = points.len() as f64;
    let correlation = correlation(points, bytes);
    let variance = count * (count - 1.0) * (2.0 * count + 5.0) / 18.0;
    let spread = QUANTILE * (variance * (1.0 + correlation) / (1.0 - correlation)).sqrt();
    let beyond = ((slopes.len() as f64 - spread) / 2.0).max(0.0) as usize;
    Some(Slope { bytes, low: slopes[beyond], high: slopes[slopes.len() - 1 - beyond] })
}

/// Returns the correlation of the deviations of neighbouring points from a line of this slope, not
/// below 0.
fn correlation(points: &[Point], slope: f64) -> f64 {
    let from = median(points.iter().map(|point| point.bytes - slope * point.at));
    let deviations = points.iter().map(|point| point.bytes - slope * point.at - from);
    let deviations: Vec<f64> = deviations.collect();
    let square: f64 = deviations.iter().map(|one| one * one).sum();
    let product: f64 = deviations.windows(2).map(|pair| pair[0] * pair[1]).sum();
    if square > 0.0 { (product / square).clamp(0.0, MOST_CORRELATED) } else { 0.0 }
}

/// Returns the standard deviation of a point from its neighbour, beyond the slope: outliers do not
/// count.
fn noise(points: &[Point], slope: f64) -> f64 {
    let steps = points
        .windows(2)
        .map(|pair| (pair[1].bytes - pair[0].bytes - slope * (pair[1].at - pair[0].at)).abs());
    1.4826 * median(steps) / std::f64::consts::SQRT_2
}

/// Returns the median of each point and its two neighbours.
fn smoothed(points: &[Point]) -> Vec<f64> {
    let last = points.len().saturating_sub(1);
    let around = |at: usize| &points[at.saturating_sub(1)..=(at + 1).min(last)];
    (0..points.len()).map(|at| median(around(at).iter().map(|point| point.bytes))).collect()
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    middle(&values)
}

/// Returns the middle of sorted values; 0 without any.
fn middle(sorted: &[f64]) -> f64 {
    match (sorted.get(sorted.len() / 2), sorted.len() % 2) {
        (None, _) => 0.0,
        (Some(middle), 1) => *middle,
        (Some(above), _) => f64::midpoint(sorted[sorted.len() / 2 - 1], *above),
    }
}

#[cfg(test)]
mod tests;
