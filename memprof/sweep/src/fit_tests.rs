use super::*;
use proptest::prelude::*;

const COUNTS: [f64; 6] = [1.0, 2.0, 4.0, 8.0, 16.0, 32.0];

fn measured(counts: &[f64], law: impl Fn(f64) -> f64) -> Vec<Measured> {
    counts.iter().map(|ranks| Measured { ranks: *ranks, bytes: law(*ranks) }).collect()
}

fn near(one: f64, other: f64, within: f64) -> bool {
    (one - other).abs() <= within
}

proptest! {
    #[test]
    fn what_does_not_grow_is_constant(fixed in 0f64..1e12, noise in prop::collection::vec(-1000f64..1000.0, 6)) {
        let points: Vec<_> = COUNTS.iter().zip(&noise).map(|(ranks, noise)| Measured { ranks: *ranks, bytes: fixed + noise }).collect();
        let fit = fit(&points).unwrap();
        prop_assert_eq!(fit.law, Law::Constant);
        prop_assert!(near(fit.fixed.value, fixed, 1000.0));
    }

    #[test]
    fn growth_by_ranks_is_found_with_its_coefficients(fixed in 0f64..1e10, each in 1e4f64..1e8, size in 3usize..7) {
        let fit = fit(&measured(&COUNTS[..size], |ranks| fixed + each * ranks)).unwrap();
        prop_assert_eq!(fit.law, Law::Linear, "{:?}", fit);
        prop_assert!(near(fit.per_rank.unwrap().value, each, each * 1e-6 + fixed * 1e-9));
        prop_assert!(near(fit.fixed.value, fixed, fixed * 1e-6 + each * 1e-5 + 1.0));
    }

    #[test]
    fn growth_by_doublings_is_told_from_growth_by_ranks(fixed in 0f64..1e9, each in 1e5f64..1e8, size in 4usize..7) {
        let fit = fit(&measured(&COUNTS[..size], |ranks| fixed + each * ranks.log2())).unwrap();
        prop_assert_eq!(fit.law, Law::Logarithmic, "{:?}", fit);
        prop_assert!(near(fit.per_doubling.unwrap().value, each, each * 1e-6 + fixed * 1e-9));
    }

    #[test]
    fn shared_out_problem_is_told_from_one_that_halves(
        fixed in 0f64..1e9, whole in 1e7f64..1e10, size in 4usize..7,
    ) {
        let fit = fit(&measured(&COUNTS[..size], |ranks| fixed + whole / ranks)).unwrap();
        prop_assert_eq!(fit.law, Law::Divided, "{:?}", fit);
        prop_assert!(near(fit.divided.unwrap().value, whole, whole * 1e-6 + fixed * 1e-9));
    }

    #[test]
    fn both_kinds_of_growth_are_found_together(fixed in 0f64..1e8, rank in 1e5f64..1e7, doubling in 1e6f64..1e8) {
        let fit = fit(&measured(&COUNTS, |ranks| fixed + rank * ranks + doubling * ranks.log2())).unwrap();
        prop_assert!(fit.residual < 0.2 * (rank + doubling), "{fit:?}");
        for ranks in COUNTS {
            let real = fixed + rank * ranks + doubling * ranks.log2();
            prop_assert!(near(fit.at(ranks), real, real * 0.25));
        }
    }

    #[test]
    fn noise_below_the_growth_does_not_bring_in_more_terms(
        each in 1e6f64..1e8, noise in prop::collection::vec(-0.01f64..0.01, 6),
    ) {
        let points: Vec<_> = COUNTS.iter().zip(&noise)
            .map(|(ranks, noise)| Measured { ranks: *ranks, bytes: 1e7 + each * ranks * (1.0 + noise) }).collect();
        let fit = fit(&points).unwrap();
        let real = 1e7 + each * 24.0;
        prop_assert!(near(fit.at(24.0), real, real * 0.1), "{fit:?}");
    }

    #[test]
    fn the_order_of_points_does_not_matter(values in prop::collection::vec(0f64..1e9, 6), shift in 0usize..6) {
        let points: Vec<_> = COUNTS.iter().zip(&values).map(|(ranks, bytes)| Measured { ranks: *ranks, bytes: *bytes }).collect();
        let mut turned = points.clone();
        turned.rotate_left(shift);
        let (one, other) = (fit(&points).unwrap(), fit(&turned).unwrap());
        prop_assert_eq!(one.law, other.law);
        prop_assert!(near(one.at(7.0), other.at(7.0), one.at(7.0).abs() * 1e-6 + 1e-3));
    }

    #[test]
    fn result_of_any_measurement_is_finite_or_unknown(
        points in prop::collection::vec((1u32..100_000, 0f64..1e15), 1..12), at in 1u32..1_000_000,
    ) {
        let points: Vec<_> = points.iter().map(|(ranks, bytes)| Measured { ranks: f64::from(*ranks), bytes: *bytes }).collect();
        let fit = fit(&points).unwrap();
        let prediction = fit.predict(f64::from(at));
        prop_assert!(prediction.bytes.is_finite());
        prop_assert!(prediction.plus_minus.is_none_or(|by| by.is_finite() && by >= 0.0));
        prop_assert_eq!(prediction.extrapolated, f64::from(at) < fit.range.0 || f64::from(at) > fit.range.1);
    }
}

