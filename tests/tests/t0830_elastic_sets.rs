//! Process sets over a world that changes, and the synthetic benchmark that goes by them.

use std::time::Duration;

use anyhow::{Result, ensure};
use quo_tests::{Checkout, Job, Outcome};

const LIMIT: Duration = Duration::from_secs(120);

fn example(ranks: usize, name: &str, words: &[&str]) -> Result<Outcome> {
    let program = Checkout::find()?.program(&format!("examples/{name}"))?;
    let job = words.iter().fold(Job::new(ranks, program), |job, word| job.arg(word));
    let outcome = job.limit(LIMIT).run()?;
    outcome.expect_success()?;
    Ok(outcome)
}

#[test]
fn all_ranks_see_the_same_sets_and_go_on_with_those_they_made() -> Result<()> {
    let outcome = example(4, "sets", &[])?;
    let content = outcome.stdout.matches("is content").count();
    ensure!(content == 2, "{}", outcome.report());
    Ok(())
}

/// The changes of a run, as `ADD 4`, without the times.
fn changes(outcome: &Outcome) -> Vec<String> {
    let lines = outcome.stdout.lines().filter(|line| line.contains(" | "));
    let words = lines.map(|line| line.split_whitespace().take(2).collect::<Vec<_>>().join(" "));
    words.filter(|change| change.starts_with("ADD") || change.starts_with("SUB")).collect()
}

#[test]
fn the_synthetic_benchmark_steps_up_and_back_while_its_ranks_compute_on() -> Result<()> {
    let words = ["mode=step", "start=2", "limit=4", "every=3", "iterations=60", "elements=20000"];
    let outcome = example(4, "synthetic", &words)?;
    ensure!(changes(&outcome) == ["ADD 3", "SUB 2", "ADD 4", "SUB 2"], "{}", outcome.report());
    // The same hits in every iteration, whoever computed them.
    ensure!(outcome.stdout.contains("hits in each of 60 iterations"), "{}", outcome.report());
    Ok(())
}

#[test]
fn the_synthetic_benchmark_grows_and_shrinks_by_increments_and_waits_when_told_to() -> Result<()> {
    for (start, limit, right) in [("1", "3", ["ADD 2", "ADD 3"]), ("3", "1", ["SUB 2", "SUB 1"])] {
        let (start, limit) = (format!("start={start}"), format!("limit={limit}"));
        let words = [&start, &limit, "every=2", "blocking=1", "iterations=12", "elements=20000"];
        let outcome = example(3, "synthetic", &words)?;
        ensure!(changes(&outcome) == right, "{}", outcome.report());
    }
    Ok(())
}
