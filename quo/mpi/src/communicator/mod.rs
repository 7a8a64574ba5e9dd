//! Communicators with changing members: subsets, merges, and processes started at run time.
#![allow(unsafe_code)]

mod bounded;
mod start;

use std::ffi::{CString, c_int, c_void};
use std::marker::PhantomData;
use std::mem::ManuallyDrop;
use std::ops::Deref;
use std::ptr;

use quo::group::{GroupError, WaitLimits};
use quo::node::ForkId;

use crate::operation::Operation;
use crate::raw::succeed;
use crate::{Comm, MpiGroup, is_running, is_usable, raw};

pub use start::{Port, SpawnRequest, ThreadLevel, spawn, thread_level, universe};

/// Maximum number of bytes of one message; longer ones are sent in pieces.
const PIECE: usize = 1 << 30;

/// An intracommunicator owned by this library, whose errors return. Calls marked *collective* are
/// made by all its ranks.
///
/// Dropping it leaks the communicator, because freeing it is collective, see [`free`](Self::free).
#[derive(Debug)]
pub struct Communicator {
    comm: Comm,
    process: ForkId,
    rank: usize,
    size: usize,
}

/// Group over a communicator that it does not own, see [`Communicator::as_group`].
#[derive(Debug)]
pub struct BorrowedGroup<'a> {
    group: ManuallyDrop<MpiGroup>,
    owner: PhantomData<&'a Communicator>,
}

impl Deref for BorrowedGroup<'_> {
    type Target = MpiGroup;

    fn deref(&self) -> &MpiGroup {
        &self.group
    }
}

/// Two connected groups, such as spawned processes and their parents.
#[derive(Debug)]
pub struct Intercommunicator {
    comm: Comm,
    process: ForkId,
}

fn int(call: &'static str, value: usize) -> Result<c_int, GroupError> {
    let reason = format!("{value} is larger than an int of MPI").into();
    c_int::try_from(value).map_err(|_| GroupError::Unsuitable { call, reason })
}

fn text(call: &'static str, value: &str) -> Result<CString, GroupError> {
    let reason = format!("the text {value:?} has a zero byte in it").into();
    CString::new(value).map_err(|_| GroupError::Unsuitable { call, reason })
}

impl Communicator {
    /// Returns a duplicate of `MPI_COMM_WORLD`: all ranks launched, or spawned, together.
    /// Collective over them.
    ///
    /// # Errors
    /// As [`MpiGroup::from_raw`].
    pub fn world() -> Result<Self, GroupError> {
        is_usable()?;
        // SAFETY: MPI is running, so the communicator is live.
        unsafe { Self::duplicate(Comm(raw::quo_mpi_comm_world())) }
    }

    /// Returns a duplicate of `MPI_COMM_WORLD`, within the limits. Collective over its ranks.
    ///
    /// # Errors
    /// As [`MpiGroup::from_raw_within`].
    pub fn world_within(limits: &WaitLimits<'_>) -> Result<Self, GroupError> {
        is_usable()?;
        // SAFETY: MPI is running, so the communicator is live.
        let group = unsafe { MpiGroup::from_raw_within(Comm(raw::quo_mpi_comm_world()), limits) }?;
        Self::adopt(group.into_raw())
    }

    /// Duplicates a communicator. Collective over it.
    ///
    /// # Errors
    /// As [`MpiGroup::from_raw`].
    ///
    /// # Safety
    /// As [`MpiGroup::from_raw`].
    pub unsafe fn duplicate(comm: Comm) -> Result<Self, GroupError> {
        // SAFETY: by this function's contract.
        let group = unsafe { MpiGroup::from_raw(comm) }?;
        Self::adopt(group.into_raw())
    }

    /// Returns a communicator of this process alone. Local.
    ///
    /// # Errors
    /// [`GroupError`].
    pub fn alone() -> Result<Self, GroupError> {
        is_usable()?;
        let mut own = 0;
        // SAFETY: MPI is running; writes one word.
        succeed("MPI_Comm_dup", unsafe { raw::quo_mpi_comm_self(&raw mut own) })?;
        Self::adopt(Comm(own))
    }

