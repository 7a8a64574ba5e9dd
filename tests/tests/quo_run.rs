//! `quo-run`: ranks that wait in MPI lend their CPUs to OpenMP threads of other ranks, in
//! unmodified programs.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use quo_tests::suite::Skipped;
use quo_tests::{BindTo, Checkout, Launcher, Outcome, Running, mpicc, run_compiler};

const LIMIT: Duration = Duration::from_secs(100);

fn processors() -> usize {
    std::thread::available_parallelism().map_or(1, std::num::NonZero::get)
}

/// Compiles a program as its users do, without libquo.
fn compile(source: &str, folder: &Path) -> Result<PathBuf> {
    let source = Checkout::find()?.root().join(source);
    let program = folder.join(source.file_stem().context("a source without a name")?);
    let mut compiler = Command::new(mpicc());
    compiler.args(["-std=gnu11", "-O2", "-fopenmp", "-Wall", "-Wextra", "-Werror"]);
    run_compiler(compiler.arg(source).arg("-o").arg(&program))?;
    Ok(program)
}

fn quo_run(options: &[&str]) -> Result<Command> {
    let mut command = Command::new(Checkout::find()?.program("quo-run")?);
    command.args(options).arg("--").env("OMP_NUM_THREADS", "1").env_remove("OMP_PROC_BIND");
    Ok(command)
}

/// Runs two ranks of a program, with `quo-run` and its options or, for `None`, without.
fn two_ranks(
    options: Option<&[&str]>,
    bind_to: BindTo,
    program: &Path,
    arguments: &[&str],
) -> Result<Outcome> {
    let launch = Launcher::find()?.command(2, bind_to);
    let mut command = match options {
        Some(options) => {
            let mut command = quo_run(options)?;
            command.arg(launch.get_program()).args(launch.get_args());
            command
        }
        None => {
            let mut command = Command::new(launch.get_program());
            command.args(launch.get_args()).env("OMP_NUM_THREADS", "1");
            command
        }
    };
    command.envs(launch.get_envs().filter_map(|(name, value)| Some((name, value?))));
    command.arg(program).args(arguments);
    let description = format!("{command:?}");
    Running::start(&mut command, &description, LIMIT)?.finish()
}

/// Skips the test without a core for each of two ranks, and an MPI that yields while it waits.
fn require_lending() -> Result<()> {
    if processors() < 2 {
        return Err(Skipped("lending takes two processors".to_owned()).into());
    }
    let version = Command::new(Launcher::find()?.program()).arg("--version").output()?;
    let version = String::from_utf8_lossy(&version.stdout).into_owned();
    match version.lines().find(|line| line.trim_start().starts_with("Version:")) {
        Some(line)
            if line.split_whitespace().nth(1).is_some_and(|number| number.starts_with('4')) =>
        {
            Err(Skipped("MPICH 4 does not yield while it waits".to_owned()).into())
        }
        _ => Ok(()),
    }
}

/// Returns the number before `word` in the report of a rank of the node.
fn reported(outcome: &Outcome, rank: usize, word: &str) -> Result<u64> {
    let start = format!("quo-run: rank {rank} of its node");
    let line = outcome.stderr.lines().find(|line| line.contains(&start));
    let line = line.with_context(|| format!("no report of rank {rank}: {}", outcome.stderr))?;
    let (_, rest) = line.split_once(word).with_context(|| format!("no {word:?} in {line}"))?;
    let number = rest.trim_start().split(' ').next().unwrap_or_default();
    number.parse().with_context(|| format!("no number after {word:?} in {line}"))
}

/// Returns the sum that the example prints, which does not depend on the threads.
fn sum(outcome: &Outcome) -> Result<&str> {
    let (_, rest) = outcome.stdout.split_once("sum ").context("no sum")?;
    Ok(rest.split(',').next().unwrap_or_default())
}

