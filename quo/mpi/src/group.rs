//! Groups over MPI communicators.
//!
//! Works on a duplicate of the caller's communicator whose errors return, so neither the caller's
//! messages nor its error handler is affected. Waits are non-blocking collectives that are polled,
//! because a blocking one could not notice that a rank has died.
#![allow(unsafe_code)]

use std::any::Any;
use std::ffi::{c_int, c_void};
use std::time::Duration;

use quo::environment;
use quo::group::{Group, GroupError, WaitLimits};
use quo::node::ForkId;
use quo_launch::job::Started;

use crate::launched::LaunchedPeers;
use crate::operation::Operation;
use crate::process::library;
use crate::raw::succeed;
use crate::{Comm, is_running, is_usable, launch, raw, running};

/// Ranks of an MPI communicator.
///
/// Any thread level is sufficient if the calls of one group are not made from several threads at
/// once without `MPI_THREAD_MULTIPLE`.
#[derive(Debug)]
pub struct MpiGroup {
    comm: Comm,
    process: ForkId,
    rank: usize,
    size: usize,
    tag: u64,
    /// Processes behind the ranks, if the group was made over a communicator of the program.
    given: Option<LaunchedPeers>,
}

/// Returns the time to wait for missing ranks; the creation of a context reports an unusable
/// setting.
fn create_timeout() -> Duration {
    environment::seconds(&environment::CREATE_TIMEOUT)
        .ok()
        .flatten()
        .unwrap_or(environment::DEFAULT_CREATE_TIMEOUT)
}

impl MpiGroup {
    /// Creates a group over a communicator of the `mpi` crate. Collective over it.
    ///
    /// # Errors
    /// As [`MpiGroup::from_raw`].
    #[cfg(feature = "rsmpi")]
    pub fn new(communicator: &impl mpi::traits::Communicator) -> Result<Self, GroupError> {
        let handle = communicator.as_raw();
        // SAFETY: both sides are the same MPI's; the communicator is alive for the duration of the
        // call.
        unsafe { Self::from_raw(Comm::load((&raw const handle).cast())) }
    }

    /// Creates a group over a duplicate of a communicator. Collective over it.
    ///
    /// # Errors
    /// [`GroupError::NotInitialized`], [`GroupError::Finalized`], [`GroupError::OtherMpi`] in a
    /// process with another MPI than this was compiled against, [`GroupError::Unsuitable`] for the
    /// null communicator and for intercommunicators, [`GroupError::Late`] if not all ranks take
    /// part within `QUO_CREATE_TIMEOUT`, [`GroupError::Mpi`].
    ///
    /// # Safety
    /// `comm` is the null communicator or one that has not been freed.
    pub unsafe fn from_raw(comm: Comm) -> Result<Self, GroupError> {
        let limits = WaitLimits::for_at_most(create_timeout());
        // SAFETY: by this function's contract.
        unsafe { Self::from_raw_within(comm, &limits) }
    }

    /// Like [`from_raw`](Self::from_raw), within the limits.
    ///
    /// # Errors
    /// As [`from_raw`](Self::from_raw), and the errors of `check_peers`.
    ///
    /// # Safety
    /// As [`from_raw`](Self::from_raw).
    pub unsafe fn from_raw_within(comm: Comm, limits: &WaitLimits<'_>) -> Result<Self, GroupError> {
        const CALL: &str = "create";
        is_usable()?;
        if comm.is_null() {
            return Err(GroupError::Unsuitable {
                call: CALL,
                reason: "the communicator is MPI_COMM_NULL".into(),
            });
        }
        let mut inter: c_int = 0;
        // SAFETY: `comm` is a live communicator by this function's contract.
        succeed("MPI_Comm_test_inter", unsafe {
            raw::quo_mpi_comm_test_inter(comm.0, &raw mut inter)
        })?;
        if inter != 0 {
            return Err(GroupError::Unsuitable {
                call: CALL,
                reason: "an intercommunicator was given, merge it first".into(),
            });
        }
        // Missing ranks must not make this one wait forever, as in MPI_Comm_dup.
        // SAFETY: collective over a live intracommunicator.
        let begun = Operation::begin("MPI_Comm_idup", |place| unsafe {
            raw::quo_mpi_comm_idup(comm.0, place)
        })?;
        let mut size: c_int = 0;
        // SAFETY: as above; writes one int.
        succeed("MPI_Comm_size", unsafe { raw::quo_mpi_comm_size(comm.0, &raw mut size) })?;
        let mut world = vec![0; usize::try_from(size).unwrap_or(0)];
        // SAFETY: as above; there is room for a number per rank.
        succeed("MPI_Group_translate_ranks", unsafe {
            raw::quo_mpi_world_ranks(comm.0, size, world.as_mut_ptr())
        })?;
        let peers = LaunchedPeers::new(world)?;
        let look = || (limits.check_peers)().and_then(|()| peers.check_liveness(CALL));
        let limits = WaitLimits { deadline: limits.deadline, check_peers: &look };
        let made = begun.wait(&limits)?;
        let mut group = Self::adopt(made)?;
        group.given = Some(peers);
        Ok(group)
    }

