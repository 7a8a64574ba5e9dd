//! Owners of memory in worlds whose ranks are parked, started and leave: with the real profiler,
//! under the launcher of the MPI in use.
#![allow(clippy::print_stdout)] // Its output is for the user that runs the tests.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, ensure};
use elastic_policy::memory::{Footprint, NodeRoom};
use memprof_trace::layout::{Class, flags};
use quo_tests::example::small_deck;
use quo_tests::suite::Skipped;
use quo_tests::{
    APPLICATION, BindTo, Checkout, Family, Launcher, Recorded, Running, fortran_support, until,
};
use serde_json::Value;

const MEBI: u64 = 1 << 20;
const LIMIT: Duration = Duration::from_secs(100);

/// Runs an example of the elastic world.
fn run(ranks: usize, name: &str, words: &[&str], variables: &[(&str, &str)]) -> Result<Recorded> {
    let program = Checkout::find()?.program(&format!("examples/{name}"))?;
    run_file(ranks, &program, words, variables)
}

fn run_file(
    ranks: usize,
    program: &Path,
    words: &[&str],
    variables: &[(&str, &str)],
) -> Result<Recorded> {
    Recorded::under(&launch(ranks, variables)?, program, words)
}

fn launch(ranks: usize, variables: &[(&str, &str)]) -> Result<Command> {
    let mut launch = Launcher::find()?.command(ranks, BindTo::None);
    // A growing world has more ranks than processors, but the launcher sees only the first ranks.
    launch.env("MPIR_CVAR_CH4_PROGRESS_THROTTLE", "1");
    launch.env("PRTE_MCA_rmaps_default_mapping_policy", ":oversubscribe");
    // Waiting ranks must not spin for long.
    launch.env("OMP_WAIT_POLICY", "passive").env("OMPI_MCA_mpi_yield_when_idle", "1");
    launch.env_remove("QUO_TOPOLOGY").envs(variables.iter().copied());
    Ok(launch)
}

/// Rank 1 has 64 MiB of an array, half of it its own part, and 64 MiB in blocks of which all but
/// one are freed. Parked, it has neither; back in the world, it has half of its array again.
fn sleeping_rank_is_seen_to_give_back_application_memory() -> Result<()> {
    let launch = Launcher::find()?.command(2, BindTo::None);
    let program = Checkout::find()?.program("examples/parked_memory")?;
    let often = ["--interval", "10", "--max-overhead", "100"];
    let job = Recorded::ended(&often, &launch, &program, &["64", "300"])?.expect_ranks(2)?;
    job.outcome.expect_success()?;
    job.expect_good_books()?;
    let checked = job.traces.get(1).context("no rank 1")?;
    let kept = |class: Class| APPLICATION(class) || class == Class::Slack;
    let samples: Vec<(u64, u64)> = checked
        .full()
        .map(|(_, rows)| (checked.resident(rows, APPLICATION), checked.resident(rows, kept)))
        .collect();
    // Array and freed blocks; little of both; the array again.
    let stages: [fn(u64, u64) -> bool; 3] = [
        |own, kept| own >= 32 * MEBI && kept >= 96 * MEBI,
        |own, kept| own < 16 * MEBI && kept < 20 * MEBI,
        |own, _| own >= 32 * MEBI,
    ];
    let mut seen = 0;
    for (own, kept) in &samples {
        if seen < stages.len() && stages[seen](*own, *kept) {
            seen += 1;
        }
    }
    ensure!(seen == stages.len(), "{seen} of three stages in {samples:?}\n{}", checked.table());
    Ok(())
}

fn ranks_that_sleep_and_come_back_close_their_books() -> Result<()> {
    let job = run(4, "sizes", &["1", "2", "4", "2", "3", "1"], &[])?.expect_ranks(4)?;
    job.expect_good_books()?.expect_said("epoch 5 size 1: 1 stay, 2 leave, 0 join")?;
    Ok(())
}