#[test]
fn one_number_of_ranks_says_nothing_about_growth() {
    let fit = fit(&measured(&[4.0], |_| 1e6)).unwrap();
    assert_eq!((fit.law, fit.per_rank, fit.is_tested()), (Law::Constant, None, false));
    assert!(fit.predict(8.0).extrapolated && fit.predict(8.0).plus_minus.is_none());
}

#[test]
fn two_rank_counts_give_a_line_marked_untested() {
    let fit = fit(&measured(&[2.0, 4.0], |ranks| 1e6 * ranks)).unwrap();
    assert_eq!((fit.law, fit.is_tested()), (Law::Linear, false));
    assert_eq!(fit.per_rank.unwrap().plus_minus, None);
}

#[test]
fn scatter_as_large_as_the_differences_is_no_growth() {
    let bytes =
        [(2.0, 1.00e7), (2.0, 1.10e7), (2.0, 1.05e7), (4.0, 1.08e7), (4.0, 1.02e7), (4.0, 1.12e7)];
    let points: Vec<_> =
        bytes.iter().map(|(ranks, bytes)| Measured { ranks: *ranks, bytes: *bytes }).collect();
    assert_eq!(fit(&points).unwrap().law, Law::Constant);
}

#[test]
fn the_interval_of_a_known_line_is_the_textbooks() {
    // y = 2, 4, 5, 4, 5 at x = 1..5: slope 0.6, its standard error 0.2828, three degrees of freedom.
    let points: Vec<_> = [2.0, 4.0, 5.0, 4.0, 5.0]
        .iter()
        .enumerate()
        .map(|(at, bytes)| Measured { ranks: at as f64 + 1.0, bytes: *bytes })
        .collect();
    let fit = fit_law(Law::Linear, &points, &[1.0, 2.0, 3.0, 4.0, 5.0]).unwrap();
    let slope = fit.per_rank.unwrap();
    assert!(
        near(slope.value, 0.6, 1e-9) && near(slope.plus_minus.unwrap(), 3.182 * 0.282_842_7, 1e-3),
        "{slope:?}"
    );
    assert!(near(fit.fixed.value, 2.2, 1e-9));
}

#[test]
fn what_is_no_number_is_no_measurement() {
    assert_eq!(fit(&[]), None);
    for (ranks, bytes) in [(0.0, 1.0), (1.0, f64::NAN), (f64::INFINITY, 1.0)] {
        assert_eq!(fit(&[Measured { ranks, bytes }]), None);
    }
}

#[test]
fn students_quantile_falls_smoothly_to_the_normal_one() {
    for (freedom, wanted) in [(1, 12.706), (12, 2.179), (13, 2.160), (30, 2.042), (1000, 1.962)] {
        assert!(near(student(freedom), wanted, 0.004), "{freedom}: {}", student(freedom));
    }
}

#[test]
fn three_rank_counts_show_clear_growth_and_doubt_one_step() {
    let law = |bytes: [f64; 3]| {
        let points = [1.0, 2.0, 4.0].into_iter().zip(bytes);
        let points: Vec<_> =
            points.map(|(ranks, mib)| Measured { ranks, bytes: mib * 1048576.0 }).collect();
        fit(&points).unwrap().law
    };
    assert_eq!(law([64.5, 144.0, 372.0]), Law::Linear);
    assert_eq!(law([0.0, 0.0, 0.9]), Law::Constant);
    assert_eq!(law([1.78, 17.8, 1.88]), Law::Constant);
    assert_eq!(law([1.93, 1.95, 2.27]), Law::Constant);
}
