use super::*;
use proptest::prelude::*;

const MIB: f64 = 1_048_576.0;
const LEAST: f64 = 65_536.0;

/// Returns a series over iterations 0, 10, 20 and so on.
fn series(count: usize, bytes: impl Fn(usize) -> f64) -> Vec<Point> {
    (0..count).map(|at| Point { at: 10.0 * at as f64, bytes: bytes(at) }).collect()
}

/// Returns a number between -1 and 1 that depends on the position only.
fn random(seed: u64, at: usize) -> f64 {
    let mut word = (at as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ seed;
    word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    (word >> 11) as f64 / (1_u64 << 52) as f64 - 1.0
}

fn grows(points: &[Point]) -> bool {
    judge(points, LEAST).slope().is_some()
}

#[test]
fn constant_growth_has_its_slope() {
    let points = series(100, |at| 50.0 * MIB + at as f64 * MIB);
    let Verdict::Grows(slope) = judge(&points, LEAST) else { panic!("it grows") };
    for bytes in [slope.bytes, slope.low, slope.high] {
        assert!((bytes - MIB / 10.0).abs() < 1.0, "{slope:?}");
    }
}

#[test]
fn limit_is_passed_within_the_interval_of_the_slope() {
    let slope = Slope { bytes: 10.0, low: 5.0, high: 20.0 };
    let passing = slope.passing(Point { at: 100.0, bytes: 1000.0 }, 2000.0);
    assert_eq!(passing, Some(Passing { at: 200.0, earliest: 150.0, latest: 300.0 }));
    let passed = slope.passing(Point { at: 100.0, bytes: 3000.0 }, 2000.0).map(|one| one.at);
    assert_eq!(passed, Some(100.0));
    assert_eq!(Slope { low: -1.0, ..slope }.passing(Point { at: 0.0, bytes: 0.0 }, 1.0), None);
}

#[test]
fn few_points_are_too_short_to_tell() {
    for count in 0..15 {
        let points = series(count, |at| at as f64 * MIB);
        assert_eq!(judge(&points, LEAST), Verdict::TooShort, "{count}");
    }
    assert!(grows(&series(16, |at| at as f64 * MIB)));
    let at_once = vec![Point { at: 3.0, bytes: MIB }; 40];
    assert_eq!(judge(&at_once, LEAST), Verdict::TooShort);
}

#[test]
fn growth_of_the_start_alone_is_none() {
    let points = series(80, |at| (at.min(15) as f64) * MIB);
    assert_eq!(judge(&points, LEAST), Verdict::Steady);
}

#[test]
fn cache_that_fills_up_has_ended_growing() {
    let points = series(120, |at| (at.min(70) as f64) * MIB);
    let Verdict::Ended { until, bytes } = judge(&points, LEAST) else { panic!("it has ended") };
    assert!((650.0..=700.0).contains(&until), "{until}");
    assert!((bytes / MIB - 40.0).abs() < 2.0, "{bytes}");
}

#[test]
fn growth_that_ended_at_the_very_end_is_not_certain() {
    for full_at in 84..110 {
        let points = series(120, |at| (at.min(full_at) as f64) * MIB);
        let verdict = judge(&points, LEAST);
        assert!(verdict.slope().is_none(), "{full_at}: {verdict:?}");
    }
}

#[test]
fn jump_is_no_growth_to_the_end() {
    for at_jump in 30..110 {
        let points = series(120, |at| if at < at_jump { MIB } else { 40.0 * MIB });
        let verdict = judge(&points, LEAST);
        assert!(verdict.slope().is_none(), "{at_jump}: {verdict:?}");
    }
}

#[test]
fn approach_to_a_bound_is_ended_or_slower() {
    for constant in [10.0, 20.0, 30.0, 45.0, 60.0] {
        let points = series(120, |at| 100.0 * MIB * (1.0 - (-(at as f64) / constant).exp()));
        let verdict = judge(&points, LEAST);
        assert!(!matches!(verdict, Verdict::Grows(_)), "{constant} {verdict:?}");
    }
}

#[test]
fn growth_in_steps_has_the_mean_slope() {
    let points = series(160, |at| (at / 8) as f64 * 8.0 * MIB);
    let verdict = judge(&points, LEAST);
    let slope = verdict.slope().unwrap_or_else(|| panic!("{verdict:?}"));
    assert!((slope.bytes / (MIB / 10.0) - 1.0).abs() < 0.1, "{slope:?}");
}

#[test]
fn single_outliers_do_not_change_the_slope() {
    let points = series(100, |at| {
        let extra = if at % 17 == 3 { 500.0 * MIB } else { 0.0 };
        at as f64 * MIB + extra
    });
    let slope = judge(&points, LEAST).slope().expect("it grows");
    assert!((slope.bytes / (MIB / 10.0) - 1.0).abs() < 0.05, "{slope:?}");
}

#[test]
fn growth_with_a_saw_tooth_on_it_is_seen() {
    let points = series(150, |at| at as f64 * MIB + (at % 7) as f64 * 5.0 * MIB);
    let slope = judge(&points, LEAST).slope().expect("it grows");
    assert!((slope.bytes / (MIB / 10.0) - 1.0).abs() < 0.15, "{slope:?}");
}

/// Returns the sum of samples that stand for 8 MiB each, one for every 8 MiB on average.
fn estimate(count: usize, full_at: usize, seed: u64) -> Vec<Point> {
    let sampled = |at: usize| random(seed, at) > 0.0 && at < full_at;
    let mut sum = 0.0;
    series(count, |at| f64::from(u8::from(sampled(at))) * 8.0 * MIB)
        .into_iter()
        .map(|point| {
            sum += point.bytes;
            Point { bytes: sum, ..point }
        })
        .collect()
}

#[test]
fn sum_of_samples_grows_though_it_pauses_by_chance() {
    let found = |full_at: usize| {
        (0..200).filter_map(move |seed| judge_samples(&estimate(160, full_at, seed), LEAST).slope())
    };
    assert_eq!(found(160).count(), 200);
    let is_in = |slope: &Slope| (slope.low..=slope.high).contains(&(0.4 * MIB));
    assert!(found(160).filter(is_in).count() >= 195);
    assert_eq!(found(120).count(), 0);
    let as_exact = (0..200).filter(|seed| !grows(&estimate(160, 160, *seed)));
    assert!(as_exact.count() > 0, "no series pauses");
}

#[test]
fn samples_that_come_and_go_do_not_grow() {
    for seed in 0..200 {
        let points = series(160, |at| 8.0 * MIB * (10.0 + 10.0 * random(seed, at)));
        let verdict = judge_samples(&points, LEAST);
        assert!(verdict.slope().is_none(), "{seed}: {verdict:?}");
    }
    assert_eq!(judge_samples(&series(15, |at| at as f64 * MIB), LEAST), Verdict::TooShort);
    assert_eq!(judge_samples(&series(60, |at| at as f64), LEAST), Verdict::Steady);
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(400) })]

    #[test]
    fn slope_under_noise_is_in_its_interval(
        seed: u64, count in 40_usize..180, slope in 0.05_f64..20.0, share in 0.0_f64..0.05,
    ) {
        let whole = slope * count as f64 * 10.0 * MIB;
        let points =
            series(count, |at| whole + 10.0 * at as f64 * slope * MIB + share * whole * random(seed, at));
        let verdict = judge(&points, LEAST);
        let (Verdict::Grows(found) | Verdict::Slowing(found) | Verdict::Unclear(found)) = verdict else {
            return Err(TestCaseError::fail(format!("{verdict:?}")));
        };
        // An interval of 99 % misses some of many; it never misses by much.
        let margin = (found.high - found.low) / 2.0 + 1e-6 * slope * MIB;
        prop_assert!((found.low - margin..=found.high + margin).contains(&(slope * MIB)), "{:?}", found);
    }

    #[test]
    fn noise_without_a_trend_does_not_grow(
        seed: u64, count in 16_usize..180, amplitude in 0.0_f64..1000.0,
    ) {
        let points = series(count, |at| 2000.0 * MIB + amplitude * MIB * random(seed, at));
        // By chance, one series in two hundred seems to rise at each end of the interval.
        let verdict = judge(&points, LEAST);
        let is_far = verdict.slope().is_some_and(|slope| {
            slope.low * 10.0 * count as f64 > amplitude * MIB / 2.0
        });
        prop_assert!(!is_far, "{:?}", verdict);
    }

    #[test]
    fn saw_tooth_of_any_period_does_not_grow(
        count in 60_usize..180, period in 2_usize..30, shift in 0_usize..30, height in 1.0_f64..500.0,
    ) {
        let points = series(count, |at| {
            100.0 * MIB + height * MIB * ((at + shift) % period) as f64 / period as f64
        });
        prop_assert!(!grows(&points), "{:?}", judge(&points, LEAST));
    }

    #[test]
    fn wave_of_several_periods_does_not_grow(
        count in 60_usize..180, waves in 2.5_f64..40.0, shift in 0.0_f64..6.3, height in 1.0_f64..500.0,
    ) {
        let points = series(count, |at| {
            let turn = std::f64::consts::TAU * waves * at as f64 / count as f64;
            1000.0 * MIB + height * MIB * (turn + shift).sin()
        });
        prop_assert!(!grows(&points), "{:?}", judge(&points, LEAST));
    }

    #[test]
    fn cache_with_noise_is_not_accused(
        seed: u64, count in 60_usize..180, filled in 0.3_f64..0.6, noise in 0.0_f64..0.02,
    ) {
        let full = filled * count as f64;
        let points = series(count, |at| {
            100.0 * MIB * ((at as f64).min(full) / full + noise * random(seed, at))
        });
        prop_assert!(!grows(&points), "{:?}", judge(&points, LEAST));
    }

    #[test]
    fn any_series_has_a_verdict(
        values in prop::collection::vec((0.0_f64..1e6, 0.0_f64..1e15), 0..60), least in 0.0_f64..1e9,
    ) {
        let mut points: Vec<Point> =
            values.into_iter().map(|(at, bytes)| Point { at, bytes }).collect();
        points.sort_by(|one, other| one.at.total_cmp(&other.at));
        if let Some(slope) = judge(&points, least).slope() {
            prop_assert!(0.0 < slope.low && slope.low <= slope.bytes && slope.bytes <= slope.high);
        }
    }
}
