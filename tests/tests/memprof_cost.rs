//! Cost of the profiler for the most frequent operations of programs, in instructions, which are
//! independent of the load of the machine: a change that makes them more expensive fails here, not
//! only where time is measured. Also its cost in memory, and the memory that measuring rates adds.
#![allow(clippy::print_stdout)] // Its output is for the user that runs the tests.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use memprof_trace::layout::Class;
use quo_tests::memprof::{PROGRAMS, Profiled, fake_mpi, preload};
use quo_tests::suite::{self, Skipped};
use quo_tests::{CheckedTrace, Checkout, Recorded, mpicc, run_compiler};
use serde_json::Value;

const LIMIT: Duration = Duration::from_secs(100);

/// Compiler used to measure the budgets. Another compiler's code differs by more than their margin.
const MEASURED_WITH: &str = "rustc version 1.95.0";

/// Instructions that the profiler may add to one operation: measured 208, 208, 207, 223 and 13,
/// plus 5 %. malloc and free have a fast path of two plain functions: a chain of jumps without
/// frames takes 143 to 257 instructions a pair and is 2 to 4 ns faster, but both stay within the 15
/// ns of a pair. A badly predicted branch costs as much as twenty instructions.
const PAIR: f64 = 218.0;
const PAIR_LIVE: f64 = 218.0;
const PAIR_LARGE: f64 = 218.0;
const PAIR_LARGER: f64 = 234.0;
const CALL: f64 = 13.6;

/// Bytes that are allocated first. Addresses, and the other memory of the process, decide which
/// blocks share a page and which extend into the next; the effect of these shifts is one
/// instruction in a hundred.
const SHIFTS: [&str; 3] = ["0", "1000", "70000"];

fn malloc_and_free_keep_to_their_instruction_budget() -> Result<()> {
    within("malloc", PAIR)
}

fn pairs_of_many_sizes_keep_to_their_budget_of_instructions() -> Result<()> {
    within("live", PAIR_LIVE)?;
    within("large", PAIR_LARGE)?;
    within("larger", PAIR_LARGER)
}

fn a_call_of_mpi_keeps_to_its_budget_of_instructions() -> Result<()> {
    within("call", CALL)
}

/// Skips the test for a profiler built by another compiler; in the full suite that is an error.
fn expect_compiler() -> Result<()> {
    let object = fs::read(preload()?)?;
    let built_with = compiler_of(&object).context("the profiler does not say who compiled it")?;
    if built_with == MEASURED_WITH {
        return Ok(());
    }
    let why = format!(
        "the budgets of instructions were measured with {MEASURED_WITH}, and {built_with} has built the profiler: \
         build it with the former, or measure them anew in memprof_cost"
    );
    if suite::is_long() { bail!(why) } else { bail!(Skipped(why)) }
}

/// Returns the name and version that the compiler has left in an object.
fn compiler_of(object: &[u8]) -> Option<String> {
    const NAME: &[u8] = b"rustc version ";
    let start = object.windows(NAME.len()).position(|window| window == NAME)?;
    let words = object[start..].split(|byte| *byte == b' ' || *byte == 0).take(3);
    Some(String::from_utf8_lossy(&words.collect::<Vec<_>>().join(&b' ')).into_owned())
}

fn compiler_of_an_object_is_told_by_its_mark() -> Result<()> {
    let of = |text: &str| compiler_of(text.as_bytes());
    let found = of("\0GCC: 12\0rustc version 1.95.0 (59807616e 2026-04-14)\0");
    ensure!(found.as_deref() == Some(MEASURED_WITH), "{found:?}");
    ensure!(of("rustc version 1.94.1\0").as_deref() == Some("rustc version 1.94.1"));
    ensure!(of("GCC: 12").is_none());
    Ok(())
}

