//! Growth of memory from step to step: reports name the line of a program that leaks a known number
//! of bytes in each step, and do not accuse one that fills a cache and one that frees everything.

use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, ensure};
use quo_tests::memprof::PROGRAMS;
use quo_tests::{Checkout, Recorded, mpicc, run_compiler};
use serde_json::Value;

const RANKS: usize = 2;
/// Enough for sixteen moments of call stacks, which are a second apart.
const STEPS: u64 = 3000;
/// Bytes that a rank keeps in a step.
const KEPT: u64 = 50_000;
/// Accuracy of slopes in so short a run: call stacks and iterations are read once in a second.
const TOLERANCE: f64 = 0.12;
/// Region of ten steps.
const PHASE: &str = "ten steps";
const LIMIT: Duration = Duration::from_secs(240);

/// Compiles the program, and runs all its kinds at the same time, which mostly sleep.
fn record(kinds: &[&str], options: &[&str]) -> Result<(tempfile::TempDir, Vec<Recorded>)> {
    let folder = tempfile::tempdir()?;
    let source = Checkout::find()?.root().join(PROGRAMS).join("growing.c");
    let program = folder.path().join("growing");
    let mut command = Command::new(mpicc());
    run_compiler(command.args(["-g", "-O1"]).arg(source).arg("-o").arg(&program))?;
    let run = |kind: &str| {
        let (kept, steps) = (KEPT.to_string(), STEPS.to_string());
        Recorded::run_within(LIMIT, options, RANKS, &program, &[kind, &kept, &steps])
    };
    let run = &run;
    let jobs = thread::scope(|scope| {
        let jobs: Vec<_> = kinds.iter().map(|kind| scope.spawn(move || run(kind))).collect();
        let jobs = jobs.into_iter().map(|job| job.join().map_err(|_| anyhow!("a job panicked"))?);
        let jobs: Result<Vec<_>> = jobs.collect();
        jobs
    })?;
    Ok((folder, jobs))
}

fn memprof(words: &[&str], traces: &Path) -> Result<String> {
    let mut command = Command::new(Checkout::find()?.program("memprof")?);
    let output = command.args(words).arg(traces).output()?;
    ensure!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
    Ok(String::from_utf8(output.stdout)?)
}

fn growth(words: &[&str], job: &Recorded) -> Result<Value> {
    let words = [&["report", "--growth", "--json"], words].concat();
    let mut report: Value = serde_json::from_str(&memprof(&words, &job.traces())?)?;
    let growth = report["growth"].take();
    ensure!(growth["too_short"] == false, "{growth}");
    Ok(growth)
}

/// Returns the call that leaks, as reports show it.
fn leak_place() -> Result<String> {
    let source = Checkout::find()?.root().join(PROGRAMS).join("growing.c");
    let text = std::fs::read_to_string(source)?;
    let line = text.lines().position(|line| line.contains("record = malloc("));
    Ok(format!("keep_record  growing.c:{}", line.context("no leak in the program")? + 1))
}

/// Returns the program's component.
fn program(growth: &Value) -> Option<&Value> {
    growth["components"].as_array()?.iter().find(|one| one["name"] == "app.exe:growing")
}

/// Checks that a slope is this many bytes, and that its interval is not far away.
fn check_slope(slope: &Value, bytes: f64) -> Result<()> {
    let number = |name: &str| slope[name].as_f64().with_context(|| format!("no {name} in {slope}"));
    let near = |found: f64, tolerance: f64| (found / bytes - 1.0).abs() <= tolerance;
    ensure!(near(number("bytes")?, TOLERANCE), "{slope}, not {bytes} B");
    ensure!(number("low")? <= bytes * (1.0 + TOLERANCE), "{slope}, not {bytes} B");
    ensure!(number("high")? >= bytes * (1.0 - TOLERANCE), "{slope}, not {bytes} B");
    Ok(())
}

