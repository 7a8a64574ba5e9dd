//! Groups over MPI communicators.
//!
//! Works on a duplicate of the caller's communicator whose errors return, so neither the caller's
//! traffic nor its error handler is touched. Waits are non-blocking collectives that are polled,
//! because a blocking one could not notice that a rank has died.
#![allow(unsafe_code)]

use std::any::Any;
use std::ffi::{c_int, c_void};
use std::mem::MaybeUninit;
use std::time::Duration;

use mpi::ffi;
use mpi::traits::Communicator;

use super::{Group, GroupError, Patience};
use crate::environment;
use crate::node::ForkId;

/// Polls before the waiter starts to yield: about the time of a collective among awake ranks.
const EAGER_POLLS: u32 = 2_000;
/// Yields before the waiter starts to sleep between polls.
const YIELDS: u32 = 200;
/// How long to sleep between later polls: the rank that is waited for may need this core.
const NAP: Duration = Duration::from_micros(50);
/// Polls between two looks at the clock and at the other members.
const POLLS_PER_CHECK: u32 = 64;

/// The ranks of an MPI communicator.
///
/// Any thread level will do as long as the calls of one group are not made from several threads at
/// once without `MPI_THREAD_MULTIPLE`.
#[derive(Debug)]
pub struct MpiGroup {
    comm: ffi::MPI_Comm,
    process: ForkId,
    rank: usize,
    size: usize,
}

// SAFETY: a communicator handle is a number or an opaque pointer that MPI lets any thread use; the
// rules of the thread level are the caller's to keep, as with every MPI call.
unsafe impl Send for MpiGroup {}
// SAFETY: as above; the type has no interior state of its own.
unsafe impl Sync for MpiGroup {}

/// Whether MPI is between its initialisation and its finalisation.
///
/// # Errors
/// [`GroupError::NotInitialized`] or [`GroupError::Finalized`].
pub fn is_running() -> Result<(), GroupError> {
    let mut flag: c_int = 0;
    // SAFETY: MPI_Initialized may be called at any time and writes one int.
    unsafe { ffi::MPI_Initialized(&raw mut flag) };
    if flag == 0 {
        return Err(GroupError::NotInitialized);
    }
    // SAFETY: MPI_Finalized may be called at any time and writes one int.
    unsafe { ffi::MPI_Finalized(&raw mut flag) };
    if flag == 0 { Ok(()) } else { Err(GroupError::Finalized) }
}

/// How long to wait for ranks that do not come; an unusable setting is told of by create.
fn create_timeout() -> Duration {
    environment::seconds(&environment::CREATE_TIMEOUT)
        .ok()
        .flatten()
        .unwrap_or(environment::DEFAULT_CREATE_TIMEOUT)
}

fn succeed(call: &'static str, code: c_int) -> Result<(), GroupError> {
    if code == ffi::MPI_SUCCESS as c_int {
        return Ok(());
    }
    let mut text = vec![0_u8; ffi::MPI_MAX_ERROR_STRING as usize + 1];
    let mut length: c_int = 0;
    // SAFETY: the buffer has the length MPI asks for.
    unsafe { ffi::MPI_Error_string(code, text.as_mut_ptr().cast(), &raw mut length) };
    text.truncate(usize::try_from(length).unwrap_or(0));
    Err(GroupError::Mpi { call, text: String::from_utf8_lossy(&text).into_owned() })
}

impl MpiGroup {
    /// The ranks of a communicator of the `mpi` crate. Collective over it.
    ///
    /// # Errors
    /// As [`MpiGroup::from_raw`].
    pub fn new(communicator: &impl Communicator) -> Result<Self, GroupError> {
        // SAFETY: the communicator is alive for the length of the call.
        unsafe { Self::from_raw(communicator.as_raw()) }
    }

    /// The ranks of a raw communicator handle, which is duplicated. Collective over it.
    ///
    /// # Errors
    /// [`GroupError::NotInitialized`], [`GroupError::Finalized`], [`GroupError::Unsuitable`] for the
    /// null communicator and for intercommunicators, [`GroupError::Late`] when not all ranks come
    /// within `QUO_CREATE_TIMEOUT`, [`GroupError::Mpi`].
    ///
    /// # Safety
    /// `comm` is the null communicator or one that has not been freed.
    pub unsafe fn from_raw(comm: ffi::MPI_Comm) -> Result<Self, GroupError> {
        const CALL: &str = "create";
        is_running()?;
        // SAFETY: reading a constant that the MPI shim exports.
        if comm == unsafe { ffi::RSMPI_COMM_NULL } {
            return Err(GroupError::Unsuitable {
                call: CALL,
                reason: "the communicator is MPI_COMM_NULL",
            });
        }
        let mut inter: c_int = 0;
        // SAFETY: `comm` is a live communicator by this function's contract.
        succeed("MPI_Comm_test_inter", unsafe { ffi::MPI_Comm_test_inter(comm, &raw mut inter) })?;
        if inter != 0 {
            return Err(GroupError::Unsuitable {
                call: CALL,
                reason: "an intercommunicator was given, merge it first",
            });
        }
        // SAFETY: `comm` is live and no intercommunicator.
        Self::adopt(unsafe { Self::duplicate(comm, &Patience::for_at_most(create_timeout()))? })
    }

