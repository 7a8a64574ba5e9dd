//! Ranks a context is made over: their identity and how they agree.
//!
//! A [`Group`] is everything that the runtime needs of a communication library: rank, size, a
//! gather of equal-sized records, a common yes or no, a barrier for comparison, and a split. There
//! are two implementations: MPI communicators, in the crate `quo-mpi`, and local processes without
//! MPI ([`local`]), for programs that fork and for tests. This crate itself does not use MPI.

pub mod local;

use std::any::Any;
use std::borrow::Cow;
use std::fmt;
use std::time::{Duration, Instant};

pub use local::LocalGroup;

/// Set of processes, each of which knows its rank and can exchange records with all others.
///
/// Calls marked *collective* are made by every rank of the group in the same order.
pub trait Group: Send + Sync + fmt::Debug + 'static {
    /// Returns this process's rank, from 0. Local.
    fn rank(&self) -> usize;

    /// Returns the number of ranks. Local.
    fn size(&self) -> usize;

    /// Checks that the group can still be used. Local.
    ///
    /// # Errors
    /// [`GroupError::NotInitialized`] and [`GroupError::Finalized`] if MPI is not running.
    fn check(&self) -> Result<(), GroupError> {
        Ok(())
    }

    /// Gathers one record of the same length from every rank on every rank; the records are
    /// concatenated in rank order. Collective.
    ///
    /// # Errors
    /// [`GroupError::Dead`] and [`GroupError::Late`] as `limits` allow, otherwise the library's
    /// own.
    fn allgather(&self, mine: &[u8], limits: &WaitLimits<'_>) -> Result<Vec<u8>, GroupError>;

    /// Returns true on every rank if `mine` is true on every rank. Collective.
    ///
    /// # Errors
    /// As [`allgather`](Self::allgather).
    fn all(&self, mine: bool, limits: &WaitLimits<'_>) -> Result<bool, GroupError> {
        Ok(self.allgather(&[u8::from(mine)], limits)?.iter().all(|&one| one == 1))
    }

    /// Gathers a text of any length from every rank on rank 0; the others get `None`. Collective.
    ///
    /// # Errors
    /// As [`allgather`](Self::allgather).
    fn gather(
        &self,
        mine: &[u8],
        limits: &WaitLimits<'_>,
    ) -> Result<Option<Vec<Vec<u8>>>, GroupError> {
        let all = allgather_bytes(self, mine, limits)?;
        Ok((self.rank() == 0).then_some(all))
    }

    /// Waits for all ranks in the communication library's own way. Collective.
    ///
    /// # Errors
    /// The library's own.
    fn barrier(&self) -> Result<(), GroupError>;

    /// Returns the group of the ranks that pass the same colour, ordered by `key` and then by rank;
    /// no group for a rank without a colour. Collective.
    ///
    /// # Errors
    /// The library's own.
    fn split(&self, colour: Option<u32>, key: usize) -> Result<Option<Box<dyn Group>>, GroupError>;

    /// Returns a value that separates ranks as if they were on different nodes: ranks with
    /// different values never share a node. Zero unless a test machine is simulated. Local.
    fn node_hint(&self) -> u64 {
        0
    }

    /// Returns the tag of the world the ranks belong to, if ranks can join and leave: contexts over
    /// groups of one tag are [found](crate::Context::registered) and adapted together. The same on
    /// all ranks; zero for a group whose ranks never change. Local.
    fn tag(&self) -> u64 {
        0
    }

    /// Returns a warning for the user about the start of the ranks, if there is one. Local.
    fn warning(&self) -> Option<String> {
        None
    }

    /// Returns a warning that must not wait until the user asks: it goes to stderr when a context
    /// is created. One rank returns it for all ranks concerned. Local.
    fn alarm(&self) -> Option<String> {
        None
    }

    /// Returns the implementation, for callers that know which one they passed.
    fn as_any(&self) -> &dyn Any;

    /// Like [`as_any`](Self::as_any), taking ownership.
    fn into_any(self: Box<Self>) -> Box<dyn Any>;
}

/// Limits of a wait for other ranks: a deadline, and a check that may end it.
pub struct WaitLimits<'a> {
    /// Time at which the wait ends with [`GroupError::Late`]; `None` for no limit.
    pub deadline: Option<Instant>,
    /// Check that is called periodically during the wait; its error ends the wait.
    pub check_peers: &'a dyn Fn() -> Result<(), GroupError>,
}

