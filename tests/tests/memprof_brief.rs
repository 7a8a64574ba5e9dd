//! Memory that a process has only for a moment: seen before it is gone, or reported as unseen.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use quo_tests::memprof::{PROGRAMS, Profiled, fake_mpi, preload, traces_in};
use quo_tests::suite::skip;
use quo_tests::{APPLICATION, CheckedTrace, Checkout, run_compiler};
use serde_json::Value;

const LIMIT: Duration = Duration::from_secs(120);
const MEBI: u64 = 1 << 20;
/// The least that is seen of 40 MiB, as below.
const NEAR_40: u64 = 40 * MEBI - MEBI / 4;
/// Two stacks of 25 MiB. A sample while they are touched may have seen nearly all of them: then half a
/// percent more is no reason for another one before they are gone.
const NEAR_50: std::ops::Range<u64> = 50 * MEBI - MEBI / 2..52 * MEBI;

/// Runs the program `brief.c`, linked with the fake MPI, and leaves its trace in `traces`.
fn run(folder: &Path, how: &str, mebi: u64) -> Result<()> {
    run_with(folder, how, mebi, &[])
}

fn run_with(folder: &Path, how: &str, mebi: u64, variables: &[(&str, &str)]) -> Result<()> {
    let mpi = fake_mpi()?;
    let programs = Checkout::find()?.root().join(PROGRAMS);
    let program = folder.join("brief");
    let mut compiler = Command::new("cc");
    compiler.args(["-std=gnu11", "-O1", "-fno-builtin", "-Wall", "-Wextra", "-Werror"]);
    compiler.arg(programs.join("brief.c")).arg("-o").arg(&program);
    compiler.arg(format!("-I{}", programs.join("fakempi").display()));
    compiler.arg(format!("-L{}", mpi.display())).args(["-lfakempi", "-lboth", "-pthread"]);
    compiler.arg(format!("-Wl,-rpath,{}", mpi.display()));
    run_compiler(compiler.arg(format!("-Wl,-rpath-link,{}", mpi.display())))?;
    let traces = folder.join("traces");
    fs::create_dir(&traces)?;
    let mebi = mebi.to_string();
    // On a slow machine the budget may not suffice for the sample before the memory is gone.
    let profiled = Profiled::new(program, &traces)?.arg(how).arg(&mebi);
    let profiled = profiled.env("MEMPROF_MAX_OVERHEAD", "100");
    let profiled = variables.iter().fold(profiled, |to, (name, value)| to.env(name, value));
    profiled.run(LIMIT)?.expect_success()?;
    Ok(())
}

/// Returns the report of `memprof report` on the traces, with these options.
fn report(folder: &Path, options: &[&str]) -> Result<String> {
    let mut command = Command::new(Checkout::find()?.program("memprof")?);
    let output = command.arg("report").args(options).arg(folder.join("traces")).output()?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Ok(String::from_utf8(output.stdout)?)
}

/// Returns the only rank, and the lower and upper bound of its node's peak.
fn rank(folder: &Path) -> Result<(Value, u64, u64)> {
    let job: Value = serde_json::from_str(&report(folder, &["--json"])?)?;
    let node = &job["nodes"][0];
    let least = node["timeline"]["peak"]["bytes"].as_u64().context("no peak")?;
    let most = node["timeline"]["peak_at_most"].as_u64().context("no bound")?;
    Ok((node["ranks"][0].clone(), least, most))
}

/// Returns the resident peak of a component, and its group.
fn held<'a>(rank: &'a Value, component: &str) -> Result<(u64, &'a Value)> {
    let held = rank["held"].as_array().context("no components")?;
    let found = held.iter().find(|one| one["name"] == component);
    let found = found.with_context(|| format!("no {component}"))?;
    Ok((found["resident_peak"].as_u64().context("no peak")?, &found["group"]))
}

fn memory_lent_by_mpi_peaks_as_the_users() -> Result<()> {
    let folder = tempfile::tempdir()?;
    run(folder.path(), "lent", 40)?;
    let (rank, least, _) = rank(folder.path())?;
    let (users, group) = held(&rank, "mpi.for_user")?;
    ensure!((NEAR_40..41 * MEBI).contains(&users), "{users} B for the user");
    ensure!(group == "mpi_for_user", "in the group {group}");
    let held_all = rank["held"].as_array().context("no components")?;
    let at_peak = held_all.iter().find(|one| one["name"] == "mpi.for_user");
    let at_peak = at_peak.and_then(|one| one["resident_at_peak"].as_u64());
    ensure!(at_peak.is_some_and(|bytes| bytes >= NEAR_40), "{at_peak:?} B of it at the peak");
    let (own, _) = held(&rank, "mpi.core:libfakempi.so")?;
    ensure!(own < 2 * MEBI, "{own} B of MPI's own");
    ensure!(least >= users && rank["unseen"] == 0, "{rank}");
    Ok(())
}

