//! Programs of elements: Cannon and Gauss give the same bits while ranks join and leave as in one
//! process.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use quo_tests::suite::Skipped;
use quo_tests::{Checkout, Family, Job, Launcher, Outcome, fortran_support, needs_spawn};

const LIMIT: Duration = Duration::from_secs(120);

/// Sizes of Cannon, which needs squares, and of Gauss. Processes that were started together leave
/// together.
const CANNON: [&str; 3] = ["2:4", "5:1", "7:4"];
const GAUSS: [&str; 5] = ["1:2", "6:4", "11:2", "15:1", "20:3"];

fn run(job: Job) -> Result<Outcome> {
    let job = job.env("MPIR_CVAR_CH4_PROGRESS_THROTTLE", "1");
    let job = job.env("PRTE_MCA_rmaps_default_mapping_policy", ":oversubscribe");
    let outcome = job.limit(LIMIT).run()?;
    outcome.expect_success()?;
    Ok(outcome)
}

fn job(ranks: usize, program: &Path, words: &[&str]) -> Job {
    words.iter().fold(Job::new(ranks, program), |job, word| job.arg(*word))
}

/// Returns the standard output of a program that runs without a launcher.
fn alone(program: &Path, words: &[&str]) -> Result<String> {
    let output = Command::new(program).args(words).output();
    let output = output.with_context(|| format!("running {}", program.display()))?;
    let text = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{}: {text}", program.display());
    Ok(String::from_utf8(output.stdout)?)
}

/// Checks that the job had the requested sizes, and the result of the serial run.
fn is_as_serial(outcome: &Outcome, serial: &str, sizes: &[&str]) -> Result<()> {
    let right = sizes.iter().map(|word| {
        let (step, size) = word.split_once(':').unwrap_or((word, ""));
        format!("step {step}: {size} ranks")
    });
    let right: Vec<String> = right.chain(serial.lines().map(str::to_owned)).collect();
    let said: Vec<&str> = outcome.stdout.lines().map(str::trim_end).collect();
    ensure!(serial.lines().count() == 1, "the serial program wrote {serial:?}");
    ensure!(said == right, "{right:?} was expected: {}", outcome.report());
    Ok(())
}

fn rust(ranks: usize) -> Result<()> {
    let program = Checkout::find()?.program("examples/epop")?;
    for (name, sizes) in [("cannon", &CANNON[..]), ("gauss", &GAUSS)] {
        let serial = alone(&program, &["serial", name])?;
        let words: Vec<&str> = [name].into_iter().chain(sizes.iter().copied()).collect();
        is_as_serial(&run(job(ranks, &program, &words))?, &serial, sizes)?;
    }
    Ok(())
}

fn rust_programs_match_serial_over_parked_ranks() -> Result<()> {
    rust(4)
}

fn rust_programs_match_serial_over_spawned_ranks() -> Result<()> {
    needs_spawn()?;
    rust(1)
}

fn refused_redistribution_leaves_ranks_and_result() -> Result<()> {
    let program = Checkout::find()?.program("examples/epop")?;
    let serial = alone(&program, &["serial", "gauss"])?;
    let outcome = run(job(4, &program, &["gauss", "2:4!", "5:3", "8:1!", "9:2"]))?;
    is_as_serial(&outcome, &serial, &["5:3", "9:2"])
}

fn trace_shows_joiner_entering_its_parents_phase() -> Result<()> {
    let program = Checkout::find()?.program("examples/epop")?;
    let outcome = run(job(2, &program, &["trace", "gauss", "3:2"]))?;
    for line in [
        "init: Init",
        ": Wait",
        ": Resize(None)",
        "eliminate: Resize(Some(1))",
        "eliminate: Compute(1)",
        "solve: Compute(2)",
    ] {
        ensure!(outcome.stderr.contains(line), "{line} is missing: {}", outcome.report());
    }
    Ok(())
}

fn c_program(name: &str, folder: &Path, flags: &[&str]) -> Result<PathBuf> {
    Checkout::find()?.compile_c(&format!("examples/epop/{name}.c"), folder, flags)
}

fn c(ranks: usize, options: &[&str]) -> Result<()> {
    let folder = tempfile::tempdir()?;
    for (name, sizes) in [("cannon", &CANNON[..]), ("gauss", &GAUSS)] {
        let program = c_program(name, folder.path(), &[])?;
        let serial = alone(&program, &["--serial"])?;
        let words: Vec<&str> = options.iter().chain(&["--"]).chain(sizes).copied().collect();
        is_as_serial(&run(job(ranks, &program, &words))?, &serial, sizes)?;
    }
    Ok(())
}

fn c_programs_match_serial_over_parked_ranks() -> Result<()> {
    c(4, &["--initial-ranks", "1"])
}

fn c_programs_match_serial_over_spawned_ranks() -> Result<()> {
    needs_spawn()?;
    c(1, &["--max-ranks", "4", "--oversubscribe"])
}

