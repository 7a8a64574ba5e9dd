//! Jobs that are suspended, cancelled, or lose a rank.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use quo_hosts::slurm::{Options, Slurm};
use quo_hosts::suite::Test;
use quo_tests::Outcome;
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

use crate::contexts::left_clean;
use crate::facts::{self, consistent};
use crate::{program, slurm};

pub const TESTS: &[Test] = &[
    ("job_suspended_in_a_barrier_goes_on_when_resumed", suspended_in_a_barrier),
    ("a_job_cancelled_in_a_barrier_leaves_nothing", cancelled_in_a_barrier),
    ("killed_rank_is_named_to_its_node_and_others_continue", killed_rank),
    ("a_step_that_ends_with_its_killed_rank_leaves_nothing", killed_with_the_step),
];

/// Three ranks on each of two nodes; `--overcommit`, since a node may have fewer cores.
fn waits<'a>(slurm: &'a Slurm, what: &str) -> Result<quo_hosts::slurm::SlurmJob<'a>> {
    let job = slurm.srun(2, 6, program("waits")?).option("--ntasks-per-node=3");
    Ok(job.option("--cpu-bind=none").arg(what))
}

/// Pipe at which the last rank of each node waits to be released.
pub const PIPE: &str = "/run/tmp/release";

/// Returns the number of the only job.
fn number_of_job(slurm: &Slurm) -> Result<String> {
    let jobs = slurm.command("squeue").args(["--noheader", "--format=%i"]).output()?;
    let number = String::from_utf8_lossy(&jobs.stdout).trim().to_owned();
    ensure!(number.parse::<u32>().is_ok(), "the jobs are \"{number}\": {jobs:?}");
    Ok(number)
}

fn control(slurm: &Slurm, program: &str, arguments: &[&str]) -> Result<()> {
    let output = slurm.command(program).args(arguments).output()?;
    ensure!(output.status.success(), "{program} {arguments:?}: {output:?}");
    Ok(())
}

fn suspended_in_a_barrier() -> Result<()> {
    let slurm = slurm("suspend", Options::default())?;
    for index in 0..2 {
        let made = slurm.hosts().command(index, "mkfifo").arg(PIPE).status()?;
        ensure!(made.success(), "mkfifo: {made}");
    }
    let running = waits(&slurm, "released")?.start()?;
    running.wait_for("asleep\n", 6)?;
    let job = number_of_job(&slurm)?;
    // Every process is stopped during its wait, and none is considered dead.
    control(&slurm, "scontrol", &["suspend", &job])?;
    let end = Instant::now() + Duration::from_secs(30);
    while stopped_ranks(&slurm) < 6 {
        ensure!(Instant::now() < end, "the ranks are not stopped\n{}", slurm.logs());
        // Sleeps: Slurm reports the job's new state before its processes are in it.
        std::thread::sleep(Duration::from_millis(50));
    }
    control(&slurm, "scontrol", &["resume", &job])?;
    for index in 0..2 {
        release(&slurm.hosts().host(index).path(PIPE))?;
    }
    let outcome = running.finish()?;
    outcome.expect_success()?;
    for rank in 0..6 {
        let said = said_by(&outcome, rank);
        ensure!(said.len() == 1 && said[0].ends_with("all came"), "{}", outcome.report());
    }
    left_clean(&slurm)?;
    slurm.down()
}

/// Returns the number of stopped ranks.
fn stopped_ranks(slurm: &Slurm) -> usize {
    let is_stopped = |found: &String| {
        // HOST: process NUMBER: COMMAND
        let (place, command) = found.split_once(": process ")?;
        let (number, command) = command.split_once(": ")?;
        let status = std::fs::read_to_string(format!("/proc/{number}/status")).ok()?;
        let is_rank = place.starts_with("host") && command.ends_with("waits released");
        (is_rank && status.contains("State:\tT")).then_some(())
    };
    slurm.hosts().leftovers().iter().filter_map(is_stopped).count()
}

/// Opens the pipe that a process waits to read from.
pub fn release(pipe: &Path) -> Result<()> {
    let flags = OFlags::WRONLY | OFlags::NONBLOCK;
    let end = Instant::now() + Duration::from_secs(30);
    loop {
        match rustix::fs::open(pipe, flags, Mode::empty()) {
            // A reader that was stopped returns to its wait only once it is scheduled.
            Err(Errno::NXIO) if Instant::now() < end => {}
            opened => break drop(opened.with_context(|| format!("opening {}", pipe.display()))?),
        }
        // Sleeps: the kernel reports a reader only by blocking without a limit.
        std::thread::sleep(Duration::from_millis(10));
    }
    std::fs::remove_file(pipe)?;
    Ok(())
}

fn cancelled_in_a_barrier() -> Result<()> {
    let slurm = slurm("cancel", Options::default())?;
    // Once with time to end, as usual, and once by SIGKILL.
    for signal in [None, Some("--signal=KILL")] {
        let running = waits(&slurm, "never")?.start()?;
        // Two ranks of each node sleep in the barrier; the third never arrives.
        running.wait_for("asleep\n", 4)?;
        let job = number_of_job(&slurm)?;
        let arguments: Vec<&str> = signal.into_iter().chain([job.as_str()]).collect();
        control(&slurm, "scancel", &arguments)?;
        let outcome = running.finish()?;
        ensure!(!outcome.status.success() && !outcome.out_of_time, "{}", outcome.report());
        outcome.expect_clean()?;
        left_clean(&slurm)?;
    }
    works(&slurm)?;
    slurm.down()
}

fn killed_rank() -> Result<()> {
    let slurm = slurm("killed", Options::default())?;
    for options in [&[][..], &["--kill-on-bad-exit=0"]] {
        let job = waits(&slurm, "killed")?;
        let outcome = options.iter().fold(job, |job, option| job.option(option)).run()?;
        ensure!(!outcome.out_of_time, "{}", outcome.report());
        outcome.expect_clean()?;
        for rank in [0, 1] {
            let [error, then] = &said_by(&outcome, rank)[..] else {
                anyhow::bail!("rank {rank} has not said two things\n{}", outcome.report());
            };
            ensure!(error.contains("rank 2 ended without taking part"), "{error}");
            ensure!(then.ends_with("on without it"), "{then}");
        }
        // The other node has lost no rank.
        for rank in [3, 4, 5] {
            let said = said_by(&outcome, rank);
            let said = said.first().with_context(|| outcome.report())?;
            ensure!(said.ends_with("all came"), "{said}");
        }
        left_clean(&slurm)?;
    }
    works(&slurm)?;
    slurm.down()
}

fn killed_with_the_step() -> Result<()> {
    let slurm = slurm("with", Options::default())?;
    let outcome = waits(&slurm, "killed")?.option("--kill-on-bad-exit=1").run()?;
    ensure!(!outcome.status.success() && !outcome.out_of_time, "{}", outcome.report());
    outcome.expect_clean()?;
    left_clean(&slurm)?;
    works(&slurm)?;
    slurm.down()
}

fn said_by(outcome: &Outcome, rank: usize) -> Vec<&str> {
    let start = format!("rank {rank} on ");
    outcome.stdout.lines().filter(|line| line.starts_with(&start)).collect()
}

/// Checks that the nodes still work.
fn works(slurm: &Slurm) -> Result<()> {
    let job = slurm.srun(2, 4, program("facts")?).option("--ntasks-per-node=2");
    consistent(&facts::of(&job.option("--cpu-bind=none").run()?)?, &[2, 2])?;
    left_clean(slurm)
}