    /// Duplicates a communicator, without waiting for ever for ranks that do not come.
    ///
    /// # Safety
    /// `comm` is a live intracommunicator.
    unsafe fn duplicate(
        comm: ffi::MPI_Comm,
        patience: &Patience<'_>,
    ) -> Result<ffi::MPI_Comm, GroupError> {
        const CALL: &str = "MPI_Comm_idup";
        // MPI writes the handle when the operation completes, which may be after the wait was given
        // up: the place for it is leaked then.
        // SAFETY: reading a constant that the MPI shim exports.
        let duplicate = Box::leak(Box::new(unsafe { ffi::RSMPI_COMM_NULL }));
        let mut request = MaybeUninit::uninit();
        // SAFETY: collective over a live communicator; the place lives until completion.
        succeed(CALL, unsafe { ffi::MPI_Comm_idup(comm, duplicate, request.as_mut_ptr()) })?;
        // SAFETY: MPI_Comm_idup succeeded and wrote the request.
        let mut request = unsafe { request.assume_init() };
        Self::wait(CALL, &mut request, patience)?;
        // SAFETY: leaked above, complete, and referred to by nobody else.
        Ok(*unsafe { Box::from_raw(duplicate) })
    }

    /// Takes ownership of a communicator made here.
    fn adopt(comm: ffi::MPI_Comm) -> Result<Self, GroupError> {
        let (mut rank, mut size): (c_int, c_int) = (0, 0);
        // SAFETY: `comm` is live and ours; the error handler is a constant of the MPI shim.
        succeed("MPI_Comm_set_errhandler", unsafe {
            ffi::MPI_Comm_set_errhandler(comm, ffi::RSMPI_ERRORS_RETURN)
        })?;
        // SAFETY: `comm` is live; writes one int.
        succeed("MPI_Comm_rank", unsafe { ffi::MPI_Comm_rank(comm, &raw mut rank) })?;
        // SAFETY: `comm` is live; writes one int.
        succeed("MPI_Comm_size", unsafe { ffi::MPI_Comm_size(comm, &raw mut size) })?;
        Ok(Self {
            comm,
            process: ForkId::current(),
            rank: usize::try_from(rank).unwrap_or(0),
            size: usize::try_from(size).unwrap_or(0),
        })
    }

    /// The communicator, which stays owned by the group.
    #[must_use]
    pub fn as_raw(&self) -> ffi::MPI_Comm {
        self.comm
    }

    /// Hands the communicator over to the caller, who frees it with `MPI_Comm_free`.
    #[must_use]
    pub fn into_raw(self) -> ffi::MPI_Comm {
        let comm = self.comm;
        std::mem::forget(self);
        comm
    }

