//! Growth of bytes with ranks: a few simple laws, and an honest choice between them.
//!
//! Few points allow few parameters. Each law is fitted by least squares and judged by how well it
//! predicts a number of ranks that was left out. A law with one more parameter has to predict
//! clearly better, and, with two points or more to spare, the interval of its additional term must
//! not contain zero. A law that no left-out number can test is used only where there is nothing
//! simpler, and is marked as such.

use serde::Serialize;

/// Measurement: bytes at a number of ranks.
#[derive(Copy, Clone, Debug, PartialEq, Serialize)]
pub struct Measured {
    /// Ranks, at least 1.
    pub ranks: f64,
    /// Bytes.
    pub bytes: f64,
}

/// A law of growth.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Law {
    /// `fixed`
    Constant,
    /// `fixed + per_rank · ranks`
    Linear,
    /// `fixed + per_doubling · log2(ranks)`
    Logarithmic,
    /// `fixed + divided / ranks`: a problem of one size that the ranks share out
    Divided,
    /// `fixed + per_rank · ranks + per_doubling · log2(ranks)`
    Both,
}

/// A coefficient in bytes.
#[derive(Copy, Clone, Debug, Default, PartialEq, Serialize)]
pub struct Coefficient {
    /// The value.
    pub value: f64,
    /// Half of its 95 % interval; `None` if there are no points to spare.
    pub plus_minus: Option<f64>,
}

/// A law with numbers.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Fit {
    /// Which.
    pub law: Law,
    /// The part that does not grow.
    pub fixed: Coefficient,
    /// For each rank more.
    pub per_rank: Option<Coefficient>,
    /// For each doubling of the ranks.
    pub per_doubling: Option<Coefficient>,
    /// Total bytes that the ranks divide among them.
    pub divided: Option<Coefficient>,
    /// Root of the mean square of the residuals.
    pub residual: f64,
    /// The largest that is left.
    pub largest_residual: f64,
    /// Root mean square error of the prediction of left-out numbers of ranks; `None` if none could
    /// be left out.
    pub foretold_within: Option<f64>,
    /// Points beyond those that determine the law; without any, the law fits exactly.
    pub spare: usize,
    /// Smallest and largest number of ranks measured; the law is not valid for others.
    pub range: (f64, f64),
    /// The inverse of the normal matrix, for intervals of predictions.
    #[serde(skip)]
    spread: Vec<Vec<f64>>,
    #[serde(skip)]
    variance: Option<f64>,
    #[serde(skip)]
    quantile: f64,
}

/// A number of ranks that was not measured.
#[derive(Copy, Clone, Debug, PartialEq, Serialize)]
pub struct Prediction {
    /// Ranks.
    pub ranks: f64,
    /// Bytes.
    pub bytes: f64,
    /// Half of the 95 % interval of a further measurement; `None` if there are no points to spare.
    pub plus_minus: Option<f64>,
    /// True if it lies outside the measurements: then it holds only if the law does.
    pub extrapolated: bool,
}

/// Differences below this are the grain of pages, not growth.
const GRAIN: f64 = 4096.0;
/// A law with one term more has to be off by less than this share of the simpler one.
const CLEARLY_BETTER: f64 = 0.7;

impl Law {
    fn terms(self, ranks: f64) -> Vec<f64> {
        let doublings = ranks.max(1.0).log2();
        match self {
            Law::Constant => vec![1.0],
            Law::Linear => vec![1.0, ranks],
            Law::Logarithmic => vec![1.0, doublings],
            Law::Divided => vec![1.0, 1.0 / ranks.max(1.0)],
            Law::Both => vec![1.0, ranks, doublings],
        }
    }

    fn parameters(self) -> usize {
        self.terms(1.0).len()
    }
}

