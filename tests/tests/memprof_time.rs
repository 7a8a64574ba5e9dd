//! Time inside and outside of MPI: as programs with known waits read it from the clock themselves, under the launcher of
//! the MPI in use.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use quo_tests::memprof::PROGRAMS;
use quo_tests::suite::{self, Test};
use quo_tests::{BindTo, Checkout, Launcher, Recorded, Running, until};
use serde_json::Value;

const TESTS: &[Test] = &[
    ("times_of_all_kinds_are_the_programs_own", kinds),
    ("time_in_quos_barrier_is_lent_and_not_mpi", lent),
    ("run_without_times_names_the_option", without),
    ("report_without_a_ratio_has_the_measured_one", reported),
];

const RANKS: usize = 3;
/// Kinds as the program prints them, by their names in JSON.
const KINDS: [&str; 6] =
    ["point_to_point_ns", "collective_ns", "one_sided_ns", "file_ns", "wait_ns", "other_ns"];

fn main() -> ExitCode {
    suite::run(TESTS, None)
}

/// The numbers that each rank has printed, by rank and region.
fn truths(job: &Recorded) -> BTreeMap<(u64, String), Vec<u64>> {
    let lines = job.outcome.stdout.lines().filter_map(|line| {
        let mut words = line.split(' ').skip_while(|word| !word.ends_with("truth")).skip(1);
        let rank = words.next()?.parse().ok()?;
        let region = words.next()?.to_owned();
        Some(((rank, region), words.filter_map(|word| word.parse().ok()).collect()))
    });
    lines.collect()
}

/// What `memprof time --json` says, or its words on standard error where it fails.
fn told(job: &Recorded) -> Result<Result<Value, String>> {
    let mut command = Command::new(Checkout::find()?.program("memprof")?);
    let output = command.arg("time").arg(job.traces()).arg("--json").output()?;
    if !output.status.success() {
        return Ok(Err(String::from_utf8(output.stderr)?));
    }
    Ok(Ok(serde_json::from_slice(&output.stdout)?))
}

fn region_of<'a>(told: &'a Value, region: &str) -> Result<&'a Value> {
    let regions = told["regions"].as_array().context("no regions")?;
    let found = regions.iter().find(|one| one["name"] == region);
    found.with_context(|| format!("no region {region} in {told}"))
}

/// The entry of a rank in a region.
fn rank_of<'a>(told: &'a Value, region: &str, rank: u64) -> Result<&'a Value> {
    region_of(told, region)?["ranks"]
        .as_array()
        .and_then(|ranks| ranks.iter().find(|one| one["rank"] == rank))
        .with_context(|| format!("no rank {rank} in {region}: {told}"))
}

fn number(entry: &Value, name: &str) -> Result<u64> {
    entry[name].as_u64().with_context(|| format!("no {name} in {entry}"))
}

/// A hundredth of the whole, which is much longer than what lies between a clock of the program and the profiler's.
fn expect_close(what: &str, found: u64, truth: u64, whole: u64) -> Result<()> {
    ensure!(found.abs_diff(truth) * 100 <= whole, "{what}: {found} ns, not {truth} of {whole}");
    Ok(())
}

fn kinds() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let program =
        Checkout::find()?.compile_c(&format!("{PROGRAMS}/waits.c"), folder.path(), &[])?;
    let job = Recorded::run_with(&["--time"], RANKS, &program, &["20"])?;
    let told = told(&job)?.map_err(anyhow::Error::msg)?;
    let truths = truths(&job);
    ensure!(truths.len() == 2 * RANKS, "{truths:?} {}", job.outcome.report());
    for ((rank, region), truth) in &truths {
        let entry = rank_of(&told, region, *rank)?;
        let what = |name: &str| format!("{name} of rank {rank} in {region}");
        let [least, most, kinds @ ..] = &truth[..] else { anyhow::bail!("too few: {truth:?}") };
        let elapsed = number(entry, "elapsed_ns")?;
        // A process may be stopped anywhere between a clock of the program and the profiler's.
        let slack = least / 100;
        ensure!((least - slack..most + slack).contains(&elapsed), "{}: {elapsed}", what("elapsed"));
        for (name, kind) in KINDS.iter().zip(kinds) {
            expect_close(&what(name), number(entry, name)?, *kind, *least)?;
        }
        let mpi = number(entry, "mpi_ns")?;
        expect_close(&what("mpi"), mpi, kinds.iter().sum(), *least)?;
        ensure!(number(entry, "useful_ns")? == elapsed - mpi, "{entry}");
    }
    let solve = region_of(&told, "solve")?;
    let ranks = solve["ranks"].as_array().context("no ranks")?;
    let useful: Vec<u64> =
        ranks.iter().map(|rank| number(rank, "useful_ns")).collect::<Result<_>>()?;
    let mean = useful.iter().sum::<u64>() as f64 / useful.len() as f64;
    let expected = mean / useful.iter().copied().max().unwrap_or(1) as f64;
    let balance = solve["efficiency"]["load_balance"].as_f64().context("no balance")?;
    ensure!((balance - expected).abs() < 1e-6, "a balance of {balance}, not {expected}");
    Ok(())
}