impl WaitLimits<'_> {
    /// Waits for at most `limit`, without further conditions.
    #[must_use]
    pub fn for_at_most(limit: Duration) -> Self {
        Self { deadline: Instant::now().checked_add(limit), check_peers: &|| Ok(()) }
    }

    /// Checks that the wait may continue.
    ///
    /// # Errors
    /// [`GroupError::Late`] past the deadline, and the errors of the check.
    pub fn check(&self, call: &'static str) -> Result<(), GroupError> {
        (self.check_peers)()?;
        match self.deadline {
            Some(deadline) if Instant::now() >= deadline => Err(GroupError::Late { call }),
            _ => Ok(()),
        }
    }
}

/// Reason why a collective operation of a group failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum GroupError {
    /// MPI has not been initialised.
    #[error("MPI has not been initialised: call MPI_Init first")]
    NotInitialized,
    /// MPI has been finalised.
    #[error("MPI has been finalised: contexts are used and freed before MPI_Finalize")]
    Finalized,
    /// The process runs another MPI than the one the library was compiled against.
    #[error(
        "this library was built for {built_for}, but the process runs {running}: take a library that \
         was built for it (MPICC names the compiler of an MPI to build for)"
    )]
    OtherMpi {
        /// The MPI it was compiled against.
        built_for: String,
        /// The MPI of the process.
        running: String,
    },
    /// The communicator is null or of a kind without common ranks.
    #[error("{call}: {reason}")]
    Unsuitable {
        /// The call.
        call: &'static str,
        /// The fault of the communicator.
        reason: Cow<'static, str>,
    },
    /// MPI returned an error.
    #[error("{call}: {text}")]
    Mpi {
        /// The MPI function.
        call: &'static str,
        /// The text MPI gives for its code.
        text: String,
    },
    /// Ranks ended before they took part.
    #[error("{call}: {} ended without taking part", Ranks(ranks))]
    Dead {
        /// The call.
        call: &'static str,
        /// Their ranks in the group.
        ranks: Vec<usize>,
    },
    /// The other ranks did not arrive in time.
    #[error("{call}: not every rank took part in time")]
    Late {
        /// The call.
        call: &'static str,
    },
    /// Ranks sleep in a barrier or phase of the changed object, and will not take part.
    #[error(
        "{call}: {waiting} of the ranks of this node wait in a barrier or sleep in a phase of the \
         context and do not take part"
    )]
    Quiesced {
        /// The call.
        call: &'static str,
        /// Number of waiting ranks.
        waiting: usize,
    },
    /// The shared segment under a local group failed.
    #[error("{call}: {text}")]
    Node {
        /// The call.
        call: &'static str,
        /// The cause.
        text: String,
    },
}

/// Formats ranks for a sentence: `rank 3`, `ranks 1, 3`.
pub(crate) struct Ranks<'a>(pub &'a [usize]);

impl fmt::Display for Ranks<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}", if self.0.len() == 1 { "rank " } else { "ranks " })?;
        for (index, rank) in self.0.iter().enumerate() {
            write!(out, "{}{rank}", if index == 0 { "" } else { ", " })?;
        }
        Ok(())
    }
}

/// Gathers texts of any length: lengths first, then the texts padded to the longest. Collective.
///
/// # Errors
/// As [`Group::allgather`].
pub fn allgather_bytes(
    group: &(impl Group + ?Sized),
    mine: &[u8],
    limits: &WaitLimits<'_>,
) -> Result<Vec<Vec<u8>>, GroupError> {
    let lengths = group.allgather(&(mine.len() as u64).to_ne_bytes(), limits)?;
    let lengths: Vec<usize> = lengths
        .chunks_exact(size_of::<u64>())
        .map(|bytes| bytes.try_into().map_or(0, u64::from_ne_bytes) as usize)
        .collect();
    let longest = lengths.iter().copied().max().unwrap_or(0);
    if longest == 0 {
        return Ok(vec![Vec::new(); lengths.len()]);
    }
    let mut padded = mine.to_vec();
    padded.resize(longest, 0);
    let all = group.allgather(&padded, limits)?;
    Ok(all
        .chunks_exact(longest)
        .zip(lengths)
        .map(|(bytes, length)| bytes[..length.min(longest)].to_vec())
        .collect())
}
