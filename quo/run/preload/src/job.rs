//! Ranks of one node that belong together, according to variables of the launcher and `quo-run`.

use std::env;

/// Place of this rank among those of its node.
#[derive(Debug, PartialEq, Eq)]
pub struct Place {
    /// Hexadecimal digits that only the ranks of this job on this node share.
    pub secret: String,
    /// Number of this rank on its node.
    pub rank: usize,
    /// Number of ranks of the job on this node.
    pub size: usize,
}

const RANK: [&str; 3] = ["OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID", "SLURM_LOCALID"];
const SIZE: [&str; 2] = ["OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS"];
/// Variables that distinguish jobs of one `quo-run`.
const JOB: [&str; 5] =
    ["PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid", "PMI_JOBID", "SLURM_JOB_ID", "SLURM_STEP_ID"];

impl Place {
    /// Reads this rank's place; `None` for a process that is not a rank or was not started by
    /// `quo-run`.
    pub fn read() -> Option<Self> {
        Self::from(|name| env::var(name).ok())
    }

    fn from(value: impl Fn(&str) -> Option<String>) -> Option<Self> {
        let number = |names: &[&str]| names.iter().find_map(|name| value(name)?.parse().ok());
        let job = value("QUO_RUN_JOB")?;
        let rank = number(&RANK)?;
        let size = number(&SIZE).or_else(|| of_slurm(&value("SLURM_STEP_TASKS_PER_NODE")?))?;
        if rank >= size {
            return None;
        }
        let mut text = job;
        for name in JOB {
            text.push('\n');
            text.push_str(&value(name).unwrap_or_default());
        }
        let secret = format!("{:016x}{:016x}", hash(&text, 0x51), hash(&text, 0xa7));
        Some(Self { secret, rank, size })
    }
}

/// Returns the ranks of each node, if all nodes have the same number: `4` or `4(x2)`.
fn of_slurm(text: &str) -> Option<usize> {
    let (number, rest) = text.split_once('(').unwrap_or((text, ""));
    (!text.contains(',') && (rest.is_empty() || rest.starts_with('x')))
        .then(|| number.parse().ok())?
}

/// FNV-1a from a seed, identical in every build.
fn hash(text: &str, seed: u64) -> u64 {
    let start = 0xcbf2_9ce4_8422_2325 ^ seed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let all = text
        .bytes()
        .fold(start, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3));
    all ^ all >> 29
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(variables: &[(&str, &str)]) -> Option<Place> {
        Place::from(|name| {
            let found = variables.iter().find(|(known, _)| *known == name);
            found.map(|(_, value)| (*value).to_owned())
        })
    }

    #[test]
    fn place_is_read_from_each_launcher() {
        let job = ("QUO_RUN_JOB", "5d");
        let of =
            |variables: &[(&str, &str)]| place(variables).map(|place| (place.rank, place.size));
        let open_mpi =
            [job, ("OMPI_COMM_WORLD_LOCAL_RANK", "1"), ("OMPI_COMM_WORLD_LOCAL_SIZE", "4")];
        assert_eq!(of(&open_mpi), Some((1, 4)));
        assert_eq!(of(&[job, ("MPI_LOCALRANKID", "0"), ("MPI_LOCALNRANKS", "2")]), Some((0, 2)));
        let slurm = [job, ("SLURM_LOCALID", "3"), ("SLURM_STEP_TASKS_PER_NODE", "4(x2)")];
        assert_eq!(of(&slurm), Some((3, 4)));
        assert_eq!(of(&[job]), None, "no rank");
        assert_eq!(of(&open_mpi[1..]), None, "not started by quo-run");
        assert_eq!(of(&[job, ("MPI_LOCALRANKID", "2"), ("MPI_LOCALNRANKS", "2")]), None);
        let uneven = [job, ("SLURM_LOCALID", "0"), ("SLURM_STEP_TASKS_PER_NODE", "4,2")];
        assert_eq!(of(&uneven), None);
    }

    #[test]
    fn jobs_have_different_secrets_and_ranks_one() {
        let secret = |job, space, rank| {
            let variables = [
                ("QUO_RUN_JOB", job),
                ("PMIX_NAMESPACE", space),
                ("MPI_LOCALRANKID", rank),
                ("MPI_LOCALNRANKS", "2"),
            ];
            place(&variables).map(|place| place.secret).unwrap_or_default()
        };
        assert_eq!(secret("5d", "1", "0"), secret("5d", "1", "1"));
        assert_eq!(secret("5d", "1", "0").len(), 32);
        assert_ne!(secret("5d", "1", "0"), secret("5d", "2", "0"));
        assert_ne!(secret("5d", "1", "0"), secret("5e", "1", "0"));
    }
}