    fn wait(
        call: &'static str,
        request: &mut ffi::MPI_Request,
        patience: &Patience<'_>,
    ) -> Result<(), GroupError> {
        let mut done: c_int = 0;
        let mut polls: u32 = 0;
        loop {
            // SAFETY: the request was made by a non-blocking call and has not completed yet.
            succeed(call, unsafe {
                ffi::MPI_Test(request, &raw mut done, ffi::RSMPI_STATUS_IGNORE)
            })?;
            if done != 0 {
                return Ok(());
            }
            polls = polls.saturating_add(1);
            if polls > EAGER_POLLS {
                if polls > EAGER_POLLS + YIELDS {
                    std::thread::sleep(NAP);
                } else {
                    std::thread::yield_now();
                }
                if polls.is_multiple_of(POLLS_PER_CHECK) {
                    patience.check(call)?;
                }
            }
        }
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

    fn allgather(&self, mine: &[u8], patience: &Patience<'_>) -> Result<Vec<u8>, GroupError> {
        const CALL: &str = "MPI_Iallgather";
        is_running()?;
        let count = c_int::try_from(mine.len())
            .map_err(|_| GroupError::Unsuitable { call: CALL, reason: "a record is too long" })?;
        // Both buffers belong to the operation until it completes; when the wait is given up they
        // are leaked on purpose, since MPI may still write to them.
        let sent = Box::leak(mine.to_vec().into_boxed_slice());
        let all = Box::leak(vec![0_u8; mine.len() * self.size].into_boxed_slice());
        let mut request = MaybeUninit::uninit();
        // SAFETY: `sent` and `all` have the lengths given and live until the operation completes.
        let code = unsafe {
            ffi::MPI_Iallgather(
                sent.as_ptr().cast::<c_void>(),
                count,
                ffi::RSMPI_UINT8_T,
                all.as_mut_ptr().cast::<c_void>(),
                count,
                ffi::RSMPI_UINT8_T,
                self.comm,
                request.as_mut_ptr(),
            )
        };
        succeed(CALL, code)?;
        // SAFETY: MPI_Iallgather succeeded and wrote the request.
        let mut request = unsafe { request.assume_init() };
        Self::wait(CALL, &mut request, patience)?;
        // SAFETY: leaked above, complete, and referred to by nobody else.
        drop(unsafe { Box::from_raw(sent) });
        // SAFETY: as above.
        Ok(unsafe { Box::from_raw(all) }.into_vec())
    }

    fn gather(
        &self,
        mine: &[u8],
        patience: &Patience<'_>,
    ) -> Result<Option<Vec<Vec<u8>>>, GroupError> {
        const CALL: &str = "MPI_Gatherv";
        let lengths = self.allgather(&(mine.len() as u64).to_ne_bytes(), patience)?;
        let (mut counts, mut starts, mut total) = (Vec::new(), Vec::new(), 0_u64);
        for length in lengths.chunks_exact(size_of::<u64>()) {
            let length = length.try_into().map_or(0, u64::from_ne_bytes);
            let start = c_int::try_from(total);
            total += length;
            // All ranks see the same lengths, so all give up together.
            let (Ok(start), Ok(_)) = (start, c_int::try_from(total)) else {
                let reason = "more than two gigabytes would come together";
                return Err(GroupError::Unsuitable { call: CALL, reason });
            };
            starts.push(start);
            counts.push(length as c_int);
        }
        let root = self.rank == 0;
        let mut all = vec![0_u8; if root { total as usize } else { 0 }];
        // SAFETY: the buffers have the lengths and places that the counts and starts say; collective
        // by contract.
        succeed(CALL, unsafe {
            ffi::MPI_Gatherv(
                mine.as_ptr().cast::<c_void>(),
                counts[self.rank],
                ffi::RSMPI_UINT8_T,
                all.as_mut_ptr().cast::<c_void>(),
                counts.as_ptr(),
                starts.as_ptr(),
                ffi::RSMPI_UINT8_T,
                0,
                self.comm,
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
        succeed("MPI_Barrier", unsafe { ffi::MPI_Barrier(self.comm) })
    }

    fn split(&self, colour: Option<u32>, key: usize) -> Result<Option<Box<dyn Group>>, GroupError> {
        is_running()?;
        // SAFETY: reading a constant that the MPI shim exports.
        let undefined = unsafe { ffi::RSMPI_UNDEFINED };
        let colour = colour.and_then(|colour| c_int::try_from(colour).ok()).unwrap_or(undefined);
        let key = c_int::try_from(key).unwrap_or(c_int::MAX);
        let mut part = MaybeUninit::uninit();
        // SAFETY: `self.comm` is live; collective by contract; writes one handle.
        succeed("MPI_Comm_split", unsafe {
            ffi::MPI_Comm_split(self.comm, colour, key, part.as_mut_ptr())
        })?;
        // SAFETY: MPI_Comm_split succeeded and wrote the handle.
        let part = unsafe { part.assume_init() };
        // SAFETY: reading a constant that the MPI shim exports.
        if part == unsafe { ffi::RSMPI_COMM_NULL } {
            return Ok(None);
        }
        Ok(Some(Box::new(Self::adopt(part)?)))
    }

    fn as_any(&self) -> &dyn Any {
        self
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }
}

impl Drop for MpiGroup {
    fn drop(&mut self) {
        // A forked child has the memory of an MPI process and is none.
        if self.process == ForkId::current() && is_running().is_ok() {
            // SAFETY: `self.comm` is ours and live; after MPI_Finalize it is gone with MPI.
            unsafe { ffi::MPI_Comm_free(&raw mut self.comm) };
        }
    }
}
