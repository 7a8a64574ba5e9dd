//! Process sets over a changing world, and the synthetic benchmark that resizes by them.

use std::time::Duration;

use anyhow::{Result, ensure};
use quo_tests::{Checkout, Job, Outcome, needs_spawn};

const LIMIT: Duration = Duration::from_secs(120);

fn example(ranks: usize, name: &str, words: &[&str]) -> Result<Outcome> {
    let program = Checkout::find()?.program(&format!("examples/{name}"))?;
    let job = words.iter().fold(Job::new(ranks, program), |job, word| job.arg(word));
    // A growing world has more ranks than processors, but the launcher sees only the first ranks.
    let job = job.env("MPIR_CVAR_CH4_PROGRESS_THROTTLE", "1");
    let job = job.env("PRTE_MCA_rmaps_default_mapping_policy", ":oversubscribe");
    let outcome = job.limit(LIMIT).run()?;
    outcome.expect_success()?;
    Ok(outcome)
}

fn all_ranks_see_the_same_sets_and_use_them() -> Result<()> {
    let outcome = example(4, "sets", &[])?;
    let content = outcome.stdout.matches("is content").count();
    ensure!(content == 2, "{}", outcome.report());
    Ok(())
}

fn started_ranks_use_the_sets_until_they_end() -> Result<()> {
    needs_spawn()?;
    let outcome = example(3, "sets", &["started"])?;
    let content = outcome.stdout.matches("is content").count();
    ensure!(content == 3, "{}", outcome.report());
    Ok(())
}

/// Returns the changes of a run, as `ADD 4`, without the times.
fn changes(outcome: &Outcome) -> Vec<String> {
    let lines = outcome.stdout.lines().filter(|line| line.contains(" | "));
    let words = lines.map(|line| line.split_whitespace().take(2).collect::<Vec<_>>().join(" "));
    words.filter(|change| change.starts_with("ADD") || change.starts_with("SUB")).collect()
}

fn synthetic_benchmark_steps_up_and_back_while_ranks_compute() -> Result<()> {
    let words = ["mode=step", "start=2", "limit=4", "every=3", "iterations=60", "elements=20000"];
    let outcome = example(4, "synthetic", &words)?;
    ensure!(changes(&outcome) == ["ADD 3", "SUB 2", "ADD 4", "SUB 2"], "{}", outcome.report());
    // The same hits in every iteration, whichever ranks computed them.
    ensure!(outcome.stdout.contains("hits in each of 60 iterations"), "{}", outcome.report());
    Ok(())
}

fn synthetic_benchmark_goes_by_increments_and_waits_when_told() -> Result<()> {
    for (start, limit, right) in [("1", "3", ["ADD 2", "ADD 3"]), ("3", "1", ["SUB 2", "SUB 1"])] {
        let (start, limit) = (format!("start={start}"), format!("limit={limit}"));
        // Enough for each change to be announced before the last iteration, even where ranks wait
        // for a processor.
        let words = [&start, &limit, "every=2", "blocking=1", "iterations=1000", "elements=20000"];
        let outcome = example(3, "synthetic", &words)?;
        ensure!(changes(&outcome) == right, "{}", outcome.report());
    }
    Ok(())
}

quo_tests::suite! {
    all_ranks_see_the_same_sets_and_use_them
    started_ranks_use_the_sets_until_they_end
    synthetic_benchmark_steps_up_and_back_while_ranks_compute
    synthetic_benchmark_goes_by_increments_and_waits_when_told
}
