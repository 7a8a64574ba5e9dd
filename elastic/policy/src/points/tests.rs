//! Tests of resize points.

use proptest::prelude::*;

use super::Configuration::{Grid, Line};
use super::*;

fn sizes(topology: Topology, most: u32, start: Configuration) -> Vec<Configuration> {
    Growth { topology, most, valid: &|_| true }.from(start).collect()
}

fn square(difference: Option<u32>, divides: Option<u32>) -> Topology {
    Topology::NearlySquare { difference, divides }
}

#[test]
fn nearly_square_grids_are_those_of_the_dissertation() {
    let lu = sizes(square(None, Some(12000)), 20, Grid(2, 2));
    assert_eq!(lu, [Grid(2, 3), Grid(3, 3), Grid(3, 4), Grid(4, 4), Grid(4, 5)]);
    let mm = sizes(square(None, Some(14000)), 49, Grid(2, 2));
    assert_eq!(mm, [Grid(2, 4), Grid(4, 4), Grid(4, 5), Grid(5, 5), Grid(5, 7), Grid(7, 7)]);
    let table_2_3 = sizes(square(Some(1), Some(80)), 100, Grid(2, 2));
    assert_eq!(table_2_3, [Grid(4, 4), Grid(4, 5), Grid(5, 5), Grid(8, 8), Grid(10, 10)]);
    let wide = sizes(square(None, None), 20, Grid(2, 5));
    assert_eq!(wide, [Grid(3, 5), Grid(4, 5)], "the smaller dimension grows");
    assert_eq!(sizes(square(None, Some(4)), 1000, Grid(4, 4)), [], "no divisor is left");
}

#[test]
fn powers_of_two_double_and_others_grow_by_the_increment() {
    let fft = sizes(Topology::PowerOfTwo, 40, Line(2));
    assert_eq!(fft, [4, 8, 16, 32].map(Line));
    let worker = sizes(Topology::Arbitrary { increment: 2 }, 22, Line(4));
    assert_eq!(worker, [6, 8, 10, 12, 14, 16, 18, 20, 22].map(Line));
    let valid = |configuration: Configuration| 8000 % configuration.size() == 0;
    let topology = Topology::Arbitrary { increment: 2 };
    let jacobi = Growth { topology, most: 50, valid: &valid }.from(Line(4)).collect::<Vec<_>>();
    assert_eq!(jacobi, [8, 10, 16, 20, 32, 40, 50].map(Line));
    let near_the_end = Growth { topology, most: u32::MAX, valid: &|_| false };
    assert_eq!(near_the_end.next(Line(u32::MAX - 5)), None);
    assert_eq!(sizes(Topology::PowerOfTwo, u32::MAX, Line(1 << 31)), []);
}

#[test]
fn a_start_that_is_not_of_its_kind_is_refused() {
    let start = |topology: Topology, configuration| topology.start(configuration);
    assert!(start(Topology::PowerOfTwo, Line(8)).is_ok());
    assert!(start(Topology::PowerOfTwo, Line(6)).is_err());
    assert!(start(Topology::Arbitrary { increment: 0 }, Line(6)).is_err());
    assert!(start(Topology::Arbitrary { increment: 1 }, Line(0)).is_err());
    assert!(start(Topology::Arbitrary { increment: 1 }, Grid(2, 2)).is_err());
    assert!(start(square(None, None), Line(4)).is_err());
    assert!(start(square(None, Some(0)), Grid(1, 1)).is_err());
    assert!(start(square(None, Some(12)), Grid(3, 4)).is_ok());
    let wrong = start(square(None, Some(12)), Grid(3, 5)).unwrap_err();
    assert_eq!(
        wrong.to_string(),
        "start: expected a grid whose dimensions divide the data, got 3x5"
    );
    assert!(start(square(None, None), Grid(1 << 16, 1 << 16)).is_err());
}

/// LU of 16000 x 16000 (table 2.3): processors, seconds for an iteration, seconds for redistribution.
const TABLE_2_3: [(u32, f64, f64); 6] = [
    (4, 161.54, 0.0),
    (16, 63.49, 2.83),
    (20, 54.99, 1.38),
    (25, 46.59, 1.08),
    (64, 33.73, 1.52),
    (100, 28.32, 0.89),
];

fn table_2_3(rows: usize) -> History {
    let mut history = History::new(Line(TABLE_2_3[0].0));
    for (row, (size, seconds, redistribution)) in TABLE_2_3[..rows].iter().enumerate() {
        if row > 0 {
            history.resized(Line(*size), *redistribution).unwrap();
        }
        for _ in 0..3 {
            history.iteration(*seconds).unwrap();
        }
    }
    history
}