/// Checks the leak by moments of this many steps, with the call that makes it.
fn check_leak(growth: &Value, unit: &str, steps: u64) -> Result<()> {
    ensure!(growth["unit"] == unit, "{growth}");
    ensure!(growth["end"] == (STEPS / steps) as f64, "{growth}");
    let leak = program(growth).with_context(|| format!("no leak in {growth}"))?;
    let all = (RANKS as u64 * KEPT * steps) as f64;
    ensure!(leak["verdict"] == "grows" && leak["processes"] == RANKS, "{leak}");
    check_slope(&leak["slope"], all)?;
    check_slope(&leak["fastest"]["slope"], (KEPT * steps) as f64)?;
    let calls = leak["calls"].as_array().context("no calls")?;
    let [call] = calls.as_slice() else { return Err(anyhow!("not one call: {leak}")) };
    let place = call["place"].as_str().unwrap_or("");
    ensure!(place == leak_place()?, "{place}");
    let slope = call["slope"]["bytes"].as_f64().context("no slope")?;
    ensure!((slope / all - 1.0).abs() <= 2.0 * TOLERANCE, "{call}");
    Ok(())
}

/// Checks when the node of a leak has no memory left.
fn check_passing(growth: &Value) -> Result<()> {
    let node = &growth["nodes"][0];
    ensure!(node["verdict"] == "grows", "{node}");
    let number = |value: &Value| value.as_f64().with_context(|| format!("no number in {node}"));
    let (now, limit) = (number(&node["now"])?, number(&node["limit"])?);
    let expected = STEPS as f64 + (limit - now) / (RANKS as u64 * KEPT) as f64;
    let passes = &node["passes"];
    ensure!((number(&passes["at"])? / expected - 1.0).abs() <= 2.0 * TOLERANCE, "{node}");
    ensure!(number(&passes["earliest"])? <= number(&passes["at"])?, "{node}");
    ensure!(number(&passes["at"])? <= number(&passes["latest"])?, "{node}");
    Ok(())
}

/// Checks that a leak is what changed from one job to the other.
fn check_change(before: &Recorded, after: &Recorded) -> Result<()> {
    let before = before.traces();
    let before = before.to_str().context("a path that is no text")?;
    let diff: Value =
        serde_json::from_str(&memprof(&["diff", "--json", before], &after.traces())?)?;
    let changes = diff["growth"]["components"].as_array().context("no growth in the comparison")?;
    let leak = changes.iter().find(|one| one["name"] == "app.exe:growing");
    let leak = leak.with_context(|| format!("no leak in {changes:?}"))?;
    ensure!(leak["before"].is_null() && leak["place"] == *leak_place()?, "{leak}");
    let slope = leak["after"].as_f64().context("no slope")?;
    ensure!((slope / (RANKS as u64 * KEPT) as f64 - 1.0).abs() <= TOLERANCE, "{leak}");
    let text = memprof(&["diff", before], &after.traces())?;
    ensure!(text.contains("growth per iteration, all ranks") && text.contains("new"), "{text}");
    Ok(())
}

fn only_a_leak_grows_by_iteration_with_line_and_slope() -> Result<()> {
    let (_folder, jobs) = record(&["leak", "cache", "none"], &["--loops"])?;
    let [leak, cache, none] = jobs.as_slice() else { return Err(anyhow!("not three jobs")) };
    let found = growth(&[], leak)?;
    check_leak(&found, "iteration", 1)?;
    ensure!(found["function"] == "MPI_Allreduce", "{found}");
    check_passing(&found)?;
    check_leak(&growth(&["--phase", PHASE], leak)?, "entry", 10)?;
    let text = memprof(&["report", "--growth"], &leak.traces())?;
    for part in [&*leak_place()?, "per iteration", " at iteration "] {
        ensure!(text.contains(part), "{part}: {text}");
    }

    let found = growth(&[], cache)?;
    let filled = program(&found).with_context(|| format!("not told in {found}"))?;
    ensure!(filled["verdict"] == "ended" && filled["slope"].is_null(), "{filled}");
    let until = filled["until"].as_f64().context("no end")? / STEPS as f64;
    ensure!((0.4..=0.6).contains(&until), "{filled}");
    ensure!(found["nodes"][0]["passes"].is_null(), "{found}");

    let traces = none.traces();
    let main = memprof(&["report", "--growth", "--phase", "main"], &traces);
    let said = main.err().context("main has entries")?.to_string();
    ensure!(said.contains("its entries are not known over time"), "{said}");
    for kept in [&growth(&[], none)?, &growth(&["--phase", PHASE], none)?] {
        ensure!(program(kept).is_none() && kept["nodes"][0]["passes"].is_null(), "{kept}");
    }
    check_change(none, leak)
}

quo_tests::suite! {
    only_a_leak_grows_by_iteration_with_line_and_slope
}
