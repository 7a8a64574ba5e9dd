//! Jobs that are cancelled or lose a rank.

use anyhow::{Context, Result, ensure};
use quo_hosts::slurm::{Options, Slurm};
use quo_hosts::suite::Test;
use quo_tests::Outcome;

use crate::contexts::left_clean;
use crate::facts::{self, consistent};
use crate::{program, slurm};

pub const TESTS: &[Test] = &[
    ("a_job_cancelled_in_a_barrier_leaves_nothing", cancelled_in_a_barrier),
    ("a_killed_rank_is_named_to_its_node_and_the_others_go_on", killed_rank),
    ("a_step_that_ends_with_its_killed_rank_leaves_nothing", killed_with_the_step),
];

/// Three ranks on each of two nodes; `--overcommit`, since a node may have fewer cores.
fn waits<'a>(slurm: &'a Slurm, what: &str) -> Result<quo_hosts::slurm::SlurmJob<'a>> {
    let job = slurm.srun(2, 6, program("waits")?).option("--ntasks-per-node=3");
    Ok(job.option("--cpu-bind=none").arg(what))
}

fn cancelled_in_a_barrier() -> Result<()> {
    let slurm = slurm("cancel", Options::default())?;
    // The usual way, with time to end; and at once.
    for signal in [None, Some("--signal=KILL")] {
        let running = waits(&slurm, "never")?.start()?;
        // Two of each node sleep in the barrier; the third never comes.
        running.wait_for("asleep\n", 4)?;
        let jobs = slurm.command("squeue").args(["--noheader", "--format=%i"]).output()?;
        let job = String::from_utf8_lossy(&jobs.stdout).trim().to_owned();
        let cancelled = slurm.command("scancel").args(signal).arg(&job).output()?;
        ensure!(cancelled.status.success(), "scancel {job}: {cancelled:?}");
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
        // The other node has lost nobody.
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

/// The nodes are as good as before.
fn works(slurm: &Slurm) -> Result<()> {
    let job = slurm.srun(2, 4, program("facts")?).option("--ntasks-per-node=2");
    consistent(&facts::of(&job.option("--cpu-bind=none").run()?)?, &[2, 2])?;
    left_clean(slurm)
}