    fn adopt(comm: Comm) -> Result<Self, GroupError> {
        let (mut rank, mut size): (c_int, c_int) = (0, 0);
        // SAFETY: `comm` is live; writes one int.
        succeed("MPI_Comm_rank", unsafe { raw::quo_mpi_comm_rank(comm.0, &raw mut rank) })?;
        // SAFETY: `comm` is live; writes one int.
        succeed("MPI_Comm_size", unsafe { raw::quo_mpi_comm_size(comm.0, &raw mut size) })?;
        Ok(Self {
            comm,
            process: ForkId::current(),
            rank: usize::try_from(rank).unwrap_or(0),
            size: usize::try_from(size).unwrap_or(0),
        })
    }

    /// Returns this process's rank. Local.
    #[must_use]
    pub fn rank(&self) -> usize {
        self.rank
    }

    /// Returns the number of ranks. Local.
    #[must_use]
    pub fn size(&self) -> usize {
        self.size
    }

    /// Returns the handle without giving up its ownership. Local.
    #[must_use]
    pub fn as_raw(&self) -> Comm {
        self.comm
    }

    /// Creates a group over a duplicate, for contexts. Collective.
    ///
    /// # Errors
    /// As [`MpiGroup::from_raw`].
    pub fn group(&self) -> Result<MpiGroup, GroupError> {
        // SAFETY: ours and live.
        unsafe { MpiGroup::from_raw(self.comm) }
    }

    /// Like [`group`](Self::group), within the limits.
    ///
    /// # Errors
    /// As [`MpiGroup::from_raw_within`].
    pub fn group_within(&self, limits: &WaitLimits<'_>) -> Result<MpiGroup, GroupError> {
        // SAFETY: ours and live.
        unsafe { MpiGroup::from_raw_within(self.comm, limits) }
    }

    /// Returns its number in Fortran (`MPI_Comm_c2f`). MPIs give a new communicator a free number,
    /// usually the lowest: if the number rises with every change of a world, communicators are
    /// leaking. Local.
    #[must_use]
    pub fn number(&self) -> u64 {
        let mut number = 0_u64;
        // SAFETY: ours and live; there is room for any of Fortran's integers.
        unsafe { self.comm.store_for_fortran((&raw mut number).cast()) };
        number
    }

    /// Returns a duplicate as a communicator of the crate `mpi`, which frees it on drop. Errors on
    /// it end the job, as they do on that crate's communicators. Collective.
    ///
    /// # Errors
    /// As [`MpiGroup::from_raw`].
    #[cfg(feature = "rsmpi")]
    pub fn duplicate_for_rsmpi(&self) -> Result<mpi::topology::SimpleCommunicator, GroupError> {
        use mpi::raw::FromRaw as _;
        let comm = self.group()?.into_raw();
        // SAFETY: live, and not shared.
        let code = unsafe { raw::quo_mpi_comm_let_errors_end(comm.0) };
        succeed("MPI_Comm_set_errhandler", code)?;
        let mut handle = std::mem::MaybeUninit::<mpi::ffi::MPI_Comm>::uninit();
        // SAFETY: there is room for an `MPI_Comm`, which is written; the other crate owns it from
        // here on.
        unsafe {
            comm.store(handle.as_mut_ptr().cast());
            Ok(mpi::topology::SimpleCommunicator::from_raw(handle.assume_init()))
        }
    }

