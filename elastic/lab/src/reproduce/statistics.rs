//! Means with confidence.

use serde::Serialize;

/// A mean with half of its 95 % confidence interval.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Estimate {
    /// The mean.
    pub mean: f64,
    /// Half the width of the interval; zero for a single value.
    pub half: f64,
}

impl Estimate {
    /// Makes an estimate without uncertainty.
    #[must_use]
    pub fn exactly(mean: f64) -> Estimate {
        Estimate { mean, half: 0.0 }
    }

    /// Estimates the mean of values.
    #[must_use]
    pub fn of(values: &[f64]) -> Estimate {
        let count = values.len() as f64;
        let mean = values.iter().sum::<f64>() / count.max(1.0);
        if values.len() < 2 {
            return Estimate { mean, half: f64::INFINITY };
        }
        let variance =
            values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (count - 1.0);
        Estimate { mean, half: quantile(values.len() - 1) * (variance / count).sqrt() }
    }

    /// Estimates the mean of the differences of paired values.
    #[must_use]
    pub fn of_differences(one: &[f64], other: &[f64]) -> Estimate {
        let differences: Vec<f64> = one.iter().zip(other).map(|(one, other)| one - other).collect();
        Estimate::of(&differences)
    }

    /// Returns true if the whole interval is above zero.
    #[must_use]
    pub fn is_positive(&self) -> bool {
        self.mean - self.half > 0.0
    }
}

/// Returns the 97.5 % quantile of Student's distribution, by the expansion of Cornish and Fisher.
/// The error is below 1 % from five degrees of freedom on.
fn quantile(freedom: usize) -> f64 {
    let (z, n) = (1.959_964_f64, freedom as f64);
    let first = (z.powi(3) + z) / (4.0 * n);
    let second = (5.0 * z.powi(5) + 16.0 * z.powi(3) + 3.0 * z) / (96.0 * n * n);
    z + first + second
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interval_is_that_of_student() {
        let near = |one: f64, other: f64| (one - other).abs() < 0.01 * other;
        assert!(
            near(quantile(29), 2.045) && near(quantile(5), 2.571) && near(quantile(1000), 1.962)
        );
        let estimate = Estimate::of(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
        assert!(
            near(estimate.mean, 3.5) && near(estimate.half, 2.571 * 1.870_829 / 6.0_f64.sqrt())
        );
        assert!(!Estimate::of(&[1.0]).is_positive());
        assert!(Estimate::of_differences(&[2.0, 3.1, 4.0], &[1.0, 2.0, 3.0]).is_positive());
    }
}
