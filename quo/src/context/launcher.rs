//! Launcher that started this process, detected from its environment.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Program that started the rank, and so chose its first binding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Launcher {
    /// Open MPI's `mpirun`.
    OpenMpi,
    /// A launcher of the MPICH family (Hydra).
    Hydra,
    /// Slurm's `srun`.
    Slurm,
    /// PRRTE or another PMIx launcher.
    Pmix,
    /// No known launcher.
    Unknown,
}

impl Launcher {
    /// Detects the launcher from the variables that launchers set in the environment.
    #[must_use]
    pub fn detect() -> Self {
        Self::from_signs(|name| std::env::var_os(name).is_some())
    }

    fn from_signs(has: impl Fn(&str) -> bool) -> Self {
        if has("OMPI_COMM_WORLD_RANK") {
            Self::OpenMpi
        } else if has("PMI_RANK") && has("HYDI_CONTROL_FD") || has("HYDRA_LAUNCHER") {
            Self::Hydra
        } else if has("SLURM_PROCID") {
            Self::Slurm
        } else if has("PMI_RANK") {
            Self::Hydra
        } else if has("PMIX_RANK") {
            Self::Pmix
        } else {
            Self::Unknown
        }
    }
}

impl fmt::Display for Launcher {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::OpenMpi => "mpirun (Open MPI)",
            Self::Hydra => "mpiexec (Hydra)",
            Self::Slurm => "srun (Slurm)",
            Self::Pmix => "a PMIx launcher",
            Self::Unknown => "the parent process",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mpi_launcher_inside_a_slurm_job_is_recognised() {
        let signs = ["SLURM_PROCID", "OMPI_COMM_WORLD_RANK", "PMIX_RANK"];
        assert_eq!(Launcher::from_signs(|name| signs.contains(&name)), Launcher::OpenMpi);
        assert_eq!(Launcher::from_signs(|name| name == "SLURM_PROCID"), Launcher::Slurm);
        assert_eq!(Launcher::from_signs(|_| false), Launcher::Unknown);
    }
}
