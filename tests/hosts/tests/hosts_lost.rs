//! Ranks and hosts are lost during a job: the others notice, and no rank waits forever.

mod support;

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use quo_hosts::Hosts;
use quo_hosts::suite;
use quo_tests::Outcome;

use support::{note, over_hosts, program};

/// File on each host that its ranks wait for.
const GO: &str = "/run/tmp/go";

/// Returns a job that the launcher keeps running without some of its ranks.
fn job<'a>(hosts: &'a Hosts, source: &str, arguments: &[&str]) -> Result<quo_hosts::HostJob<'a>> {
    let ranks: Vec<(usize, usize)> = (0..hosts.len()).map(|index| (index, 2)).collect();
    let mut job = hosts.job(&ranks, program(source)?);
    for argument in arguments {
        job = job.arg(argument);
    }
    Ok(job.survives())
}

fn said(outcome: &Outcome, rank: usize) -> Result<&str> {
    let found = outcome.stdout.lines().find(|line| line.starts_with(&format!("rank {rank}: ")));
    found.with_context(|| format!("rank {rank} said nothing\n{}", outcome.report()))
}

/// Checks that the ended job has left no process on any host.
fn expect_no_process(hosts: &Hosts, outcome: &Outcome) -> Result<()> {
    let mut left = hosts.leftovers();
    left.retain(|line| line.contains("process") || line.contains("/dev/shm/quo-"));
    ensure!(left.is_empty(), "{left:#?}\n{}", outcome.report());
    Ok(())
}

fn killed_rank_is_named_on_its_host_only() -> Result<()> {
    let hosts = Hosts::up(&suite::set("rank"), 2)?;
    let running = job(&hosts, "tests/programs/dead_rank.c", &["between"])?.start()?;
    for rank in [0, 2, 3] {
        running.wait_for(&format!("rank {rank}: "), 1)?;
    }
    // Open MPI 4.1 sometimes waits for ranks that left without MPI_Finalize.
    let outcome = running.end()?;
    let survivor = said(&outcome, 0)?;
    ensure!(survivor.contains("rank 1 ended without taking part"), "{}", outcome.report());
    for rank in [2, 3] {
        ensure!(said(&outcome, rank)?.contains("barrier: done"), "{}", outcome.report());
    }
    expect_no_process(&hosts, &outcome)?;
    hosts.down()
}

fn a_killed_leader_inside_create_ends_it_on_every_host() -> Result<()> {
    // The kill aims at a window of microseconds and may be late; then create succeeds on all ranks
    // or, if the kill falls in the middle of the last exchange, on some.
    for _attempt in 0..20 {
        let hosts = Hosts::up(&suite::set("leader"), 2)?;
        let job = job(&hosts, "tests/programs/dead_rank.c", &["create"])?;
        let job = job.env("QUO_TMPDIR", "/dev/shm").env("QUO_CREATE_TIMEOUT", "2");
        let running = job.start()?;
        for rank in 1..4 {
            running.wait_for(&format!("rank {rank}: "), 1)?;
        }
        let outcome = running.end()?;
        expect_no_process(&hosts, &outcome)?;
        if !outcome.stdout.contains("lived on") {
            ensure!(said(&outcome, 1)?.contains("rank 0"), "{}", outcome.report());
            for rank in 1..4 {
                ensure!(said(&outcome, rank)?.contains("create: "), "{}", outcome.report());
            }
            return hosts.down();
        }
        hosts.down()?;
    }
    anyhow::bail!("rank 0 was never killed before another rank had its context")
}

/// Ranks that pass barriers when a host is lost, and 1,000 more afterwards.
fn barriers(hosts: &Hosts) -> Result<quo_tests::Running> {
    let job = hosts.job(&[(0, 2), (1, 2)], over_hosts()?).arg("barriers").arg(GO);
    // Time for the test to see the ranks after the launcher has decided to end them.
    let job = job.option("--mca").option("odls_base_sigkill_timeout").option("60");
    let running = job.limit(Duration::from_secs(20)).start()?;
    running.wait_for("ready", 4)?;
    Ok(running)
}

fn go(hosts: &Hosts, index: usize) -> Result<()> {
    std::fs::write(hosts.host(index).path(GO), "").context("telling the ranks")
}

fn expect_barriers(hosts: &Hosts, index: usize) -> Result<()> {
    for rank in [2 * index, 2 * index + 1] {
        let text = note(hosts, index, GO, rank)?;
        ensure!(text.starts_with("barriers: 0:"), "rank {rank}: {text}");
    }
    Ok(())
}

fn barriers_go_on_while_another_host_is_cut_off() -> Result<()> {
    let hosts = Hosts::up(&suite::set("cut"), 2)?;
    let running = barriers(&hosts)?;
    hosts.cut(1)?;
    for index in 0..2 {
        go(&hosts, index)?;
        expect_barriers(&hosts, index)?;
    }
    let outcome = running.end()?;
    expect_no_process(&hosts, &outcome)?;
    hosts.down()
}

fn barriers_go_on_while_another_host_is_killed() -> Result<()> {
    let hosts = Hosts::up(&suite::set("kill"), 2)?;
    let running = barriers(&hosts)?;
    hosts.kill(1)?;
    go(&hosts, 0)?;
    expect_barriers(&hosts, 0)?;
    let outcome = running.end()?;
    expect_no_process(&hosts, &outcome)?;
    hosts.down()
}

/// Ranks that are about to create a context over two hosts, which fails.
fn creating(hosts: &Hosts) -> Result<quo_tests::Running> {
    let job = hosts.job(&[(0, 2), (1, 2)], over_hosts()?).arg("create").arg(GO);
    let job = job.option("--mca").option("odls_base_sigkill_timeout").option("60");
    let job = job.env("QUO_CREATE_TIMEOUT", "2").limit(Duration::from_secs(20));
    let running = job.start()?;
    running.wait_for("ready", 4)?;
    Ok(running)
}

fn expect_gave_up(hosts: &Hosts, index: usize) -> Result<()> {
    for rank in [2 * index, 2 * index + 1] {
        let text = note(hosts, index, GO, rank)?;
        ensure!(text.contains("create: ") && !text.contains("create: 0:"), "{text}");
    }
    Ok(())
}

fn host_cut_before_create_ends_the_wait_on_both_sides() -> Result<()> {
    let hosts = Hosts::up(&suite::set("cutcreate"), 2)?;
    let running = creating(&hosts)?;
    hosts.cut(1)?;
    for index in 0..2 {
        go(&hosts, index)?;
    }
    for index in 0..2 {
        expect_gave_up(&hosts, index)?;
    }
    let outcome = running.end()?;
    expect_no_process(&hosts, &outcome)?;
    hosts.down()
}

fn host_killed_before_create_ends_the_others_wait() -> Result<()> {
    let hosts = Hosts::up(&suite::set("killcreate"), 2)?;
    let running = creating(&hosts)?;
    hosts.kill(1)?;
    go(&hosts, 0)?;
    expect_gave_up(&hosts, 0)?;
    let outcome = running.end()?;
    expect_no_process(&hosts, &outcome)?;
    hosts.down()
}

quo_tests::suite! {
    by |tests| quo_hosts::suite::run(tests, None);
    killed_rank_is_named_on_its_host_only
    a_killed_leader_inside_create_ends_it_on_every_host
    barriers_go_on_while_another_host_is_cut_off
    barriers_go_on_while_another_host_is_killed
    host_cut_before_create_ends_the_wait_on_both_sides
    host_killed_before_create_ends_the_others_wait
}