/// One rank is launched, three are started one by one, and two of these end long before the job
/// does.
fn started_ranks_that_leave_have_books_of_their_own() -> Result<()> {
    let variables = [("ELASTIC_MOST", "4"), ("ELASTIC_UNIT", "1")];
    let job = run(1, "sizes", &["1", "4", "2", "1"], &variables)?;
    expect_starts(&job)?;
    job.expect_said("3 processes have ended")?;
    // On MPICH a separate process starts the others.
    let apart = u64::from(Launcher::find()?.family() == Family::Mpich);
    ensure!(job.traces.len() as u64 == 4 + apart, "{}", job.outcome.report());
    for one in &job.traces {
        ensure!(one.trace.has(flags::FINALIZED), "saw no MPI_Finalize\n{}", one.table());
        one.expect_all_attributed()?;
    }
    // The report lists all ranks as one job, and says which were started.
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

/// Skips the test, with the back end's reason, if no rank can be started.
fn expect_starts(job: &Recorded) -> Result<()> {
    let said = job.outcome.stdout.lines().find(|line| line.starts_with("with "));
    match said.and_then(|line| line.split_once("parked ranks only: ")) {
        Some((_, reason)) => Err(Skipped(reason.to_owned()).into()),
        None => Ok(()),
    }
}

fn report(job: &Recorded) -> Result<Value> {
    let mut report = Command::new(Checkout::find()?.program("memprof")?);
    let output = report.arg("report").arg("--json").arg(job.traces()).output()?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Ok(serde_json::from_slice(&output.stdout)?)
}

/// Moves arrays through shared memory, by messages, and in the background.
fn arrays_that_move_between_ranks_are_the_applications() -> Result<()> {
    for way in ["shared", "messages", "background"] {
        let job = run(4, "arrays", &[way, "1", "4", "2", "3", "1"], &[])?.expect_ranks(4)?;
        job.expect_good_books().with_context(|| way.to_owned())?;
        // The timeline shows it, with the peak of the move.
        job.expect_phases(&["resize"])?;
    }
    Ok(())
}

/// A manager refuses a shrink because of what the profiler measured before: old and new data on the
/// remaining ranks.
fn peak_of_a_shrink_is_predicted_within_ten_percent() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let source = "tests/programs/elastic_peak.c";
    let program = Checkout::find()?.compile_c(source, folder.path(), &[])?;
    let job = run_file(4, &program, &[], &[])?.expect_ranks(4)?;
    job.expect_good_books()?;
    // The largest prediction of any rank.
    let most = |ranks: u32| {
        let beginning = format!("{ranks} ranks: ");
        let lines = job.outcome.stdout.lines();
        let bytes = lines.filter_map(|line| line.strip_prefix(&beginning)?.strip_suffix(" bytes"));
        let most = bytes.filter_map(|bytes| bytes.parse::<u64>().ok()).max();
        most.map(|most| (ranks, most)).with_context(|| job.outcome.report())
    };
    let (before, now) = (most(2)?, most(4)?);
    let footprint = Footprint::of_two(before, now).context("ranks did not get smaller")?;
    let kept = NodeRoom { name: "here".to_owned(), ranks: 2, free: 0 };
    let Err(refused) = footprint.check_shrink(1, &[kept]) else {
        return Err(anyhow!("a shrink for which nothing is free is not refused"));
    };
    // Samples may miss the peak, but the kernel does not. The growth before needs as much.
    let report = report(&job)?;
    let peak = |rank: usize| report["nodes"][0]["ranks"][rank]["kernel_peak"].as_u64();
    let measured = 2 * peak(0).max(peak(1)).context("the kernel has no peak")?;
    let apart = refused.needed.abs_diff(measured);
    let said = format!("{} B predicted, {measured} B measured", refused.needed);
    println!("{said}");
    ensure!(measured > 2 * (64 + 128) * MEBI, "{said}: the data were not there twice");
    ensure!(apart * 10 <= measured, "{said}");
    Ok(())
}

fn dissertation_skeleton_closes_its_books_in_every_language() -> Result<()> {
    let words = ["1", "4", "2"];
    run(4, "reshape_skeleton", &words, &[])?.expect_ranks(4)?.expect_good_books()?;
    let (checkout, folder) = (Checkout::find()?, tempfile::tempdir()?);
    let in_c = checkout.compile_c("examples/reshape/skeleton.c", folder.path(), &[])?;
    run_file(4, &in_c, &words, &[])?.expect_ranks(4)?.expect_good_books()?;
    fortran_support().map_err(|reason| Skipped(format!("Rust and C alone: {reason}")))?;
    let other = tempfile::tempdir()?;
    let in_fortran =
        checkout.compile_fortran("examples/reshape/skeleton.F90", other.path(), &[])?;
    run_file(4, &in_fortran, &words, &[])?.expect_ranks(4)?.expect_good_books()?;
    Ok(())
}

fn coupled_example_with_resizes_closes_its_books() -> Result<()> {
    let (checkout, folder) = (Checkout::find()?, tempfile::tempdir()?);
    let path = |name: &str| folder.path().join(name).display().to_string();
    small_deck(&[("steps = 200", "steps = 60")], &folder.path().join("deck.toml"))?;
    std::fs::write(path("plan"), "at 10: size 2\nat 20: size 4\nat 30: size 1\n")?;
    let (deck, plan, output) = (path("deck.toml"), path("plan"), path("elastic.json"));
    let log = path("events");
    let words = ["elastic", "--initial-ranks", "1", "--hold", "--plan", &plan, "--log", &log];
    let words = [&words[..], &["--deck", &deck, "--output", &output]].concat();
    let program = checkout.program("coupled")?;
    run_file(4, &program, &words, &[])?.expect_ranks(4)?.expect_good_books()?;
    Ok(())
}