#[test]
fn times_are_kept_for_each_size_and_each_move() {
    let mut history = table_2_3(6);
    assert_eq!((history.start(), history.current(), history.resizes()), (Line(4), Line(100), 5));
    assert!((history.seconds(Line(25)).unwrap() - 46.59).abs() < 1e-9);
    assert_eq!(history.seconds(Line(36)), None);
    assert_eq!(history.redistribution(Line(4), Line(16)), Some(2.83));
    assert_eq!(history.redistribution(Line(16), Line(4)), None);
    assert!((history.redistribution_total() - 7.70).abs() < 1e-9);
    assert_eq!(history.last_resize_helped(), Some(true));
    history.resized(Line(25), 0.4).unwrap();
    assert_eq!(history.last_resize_helped(), None, "there is no time yet");
    history.iteration(40.0).unwrap();
    history.iteration(42.0).unwrap();
    assert_eq!(history.seconds(Line(25)), Some(41.0), "of the latest stay");
    assert_eq!(history.last_resize_helped(), Some(false));
    let visit = *history.visits().last().unwrap();
    assert_eq!((visit.reports, visit.last), (2, 42.0));
    let back: History = serde_json::from_str(&serde_json::to_string(&history).unwrap()).unwrap();
    assert_eq!(back, history);
}

#[test]
fn program_shrinks_only_to_earlier_sizes_above_its_start() {
    let mut history = table_2_3(4);
    let points = history.shrink_points();
    let list: Vec<(Configuration, u32)> =
        points.iter().map(|point| (point.configuration, point.relinquished)).collect();
    assert_eq!(list, [(Line(20), 5), (Line(16), 9), (Line(4), 21)], "least degradation first");
    assert!((points[0].slower_by - 8.40).abs() < 1e-9);
    assert!((points[2].factor - 161.54 / 46.59).abs() < 1e-9);
    history.resized(Line(2), 1.0).unwrap();
    assert!(history.shrink_points().is_empty(), "no time for the present size");
    history.iteration(300.0).unwrap();
    assert!(history.shrink_points().is_empty(), "it is below its start already");
    history.resized(Line(20), 1.0).unwrap();
    history.iteration(55.0).unwrap();
    let list: Vec<Configuration> =
        history.shrink_points().iter().map(|point| point.configuration).collect();
    assert_eq!(list, [Line(16), Line(4)], "2 is below the start");
}

#[test]
fn nothing_a_line_or_a_parabola_is_the_guess() {
    let predictor = Predictor { measure: Measure::Time, ..Predictor::default() };
    assert_eq!(predictor.potential(&table_2_3(1)), None);
    assert_eq!(predictor.potential(&table_2_3(2)), None, "one resize is too few");
    let line = predictor.potential(&table_2_3(3)).unwrap();
    assert!((line - (54.99 - 63.49) / 4.0).abs() < 1e-9);
    // Lagrange through (16, 63.49), (20, 54.99), (25, 46.59), differentiated at 25.
    let expected = 63.49 * 5.0 / 36.0 - 54.99 * 9.0 / 20.0 + 46.59 * 14.0 / 45.0;
    let parabola = predictor.potential(&table_2_3(4)).unwrap();
    assert!((parabola - expected).abs() < 1e-9, "{parabola} {expected}");
}

#[test]
fn threshold_window_and_measure_can_be_chosen() {
    let history = table_2_3(6);
    let speedup = Predictor::default();
    assert_eq!((speedup.window, speedup.threshold), (3, 0.2));
    let potential = speedup.potential(&history).unwrap();
    assert!(potential > 0.0 && potential < 0.2, "{potential}");
    assert_eq!(speedup.says_yes(&history), Some(false));
    assert_eq!(Predictor { threshold: 0.01, ..speedup }.says_yes(&history), Some(true));
    let early = table_2_3(4);
    assert_eq!(Predictor { threshold: 0.05, ..speedup }.says_yes(&early), Some(true));
    let time = Predictor { measure: Measure::Time, ..speedup };
    assert_eq!(time.says_yes(&early), Some(true), "1.58 s less for each processor");
    assert_eq!(Predictor { window: 1, ..speedup }.potential(&history), None);
    let rate = Predictor { measure: Measure::Rate, ..speedup }.potential(&history).unwrap();
    assert!((rate * 161.54 - potential).abs() < 1e-9);
}

#[test]
fn times_that_are_none_are_refused() {
    let mut history = table_2_3(2);
    let before = history.clone();
    for bad in [-1.0, f64::NAN, f64::INFINITY] {
        assert!(matches!(history.iteration(bad), Err(PointsError::BadTime { .. })));
        assert!(matches!(history.resized(Line(9), bad), Err(PointsError::BadTime { .. })));
    }
    assert_eq!(history, before);
}

