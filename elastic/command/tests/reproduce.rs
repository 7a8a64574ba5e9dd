//! `quo-elastic simulate --reproduce` as a user runs it.

use std::process::{Command, Output};

fn quo_elastic(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_quo-elastic"));
    command.args(arguments).output().expect("quo-elastic starts")
}

#[test]
fn named_tables_are_printed_with_deviations_and_hold() {
    let output = quo_elastic(&["simulate", "--reproduce", "balance,speedups"]);
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}");
    assert!(text.starts_with("Time balancing of n = (4, 4), t = (10, 30)"), "{text}");
    assert!(text.contains("64 to 16 cores, alpha 0.50, until, step -4"), "{text}");
    assert!(text.ends_with("All exact figures are equal, and all required orders hold.\n"));
    assert!(!text.contains("DIFFERS") && !text.contains("Setup 1"));
}

#[test]
fn tables_are_json_when_asked_for() {
    let output = quo_elastic(&["simulate", "--reproduce", "squares", "--json"]);
    assert!(output.status.success());
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(report["failures"], serde_json::json!([]));
    assert_eq!(report["tables"][0]["rows"][0]["ours"]["mean"], 23.0);
}

#[test]
fn an_unknown_table_is_refused_with_the_names_of_all() {
    let output = quo_elastic(&["simulate", "--reproduce", "setup-3"]);
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success());
    assert!(text.contains("there is no table \"setup-3\"") && text.contains("setup-2"), "{text}");
}
