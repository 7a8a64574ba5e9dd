//! Solvers in the style of the field, each in its plain form and in the elastic one: few lines
//! differ, and while ranks join and leave at random the elastic one computes the same bits.
#![allow(clippy::print_stdout)] // The number of resizes is a result.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use quo_tests::suite::Skipped;
use quo_tests::{Checkout, Job, fortran_support, needs_spawn, python_job, suite};

/// Limits of a job and of a test, which only end what hangs.
const LIMIT: Duration = Duration::from_secs(500);
const LIMIT_OF_TEST: Duration = Duration::from_secs(1_200);

/// Most lines that an elastic program may have written or changed.
const MOST_LINES: usize = 45;

/// Largest number of ranks.
const RANKS: usize = 4;

/// The resizes of a run.
#[derive(Clone, Copy, Debug)]
struct Resizes {
    /// Processes that are launched. Others are started and end.
    launched: usize,
    /// Steps between two resizes: enough for most of them to be done before the next one.
    apart: usize,
    /// Number that are asked for, some of which are overtaken.
    asked: usize,
    /// Number that have to be done.
    least: usize,
}

impl Resizes {
    /// Processes are started when they become ranks, which takes a second, and end.
    const SPAWNED: Self = Self { launched: 1, apart: 1_500, asked: 60, least: 30 };

    /// Processes sleep while they are no ranks.
    fn parked() -> Self {
        let (least, asked) = if suite::is_long() { (100, 200) } else { (5, 50) };
        Self { launched: RANKS, apart: 25, asked, least }
    }
}

/// Returns the seed of the sizes: `QUO_TESTS_SEED`, or always the same.
fn seed() -> u64 {
    let requested = std::env::var("QUO_TESTS_SEED").ok().and_then(|text| text.parse().ok());
    requested.unwrap_or(20)
}

/// Returns a plan of random sizes, always the same for a seed.
fn random_plan(seed: u64, resizes: Resizes) -> String {
    let mut seed = seed.max(1);
    let mut size = 1;
    let line = |number| {
        // Xorshift. Never the same size again.
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        size = (size + (seed % (RANKS as u64 - 1)) as usize) % RANKS + 1;
        format!("at iteration {}: size {size}\n", resizes.apart * (number + 1))
    };
    (0..resizes.asked).map(line).collect()
}

/// Returns the numbers of lines that only the first and only the second program has.
fn lines_that_differ(plain: &Path, elastic: &Path) -> Result<(usize, usize)> {
    let output = Command::new("diff").args([plain, elastic]).output().context("starting diff")?;
    let text = String::from_utf8(output.stdout)?;
    let count = |mark: &str| text.lines().filter(|line| line.starts_with(mark)).count();
    Ok((count("<"), count(">")))
}

/// Checks that the elastic program is shorter than the plain one, has few lines that the plain one
/// has not, and that the guide gives their number.
fn changes_few_lines(plain: &str, elastic: &str) -> Result<()> {
    let checkout = Checkout::find()?;
    let (plain, elastic) = (checkout.root().join(plain), checkout.root().join(elastic));
    let (removed, written) = lines_that_differ(&plain, &elastic)?;
    ensure!(written > 0 && written <= MOST_LINES, "{written} lines are written or changed");
    ensure!(written < removed, "{written} lines written, {removed} removed: it is longer");
    let guide = std::fs::read_to_string(checkout.root().join("docs/elastic.md"))?;
    let guide = guide.split_whitespace().collect::<Vec<_>>().join(" ");
    let said = format!("{written} new lines and lacks {removed}");
    ensure!(guide.contains(&said), "docs/elastic.md does not say: {said}");
    Ok(())
}

fn heat_in_cxx_changes_few_lines() -> Result<()> {
    changes_few_lines("examples/heat/plain.cpp", "examples/heat/elastic.cpp")
}

fn gray_scott_in_python_changes_few_lines() -> Result<()> {
    changes_few_lines("examples/gray-scott/plain.py", "examples/gray-scott/elastic.py")
}

fn conjugate_gradients_in_fortran_change_few_lines() -> Result<()> {
    changes_few_lines("examples/cg/plain.F90", "examples/cg/elastic.F90")
}

