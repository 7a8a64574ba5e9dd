//! Worlds that change their size under a real launcher.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use quo_tests::{Checkout, Holdings, Job, Nodes, Outcome, expect_cycles};

const LIMIT: Duration = Duration::from_secs(120);

fn sizes(ranks: usize, words: &[&str]) -> Result<Outcome> {
    let program = Checkout::find()?.program("examples/sizes")?;
    let job = words.iter().fold(Job::new(ranks, program), |job, word| job.arg(word));
    job.limit(LIMIT).run()
}

/// Returns the line on each change, without the time.
fn changes(outcome: &Outcome) -> Vec<String> {
    let said = outcome.stdout.lines().filter(|line| line.starts_with("epoch "));
    said.map(|line| line.rsplit_once(", ").map_or(line, |(change, _)| change).to_owned()).collect()
}

#[test]
fn world_grows_and_shrinks_with_all_ranks_in_order() -> Result<()> {
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
fn resize_refused_by_one_rank_leaves_the_world_unchanged() -> Result<()> {
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
fn two_hundred_cycles_of_growing_and_shrinking_leave_nothing_behind() -> Result<()> {
    // On MPIs other than the default, fifty.
    let cycles = if std::env::var_os("QUO_TESTS_BRIEF").is_some() { 50 } else { 200 };
    let program = Checkout::find()?.program("examples/sizes")?;
    let job = Job::new(2, program).arg("1").env("ELASTIC_HELD", "20").limit(2 * LIMIT);
    let outcome = (0..cycles).fold(job, |job, _| job.arg("2").arg("1")).run()?;
    outcome.expect_success()?;
    expect_cycles(&changes(&outcome), cycles).with_context(|| outcome.report())?;
    let (held, now) = Holdings::of(&outcome)?;
    // The allocator may use another arena, and events stay in memory; 380 leaked worlds would be
    // noticed.
    held.expect_no_more(&now, (0, 8, 4096))
}

#[test]
fn sleeping_rank_gives_back_arrays_and_freed_memory() -> Result<()> {
    expect_little_asleep(None)
}

#[test]
fn sleeping_rank_gives_back_free_memory_of_jemalloc() -> Result<()> {
    let machine = format!("/usr/lib/{}-linux-gnu", std::env::consts::ARCH);
    let places = [machine.as_str(), "/usr/lib64", "/usr/lib"];
    let found = places.map(|place| Path::new(place).join("libjemalloc.so.2"));
    // Machines without it have nothing to test.
    found.iter().find(|file| file.exists()).map_or(Ok(()), |file| expect_little_asleep(Some(file)))
}

/// Expects that a parked rank holds neither its part of an array nor memory that it has freed.
fn expect_little_asleep(allocator: Option<&Path>) -> Result<()> {
    let program = Checkout::find()?.program("examples/parked_memory")?;
    let job = Job::new(2, program).arg("64").limit(LIMIT);
    let job = allocator.into_iter().fold(job, |job, file| job.env("LD_PRELOAD", file));
    let outcome = job.run()?;
    outcome.expect_success()?;
    let numbers = outcome.stdout.split(' ').filter_map(|word| word.parse::<f64>().ok());
    let [_, held, asleep] = numbers.collect::<Vec<_>>()[..] else {
        anyhow::bail!("{}", outcome.report());
    };
    // 64 MiB of the array, and 64 that were freed below a block in use.
    ensure!(held - asleep > 112.0, "{}", outcome.report());
    Ok(())
}
