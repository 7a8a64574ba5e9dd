//! Comparison of two policies on the same workloads: differences, with confidence over seeds.

use serde::Serialize;

use super::summary::Summary;
use super::text::number;

/// Two-sided 95 % quantiles of Student's t distribution, by degrees of freedom from 1 to 30.
const STUDENT: [f64; 30] = [
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160,
    2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056,
    2.052, 2.048, 2.045, 2.042,
];
/// The quantile for more degrees of freedom.
const NORMAL: f64 = 1.96;

/// A figure under two policies.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Difference {
    /// The figure.
    pub figure: &'static str,
    /// The mean over the seeds under the first policy.
    pub first: f64,
    /// The mean over the seeds under the second policy.
    pub second: f64,
    /// The mean of the differences, second minus first.
    pub difference: f64,
    /// Half the width of the 95 % confidence interval of the difference; `None` for a single seed.
    pub confidence: Option<f64>,
}

impl Difference {
    /// Returns the difference of two series of one figure, paired by seed.
    #[must_use]
    pub fn of(figure: &'static str, first: &[f64], second: &[f64]) -> Difference {
        let differences: Vec<f64> =
            first.iter().zip(second).map(|(first, second)| second - first).collect();
        Difference {
            figure,
            first: mean(first),
            second: mean(second),
            difference: mean(&differences),
            confidence: confidence(&differences),
        }
    }

    /// Returns true if the confidence interval of the difference excludes zero.
    #[must_use]
    pub fn is_significant(&self) -> bool {
        self.confidence.is_some_and(|half| self.difference.abs() > half)
    }

    /// Returns the difference with its sign.
    #[must_use]
    pub fn signed(&self) -> String {
        let sign = if self.difference > 0.0 { "+" } else { "" };
        format!("{sign}{}", number(self.difference))
    }

    /// Returns a verdict on the significance of the difference.
    #[must_use]
    pub fn verdict(&self) -> String {
        match self.confidence {
            Some(_) if self.difference == 0.0 => "none".to_owned(),
            Some(half) if self.is_significant() => format!("± {}", number(half)),
            Some(half) => format!("± {} (may be none)", number(half)),
            None => "one seed".to_owned(),
        }
    }
}

/// Two policies on the same workloads.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Comparison {
    /// The first policy.
    pub first: String,
    /// The second policy.
    pub second: String,
    /// The number of workloads.
    pub seeds: usize,
    /// The figures.
    pub figures: Vec<Difference>,
}

impl Comparison {
    /// Returns the line above the figures.
    #[must_use]
    pub fn heading(&self) -> String {
        let Comparison { first, second, seeds, .. } = self;
        let s = if *seeds == 1 { "" } else { "s" };
        format!("{second} against {first}, {seeds} workload{s}")
    }

    /// Compares the summaries of two policies; equal positions have the same workload.
    #[must_use]
    pub fn of(first: &[Summary], second: &[Summary]) -> Comparison {
        type Figure = (&'static str, fn(&Summary) -> f64);
        const FIGURES: [Figure; 7] = [
            ("utilisation %", |summary| 100.0 * summary.utilisation),
            ("makespan s", |summary| summary.makespan),
            ("mean wait s", |summary| summary.all.wait.mean),
            ("95 % wait s", |summary| summary.all.wait.p95),
            ("mean execution s", |summary| summary.all.execution.mean),
            ("mean completion s", |summary| summary.all.completion.mean),
            ("mean slowdown", |summary| summary.all.slowdown),
        ];
        let series = |of: &[Summary], figure: fn(&Summary) -> f64| -> Vec<f64> {
            of.iter().map(figure).collect()
        };
        let figures = FIGURES.map(|(name, figure)| {
            Difference::of(name, &series(first, figure), &series(second, figure))
        });
        let name =
            |of: &[Summary]| of.first().map_or_else(String::new, |summary| summary.policy.clone());
        Comparison {
            first: name(first),
            second: name(second),
            seeds: first.len().min(second.len()),
            figures: figures.to_vec(),
        }
    }
}

/// Returns the mean; zero for no values.
#[must_use]
pub fn mean(values: &[f64]) -> f64 {
    if values.is_empty() { 0.0 } else { values.iter().sum::<f64>() / values.len() as f64 }
}

/// Returns half the width of the 95 % confidence interval of the mean; `None` for fewer than two
/// values.
#[must_use]
pub fn confidence(values: &[f64]) -> Option<f64> {
    let freedom = values.len().checked_sub(1).filter(|&freedom| freedom > 0)?;
    let mean = mean(values);
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    let error = (squares / freedom as f64 / values.len() as f64).sqrt();
    Some(STUDENT.get(freedom - 1).copied().unwrap_or(NORMAL) * error)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn confidence_follows_students_distribution() {
        assert_eq!(confidence(&[4.0]), None);
        let half = confidence(&[1.0, 2.0, 3.0, 4.0, 5.0]).unwrap();
        assert!((half - 2.776 * (2.5_f64 / 5.0).sqrt()).abs() < 1e-9);
        assert_eq!(confidence(&[2.0; 40]), Some(0.0));
    }

    #[test]
    fn difference_is_significant_if_zero_is_outside() {
        let clear = Difference::of("x", &[1.0, 2.0, 3.0], &[3.0, 4.1, 5.0]);
        assert!(clear.is_significant() && (clear.difference - 2.033).abs() < 1e-3);
        assert!(!Difference::of("x", &[1.0, 2.0, 3.0], &[3.0, 1.0, 3.0]).is_significant());
        assert!(!Difference::of("x", &[1.0], &[2.0]).is_significant());
    }
}