/// Runs a plain program on one and on two ranks and an elastic one under random resizes. All write the
/// same bytes, which are returned. `job` makes a job of a program with its arguments, without the
/// file to write.
fn computes_the_same(
    resizes: Resizes,
    job: impl Fn(&str, usize, usize) -> Result<Job>,
) -> Result<Vec<u8>> {
    let folder = tempfile::tempdir()?;
    let Resizes { asked, least, .. } = resizes;
    let steps = resizes.apart * (asked + 2);
    let seed = seed();
    let place = |name: &str| folder.path().join(name);
    let run = |job: Job, file: &str| -> Result<Vec<u8>> {
        // There may be more ranks than cores.
        let job = job.env("OMPI_MCA_mpi_yield_when_idle", "1");
        let job = job.env("MPIR_CVAR_CH4_PROGRESS_THROTTLE", "1");
        let job = job.env("OMP_WAIT_POLICY", "passive");
        job.arg(place(file)).limit(LIMIT).run()?.expect_success()?;
        std::fs::read(place(file)).with_context(|| format!("the file {file}"))
    };
    let right = run(job("plain", 2, steps)?, "right")?;
    ensure!(run(job("plain", 1, steps)?, "alone")? == right, "the plain program depends on ranks");
    let elastic = job("elastic", resizes.launched, steps)?
        .env("QUO_ELASTIC_RANKS", format!("1..{RANKS}"))
        .env("QUO_ELASTIC_LOG", place("events"))
        .env("QUO_ELASTIC_PLAN", random_plan(seed, resizes));
    let found = run(elastic, "found").with_context(|| format!("seed {seed}"))?;
    let events = std::fs::read_to_string(place("events"))?;
    let done = events.matches("\"event\":\"finalized\"").count();
    println!("{done} of {asked} resizes were done, seed {seed}");
    ensure!(done >= least, "only {done} of {asked} resizes were done, seed {seed}:\n{events}");
    // The last request may still have been open at the end, on a slow machine.
    ensure!(events.matches("the job has ended").count() <= 1, "seed {seed}:\n{events}");
    // A later request may have been faster, with this size or with another one.
    let needless =
        ["\"kind\":\"superseded\"", "nothing would change", "would cut unit", "the job has ended"];
    let failed = events.lines().find(|line| {
        line.contains("\"event\":\"aborted\"") && !needless.iter().any(|why| line.contains(why))
    });
    ensure!(failed.is_none(), "seed {seed}: {failed:?}");
    ensure!(found == right, "other bits after {done} resizes, seed {seed}");
    Ok(right)
}

fn heat_in_cxx_computes_the_same_bits_under_random_resizes() -> Result<()> {
    let (checkout, folder) = (Checkout::find()?, tempfile::tempdir()?);
    for name in ["plain", "elastic"] {
        let source = format!("examples/heat/{name}.cpp");
        checkout.compile_cxx(&source, folder.path(), "g++", &["-O2"])?;
    }
    let right = computes_the_same(Resizes::parked(), |name, ranks, steps| {
        let job = Job::new(ranks, folder.path().join(name));
        // Uneven parts, and steps long enough for one rank not to run ahead of its requests.
        Ok(job.arg("301").arg("403").arg(steps.to_string()))
    })?;
    ensure!(right.len() == 301 * 403 * 8, "{} bytes", right.len());
    Ok(())
}

fn heat_in_cxx_computes_the_same_bits_with_started_ranks() -> Result<()> {
    if !suite::is_long() {
        let reason = "many starts of processes are a test of the full suite";
        return Err(Skipped(reason.to_owned()).into());
    }
    needs_spawn()?;
    let (checkout, folder) = (Checkout::find()?, tempfile::tempdir()?);
    // The names of Open MPI 4 and 5. Other launchers take any number of processes.
    let slots = folder.path().join("slots");
    std::fs::write(&slots, format!("localhost slots={RANKS}\n"))?;
    // Only such programs can start processes.
    let init = checkout.root().join("tests/programs/init_multiple.h");
    let init = init.to_str().context("a path in UTF-8")?;
    for name in ["plain", "elastic"] {
        let source = format!("examples/heat/{name}.cpp");
        checkout.compile_cxx(&source, folder.path(), "g++", &["-O2", "-include", init])?;
    }
    computes_the_same(Resizes::SPAWNED, |name, ranks, steps| {
        let job = Job::new(ranks, folder.path().join(name));
        let job = job.env("OMPI_MCA_orte_default_hostfile", &slots);
        let job = job.env("PRTE_MCA_prte_default_hostfile", &slots);
        Ok(job.arg("301").arg("403").arg(steps.to_string()))
    })?;
    Ok(())
}

