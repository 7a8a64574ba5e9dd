//! What this process's MPI offers for resizing a world.

use quo_mpi::communicator::ThreadLevel;
use quo_mpi::{Family, Identity};

use crate::link::address_families;
use crate::spawn::slot_capacity::SlotCapacity;

/// Way in which spawned processes join the running ones.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Join {
    /// Through a port that rank 0 opens.
    Port,
    /// Over the intercommunicator to the spawning process: if ports need a transport that is
    /// missing.
    Bridge,
}

/// How a world can grow and shrink on this MPI, and why: determined when the world is made.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct BackEnd {
    /// The MPI with its version.
    pub mpi: String,
    /// Name of the launcher, if known.
    pub launcher: Option<&'static str>,
    /// MPI's thread level.
    pub threads: ThreadLevel,
    /// Number of processes that the launcher has room for, if it reports one: `MPI_UNIVERSE_SIZE`
    /// without slots that no host of the job has.
    pub slots: Option<usize>,
    /// Way in which processes spawned at run time join; the reason if none can be spawned. Launched
    /// processes that are no ranks sleep in either case.
    pub spawned: Result<Join, String>,
    /// Advice on a change of the launch, with the reason.
    pub advice: Option<&'static str>,
    /// True if the launcher may have more slots.
    pub(crate) has_more_slots: bool,
}

/// Seen with PMIx 4.2.
const SHARED_STORE: &str = "launch it with PMIX_MCA_gds=hash in the environment of mpirun and of its daemons on other hosts: with PMIx's shared store, \
    which is in use, each start leaves mappings in the ranks";

/// PMIx stores of the launcher's daemon on this host, which spawned processes inherit. A rank may
/// be limited to fewer (`PMIX_MCA_gds`); mpirun passes that on to launched processes, but not to
/// spawned ones.
const STORES: &str = "PMIX_GDS_MODULE";

/// Intel's `MPI_Comm_spawn` crashes without this variable.
const INTEL_SPAWN: &str = "I_MPI_SPAWN";

impl BackEnd {
    /// Chooses the back end by the known properties of the MPI.
    pub(crate) fn choose(
        mpi: &Identity,
        launcher: Option<&'static str>,
        threads: ThreadLevel,
        room: Option<SlotCapacity>,
    ) -> Self {
        let join = match (mpi.family(), mpi.major()) {
            (Family::OpenMpi, Some(4..)) => Ok(Join::Port),
            (Family::Mpich, Some(5..)) => Ok(Join::Bridge),
            (Family::Intel, _) if is_on(&std::env::var(INTEL_SPAWN).unwrap_or_default()) => {
                Ok(Join::Bridge)
            }
            (Family::Intel, _) => {
                Err(format!("{mpi} starts processes only with {INTEL_SPAWN}=on around mpirun"))
            }
            _ => Err(format!("{mpi} is not known to start processes that can join")),
        };
        let spawned = match join {
            Ok(_) if threads != ThreadLevel::Multiple => Err(
                "processes are started by a thread of their own, which needs MPI_THREAD_MULTIPLE"
                    .to_owned(),
            ),
            Ok(_) if launcher.is_none() => {
                Err("no launcher is known that could start processes".to_owned())
            }
            join => join,
        };
        let stores = std::env::var(STORES).unwrap_or_default();
        let is_open_mpi_4 = (mpi.family(), mpi.major()) == (Family::OpenMpi, Some(4));
        let is_shared = spawned.is_ok() && is_open_mpi_4 && is_shared(&stores);
        let families = address_families::advice(mpi).filter(|_| spawned.is_ok());
        let advice = families.or(is_shared.then_some(SHARED_STORE));
        let slots = room.map(SlotCapacity::sure);
        let has_more_slots = matches!(room, Some(SlotCapacity::AtLeast(_)));
        Self { mpi: mpi.to_string(), launcher, threads, slots, spawned, advice, has_more_slots }
    }
}

/// Returns true if one of these stores uses memory shared between processes.
fn is_shared(stores: &str) -> bool {
    stores.split(',').any(|name| name.trim().starts_with("ds"))
}

/// Returns true if the value of an Intel MPI variable means "on".
fn is_on(value: &str) -> bool {
    ["on", "1", "yes", "enable", "true"].iter().any(|yes| value.eq_ignore_ascii_case(yes))
}

impl std::fmt::Display for BackEnd {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            out,
            "{}, started by {}; parked ranks",
            self.mpi,
            self.launcher.unwrap_or("an unknown launcher")
        )?;
        match &self.spawned {
            Ok(Join::Port) => write!(out, " and spawned ones, which join at a port"),
            Ok(Join::Bridge) => write!(out, " and spawned ones, which join over a bridge"),
            Err(reason) => write!(out, " only: {reason}"),
        }?;
        self.advice.map_or(Ok(()), |advice| write!(out, "; {advice}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_store_in_shared_memory_is_advised_against() {
        for (stores, shared) in [
            ("ds21,ds12,hash", true),
            ("hash,ds21", true),
            ("ds12", true),
            ("hash", false),
            ("shmem2,hash", false),
            ("", false),
        ] {
            assert_eq!(is_shared(stores), shared, "{stores}");
        }
    }

    #[test]
    fn intel_mpi_can_be_told_to_spawn_in_several_ways() {
        for (value, on) in [("on", true), ("1", true), ("Yes", true), ("off", false), ("", false)] {
            assert_eq!(is_on(value), on, "{value}");
        }
    }

    #[test]
    fn advice_stands_behind_what_was_found() {
        let found = |advice| {
            let mpi = "Open MPI 4.1.4".to_owned();
            let threads = ThreadLevel::Multiple;
            let spawned = Ok(Join::Port);
            let (launcher, slots) = (Some("mpirun"), None);
            BackEnd { mpi, launcher, threads, slots, spawned, advice, has_more_slots: false }
        };
        let plain = found(None).to_string();
        assert!(plain.ends_with("which join at a port"), "{plain}");
        let advised = found(Some(SHARED_STORE)).to_string();
        assert!(
            advised.starts_with(&format!("{plain}; launch it with PMIX_MCA_gds=hash")),
            "{advised}"
        );
    }
}
