//! Turns of the same program without and with the profiler in close succession: drift of the
//! machine affects both sides of a turn, so that ratios of turns vary less than their numbers.

use std::time::{Duration, Instant};

use anyhow::Result;
use serde_json::{Value, json};

/// Number of turns, and when to stop.
#[derive(Copy, Clone)]
pub struct Plan {
    /// Minimum number of turns.
    pub least: usize,
    /// Maximum number of turns.
    pub most: usize,
    /// Time after which no turn is begun.
    pub time: Duration,
    /// JSON pointer to the number whose ratio is wanted.
    pub of: &'static str,
    /// Half the width of the median's interval at which turns stop.
    pub width: f64,
    /// Report the mean of the middle three fifths instead of the median: equally robust against
    /// single turns, and more precise for the same number of turns.
    pub trims: bool,
}

/// Measurements of both programs of each turn.
#[derive(Default)]
pub struct Turns {
    pairs: Vec<[Value; 2]>,
    trims: bool,
}

/// Median of the turns' ratios, or their trimmed mean, with a 95 % confidence interval.
#[derive(Copy, Clone, Debug, PartialEq)]
pub struct Ratio {
    pub median: f64,
    pub low: f64,
    pub high: f64,
}

impl Ratio {
    fn half_width(&self) -> f64 {
        (self.high - self.low) / 2.0
    }
}

impl Turns {
    /// Takes turns until the plan is met. `one` runs the program, with the profiler or without.
    pub fn take(plan: &Plan, mut one: impl FnMut(bool) -> Result<Value>) -> Result<Turns> {
        let mut turns = Turns { trims: plan.trims, ..Turns::default() };
        let began = Instant::now();
        while turns.pairs.len() < plan.most {
            let known = turns.ratio(plan.of).is_some_and(|ratio| ratio.half_width() <= plan.width);
            if turns.pairs.len() >= plan.least && (known || began.elapsed() > plan.time) {
                break;
            }
            // The order follows the Thue-Morse sequence: steady or accelerating drift affects both
            // sides equally.
            let with_first = turns.pairs.len().count_ones() % 2 == 1;
            let first = one(with_first)?;
            let second = one(!with_first)?;
            turns.pairs.push(if with_first { [second, first] } else { [first, second] });
        }
        Ok(turns)
    }

    /// Creates turns measured elsewhere, each without and with the profiler.
    pub fn of_pairs(pairs: Vec<[Value; 2]>) -> Turns {
        Turns { pairs, trims: false }
    }

    /// Returns the numbers at a JSON pointer, of the turns that have them, with or without the
    /// profiler.
    pub fn of(&self, with: bool, pointer: &str) -> Vec<f64> {
        let values = self.pairs.iter().map(|pair| &pair[usize::from(with)]);
        values.filter_map(|value| value.pointer(pointer)?.as_f64()).collect()
    }

    /// Returns the measurements of each turn with the profiler or without.
    pub fn values(&self, with: bool) -> impl Iterator<Item = &Value> {
        self.pairs.iter().map(move |pair| &pair[usize::from(with)])
    }

    /// Returns the ratio with the profiler ÷ without.
    pub fn ratio(&self, pointer: &str) -> Option<Ratio> {
        let (without, with) = (self.of(false, pointer), self.of(true, pointer));
        if without.len() != with.len() {
            return None;
        }
        self.middle(with.iter().zip(&without).map(|(with, without)| with / without).collect())
    }

    /// Returns the difference with the profiler − without.
    pub fn difference(&self, pointer: &str) -> Option<Ratio> {
        let (without, with) = (self.of(false, pointer), self.of(true, pointer));
        if without.len() != with.len() {
            return None;
        }
        self.middle(with.iter().zip(&without).map(|(with, without)| with - without).collect())
    }

    fn middle(&self, numbers: Vec<f64>) -> Option<Ratio> {
        if self.trims { trimmed(numbers) } else { interval(numbers) }
    }

    /// Returns the number of turns.
    pub fn count(&self) -> usize {
        self.pairs.len()
    }

    /// Returns the turns for a file.
    pub fn to_json(&self) -> Value {
        let side = |with| self.values(with).cloned().collect::<Vec<_>>();
        json!({"without": side(false), "with": side(true)})
    }
}

/// Returns the median and its interval from the order of the numbers alone, whatever their
/// distribution.
fn interval(mut numbers: Vec<f64>) -> Option<Ratio> {
    numbers.sort_by(f64::total_cmp);
    let count = numbers.len();
    let median = middle(&numbers)?;
    let off = 0.98 * (count as f64).sqrt();
    let low = ((count as f64 / 2.0 - off).floor().max(1.0) as usize) - 1;
    Some(Ratio { median, low: numbers[low], high: numbers[count - 1 - low] })
}