fn waiting_rank_lends_to_regions_of_another() -> Result<()> {
    require_lending()?;
    let folder = tempfile::tempdir()?;
    let program = compile("examples/imbalance/imbalance.c", folder.path())?;
    let arguments = ["5", "60", "5"];
    let alone = two_ranks(None, BindTo::Core, &program, &arguments)?;
    alone.expect_success()?;
    let lent = two_ranks(Some(&["--report"]), BindTo::Core, &program, &arguments)?;
    lent.expect_success()?;
    ensure!(sum(&alone)? == sum(&lent)?, "{} and {}", alone.stdout, lent.stdout);
    ensure!(alone.stdout.contains("at most 1 threads"), "{}", alone.stdout);
    ensure!(lent.stdout.contains("at most 2 threads"), "{}\n{}", lent.stdout, lent.stderr);
    ensure!(reported(&lent, 1, "lent")? > 0, "{}", lent.stderr);
    ensure!(reported(&lent, 0, "borrowed")? > 0, "{}", lent.stderr);
    Ok(())
}

/// Returns the last text before `word` in a program's line.
fn before<'a>(outcome: &'a Outcome, word: &str) -> Result<&'a str> {
    let (text, _) = outcome.stdout.split_once(word).with_context(|| outcome.report())?;
    text.split_ascii_whitespace().last().context("no text before the word")
}

fn regions_of_llvms_runtime_borrow() -> Result<()> {
    require_lending()?;
    let folder = tempfile::tempdir()?;
    let program = folder.path().join("imbalance");
    let mut compiler = Command::new(mpicc());
    for variable in ["OMPI_CC", "MPICH_CC"] {
        compiler.env(variable, "clang");
    }
    compiler.args(["-std=gnu11", "-O2", "-fopenmp"]).arg("-o").arg(&program);
    compiler.arg(Checkout::find()?.root().join("examples/imbalance/imbalance.c"));
    let compiled = compiler.output()?;
    if !compiled.status.success() {
        let words = String::from_utf8_lossy(&compiled.stderr);
        return Err(Skipped(format!("no clang with its OpenMP (libomp-dev): {words}")).into());
    }
    let arguments = ["5", "60", "5"];
    let alone = two_ranks(None, BindTo::Core, &program, &arguments)?;
    alone.expect_success()?;
    let lent = two_ranks(Some(&["--report"]), BindTo::Core, &program, &arguments)?;
    lent.expect_success()?;
    ensure!(sum(&alone)? == sum(&lent)?, "{} and {}", alone.stdout, lent.stdout);
    ensure!(lent.stdout.contains("at most 2 threads"), "{}\n{}", lent.stdout, lent.stderr);
    ensure!(reported(&lent, 0, "borrowed")? > 0, "{}", lent.stderr);
    Ok(())
}

fn threads_of_a_loan_work_on_lent_cpus_and_return() -> Result<()> {
    require_lending()?;
    let folder = tempfile::tempdir()?;
    let program = compile("tests/programs/borrowed_places.c", folder.path())?;
    let outcome = two_ranks(Some(&["--report"]), BindTo::Core, &program, &[])?;
    outcome.expect_success()?;
    let of = |word| before(&outcome, word)?.parse::<u32>().with_context(|| outcome.report());
    let (shared, regions) = (of("regions on one CPU")?, of("regions of two threads")?);
    ensure!(regions >= 100, "{}", outcome.report());
    // The owner polls MPI in between, and the kernel may move a thread then.
    ensure!(shared * 10 <= regions, "{}", outcome.report());
    ensure!(outcome.stdout.contains("all threads are back"), "{}", outcome.report());
    Ok(())
}

fn unbound_ranks_borrow_nothing_and_are_told_why() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let program = compile("examples/imbalance/imbalance.c", folder.path())?;
    let outcome = two_ranks(Some(&["--report"]), BindTo::None, &program, &["2", "20", "1"])?;
    outcome.expect_success()?;
    ensure!(outcome.stdout.contains("at most 1 threads"), "{}", outcome.stdout);
    ensure!(reported(&outcome, 0, "borrowed")? == 0, "{}", outcome.stderr);
    let said = outcome.stderr.matches("quo-run: no rank of this node lends: all may use the same");
    ensure!(said.count() == 1, "{}", outcome.stderr);
    Ok(())
}