    /// Returns a group over the communicator itself, for exchanges between its ranks. Local.
    ///
    /// # Errors
    /// [`GroupError::Mpi`].
    pub fn as_group(&self) -> Result<BorrowedGroup<'_>, GroupError> {
        is_running()?;
        let group = ManuallyDrop::new(MpiGroup::adopt(self.comm)?);
        Ok(BorrowedGroup { group, owner: PhantomData })
    }

    /// Creates the communicator of some ranks, in the order of the list. Collective over these
    /// ranks only; all pass the same list, and the same tag, which no other concurrent call may
    /// use.
    ///
    /// # Errors
    /// [`GroupError::Unsuitable`] for a rank that does not exist, [`GroupError::Mpi`].
    pub fn subset(&self, ranks: &[usize], tag: u16) -> Result<Self, GroupError> {
        const CALL: &str = "MPI_Comm_create_group";
        is_running()?;
        if ranks.iter().any(|&rank| rank >= self.size) || !ranks.contains(&self.rank) {
            let reason = "the list has ranks that do not exist, or lacks the caller".into();
            return Err(GroupError::Unsuitable { call: CALL, reason });
        }
        let count = int(CALL, ranks.len())?;
        let ranks = ranks.iter().map(|&rank| int(CALL, rank)).collect::<Result<Vec<_>, _>>()?;
        let mut part = 0;
        // Smallest upper bound for tags that the standard allows.
        let tag = c_int::from(tag & 0x7fff);
        // SAFETY: `self.comm` is live; the list has `count` ranks that exist; collective by contract.
        succeed(CALL, unsafe {
            raw::quo_mpi_comm_part(self.comm.0, ranks.as_ptr(), count, tag, &raw mut part)
        })?;
        Self::adopt(Comm(part))
    }

    /// Creates an intercommunicator to another group. `leader` of this group and `other` of that
    /// group (its rank in `peer`) are both in `peer`, which only leaders use. Collective over both
    /// groups.
    ///
    /// # Errors
    /// [`GroupError::Mpi`].
    pub fn create_intercomm(
        &self,
        leader: usize,
        peer: &Self,
        other: usize,
        tag: u16,
    ) -> Result<Intercommunicator, GroupError> {
        const CALL: &str = "MPI_Intercomm_create";
        is_running()?;
        let (leader, other) = (int(CALL, leader)?, int(CALL, other)?);
        let tag = c_int::from(tag & 0x7fff);
        let mut inter = 0;
        // SAFETY: both communicators are live; collective by contract.
        succeed(CALL, unsafe {
            raw::quo_mpi_intercomm(self.comm.0, leader, peer.comm.0, other, tag, &raw mut inter)
        })?;
        Ok(Intercommunicator::adopt(Comm(inter)))
    }

    /// Sends bytes to one rank and at the same time receives the number of bytes given in `from`
    /// from another. Not collective: only the named ranks take part.
    ///
    /// # Errors
    /// [`GroupError::Late`] and the errors of `check_peers`, [`GroupError::Mpi`]. Messages in
    /// transit are lost then.
    pub fn exchange(
        &self,
        to: Option<(usize, Vec<u8>)>,
        from: Option<(usize, usize)>,
        tag: u16,
        limits: &WaitLimits<'_>,
    ) -> Result<Vec<u8>, GroupError> {
        is_running()?;
        let tag = c_int::from(tag & 0x7fff);
        let mut begun = Vec::new();
        // Buffers belong to MPI until the operations are complete: if given up, they are leaked on
        // purpose.
        let received = from.map(|(_, bytes)| Box::leak(vec![0_u8; bytes].into_boxed_slice()));
        let sent = to.map(|(rank, bytes)| (rank, Box::leak(bytes.into_boxed_slice())));
        if let (Some((rank, _)), Some(place)) = (from, &received) {
            let rank = int("MPI_Irecv", rank)?;
            for piece in place.chunks(PIECE) {
                let start = piece.as_ptr().cast_mut().cast::<c_void>();
                // SAFETY: the piece lives until the operation is complete, and nothing else reads
                // it.
                begun.push(Operation::begin("MPI_Irecv", |out| unsafe {
                    raw::quo_mpi_irecv(self.comm.0, start, piece.len() as c_int, rank, tag, out)
                })?);
            }
        }
        if let Some((rank, bytes)) = &sent {
            let rank = int("MPI_Isend", *rank)?;
            for piece in bytes.chunks(PIECE) {
                let start = piece.as_ptr().cast::<c_void>();
                // SAFETY: the piece lives until the operation is complete.
                begun.push(Operation::begin("MPI_Isend", |out| unsafe {
                    raw::quo_mpi_isend(self.comm.0, start, piece.len() as c_int, rank, tag, out)
                })?);
            }
        }
        for operation in begun {
            operation.wait(limits)?;
        }
        if let Some((_, bytes)) = sent {
            // SAFETY: leaked above; all operations are complete.
            drop(unsafe { Box::from_raw(ptr::from_mut(bytes)) });
        }
        Ok(received.map_or_else(Vec::new, |place| {
            // SAFETY: as above.
            unsafe { Box::from_raw(ptr::from_mut(place)) }.into_vec()
        }))
    }

    /// Broadcasts the bytes of one rank. Collective; `bytes` is used only on the root.
    ///
    /// # Errors
    /// As [`exchange`](Self::exchange).
    pub fn broadcast(
        &self,
        bytes: Vec<u8>,
        root: usize,
        limits: &WaitLimits<'_>,
    ) -> Result<Vec<u8>, GroupError> {
        const CALL: &str = "MPI_Ibcast";
        is_running()?;
        let length = if self.rank == root { bytes.len() as u64 } else { 0 };
        let length = self.broadcast_piece(length.to_ne_bytes().to_vec(), root, limits)?;
        let length = length.try_into().map_or(0, u64::from_ne_bytes);
        let length = usize::try_from(length).unwrap_or(usize::MAX);
        if length == 0 {
            // Some MPIs refuse a buffer without bytes.
            return Ok(Vec::new());
        }
        if length > PIECE {
            let reason = format!("{length} bytes to broadcast; at most a gigabyte can be").into();
            return Err(GroupError::Unsuitable { call: CALL, reason });
        }
        let bytes = if self.rank == root { bytes } else { vec![0; length] };
        self.broadcast_piece(bytes, root, limits)
    }

    fn broadcast_piece(
        &self,
        bytes: Vec<u8>,
        root: usize,
        limits: &WaitLimits<'_>,
    ) -> Result<Vec<u8>, GroupError> {
        const CALL: &str = "MPI_Ibcast";
        let root = int(CALL, root)?;
        let place = Box::leak(bytes.into_boxed_slice());
        let (start, count) = (place.as_mut_ptr().cast::<c_void>(), int(CALL, place.len())?);
        // SAFETY: lives until the operation is complete; leaked if the operation is given up.
        let begun = Operation::begin(CALL, |out| unsafe {
            raw::quo_mpi_ibcast(self.comm.0, start, count, root, out)
        })?;
        begun.wait(limits)?;
        // SAFETY: leaked above; complete.
        Ok(unsafe { Box::from_raw(ptr::from_mut(place)) }.into_vec())
    }

    /// Waits for all ranks. Collective.
    ///
    /// # Errors
    /// As [`exchange`](Self::exchange).
    pub fn barrier(&self, limits: &WaitLimits<'_>) -> Result<(), GroupError> {
        is_running()?;
        // SAFETY: live; collective by contract.
        let begun = Operation::begin("MPI_Ibarrier", |out| unsafe {
            raw::quo_mpi_ibarrier(self.comm.0, out)
        })?;
        begun.wait(limits).map(drop)
    }

    /// Attaches a word to the communicator that its duplicates inherit. Local.
    ///
    /// # Errors
    /// [`GroupError::Mpi`].
    pub fn set_tag(&self, mark: u64) -> Result<(), GroupError> {
        is_running()?;
        // SAFETY: live.
        succeed("MPI_Comm_set_attr", unsafe { raw::quo_mpi_mark(self.comm.0, mark) })
    }

    /// Frees the communicator. Collective, but does not wait for other ranks.
    ///
    /// # Errors
    /// [`GroupError::Mpi`].
    pub fn free(self) -> Result<(), GroupError> {
        if self.process != ForkId::current() {
            return Ok(());
        }
        is_running()?;
        // SAFETY: ours, live, and not used any more.
        succeed("MPI_Comm_free", unsafe { raw::quo_mpi_comm_free(self.comm.0) })
    }
}