/// Returns the mean without a fifth of the numbers at either end, and its interval (Yuen 1974),
/// from the spread of the rest with each omitted number replaced by the last one kept.
fn trimmed(mut numbers: Vec<f64>) -> Option<Ratio> {
    numbers.sort_by(f64::total_cmp);
    let count = numbers.len();
    let off = count / 5;
    let kept = numbers.get(off..count - off).filter(|kept| kept.len() > 2)?;
    let mean_of = |all: &[f64]| all.iter().sum::<f64>() / all.len() as f64;
    let median = mean_of(kept);
    let (first, last) = (kept[0], kept[kept.len() - 1]);
    let drawn_in: Vec<f64> = numbers.iter().map(|number| number.clamp(first, last)).collect();
    let centre = mean_of(&drawn_in);
    let squares: f64 = drawn_in.iter().map(|number| (number - centre).powi(2)).sum();
    let freedom = (kept.len() - 1) as f64;
    let error = (squares / (freedom * kept.len() as f64)).sqrt();
    let half = student(freedom) * error;
    Some(Ratio { median, low: median - half, high: median + half })
}

/// Returns the 97.5th percentile of Student's distribution, for two or more degrees of freedom,
/// within some percent (Abramowitz and Stegun 26.7.5).
fn student(freedom: f64) -> f64 {
    let z = 1.959_964_f64;
    let terms = [
        (z.powi(3) + z) / 4.0,
        (5.0 * z.powi(5) + 16.0 * z.powi(3) + 3.0 * z) / 96.0,
        (3.0 * z.powi(7) + 19.0 * z.powi(5) + 17.0 * z.powi(3) - 15.0 * z) / 384.0,
    ];
    let powers = (1..).map(|power| freedom.powi(power));
    z + terms.into_iter().zip(powers).map(|(term, power)| term / power).sum::<f64>()
}

/// Returns the median of sorted numbers.
pub fn middle(sorted: &[f64]) -> Option<f64> {
    let half = sorted.len() / 2;
    match sorted.len() {
        0 => None,
        count if count % 2 == 1 => Some(sorted[half]),
        _ => Some(f64::midpoint(sorted[half - 1], sorted[half])),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAN: Plan = Plan {
        least: 10,
        most: 40,
        time: Duration::from_secs(60),
        of: "/rate",
        width: 0.01,
        trims: false,
    };

    #[test]
    fn turns_end_at_a_narrow_interval_or_their_limit() {
        let steady = Turns::take(&PLAN, |with| Ok(json!({"rate": if with { 98 } else { 100 }})));
        let steady = steady.unwrap();
        assert_eq!(steady.count(), PLAN.least);
        assert_eq!(steady.ratio("/rate").unwrap().median, 0.98);
        assert_eq!(steady.difference("/rate").unwrap().median, -2.0);
        let mut number = 0;
        let wild = Turns::take(&PLAN, |_| {
            number += 1;
            Ok(json!({"rate": 100 + number * 37 % 50}))
        });
        assert_eq!(wild.unwrap().count(), PLAN.most);
    }

    #[test]
    fn each_side_is_first_about_as_often() {
        let (mut first, mut calls) = (0, 0);
        Turns::take(&PLAN, |with| {
            first += i32::from(with && calls % 2 == 0);
            calls += 1;
            Ok(json!({"rate": calls * calls % 17}))
        })
        .unwrap();
        assert!((10..=30).contains(&first), "{first} of 40");
    }

    #[test]
    fn turns_of_sides_cancel_steady_drift() {
        let mut sides = Vec::new();
        let mut clock = 0.0;
        let plan = Plan { least: 8, most: 8, trims: true, ..PLAN };
        let turns = Turns::take(&plan, |with| {
            sides.push(with);
            clock += 1.0;
            Ok(json!({"rate": 100.0 + clock}))
        })
        .unwrap();
        assert_eq!(sides[..8], [false, true, true, false, true, false, false, true]);
        assert!(turns.difference("/rate").unwrap().median.abs() < 1e-9);
    }

    #[test]
    fn trimmed_mean_resists_single_turns_with_yuens_interval() {
        let numbers = |last: f64| (1..10).map(f64::from).chain([last]).collect::<Vec<_>>();
        let (even, wild) = (trimmed(numbers(10.0)).unwrap(), trimmed(numbers(1e6)).unwrap());
        assert_eq!(even, wild);
        assert!((even.median - 5.5).abs() < 1e-12);
        // Squares of the numbers clamped to 3 and 8: 42.5; with five degrees of freedom 2.571.
        let half = 2.571 * (42.5_f64 / 30.0).sqrt();
        assert!((even.high - even.median - half).abs() < 0.02 * half, "{even:?}");
        assert_eq!(trimmed(vec![1.0, 2.0]), None);
    }

    #[test]
    fn the_interval_leaves_out_as_many_at_both_ends() {
        let ratio = interval((1..=30).map(f64::from).collect()).unwrap();
        assert_eq!(ratio, Ratio { median: 15.5, low: 9.0, high: 22.0 });
        let few = interval(vec![3.0, 1.0, 2.0]).unwrap();
        assert_eq!(few, Ratio { median: 2.0, low: 1.0, high: 3.0 });
        assert_eq!(interval(Vec::new()), None);
    }
}