#[test]
fn growth_is_seen_once_and_joiners_begin_at_one_iteration() {
    let mut points = ResizePoints::new(Line(2), 3).unwrap();
    let at: Vec<u64> = (0..9)
        .filter(|_| {
            let is_point = points.is_point();
            points.advance();
            is_point
        })
        .collect();
    assert_eq!(at, [2, 5, 8], "after every third iteration");
    points.decided(Decision::Expand(Line(4)));
    assert_eq!(points.decision(), Decision::Continue, "joiners are not there");
    points.resized().unwrap();
    points.advance();
    let mut joiner = points.for_joiners();
    assert_eq!(joiner.iteration(), points.iteration());
    for rank in [&mut points, &mut joiner] {
        assert_eq!((rank.old(), rank.current()), (Line(2), Line(4)));
        assert_eq!(rank.decision(), Decision::Expand(Line(4)));
        assert_eq!(rank.decision(), Decision::Continue);
    }
    points.redistributed(0.25).unwrap();
    assert_eq!(points.report(1.0).unwrap().redistribution_seconds, Some(0.25));
    assert_eq!(points.report(1.0).unwrap().redistribution_seconds, None);
    assert!(points.report(f64::NAN).is_err() && ResizePoints::new(Line(1), 0).is_err());
}

#[test]
fn shrinking_is_seen_until_done_and_abandoned_ones_never() {
    let mut points = ResizePoints::new(Grid(2, 4), 1).unwrap();
    points.decided(Decision::Shrink(Grid(2, 2)));
    assert_eq!(points.decision(), Decision::Shrink(Grid(2, 2)));
    assert_eq!(points.decision(), Decision::Shrink(Grid(2, 2)));
    points.resized().unwrap();
    assert_eq!((points.decision(), points.current()), (Decision::Continue, Grid(2, 2)));
    points.decided(Decision::Expand(Grid(3, 3)));
    points.abandoned();
    points.resized().unwrap();
    assert_eq!((points.decision(), points.current()), (Decision::Continue, Grid(2, 2)));
    points.decided(Decision::Expand(Grid(1, 2)));
    assert!(matches!(points.resized(), Err(PointsError::NotDecided { .. })), "that is no growth");
    assert_eq!(points.current(), Grid(2, 2));
    points.rearranged(Grid(4, 1)).unwrap();
    assert!(points.rearranged(Grid(4, 2)).is_err());
}

proptest! {
    #[test]
    fn what_follows_is_larger_valid_and_of_its_kind(
        kind in 0..3u8, increment in 1..9u32, difference in proptest::option::of(0..4u32),
        divides in proptest::option::of(1..400u32), start in (1..9u32, 1..9u32), most in 1..300u32, modulus in 1..5u32,
    ) {
        let (topology, start) = match kind {
            0 => (Topology::Arbitrary { increment }, Line(start.0)),
            1 => (Topology::PowerOfTwo, Line(start.0)),
            _ => (square(difference, divides), Grid(start.0, start.1)),
        };
        let valid = |configuration: Configuration| configuration.size().is_multiple_of(modulus);
        let mut last = start;
        for next in (Growth { topology, most, valid: &valid }).from(start) {
            prop_assert!(next.size() > last.size() && next.size() <= most && valid(next));
            let (rows, columns) = next.dimensions();
            match topology {
                Topology::Arbitrary { increment } => prop_assert_eq!((next.size() - last.size()) % increment, 0),
                Topology::PowerOfTwo => prop_assert!(next.size().is_power_of_two()),
                Topology::NearlySquare { difference, .. } => {
                    prop_assert!(difference.is_none_or(|most| rows.abs_diff(columns) <= most));
                    let (old_rows, old_columns) = last.dimensions();
                    prop_assert!(rows >= old_rows && columns >= old_columns);
                    if let Some(whole) = divides {
                        prop_assert!(rows == old_rows || whole % rows == 0);
                        prop_assert!(columns == old_columns || whole % columns == 0);
                    }
                }
            }
            last = next;
        }
    }

    #[test]
    fn a_parabola_is_found_again(
        a in -5.0..5.0f64, b in -5.0..5.0f64, c in -5.0..5.0f64,
        places in proptest::collection::btree_set(1..2000u32, 3..8), at in 1..2000u32,
    ) {
        let points: Vec<(f64, f64)> = places.iter().map(|x| {
            let x = f64::from(*x);
            (x, a + b * x + c * x * x)
        }).collect();
        let expected = b + 2.0 * c * f64::from(at);
        let found = slope(&points, f64::from(at)).unwrap();
        let span = f64::from(places.last().unwrap() - places.first().unwrap());
        let scale = 4_000.0 * 4_000.0 * 2_000.0 / (span * span);
        prop_assert!((found - expected).abs() <= 1e-9 * scale.max(1.0), "{} {}", found, expected);
    }

    #[test]
    fn no_points_make_it_fail(points in proptest::collection::vec((any::<f64>(), any::<f64>()), 0..6), at in any::<f64>()) {
        prop_assert!(slope(&points, at).is_none_or(f64::is_finite));
    }
}

#[test]
fn withdrawn_shrinking_brings_the_data_back_once() {
    let mut points = ResizePoints::new(Line(4), 1).unwrap();
    points.decided(Decision::Shrink(Line(2)));
    assert_eq!(points.shrinks(), Some(Line(2)));
    points.taken_back();
    assert_eq!((points.old(), points.current(), points.shrinks()), (Line(2), Line(4), None));
    assert_eq!(points.decision(), Decision::Expand(Line(4)));
    assert_eq!(points.decision(), Decision::Continue);
}