fn counts(options: &[&str], how: &str) -> Result<Outcome> {
    let folder = tempfile::tempdir()?;
    let program = compile("tests/programs/thread_counts.c", folder.path())?;
    two_ranks(Some(options), BindTo::Core, &program, &[how])
}

fn expect_counts(options: &[&str], how: &str, expected: &str) -> Result<Outcome> {
    require_lending()?;
    let outcome = counts(options, how)?;
    outcome.expect_success()?;
    ensure!(outcome.stdout.contains(expected), "{}\n{}", outcome.stdout, outcome.stderr);
    Ok(outcome)
}

fn program_that_asks_for_its_threads_keeps_them() -> Result<()> {
    let outcome = expect_counts(&["--report"], "asks", "fewest 1, most 1, told 1")?;
    ensure!(outcome.stderr.contains("--malleable"), "{}", outcome.stderr);
    Ok(())
}

fn malleable_program_is_told_the_most_threads() -> Result<()> {
    // All processors except the rank's own may be borrowed.
    let told = format!("most 2, told {}", processors());
    if processors() > 2 {
        return Err(Skipped("told for two processors".to_owned()).into());
    }
    let outcome = expect_counts(&["--malleable=results-may-be-wrong"], "asks", &told)?;
    ensure!(outcome.stderr.contains("compare its results"), "{}", outcome.stderr);
    Ok(())
}

fn malleable_without_its_risk_is_refused() -> Result<()> {
    for option in ["--malleable", "--malleable=yes"] {
        let output = quo_run(&[option])?.args(["sh", "-c", "echo ran"]).output()?;
        let told = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.code() == Some(2) && output.stdout.is_empty(), "{option}: {told}");
        ensure!(told.contains("results-may-be-wrong"), "{option}: {told}");
    }
    Ok(())
}

fn program_with_arrays_by_thread_borrows_and_is_right() -> Result<()> {
    require_lending()?;
    let folder = tempfile::tempdir()?;
    let program = compile("tests/programs/thread_arrays.c", folder.path())?;
    let run = |options, threads: &str| {
        let arguments = [threads.to_owned()];
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        two_ranks(options, BindTo::Core, &program, &arguments)
    };
    for threads in ["1", "2", "3"] {
        let alone = run(None, threads)?;
        alone.expect_success()?;
        let lent = run(Some(&["--report"]), threads)?;
        lent.expect_success()?;
        let (one, other) = (sum(&alone)?, sum(&lent)?);
        ensure!(one == other, "{threads} threads: {}{}", alone.stdout, lent.stdout);
        let told = format!("told {threads}, teams of {threads} to {threads},");
        ensure!(lent.stdout.contains(&told), "{}{}", lent.stdout, lent.stderr);
        // With a CPU for each thread there is no reason to borrow.
        let borrows = threads != "1";
        let cpus = if borrows { "at most 2 CPUs" } else { "at most 1 CPUs" };
        ensure!(lent.stdout.contains(cpus), "{}{}", lent.stdout, lent.stderr);
        ensure!((reported(&lent, 0, "borrowed")? > 0) == borrows, "{}", lent.stderr);
        ensure!(reported(&lent, 1, "lent")? > 0, "{}", lent.stderr);
    }
    Ok(())
}

fn number_in_a_clause_is_kept() -> Result<()> {
    expect_counts(&[], "clause", "fewest 2, most 2").map(drop)
}

fn killed_borrower_leaves_nothing_behind() -> Result<()> {
    require_lending()?;
    let outcome = counts(&[], "dies")?;
    ensure!(outcome.expect_success().is_err(), "it ended well: {}", outcome.stdout);
    ensure!(outcome.stdout.contains("most 2"), "{}", outcome.stdout);
    ensure!(outcome.leftovers.is_empty(), "{:?}", outcome.leftovers);
    // The next job on these cores lends and borrows as usual.
    expect_counts(&[], "free", "most 2").map(drop)
}

