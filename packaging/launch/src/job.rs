//! Information in a launcher's variables about the job that a process belongs to.

/// Variables in which launchers pass the size of the job, with the launcher.
const SIZES: [(&str, &str); 6] = [
    ("OMPI_COMM_WORLD_SIZE", "mpirun of Open MPI"),
    ("PMI_SIZE", "mpiexec of MPICH or Intel MPI"),
    ("MV2_COMM_WORLD_SIZE", "mpirun_rsh of MVAPICH"),
    ("MPI_LOCALNRANKS", "mpiexec of MPICH or Intel MPI"),
    ("PALS_NRANKS", "mpiexec of PALS"),
    // Of the step that srun starts. A batch script has the size of the surrounding job, and may run
    // a program alone.
    ("SLURM_STEP_NUM_TASKS", "srun"),
];

/// Variables in which launchers pass the rank.
pub const RANKS: [&str; 6] = [
    "OMPI_COMM_WORLD_RANK",
    "PMI_RANK",
    "MV2_COMM_WORLD_RANK",
    "PALS_RANKID",
    "PMIX_RANK",
    "SLURM_PROCID",
];

/// Only a process inside a step was started by srun.
const STEP: &str = "SLURM_STEP_ID";

/// A launcher that started this process as one of several.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Started {
    /// Number of processes; `None` if only a rank above zero shows that there are several.
    pub ranks: Option<u64>,
    /// Number of this process among them.
    pub rank: Option<u64>,
    /// The launcher.
    pub by: &'static str,
    /// The variable with this information.
    pub variable: &'static str,
}

impl Started {
    /// Reads the variables of this process. `None` for a process that runs alone.
    #[must_use]
    pub fn read() -> Option<Self> {
        Self::from(|name| std::env::var(name).ok())
    }

    /// Reads variables.
    ///
    /// A launcher that reports one process is right, whatever surrounding launchers report; a rank
    /// above zero belongs to a job of several.
    #[must_use]
    pub fn from(variable: impl Fn(&str) -> Option<String>) -> Option<Self> {
        let number = |name: &str| variable(name)?.trim().parse::<u64>().ok();
        let said = SIZES.iter().filter_map(|&(name, launcher)| {
            let inside = name != "SLURM_STEP_NUM_TASKS" || variable(STEP).is_some();
            Some((number(name).filter(|_| inside)?, launcher, name))
        });
        let said: Vec<_> = said.filter(|&(size, ..)| size > 0).collect();
        if said.iter().any(|&(size, ..)| size == 1) {
            return None;
        }
        let rank = RANKS.iter().find_map(|name| number(name));
        if let Some(&(size, by, variable)) = said.first() {
            return Some(Self { ranks: Some(size), rank, by, variable });
        }
        let rank = number("PMIX_RANK").filter(|&rank| rank > 0)?;
        let by = "a PMIx launcher";
        Some(Self { ranks: None, rank: Some(rank), by, variable: "PMIX_RANK" })
    }

    /// Returns true for the one process that reports for all.
    #[must_use]
    pub fn is_first(&self) -> bool {
        self.rank.is_none_or(|rank| rank == 0)
    }

    /// Returns the number of processes as it is passed to a launcher.
    #[must_use]
    pub fn number(&self) -> String {
        self.ranks.map_or_else(|| "N".to_owned(), |ranks| ranks.to_string())
    }
}

/// Returns the name of the launcher of this process, if its environment identifies it.
#[must_use]
pub fn launcher() -> Option<&'static str> {
    SIZES.iter().find(|(name, ..)| std::env::var_os(name).is_some()).map(|&(_, launcher)| launcher)
}

/// Returns a message for the user if a launcher has started the command `tool`, which should start
/// the launcher; `reason` is the consequence. `None` for a process that runs alone, if the command
/// is a launcher, and on all ranks but one.
#[must_use]
pub fn wrong_side(
    started: Option<Started>,
    starts_a_launcher: bool,
    tool: &str,
    program: &str,
    reason: &str,
) -> Option<String> {
    let started = started.filter(|started| !starts_a_launcher && started.is_first())?;
    let number = started.number();
    let times = match started.ranks {
        Some(ranks) => format!("{ranks} times"),
        None => "several times".to_owned(),
    };
    let (by, variable) = (started.by, started.variable);
    let launcher = if by == "srun" { "srun" } else { "mpirun" };
    Some(format!(
        "{by} started this command {times} ({variable}): {reason}; put the launcher behind it: {tool} {launcher} -n {number} {program}"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(variables: &[(&str, &str)]) -> Option<Started> {
        Started::from(|name| {
            let found = variables.iter().find(|(known, _)| *known == name);
            found.map(|(_, value)| (*value).to_owned())
        })
    }

    #[test]
    fn launcher_of_several_is_recognised_with_rank() {
        for (variables, by, rank) in [
            (&[("OMPI_COMM_WORLD_SIZE", "4"), ("OMPI_COMM_WORLD_RANK", "3")][..], "Open MPI", 3),
            (&[("PMI_SIZE", "3"), ("PMI_RANK", "0")], "MPICH", 0),
            (
                &[("SLURM_STEP_ID", "0"), ("SLURM_STEP_NUM_TASKS", "8"), ("SLURM_PROCID", "7")],
                "srun",
                7,
            ),
            (&[("PMIX_RANK", "2")], "PMIx", 2),
        ] {
            let started = of(variables).unwrap();
            assert!(started.by.contains(by) && started.rank == Some(rank), "{started:?}");
            assert_eq!(started.is_first(), rank == 0);
        }
    }

    #[test]
    fn process_alone_has_no_launcher_of_several() {
        for variables in [
            &[][..],
            &[("OMPI_COMM_WORLD_SIZE", "1"), ("PMIX_RANK", "0")],
            // Alone in a batch script of a larger job, whose variables do not describe this
            // process.
            &[("SLURM_NTASKS", "16"), ("SLURM_PROCID", "0"), ("SLURM_JOB_ID", "7")],
            &[("SLURM_NTASKS", "16"), ("SLURM_STEP_NUM_TASKS", "16")],
            // One rank by its own launcher, inside a step of several.
            &[("OMPI_COMM_WORLD_SIZE", "1"), ("SLURM_STEP_ID", "0"), ("SLURM_STEP_NUM_TASKS", "4")],
            &[("PMI_SIZE", "many"), ("PMIX_RANK", "x")],
        ] {
            assert_eq!(of(variables), None, "{variables:?}");
        }
    }

    #[test]
    fn tool_behind_the_launcher_is_told_the_right_line_once() {
        let started = |rank: &str| of(&[("PMI_SIZE", "4"), ("PMI_RANK", rank)]);
        let told = |started, launcher| wrong_side(started, launcher, "quo-run", "./app", "x");
        let text = told(started("0"), false).unwrap();
        assert!(text.ends_with("put the launcher behind it: quo-run mpirun -n 4 ./app"), "{text}");
        assert!(text.contains("started this command 4 times (PMI_SIZE)"), "{text}");
        assert_eq!(told(started("1"), false), None);
        // A launch inside a launch, and a process alone.
        assert_eq!(told(started("0"), true), None);
        assert_eq!(told(None, false), None);
    }
}