fn shared_objects_run_by_the_command() -> Result<()> {
    let (checkout, folder) = (Checkout::find()?, tempfile::tempdir()?);
    let command = checkout.program("quo-elastic")?;
    let object = c_program("gauss", folder.path(), &["-shared", "-fPIC"])?;
    let object = object.to_str().context("a path that is no text")?;
    let serial = alone(&command, &["run", object, "--serial"])?;
    let trace = folder.path().join("trace");
    let trace = trace.to_str().context("a path that is no text")?;
    let words = ["run", object, "--initial-ranks", "1", "--trace", trace, "--", "3:4", "12:2"];
    is_as_serial(&run(job(4, &command, &words))?, &serial, &["3:4", "12:2"])?;
    let joiner = std::fs::read_to_string(format!("{trace}.3"))?;
    ensure!(
        joiner.starts_with("init: Init\n: Wait\n: Resize(None)\neliminate: Compute(1)\n"),
        "{joiner}"
    );
    let none = Command::new(&command).args(["run", "/proc/self/exe"]).output()?;
    let text = String::from_utf8_lossy(&none.stderr);
    ensure!(none.status.code() == Some(1) && text.contains("run: /proc/self/exe"), "{text}");
    Ok(())
}

fn wrong_c_programs_fail_with_words() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let source = "bindings-c/tests/elastic/programs.c";
    let program = Checkout::find()?.compile_c(source, folder.path(), &[])?;
    let outcome = run(Job::new(2, &program))?;
    ensure!(
        outcome.stdout.lines().filter(|line| *line == "ok").count() == 1,
        "{}",
        outcome.report()
    );
    Ok(())
}

fn killed_joiner_ends_the_parents_program_with_an_error() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let source = "tests/programs/killed_joiner.c";
    let program = Checkout::find()?.compile_c(source, folder.path(), &[])?;
    let starts = match needs_spawn() {
        Err(error) if error.is::<Skipped>() => false,
        started => started.map(|()| true)?,
    };
    // The joiner is parked at first, or started.
    for ranks in [2, 1].into_iter().filter(|&ranks| ranks == 2 || starts) {
        let job = job(ranks, &program, &[]).survives().limit(LIMIT);
        let job = job.env("PRTE_MCA_rmaps_default_mapping_policy", ":oversubscribe");
        let outcome = job.env("MPIR_CVAR_CH4_PROGRESS_THROTTLE", "1").run()?;
        ensure!(!outcome.out_of_time, "{}", outcome.report());
        // Other launchers and MPIs may end the parent themselves.
        let is_told = outcome.stdout.lines().any(|line| line.starts_with("ended with "))
            && !outcome.stdout.contains("ended with 0 ");
        let is_left = Launcher::find()?.family() != Family::OpenMpi4;
        ensure!(is_told || is_left, "{ranks} ranks: {}", outcome.report());
    }
    Ok(())
}

fn in_fortran(source: &str, folder: &Path) -> Result<PathBuf> {
    fortran_support().map_err(|reason| Skipped(format!("{reason:#}")))?;
    Checkout::find()?.compile_fortran(source, folder, &[])
}

fn fortran_program_matches_serial_over_parked_ranks() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let program = in_fortran("examples/epop/gauss.F90", folder.path())?;
    let serial = alone(&program, &["serial"])?;
    let outcome = run(Job::new(4, &program))?;
    let right = format!("column 4: 4 ranks\ncolumn 13: 2 ranks\n{serial}");
    let said = |text: &str| text.lines().map(|line| line.trim().to_owned()).collect::<Vec<_>>();
    ensure!(said(&outcome.stdout) == said(&right), "{right}: {}", outcome.report());
    Ok(())
}

fn serial_fortran_program_has_no_communicator() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let program = in_fortran("tests/programs/elastic_serial.F90", folder.path())?;
    let said = alone(&program, &[])?;
    let right = ["before init T: ", "MPI has not been initialised", "rank 0"];
    ensure!(right.iter().all(|words| said.contains(words)), "{said}");
    Ok(())
}

fn sparse_matrix_survives_all_rank_pairs_in_rust() -> Result<()> {
    let outcome = run(Job::new(8, &Checkout::find()?.program("examples/compressed")?))?;
    let right = "right after 63 resizes over up to 8 ranks";
    ensure!(outcome.stdout.trim() == right, "{}", outcome.report());
    Ok(())
}

fn sparse_matrix_survives_all_rank_pairs_in_c_and_fortran() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let source = "bindings-c/tests/elastic/compressed.c";
    let program = Checkout::find()?.compile_c(source, folder.path(), &[])?;
    let outcome = run(job(8, &program, &["--initial-ranks", "1"]))?;
    ensure!(outcome.stdout.trim() == "ok", "{}", outcome.report());
    if fortran_support().is_err() {
        return Ok(());
    }
    let outcome =
        run(Job::new(8, &in_fortran("tests/programs/elastic_compressed.F90", folder.path())?))?;
    ensure!(outcome.stdout.trim() == "ok", "{}", outcome.report());
    Ok(())
}

quo_tests::suite! {
    rust_programs_match_serial_over_parked_ranks
    rust_programs_match_serial_over_spawned_ranks
    refused_redistribution_leaves_ranks_and_result
    trace_shows_joiner_entering_its_parents_phase
    c_programs_match_serial_over_parked_ranks
    c_programs_match_serial_over_spawned_ranks
    shared_objects_run_by_the_command
    wrong_c_programs_fail_with_words
    killed_joiner_ends_the_parents_program_with_an_error
    fortran_program_matches_serial_over_parked_ranks
    serial_fortran_program_has_no_communicator
    sparse_matrix_survives_all_rank_pairs_in_rust
    sparse_matrix_survives_all_rank_pairs_in_c_and_fortran
}
