//! Processes of a job that leave a trace: ranks, whatever starts them and whatever they start.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use memprof_trace::layout::flags;
use memprof_trace::read::Trace;
use quo_tests::memprof::{PROGRAMS, Profiled, fake_mpi, traces_in};
use quo_tests::{APPLICATION, CheckedTrace, Checkout, run_compiler, until};

const LIMIT: Duration = Duration::from_secs(60);
const MEBI: u64 = 1 << 20;

/// Compiles `plain.c`, which has no MPI.
fn plain(folder: &Path) -> Result<PathBuf> {
    let program = folder.join("plain");
    let mut compiler = Command::new("cc");
    compiler.args(["-std=gnu11", "-O1", "-fno-builtin", "-Wall", "-Wextra", "-Werror"]);
    compiler.arg(Checkout::find()?.root().join(PROGRAMS).join("plain.c"));
    run_compiler(compiler.arg("-o").arg(&program))?;
    Ok(program)
}

/// Returns the output of `memprof` with these arguments, in a folder.
fn memprof(folder: &Path, arguments: &[&str]) -> Result<(String, String)> {
    let mut command = Command::new(Checkout::find()?.program("memprof")?);
    let output = command.current_dir(folder).args(arguments).output()?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    ensure!(output.status.success(), "{arguments:?}: {}\n{err}", output.status);
    Ok((out, err))
}

/// Compiles `family.c` with the fake MPI.
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

/// Runs the program and returns its traces.
fn run(how: &str) -> Result<(tempfile::TempDir, Vec<CheckedTrace>)> {
    let folder = tempfile::tempdir()?;
    let program = family(folder.path())?;
    let traces = folder.path().join("traces");
    fs::create_dir(&traces)?;
    Profiled::new(program, &traces)?.arg(how).run(LIMIT)?.expect_success()?;
    let checked =
        traces_in(&traces)?.iter().map(|file| CheckedTrace::open(file)).collect::<Result<_>>()?;
    Ok((folder, checked))
}

fn expect_rank(checked: &CheckedTrace) -> Result<()> {
    checked.expect_whole_run()?;
    let peak = checked.peak(APPLICATION);
    ensure!((20 * MEBI..40 * MEBI).contains(&peak), "{peak} B\n{}", checked.table());
    Ok(())
}

fn only(checked: &[CheckedTrace]) -> Result<&CheckedTrace> {
    match checked {
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

fn child_that_calls_mpi_is_the_rank_not_its_parent() -> Result<()> {
    let (_folder, checked) = run("child")?;
    let one = only(&checked)?;
    expect_rank(one)?;
    ensure!(one.trace.identity.rank == 0, "rank {}", one.trace.identity.rank);
    Ok(())
}

fn a_rank_that_becomes_a_daemon_is_one_rank() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let program = family(folder.path())?;
    let traces = folder.path().join("traces");
    fs::create_dir(&traces)?;
    Profiled::new(program, &traces)?.arg("daemon").run(LIMIT)?.expect_success()?;
    // The daemon has no parent to wait for it: its trace shows when it has ended.
    let closed = |file: &PathBuf| Trace::open(file).is_ok_and(|trace| trace.has(flags::CLOSED));
    until(LIMIT, "the daemon ends", || Ok(traces_in(&traces)?.iter().any(closed)))?;
    let report = report(&traces)?;
    ensure!(states(&report) == ["closed"], "{:?}", states(&report));
    Ok(())
}

fn programs_that_a_rank_starts_in_any_way_leave_nothing() -> Result<()> {
    let (_folder, checked) = run("vfork")?;
    expect_rank(only(&checked)?)
}

fn unreported_child_leaves_the_rank_alone() -> Result<()> {
    let (_folder, checked) = run("clone")?;
    expect_rank(only(&checked)?)
}

fn rank_that_becomes_another_has_a_trace_of_each() -> Result<()> {
    let (folder, checked) = run("exec")?;
    ensure!(checked.len() == 2, "{} traces", checked.len());
    let mut images: Vec<u32> = checked.iter().map(|one| one.trace.identity.image).collect();
    images.sort_unstable();
    ensure!(images == [0, 1], "{images:?}");
    let last = checked.iter().find(|one| one.trace.identity.image == 1).context("no second")?;
    expect_rank(last)?;
    let names: Vec<_> = traces_in(&folder.path().join("traces"))?;
    ensure!(names.iter().any(|name| name.to_string_lossy().ends_with("-2.memprof")), "{names:?}");
    let mut states = states(&report(&folder.path().join("traces"))?);
    states.sort();
    ensure!(states == ["closed", "replaced"], "{states:?}");
    Ok(())
}

fn what_a_rank_was_before_leaves_nothing() -> Result<()> {
    let (_folder, checked) = run("wrapper")?;
    let one = only(&checked)?;
    ensure!(one.trace.identity.image == 0, "image {}", one.trace.identity.image);
    expect_rank(one)
}

fn shells_between_launcher_and_rank_leave_nothing_however_they_end() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let program = family(folder.path())?;
    for (number, ending) in ["exit 0", "kill -9 $$", "exec sh -c 'kill -9 $$'"].iter().enumerate() {
        let traces = folder.path().join(number.to_string());
        fs::create_dir(&traces)?;
        let script = format!("sh -c 'kill -9 $$'; {} rank; {ending}", program.display());
        let finished = Profiled::new("sh", &traces)?.args(&["-c", &script]).run(LIMIT)?;
        ensure!(finished.stdout.contains("a rank"), "{}", finished.report());
        ensure!(!finished.stderr.contains("memprof"), "{}", finished.report());
        expect_rank(&CheckedTrace::open(finished.trace()?)?).with_context(|| ending.to_string())?;
    }
    Ok(())
}