/// Returns the law that fits best; `None` without points, or with invalid numbers.
pub fn fit(points: &[Measured]) -> Option<Fit> {
    let sound =
        |point: &Measured| point.ranks >= 1.0 && point.ranks.is_finite() && point.bytes.is_finite();
    if points.is_empty() || !points.iter().all(sound) {
        return None;
    }
    let mut counts: Vec<f64> = points.iter().map(|point| point.ranks).collect();
    counts.sort_by(f64::total_cmp);
    counts.dedup();
    let constant = fit_law(Law::Constant, points, &counts)?;
    if constant.largest_residual <= GRAIN / 2.0 || counts.len() == 1 {
        return Some(constant);
    }
    if counts.len() == 2 {
        // Nothing can be left out. Growth by ranks is what can be checked with a third number.
        let linear = fit_law(Law::Linear, points, &counts)?;
        return Some(if linear.is_significant() { linear } else { constant });
    }
    let error = |fit: &Fit| fit.foretold_within.unwrap_or(f64::INFINITY).max(GRAIN);
    let mut best = constant;
    let two = [Law::Linear, Law::Logarithmic, Law::Divided];
    let two = two.into_iter().filter_map(|law| fit_law(law, points, &counts));
    let two = two.filter(Fit::is_significant);
    if let Some(two) = two.min_by(|one, other| error(one).total_cmp(&error(other)))
        && error(&two) < CLEARLY_BETTER * error(&best)
    {
        best = two;
    }
    if counts.len() >= 5
        && let Some(three) = fit_law(Law::Both, points, &counts).filter(Fit::is_significant)
        && error(&three) < CLEARLY_BETTER * error(&best)
    {
        best = three;
    }
    Some(best)
}

/// Fits a law by least squares. Returns `None` if the points do not determine it.
fn fit_law(law: Law, points: &[Measured], counts: &[f64]) -> Option<Fit> {
    let solved = solve(law, points)?;
    let residuals: Vec<f64> = points
        .iter()
        .map(|point| point.bytes - value(law, &solved.coefficients, point.ranks))
        .collect();
    let squares: f64 = residuals.iter().map(|residual| residual * residual).sum();
    let freedom = points.len().saturating_sub(law.parameters());
    let variance = (freedom > 0).then(|| squares / freedom as f64);
    let quantile = student(freedom);
    let coefficient = |at: usize| Coefficient {
        value: solved.coefficients[at],
        plus_minus: variance
            .map(|variance| quantile * (variance * solved.spread[at][at].max(0.0)).sqrt()),
    };
    Some(Fit {
        law,
        fixed: coefficient(0),
        per_rank: matches!(law, Law::Linear | Law::Both).then(|| coefficient(1)),
        per_doubling: match law {
            Law::Logarithmic => Some(coefficient(1)),
            Law::Both => Some(coefficient(2)),
            _ => None,
        },
        divided: (law == Law::Divided).then(|| coefficient(1)),
        residual: (squares / points.len() as f64).sqrt(),
        largest_residual: residuals.iter().map(|residual| residual.abs()).fold(0.0, f64::max),
        foretold_within: foretold(law, points, counts),
        spare: freedom,
        range: (counts[0], counts[counts.len() - 1]),
        spread: solved.spread,
        variance,
        quantile,
    })
}

/// Leaves each number of ranks out in turn, repeated measurements of it together.
fn foretold(law: Law, points: &[Measured], counts: &[f64]) -> Option<f64> {
    if counts.len() <= law.parameters() {
        return None;
    }
    let mut squares = 0.0;
    for count in counts {
        let (out, kept): (Vec<Measured>, Vec<Measured>) =
            points.iter().partition(|point| point.ranks == *count);
        let solved = solve(law, &kept)?;
        let mean = |point: &Measured| {
            (point.bytes - value(law, &solved.coefficients, point.ranks)).powi(2)
        };
        squares += out.iter().map(mean).sum::<f64>() / out.len() as f64;
    }
    Some((squares / counts.len() as f64).sqrt())
}

fn value(law: Law, coefficients: &[f64], ranks: f64) -> f64 {
    law.terms(ranks).iter().zip(coefficients).map(|(term, by)| term * by).sum()
}

struct Solved {
    coefficients: Vec<f64>,
    /// The inverse of the normal matrix.
    spread: Vec<Vec<f64>>,
}

