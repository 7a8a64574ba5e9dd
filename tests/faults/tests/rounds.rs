//! Rounds of random faults, as many as CI has time for: a test for each kind of fault.
//!
//! A separate program with one thread, since it forks; its output is as usual. `quo-faults` runs
//! more rounds, and repeats a single one.

use std::process::ExitCode;
use std::time::Duration;

use anyhow::{bail, ensure};
use quo_faults::plan::{Fate, Plan};
use quo_faults::runner::{Failure, Options, abilities, run};
use quo_tests::suite::{Skipped, run_each};

/// Rounds of the gate; `QUO_TESTS_FAULT_ROUNDS` overrides the number, and `QUO_TESTS_LONG` selects
/// the rounds of the full suite.
const ROUNDS: u64 = 150;
const ROUNDS_OF_FULL: u64 = 10_000;

/// Returns the number in a variable.
fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok()?.parse().ok()
}

fn main() -> ExitCode {
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
    let named = |kind| (format!("members_survive_faults_of_the_kind_{kind}"), kind);
    run_each(Fate::KINDS.into_iter().map(named), |kind| {
        let plans = (0..rounds)
            .map(|round| Plan::draw(seed, round, able))
            .filter(|plan| plan.fate.kind() == kind);
        let summary = run(plans, &options, |_, _| {})?;
        if summary.rounds == 0 {
            bail!(Skipped("a PID namespace of its own needs root".to_owned()));
        }
        let explained: Vec<String> = summary.failures.iter().map(explain).collect();
        ensure!(explained.is_empty(), "{} rounds\n{}", summary.rounds, explained.join("\n"));
        Ok(())
    })
}

fn explain(failure: &Failure) -> String {
    format!(
        "{}\n  {}\nagain: cargo run -p quo-faults -- --seed {} --only {} --repeat 100",
        failure.plan,
        failure.complaints.join("\n  "),
        failure.seed,
        failure.round
    )
}
