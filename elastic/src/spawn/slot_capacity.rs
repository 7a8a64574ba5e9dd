//! Number of processes that the launcher has slots for.
//!
//! `MPI_UNIVERSE_SIZE` gives it, but with Open MPI 4 it includes the slots of `mpirun`'s own node
//! even if the job has no host there and cannot spawn on it. Ranks have no way to learn how many
//! those are.

use quo_mpi::{Family, Identity};

/// A list of hosts with their slots, for programs that list none themselves: `n1:8,n2:8`.
const HOSTS: &str = "QUO_ELASTIC_HOSTS";

/// Variable with the address of `mpirun` for the daemon of this node: the same on the node of
/// `mpirun`.
const LAUNCHER: &str = "OMPI_MCA_orte_hnp_uri";
const DAEMON: &str = "OMPI_MCA_orte_local_daemon_uri";

/// Number of the job's nodes, including that of `mpirun`.
const DAEMONS: &str = "OMPI_MCA_ess_base_num_procs";

/// Variables that show that a resource manager allocated the job's nodes: then `MPI_UNIVERSE_SIZE`
/// counts only those.
const ALLOCATIONS: [&str; 5] =
    ["SLURM_JOB_ID", "PBS_JOBID", "LSB_JOBID", "PE_HOSTFILE", "COBALT_JOBID"];

/// Slots that the launcher has for all processes of a job.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) enum SlotCapacity {
    /// This number.
    Exactly(usize),
    /// At least this number, from the listed hosts and the nodes of ranks.
    AtLeast(usize),
}

/// Facts that each launched process reports.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct LaunchEnvironment {
    /// True if the host is a node of the job, but not that of the launcher.
    is_apart: bool,
    is_allocated: bool,
    /// Number of the job's nodes, including that of the launcher.
    daemons: usize,
    /// Slots of hosts that the program or the user has listed.
    listed: usize,
}

impl LaunchEnvironment {
    /// Returns the facts of this process; `listed` is the total of the slots that the program or
    /// user lists.
    pub(crate) fn own(listed: usize) -> Self {
        Self::read(listed, |name| std::env::var(name).ok())
    }

    fn read(listed: usize, variable: impl Fn(&str) -> Option<String>) -> Self {
        let places = variable(LAUNCHER).zip(variable(DAEMON));
        Self {
            is_apart: places.is_some_and(|(launcher, daemon)| launcher != daemon),
            is_allocated: is_allocated(&variable),
            daemons: variable(DAEMONS).and_then(|number| number.parse().ok()).unwrap_or(0),
            listed,
        }
    }

    /// Returns true if a daemon of the launcher started the process, on another node than its own.
    pub(crate) fn is_apart(&self) -> bool {
        self.is_apart
    }

    pub(crate) fn to_bytes(self) -> [u8; 32] {
        let Self { is_apart, is_allocated, daemons, listed } = self;
        let words = [u64::from(is_apart), u64::from(is_allocated), daemons as u64, listed as u64];
        let mut bytes = [0; 32];
        for (to, word) in bytes.chunks_exact_mut(8).zip(words) {
            to.copy_from_slice(&word.to_ne_bytes());
        }
        bytes
    }

    pub(crate) fn from_bytes(bytes: &[u8]) -> Self {
        let mut words =
            bytes.chunks_exact(8).map(|word| word.try_into().map_or(0, u64::from_ne_bytes));
        let mut next = || words.next().unwrap_or(0) as usize;
        Self { is_apart: next() != 0, is_allocated: next() != 0, daemons: next(), listed: next() }
    }
}

impl SlotCapacity {
    /// Computes the room of a job from its processes' facts; `None` if the launcher gives no
    /// number.
    pub(crate) fn of(
        mpi: &Identity,
        universe: Option<usize>,
        said: &[LaunchEnvironment],
        nodes: usize,
    ) -> Option<Self> {
        let counts_its_own = (mpi.family(), mpi.major()) == (Family::OpenMpi, Some(4));
        universe.map(|universe| {
            if counts_its_own { among(universe, said, nodes) } else { Self::Exactly(universe) }
        })
    }

    /// Number of slots that certainly exist.
    pub(crate) fn sure(self) -> usize {
        match self {
            Self::Exactly(slots) | Self::AtLeast(slots) => slots,
        }
    }
}

