//! Check that the launcher and MPI agree on the number of ranks.
//!
//! A program that another MPI's launcher starts runs as many times as was asked for, and each copy
//! believes it is alone.

/// The variable by which a launcher tells the size of the job, and the launcher.
const SIZES: [(&str, &str); 6] = [
    ("OMPI_COMM_WORLD_SIZE", "mpirun of Open MPI"),
    ("PMI_SIZE", "mpiexec of MPICH or Intel MPI"),
    ("MV2_COMM_WORLD_SIZE", "mpirun_rsh of MVAPICH"),
    ("MPI_LOCALNRANKS", "mpiexec of MPICH or Intel MPI"),
    ("PALS_NRANKS", "mpiexec of PALS"),
    // Of the step that srun starts. A batch script has the size of the job around it, and may well
    // run a program alone.
    ("SLURM_STEP_NUM_TASKS", "srun"),
];

/// Names the launcher of this process, as far as its environment says.
#[must_use]
pub fn launcher() -> Option<&'static str> {
    SIZES.iter().find(|(name, ..)| std::env::var_os(name).is_some()).map(|&(_, launcher)| launcher)
}

/// Only inside a step is the process one that srun started.
const STEP: &str = "SLURM_STEP_ID";

/// A sentence for the user when MPI has one rank though a launcher started several.
///
/// A launcher that says one agrees with MPI, whatever those around it say; a number of a rank above
/// zero belongs to a job of several.
pub(crate) fn mismatch(
    world: usize,
    mpi: &str,
    variable: impl Fn(&str) -> Option<String>,
) -> Option<String> {
    if world != 1 {
        return None;
    }
    let number = |name: &str| variable(name)?.trim().parse::<u64>().ok();
    let said = SIZES.iter().filter_map(|&(name, launcher)| {
        let inside = name != "SLURM_STEP_NUM_TASKS" || variable(STEP).is_some();
        Some((number(name).filter(|_| inside)?, launcher, name))
    });
    let said: Vec<_> = said.filter(|&(size, ..)| size > 0).collect();
    if said.iter().any(|&(size, ..)| size == 1) {
        return None;
    }
    let advice =
        "every process runs alone; start it with the launcher of its own MPI, unless that is meant";
    if let Some((size, launcher, name)) = said.first() {
        return Some(format!(
            "{mpi} sees 1 rank, but {launcher} started {size} ({name}): {advice}"
        ));
    }
    let rank = number("PMIX_RANK").filter(|&rank| rank > 0)?;
    Some(format!(
        "{mpi} sees 1 rank, but a PMIx launcher calls it rank {rank} (PMIX_RANK): {advice}"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(world: usize, variables: &[(&str, &str)]) -> Option<String> {
        let value = |name: &str| {
            let found = variables.iter().find(|(known, _)| *known == name);
            found.map(|(_, value)| (*value).to_owned())
        };
        mismatch(world, "MPICH 5.0.2", value)
    }

    #[test]
    fn launcher_of_several_beside_singleton_mpi_is_reported() {
        for (variables, part) in [
            (&[("OMPI_COMM_WORLD_SIZE", "4")][..], "mpirun of Open MPI started 4"),
            (&[("PMI_SIZE", "3"), ("PMI_RANK", "0")], "mpiexec of MPICH or Intel MPI started 3"),
            (&[("SLURM_STEP_ID", "0"), ("SLURM_STEP_NUM_TASKS", "8")], "srun started 8"),
            (&[("PMIX_RANK", "2")], "rank 2"),
        ] {
            let text = told(1, variables).unwrap();
            assert!(text.contains(part) && text.contains("MPICH 5.0.2 sees 1"), "{text}");
        }
    }

    #[test]
    fn nobody_is_alarmed_without_cause() {
        for (world, variables) in [
            // As launched.
            (4, &[("OMPI_COMM_WORLD_SIZE", "4")][..]),
            (1, &[]),
            (1, &[("OMPI_COMM_WORLD_SIZE", "1"), ("PMIX_RANK", "0")]),
            // Alone in a batch script of a larger job, whose variables say nothing of this process.
            (1, &[("SLURM_NTASKS", "16"), ("SLURM_PROCID", "0"), ("SLURM_JOB_ID", "7")]),
            (1, &[("SLURM_NTASKS", "16"), ("SLURM_STEP_NUM_TASKS", "16")]),
            // One rank by its own launcher, inside a step of several.
            (
                1,
                &[
                    ("OMPI_COMM_WORLD_SIZE", "1"),
                    ("SLURM_STEP_ID", "0"),
                    ("SLURM_STEP_NUM_TASKS", "4"),
                ],
            ),
            (1, &[("PMI_SIZE", "many"), ("PMIX_RANK", "x")]),
        ] {
            assert_eq!(told(world, variables), None, "{variables:?}");
        }
    }
}
