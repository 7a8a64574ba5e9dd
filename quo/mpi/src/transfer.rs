//! Messages between two ranks that are on their way while the program does something else.
#![allow(unsafe_code)]

use std::ffi::{c_int, c_void};
use std::mem::ManuallyDrop;

use quo::group::{GroupError, WaitLimits};

use crate::communicator::Communicator;
use crate::operation::Operation;
use crate::{Comm, MpiGroup, is_running, raw};

/// The most bytes of one message of MPI, whose counts are ints; longer ones travel in pieces.
const PIECE: usize = 1 << 30;

/// A message on its way. Dropped before it is complete, its bytes are leaked: MPI may still use them.
#[derive(Debug)]
#[must_use = "a message is on its way until it is tested or waited for"]
pub struct Transfer {
    under_way: Vec<Operation>,
    bytes: ManuallyDrop<Vec<u8>>,
}

/// One piece: communicator, start, length, the other rank, tag.
type Begin =
    unsafe extern "C" fn(u64, *mut c_void, c_int, c_int, c_int, *mut *mut raw::Operation) -> c_int;

/// As [`raw::quo_mpi_isend`], with the address as receiving has it.
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
        // A message of nothing is one piece of nothing.
        for from in (0..length.max(1)).step_by(PIECE) {
            let count = (length - from).min(PIECE) as c_int;
            // SAFETY: inside of the bytes, or at the end of nothing.
            let piece = unsafe { start.add(from) }.cast::<c_void>();
            // SAFETY: the piece stays where it is until the operation is complete, or for ever: a vector that is
            // moved keeps its bytes, and `Drop` leaks them. Nobody looks at them before.
            let begun = Operation::begin(call, |out| unsafe {
                begin(comm.0, piece, count, rank, tag, out)
            });
            transfer.under_way.push(begun?);
        }
        transfer.under_way.reverse();
        Ok(transfer)
    }

    /// Returns true if it is complete. Local.
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

    /// Waits until it is complete, and gives the bytes: those that came, or those that were sent.
    ///
    /// # Errors
    /// [`GroupError::Late`] and what `check_peers` returns, [`GroupError::Mpi`].
    pub fn finish(mut self, limits: &WaitLimits<'_>) -> Result<Vec<u8>, GroupError> {
        while let Some(operation) = self.under_way.pop() {
            if let Err(error) = operation.wait(limits) {
                // MPI may go on with it.
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

/// Begins to send bytes to a rank. Local; the rank receives as many with the same tag.
fn begin_send(comm: Comm, to: usize, bytes: Vec<u8>, tag: u16) -> Result<Transfer, GroupError> {
    Transfer::begin("MPI_Isend", send, comm, to, bytes, tag)
}

/// Begins to receive as many bytes as the vector has.
fn begin_receive(
    comm: Comm,
    from: usize,
    bytes: Vec<u8>,
    tag: u16,
) -> Result<Transfer, GroupError> {
    Transfer::begin("MPI_Irecv", raw::quo_mpi_irecv, comm, from, bytes, tag)
}

macro_rules! transfers {
    ($($over:ty),*) => {$(
        impl $over {
            /// Begins to send bytes to a rank, which receives as many with the same tag. Local. Messages of one
            /// tag between two ranks do not overtake each other.
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

            /// Begins to receive from a rank, over the bytes of the vector and as many. Local.
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
        }
    )*};
}

transfers!(Communicator, MpiGroup);