fn within(kind: &str, budget: f64) -> Result<()> {
    expect_compiler()?;
    if Command::new("valgrind").arg("--version").output().is_err() {
        return Err(Skipped("there is no valgrind to count instructions with".to_owned()).into());
    }
    let folder = tempfile::tempdir()?;
    let program = compile("operations", folder.path())?;
    let without = instructions(&program, kind, SHIFTS[0], folder.path(), false)?;
    let count = |shift: &&str| instructions(&program, kind, shift, folder.path(), true);
    let mut counts = SHIFTS.iter().map(count).collect::<Result<Vec<_>>>()?;
    counts.sort_by(f64::total_cmp);
    let with = counts[SHIFTS.len() / 2];
    println!("{kind}: {without:.1} instructions, with the profiler {counts:.1?}");
    let more = with - without;
    ensure!(more <= budget, "{kind}: {more:.1} instructions more, and {budget} may be");
    ensure!(more > 5.0, "{kind}: the profiler does nothing");
    Ok(())
}

fn compile(name: &str, folder: &Path) -> Result<PathBuf> {
    let root = Checkout::find()?.root().join(PROGRAMS);
    let (fake, program) = (fake_mpi()?, folder.join(name));
    let mut compiler = Command::new("cc");
    compiler.args(["-std=gnu11", "-O2", "-Wall", "-Wextra", "-Werror"]);
    compiler.args(["-fno-builtin-malloc", "-fno-builtin-free"]);
    compiler.arg("-I").arg(root.join("fakempi")).arg(root.join(format!("{name}.c")));
    compiler.arg("-o").arg(&program).arg("-L").arg(&fake).args(["-lfakempi", "-lboth"]);
    for option in ["-rpath", "-rpath-link"] {
        compiler.arg(format!("-Wl,{option},{}", fake.display()));
    }
    run_compiler(&mut compiler)?;
    Ok(program)
}

/// Returns the instructions of one operation of the main thread; other threads sample in the
/// meantime. The start and the end of the process, which vary between runs, are not counted.
fn instructions(
    program: &Path,
    kind: &str,
    shift: &str,
    folder: &Path,
    profiled: bool,
) -> Result<f64> {
    const FIRST: f64 = 2_000.0;
    const COUNT: f64 = 50_000.0;
    let into = tempfile::tempdir_in(folder)?;
    let counts = into.path().join("counts");
    let file = format!("--callgrind-out-file={}", counts.display());
    let only = "--toggle-collect=operations";
    let tool = ["--tool=callgrind", "--separate-threads=yes", only, &file];
    let mut run = Profiled::new("valgrind", into.path())?.args(&tool).arg(program);
    run = run.args(&[kind, &COUNT.to_string(), shift]).env("MEMPROF_STACKS", "0");
    if !profiled {
        run.command().env_remove("LD_PRELOAD");
    }
    run.run(LIMIT)?.expect_success()?;
    let text = fs::read_to_string(counts.with_file_name("counts-01"))?;
    let totals = text.lines().find_map(|line| line.strip_prefix("totals: "));
    let sum: f64 = totals.context("callgrind gives no sum")?.trim().parse()?;
    Ok(sum / (FIRST + COUNT))
}

/// Returns the greatest number of bytes that the program had by the kernel's count.
fn most(said: &str) -> Result<u64> {
    let number = said.lines().find_map(|line| line.strip_prefix("most ")).context("no number")?;
    Ok(number.parse()?)
}

