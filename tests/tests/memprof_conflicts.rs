//! Tools and libraries in the memory profiler's place, or under it, are named in the trace.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Result, ensure};
use memprof_trace::layout::Class;
use quo_tests::memprof::{PROGRAMS, Profiled, preload};
use quo_tests::suite::Skipped;
use quo_tests::{APPLICATION, CheckedTrace, Checkout, Recorded, run_compiler};

const LIMIT: Duration = Duration::from_secs(100);

fn skip(why: &str) -> anyhow::Error {
    Skipped(why.to_owned()).into()
}

/// Compiles a program for the MPICH that includes UCX.
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

fn ucx_hooks_in_the_c_library_are_reported_quietly() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let program = compile("usual.c", folder.path())?;
    let mut launch = Command::new("mpirun.mpich");
    launch.args(["-n", "2"]);
    let job = Recorded::under(&launch, &program, &[])?.expect_ranks(2)?;
    job.expect_good_books()?;
    for one in &job.traces {
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

fn a_program_under_qemu_is_known_as_such() -> Result<()> {
    if Command::new("qemu-x86_64").arg("--version").output().is_err() {
        return Err(skip("there is no qemu-x86_64"));
    }
    let folder = tempfile::tempdir()?;
    let program = compile("phases.c", folder.path())?;
    let mut profiled = Profiled::new("qemu-x86_64", folder.path())?;
    let object = format!("LD_PRELOAD={}", preload()?.display());
    profiled.command().env_remove("LD_PRELOAD").args(["-E", &object]).arg(program);
    let finished = profiled.run(LIMIT)?;
    let one = CheckedTrace::open(finished.expect_success()?.trace()?)?;
    one.expect_whole_run()?;
    let owned = one.owned_peak(APPLICATION)?;
    ensure!(owned >= 35 << 20, "{owned} B\n{}", one.table());
    ensure!(one.notes().iter().any(|note| note.contains("under qemu")), "{}", one.table());
    Ok(())
}

/// Compiles a correct program with 20 MiB.
fn plain(folder: &Path) -> Result<PathBuf> {
    let program = folder.join("plain");
    let mut compiler = Command::new("cc");
    compiler.arg(Checkout::find()?.root().join(PROGRAMS).join("takes_malloc.c"));
    run_compiler(compiler.args(["-std=gnu11", "-O1", "-fno-builtin", "-o"]).arg(&program))?;
    Ok(program)
}

fn valgrind_is_said_and_finds_no_mistakes_of_ours() -> Result<()> {
    if Command::new("valgrind").arg("--version").output().is_err() {
        return Err(skip("there is no valgrind"));
    }
    let folder = tempfile::tempdir()?;
    let program = plain(folder.path())?;
    let profiled = Profiled::new("valgrind", folder.path())?.args(&["-q", "--error-exitcode=7"]);
    let profiled = profiled.arg(program).env("MEMPROF_RECORD", "all");
    let finished = profiled.run(LIMIT)?;
    let one = CheckedTrace::open(finished.expect_success()?.trace()?)?;
    let said = |note: &String| note.starts_with("valgrind replaces the allocator");
    ensure!(one.notes().iter().any(said), "{}", one.table());
    ensure!(!finished.stderr.contains("Invalid"), "{}", finished.report());
    Ok(())
}

fn heaptrack_beside_us_is_reported_with_its_effect() -> Result<()> {
    let places = ["/usr/lib/heaptrack", "/usr/lib64/heaptrack", "/usr/local/lib/heaptrack"];
    let files = places.iter().map(|place| Path::new(place).join("libheaptrack_preload.so"));
    let Some(other) = files.into_iter().find(|file| file.exists()) else {
        return Err(skip("there is no heaptrack"));
    };
    let folder = tempfile::tempdir()?;
    let (program, ours) = (plain(folder.path())?, preload()?);
    for (order, is_seen, note) in [
        ([&ours, &other], true, "libheaptrack_preload.so watches the allocator as well"),
        (
            [&other, &ours],
            false,
            "libheaptrack_preload.so stands before the profiler: blocks are not seen, or count as its own",
        ),
    ] {
        let traces = tempfile::tempdir_in(folder.path())?;
        let both = format!("{} {}", order[0].display(), order[1].display());
        let profiled = Profiled::new(&program, traces.path())?.env("LD_PRELOAD", both);
        let profiled = profiled.env("DUMP_HEAPTRACK_OUTPUT", traces.path().join("track"));
        let finished = profiled.env("MEMPROF_RECORD", "all").run(LIMIT)?;
        let one = CheckedTrace::open(finished.expect_success()?.trace()?)?;
        ensure!(one.notes() == [note].map(str::to_owned), "{:?}", one.notes());
        let owned = one.owned_peak(|class| class == Class::AppExecutable)?;
        ensure!((owned >= 20 << 20) == is_seen, "{owned} B\n{}", one.table());
        let track = std::fs::metadata(traces.path().join("track"));
        ensure!(track.is_ok_and(|file| file.len() > 0), "heaptrack wrote nothing");
    }
    Ok(())
}

quo_tests::suite! {
    ucx_hooks_in_the_c_library_are_reported_quietly
    a_program_under_qemu_is_known_as_such
    valgrind_is_said_and_finds_no_mistakes_of_ours
    heaptrack_beside_us_is_reported_with_its_effect
}
