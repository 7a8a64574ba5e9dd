//! Axes with round steps, in a suitable unit.

const KIB: f64 = 1024.0;

/// Units of bytes, the largest first.
const BYTE_UNITS: [(f64, &str); 5] = [
    (KIB * KIB * KIB * KIB, "TiB"),
    (KIB * KIB * KIB, "GiB"),
    (KIB * KIB, "MiB"),
    (KIB, "KiB"),
    (1.0, "B"),
];

/// Units of time in nanoseconds, the largest first.
const TIME_UNITS: [(f64, &str); 6] =
    [(3600e9, "h"), (60e9, "min"), (1e9, "s"), (1e6, "ms"), (1e3, "µs"), (1.0, "ns")];

fn unit(value: f64, units: &[(f64, &'static str)]) -> (f64, &'static str) {
    // 999.6 would be written as 1000, so the next unit is used.
    units.iter().copied().find(|(size, _)| value >= size * 0.9995).unwrap_or(units[units.len() - 1])
}

/// Marks of an axis from 0 or from a start, all in one unit.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Axis {
    /// Position and label of each mark.
    pub ticks: Vec<(f64, String)>,
    /// Unit of the labels.
    pub unit: &'static str,
    /// End of the axis.
    pub end: f64,
}

/// Returns an axis of bytes from 0 to at least `most`, with about `wanted` marks.
pub(super) fn byte_axis(most: u64, wanted: usize) -> Axis {
    let most = (most.max(1) as f64).max(16.0);
    let (size, unit) = unit(most, &BYTE_UNITS);
    let step = round_step(most / size / wanted.max(1) as f64, &[1.0, 2.0, 2.5, 5.0, 10.0]);
    let step = if unit == "B" { step.ceil() } else { step };
    let count = (most / size / step).ceil().max(1.0);
    Axis {
        ticks: (0..=count as usize)
            .map(|index| (index as f64 * step * size, mark(index as f64 * step, step)))
            .collect(),
        unit,
        end: count * step * size,
    }
}

/// Returns the first and the last of some times, at least a nanosecond apart, also at the largest
/// time.
pub(super) fn span(times: &[u64]) -> (u64, u64) {
    let from = times.first().copied().unwrap_or(0).min(u64::MAX - 1);
    (from, times.last().copied().unwrap_or(0).max(from + 1))
}

/// Returns a time axis over `from..to` in nanoseconds, with about `wanted` marks inside; without
/// marks where such large numbers cannot be distinguished.
pub(super) fn time_axis(from: u64, to: u64, wanted: usize) -> Axis {
    let (from, to) = (from as f64, to as f64);
    let (size, unit) = unit(to.max(1.0), &TIME_UNITS);
    if from >= to {
        return Axis { ticks: Vec::new(), unit, end: to };
    }
    let rough = (to - from) / size / wanted.max(1) as f64;
    let step = match unit {
        // Fifteen minutes are a round number, twenty-five are not.
        "h" | "min" if rough >= 1.0 => round_step(rough, &[1.0, 2.0, 5.0, 10.0, 15.0, 30.0, 60.0]),
        _ => round_step(rough, &[1.0, 2.0, 5.0, 10.0]),
    };
    let first = (from / size / step).ceil() as i64;
    let last = (to / size / step + 1e-9).floor() as i64;
    let ticks = (first..=last)
        .map(|index| (index as f64 * step * size, mark(index as f64 * step, step)))
        .collect();
    Axis { ticks, unit, end: to }
}

/// Returns the smallest round number that is at least `rough`: one of `choices` times a power of
/// ten.
fn round_step(rough: f64, choices: &[f64]) -> f64 {
    let largest = choices.iter().copied().fold(1.0, f64::max);
    let power =
        if rough > largest || rough < 1.0 { 10f64.powf(rough.log10().floor()) } else { 1.0 };
    let decimal = [1.0, 2.0, 2.5, 5.0, 10.0];
    let choices = if power == 1.0 { choices } else { &decimal };
    choices
        .iter()
        .map(|choice| choice * power)
        .find(|step| *step >= rough * 0.999)
        .unwrap_or(largest * power)
}

/// Returns the number of rows from one named row to the next, at least `least`, so that the named
/// ranks are round numbers; a row has `per_row` ranks.
pub(super) fn row_step(per_row: usize, least: usize) -> usize {
    let mut ranks = per_row * least;
    while ranks <= 4 * per_row * least {
        ranks = quo_svg::round_step(ranks as f64) as usize;
        if ranks.is_multiple_of(per_row) {
            return ranks / per_row;
        }
        ranks += 1;
    }
    least
}

fn mark(value: f64, step: f64) -> String {
    let places = (0..6).find(|places| {
        let scaled = step * 10f64.powi(*places);
        (scaled - scaled.round()).abs() < 1e-6
    });
    format!("{value:.*}", places.unwrap_or(6) as usize)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn an_axis_of_minutes_has_marks_at_quarters() {
        let axis = time_axis(0, 3_500_000_000_000, 5);
        assert_eq!(axis.unit, "min");
        assert_eq!(
            axis.ticks.iter().map(|tick| tick.1.as_str()).collect::<Vec<_>>(),
            ["0", "15", "30", "45"]
        );
    }

    #[test]
    fn named_rows_are_round_ranks_or_as_near_as_asked() {
        assert_eq!(
            [row_step(1, 1), row_step(1, 2), row_step(1, 3), row_step(1, 14)],
            [1, 2, 5, 20]
        );
        // Four ranks in a row: 0, 100, 200; three: no round number within reach.
        assert_eq!([row_step(4, 7), row_step(3, 7)], [25, 7]);
    }

    #[test]
    fn axis_at_the_end_of_time_has_one_valid_mark() {
        assert_eq!(span(&[]), (0, 1));
        assert_eq!(span(&[7, 7]), (7, 8));
        assert_eq!(span(&[u64::MAX; 3]), (u64::MAX - 1, u64::MAX));
        for times in [[u64::MAX; 2], [1 << 60; 2], [u64::MAX - 5000, u64::MAX]] {
            let (from, to) = span(&times);
            let axis = time_axis(from, to, 5);
            assert!(axis.ticks.len() < 32, "{axis:?}");
            assert!(axis.ticks.iter().all(|tick| tick.0.is_finite()), "{axis:?}");
        }
    }

    proptest! {
        #[test]
        fn byte_axis_reaches_the_largest_value_with_few_marks(most in 0u64..1 << 60, wanted in 2usize..9) {
            let axis = byte_axis(most, wanted);
            prop_assert!(axis.end >= most as f64);
            prop_assert!(axis.end <= (most as f64).max(16.0) * 2.1);
            prop_assert!((2..=wanted + 2).contains(&axis.ticks.len()), "{axis:?}");
            let distinct: std::collections::BTreeSet<_> = axis.ticks.iter().map(|tick| &tick.1).collect();
            prop_assert_eq!(distinct.len(), axis.ticks.len());
        }

        #[test]
        fn marks_of_a_time_axis_lie_within_it(from in 0u64..1 << 50, span in 1u64..1 << 50, wanted in 2usize..12) {
            let axis = time_axis(from, from + span, wanted);
            prop_assert!(axis.ticks.len() <= wanted + 2, "{axis:?}");
            for (place, _) in &axis.ticks {
                prop_assert!(*place >= from as f64 * 0.999_999 && *place <= (from + span) as f64 * 1.000_001);
            }
        }
    }
}