fn stacks_of_ending_threads_are_seen_before_they_go() -> Result<()> {
    let folder = tempfile::tempdir()?;
    run(folder.path(), "stacks", 25)?;
    let (rank, least, _) = rank(folder.path())?;
    let (peak, _) = held(&rank, "stack:brief")?;
    ensure!(NEAR_50.contains(&peak), "stacks of {peak} B");
    ensure!(least >= peak && rank["unseen"] == 0, "{rank}");
    Ok(())
}

/// The kernel's highest count of a process begins with that of its starter.
fn brief_peak_below_that_of_the_starter_is_seen() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let starter = std::hint::black_box(vec![1_u8; 200 << 20]);
    run(folder.path(), "stacks", 25)?;
    drop(starter);
    let (rank, least, _) = rank(folder.path())?;
    let (peak, _) = held(&rank, "stack:brief")?;
    ensure!(NEAR_50.contains(&peak), "stacks of {peak} B");
    ensure!(least >= peak && rank["missed"] == 0, "{rank}");
    Ok(())
}

/// The next `free` requests the sample: the block has left the ledger, but its pages are still
/// there.
fn block_is_its_owners_while_it_is_freed() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let asking = folder.path().join("asking_free.so");
    let source = Checkout::find()?.root().join(PROGRAMS).join("asking_free.c");
    let mut compiler = Command::new("cc");
    compiler.args(["-std=gnu11", "-Wall", "-Wextra", "-Werror", "-fPIC", "-shared"]);
    run_compiler(compiler.arg(source).arg("-o").arg(&asking).arg("-ldl"))?;
    let both = format!("{} {}", preload()?.display(), asking.display());
    run_with(folder.path(), "freed", 40, &[("LD_PRELOAD", &both)])?;
    let [trace] = &traces_in(&folder.path().join("traces"))?[..] else { bail!("not one trace") };
    let checked = CheckedTrace::open(trace)?;
    checked.expect_all_attributed()?;
    let (_, rows) = checked.asked().next().context("no sample was asked for")?;
    let application = checked.resident(rows, APPLICATION);
    ensure!((40 * MEBI..41 * MEBI).contains(&application), "{application} B\n{}", checked.table());
    let owned = rows.iter().map(|row| row.owned).sum::<u64>();
    ensure!(owned < 20 * MEBI, "{owned} B are owned while it is freed\n{}", checked.table());
    Ok(())
}

fn memory_no_sample_saw_is_named_in_all_reports() -> Result<()> {
    let folder = tempfile::tempdir()?;
    run(folder.path(), "paused", 64)?;
    let (rank, least, most) = rank(folder.path())?;
    let number = |name: &str| rank[name].as_u64().context(name.to_owned());
    let (kernel, unseen) = (number("kernel_peak")?, number("unseen")?);
    ensure!((64 * MEBI..80 * MEBI).contains(&kernel), "the kernel's peak is {kernel} B");
    // A page that the process has mapped twice counts once for the node.
    let beyond = (kernel - least).abs_diff(unseen);
    ensure!(beyond < MEBI / 16 && unseen >= 56 * MEBI, "{unseen} B unseen of {kernel}");
    ensure!(most == kernel, "the node had at most {most} B, not {kernel}");
    for options in [&[][..], &["--rank", "0"]] {
        let text = report(folder.path(), options)?;
        ensure!(text.contains("note: rank 0: the kernel counted"), "{options:?}:\n{text}");
    }
    let page = folder.path().join("page.html");
    report(folder.path(), &["--html", page.to_str().context("path")?])?;
    ensure!(fs::read_to_string(page)?.contains("rank 0: the kernel counted"), "not in the page");
    Ok(())
}

/// Runs a program without MPI under `memprof run`, and returns its report. No sample is left out
/// for its cost.
fn job_of(folder: &Path, program: &Path, arguments: &[&str]) -> Result<Value> {
    job_with(&["--max-overhead", "100"], folder, program, arguments)
}

