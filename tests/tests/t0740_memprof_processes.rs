//! Which processes of a job leave a trace: ranks, whoever started them and whatever they start.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use memprof_trace::layout::flags;
use memprof_trace::read::Trace;
use quo_tests::memprof::{PROGRAMS, Profiled, fake_mpi, traces_in};
use quo_tests::suite::{self, Test};
use quo_tests::{APPLICATION, Books, Checkout, run_compiler, until};

const TESTS: &[Test] = &[
    ("child_that_calls_mpi_is_the_rank_not_its_parent", child),
    ("a_rank_that_becomes_a_daemon_is_one_rank", daemon),
    ("programs_that_a_rank_starts_in_any_way_leave_nothing", started),
    ("unreported_child_leaves_the_rank_alone", cloned),
    ("rank_that_becomes_another_has_a_trace_of_each", executed),
    ("what_a_rank_was_before_leaves_nothing", wrapped),
    ("shells_between_launcher_and_rank_leave_nothing_however_they_end", shells),
    ("all_processes_count_where_all_are_wanted", both_recorded),
];

const LIMIT: Duration = Duration::from_secs(60);
const MEBI: u64 = 1 << 20;

fn main() -> ExitCode {
    suite::run(TESTS, None)
}

/// The program `family.c`, linked with the fake MPI.
fn family(folder: &Path) -> Result<PathBuf> {
    let mpi = fake_mpi()?;
    let programs = Checkout::find()?.root().join(PROGRAMS);
    let program = folder.join("family");
    let mut compiler = Command::new("cc");
    compiler.args(["-std=gnu11", "-O1", "-fno-builtin", "-Wall", "-Wextra", "-Werror"]);
    compiler.arg(programs.join("family.c")).arg("-o").arg(&program);
    compiler.arg(format!("-I{}", programs.join("fakempi").display()));
    compiler.arg(format!("-L{}", mpi.display())).args(["-lfakempi", "-lboth", "-pthread"]);
    compiler.arg(format!("-Wl,-rpath,{}", mpi.display()));
    run_compiler(compiler.arg(format!("-Wl,-rpath-link,{}", mpi.display())))?;
    Ok(program)
}

/// The traces that the program leaves.
fn run(how: &str) -> Result<(tempfile::TempDir, Vec<Books>)> {
    let folder = tempfile::tempdir()?;
    let program = family(folder.path())?;
    let traces = folder.path().join("traces");
    fs::create_dir(&traces)?;
    Profiled::new(program, &traces)?.arg(how).run(LIMIT)?.expect_success()?;
    let books = traces_in(&traces)?.iter().map(|file| Books::open(file)).collect::<Result<_>>()?;
    Ok((folder, books))
}

fn expect_rank(books: &Books) -> Result<()> {
    books.expect_whole_run()?;
    let peak = books.peak(APPLICATION);
    ensure!((20 * MEBI..40 * MEBI).contains(&peak), "{peak} B\n{}", books.table());
    Ok(())
}

fn only(books: &[Books]) -> Result<&Books> {
    match books {
        [one] => Ok(one),
        more => bail!("{} traces", more.len()),
    }
}

/// Returns the output of `memprof report --json`.
fn report(folder: &Path) -> Result<serde_json::Value> {
    let mut command = Command::new(Checkout::find()?.program("memprof")?);
    let output = command.arg("report").arg("--json").arg(folder).output()?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Ok(serde_json::from_slice(&output.stdout)?)
}

fn states(report: &serde_json::Value) -> Vec<String> {
    let nodes = report["nodes"].as_array().into_iter().flatten();
    let ranks = nodes.flat_map(|node| node["ranks"].as_array().into_iter().flatten());
    ranks.map(|rank| rank["state"].as_str().unwrap_or("?").to_owned()).collect()
}

fn child() -> Result<()> {
    let (_folder, books) = run("child")?;
    let one = only(&books)?;
    expect_rank(one)?;
    ensure!(one.trace.identity.rank == 0, "rank {}", one.trace.identity.rank);
    Ok(())
}

fn daemon() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let program = family(folder.path())?;
    let traces = folder.path().join("traces");
    fs::create_dir(&traces)?;
    Profiled::new(program, &traces)?.arg("daemon").run(LIMIT)?.expect_success()?;
    // It is nobody's child any more: its trace says when it has ended.
    let closed = |file: &PathBuf| Trace::open(file).is_ok_and(|trace| trace.has(flags::CLOSED));
    until(LIMIT, "the daemon ends", || Ok(traces_in(&traces)?.iter().any(closed)))?;
    let report = report(&traces)?;
    ensure!(states(&report) == ["closed"], "{:?}", states(&report));
    Ok(())
}

fn started() -> Result<()> {
    let (_folder, books) = run("vfork")?;
    expect_rank(only(&books)?)
}

fn cloned() -> Result<()> {
    let (_folder, books) = run("clone")?;
    expect_rank(only(&books)?)
}

fn executed() -> Result<()> {
    let (folder, books) = run("exec")?;
    ensure!(books.len() == 2, "{} traces", books.len());
    let mut images: Vec<u32> = books.iter().map(|one| one.trace.identity.image).collect();
    images.sort_unstable();
    ensure!(images == [0, 1], "{images:?}");
    let last = books.iter().find(|one| one.trace.identity.image == 1).context("no second")?;
    expect_rank(last)?;
    let names: Vec<_> = traces_in(&folder.path().join("traces"))?;
    ensure!(names.iter().any(|name| name.to_string_lossy().ends_with("-2.memprof")), "{names:?}");
    let mut states = states(&report(&folder.path().join("traces"))?);
    states.sort();
    ensure!(states == ["closed", "replaced"], "{states:?}");
    Ok(())
}

fn wrapped() -> Result<()> {
    let (_folder, books) = run("wrapper")?;
    let one = only(&books)?;
    ensure!(one.trace.identity.image == 0, "image {}", one.trace.identity.image);
    expect_rank(one)
}

fn shells() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let program = family(folder.path())?;
    for (number, ending) in ["exit 0", "kill -9 $$", "exec sh -c 'kill -9 $$'"].iter().enumerate() {
        let traces = folder.path().join(number.to_string());
        fs::create_dir(&traces)?;
        let script = format!("sh -c 'kill -9 $$'; {} rank; {ending}", program.display());
        let finished = Profiled::new("sh", &traces)?.args(&["-c", &script]).run(LIMIT)?;
        ensure!(finished.stdout.contains("a rank"), "{}", finished.report());
        ensure!(!finished.stderr.contains("memprof"), "{}", finished.report());
        expect_rank(&Books::open(finished.trace()?)?).with_context(|| ending.to_string())?;
    }
    Ok(())
}

fn both_recorded() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let program = family(folder.path())?;
    let traces = folder.path().join("traces");
    fs::create_dir(&traces)?;
    let script = format!("{} rank; :", program.display());
    let profiled = Profiled::new("sh", &traces)?.args(&["-c", &script]);
    profiled.env("MEMPROF_RECORD", "all").run(LIMIT)?.expect_success()?;
    // Asked for, so both count; a shell may end without a goodbye.
    let states = states(&report(&traces)?);
    ensure!(states.len() == 2, "{states:?}");
    Ok(())
}
