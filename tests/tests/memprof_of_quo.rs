//! Memory in the phases of programs that use quo, and the figures that a program queries about
//! itself: with the real profiler, under the launcher of the MPI in use.
#![allow(clippy::print_stdout)] // Its output is for the user that runs the tests.

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use memprof_trace::layout::Class;
use quo_tests::example::small_deck;
use quo_tests::memprof::{PROGRAMS, Profiled};
use quo_tests::suite::{self, Skipped, Test};
use quo_tests::{
    BindTo, CheckedTrace, Checkout, Launcher, Recorded, Selection, coupled_fortran, fortran_support,
};
use serde_json::Value;

const TESTS: &[Test] = &[
    ("c_programs_memory_in_pushes_and_phases_is_exact", c),
    ("what_a_fortran_program_holds_in_its_pushes_is_told", fortran),
    ("a_c_program_reads_its_own_numbers", numbers_in_c),
    ("a_rust_program_reads_its_own_numbers", numbers_in_rust),
    ("coupled_example_closes_its_books_in_every_mode", coupled),
    ("the_coupled_example_in_fortran_closes_its_books", coupled_in_fortran),
    ("the_small_examples_close_their_books", widen),
];

const MEBI: u64 = 1 << 20;
const EXECUTABLE: fn(Class) -> bool = |class| class == Class::AppExecutable;
/// Options with which no sample is left out for its cost: on a slow machine the usual budget may not
/// suffice for the one that sees memory before it is released.
const SEE_ALL: [&str; 2] = ["--max-overhead", "100"];
/// Variable set when this program is started as the Rust program that queries its own figures.
const INSIDE: &str = "QUO_TESTS_OWN_NUMBERS";

fn main() -> ExitCode {
    if std::env::var_os(INSIDE).is_some() && !Selection::of_this_program().is_listing() {
        return match own_numbers() {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                println!("{error:#}");
                ExitCode::FAILURE
            }
        };
    }
    suite::run(TESTS, None)
}

/// Compiles a C program that is linked with quo and with libmemprof.
fn c_program(folder: &tempfile::TempDir) -> Result<PathBuf> {
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
    checkout.compile_c(&format!("{PROGRAMS}/quo_phases.c"), folder.path(), &flags)
}

/// Returns the phases of the first rank in `memprof report --json`.
fn reported(job: &Recorded) -> Result<Vec<Value>> {
    let mut report = Command::new(Checkout::find()?.program("memprof")?);
    let output = report.arg("report").arg(job.traces()).arg("--json").output()?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let told: Value = serde_json::from_slice(&output.stdout)?;
    let phases = told.pointer("/nodes/0/ranks/0/phases").and_then(Value::as_array);
    Ok(phases.with_context(|| format!("no phases in {told}"))?.clone())
}

/// Checks the resident peak of a phase. A sample while the memory is filled may have seen nearly all of
/// it: then half a percent or 256 KiB more are no reason for another one before it is released.
fn expect_resident(one: &CheckedTrace, name: &str, bytes: u64) -> Result<()> {
    let (_, resident) = one.phase_peaks(name, EXECUTABLE)?;
    let least = bytes - (bytes / 200).max(MEBI / 4);
    ensure!(
        (least..bytes + 2 * MEBI).contains(&resident),
        "{resident} B in {name}, not {bytes}\n{}",
        one.table()
    );
    Ok(())
}

fn c() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let job = Recorded::run_with(&SEE_ALL, 2, &c_program(&folder)?, &[])?;
    job.expect_said("done")?.expect_good_books()?;
    for one in &job.traces {
        let (nothing, _) = one.phase_peaks("nothing", EXECUTABLE)?;
        let always = nothing - 64;
        for (name, bytes) in [("quo push machine", 24), ("solve", 12), ("main", 40)] {
            let (owned, _) = one.phase_peaks(name, EXECUTABLE)?;
            let expected = always + bytes * MEBI;
            ensure!(owned == expected, "{owned} B in {name}, not {expected}\n{}", one.table());
            expect_resident(one, name, bytes * MEBI)?;
        }
    }
    let phases = reported(&job)?;
    for name in ["quo push machine", "solve"] {
        let phase = phases.iter().find(|phase| phase["name"] == name);
        let phase = phase.with_context(|| format!("no {name} in {phases:?}"))?;
        ensure!(phase["parent"] == "main", "{phase}");
    }
    Ok(())
}

fn fortran() -> Result<()> {
    fortran_support().map_err(|reason| Skipped(reason.to_string()))?;
    let folder = tempfile::tempdir()?;
    let source = format!("{PROGRAMS}/quo_phases.F90");
    let program = Checkout::find()?.compile_fortran(&source, folder.path(), &[])?;
    let job = Recorded::run_with(&SEE_ALL, 2, &program, &[])?;
    job.expect_said("done")?.expect_good_books()?;
    for one in &job.traces {
        for (name, bytes) in [("quo push machine", 24), ("main", 40)] {
            let (owned, _) = one.phase_peaks(name, EXECUTABLE)?;
            let expected = bytes * MEBI..(bytes + 1) * MEBI;
            ensure!(expected.contains(&owned), "{owned} B in {name}\n{}", one.table());
            expect_resident(one, name, bytes * MEBI)?;
        }
    }
    Ok(())
}

