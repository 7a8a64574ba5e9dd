//! Tasks over ranks: the same results as sequential ones by all policies, errors on all ranks, and
//! no task lost or duplicated while ranks join and leave; a master and workers with a bag in C.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use quo_tests::{Checkout, Job, Outcome, needs_spawn};

const LIMIT: Duration = Duration::from_secs(180);

fn run(job: Job) -> Result<Outcome> {
    let job = job.env("MPIR_CVAR_CH4_PROGRESS_THROTTLE", "1");
    let job = job.env("PRTE_MCA_rmaps_default_mapping_policy", ":oversubscribe");
    let outcome = job.limit(LIMIT).run()?;
    outcome.expect_success()?;
    Ok(outcome)
}

fn tasks(ranks: usize, words: &[&str]) -> Result<Outcome> {
    let program = Checkout::find()?.program("examples/tasks")?;
    run(words.iter().fold(Job::new(ranks, &program), |job, word| job.arg(*word)))
}

fn six_problems_match_sequential_by_all_policies() -> Result<()> {
    for ranks in [1, 2, 3] {
        let outcome = tasks(ranks, &["check"])?;
        ensure!(outcome.stdout.trim() == format!("right on {ranks} ranks"), "{}", outcome.report());
    }
    Ok(())
}

fn failing_task_and_missing_root_are_told_to_all_ranks() -> Result<()> {
    let outcome = tasks(3, &["fail"])?;
    let is_failure = |line: &&str| {
        line.starts_with("tasks: a task failed on rank ")
            && line.ends_with(": 700 is not a number that I like")
    };
    let missing = "tasks: rank 0 could not begin: rank 0 gave no root";
    let lines: Vec<&str> = outcome.stdout.lines().collect();
    let failures: Vec<&&str> = lines.iter().filter(|line| is_failure(line)).collect();
    ensure!(failures.len() == 3, "{}", outcome.report());
    ensure!(failures.iter().all(|line| *line == failures[0]), "{}", outcome.report());
    ensure!(lines.iter().filter(|line| **line == missing).count() == 3, "{}", outcome.report());
    Ok(())
}

/// Returns the number of resizes at the end of a line of output.
fn resizes(outcome: &Outcome, beginning: &str) -> Result<usize> {
    let line = outcome.stdout.lines().find_map(|line| line.trim().strip_prefix(beginning));
    let line = line.with_context(|| outcome.report())?;
    Ok(line.trim_start_matches(", with ").trim_end_matches(" resizes").parse()?)
}

fn tasks_survive_random_resizes_over_parked_ranks() -> Result<()> {
    // Even seeds finish the tasks and odd ones interrupt them.
    for seed in ["2", "3", "11"] {
        let outcome = tasks(4, &["resizes", seed, "8"])?;
        let count = resizes(&outcome, "each number once in each run")?;
        ensure!(count >= 3, "{count} resizes are few: {}", outcome.report());
    }
    Ok(())
}

fn bag(ranks: usize, modes: &[&str], seeds: &[&str], most: Option<&str>) -> Result<()> {
    let folder = tempfile::tempdir()?;
    let program = Checkout::find()?.compile_c("examples/tasks/bag.c", folder.path(), &[])?;
    for mode in modes {
        for seed in seeds {
            let job = Job::new(ranks, &program).arg(*mode).arg(*seed);
            let outcome = run(most.into_iter().fold(job, Job::arg))?;
            let count = resizes(&outcome, "600 items, each done once")?;
            ensure!(count >= 6, "{count} resizes: {}", outcome.report());
        }
    }
    Ok(())
}

fn bag_loses_no_item_when_workers_finish_first() -> Result<()> {
    bag(4, &["finish"], &["1", "2", "3"], None)
}

fn bag_loses_no_item_when_workers_return_theirs() -> Result<()> {
    bag(4, &["return"], &["1", "2", "3"], None)
}

fn bag_loses_no_item_over_spawned_ranks() -> Result<()> {
    needs_spawn()?;
    bag(1, &["finish", "return"], &["5"], Some("3"))
}

quo_tests::suite! {
    six_problems_match_sequential_by_all_policies
    failing_task_and_missing_root_are_told_to_all_ranks
    tasks_survive_random_resizes_over_parked_ranks
    bag_loses_no_item_when_workers_finish_first
    bag_loses_no_item_when_workers_return_theirs
    bag_loses_no_item_over_spawned_ranks
}