fn job_with(options: &[&str], folder: &Path, program: &Path, arguments: &[&str]) -> Result<Value> {
    let mut command = Command::new(Checkout::find()?.program("memprof")?);
    command.args(["run", "--quiet"]).args(options).arg("-o").arg(folder.join("traces"));
    command.env_remove("MEMPROF_MAX_OVERHEAD");
    let output = command.arg("--").arg(program).args(arguments).output()?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Ok(serde_json::from_str(&report(folder, &["--json"])?)?)
}

/// Compiles a program without MPI.
fn plain(folder: &Path, name: &str) -> Result<PathBuf> {
    let program = folder.join(name);
    let source = Checkout::find()?.root().join(PROGRAMS).join(format!("{name}.c"));
    let mut compiler = Command::new("cc");
    compiler.args([
        "-std=gnu11",
        "-O1",
        "-g",
        "-fno-builtin",
        "-Wall",
        "-Wextra",
        "-Werror",
        "-pthread",
    ]);
    run_compiler(compiler.arg(source).arg("-o").arg(&program))?;
    Ok(program)
}

fn slack_at_the_peak_has_who_left_it() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let job = job_of(folder.path(), &plain(folder.path(), "left")?, &[])?;
    let rank = &job["nodes"][0]["ranks"][0];
    let held = rank["held"].as_array().context("no components")?;
    let of = |name: &str, field: &str| {
        let found = held.iter().find(|one| one["name"] == name);
        found.and_then(|one| one[field].as_u64()).with_context(|| format!("no {name}: {rank}"))
    };
    let slack = of("slack", "resident_at_peak")?;
    let left = of("app.exe:left", "slack_at_peak")?;
    ensure!(slack >= 30 * MEBI, "{slack} B of slack at the peak: {rank}");
    ensure!(left <= slack && left >= slack / 10 * 9, "the program has left {left} B of {slack}");
    let text = report(folder.path(), &[])?;
    ensure!(text.contains("left by app.exe:left"), "{text}");
    let page = folder.path().join("page.html");
    report(folder.path(), &["--html", page.to_str().context("a path")?])?;
    ensure!(fs::read_to_string(page)?.contains("left by app.exe:left"), "not in the page");
    Ok(())
}

/// Free and used bytes of an arena.
type Arena = (u64, u64);

/// Runs the program `slack` under `memprof run`. Returns its report, the bytes that `malloc_trim`
/// returned, and the free and the used bytes of each arena in the C library's own words.
fn slack(
    folder: &Path,
    program: &Path,
    how: &str,
    variables: &[(&str, &str)],
) -> Result<(Value, u64, Vec<Arena>)> {
    let traces = folder.join("traces");
    let mut command = Command::new(Checkout::find()?.program("memprof")?);
    command.args(["run", "--quiet", "-o"]).arg(&traces);
    command.envs(variables.iter().copied()).arg("--").arg(program).arg(how);
    let output = command.output()?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let said = String::from_utf8(output.stdout)?;
    let returned = said.split(' ').next().and_then(|word| word.parse().ok());
    let job = serde_json::from_str(&report(folder, &["--json"])?)?;
    let arenas = arenas_of_malloc_info(&String::from_utf8(output.stderr)?)?;
    Ok((job, returned.with_context(|| format!("{how} printed {said}"))?, arenas))
}

/// Returns the free and the used bytes of each arena that `malloc_info` has printed.
fn arenas_of_malloc_info(text: &str) -> Result<Vec<Arena>> {
    let heaps = text.split("<heap ").skip(1).map(|heap| {
        let heap = heap.split("</heap>").next().unwrap_or("");
        let size = |element: &str| -> Result<u64> {
            let (_, rest) = heap.split_once(element).with_context(|| format!("no {element}"))?;
            let (_, rest) = rest.split_once("size=\"").context("no size")?;
            Ok(rest.split('"').next().unwrap_or("").parse()?)
        };
        // What is in each thread's cache counts as used.
        let free = size("<total type=\"fast\"")? + size("<total type=\"rest\"")?;
        Ok((free, size("<system type=\"current\"")?.saturating_sub(free)))
    });
    heaps.collect()
}

/// Returns a text with one space between words.
fn words(text: &str) -> String {
    text.split_whitespace().collect::<Vec<&str>>().join(" ")
}

