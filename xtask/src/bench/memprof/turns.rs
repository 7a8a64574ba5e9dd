//! Turns of the same program without and with the profiler, one shortly after the other: what drifts on a
//! machine is the same for both of a turn, so that the ratios of turns differ less than what they are of.

use std::time::{Duration, Instant};

use anyhow::Result;
use serde_json::{Value, json};

/// How often, and until when.
#[derive(Copy, Clone)]
pub struct Plan {
    /// At least so many turns.
    pub least: usize,
    /// No more than these.
    pub most: usize,
    /// No more are begun after this time.
    pub time: Duration,
    /// Where the number is whose ratio is to be known.
    pub of: &'static str,
    /// Half the width of the interval for its median that is narrow enough.
    pub width: f64,
}

/// What both of each turn measured.
#[derive(Default)]
pub struct Turns {
    pairs: Vec<[Value; 2]>,
}

/// The median of the ratios of the turns, and an interval that holds the true one in 95 of 100 cases.
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
        let (mut turns, began) = (Turns::default(), Instant::now());
        while turns.pairs.len() < plan.most {
            let known = turns.ratio(plan.of).is_some_and(|ratio| ratio.half_width() <= plan.width);
            if turns.pairs.len() >= plan.least && (known || began.elapsed() > plan.time) {
                break;
            }
            // Who is first is as good as drawn, and the same in every run.
            let with_first = ((turns.pairs.len() * 2_654_435_761) >> 7) & 1 == 1;
            let first = one(with_first)?;
            let second = one(!with_first)?;
            turns.pairs.push(if with_first { [second, first] } else { [first, second] });
        }
        Ok(turns)
    }

    /// Turns that were taken elsewhere, each without and with the profiler.
    pub fn of_pairs(pairs: Vec<[Value; 2]>) -> Turns {
        Turns { pairs }
    }

    /// Numbers at a JSON pointer, of the turns that have them: without and with the profiler.
    pub fn of(&self, with: bool, pointer: &str) -> Vec<f64> {
        let values = self.pairs.iter().map(|pair| &pair[usize::from(with)]);
        values.filter_map(|value| value.pointer(pointer)?.as_f64()).collect()
    }

    /// What was measured with the profiler or without, of each turn.
    pub fn values(&self, with: bool) -> impl Iterator<Item = &Value> {
        self.pairs.iter().map(move |pair| &pair[usize::from(with)])
    }

    /// With the profiler ÷ without.
    pub fn ratio(&self, pointer: &str) -> Option<Ratio> {
        let (without, with) = (self.of(false, pointer), self.of(true, pointer));
        if without.len() != with.len() {
            return None;
        }
        interval(with.iter().zip(&without).map(|(with, without)| with / without).collect())
    }

    /// With the profiler less without.
    pub fn difference(&self, pointer: &str) -> Option<Ratio> {
        let (without, with) = (self.of(false, pointer), self.of(true, pointer));
        if without.len() != with.len() {
            return None;
        }
        interval(with.iter().zip(&without).map(|(with, without)| with - without).collect())
    }

    /// How many.
    pub fn count(&self) -> usize {
        self.pairs.len()
    }

    /// For a file.
    pub fn to_json(&self) -> Value {
        let side = |with| self.values(with).cloned().collect::<Vec<_>>();
        json!({"without": side(false), "with": side(true)})
    }
}

/// By the order of the numbers alone, whatever they are distributed like.
fn interval(mut numbers: Vec<f64>) -> Option<Ratio> {
    numbers.sort_by(f64::total_cmp);
    let count = numbers.len();
    let median = middle(&numbers)?;
    let off = 0.98 * (count as f64).sqrt();
    let low = ((count as f64 / 2.0 - off).floor().max(1.0) as usize) - 1;
    Some(Ratio { median, low: numbers[low], high: numbers[count - 1 - low] })
}

/// The median of numbers in order.
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

    const PLAN: Plan =
        Plan { least: 10, most: 40, time: Duration::from_secs(60), of: "/rate", width: 0.01 };

    #[test]
    fn turns_end_when_the_interval_is_narrow_or_there_were_enough() {
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
    fn the_interval_leaves_out_as_many_at_both_ends() {
        let ratio = interval((1..=30).map(f64::from).collect()).unwrap();
        assert_eq!(ratio, Ratio { median: 15.5, low: 9.0, high: 22.0 });
        let few = interval(vec![3.0, 1.0, 2.0]).unwrap();
        assert_eq!(few, Ratio { median: 2.0, low: 1.0, high: 3.0 });
        assert_eq!(interval(Vec::new()), None);
    }
}