/// Returns true if a resource manager has allocated the job's nodes, as its variables say.
pub(crate) fn is_allocated(variable: &impl Fn(&str) -> Option<String>) -> bool {
    ALLOCATIONS.iter().any(|name| variable(name).is_some())
}

/// Computes the slots when the launcher counts its own node's slots, too.
fn among(universe: usize, said: &[LaunchEnvironment], nodes: usize) -> SlotCapacity {
    let Some(first) = said.first() else { return SlotCapacity::Exactly(universe) };
    // The launcher's node is first among the job's nodes if the job has it, and then has ranks.
    if first.is_allocated || said.iter().any(|said| !said.is_apart) {
        return SlotCapacity::Exactly(universe);
    }
    // Every node of the job has a slot, even one without ranks.
    let empty = first.daemons.saturating_sub(1 + nodes);
    SlotCapacity::AtLeast((said.len() + empty).max(first.listed).min(universe))
}

/// The hosts and slots that the user lists in the environment.
///
/// # Errors
/// Describes the error in the list.
pub(crate) fn hosts() -> Result<Vec<(String, u32)>, String> {
    std::env::var(HOSTS).map_or_else(|_| Ok(Vec::new()), |list| parse(&list))
}

fn parse(list: &str) -> Result<Vec<(String, u32)>, String> {
    let host = |word: &str| {
        let (name, slots) = word.rsplit_once(':').unwrap_or((word, "1"));
        let slots = slots.parse().ok().filter(|_| !name.is_empty());
        let wrong = || format!("{HOSTS}={list:?}: {word:?} is not HOST:SLOTS");
        Ok((name.to_owned(), slots.ok_or_else(wrong)?))
    };
    list.split(',').map(|word| host(word.trim())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const APART: LaunchEnvironment =
        LaunchEnvironment { is_apart: true, is_allocated: false, daemons: 3, listed: 0 };

    #[test]
    fn slots_of_the_launchers_node_count_only_for_ranks_there() {
        // `mpirun -n 1 --host n1:1,n2:1` on a node with two cores.
        assert_eq!(among(4, &[APART], 1), SlotCapacity::AtLeast(2));
        assert_eq!(among(4, &[APART; 2], 2), SlotCapacity::AtLeast(2));
        // The launcher's node is one of the hosts.
        assert_eq!(among(4, &[LaunchEnvironment::default(), APART], 2), SlotCapacity::Exactly(4));
        let allocated = LaunchEnvironment { is_allocated: true, ..APART };
        assert_eq!(among(4, &[allocated], 1), SlotCapacity::Exactly(4));
    }

    #[test]
    fn listed_hosts_have_the_slots_that_are_said() {
        let listing = |listed| LaunchEnvironment { listed, ..APART };
        assert_eq!(among(18, &[listing(16)], 1), SlotCapacity::AtLeast(16));
        assert_eq!(among(18, &[listing(1)], 1), SlotCapacity::AtLeast(2), "an incomplete list");
        assert_eq!(among(18, &[listing(99)], 1), SlotCapacity::AtLeast(18));
        let right = [("n1".to_owned(), 8), ("10.0.0.2".to_owned(), 1)];
        assert_eq!(parse("n1:8, 10.0.0.2").unwrap(), right);
        for wrong in ["", "n1:x", "n1:8,", ":3"] {
            assert!(parse(wrong).unwrap_err().contains(HOSTS), "{wrong}");
        }
    }

    #[test]
    fn launchers_node_is_known_by_its_daemon() {
        let read = |daemon: &'static str| {
            let told = [(LAUNCHER, "7.0;tcp://10.0.0.9:1"), (DAEMON, daemon), (DAEMONS, "3")];
            LaunchEnvironment::read(5, |name| {
                let (_, value) = told.iter().find(|(known, _)| *known == name)?;
                Some((*value).to_owned())
            })
        };
        let apart = read("7.1;tcp://10.0.0.1:1");
        assert_eq!(apart, LaunchEnvironment { listed: 5, ..APART });
        assert_eq!(LaunchEnvironment::from_bytes(&apart.to_bytes()), apart);
        assert!(!read("7.0;tcp://10.0.0.9:1").is_apart);
        assert_eq!(LaunchEnvironment::read(0, |_| None), LaunchEnvironment::default());
    }
}