    /// Takes ownership of a communicator made here.
    pub(crate) fn adopt(comm: Comm) -> Result<Self, GroupError> {
        let (mut rank, mut size): (c_int, c_int) = (0, 0);
        // SAFETY: `comm` is live and ours.
        succeed("MPI_Comm_set_errhandler", unsafe { raw::quo_mpi_comm_let_errors_return(comm.0) })?;
        // SAFETY: `comm` is live; writes one int.
        succeed("MPI_Comm_rank", unsafe { raw::quo_mpi_comm_rank(comm.0, &raw mut rank) })?;
        // SAFETY: `comm` is live; writes one int.
        succeed("MPI_Comm_size", unsafe { raw::quo_mpi_comm_size(comm.0, &raw mut size) })?;
        Ok(Self {
            comm,
            process: ForkId::current(),
            rank: usize::try_from(rank).unwrap_or(0),
            size: usize::try_from(size).unwrap_or(0),
            // SAFETY: `comm` is live.
            tag: unsafe { raw::quo_mpi_marked(comm.0) },
            given: None,
        })
    }

    /// Returns the number of ranks that have marked this one. `marks` has a mark for each rank.
    /// Collective.
    ///
    /// # Errors
    /// [`GroupError::Mpi`], and the errors of the limits.
    pub fn count_marks(
        &self,
        marks: &[bool],
        limits: &WaitLimits<'_>,
    ) -> Result<usize, GroupError> {
        is_running()?;
        let marks = (0..self.size).map(|rank| c_int::from(marks.get(rank) == Some(&true)));
        // One number more, for the result. Leaked if the wait is given up, like the buffers of a
        // gather.
        let numbers = Box::leak(marks.chain([0]).collect::<Box<[c_int]>>());
        let (marks, own) = numbers.split_at_mut(self.size);
        // SAFETY: there is a mark for each rank and room for one number; both live until the
        // operation completes.
        let begun = Operation::begin("MPI_Ireduce_scatter_block", |place| unsafe {
            raw::quo_mpi_icount(self.comm.0, marks.as_ptr(), own.as_mut_ptr(), place)
        })?;
        self.wait(begun, limits)?;
        // SAFETY: leaked above, complete, and not referenced elsewhere.
        let numbers = unsafe { Box::from_raw(numbers) };
        Ok(numbers.last().map_or(0, |count| count.unsigned_abs() as usize))
    }

    /// Returns the smallest of all ranks' numbers, in each place. Collective.
    ///
    /// # Errors
    /// [`GroupError::Mpi`], and the errors of the limits.
    pub fn minimum<const N: usize>(
        &self,
        mine: [i64; N],
        limits: &WaitLimits<'_>,
    ) -> Result<[i64; N], GroupError> {
        is_running()?;
        // Leaked if the wait is given up, like the buffers of a gather.
        let numbers = Box::leak(Box::new([mine, mine]));
        let [mine, all] = &mut *numbers;
        // SAFETY: both have as many numbers, and live until the operation completes.
        let begun = Operation::begin("MPI_Iallreduce", |place| unsafe {
            raw::quo_mpi_imin(self.comm.0, mine.as_ptr(), all.as_mut_ptr(), N as c_int, place)
        })?;
        self.wait(begun, limits)?;
        // SAFETY: leaked above, complete, and not referenced elsewhere.
        let [_, all] = *unsafe { Box::from_raw(numbers) };
        Ok(all)
    }

