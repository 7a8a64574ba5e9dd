//! What stands where the memory profiler does, or under it, is said in the trace.

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::Duration;

use anyhow::{Result, ensure};
use quo_tests::memprof::{PROGRAMS, Profiled, preload};
use quo_tests::suite::{self, Skipped, Test};
use quo_tests::{APPLICATION, Books, Checkout, Recorded, run_compiler};

const TESTS: &[Test] = &[
    ("hooks_that_ucx_puts_into_the_c_library_are_said_quietly", ucx),
    ("a_program_under_qemu_is_known_as_such", emulated),
];

fn main() -> ExitCode {
    suite::run(TESTS, None)
}

fn skip(why: &str) -> anyhow::Error {
    Skipped(why.to_owned()).into()
}

/// A program of the MPICH that comes with UCX.
fn compile(source: &str, folder: &Path) -> Result<PathBuf> {
    if Command::new("mpicc.mpich").arg("--version").output().is_err() {
        return Err(skip("there is no mpicc.mpich"));
    }
    let program = folder.join("program");
    let mut command = Command::new("mpicc.mpich");
    command.arg("-O1").arg(Checkout::find()?.root().join(PROGRAMS).join(source));
    run_compiler(command.arg("-o").arg(&program))?;
    Ok(program)
}

fn ucx() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let program = compile("usual.c", folder.path())?;
    let mut launch = Command::new("mpirun.mpich");
    launch.args(["-n", "2"]);
    let job = Recorded::under(&launch, &program, &[])?.expect_ranks(2)?;
    job.expect_good_books()?;
    for one in &job.books {
        let has_ucx = |name: String| name.starts_with("mpi.dep:libucm");
        if !(0..one.summary()?.rows.len()).any(|at| has_ucx(one.trace.component_name(at))) {
            return Err(skip("this MPICH has no UCX"));
        }
        let said = |note: &String| note.contains("libucm") && note.contains("of the C library");
        ensure!(one.notes().iter().any(said), "{}", one.table());
    }
    ensure!(!job.outcome.stderr.contains("memprof: "), "{}", job.outcome.report());
    Ok(())
}

fn emulated() -> Result<()> {
    if Command::new("qemu-x86_64").arg("--version").output().is_err() {
        return Err(skip("there is no qemu-x86_64"));
    }
    let folder = tempfile::tempdir()?;
    let program = compile("phases.c", folder.path())?;
    let mut profiled = Profiled::new("qemu-x86_64", folder.path())?;
    let object = format!("LD_PRELOAD={}", preload()?.display());
    profiled.command().env_remove("LD_PRELOAD").args(["-E", &object]).arg(program);
    let finished = profiled.run(Duration::from_secs(100))?;
    let one = Books::open(finished.expect_success()?.trace()?)?;
    one.expect_whole_run()?;
    let owned = one.owned_peak(APPLICATION)?;
    ensure!(owned >= 35 << 20, "{owned} B\n{}", one.table());
    ensure!(one.notes().iter().any(|note| note.contains("under qemu")), "{}", one.table());
    Ok(())
}