/// A program in C that is linked with quo and with libmemprof.
fn lending(folder: &tempfile::TempDir) -> Result<PathBuf> {
    let checkout = Checkout::find()?;
    let library = checkout.program("libmemprof_api.so")?;
    let beside = library.parent().context("a library without a folder")?.display();
    let include = checkout.root().join("memprof/api/include");
    let flags = [
        format!("-I{}", include.display()),
        format!("-L{beside}"),
        "-lmemprof_api".to_owned(),
        format!("-Wl,-rpath,{beside}"),
    ];
    let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
    checkout.compile_c(&format!("{PROGRAMS}/lent.c"), folder.path(), &flags)
}

fn lent() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let job = Recorded::run_with(&["--time"], RANKS, &lending(&folder)?, &["20"])?;
    job.outcome.expect_success()?;
    let told = told(&job)?.map_err(anyhow::Error::msg)?;
    let truths = truths(&job);
    ensure!(truths.len() == RANKS, "{truths:?} {}", job.outcome.report());
    for ((rank, region), truth) in &truths {
        let entry = rank_of(&told, region, *rank)?;
        let [whole, waited] = truth[..] else { anyhow::bail!("not two numbers: {truth:?}") };
        expect_close("lent", number(entry, "lent_ns")?, waited, whole)?;
    }
    Ok(())
}

fn without() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let program =
        Checkout::find()?.compile_c(&format!("{PROGRAMS}/waits.c"), folder.path(), &[])?;
    let job = Recorded::run(1, &program, &["1"])?;
    let words = told(&job)?.err().context("times that nobody took")?;
    ensure!(words.contains("memprof run --time"), "{words}");
    Ok(())
}

/// Tells the status of an elastic job, from outside, when its program has made its last report.
fn reported() -> Result<()> {
    let (checkout, folder) = (Checkout::find()?, tempfile::tempdir()?);
    let program = checkout.compile_c("tests/programs/elastic_measured.c", folder.path(), &[])?;
    let launch = Launcher::find()?.command(2, BindTo::None);
    let path = folder.path().to_str().context("a folder that is no text")?;
    let recording = Recorded::begun(&["--time"], &launch, &program, &[path])?;
    let status = last_report(folder.path(), 30);
    // However that ended, the job does.
    std::fs::write(folder.path().join("stop"), "")?;
    let job = Recorded::of_job(recording)?;
    job.outcome.expect_success()?;
    let status = status.with_context(|| job.outcome.report())?;
    let mut shares = Vec::new();
    for line in job.outcome.stdout.lines() {
        let words: Vec<&str> =
            line.split(' ').skip_while(|word| !word.ends_with("truth")).collect();
        if let [_, _, in_mpi, computing] = words[..] {
            shares.push((in_mpi.parse::<f64>()?, computing.parse::<f64>()?));
        }
    }
    ensure!(shares.len() == 3, "{}", job.outcome.report());
    let share = |ratio: f64| ratio / (1.0 + ratio);
    let ratio = status["mpi_ratio"].as_f64().with_context(|| format!("no ratio in {status}"))?;
    let (in_mpi, computing) = shares[2];
    let truth = in_mpi / (in_mpi + computing);
    // A process may be stopped anywhere between a clock of the program and the profiler's.
    ensure!((share(ratio) - truth).abs() < 0.05, "a share of {}, not {truth}", share(ratio));
    let total = status["mpi_ratio_total"].as_f64().with_context(|| format!("none in {status}"))?;
    let mean = shares.iter().map(|(mpi, computing)| mpi / (mpi + computing)).sum::<f64>() / 3.0;
    ensure!((share(total) - mean).abs() < 0.05, "a share of {}, not {mean}", share(total));
    Ok(())
}

/// The report of a job, once it is of this iteration.
fn last_report(folder: &Path, iteration: u64) -> Result<Value> {
    const LIMIT: Duration = Duration::from_secs(60);
    let sockets = folder.join("sockets");
    until(LIMIT, "it has a socket", || Ok(sockets.join("test.sock").exists()))?;
    let mut report = Value::Null;
    until(LIMIT, "it has reported all iterations", || {
        let mut command = Command::new(Checkout::find()?.program("quo-elastic")?);
        command.args(["status", "test", "--json"]).env("QUO_ELASTIC_DIR", &sockets);
        let outcome = Running::start(&mut command, "status", LIMIT)?.finish()?;
        outcome.expect_success()?;
        let status: Value = serde_json::from_str(&outcome.stdout)?;
        report = status["status"]["report"].clone();
        Ok(report["iteration"] == iteration)
    })?;
    Ok(report)
}
