use super::*;
use proptest::prelude::*;

fn one(start_ns: u64, bin_ns: u64, values: &[u64]) -> Timeline {
    Timeline {
        start_ns,
        bin_ns,
        bins: values.len(),
        series: vec![Series {
            name: "app.exe".into(),
            group: Group::Application,
            mean: values.to_vec(),
            low: values.to_vec(),
            high: values.to_vec(),
            owned: values.to_vec(),
            floor: values.to_vec(),
            ceiling: values.to_vec(),
            private_high: values.to_vec(),
            shared_high: vec![0; values.len()],
        }],
        ..Timeline::default()
    }
}

#[test]
fn two_processes_on_one_axis_add_up_where_both_lived() {
    let mut sum = Timeline::axis(0, 40, 4);
    sum.accumulate(&one(0, 10, &[1, 2, 3, 4]));
    sum.accumulate(&one(20, 10, &[10, 10]));
    assert_eq!(sum.series[0].mean, [1, 2, 13, 14]);
    assert_eq!(sum.totals(), [1, 2, 13, 14]);
}

#[test]
fn ceilings_of_all_components_add_up_by_bin() {
    let mut sum = one(0, 10, &[1, 2]);
    sum.series.extend(one(0, 10, &[10, 20]).series);
    sum.series[0].ceiling = vec![3, 4];
    assert_eq!(sum.ceilings(), [13, 24]);
}

#[test]
fn finer_bins_are_averaged_and_their_extremes_kept() {
    let mut sum = Timeline::axis(0, 40, 2);
    sum.accumulate(&one(0, 10, &[0, 8, 2, 2]));
    assert_eq!(sum.series[0].mean, [4, 2]);
    assert_eq!(sum.series[0].high, [8, 2]);
    assert_eq!(sum.series[0].low, [0, 2]);
}

#[test]
fn partly_filled_bin_counts_by_its_part() {
    let mut sum = Timeline::axis(0, 100, 2);
    // Five processes one after the other in the first bin, 8 each.
    for number in 0..5 {
        sum.accumulate_until(&one(number * 10, 10, &[800]), number * 10 + 8);
    }
    sum.accumulate(&one(50, 25, &[6, 4]));
    let series = &sum.series[0];
    assert_eq!(series.mean, [800 * 40 / 50, 5]);
    assert_eq!(series.low, [0, 4]);
    assert_eq!(series.high, [4000, 6]);
}

#[test]
fn no_number_of_names_makes_a_sum_grow_without_bound() {
    let mut sum = Timeline::axis(0, 2, 2);
    for number in 0..2000 {
        let mut other = one(0, 1, &[1, 1]);
        other.series[0].name = format!("app.lib:{number}.so").into();
        sum.accumulate(&other);
    }
    assert!(sum.series.len() <= NAMES + Group::ALL.len());
    assert_eq!(sum.totals(), [2000, 2000]);
}

#[test]
fn small_components_of_a_group_are_joined_without_loss() {
    let mut timeline = Timeline::axis(0, 2, 2);
    for (name, value) in [("app.exe", 9), ("app.lib:a", 3), ("app.lib:b", 2), ("mpi.core", 5)] {
        let mut series = one(0, 1, &[value, value]).series.remove(0);
        series.name = name.into();
        series.group = Group::of(name);
        timeline.series.push(series);
    }
    let few = timeline.largest(1);
    let names: Vec<&str> = few.series.iter().map(|s| &*s.name).collect();
    assert_eq!(names, ["app.exe", "other application", "mpi.core"]);
    assert_eq!(few.totals(), timeline.totals());
    assert_eq!(timeline.by_group().totals(), timeline.totals());
}

proptest! {
    #[test]
    fn no_timeline_makes_the_sum_fail_and_bounds_hold(
        start in 0u64..1_000, end in 0u64..2_000, bins in 0usize..20,
        other_start in 0u64..3_000, other_bin in 0u64..100,
        values in proptest::collection::vec(0u64..u64::MAX, 0..20),
    ) {
        let mut sum = Timeline::axis(start, end, bins);
        sum.accumulate(&one(other_start, other_bin, &values));
        prop_assert!(sum.bins >= 1 && sum.end_ns() >= end);
        for series in &sum.series {
            for bin in 0..sum.bins {
                prop_assert!(series.low[bin] <= series.high[bin]);
            }
        }
    }

    #[test]
    fn on_a_common_axis_the_sum_is_the_sum(
        a in proptest::collection::vec(0u64..1 << 40, 1..64),
        b in proptest::collection::vec(0u64..1 << 40, 1..64),
    ) {
        let mut sum = Timeline::axis(0, 64, 64);
        sum.accumulate(&one(0, 1, &a));
        sum.accumulate(&one(0, 1, &b));
        for bin in 0..64 {
            let expected = a.get(bin).unwrap_or(&0) + b.get(bin).unwrap_or(&0);
            prop_assert_eq!(sum.series[0].mean[bin], expected);
        }
    }
}
