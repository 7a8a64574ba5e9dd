//! Conditions on which MPI relies when ranks start.

use anyhow::{Context, Result, ensure};
use quo_hosts::slurm::Options;
use quo_hosts::suite::Test;

use crate::contexts::left_clean;
use crate::endings::{PIPE, release};
use crate::{compiled, slurm};

pub const TESTS: &[Test] =
    &[("ranks_that_start_wait_for_those_of_the_other_node", ranks_wait_for_each_other)];

fn ranks_wait_for_each_other() -> Result<()> {
    let slurm = slurm("fence", Options::default())?;
    let made = slurm.hosts().command(1, "mkfifo").arg(PIPE).status()?;
    ensure!(made.success(), "mkfifo: {made}");
    let folder = "/usr/lib/x86_64-linux-gnu/pmix2/include";
    let program = compiled("fence", &["-I", folder, "-lpmix"])?;
    // The last rank is on the second node.
    let job = slurm.srun(2, 4, program).option("--ntasks-per-node=2").option("--cpu-bind=none");
    let running = job.arg("3").start()?;
    running.wait_for(" comes\n", 3)?;
    release(&slurm.hosts().host(1).path(PIPE))?;
    let outcome = running.finish()?;
    outcome.expect_success()?;
    let times: Vec<[f64; 2]> = outcome.stdout.lines().filter_map(times).collect();
    ensure!(times.len() == 4, "{}", outcome.report());
    let last = times.iter().map(|[came, _]| *came).fold(f64::MIN, f64::max);
    let first = times.iter().map(|[_, left]| *left).fold(f64::MAX, f64::min);
    ensure!(last <= first, "a rank went on before another came\n{}", outcome.report());
    left_clean(&slurm).context("after the fence")?;
    slurm.down()
}

/// Returns the times at which a rank arrived and continued.
fn times(line: &str) -> Option<[f64; 2]> {
    let (_, times) = line.split_once(": ")?;
    let (came, left) = times.split_once(' ')?;
    Some([came.parse().ok()?, left.parse().ok()?])
}
