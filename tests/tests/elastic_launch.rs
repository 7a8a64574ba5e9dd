//! `quo-elastic launch`: one command starts a program that leaves its sizes open, with spawned or
//! parked ranks, on each MPI.

use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use quo_tests::{BindTo, Checkout, Job, Launcher, Outcome, Running};
use rustix::process::{Pid, Signal, kill_process};

const LIMIT: Duration = Duration::from_secs(100);

fn compile(folder: &tempfile::TempDir) -> Result<PathBuf> {
    Checkout::find()?.compile_c("tests/programs/launched.c", folder.path(), &[])
}

/// Runs `quo-elastic launch` with these words before and after the program.
fn launch(options: &[&str], program: &PathBuf, arguments: &[&str]) -> Result<Outcome> {
    launch_in(&[], options, program, arguments)
}

/// Runs `quo-elastic launch` with further variables.
fn launch_in(
    variables: &[(&str, &str)],
    options: &[&str],
    program: &PathBuf,
    arguments: &[&str],
) -> Result<Outcome> {
    start(variables, options, program, arguments)?.finish()
}

/// Starts `quo-elastic launch`.
fn start(
    variables: &[(&str, &str)],
    options: &[&str],
    program: &PathBuf,
    arguments: &[&str],
) -> Result<Running> {
    let launcher = Launcher::find()?;
    let mut command = Command::new(Checkout::find()?.program("quo-elastic")?);
    command.arg("launch").arg("--mpirun").arg(launcher.program()).args(options);
    // What every launch of the tests needs, such as running as root.
    let envs = launcher.command(2, BindTo::None);
    command.envs(envs.get_envs().filter_map(|(name, value)| Some((name, value?))));
    command.envs(variables.iter().copied());
    command.arg("--").arg(program).args(arguments);
    let description = format!("{command:?}");
    Running::start(&mut command, &description, LIMIT)
}

/// Starts a hundred steps with a checkpoint after each, on two ranks, and waits for some of them.
fn start_steps(folder: &Path) -> Result<Running> {
    let program = Checkout::find()?.compile_c("tests/programs/restarted.c", folder, &[])?;
    let saved = folder.join("saved");
    let saved = saved.to_str().context("a path in UTF-8")?;
    let running = start(&[], &["-n", "2..2", "--restarts", "2"], &program, &[saved])?;
    running.wait_for("step 5\n", 1)?;
    Ok(running)
}

#[test]
fn launched_program_grows_to_the_largest_size() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let program = compile(&folder)?;
    for options in [&["-n", "1..3"][..], &["-n", "1..3", "--parked"]] {
        let outcome = launch(options, &program, &[])?;
        outcome.expect_success()?;
        ensure!(outcome.stdout == "begins with 1\nends with 3\n", "{}", outcome.report());
    }
    Ok(())
}

#[test]
fn launched_program_begins_with_the_smallest_size() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let program = compile(&folder)?;
    let outcome = launch(&["-n", "2..2"], &program, &["2"])?;
    outcome.expect_success()?;
    ensure!(outcome.stdout == "ends with 2\n", "{}", outcome.report());
    Ok(())
}

#[test]
fn size_beyond_the_launch_is_refused() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let program = compile(&folder)?;
    let outcome = launch(&["-n", "1..2"], &program, &["4"])?;
    ensure!(!outcome.status.success(), "{}", outcome.report());
    ensure!(outcome.stderr.contains("QUO_world_request"), "{}", outcome.report());
    Ok(())
}

#[test]
fn wrong_sizes_in_the_environment_are_named() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let program = compile(&folder)?;
    let outcome = Job::new(1, &program).env("QUO_ELASTIC_RANKS", "8..2").run()?;
    ensure!(!outcome.status.success(), "{}", outcome.report());
    let text = "QUO_ELASTIC_RANKS=8..2 is not two numbers of ranks, such as 2..8";
    ensure!(outcome.stderr.contains(text), "{}", outcome.report());
    Ok(())
}

#[test]
fn log_that_cannot_be_written_fails_the_launch() -> Result<()> {
    let program = PathBuf::from("./program");
    for show in [&["--show"][..], &[]] {
        let options = [show, &["-n", "1..3", "--log", "/proc/none/events"]].concat();
        let outcome = launch(&options, &program, &[])?;
        ensure!(outcome.status.code() == Some(1), "{}", outcome.report());
        let text = "launch: cannot write --log /proc/none/events: No such file";
        ensure!(outcome.stderr.contains(text), "{}", outcome.report());
    }
    Ok(())
}

#[test]
fn allocation_with_less_room_is_said_in_one_line() -> Result<()> {
    let program = PathBuf::from("./program");
    for (variables, lines) in [(&[("PBS_JOBID", "1"), ("PBS_NP", "2")][..], 1), (&[], 0)] {
        let outcome = launch_in(variables, &["--show", "-n", "1..3"], &program, &[])?;
        outcome.expect_success()?;
        ensure!(outcome.stderr.lines().count() == lines, "{}", outcome.report());
        ensure!(lines == 0 || outcome.stderr.contains("2 slots (PBS_NP)"), "{}", outcome.report());
    }
    Ok(())
}

#[test]
fn failed_job_is_restarted_as_often_as_allowed() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let program = compile(&folder)?;
    let outcome = launch(&["-n", "1..2", "--restarts", "2"], &program, &["4"])?;
    ensure!(outcome.status.code() == Some(1), "{}", outcome.report());
    ensure!(outcome.stdout == "begins with 1\n".repeat(3), "{}", outcome.report());
    let restarts = ["exit status: 1 after", "; restart 1 of 2\n", "; restart 2 of 2\n"];
    ensure!(restarts.iter().all(|text| outcome.stderr.contains(text)), "{}", outcome.report());
    Ok(())
}

#[test]
fn job_with_a_killed_rank_continues_from_its_checkpoint() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let running = start_steps(folder.path())?;
    let said = running.said();
    let number = said.lines().find_map(|line| line.strip_prefix("rank 0 is process "));
    let victim = number.and_then(|number| Pid::from_raw(number.parse().ok()?)).context(said)?;
    kill_process(victim, Signal::KILL)?;
    let outcome = running.finish()?;
    outcome.expect_success()?;
    let begins = outcome.stdout.lines().filter_map(|line| line.strip_prefix("begins after step "));
    let steps: Vec<u32> = begins.filter_map(|rest| rest.split(' ').next()?.parse().ok()).collect();
    ensure!(steps.len() == 2 && steps[1] >= 5, "{}", outcome.report());
    ensure!(outcome.stdout.ends_with("ends with 100000 on 2 ranks\n"), "{}", outcome.report());
    ensure!(outcome.stderr.contains("; restart 1 of 2\n"), "{}", outcome.report());
    Ok(())
}

#[test]
fn signal_ends_the_job_without_a_restart() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let running = start_steps(folder.path())?;
    let outcome = running.end()?;
    let was_killed = outcome.status.signal() == Some(Signal::KILL.as_raw());
    ensure!(!outcome.status.success() && !was_killed, "{} {}", outcome.status, outcome.report());
    ensure!(outcome.leftovers.is_empty(), "{}", outcome.report());
    ensure!(!outcome.stderr.contains("; restart "), "{}", outcome.report());
    Ok(())
}