fn particles_in_c_change_few_lines() -> Result<()> {
    changes_few_lines("examples/particles/plain.c", "examples/particles/elastic.c")
}

fn particles_in_c_have_same_bits_under_random_resizes() -> Result<()> {
    let (checkout, folder) = (Checkout::find()?, tempfile::tempdir()?);
    for name in ["plain", "elastic"] {
        let source = format!("examples/particles/{name}.c");
        checkout.compile_c(&source, folder.path(), &["-O2"])?;
    }
    let right = computes_the_same(Resizes::parked(), |name, ranks, steps| {
        let job = Job::new(ranks, folder.path().join(name));
        Ok(job.arg("20000").arg(steps.to_string()))
    })?;
    ensure!(right.len() == 20000 * 40, "{} bytes", right.len());
    Ok(())
}

fn conjugate_gradients_in_fortran_compute_same_bits_under_random_resizes() -> Result<()> {
    fortran_support().map_err(|reason| Skipped(format!("{reason:#}")))?;
    let (checkout, folder) = (Checkout::find()?, tempfile::tempdir()?);
    let mut programs = Vec::new();
    for name in ["plain", "elastic"] {
        // Their modules have the same name.
        let own = folder.path().join(format!("of-{name}"));
        std::fs::create_dir(&own)?;
        // The module `mpi` of MPICH 4 declares no interfaces of calls with buffers: the compiler
        // warns that their types differ.
        let source = format!("examples/cg/{name}.F90");
        let program = checkout.compile_fortran(&source, &own, &["-Wno-error"])?;
        programs.push((name, program));
    }
    let right = computes_the_same(Resizes::parked(), |name, ranks, steps| {
        let program = programs.iter().find(|(other, _)| *other == name).context("a program")?;
        Ok(Job::new(ranks, &program.1).arg("144").arg(steps.to_string()))
    })?;
    ensure!(right.len() == 144 * 144 * 8, "{} bytes", right.len());
    Ok(())
}

fn gray_scott_in_python_computes_same_bits_under_random_resizes() -> Result<()> {
    let right = computes_the_same(Resizes::parked(), |name, ranks, steps| {
        let job = python_job(ranks, &format!("examples/gray-scott/{name}.py"))?;
        Ok(job.arg("101").arg(steps.to_string()))
    })?;
    ensure!(right.len() == 101 * 101 * 8, "{} bytes", right.len());
    Ok(())
}

fn fire_with_openmp_phases_changes_few_lines() -> Result<()> {
    changes_few_lines("examples/fire/plain.c", "examples/fire/elastic.c")
}

fn fire_with_openmp_phases_has_same_bits_under_random_resizes() -> Result<()> {
    let (checkout, folder) = (Checkout::find()?, tempfile::tempdir()?);
    for name in ["plain", "elastic"] {
        let source = format!("examples/fire/{name}.c");
        checkout.compile_c(&source, folder.path(), &["-O2", "-fopenmp", "-lm"])?;
    }
    let right = computes_the_same(Resizes::parked(), |name, ranks, steps| {
        let job = Job::new(ranks, folder.path().join(name));
        Ok(job.arg("71").arg("53").arg(steps.to_string()))
    })?;
    ensure!(right.len() == 71 * 53 * 16, "{} bytes", right.len());
    Ok(())
}

suite! {
    within LIMIT_OF_TEST;
    heat_in_cxx_changes_few_lines
    heat_in_cxx_computes_the_same_bits_under_random_resizes
    heat_in_cxx_computes_the_same_bits_with_started_ranks
    conjugate_gradients_in_fortran_change_few_lines
    conjugate_gradients_in_fortran_compute_same_bits_under_random_resizes
    particles_in_c_change_few_lines
    particles_in_c_have_same_bits_under_random_resizes
    gray_scott_in_python_changes_few_lines
    gray_scott_in_python_computes_same_bits_under_random_resizes
    fire_with_openmp_phases_changes_few_lines
    fire_with_openmp_phases_has_same_bits_under_random_resizes
}
