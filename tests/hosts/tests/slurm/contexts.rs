//! Placements of the ranks: one node, two nodes, uneven, round robin, several jobs at once.

use std::time::Duration;

use anyhow::{Result, ensure};
use quo_hosts::slurm::Options;
use quo_hosts::suite::Test;
use quo_tests::Running;

use crate::facts::{self, Facts, consistent, promised};
use crate::{program, slurm};

pub const TESTS: &[Test] = &[
    ("srun_on_one_node_makes_a_context_of_one_node", srun_on_one_node),
    ("srun_on_two_nodes_makes_a_context_of_two_nodes", srun_on_two_nodes),
    ("ranks_dealt_out_in_turn_are_counted_per_node", ranks_dealt_out_in_turn),
    ("mpirun_in_an_allocation_of_two_nodes_makes_equal_contexts", mpirun_in_an_allocation),
    ("two_jobs_on_the_same_nodes_do_not_meet", two_jobs_at_once),
    ("two_steps_at_once_in_one_allocation_do_not_meet", two_steps_at_once),
];

fn srun_on_one_node() -> Result<()> {
    let slurm = slurm("one", Options::default())?;
    for ranks in [1, 2, 3] {
        let job = slurm.srun(1, ranks, program("facts")?).option("--cpu-bind=none");
        let found = facts::of(&job.run()?)?;
        consistent(&found, &[ranks])?;
        launched_by_srun(&found, true)?;
    }
    left_clean(&slurm)?;
    slurm.down()
}

fn srun_on_two_nodes() -> Result<()> {
    let slurm = slurm("two", Options::default())?;
    for shape in [[2, 2], [2, 1], [1, 1]] {
        let ranks = shape.iter().sum();
        let job = slurm.srun(2, ranks, program("facts")?).option("--ntasks-per-node=2");
        let found = facts::of(&job.option("--cpu-bind=none").run()?)?;
        consistent(&found, &shape)?;
        launched_by_srun(&found, true)?;
    }
    left_clean(&slurm)?;
    slurm.down()
}

fn ranks_dealt_out_in_turn() -> Result<()> {
    let slurm = slurm("turn", Options::default())?;
    let job = slurm.srun(2, 4, program("facts")?).option("--ntasks-per-node=2");
    let job = job.option("--distribution=cyclic").option("--cpu-bind=none");
    let found = facts::of(&job.run()?)?;
    consistent(&found, &[2, 2])?;
    for (rank, facts) in found.iter().enumerate() {
        promised!(facts.number("id")? == rank / 2, facts);
    }
    left_clean(&slurm)?;
    slurm.down()
}

fn mpirun_in_an_allocation() -> Result<()> {
    let slurm = slurm("salloc", Options::default())?;
    let mut salloc = slurm.command("salloc");
    salloc.args(["--quiet", "--nodes=2", "--ntasks=4", "--ntasks-per-node=2"]);
    // mpirun starts its own daemons with srun.
    salloc.args(["mpirun", "--bind-to", "none", "--mca", "btl", "self,vader,tcp"]);
    salloc.arg(program("facts")?);
    salloc.env("OMPI_ALLOW_RUN_AS_ROOT", "1").env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1");
    salloc.env("OMPI_MCA_btl_vader_single_copy_mechanism", "none");
    let running = Running::start(&mut salloc, "mpirun in an allocation", LIMIT)?;
    let found = facts::of(&running.finish()?)?;
    consistent(&found, &[2, 2])?;
    launched_by_srun(&found, false)?;
    left_clean(&slurm)?;
    slurm.down()
}

fn two_jobs_at_once() -> Result<()> {
    let slurm = slurm("jobs", Options::default())?;
    let job = || -> Result<_> {
        let job = slurm.srun(2, 4, program("facts")?).option("--ntasks-per-node=2");
        Ok(job.option("--cpu-bind=none"))
    };
    let both = [job()?.start()?, job()?.start()?];
    for running in both {
        consistent(&facts::of(&running.finish()?)?, &[2, 2])?;
    }
    left_clean(&slurm)?;
    slurm.down()
}

fn two_steps_at_once() -> Result<()> {
    let slurm = slurm("steps", Options::default())?;
    let facts = program("facts")?;
    let folder = slurm.hosts().front().path("/run/tmp");
    let step = |name| {
        let options = "--exact --nodes=2 --ntasks=4 --ntasks-per-node=2 --cpu-bind=none";
        format!("srun {options} --output=/run/tmp/{name} {}", facts.display())
    };
    let script = format!("{} & {} && wait $!", step("first"), step("second"));
    let mut salloc = slurm.command("salloc");
    salloc.args(["--quiet", "--nodes=2", "--ntasks=8", "--ntasks-per-node=4", "sh", "-c", &script]);
    let outcome = Running::start(&mut salloc, "two steps at once", LIMIT)?.finish()?;
    outcome.expect_success()?;
    for name in ["first", "second"] {
        let file = folder.join(name);
        let found = facts::in_text(&std::fs::read_to_string(&file)?)?;
        consistent(&found, &[2, 2])?;
        std::fs::remove_file(file)?;
    }
    left_clean(&slurm)?;
    slurm.down()
}

const LIMIT: Duration = Duration::from_secs(60);

/// Checks that the explanation names the launcher of the ranks, which chose their masks.
fn launched_by_srun(ranks: &[Facts], expected: bool) -> Result<()> {
    for facts in ranks {
        promised!(facts.holds("srun")? == expected, facts);
    }
    Ok(())
}

pub fn left_clean(slurm: &quo_hosts::slurm::Slurm) -> Result<()> {
    let left = slurm.leftovers()?;
    ensure!(left.is_empty(), "left behind:\n{}\n{}", left.join("\n"), slurm.logs());
    Ok(())
}
