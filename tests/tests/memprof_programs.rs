//! The memory profiler around third-party programs: LAMMPS, HPCC and Quantum ESPRESSO from a
//! distribution, and the tests of mpi4py. In the full suite only, where a missing program is a
//! failure.

#![allow(clippy::print_stdout)] // Its output is for the user that runs the tests.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use quo_tests::suite::{self, Skipped, Test};
use quo_tests::{Checkout, Recorded};
use serde_json::Value;

const TESTS: &[Test] = &[
    ("lammps_closes_its_books_and_pprof_reads_its_stacks", lammps),
    ("lammps_computes_for_the_time_that_it_tells_itself", lammps_times),
    ("hpcc_adds_up_to_the_kernels_peak", hpcc),
    ("quantum_espresso_adds_up_to_the_kernels_peak", quantum_espresso),
    ("mpi4py_passes_its_own_tests_and_adds_up", mpi4py),
    ("perfettos_own_schema_reads_the_exported_counters", perfetto),
];

/// Limit on a busy machine.
const LIMIT: Duration = Duration::from_secs(900);
/// Part of the limit for the program itself.
const RUN_LIMIT: Duration = Duration::from_secs(800);
const RANKS: usize = 2;

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

fn perfetto() -> Result<()> {
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
    let script = Checkout::find()?.root().join("tests/judges/perfetto_tracks.py");
    let output = Command::new(python()?.join("bin/python")).arg(script).arg(&tracks).output()?;
    let told = text(&output.stdout);
    ensure!(output.status.success(), "{told}{}", text(&output.stderr));
    let told: Vec<Vec<&str>> = told.lines().map(|line| line.split('\t').collect()).collect();
    let of = |kind: &str, name: &str| -> Vec<&Vec<&str>> {
        told.iter().filter(|line| line[0] == kind && line[2] == name).collect()
    };
    ensure!(of("slices", "phases").len() == RANKS, "{told:?}");
    let columns: Value = serde_json::from_slice(&fs::read(columns)?)?;
    let ranks = columns["ranks"].as_array().context("no ranks")?;
    let totals = of("counter", "resident, all components");
    ensure!(ranks.len() == RANKS && totals.len() == RANKS, "{told:?}");
    for (rank, track) in ranks.iter().zip(totals) {
        let total = rank["total"].as_array().context("no sums")?.iter().filter_map(Value::as_u64);
        let wanted = [total.clone().count().to_string(), total.max().unwrap_or(0).to_string()];
        ensure!(track[3..] == wanted, "{track:?}, not {wanted:?}");
    }
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

/// Checks that the sums of all ranks are the kernel's, that no component has more resident than it
/// owns, that the components with these names or prefixes hold memory, and that samples saw what
/// the kernel did.
fn check(job: &Recorded, components: &[&str]) -> Result<()> {
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
    for rank in report["nodes"][0]["ranks"].as_array().context("no ranks")? {
        let number = |value: &Value| value.as_u64().with_context(|| format!("no number: {value}"));
        let (kernel, unseen) = (number(&rank["kernel_peak"])?, number(&rank["unseen"])?);
        let (peak, duty) = (number(&rank["peak"]["bytes"])?, number(&rank["sampler"]["cpu_ns"])?);
        println!("rank {}: {peak} B seen of {kernel} B, {duty} ns", rank["identity"]["rank"]);
        // Quantum ESPRESSO runs for three seconds, and its peak is short: it can fall between two
        // samples. The report says so.
        ensure!(unseen * 10 <= kernel, "no sample saw {unseen} of {kernel} B\n{rank}");
        ensure!(unseen == 0 || unseen == kernel - peak, "{unseen} B unseen, not {}", kernel - peak);
    }
    Ok(())
}