fn numbers_in_c() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let job = Recorded::run(2, &c_program(&folder)?, &["look"])?;
    job.expect_said("done")?.expect_good_books()?;
    for one in &job.traces {
        expect_resident(one, "looks", 32 * MEBI)?;
    }
    Ok(())
}

/// Returns the memory of the program file itself.
fn own() -> Result<memprof_api::Component> {
    let all = memprof_api::components().map_err(|error| anyhow::anyhow!("{error}"))?;
    all.into_iter().find(|one| one.name.starts_with("app.exe")).context("there is no app.exe")
}

fn own_numbers() -> Result<()> {
    ensure!(memprof_api::is_active(), "no profiler");
    let looks = || memprof_api::flush().map_err(|error| anyhow::anyhow!("{error}"));
    looks()?;
    let before = own()?;
    let region = memprof_api::region("looks");
    ensure!(region.is_recorded(), "the region is not recorded");
    let memory = vec![1_u8; 32 << 20];
    looks()?;
    let during = own()?;
    drop(std::hint::black_box(memory));
    drop(region);
    looks()?;
    let after = own()?;
    // A few names take memory as well.
    let near = |more: u64, less: u64| (more - less).abs_diff(32 * MEBI) < MEBI;
    ensure!(near(during.owned, before.owned), "{before:?} {during:?}");
    ensure!(near(during.resident, before.resident), "{before:?} {during:?}");
    ensure!(near(during.owned, after.owned) && after.owned_peak >= during.owned, "{after:?}");
    let totals = memprof_api::totals().map_err(|error| anyhow::anyhow!("{error}"))?;
    ensure!(totals.unattributed * 100 < totals.resident, "{totals:?}");
    Ok(())
}

fn numbers_in_rust() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let traces = folder.path().join("traces");
    std::fs::create_dir(&traces)?;
    let program = std::env::current_exe()?;
    // The program calls no MPI.
    let profiled = Profiled::new(program, &traces)?.env("MEMPROF_RECORD", "all").env(INSIDE, "1");
    profiled.start("")?.finish(Duration::from_secs(60))?.expect_success()?;
    Ok(())
}

/// Runs an example on two ranks, each with its own core; threads that share cores do not spin.
fn example(program: &Path, arguments: &[&str]) -> Result<Recorded> {
    let mut launch = Launcher::find()?.command(2, BindTo::Core);
    launch.env("OMP_WAIT_POLICY", "passive");
    Recorded::under(&launch, program, arguments)?.expect_ranks(2)
}

/// A smaller mesh and fewer steps: the owners of memory do not depend on them.
const TINY: [(&str, &str); 3] =
    [("nx = 96", "nx = 48"), ("ny = 96", "ny = 48"), ("steps = 200", "steps = 30")];

fn coupled() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let output = folder.path().join("output").display().to_string();
    let program = Checkout::find()?.program("coupled")?;
    let [small, tiny] = ["small.toml", "tiny.toml"].map(|name| folder.path().join(name));
    small_deck(&[], &small)?;
    small_deck(&TINY, &tiny)?;
    let [small, tiny] = [small, tiny].map(|deck| deck.display().to_string());
    let run = |deck: &str, mode: &str| {
        let words = ["run", "--deck", deck, "--mode", mode, "--output", &output];
        example(&program, &words)
    };
    let job = run(&small, "quo")?;
    job.expect_good_books()?;
    let phases = reported(&job)?;
    let pushes = phases.iter().find(|phase| phase["name"] == "quo push machine");
    let pushes = pushes.with_context(|| format!("no pushes among {phases:?}"))?;
    ensure!(pushes["parent"] == "main" && pushes["entries"].as_u64() > Some(1), "{pushes}");
    for mode in ["under", "over", "quo"] {
        run(&tiny, mode)?.expect_good_books().context(mode)?;
    }
    Ok(())
}

fn coupled_in_fortran() -> Result<()> {
    let program = coupled_fortran()?;
    let folder = tempfile::tempdir()?;
    let [deck, namelist] = ["deck.toml", "deck.nml"].map(|name| folder.path().join(name));
    small_deck(&TINY, &deck)?;
    quo_tests::example::namelist(&deck, &namelist)?;
    let namelist = namelist.display().to_string();
    example(&program, &[&namelist])?.expect_good_books()?;
    Ok(())
}

/// Runs the programs that are installed as first examples for users.
fn widen() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let checkout = Checkout::find()?;
    let in_c = checkout.compile_c("packaging/examples/widen.c", folder.path(), &[])?;
    let job = example(&in_c, &[])?;
    job.expect_said("packages")?.expect_good_books()?;
    // Libraries of its libraries hold more than a small program.
    let mut report = Command::new(checkout.program("memprof")?);
    let output = report.arg("report").arg(job.traces()).output()?;
    let table = String::from_utf8_lossy(&output.stdout);
    ensure!(table.contains("\n  app.exe:widen"), "{table}");
    // Each in a separate folder: they have one name.
    let other = tempfile::tempdir()?;
    let in_cxx = checkout.compile_cxx("packaging/examples/widen.cpp", other.path(), "g++", &[])?;
    example(&in_cxx, &[])?.expect_said("packages")?.expect_good_books()?;
    fortran_support().map_err(|reason| Skipped(format!("C alone: {reason}")))?;
    let in_fortran =
        checkout.compile_fortran("packaging/examples/widen.f90", folder.path(), &[])?;
    example(&in_fortran, &[])?.expect_said("packages")?.expect_good_books()?;
    Ok(())
}