/// Runs `thread_counts asks` with a shell command before rank 1, which then does not take part.
fn without_rank_1(command: &str) -> Result<()> {
    let folder = tempfile::tempdir()?;
    let program = compile("tests/programs/thread_counts.c", folder.path())?;
    // Without it MPICH's ranks wait for each other's shared memory before MPI begins.
    let rank = format!(
        r#"
        export MPIR_CVAR_NOLOCAL=1
        case ${{OMPI_COMM_WORLD_RANK:-$PMI_RANK}} in 1) {command} ;; esac
        exec "$0" asks"#
    );
    let shell = Path::new("/bin/sh");
    let arguments = ["-c", &rank, program.to_str().context("a path that is no text")?];
    let outcome = two_ranks(Some(&["--report"]), BindTo::Core, shell, &arguments)?;
    outcome.expect_success()?;
    ensure!(outcome.stdout.contains("fewest 1, most 1"), "{}", outcome.stdout);
    let note = "quo-run: no rank of this node lends: rank 1 of the node does not take part";
    ensure!(outcome.stderr.matches(note).count() == 1, "{}", outcome.stderr);
    let report = "quo-run: rank 0 of its node does not lend: rank 1 of the node";
    ensure!(outcome.stderr.contains(report), "{}", outcome.stderr);
    Ok(())
}

fn rank_without_the_object_is_not_waited_for() -> Result<()> {
    // Like a static program: the loader of rank 1 loads nothing for it.
    without_rank_1("unset LD_PRELOAD")
}

fn rank_on_a_simulated_machine_is_not_waited_for() -> Result<()> {
    without_rank_1("export QUO_TOPOLOGY=core:4")
}

fn rank_with_its_own_shared_memory_is_not_waited_for() -> Result<()> {
    let unshare = Command::new("unshare").args(["--mount", "true"]).output();
    if !unshare.is_ok_and(|output| output.status.success()) {
        return Err(Skipped("only root has mounts of its own".to_owned()).into());
    }
    // As in containers of single ranks: the MPIs under test do not share memory across them.
    without_rank_1(
        r#"exec unshare --mount sh -c 'mount -t tmpfs none /dev/shm && exec "$0" asks' "$0""#,
    )
}

fn rank_that_begins_mpi_in_another_thread_takes_part() -> Result<()> {
    expect_counts(&[], "thread", "most 2").map(drop)
}

fn commands_status_is_quo_runs() -> Result<()> {
    let code = |words: &[&OsStr]| -> Result<(Option<i32>, String)> {
        let output = quo_run(&[])?.args(words).output()?;
        Ok((output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned()))
    };
    let words = |text: &'static [&str]| text.iter().map(OsStr::new).collect::<Vec<_>>();
    ensure!(code(&words(&["sh", "-c", "exit 7"]))?.0 == Some(7));
    let (missing, told) = code(&words(&["/nowhere/program"]))?;
    ensure!(missing == Some(127) && told.contains("cannot run /nowhere/program"), "{told}");
    let output = quo_run(&[])?.env("QUO_RUN_PRELOAD", "/nowhere/x.so").arg("true").output()?;
    let told = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.code() == Some(1) && told.contains("QUO_RUN_PRELOAD"), "{told}");
    Ok(())
}

quo_tests::suite! {
    waiting_rank_lends_to_regions_of_another
    regions_of_llvms_runtime_borrow
    threads_of_a_loan_work_on_lent_cpus_and_return
    unbound_ranks_borrow_nothing_and_are_told_why
    program_that_asks_for_its_threads_keeps_them
    malleable_program_is_told_the_most_threads
    malleable_without_its_risk_is_refused
    program_with_arrays_by_thread_borrows_and_is_right
    number_in_a_clause_is_kept
    killed_borrower_leaves_nothing_behind
    rank_without_the_object_is_not_waited_for
    rank_that_begins_mpi_in_another_thread_takes_part
    rank_on_a_simulated_machine_is_not_waited_for
    rank_with_its_own_shared_memory_is_not_waited_for
    commands_status_is_quo_runs
}
