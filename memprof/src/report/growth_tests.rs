//! Text, sentence and JSON of growth.

use super::*;
use crate::growth::{Call, Limit, Pace, Passing, Point};
use crate::model::ProcessKey;

const MIB: f64 = 1_048_576.0;

fn slope(mib: f64) -> Slope {
    Slope { bytes: mib * MIB, low: 0.5 * mib * MIB, high: 2.0 * mib * MIB }
}

fn grown(name: &str, verdict: Verdict) -> Grown {
    let who = ProcessKey { rank: Some(3), ..ProcessKey::default() };
    Grown {
        name: name.into(),
        is_owned: true,
        verdict,
        processes: 4,
        fastest: verdict.slope().map(|slope| (who, slope)),
        calls: Vec::new(),
    }
}

fn named(unit: Unit, shown: Shown, moments: usize, components: Vec<Grown>) -> Named {
    let node = NodeGrown {
        host: "host1".into(),
        verdict: Verdict::Grows(slope(4.0)),
        now: Some(Point { at: 1000.0, bytes: 1000.0 * MIB }),
        limit: Some(Limit { bytes: 64 << 30, is_of_group: false }),
        passing: Some(Passing { at: 18_412.0, earliest: 17_911.0, latest: 19_090.0 }),
    };
    let nodes = if components.is_empty() { Vec::new() } else { vec![node] };
    let growth = Growth { pace: Pace::until(unit, 1000.0), moments, components, nodes };
    Named { growth, processes: 8, noun: "rank", place: "main  app.c:9".to_owned(), unit: shown }
}

fn iterations() -> (Unit, Shown) {
    let frame = crate::model::Frame { object: 0, offset: 0 };
    let unit = Unit::Iterations { function: "MPI_Allreduce".into(), frame };
    (unit, Shown { name: "iteration", size: 1.0 })
}

#[test]
fn text_names_component_call_slope_and_passing() {
    let mut leak = grown("app.exe:app", Verdict::Grows(slope(4.0)));
    leak.calls = vec![Call { place: "keep  app.c:33".to_owned(), slope: slope(3.9) }];
    let ended = Verdict::Ended { until: 340.0, bytes: 12.0 * MIB };
    let small = grown("app.lib:tiny", Verdict::Grows(slope(0.001)));
    let components = vec![leak, small, grown("mpi.core:mpi", ended)];
    let (unit, shown) = iterations();
    let told = text(&named(unit, shown, 100, components), Look::plain());
    for part in [
        "growth per iteration of the loop that begins with MPI_Allreduce in main  app.c:9: 1,000 iterations",
        "app.exe:app            4.00 MiB  2.00 MiB to 8.00 MiB  4 of 8 ranks  rank 3, 4.00 MiB",
        "  keep  app.c:33       3.90 MiB  1.95 MiB to 7.80 MiB",
        "1 component more grows by less than 1 % of the first",
        "host1 holds 1000 MiB, 4.00 MiB more per iteration (2.00 MiB to 8.00 MiB): will \
         exceed the node's 64.0 GiB at iteration 18,400 (17,900 to 19,100)",
        "mpi.core:mpi grew by 12.0 MiB until iteration 340 and has not grown since",
    ] {
        assert!(told.contains(part), "{part}\nnot in\n{told}");
    }
    assert!(!told.contains("app.lib:tiny") && !told.contains("memprof run"), "{told}");
}

#[test]
fn sentence_names_the_fastest_growth_and_its_end() {
    let mut leak = grown("app.exe:app", Verdict::Grows(slope(4.0)));
    leak.calls = vec![Call { place: "keep  app.c:33".to_owned(), slope: slope(3.9) }];
    let small = grown("app.lib:tiny", Verdict::Grows(slope(0.001)));
    let (unit, shown) = iterations();
    let of = |moments, components| named(unit.clone(), shown, moments, components).sentence();
    assert_eq!(
        of(100, vec![leak, small]).as_deref(),
        Some(
            "app.exe:app grows by 4.00 MiB per iteration (2.00 MiB to 8.00 MiB) at keep  \
             app.c:33; 1 other component grows more slowly; host1 will exceed the node's \
             64.0 GiB at iteration 18,400 (17,900 to 19,100)."
        )
    );
    let slowing = grown("app.exe:app", Verdict::Slowing(slope(4.0)));
    assert!(of(100, vec![slowing]).is_some_and(|told| told.contains("more and more slowly")));
    let nothing = "Nothing grows to the end of the run.";
    assert_eq!(of(100, Vec::new()).as_deref(), Some(nothing));
    assert_eq!(of(7, Vec::new()), None);
}

#[test]
fn short_run_is_called_too_short() {
    let shown = Shown { name: "minute", size: 60.0 };
    let told = text(&named(Unit::Seconds, shown, 7, Vec::new()), Look::plain());
    assert!(told.contains("too short to say: 7 seconds to compare, 16 are needed"), "{told}");
    assert!(told.starts_with("growth of a run of ") && !told.contains("per minute"), "{told}");
    assert!(told.contains("memprof run --loops counts iterations"), "{told}");
    let (unit, shown) = iterations();
    let told = text(&named(unit, shown, 50, Vec::new()), Look::plain());
    assert!(told.contains("nothing grows to the end"), "{told}");
}

#[test]
fn growth_over_time_is_shown_by_its_unit() {
    let shown = Shown { name: "hour", size: 3600.0 };
    let leak = grown("app.exe:app", Verdict::Slowing(slope(0.01)));
    let told = text(&named(Unit::Seconds, shown, 200, vec![leak]), Look::plain());
    assert!(told.contains("per hour") && told.contains("36.0 MiB"), "{told}");
    assert!(told.contains("app.exe:app: its growth is slowing and may level off"), "{told}");
    assert!(told.contains(NO_CALL), "{told}");
}

#[test]
fn json_has_slopes_in_bytes_and_positions_without_rounding() {
    let (unit, shown) = iterations();
    let leak = grown("app.exe:app", Verdict::Grows(slope(4.0)));
    let json = named(unit, shown, 100, vec![leak]).json();
    assert_eq!((&json["unit"], &json["too_short"]), (&json!("iteration"), &json!(false)));
    assert_eq!(json["components"][0]["slope"]["low"], json!(2.0 * MIB));
    assert_eq!(json["components"][0]["fastest"]["process"]["rank"], json!(3));
    assert_eq!(json["nodes"][0]["passes"]["at"], json!(18_412.0));
    assert_eq!(json["nodes"][0]["limit"], json!(64_u64 << 30));
}

#[test]
fn predictions_are_rounded_to_three_digits() {
    assert_eq!([0.0, 7.4, 999.4, 18_412.0, 255_583.0].map(rounded), [0, 7, 999, 18_400, 256_000]);
}
