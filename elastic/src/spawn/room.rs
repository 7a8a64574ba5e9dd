//! Number of processes that the launcher has slots for.
//!
//! `MPI_UNIVERSE_SIZE` says so, but with Open MPI 4 it counts the slots of `mpirun`'s own node also where the job has no
//! host there, and nothing can be started on them. How many those are, nothing tells the ranks.

use quo_mpi::{Family, Identity};

/// A list of hosts with their slots, for programs that say none themselves: `n1:8,n2:8`.
const HOSTS: &str = "QUO_ELASTIC_HOSTS";

/// Variable with the address of `mpirun` for the daemon of this node: the same on the node of
/// `mpirun`.
const LAUNCHER: &str = "OMPI_MCA_orte_hnp_uri";
const DAEMON: &str = "OMPI_MCA_orte_local_daemon_uri";

/// The number of nodes of the job, with that of `mpirun`.
const DAEMONS: &str = "OMPI_MCA_ess_base_num_procs";

/// A resource manager has allocated the job's nodes: then only those are counted.
const ALLOCATIONS: [&str; 5] =
    ["SLURM_JOB_ID", "PBS_JOBID", "LSB_JOBID", "PE_HOSTFILE", "COBALT_JOBID"];

/// Slots that the launcher has for all processes of a job.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) enum Room {
    /// This number.
    Exactly(usize),
    /// This number, and perhaps more, by the listed hosts and by the places of ranks.
    AtLeast(usize),
}

/// Each launched process's facts.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Said {
    /// True if the host is a node of the job, but not that of the launcher.
    is_apart: bool,
    is_allocated: bool,
    /// The nodes of the job, with that of the launcher.
    daemons: usize,
    /// Slots of hosts that the program or the user has listed.
    listed: usize,
}

impl Said {
    /// Of this process, whose program or user lists hosts with so many slots in all.
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

impl Room {
    /// Of a job whose launched processes, on so many nodes, have said this; none where the launcher says no number.
    pub(crate) fn of(
        mpi: &Identity,
        universe: Option<usize>,
        said: &[Said],
        nodes: usize,
    ) -> Option<Self> {
        let counts_its_own = (mpi.family(), mpi.major()) == (Family::OpenMpi, Some(4));
        universe.map(|universe| {
            if counts_its_own { among(universe, said, nodes) } else { Self::Exactly(universe) }
        })
    }

    /// Number of slots for sure.
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

/// Slots among those that a launcher counts together with its own node's.
fn among(universe: usize, said: &[Said], nodes: usize) -> Room {
    let Some(first) = said.first() else { return Room::Exactly(universe) };
    // Its node comes first where the job has it, and then has ranks.
    if first.is_allocated || said.iter().any(|said| !said.is_apart) {
        return Room::Exactly(universe);
    }
    // Every node of the job has a slot, also one without ranks.
    let empty = first.daemons.saturating_sub(1 + nodes);
    Room::AtLeast((said.len() + empty).max(first.listed).min(universe))
}

/// The hosts and slots that the user lists in the environment.
///
/// # Errors
/// Names the fault of the list.
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

    const APART: Said = Said { is_apart: true, is_allocated: false, daemons: 3, listed: 0 };

    #[test]
    fn slots_of_the_launchers_node_count_only_for_ranks_there() {
        // `mpirun -n 1 --host n1:1,n2:1` on a node with two cores.
        assert_eq!(among(4, &[APART], 1), Room::AtLeast(2));
        assert_eq!(among(4, &[APART; 2], 2), Room::AtLeast(2));
        // It is one of the hosts.
        assert_eq!(among(4, &[Said::default(), APART], 2), Room::Exactly(4));
        let allocated = Said { is_allocated: true, ..APART };
        assert_eq!(among(4, &[allocated], 1), Room::Exactly(4));
    }

    #[test]
    fn listed_hosts_have_the_slots_that_are_said() {
        let listing = |listed| Said { listed, ..APART };
        assert_eq!(among(18, &[listing(16)], 1), Room::AtLeast(16));
        assert_eq!(among(18, &[listing(1)], 1), Room::AtLeast(2), "an incomplete list");
        assert_eq!(among(18, &[listing(99)], 1), Room::AtLeast(18));
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
            Said::read(5, |name| {
                let (_, value) = told.iter().find(|(known, _)| *known == name)?;
                Some((*value).to_owned())
            })
        };
        let apart = read("7.1;tcp://10.0.0.1:1");
        assert_eq!(apart, Said { listed: 5, ..APART });
        assert_eq!(Said::from_bytes(&apart.to_bytes()), apart);
        assert!(!read("7.0;tcp://10.0.0.9:1").is_apart);
        assert_eq!(Said::read(0, |_| None), Said::default());
    }
}
