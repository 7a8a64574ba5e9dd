//! Programs started in the machine, under mpirun as users start them.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use quo_tests::ends_within;
use rustix::process::Pid;
use serde_json::Value;

use crate::oracle::{Cpus, as_set, objects};
use crate::ranks::PATTERNS;
use quo::ObjectType;

/// Limit of a program; translated CPUs are slow, and outnumber the host's.
const LIMIT: Duration = Duration::from_secs(300);

/// Variable with the folder of the programs that the host compiled for the machine.
pub const FOLDER: &str = "QUO_MACHINE_PROGRAMS";

/// A check that starts programs.
pub type Check = (&'static str, fn() -> Result<()>);

/// Checks on every shape.
pub const ALONE: &[Check] = &[("an_openmp_pool_follows_and_bound_places_stay", openmp_pool)];

/// Checks on the shape with two packages of four cores.
pub const EIGHT_RANKS: &[Check] = &[
    ("eight_ranks_bound_to_cores", || ranks("core")),
    ("eight_ranks_bound_to_packages", || ranks("package")),
    ("eight_ranks_unbound", || ranks("none")),
    ("eight_ranks_half_of_them_bound", || ranks("half")),
    ("coupled_example_ends_with_equal_bits_in_every_mode", coupled),
];

/// All C tests of the library, with a rank per CPU; takes long.
pub const FULL: &[Check] = &[("every_c_test_with_a_rank_on_each_cpu", c_tests)];

fn mpirun(ranks: usize, bind_to: &str) -> Command {
    let mut command = Command::new("mpirun");
    command.args(["-n", &ranks.to_string(), "--bind-to", bind_to]);
    // Spinning ranks would keep the few real CPUs from the ranks they wait for.
    command.args(["--mca", "mpi_yield_when_idle", "1"]);
    command.args(["--mca", "btl_vader_single_copy_mechanism", "none"]);
    command.env("OMPI_ALLOW_RUN_AS_ROOT", "1").env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1");
    command.env("OMP_WAIT_POLICY", "passive");
    command
}

/// Runs a command to its end within the limit; its output goes to this process's, which is shown on
/// failure.
fn succeed(command: &mut Command) -> Result<()> {
    let mut child = command.stdin(Stdio::null()).spawn().context("starting mpirun")?;
    if !ends_within(Pid::from_child(&child), LIMIT)? {
        child.kill()?;
        child.wait()?;
        bail!("{command:?}: still running after {} s", LIMIT.as_secs());
    }
    let status = child.wait()?;
    ensure!(status.success(), "{command:?}: {status}");
    Ok(())
}

fn ranks(pattern: &str) -> Result<()> {
    let (_, bind_to) = PATTERNS.iter().find(|(name, _)| *name == pattern).context("a pattern")?;
    let mut command = mpirun(8, bind_to);
    succeed(command.arg(std::env::current_exe()?).args(["--rank", pattern]))
}

fn programs() -> Result<PathBuf> {
    std::env::var_os(FOLDER).map(PathBuf::from).with_context(|| format!("{FOLDER} is not set"))
}

fn openmp_pool() -> Result<()> {
    let program = programs()?.join("openmp_pool");
    succeed(mpirun(1, "none").arg(&program).arg("free"))?;
    if objects(ObjectType::Pu).len() < 4 {
        return Ok(()); // No four places for four threads.
    }
    let mut bound = mpirun(1, "none");
    bound.env("OMP_PROC_BIND", "spread").env("OMP_PLACES", "threads");
    succeed(bound.arg(&program).arg("bound"))
}

fn c_tests() -> Result<()> {
    let mut failures = Vec::new();
    let cpus = objects(ObjectType::Pu).len();
    for entry in fs::read_dir(programs()?.join("c"))? {
        let program = entry?.path();
        let mut command = mpirun(cpus, "hwthread");
        if let Err(error) = succeed(command.arg("--use-hwthread-cpus").arg(&program)) {
            failures.push(format!("{error:#}"));
        }
    }
    ensure!(failures.is_empty(), "{}", failures.join("\n"));
    Ok(())
}

/// Eight ranks of a small deck whose implicit solver runs on each package, then one rank per package.
fn coupled() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let deck = folder.path().join("deck.toml");
    fs::write(&deck, small_deck()?)?;
    let packages = objects(ObjectType::Package);
    let mut checksums = Vec::new();
    for (mode, ranks, bind_to) in [("under", 2, "core"), ("over", 8, "none"), ("quo", 8, "core")] {
        let output = folder.path().join(mode).with_extension("json");
        let mut command = mpirun(ranks, bind_to);
        if ranks == packages.len() {
            command.args(["--map-by", "slot:PE=4"]);
        }
        command.args(["coupled", "run", "--mode", mode]);
        succeed(command.arg("--deck").arg(&deck).arg("--output").arg(&output))?;
        let run = read(&output)?;
        checksums.push(run["checksum"].to_string());
        solver_was_where_it_should(mode, &run, &packages)?;
    }
    ensure!(checksums.iter().all(|sum| *sum == checksums[0]), "checksums {checksums:?}");
    Ok(())
}

fn read(file: &Path) -> Result<Value> {
    serde_json::from_str(&fs::read_to_string(file)?).context("the result of a run")
}

/// The example's small deck, made smaller.
fn small_deck() -> Result<String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut text = fs::read_to_string(root.join("examples/coupled/decks/small.toml"))?;
    for (from, to) in [
        ("nx = 96", "nx = 48"),
        ("ny = 96", "ny = 48"),
        ("steps = 200", "steps = 20"),
        ("over = \"machine\"", "over = \"package\""),
    ] {
        ensure!(text.contains(from), "the deck has no `{from}`");
        text = text.replace(from, to);
    }
    Ok(text)
}

/// A worker on each package, with a thread on each of its CPUs; in the modes that bind ranks, on
/// nothing but that package.
fn solver_was_where_it_should(mode: &str, run: &Value, packages: &[Cpus]) -> Result<()> {
    let mut places = Vec::new();
    for record in run["rank_records"].as_array().context("rank records")? {
        let intervals = record["intervals"].as_array().context("intervals")?;
        let solving: Vec<&Value> =
            intervals.iter().filter(|interval| interval["phase"] == "diffusion").collect();
        ensure!(solving.is_empty() != (record["worker"] == true), "{record}");
        for interval in &solving {
            ensure!(interval["threads"] == 4, "{interval}");
            if mode != "over" {
                let cpus = interval["cpus"].as_str().context("CPUs")?.parse::<quo::CpuSet>()?;
                let place = packages.iter().position(|package| as_set(package) == cpus);
                places.push(place.with_context(|| format!("{mode}: solved on {cpus}"))?);
            }
        }
    }
    places.sort_unstable();
    places.dedup();
    let all: Vec<usize> = (0..packages.len()).collect();
    ensure!(mode == "over" || places == all, "{mode}: solved on packages {places:?}");
    Ok(())
}

/// Returns the checks of this kind for a shape.
pub fn of(name: &str, full: bool) -> Vec<Check> {
    let eight = if name == EIGHT_CORES { EIGHT_RANKS } else { &[] };
    [ALONE, eight, if full { FULL } else { &[] }].concat()
}

/// Shape that eight ranks fill.
const EIGHT_CORES: &str = "two-packages";