    /// Waits for an operation of all ranks; the death of a rank that was launched on this host ends
    /// the wait.
    fn wait(&self, operation: Operation, limits: &WaitLimits<'_>) -> Result<(), GroupError> {
        let own = || self.given.as_ref().map_or(Ok(()), |peers| peers.check_liveness("create"));
        let look = || (limits.check_peers)().and_then(|()| own());
        let limits = WaitLimits { deadline: limits.deadline, check_peers: &look };
        operation.wait(&limits).map(drop)
    }

    /// Returns the communicator, which stays owned by the group.
    #[must_use]
    pub fn as_raw(&self) -> Comm {
        self.comm
    }

    /// Passes ownership of the communicator to the caller, which frees it with `MPI_Comm_free`.
    #[must_use]
    pub fn into_raw(mut self) -> Comm {
        let comm = self.comm;
        self.given = None;
        std::mem::forget(self);
        comm
    }
}

impl Group for MpiGroup {
    fn rank(&self) -> usize {
        self.rank
    }

    fn size(&self) -> usize {
        self.size
    }

    fn check(&self) -> Result<(), GroupError> {
        is_running()
    }

    /// Gathers on rank 0 and broadcasts from there: for `MPI_Iallgather`, MPIs send a message from
    /// each rank to every other one.
    fn allgather(&self, mine: &[u8], limits: &WaitLimits<'_>) -> Result<Vec<u8>, GroupError> {
        const CALL: &str = "MPI_Igather";
        is_running()?;
        let total = mine.len() * self.size;
        let counts = c_int::try_from(mine.len()).and_then(|count| Ok((count, total.try_into()?)));
        let (count, total_count) = counts.map_err(|_| {
            let reason = format!("{total} bytes are too many for one gather");
            GroupError::Unsuitable { call: CALL, reason: reason.into() }
        })?;
        // Both buffers belong to the operation until it completes; if the wait is given up, they
        // are leaked on purpose, since MPI may still write to them.
        let sent = Box::leak(mine.to_vec().into_boxed_slice());
        let all = Box::leak(vec![0_u8; total].into_boxed_slice());
        // SAFETY: `sent` and `all` have the lengths given and live until the operation completes.
        let begun = Operation::begin(CALL, |place| unsafe {
            raw::quo_mpi_igather(
                self.comm.0,
                sent.as_ptr().cast::<c_void>(),
                all.as_mut_ptr().cast::<c_void>(),
                count,
                place,
            )
        })?;
        self.wait(begun, limits)?;
        // SAFETY: leaked above, complete, and not referenced elsewhere.
        drop(unsafe { Box::from_raw(sent) });
        // SAFETY: `all` has the length given and lives until the operation completes.
        let begun = Operation::begin("MPI_Ibcast", |place| unsafe {
            raw::quo_mpi_ibcast(self.comm.0, all.as_mut_ptr().cast(), total_count, 0, place)
        })?;
        self.wait(begun, limits)?;
        // SAFETY: as above.
        Ok(unsafe { Box::from_raw(all) }.into_vec())
    }

    fn all(&self, mine: bool, limits: &WaitLimits<'_>) -> Result<bool, GroupError> {
        self.minimum([i64::from(mine)], limits).map(|[all]| all != 0)
    }

