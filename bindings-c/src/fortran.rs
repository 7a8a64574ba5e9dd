//! Variants for Fortran, with communicators as integers.
#![allow(unsafe_code)]

use std::ffi::{c_int, c_void};

use quo_mpi::{Comm, Fint};

use crate::collective::communicator;
use crate::create::{create, mpi_usable, request};
use crate::guard::{Failure, entry};
use crate::types::{FintPtr, QUO_t, RawOut, free_for_c};

fn create_from(q: RawOut<*mut QUO_t>, comm: Fint, flags: c_int) -> Result<(), Failure> {
    let _cleared = q.checked_null("q");
    // The number has no meaning while MPI is not running, nor for another MPI.
    mpi_usable()?;
    // SAFETY: the right MPI is running, and by the contract of the C interface the number is a handle.
    let comm = unsafe { Comm::from_fortran(comm) };
    create(q, comm, request(flags))
}

#[unsafe(no_mangle)]
pub extern "C" fn QUO_create_f2c(q: RawOut<*mut QUO_t>, comm: Fint) -> c_int {
    entry("QUO_create_f2c", || create_from(q, comm, 0))
}

#[unsafe(no_mangle)]
pub extern "C" fn QUO_create_with_flags_f2c(
    q: RawOut<*mut QUO_t>,
    comm: Fint,
    flags: c_int,
) -> c_int {
    entry("QUO_create_with_flags_f2c", || create_from(q, comm, flags))
}

#[unsafe(no_mangle)]
pub extern "C" fn QUO_get_mpi_comm_by_type_f2c(
    q: *mut QUO_t,
    target_type: c_int,
    out_comm: FintPtr,
) -> c_int {
    entry("QUO_get_mpi_comm_by_type_f2c", || {
        communicator(q, target_type, out_comm.checked("out_comm"), FintPtr::set)
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn QUO_ptr_free(p: *mut c_void) -> c_int {
    free_for_c(p);
    0
}