fn what_trim_would_return_is_what_it_returns() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let program = plain(folder.path(), "slack")?;
    for how in ["held", "cached", "arenas", "ends", "fragments"] {
        let (job, returned, _) = slack(folder.path(), &program, how, &[])?;
        let text = words(&report(folder.path(), &[])?);
        let rank = &job["nodes"][0]["ranks"][0];
        let pages = &rank["slack"]["at_peak"];
        let number = |name: &str| pages[name].as_u64().with_context(|| format!("{how}: {rank}"));
        let (main, main_top) = (number("main")?, number("main_top")?);
        let (arenas, arenas_top) = (number("arenas")?, number("arenas_top")?);
        let promised = main + arenas - arenas_top;
        let near = (returned / 20).max(MEBI / 2);
        ensure!(
            promised.abs_diff(returned) <= near,
            "{how}: {promised} B would be returned, {returned} B were: {pages}\n{text}"
        );
        let (below, inside) = (main - main_top, arenas - arenas_top);
        let (named, least, said) = match how {
            "held" => (below, 40, "below a block of app.exe:slack"),
            "cached" => (main_top, 30, "at the end of the main heap"),
            "arenas" => (inside, 30, "in 6 thread arenas, between blocks"),
            "ends" => (arenas_top, 60, "at the ends of 6 thread arenas"),
            _ => (number("uncertain")?, 0, "in pages that have live blocks"),
        };
        ensure!(named >= least * MEBI, "{how}: {pages}");
        ensure!(text.contains(said), "{how}: {pages}\n{text}");
        ensure!(job["slack"]["at_peak"] == true, "{how}: {}", job["slack"]);
        fs::remove_dir_all(folder.path().join("traces"))?;
    }
    Ok(())
}

/// The free memory of each of seven arenas is known from the program, and from `malloc_info`.
fn arenas_have_the_free_memory_of_malloc_info() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let program = plain(folder.path(), "slack")?;
    let (job, _, mut told) = slack(folder.path(), &program, "shares", &[])?;
    let pages = &job["nodes"][0]["ranks"][0]["slack"]["at_peak"];
    let arenas = pages["by_arena"].as_array().context("no arenas")?;
    ensure!(arenas.len() == 7 && told.len() == 7, "{pages}\n{told:?}");
    told.sort_unstable_by(|one, other| other.cmp(one));
    for (arena, (free, used)) in arenas.iter().zip(&told) {
        let number = |name: &str| arena[name].as_u64().with_context(|| format!("{name}: {arena}"));
        let (resident, in_use) = (number("resident")?, number("in_use")?);
        let near = |found: u64, wanted: u64| found.abs_diff(wanted) <= wanted / 20 + MEBI / 2;
        ensure!(number("free")? == resident - in_use, "not what is in no live block: {arena}");
        ensure!(number("free_pages")? <= resident - in_use, "more pages than bytes: {arena}");
        ensure!(near(number("free")?, *free), "{free} B are free, not {arena}");
        ensure!(near(in_use, *used), "{used} B are used, not {arena}");
        ensure!(arena["left_by"] == "app.exe:slack" && arena["arenas"] == 1, "{arena}");
        ensure!(number("left")? >= (resident - in_use) / 10 * 9, "{arena}");
        // Every second block of the main arena is live.
        let returned = if arena["number"] == 0 { 0 } else { *free };
        ensure!(near(number("returned_by_trim")?, returned), "{returned} B by trim, not {arena}");
    }
    let most = &arenas[0];
    ensure!(most["number"].as_u64() > Some(0) && most["held_by"] == "app.exe:slack", "{most}");
    let text = words(&report(folder.path(), &[])?);
    let page = folder.path().join("page.html");
    report(folder.path(), &["--html", page.to_str().context("a path")?])?;
    let page = fs::read_to_string(page)?;
    for said in ["thread arena", "last block of", "3 others"] {
        ensure!(text.contains(said) && page.contains(said), "no {said}\n{text}");
    }
    ensure!(text.matches("thread arena ").count() == 4, "{text}");
    Ok(())
}

fn free_memory_of_another_allocator_is_not_promised() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let program = plain(folder.path(), "slack")?;
    let library = Path::new("/usr/lib/x86_64-linux-gnu/libjemalloc.so.2");
    if !library.exists() {
        skip("there is no jemalloc");
    }
    let library = library.to_str().context("a path")?;
    let (job, _, _) = slack(folder.path(), &program, "fragments", &[("LD_PRELOAD", library)])?;
    let found = &job["nodes"][0]["ranks"][0]["slack"];
    let name = found["allocator"].as_str().context("no allocator")?;
    ensure!(name.ends_with("libjemalloc.so.2") && found["at_peak"]["main"] == 0, "{found}");
    let told = &job["slack"];
    ensure!(told["returned_by_trim"].is_null() && told["slack"].as_u64() > Some(0), "{told}");
    let text = words(&report(folder.path(), &[])?);
    ensure!(text.contains("libjemalloc.so.2; what of it can be returned is not known"), "{text}");
    Ok(())
}

