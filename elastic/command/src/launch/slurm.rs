//! `quo-elastic launch --slurm`: options of a launcher that continues when nodes of Slurm are added and
//! returned.

use std::path::Path;

use anyhow::{Result, bail};
use elastic::manager::slurm::JOB_VARIABLE;

use super::{Launch, Mpi, Plan};

/// Makes the ranks use Slurm's manager, unless the program sets one.
const SLURM: &str = "QUO_ELASTIC_SLURM";

/// The command of this program that launchers take for a remote shell.
const AGENT: &str = "slurm-agent";

/// Words that Hydra passes to its remote shell.
const WORDS: &str = "HYDRA_LAUNCHER_EXTRA_ARGS";

/// What to do with an MPI that takes no new nodes.
const INSTEAD: &str =
    "take a job of all nodes and give --parked instead, or use Open MPI 4.1 or MPICH 5";

/// Returns the number of the job of Slurm, if nodes can be added to it.
///
/// # Errors
/// This is no job of Slurm, another option contradicts, or the MPI takes no new nodes.
pub(super) fn job(
    launch: &Launch,
    mpi: &Mpi,
    variable: &dyn Fn(&str) -> Option<String>,
) -> Result<String> {
    if !launch.hosts.is_empty() {
        bail!(
            "launch: --slurm uses the nodes of the job of Slurm, --hosts names others: leave one of them out"
        );
    }
    if launch.parked {
        bail!(
            "launch: with --parked all ranks are launched at once, so --slurm could start none on a new \
             node and return none: leave one of them out"
        );
    }
    if launch.restarts > 0 {
        bail!(
            "launch: --restarts starts a job on the nodes that it began with, and with --slurm it may have \
             returned some: leave --restarts out, and submit the job again; it continues from its checkpoint"
        );
    }
    if matches!(mpi, Mpi::Mpich { .. }) && variable(WORDS).is_some() {
        bail!("launch: --slurm needs {WORDS} for itself: unset it");
    }
    let number = variable(JOB_VARIABLE).filter(|text| text.parse::<u32>().is_ok());
    let Some(number) = number else {
        bail!(
            "launch: --slurm needs a job of Slurm, and {JOB_VARIABLE} has no number of one: run this command \
             in a script for sbatch, or under salloc"
        );
    };
    // Slurm sets it where it starts a process itself.
    let is_on_a_node = variable("SLURMD_NODENAME").is_some();
    let reason = match mpi {
        Mpi::Mpich { version: [..5, ..] } => "cannot start processes while the job runs",
        Mpi::Open { version: [4, ..] } if !is_on_a_node => bail!(
            "launch: --slurm: {} takes a new node only from its own node, and this is no node of job {number}: \
             run this command in a script for sbatch",
            mpi.name()
        ),
        Mpi::Open { version: [4, ..] } | Mpi::Mpich { .. } => return Ok(number),
        Mpi::Open { .. } => "takes no new nodes, and may end the job when a node is returned",
        Mpi::Intel => "is not known to take new nodes",
    };
    bail!("launch: --slurm: {} {reason}: {INSTEAD}", mpi.name());
}

/// Adds the options for an MPI that [`job`] has accepted; `own` is the path of this program.
///
/// # Errors
/// The launcher cannot be given this path.
pub(super) fn add(plan: &mut Plan, mpi: &Mpi, own: &Path) -> Result<()> {
    plan.variable(SLURM, "1");
    plan.because(format!(
        "{SLURM}=1: the world adds and returns nodes of Slurm, also if the program does not say so"
    ));
    match mpi {
        Mpi::Open { .. } => {
            let own = own.to_string_lossy();
            if own.contains([' ', ':']) {
                bail!(
                    "launch: --slurm: Open MPI cannot start {own}, a path with a space or a colon: install \
                     quo-elastic in another folder"
                );
            }
            plan.words(&["--enable-recovery", "--mca", "routed", "direct"]);
            plan.because(
                "--enable-recovery, routed direct: the job continues without the daemon of a returned node; \
                 a dead rank ends it by abort_on_death, and mpirun may end with 0 then",
            );
            plan.words(&["--mca", "plm", "rsh", "--mca", "plm_rsh_agent"]);
            plan.words(&[&format!("{own} {AGENT}")]);
            plan.because("plm rsh: daemons are started as steps of the job that holds their node");
            plan.because("Open MPI 4 takes one new node, once, while all ranks are on one node and always were");
        }
        Mpi::Mpich { .. } | Mpi::Intel => {
            plan.words(&["-launcher", "rsh", "-launcher-exec"]);
            plan.words.push(own.into());
            plan.variable(WORDS, AGENT);
            plan.because(format!(
                "-launcher rsh: daemons are started as steps of the job that holds their node, by \
                 quo-elastic {AGENT}; -launcher-exec takes no words, so that one is in a variable"
            ));
        }
    }
    Ok(())
}
