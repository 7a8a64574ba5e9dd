//! What happens when the object is loaded, and when the process ends.

#![allow(unsafe_code)]

use crate::{boundary, objects, phases};

#[cfg(not(test))]
#[used]
#[unsafe(link_section = ".init_array")]
static START: extern "C" fn() = start;

#[cfg_attr(test, allow(dead_code))]
extern "C" fn start() {
    objects::refresh();
    boundary::start();
    phases::start();
}

/// MPI begins to be initialised.
pub fn mpi_begins() {}

/// MPI is ready.
pub fn mpi_ready() {}

/// MPI begins to be shut down.
pub fn mpi_ends() {}

/// MPI has been shut down.
pub fn mpi_ended() {}