/// Returns the word of [`Communicator::set_tag`] on a communicator or on the one it duplicates; 0
/// without one. Local.
///
/// # Safety
/// `comm` is a live communicator.
#[must_use]
pub unsafe fn marked(comm: Comm) -> u64 {
    if is_running().is_err() || comm.is_null() {
        return 0;
    }
    // SAFETY: by this function's contract.
    unsafe { raw::quo_mpi_marked(comm.0) }
}

impl Intercommunicator {
    fn adopt(comm: Comm) -> Self {
        Self { comm, process: ForkId::current() }
    }

    /// Returns the intercommunicator to the parents of this process; `None` if it was not spawned.
    /// Local.
    ///
    /// # Errors
    /// [`GroupError`].
    pub fn parent() -> Result<Option<Self>, GroupError> {
        is_usable()?;
        let mut parent = 0;
        // SAFETY: MPI is running; writes one word.
        succeed("MPI_Comm_get_parent", unsafe { raw::quo_mpi_parent(&raw mut parent) })?;
        let comm = Comm(parent);
        Ok((!comm.is_null()).then(|| Self::adopt(comm)))
    }

    /// Returns the handle without giving up its ownership. Local.
    #[must_use]
    pub fn as_raw(&self) -> Comm {
        self.comm
    }