/// Solves the normal equations. Terms are scaled to their largest value first, so that a job of a million ranks
/// is as well conditioned as one of four.
fn solve(law: Law, points: &[Measured]) -> Option<Solved> {
    let size = law.parameters();
    let rows: Vec<Vec<f64>> = points.iter().map(|point| law.terms(point.ranks)).collect();
    let scale: Vec<f64> = (0..size)
        .map(|at| rows.iter().map(|row| row[at].abs()).fold(0.0, f64::max).max(1e-300))
        .collect();
    // The matrix and the unit matrix side by side: elimination converts one into the other's
    // inverse.
    let mut matrix = vec![vec![0.0; 2 * size]; size];
    let mut right = vec![0.0; size];
    for (row, point) in rows.iter().zip(points) {
        for i in 0..size {
            right[i] += row[i] / scale[i] * point.bytes;
            for j in 0..size {
                matrix[i][j] += row[i] / scale[i] * row[j] / scale[j];
            }
        }
    }
    for (i, row) in matrix.iter_mut().enumerate() {
        row[size + i] = 1.0;
    }
    for column in 0..size {
        let pivot = (column..size)
            .max_by(|a, b| matrix[*a][column].abs().total_cmp(&matrix[*b][column].abs()))?;
        if matrix[pivot][column].abs() < 1e-10 {
            return None;
        }
        matrix.swap(column, pivot);
        let head = matrix[column][column];
        for value in &mut matrix[column] {
            *value /= head;
        }
        let pivot_row = matrix[column].clone();
        for (at, row) in matrix.iter_mut().enumerate() {
            let factor = row[column];
            if at != column && factor != 0.0 {
                for (value, by) in row.iter_mut().zip(&pivot_row) {
                    *value -= factor * by;
                }
            }
        }
    }
    let inverse = |i: usize, j: usize| matrix[i][size + j];
    let coefficients = (0..size)
        .map(|i| (0..size).map(|j| inverse(i, j) * right[j]).sum::<f64>() / scale[i])
        .collect();
    let spread = (0..size)
        .map(|i| (0..size).map(|j| inverse(i, j) / scale[i] / scale[j]).collect())
        .collect();
    Some(Solved { coefficients, spread })
}

/// Returns the 97.5 % quantile of Student's distribution.
fn student(freedom: usize) -> f64 {
    const FEW: [f64; 12] =
        [12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179];
    match freedom {
        0 => f64::INFINITY,
        few if few <= FEW.len() => FEW[few - 1],
        // Within a thousandth from there on.
        many => 1.96 + 2.372 / many as f64 + 2.823 / (many as f64).powi(2),
    }
}

impl Fit {
    /// Returns the bytes that the law predicts.
    pub fn at(&self, ranks: f64) -> f64 {
        let coefficients: Vec<f64> =
            [Some(self.fixed), self.per_rank, self.per_doubling, self.divided]
                .into_iter()
                .flatten()
                .map(|coefficient| coefficient.value)
                .collect();
        value(self.law, &coefficients, ranks)
    }

    /// Returns the prediction with its uncertainty, and whether the number of ranks is within the
    /// measured range.
    pub fn predict(&self, ranks: f64) -> Prediction {
        let terms = self.law.terms(ranks);
        let leverage: f64 = (0..terms.len())
            .map(|i| (0..terms.len()).map(|j| terms[i] * self.spread[i][j] * terms[j]).sum::<f64>())
            .sum();
        Prediction {
            ranks,
            bytes: self.at(ranks),
            plus_minus: self
                .variance
                .map(|variance| self.quantile * (variance * (1.0 + leverage.max(0.0))).sqrt()),
            extrapolated: ranks < self.range.0 || ranks > self.range.1,
        }
    }

    /// Returns true if no interval of the terms added to a constant contains zero. With a single
    /// point to spare, intervals are so wide that only the prediction can decide.
    fn is_significant(&self) -> bool {
        let away = |added: Coefficient| added.plus_minus.is_none_or(|by| added.value.abs() > by);
        let added = [self.per_rank, self.per_doubling, self.divided];
        self.spare < 2 || added.into_iter().flatten().all(away)
    }

    /// Returns true if there was a number of ranks to test the law with.
    pub fn is_tested(&self) -> bool {
        self.foretold_within.is_some()
    }
}

#[cfg(test)]
#[path = "fit_tests.rs"]
mod tests;
