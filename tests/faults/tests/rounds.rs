//! Rounds of random faults, as many as CI has time for: a test for each kind of fault.
//!
//! A separate program with one thread, since it forks; its output is as usual. `quo-faults` runs
//! more rounds, and repeats a single one.
#![allow(clippy::print_stdout, clippy::unwrap_used)]

use std::process::ExitCode;
use std::time::Duration;

use quo_faults::plan::{Fate, Plan};
use quo_faults::runner::{Failure, Options, abilities, run};
use quo_tests::Selection;

/// Rounds of the gate; `QUO_TESTS_FAULT_ROUNDS` overrides the number, and `QUO_TESTS_LONG` selects
/// the rounds of the full suite.
const ROUNDS: u64 = 150;
const ROUNDS_OF_FULL: u64 = 10_000;

/// Returns the number in a variable.
fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok()?.parse().ok()
}

fn main() -> ExitCode {
    let selection = Selection::of_this_program();
    let named = |kind: &&str| format!("members_survive_faults_of_the_kind_{kind}");
    let kinds: Vec<&str> =
        Fate::KINDS.into_iter().filter(|kind| selection.wants(&named(kind))).collect();
    if selection.is_listing() {
        kinds.iter().for_each(|kind| println!("{}: test", named(kind)));
        return ExitCode::SUCCESS;
    }
    println!("\nrunning {} tests", kinds.len());
    let long = std::env::var_os("QUO_TESTS_LONG").map(|_| ROUNDS_OF_FULL);
    let rounds = long.or_else(|| number("QUO_TESTS_FAULT_ROUNDS")).unwrap_or(ROUNDS);
    // One seed always gives the same rounds, so that a failure can be analysed.
    let seed = number("QUO_TESTS_SEED").unwrap_or(1);
    let able = abilities();
    let options = Options {
        jobs: 4 * std::thread::available_parallelism().map_or(1, usize::from),
        bound: Duration::from_secs(60),
        failures: 3,
    };
    let (mut passed, mut failed, mut ignored) = (0, 0, 0);
    for kind in kinds {
        let plans = (0..rounds)
            .map(|round| Plan::draw(seed, round, able))
            .filter(|plan| plan.fate.kind() == kind);
        let summary = run(plans, &options, |_, _| {}).unwrap();
        let name = named(&kind);
        if summary.rounds == 0 {
            ignored += 1;
            println!("test {name} ... ignored: a PID namespace of its own needs root");
            continue;
        }
        for failure in &summary.failures {
            explain(failure);
        }
        let good = summary.failures.is_empty();
        let verdict = if good { "ok" } else { "FAILED" };
        println!("test {name} ... {verdict} ({} rounds, {:.1} s)", summary.rounds, summary.seconds);
        passed += usize::from(good);
        failed += usize::from(!good);
    }
    let word = if failed == 0 { "ok" } else { "FAILED" };
    println!("\ntest result: {word}. {passed} passed; {failed} failed; {ignored} ignored\n");
    ExitCode::from(u8::from(failed > 0))
}

fn explain(failure: &Failure) {
    println!("{}\n  {}", failure.plan, failure.complaints.join("\n  "));
    println!(
        "again: cargo run -p quo-faults -- --seed {} --only {} --repeat 100",
        failure.seed, failure.round
    );
}