fn profiler_takes_eight_mebibytes_at_most_under_any_load() -> Result<()> {
    const MEBI: u64 = 1 << 20;
    let folder = tempfile::tempdir()?;
    let (root, program) = (Checkout::find()?.root().to_owned(), folder.path().join("threads"));
    let mut compiler = Command::new("cc");
    compiler.args(["-std=gnu11", "-O1", "-Wall", "-Wextra", "-Werror", "-fno-builtin", "-pthread"]);
    compiler.arg("-I").arg(root.join("memprof/api/include"));
    compiler.arg(root.join(PROGRAMS).join("many_threads.c")).arg("-o").arg(&program);
    run_compiler(compiler.arg("-ldl"))?;
    let mut alone = Profiled::new(&program, folder.path())?;
    alone.command().env_remove("LD_PRELOAD");
    let without = most(&alone.run(LIMIT)?.expect_success()?.stdout)?;
    let profiled = Profiled::new(&program, folder.path())?.env("MEMPROF_RECORD", "all");
    let finished = profiled.env("MEMPROF_STACKS", "100").run(LIMIT)?;
    let with = most(&finished.expect_success()?.stdout)?;
    let checked = CheckedTrace::open(finished.trace()?)?;
    let phases = checked.trace.phases.len();
    ensure!(phases >= 60, "{phases} phases");
    let stacks = checked.trace.sites.len();
    ensure!(stacks >= 100, "{stacks} stacks");
    checked.expect_small_tool()?;
    let tags = checked.owned_peak(|class| class == Class::Tool)?;
    println!("{with} B, {without} B without the profiler; {tags} B of it in blocks");
    // The C library rounds sizes up to sixteen, and needs a little more elsewhere.
    let allowed = 8 * MEBI + tags + MEBI;
    ensure!(with <= without + allowed, "{with} B, {without} B without\n{}", checked.table());
    Ok(())
}

fn the_benchmark_of_messages_measures_two_pairs_at_once() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let program = folder.path().join("messages");
    let mut compiler = Command::new(mpicc());
    compiler.args(["-std=gnu11", "-O2", "-Wall", "-Wextra"]);
    compiler.arg(Checkout::find()?.root().join("memprof/benches/messages.c"));
    run_compiler(compiler.arg("-o").arg(&program).arg("-ldl"))?;
    let told = |arguments: &[&str]| -> Result<Value> {
        let job = Recorded::run(4, &program, arguments)?;
        job.expect_good_books()?;
        let line = job.outcome.stdout.lines().find(|line| line.starts_with('{'));
        let told: Value = serde_json::from_str(line.with_context(|| job.outcome.report())?)?;
        ensure!(told["pairs"] == 2, "{told}");
        Ok(told)
    };
    let rates = told(&["1:5", "65536:20"])?;
    for (size, bytes) in [("1", 1.0), ("65536", 65536.0)] {
        let number = |what: &str| rates[what][size].as_f64().with_context(|| format!("{rates}"));
        let (rate, bandwidth) = (number("messages_per_second")?, number("megabytes_per_second")?);
        let off = (rate * bytes / 1e6 - bandwidth).abs();
        ensure!(rate > 0.0 && off <= 0.06, "{size}: {rates}");
    }
    let sides = told(&["sides", "1:5", "65536:20"])?;
    for size in ["1", "65536"] {
        let rounds = sides["sides"][size].as_array().with_context(|| format!("{sides}"))?;
        let is_rate = |rate: &Value| rate.as_f64().is_some_and(|rate| rate > 0.0);
        let is_round = |round: &Value| is_rate(&round[0]) && is_rate(&round[1]);
        ensure!(!rounds.is_empty() && rounds.iter().all(is_round), "{size}: {sides}");
    }
    // Half of the calls go to MPI itself, the other half through the profiler.
    let objects = sides["objects"].as_array().with_context(|| format!("{sides}"))?;
    let (without, with) = objects.split_at(objects.len() / 2);
    let through = |object: &Value| object == "libmemprof_preload.so";
    let is_apart = with.iter().all(through) && !without.iter().any(through);
    ensure!(!with.is_empty() && is_apart, "{sides}");
    Ok(())
}

quo_tests::suite! {
    malloc_and_free_keep_to_their_instruction_budget
    pairs_of_many_sizes_keep_to_their_budget_of_instructions
    a_call_of_mpi_keeps_to_its_budget_of_instructions
    profiler_takes_eight_mebibytes_at_most_under_any_load
    compiler_of_an_object_is_told_by_its_mark
    the_benchmark_of_messages_measures_two_pairs_at_once
}