fn sets_and_benchmarks_of_worlds_close_their_books() -> Result<()> {
    for (ranks, program, words) in [
        (4, "sets", ""),
        (4, "synthetic", "mode=step start=1 limit=4 delta=1 every=5 iterations=40 elements=200000"),
        (2, "move_speed", "shared 4"),
        (2, "resize_cost", "2"),
    ] {
        let words: Vec<&str> = words.split_whitespace().collect();
        let job = run(ranks, program, &words, &[])?.expect_ranks(ranks)?;
        job.expect_good_books().with_context(|| program.to_owned())?;
    }
    Ok(())
}

/// Two ranks, one of them parked: requests from outside call it in and park it again.
fn worlds_that_are_told_from_outside_close_their_books() -> Result<()> {
    for (name, words) in [("controlled", ["test", "1"].as_slice()), ("faults", &["1", "2", "20"])] {
        let folder = tempfile::tempdir()?;
        let path = folder.path().to_str().context("no text")?;
        let words = [words, &[path]].concat();
        let (job, told) = std::thread::scope(|scope| {
            let job = scope.spawn(|| run(2, name, &words, &[]));
            let told = ["grow", "shrink"].iter().try_for_each(|what| tell(folder.path(), what));
            // The job ends whatever the outcome.
            let stopped = std::fs::write(folder.path().join("stop"), "");
            (job.join(), told.and(stopped.map_err(Into::into)))
        });
        let job = job.map_err(|_| anyhow!("{name}: the thread that ran it is lost"))??;
        told.with_context(|| format!("{name}\n{}", job.outcome.report()))?;
        job.expect_ranks(2)?.expect_good_books().with_context(|| name.to_owned())?;
    }
    Ok(())
}

/// Waits for the job's socket, and requests this change by one rank.
fn tell(folder: &Path, what: &str) -> Result<()> {
    let sockets = folder.join("sockets");
    let socket = sockets.join("test.sock");
    until(LIMIT, "it has a socket", || Ok(socket.exists()))?;
    let mut command = Command::new(Checkout::find()?.program("quo-elastic")?);
    command.args([what, "test", "1", "--wait"]).env("QUO_ELASTIC_DIR", &sockets);
    let outcome = Running::start(&mut command, what, LIMIT)?.finish()?;
    ensure!(outcome.stdout.contains("is done: "), "{what}: {}", outcome.report());
    Ok(())
}

/// On the only host, a second rank joins and leaves.
fn a_world_that_asks_for_hosts_closes_its_books() -> Result<()> {
    let host = format!("host {} 2", rustix::system::uname().nodename().to_string_lossy());
    let job = run(1, "over_hosts", &["2", &host, "grow 1", "size 1"], &[])?;
    job.expect_good_books()?;
    expect_starts(&job)?;
    job.expect_said("epoch 1 size 2: 1 stay, 0 leave, 1 join")?;
    ensure!(job.traces.len() >= 2, "{}", job.outcome.report());
    Ok(())
}

/// A third rank joins and leaves, twice; where ranks cannot be started, both ranks report that, and
/// end.
fn a_benchmark_of_starts_closes_its_books() -> Result<()> {
    let can_start = expect_starts(&run(1, "sizes", &["1"], &[("ELASTIC_MOST", "2")])?);
    let program = Checkout::find()?.program("examples/start_cost")?;
    let job = Recorded::ended(&[], &launch(2, &[])?, &program, &["2"])?;
    if can_start.is_err() {
        // The rank that fails first may make the launcher end the other.
        let said = job.outcome.stderr.contains("no rank can be started here");
        ensure!(said && job.outcome.expect_success().is_err(), "{}", job.outcome.report());
        return can_start;
    }
    job.outcome.expect_success()?;
    job.expect_good_books()?;
    ensure!(job.traces.len() >= 4, "{}", job.outcome.report());
    Ok(())
}

quo_tests::suite! {
    sleeping_rank_is_seen_to_give_back_application_memory
    ranks_that_sleep_and_come_back_close_their_books
    started_ranks_that_leave_have_books_of_their_own
    arrays_that_move_between_ranks_are_the_applications
    peak_of_a_shrink_is_predicted_within_ten_percent
    dissertation_skeleton_closes_its_books_in_every_language
    coupled_example_with_resizes_closes_its_books
    sets_and_benchmarks_of_worlds_close_their_books
    worlds_that_are_told_from_outside_close_their_books
    a_benchmark_of_starts_closes_its_books
    a_world_that_asks_for_hosts_closes_its_books
}