    /// Returns the number of ranks of the other group. Local.
    ///
    /// # Errors
    /// [`GroupError::Mpi`].
    pub fn remote_size(&self) -> Result<usize, GroupError> {
        is_running()?;
        let mut size: c_int = 0;
        // SAFETY: live; writes one int.
        let code = unsafe { raw::quo_mpi_comm_remote_size(self.comm.0, &raw mut size) };
        succeed("MPI_Comm_remote_size", code)?;
        Ok(usize::try_from(size).unwrap_or(0))
    }

    /// Merges both groups into one communicator; the ranks of the side that passes `high` are last.
    /// Collective over both.
    ///
    /// # Errors
    /// [`GroupError::Mpi`].
    pub fn merge(&self, high: bool) -> Result<Communicator, GroupError> {
        is_running()?;
        let mut merged = 0;
        // SAFETY: live; collective by contract.
        succeed("MPI_Intercomm_merge", unsafe {
            raw::quo_mpi_merge(self.comm.0, c_int::from(high), &raw mut merged)
        })?;
        Communicator::adopt(Comm(merged))
    }

    /// Sends bytes to a rank of the other group.
    ///
    /// # Errors
    /// As [`Communicator::exchange`].
    pub fn send(
        &self,
        bytes: &[u8],
        to: usize,
        tag: u16,
        limits: &WaitLimits<'_>,
    ) -> Result<(), GroupError> {
        self.message().exchange(Some((to, bytes.to_vec())), None, tag, limits).map(drop)
    }

    /// Receives `bytes` bytes from a rank of the other group.
    ///
    /// # Errors
    /// As [`Communicator::exchange`].
    pub fn receive(
        &self,
        bytes: usize,
        from: usize,
        tag: u16,
        limits: &WaitLimits<'_>,
    ) -> Result<Vec<u8>, GroupError> {
        self.message().exchange(None, Some((from, bytes)), tag, limits)
    }

    /// Returns the communicator for messages, which work the same way over both kinds.
    fn message(&self) -> Communicator {
        Communicator { comm: self.comm, process: self.process, rank: 0, size: 0 }
    }

    /// Frees it without waiting. Collective over both groups.
    ///
    /// # Errors
    /// [`GroupError::Mpi`].
    pub fn free(self) -> Result<(), GroupError> {
        self.message().free()
    }

    /// Frees it and disconnects: the groups are no longer connected through it. Collective over
    /// both groups.
    ///
    /// # Errors
    /// [`GroupError::Mpi`].
    pub fn disconnect(self) -> Result<(), GroupError> {
        is_running()?;
        // SAFETY: ours, live, and not used any more.
        succeed("MPI_Comm_disconnect", unsafe { raw::quo_mpi_comm_disconnect(self.comm.0) })
    }
}