/// Runs a program without MPI under `memprof run`. Returns for each of its programs the kernel's
/// own peak, and the peak that samples have seen.
fn peaks_of(folder: &Path, program: &Path, arguments: &[&str]) -> Result<Vec<(u64, u64)>> {
    let job = job_of(folder, program, arguments)?;
    fs::remove_dir_all(folder.join("traces"))?;
    let ranks = job["nodes"][0]["ranks"].as_array().context("no processes")?;
    let peaks = ranks.iter().map(|rank| {
        let number = |value: &Value| value.as_u64().with_context(|| format!("{rank}"));
        Ok((number(&rank["kernel_peak"])?, number(&rank["peak"]["bytes"])?))
    });
    peaks.collect()
}

fn memory_before_exec_exit_and_a_shorter_break_is_seen() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let program = plain(folder.path(), "ends")?;
    for how in ["exec", "_exit", "break", "free"] {
        let peaks = peaks_of(folder.path(), &program, &[how])?;
        let seen = peaks.iter().map(|(_, seen)| *seen).max().unwrap_or(0);
        ensure!(seen >= 20 * MEBI * 9 / 10, "{how}: samples saw {seen} B at most: {peaks:?}");
        let missed = peaks.iter().any(|(kernel, seen)| *seen < kernel / 10 * 9);
        ensure!(!missed, "{how}: less than nine tenths were seen: {peaks:?}");
    }
    Ok(())
}

fn brief_run_of_python_is_seen_but_for_a_tenth() -> Result<()> {
    let folder = tempfile::tempdir()?;
    for work in
        ["pass", "import json; x = [str(i) for i in range(50000)]; del x", "import os; os._exit(0)"]
    {
        let peaks = peaks_of(folder.path(), Path::new("python3"), &["-c", work])?;
        let missed = peaks.iter().any(|(kernel, seen)| *seen < kernel / 10 * 9);
        ensure!(!peaks.is_empty() && !missed, "{work}: less than nine tenths were seen: {peaks:?}");
    }
    Ok(())
}

/// The interval is the cost of a sample divided by the budget, whatever a sample costs here.
fn samples_without_options_keep_to_three_thousandths() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let work = ["-c", "import time; data = bytearray(30000000); time.sleep(1.2)"];
    let sampler_with = |options: &[&str]| -> Result<[u64; 3]> {
        let job = job_with(options, folder.path(), Path::new("python3"), &work)?;
        let text = report(folder.path(), &[])?;
        ensure!(text.contains("% of a processor; "), "no cost of the sampler:\n{text}");
        fs::remove_dir_all(folder.path().join("traces"))?;
        let sampler = &job["nodes"][0]["ranks"][0]["sampler"];
        let number = |name: &str| sampler[name].as_u64().with_context(|| sampler.to_string());
        Ok([number("interval_ns")?, number("cpu_ns")?, number("full")?])
    };
    let [interval, spent, samples] = sampler_with(&[])?;
    let cost = interval / 1000 * 3;
    ensure!(
        interval > 20_000_000 && cost <= spent && cost >= spent / samples.max(1) / 4,
        "{cost} ns a sample by the interval, {spent} ns for {samples} samples"
    );
    let [all, ..] = sampler_with(&["--max-overhead", "100"])?;
    ensure!(all < interval, "{all} ns with the whole processor, {interval} ns without options");
    Ok(())
}

quo_tests::suite! {
    samples_without_options_keep_to_three_thousandths
    memory_lent_by_mpi_peaks_as_the_users
    stacks_of_ending_threads_are_seen_before_they_go
    brief_peak_below_that_of_the_starter_is_seen
    block_is_its_owners_while_it_is_freed
    memory_no_sample_saw_is_named_in_all_reports
    slack_at_the_peak_has_who_left_it
    what_trim_would_return_is_what_it_returns
    arenas_have_the_free_memory_of_malloc_info
    free_memory_of_another_allocator_is_not_promised
    memory_before_exec_exit_and_a_shorter_break_is_seen
    brief_run_of_python_is_seen_but_for_a_tenth
}
