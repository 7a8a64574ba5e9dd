//! Tasks over hosts: ranks of two hosts share regular work, and a rank without work asks its own
//! host first.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use quo_hosts::suite;
use quo_hosts::{HostJob, Hosts};
use quo_tests::{Checkout, Outcome};

/// Leaves of each turn.
const LEAVES: u64 = 64;
const TURNS: u64 = 3;

/// Output of a rank about its work.
struct Did {
    host: String,
    leaves: u64,
    sent: u64,
    sent_away: u64,
}

/// Parses `rank 1 on host1: 96 leaves, 3 tasks sent, 2 of them to other nodes`.
fn did(line: &str) -> Option<(usize, Did)> {
    let words: Vec<&str> = line.split([' ', ':', ',']).filter(|word| !word.is_empty()).collect();
    let ["rank", rank, "on", host, leaves, "leaves", sent, "tasks", "sent", sent_away, ..] =
        words[..]
    else {
        return None;
    };
    let (host, leaves, sent) = (host.to_owned(), leaves.parse().ok()?, sent.parse().ok()?);
    Some((rank.parse().ok()?, Did { host, leaves, sent, sent_away: sent_away.parse().ok()? }))
}

/// Returns the output of all ranks, by rank, after checking that together they have computed each
/// leaf once.
fn all_did(outcome: &Outcome) -> Result<Vec<Did>> {
    outcome.expect_success()?;
    let mut all: Vec<(usize, Did)> = outcome.stdout.lines().filter_map(did).collect();
    all.sort_by_key(|(rank, _)| *rank);
    let sum: u64 = all.iter().map(|(_, did)| did.leaves).sum();
    ensure!(sum == LEAVES * TURNS, "{sum} leaves: {}", outcome.report());
    Ok(all.into_iter().map(|(_, did)| did).collect())
}

/// Adds the program's arguments: some hundred milliseconds a turn.
fn with_arguments(job: HostJob<'_>) -> HostJob<'_> {
    job.arg("nodes").arg(TURNS.to_string()).arg("100000").limit(Duration::from_secs(100))
}

fn two_pinned_hosts_share_regular_work() -> Result<()> {
    let program = Checkout::find()?.program("examples/tasks")?;
    let hosts = Hosts::up(&suite::set("taskspinned"), 2)?;
    let job = hosts.job(&[(0, 1), (1, 1)], program);
    let processors = std::thread::available_parallelism()?.get();
    let job = if processors > 1 { job.pinned() } else { job };
    let outcome = with_arguments(job).run()?;
    let all = all_did(&outcome)?;
    let hosts_of: Vec<&str> = all.iter().map(|did| did.host.as_str()).collect();
    ensure!(hosts_of == ["host0", "host1"], "{}", outcome.report());
    ensure!(all.iter().all(|did| did.leaves > 0), "one did nothing: {}", outcome.report());
    // Every task sent to the other rank leaves the host.
    ensure!(all.iter().all(|did| did.sent == did.sent_away), "{}", outcome.report());
    let line = outcome.stdout.lines().find(|line| line.starts_with("one rank "));
    ensure!(line.context("no times")?.contains(", 2 ranks "), "{}", outcome.report());
    hosts.down()
}

fn ranks_of_two_hosts_share_regular_work() -> Result<()> {
    let program = Checkout::find()?.program("examples/tasks")?;
    let hosts = Hosts::up(&suite::set("tasksnodes"), 2)?;
    let outcome = with_arguments(hosts.job(&[(0, 2), (1, 2)], program)).run()?;
    let all = all_did(&outcome)?;
    let hosts_of: Vec<&str> = all.iter().map(|did| did.host.as_str()).collect();
    ensure!(hosts_of == ["host0", "host0", "host1", "host1"], "{}", outcome.report());
    let on =
        |host: &str| all.iter().filter(|did| did.host == host).map(|did| did.leaves).sum::<u64>();
    ensure!(on("host0") > 0 && on("host1") > 0, "{}", outcome.report());
    let (sent, away) =
        all.iter().fold((0, 0), |sum, did| (sum.0 + did.sent, sum.1 + did.sent_away));
    ensure!(0 < away && away <= sent, "{}", outcome.report());
    hosts.down()
}

quo_tests::suite! {
    by |tests| quo_hosts::suite::run(tests, None);
    two_pinned_hosts_share_regular_work
    ranks_of_two_hosts_share_regular_work
}