    fn gather(
        &self,
        mine: &[u8],
        limits: &WaitLimits<'_>,
    ) -> Result<Option<Vec<Vec<u8>>>, GroupError> {
        const CALL: &str = "MPI_Gatherv";
        let lengths = self.allgather(&(mine.len() as u64).to_ne_bytes(), limits)?;
        let (mut counts, mut starts, mut total) = (Vec::new(), Vec::new(), 0_u64);
        for length in lengths.chunks_exact(size_of::<u64>()) {
            let length = length.try_into().map_or(0, u64::from_ne_bytes);
            let start = c_int::try_from(total);
            total += length;
            // All ranks see the same lengths, so all give up together.
            let (Ok(start), Ok(_)) = (start, c_int::try_from(total)) else {
                let reason = "more than two gigabytes would come together".into();
                return Err(GroupError::Unsuitable { call: CALL, reason });
            };
            starts.push(start);
            counts.push(length as c_int);
        }
        let root = self.rank == 0;
        let mut all = vec![0_u8; if root { total as usize } else { 0 }];
        // SAFETY: the buffers have the lengths and offsets given by the counts and starts;
        // collective by contract.
        succeed(CALL, unsafe {
            raw::quo_mpi_gatherv(
                self.comm.0,
                mine.as_ptr().cast::<c_void>(),
                counts[self.rank],
                all.as_mut_ptr().cast::<c_void>(),
                counts.as_ptr(),
                starts.as_ptr(),
            )
        })?;
        let piece = |(start, count): (&c_int, &c_int)| {
            let start = start.unsigned_abs() as usize;
            all[start..start + count.unsigned_abs() as usize].to_vec()
        };
        Ok(root.then(|| starts.iter().zip(&counts).map(piece).collect()))
    }

    fn barrier(&self) -> Result<(), GroupError> {
        is_running()?;
        // SAFETY: `self.comm` is live; collective by contract.
        succeed("MPI_Barrier", unsafe { raw::quo_mpi_barrier(self.comm.0) })
    }

    fn split(&self, colour: Option<u32>, key: usize) -> Result<Option<Box<dyn Group>>, GroupError> {
        is_running()?;
        let colour = colour.and_then(|colour| c_int::try_from(colour).ok()).unwrap_or(-1);
        let key = c_int::try_from(key).unwrap_or(c_int::MAX);
        let mut part = 0;
        // SAFETY: `self.comm` is live; collective by contract; writes one word.
        succeed("MPI_Comm_split", unsafe {
            raw::quo_mpi_comm_split(self.comm.0, colour, key, &raw mut part)
        })?;
        let part = Comm(part);
        if part.is_null() {
            return Ok(None);
        }
        Ok(Some(Box::new(Self::adopt(part)?)))
    }

    fn tag(&self) -> u64 {
        self.tag
    }

    fn alarm(&self) -> Option<String> {
        let started = Started::read().filter(Started::is_first)?;
        launch_mismatch(&started)
    }

    fn warning(&self) -> Option<String> {
        let started = Started::read();
        let misled = started.and_then(|started| launch_mismatch(&started));
        let own = || launch::alone(self.size, world_size()?);
        // In a world that can be resized a single rank is common, and so is a part made by the
        // runtime.
        misled.or_else(|| own().filter(|_| self.given.is_some() && self.tag == 0))
    }

    fn as_any(&self) -> &dyn Any {
        self
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }
}

/// Returns the number of ranks of `MPI_COMM_WORLD`, while MPI runs.
pub(crate) fn world_size() -> Option<usize> {
    is_running().ok()?;
    let mut world: c_int = 0;
    // SAFETY: MPI is running; writes one int.
    let code = unsafe { raw::quo_mpi_comm_size(raw::quo_mpi_comm_world(), &raw mut world) };
    succeed("MPI_Comm_size", code).ok()?;
    usize::try_from(world).ok()
}

/// Returns the warning about a launcher of another MPI; none for a process that MPI itself spawned.
fn launch_mismatch(started: &Started) -> Option<String> {
    let world = world_size()?;
    let mut parent = 0;
    // SAFETY: MPI is running; writes one word.
    let asked = unsafe { raw::quo_mpi_parent(&raw mut parent) };
    if asked != 0 || !Comm(parent).is_null() {
        return None;
    }
    let running = running();
    let own = library().and_then(|library| launch::launcher_of(&library, running.family()));
    launch::mismatch(world, &running.to_string(), own.as_deref(), Some(started))
}

impl Drop for MpiGroup {
    fn drop(&mut self) {
        // A forked child has the memory of an MPI process but is not one.
        if self.process == ForkId::current() && is_running().is_ok() {
            // SAFETY: `self.comm` is ours and live; after MPI_Finalize it is gone with MPI.
            unsafe { raw::quo_mpi_comm_free(self.comm.0) };
        }
    }
}
