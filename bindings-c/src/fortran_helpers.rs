//! Functions needed only by the Fortran module.
#![allow(unsafe_code)]

use std::ffi::{c_int, c_void};

use quo_mpi::{Comm, Fint};

use crate::codes::Code;
use crate::create::{self, QUO_create_options_t, adapt, create, mpi_state, options_request};
use crate::guard::{self, entry};
use crate::types::{FintPtr, In, QUO_phase_t, QUO_t, QUO_world_t, RawOut, Text};
use crate::world::{self, window};
use crate::{barriers, phase, xpm};

#[unsafe(no_mangle)]
pub extern "C" fn QUO_create_with_options_f2c(
    q: RawOut<*mut QUO_t>,
    comm: Fint,
    options: In<QUO_create_options_t>,
) -> c_int {
    entry("QUO_create_with_options_f2c", || {
        let _cleared = q.checked_null("q");
        // The handle has no meaning while MPI is not running.
        mpi_state()?;
        // SAFETY: MPI is running, and by the contract of the C interface the number is a handle.
        let comm = unsafe { Comm::from_fortran(comm) };
        create(q, comm, options_request(options))
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn QUO_set_last_error(code: c_int, text: Text) -> c_int {
    entry("QUO_set_last_error", || {
        let text = text.read("text")?;
        // Texts begin with the name of the call.
        let call = text.split(':').next().unwrap_or_default();
        let known = Code::of_number(code).unwrap_or(Code::Error);
        guard::fail(call, known, code, &text);
        Ok(())
    });
    code
}

#[unsafe(no_mangle)]
pub extern "C" fn QUO_handle_in_use_f2c(handle: *const c_void) -> c_int {
    let handle = handle.addr();
    let is_in_use = create::is_context(handle)
        || phase::is_phase(handle)
        || barriers::is_barrier(handle)
        || xpm::is_memory(handle);
    c_int::from(is_in_use)
}

#[unsafe(no_mangle)]
pub extern "C" fn QUO_phase_release_f2c(phase: *mut QUO_phase_t) -> c_int {
    entry("QUO_phase_free", || phase::release(phase))
}

#[unsafe(no_mangle)]
pub extern "C" fn QUO_adapt_f2c(q: *mut QUO_t, comm: Fint) -> c_int {
    entry("QUO_adapt_f2c", || {
        // The handle has no meaning while MPI is not running.
        mpi_state()?;
        // SAFETY: as above.
        adapt(q, unsafe { Comm::from_fortran(comm) })
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn QUO_world_comm_f2c(w: *mut QUO_world_t, out_comm: FintPtr) -> c_int {
    entry("QUO_world_comm_f2c", || {
        world::communicator(w, out_comm.checked("out_comm"), FintPtr::set)
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn QUO_window_comm_f2c(
    w: *mut QUO_world_t,
    which: c_int,
    out_comm: FintPtr,
) -> c_int {
    entry("QUO_window_comm_f2c", || {
        window::window_communicator(w, which, out_comm.checked("out_comm"), FintPtr::set)
    })
}