fn all_processes_count_where_all_are_wanted() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let program = family(folder.path())?;
    let traces = folder.path().join("traces");
    fs::create_dir(&traces)?;
    let script = format!("{} rank; :", program.display());
    let profiled = Profiled::new("sh", &traces)?.args(&["-c", &script]);
    profiled.env("MEMPROF_RECORD", "all").run(LIMIT)?.expect_success()?;
    // Both were requested, so both count; a shell may end without closing its trace.
    let states = states(&report(&traces)?);
    ensure!(states.len() == 2, "{states:?}");
    Ok(())
}

/// As a user without MPI does: no launcher, no option, no `--`.
fn program_without_mpi_is_recorded_with_its_children() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let place = folder.path();
    plain(place)?;
    let (_, table) = memprof(place, &["run", "-o", "traces", "./plain"])?;
    let (text, _) = memprof(place, &["report", "traces"])?;
    let (live, _) = memprof(place, &["live", "--once", "traces"])?;
    for text in [&table, &text, &live] {
        ensure!(
            text.starts_with("plain  3 processes on 1 node") || text.starts_with("\nplain  3 ")
        );
        ensure!(!text.contains("rank") && !text.contains("MPI"), "{text}");
        ensure!(!text.contains("note:"), "{text}");
    }
    let job = report(&place.join("traces"))?;
    let processes = job["nodes"][0]["ranks"].as_array().context("no processes")?;
    let number = |value: &serde_json::Value| value.as_u64().context("no number");
    let root = &processes.iter().min_by_key(|one| one["offset_ns"].as_u64());
    let root = number(&root.context("no process")?["identity"]["pid"])?;
    let mut peaks = Vec::new();
    for one in processes {
        let identity = &one["identity"];
        ensure!(identity["rank"].is_null() && identity["child"].is_null(), "{identity}");
        let peak = number(&one["peak"]["bytes"])? / MEBI;
        let owned = one["held"].as_array().into_iter().flatten();
        let owned = owned.filter(|held| held["name"] == "app.exe:plain");
        let owned = owned.map(|held| number(&held["owned_peak"])).sum::<Result<u64>>()? / MEBI;
        ensure!((owned..owned + 6).contains(&peak), "{peak} MiB of {owned}");
        let is_child = number(&identity["pid"])? != root;
        ensure!(identity["parent"].as_u64() == is_child.then_some(root), "{identity}");
        peaks.push((owned, one["state"].as_str().unwrap_or_default().to_owned()));
        let pid = number(&identity["pid"])?.to_string();
        let (text, _) = memprof(place, &["report", "traces", "--pid", &pid])?;
        ensure!(text.starts_with(&format!("process {pid} (plain) on ")), "{text}");
        let massif = ["export", "traces", "--format", "massif", "--pid", &pid];
        ensure!(memprof(place, &massif)?.0.contains(&format!("process {pid} (plain)")));
    }
    peaks.sort();
    let expected = [(30, "closed"), (50, "closed"), (80, "gone")];
    ensure!(peaks == expected.map(|(peak, state)| (peak, state.to_owned())), "{peaks:?}");
    Ok(())
}

fn program_that_is_killed_at_once_is_recorded() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let run = ["run", "-o", "traces", "--", "sh", "-c", "kill -9 $$"];
    ensure!(memprof(folder.path(), &run).is_err(), "it ended well");
    let report = report(&folder.path().join("traces"))?;
    ensure!(states(&report) == ["killed"], "{:?}", states(&report));
    Ok(())
}

/// A script sets the variables of a launcher for one of its programs.
fn script_around_ranks_is_no_process_of_their_report() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let place = folder.path();
    family(place)?;
    plain(place)?;
    let script = "./plain; PMI_RANK=0 PMI_SIZE=1 ./family rank; :";
    memprof(place, &["run", "-q", "-o", "traces", "sh", "-c", script])?;
    let (text, _) = memprof(place, &["report", "traces"])?;
    ensure!(text.starts_with("family  1 rank on 1 node"), "{text}");
    let note = "note: 4 traces of programs beside the ranks that never called MPI, not counted";
    ensure!(text.contains(note), "{text}");
    Ok(())
}

quo_tests::suite! {
    child_that_calls_mpi_is_the_rank_not_its_parent
    a_rank_that_becomes_a_daemon_is_one_rank
    programs_that_a_rank_starts_in_any_way_leave_nothing
    unreported_child_leaves_the_rank_alone
    rank_that_becomes_another_has_a_trace_of_each
    what_a_rank_was_before_leaves_nothing
    shells_between_launcher_and_rank_leave_nothing_however_they_end
    all_processes_count_where_all_are_wanted
    program_without_mpi_is_recorded_with_its_children
    program_that_is_killed_at_once_is_recorded
    script_around_ranks_is_no_process_of_their_report
}
