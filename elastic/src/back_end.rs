//! What the MPI of this process can do for a world that changes.

use quo_mpi::members::ThreadLevel;
use quo_mpi::{Family, Identity};

/// How processes that were started come to those who run.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Join {
    /// At a port that rank 0 opens.
    Port,
    /// Over the intercommunicator of who started them: where ports need a transport that is not there.
    Bridge,
}

/// With what a world grows and shrinks, and what it was chosen by: found out when the world is made.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct BackEnd {
    /// The MPI with its version.
    pub mpi: String,
    /// Who started the job, where that is known.
    pub launcher: Option<&'static str>,
    /// How MPI was initialised.
    pub threads: ThreadLevel,
    /// Processes that the launcher has room for, where it says so.
    pub slots: Option<usize>,
    /// Whether processes can be started while the program runs, and how they join; or why not. Launched processes
    /// that are no ranks sleep in either case.
    pub spawned: Result<Join, String>,
}

impl BackEnd {
    /// From what is known of the MPI.
    pub(crate) fn choose(
        mpi: &Identity,
        launcher: Option<&'static str>,
        threads: ThreadLevel,
        slots: Option<usize>,
    ) -> Self {
        let join = match (mpi.family(), mpi.major()) {
            (Family::OpenMpi, Some(4..)) => Ok(Join::Port),
            (Family::Mpich, Some(5..)) => Ok(Join::Bridge),
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
        Self { mpi: mpi.to_string(), launcher, threads, slots, spawned }
    }
}

impl std::fmt::Display for BackEnd {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            out,
            "{}, started by {}; parked ranks",
            self.mpi,
            self.launcher.unwrap_or("nobody known")
        )?;
        match &self.spawned {
            Ok(Join::Port) => write!(out, " and spawned ones, which join at a port"),
            Ok(Join::Bridge) => write!(out, " and spawned ones, which join over a bridge"),
            Err(reason) => write!(out, " only: {reason}"),
        }
    }
}
