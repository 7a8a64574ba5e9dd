//! Messages between two ranks that are transferred while the program does other work.
#![allow(unsafe_code)]

use std::ffi::{c_int, c_void};
use std::mem::ManuallyDrop;

use quo::group::{GroupError, WaitLimits};

use crate::communicator::Communicator;
use crate::operation::{self, Operation};
use crate::raw::succeed;
use crate::{Comm, MpiGroup, is_running, raw};

/// Maximum number of bytes of one MPI message, whose counts are ints; longer ones are sent in
/// pieces.
const PIECE: usize = 1 << 30;

/// A message in transit. If it is dropped before it is complete, its bytes are leaked: MPI may
/// still use them.
#[derive(Debug)]
#[must_use = "a message is on its way until it is tested or waited for"]
pub struct Transfer {
    under_way: Vec<Operation>,
    bytes: ManuallyDrop<Vec<u8>>,
}

/// Function that starts one piece: communicator, start, length, the other rank, tag.
type Begin =
    unsafe extern "C" fn(u64, *mut c_void, c_int, c_int, c_int, *mut *mut raw::Operation) -> c_int;

/// Like [`raw::quo_mpi_isend`], with the signature of receiving.
unsafe extern "C" fn send(
    comm: u64,
    bytes: *mut c_void,
    count: c_int,
    to: c_int,
    tag: c_int,
    out: *mut *mut raw::Operation,
) -> c_int {
    // SAFETY: by the caller.
    unsafe { raw::quo_mpi_isend(comm, bytes, count, to, tag, out) }
}

impl Transfer {
    fn begin(
        call: &'static str,
        begin: Begin,
        comm: Comm,
        rank: usize,
        bytes: Vec<u8>,
        tag: u16,
    ) -> Result<Self, GroupError> {
        is_running()?;
        let reason = format!("rank {rank} is larger than an int of MPI").into();
        let rank = c_int::try_from(rank).map_err(|_| GroupError::Unsuitable { call, reason })?;
        let tag = c_int::from(tag & 0x7fff);
        let mut bytes = ManuallyDrop::new(bytes);
        let (start, length) = (bytes.as_mut_ptr(), bytes.len());
        let mut transfer = Self { under_way: Vec::new(), bytes };
        // An empty message is one empty piece.
        for from in (0..length.max(1)).step_by(PIECE) {
            let count = (length - from).min(PIECE) as c_int;
            // SAFETY: inside the bytes, or at the end of an empty vector.
            let piece = unsafe { start.add(from) }.cast::<c_void>();
            // SAFETY: the piece stays where it is until the operation is complete, or forever:
            // moving the vector does not move its bytes, and `Drop` leaks them. Nothing accesses
            // them before.
            let begun = Operation::begin(call, |out| unsafe {
                begin(comm.0, piece, count, rank, tag, out)
            });
            transfer.under_way.push(begun?);
        }
        transfer.under_way.reverse();
        Ok(transfer)
    }

    /// Returns true if the transfer is complete. Local.
    ///
    /// # Errors
    /// [`GroupError::Mpi`].
    pub fn test(&mut self) -> Result<bool, GroupError> {
        while let Some(mut operation) = self.under_way.pop() {
            match operation.test() {
                Ok(true) => {
                    operation.end();
                }
                other => {
                    self.under_way.push(operation);
                    return other;
                }
            }
        }
        Ok(true)
    }

    /// Waits until the transfer is complete, and returns the bytes received or sent.
    ///
    /// # Errors
    /// [`GroupError::Late`] and the errors of `check_peers`, [`GroupError::Mpi`].
    pub fn finish(mut self, limits: &WaitLimits<'_>) -> Result<Vec<u8>, GroupError> {
        while let Some(operation) = self.under_way.pop() {
            if let Err(error) = operation.wait(limits) {
                // MPI may still use it.
                std::mem::forget(self);
                return Err(error);
            }
        }
        Ok(std::mem::take(&mut *self.bytes))
    }
}

impl Drop for Transfer {
    fn drop(&mut self) {
        if self.under_way.is_empty() {
            // SAFETY: complete, and not used again.
            unsafe { ManuallyDrop::drop(&mut self.bytes) };
        }
    }
}

/// Starts sending bytes to a rank. Local; the rank receives the same number with the same tag.
fn begin_send(comm: Comm, to: usize, bytes: Vec<u8>, tag: u16) -> Result<Transfer, GroupError> {
    Transfer::begin("MPI_Isend", send, comm, to, bytes, tag)
}

/// Starts receiving as many bytes as the vector has.
fn begin_receive(
    comm: Comm,
    from: usize,
    bytes: Vec<u8>,
    tag: u16,
) -> Result<Transfer, GroupError> {
    Transfer::begin("MPI_Irecv", raw::quo_mpi_irecv, comm, from, bytes, tag)
}

fn await_sender(comm: Comm, tag: u16, limits: &WaitLimits<'_>) -> Result<usize, GroupError> {
    const CALL: &str = "MPI_Iprobe";
    is_running()?;
    let tag = c_int::from(tag & 0x7fff);
    operation::poll(CALL, limits, || {
        let mut from: c_int = -1;
        // SAFETY: writes one number.
        succeed(CALL, unsafe { raw::quo_mpi_iprobe(comm.0, tag, &raw mut from) })?;
        Ok(usize::try_from(from).ok())
    })
}

macro_rules! transfers {
    ($($over:ty),*) => {$(
        impl $over {
            /// Starts sending bytes to a rank, which receives the same number with the same tag.
            /// Local. Messages with the same tag between two ranks do not overtake each other.
            ///
            /// # Errors
            /// [`GroupError::Mpi`], [`GroupError::Unsuitable`] for a rank that no MPI has.
            pub fn begin_send(
                &self,
                to: usize,
                bytes: Vec<u8>,
                tag: u16,
            ) -> Result<Transfer, GroupError> {
                begin_send(self.as_raw(), to, bytes, tag)
            }

            /// Starts receiving from a rank into the bytes of the vector, which gives their number.
            /// Local.
            ///
            /// # Errors
            /// As [`begin_send`](Self::begin_send).
            pub fn begin_receive(
                &self,
                from: usize,
                bytes: Vec<u8>,
                tag: u16,
            ) -> Result<Transfer, GroupError> {
                begin_receive(self.as_raw(), from, bytes, tag)
            }

            /// Waits for a message from any rank, which may then be received. Returns its sender.
            ///
            /// # Errors
            /// [`GroupError::Late`] and the errors of `check_peers`, [`GroupError::Mpi`].
            pub fn await_sender(
                &self,
                tag: u16,
                limits: &WaitLimits<'_>,
            ) -> Result<usize, GroupError> {
                await_sender(self.as_raw(), tag, limits)
            }
        }
    )*};
}

transfers!(Communicator, MpiGroup);
