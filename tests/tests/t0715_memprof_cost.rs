//! What the profiler adds to the operations that programs do most, in instructions, which no noise of a
//! machine changes: a change that makes them dearer is seen here, and not only where time is measured.
#![allow(clippy::print_stdout)] // It talks to whoever runs the tests.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use quo_tests::memprof::{PROGRAMS, Profiled, fake_mpi};
use quo_tests::suite::{self, Skipped, Test};
use quo_tests::{Checkout, run_compiler};

const TESTS: &[Test] = &[
    ("a_pair_of_malloc_and_free_keeps_to_its_budget_of_instructions", hot_pair),
    ("pairs_of_many_sizes_keep_to_their_budget_of_instructions", many_sizes),
    ("a_call_of_mpi_keeps_to_its_budget_of_instructions", call),
];

const LIMIT: Duration = Duration::from_secs(100);

/// Instructions that the profiler may add to one operation: measured 143, 147, 169, 257 and 13, and half of what
/// a tenth more would be. A branch that processors foretell badly is worth twenty of them: without one in
/// `free` the first takes thirteen more and half a nanosecond, and blocks of random sizes two to four
/// nanoseconds less.
const PAIR: f64 = 150.0;
const PAIR_LIVE: f64 = 154.0;
const PAIR_LARGE: f64 = 178.0;
const PAIR_LARGER: f64 = 270.0;
const CALL: f64 = 13.6;

/// Bytes that are allocated before all else. Which blocks share a page with which others, and which reach
/// into the next, is a matter of addresses, and of what else is in the process; from one of these to the
/// next it is worth one instruction of a hundred.
const SHIFTS: [&str; 3] = ["0", "1000", "70000"];

fn main() -> ExitCode {
    suite::run(TESTS, None)
}

fn hot_pair() -> Result<()> {
    within("malloc", PAIR)
}

fn many_sizes() -> Result<()> {
    within("live", PAIR_LIVE)?;
    within("large", PAIR_LARGE)?;
    within("larger", PAIR_LARGER)
}

fn call() -> Result<()> {
    within("call", CALL)
}

fn within(kind: &str, budget: f64) -> Result<()> {
    if Command::new("valgrind").arg("--version").output().is_err() {
        return Err(Skipped("there is no valgrind to count instructions with".to_owned()).into());
    }
    let folder = tempfile::tempdir()?;
    let program = compile(folder.path())?;
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

fn compile(folder: &Path) -> Result<PathBuf> {
    let root = Checkout::find()?.root().join(PROGRAMS);
    let (fake, program) = (fake_mpi()?, folder.join("operations"));
    let mut compiler = Command::new("cc");
    compiler.args(["-std=gnu11", "-O2", "-Wall", "-Wextra", "-Werror"]);
    compiler.args(["-fno-builtin-malloc", "-fno-builtin-free"]);
    compiler.arg("-I").arg(root.join("fakempi")).arg(root.join("operations.c"));
    compiler.arg("-o").arg(&program).arg("-L").arg(&fake).args(["-lfakempi", "-lboth"]);
    for option in ["-rpath", "-rpath-link"] {
        compiler.arg(format!("-Wl,{option},{}", fake.display()));
    }
    run_compiler(&mut compiler)?;
    Ok(program)
}

/// Instructions of one operation of the main thread; others sample meanwhile. Nothing is counted of how
/// the process starts and ends, which differs from one run to the next.
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
