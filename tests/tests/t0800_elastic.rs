//! Worlds that change their size under a real launcher.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use quo_tests::{Checkout, Job, Nodes, Outcome};

const LIMIT: Duration = Duration::from_secs(120);

fn sizes(ranks: usize, words: &[&str]) -> Result<Outcome> {
    let program = Checkout::find()?.program("examples/sizes")?;
    let job = words.iter().fold(Job::new(ranks, program), |job, word| job.arg(word));
    job.limit(LIMIT).run()
}

/// What was said of each change, without the time.
fn changes(outcome: &Outcome) -> Vec<String> {
    let said = outcome.stdout.lines().filter(|line| line.starts_with("epoch "));
    said.map(|line| line.rsplit_once(", ").map_or(line, |(change, _)| change).to_owned()).collect()
}

#[test]
fn a_world_grows_and_shrinks_and_has_all_its_ranks_in_order() -> Result<()> {
    let outcome = sizes(4, &["1", "2", "4", "2", "3", "1"])?;
    outcome.expect_success()?;
    let right = [
        "epoch 1 size 2: 1 stay, 0 leave, 1 join",
        "epoch 2 size 4: 2 stay, 0 leave, 2 join",
        "epoch 3 size 2: 2 stay, 2 leave, 0 join",
        "epoch 4 size 3: 2 stay, 0 leave, 1 join",
        "epoch 5 size 1: 1 stay, 2 leave, 0 join",
    ];
    ensure!(changes(&outcome) == right, "{}", outcome.report());
    Ok(())
}

#[test]
fn a_resize_that_one_rank_refuses_leaves_the_world_as_it_was() -> Result<()> {
    let outcome = sizes(3, &["2", "3!", "1!", "3", "1"])?;
    outcome.expect_success()?;
    let right = [
        "epoch 0 size 2: 2 stay, 0 leave, 1 join",
        "epoch 0 size 2: 1 stay, 1 leave, 0 join",
        "epoch 1 size 3: 2 stay, 0 leave, 1 join",
        "epoch 2 size 1: 1 stay, 2 leave, 0 join",
    ];
    ensure!(changes(&outcome) == right, "{}", outcome.report());
    let reasons = outcome.stdout.matches("it does not fit").count();
    ensure!(reasons == 2, "{}", outcome.report());
    Ok(())
}

#[test]
fn a_world_over_three_nodes_agrees_over_the_network() -> Result<()> {
    let nodes = Nodes::new(3, 2, &Checkout::find()?.program("examples/sizes")?)?;
    let words = ["1", "2", "6", "3!", "4", "6", "1"];
    let job = words.iter().fold(Job::new(6, nodes.program()), |job, word| job.arg(word));
    let outcome = job.limit(LIMIT).run()?;
    outcome.expect_success()?;
    let right = [
        "epoch 1 size 2: 1 stay, 0 leave, 1 join",
        "epoch 2 size 6: 2 stay, 0 leave, 4 join",
        "epoch 2 size 6: 3 stay, 3 leave, 0 join",
        "epoch 3 size 4: 4 stay, 2 leave, 0 join",
        "epoch 4 size 6: 4 stay, 0 leave, 2 join",
        "epoch 5 size 1: 1 stay, 5 leave, 0 join",
    ];
    ensure!(changes(&outcome) == right, "{}", outcome.report());
    nodes.expect_clean()
}

#[test]
fn what_cannot_be_is_refused_before_anything_happens() -> Result<()> {
    let outcome = sizes(2, &["1", "3"])?;
    outcome.expect_success()?;
    let said = "request: refused: there is no room: 3 ranks were asked for; there are 1, and there can be 1 to 2";
    ensure!(outcome.stdout.contains(said), "{}", outcome.report());
    Ok(())
}

#[test]
fn two_hundred_changes_leave_nothing_behind() -> Result<()> {
    let words: Vec<&str> =
        std::iter::once("1").chain(["2", "1"].into_iter().cycle().take(200)).collect();
    let outcome = sizes(2, &words)?;
    outcome.expect_success()?;
    ensure!(changes(&outcome).len() == 200, "{}", outcome.report());
    let held = outcome.stdout.lines().find(|line| line.starts_with("rank 0 held"));
    let held = held.context("rank 0 says nothing of what it holds")?;
    let counts: Vec<usize> =
        held.split(|c: char| !c.is_ascii_digit()).filter_map(|word| word.parse().ok()).collect();
    let [_, files, mappings, threads, files_now, mappings_now, threads_now] = counts[..] else {
        anyhow::bail!("{held}");
    };
    ensure!(files == files_now && threads == threads_now, "{held}");
    // The allocator may take another arena; two hundred worlds would not go unnoticed.
    ensure!(mappings_now <= mappings + 8, "{held}");
    Ok(())
}
