//! Who has what memory in worlds whose ranks sleep, are started and leave: with the real profiler, under the
//! launcher of the MPI in use.
#![allow(clippy::print_stdout)] // It talks to whoever runs the tests.

use std::process::{Command, ExitCode};

use anyhow::{Context, Result, ensure};
use memprof_trace::layout::flags;
use quo_tests::suite::{self, Skipped, Test};
use quo_tests::{APPLICATION, BindTo, Checkout, Family, Launcher, Recorded};
use serde_json::Value;

const TESTS: &[Test] = &[
    ("a_rank_that_sleeps_is_seen_to_give_back_what_the_application_had", sleeps),
    ("ranks_that_sleep_and_come_back_close_their_books", parked),
    ("ranks_that_are_started_and_leave_have_books_of_their_own", started),
    ("arrays_that_move_between_ranks_are_the_applications", moves),
    ("the_skeleton_of_the_dissertation_closes_its_books", skeleton),
];

const MEBI: u64 = 1 << 20;

fn main() -> ExitCode {
    suite::run(TESTS, None)
}

fn run(
    ranks: usize,
    program: &str,
    words: &[&str],
    variables: &[(&str, &str)],
) -> Result<Recorded> {
    let mut launch = Launcher::find()?.command(ranks, BindTo::None);
    // Growing, it has more ranks than processors; the launcher sees only the first.
    launch.env("MPIR_CVAR_CH4_PROGRESS_THROTTLE", "1");
    launch.env("PRTE_MCA_rmaps_default_mapping_policy", ":oversubscribe");
    launch.env_remove("QUO_TOPOLOGY").envs(variables.iter().copied());
    let program = Checkout::find()?.program(&format!("examples/{program}"))?;
    Recorded::under(&launch, &program, words)
}

/// Rank 1 has 64 MiB of an array and 64 MiB in blocks that it has freed but for one. Asleep it has neither, and of
/// its array it has its half again when it is back.
fn sleeps() -> Result<()> {
    let job = run(2, "parked_memory", &["64"], &[])?.expect_ranks(2)?;
    job.expect_good_books()?;
    let books = job.books.get(1).context("no rank 1")?;
    let held: Vec<u64> = books.full().map(|(_, rows)| books.resident(rows, APPLICATION)).collect();
    let most = held.iter().copied().max().context("no samples")?;
    let behind = held.iter().rposition(|bytes| *bytes == most).context("no samples")?;
    let least = held[behind..].iter().copied().min().context("no samples")?;
    ensure!(most > 64 * MEBI && least < 8 * MEBI, "{most} B, then {least} B\n{}", books.table());
    ensure!(most - least > 56 * MEBI, "{most} B, then {least} B\n{}", books.table());
    let last = held.last().copied().unwrap_or_default();
    ensure!(last < most, "{last} B at the end\n{}", books.table());
    Ok(())
}

fn parked() -> Result<()> {
    let job = run(4, "sizes", &["1", "2", "4", "2", "3", "1"], &[])?.expect_ranks(4)?;
    job.expect_good_books()?.expect_said("epoch 5 size 1: 1 stay, 2 leave, 0 join")?;
    Ok(())
}

/// One rank is launched, three are started one by one, and two of them end long before the job does.
fn started() -> Result<()> {
    let variables = [("ELASTIC_MOST", "4"), ("ELASTIC_UNIT", "1")];
    let job = run(1, "sizes", &["1", "4", "2", "1"], &variables)?;
    let said = job.outcome.stdout.lines().find(|line| line.starts_with("with "));
    if let Some((_, reason)) = said.and_then(|line| line.split_once("parked ranks only: ")) {
        return Err(Skipped(reason.to_owned()).into());
    }
    job.expect_said("3 processes have ended")?;
    // On MPICH a process apart starts the others.
    let apart = u64::from(Launcher::find()?.family() == Family::Mpich);
    ensure!(job.books.len() as u64 == 4 + apart, "{}", job.outcome.report());
    for one in &job.books {
        ensure!(one.trace.has(flags::FINALIZED), "saw no MPI_Finalize\n{}", one.table());
        one.expect_closed_books()?;
    }
    // The report has all as ranks of one job, and says which were started.
    let report = report(&job)?;
    let ranks = report.pointer("/nodes/0/ranks").and_then(Value::as_array).context("no ranks")?;
    let starts = ranks.iter().map(|rank| &rank["identity"]["spawned"]);
    let mut starts: Vec<Option<u64>> = starts.map(Value::as_u64).collect();
    starts.sort_unstable();
    let right: Vec<Option<u64>> =
        (0..4 + apart).map(|start| (start > 0).then_some(start)).collect();
    ensure!(starts == right, "{starts:?}");
    Ok(())
}

fn report(job: &Recorded) -> Result<Value> {
    let mut report = Command::new(Checkout::find()?.program("memprof")?);
    let output = report.arg("report").arg("--json").arg(job.traces()).output()?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Ok(serde_json::from_slice(&output.stdout)?)
}

/// Through shared memory, by messages, and behind the ranks' backs.
fn moves() -> Result<()> {
    for way in ["shared", "messages", "background"] {
        let job = run(4, "arrays", &[way, "1", "4", "2", "3", "1"], &[])?.expect_ranks(4)?;
        job.expect_good_books().with_context(|| way.to_owned())?;
    }
    Ok(())
}

fn skeleton() -> Result<()> {
    run(4, "reshape_skeleton", &["1", "4", "2"], &[])?.expect_ranks(4)?.expect_good_books()?;
    Ok(())
}
