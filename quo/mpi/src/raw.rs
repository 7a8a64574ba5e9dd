//! The C functions, as declared in `quo_mpi.h`: keep the two in step.
#![allow(unsafe_code)]

use std::ffi::{c_char, c_int, c_void};

use quo::group::GroupError;

/// A non-blocking operation in C's memory.
#[repr(C)]
pub(crate) struct Operation {
    private: [u8; 0],
}

unsafe extern "C" {
    pub(crate) safe fn quo_mpi_built_family() -> c_int;
    pub(crate) safe fn quo_mpi_built_version() -> *const c_char;
    pub(crate) fn quo_mpi_library_version(text: *mut c_char) -> c_int;
    pub(crate) safe fn quo_mpi_offers_standard() -> c_int;
    pub(crate) fn quo_mpi_library_file(text: *mut c_char, bytes: usize);
    pub(crate) safe fn quo_mpi_is_initialized() -> c_int;
    pub(crate) safe fn quo_mpi_is_finalized() -> c_int;
    pub(crate) safe fn quo_mpi_text_length() -> c_int;
    pub(crate) fn quo_mpi_error_text(code: c_int, text: *mut c_char) -> c_int;
    #[cfg(test)]
    pub(crate) safe fn quo_mpi_handle_size() -> c_int;
    pub(crate) safe fn quo_mpi_undefined() -> c_int;
    pub(crate) safe fn quo_mpi_comm_null() -> u64;
    pub(crate) safe fn quo_mpi_is_comm_null(comm: u64) -> c_int;
    pub(crate) fn quo_mpi_comm_test_inter(comm: u64, inter: *mut c_int) -> c_int;
    pub(crate) fn quo_mpi_comm_rank(comm: u64, rank: *mut c_int) -> c_int;
    pub(crate) fn quo_mpi_comm_size(comm: u64, size: *mut c_int) -> c_int;
    pub(crate) fn quo_mpi_world_ranks(comm: u64, count: c_int, ranks: *mut c_int) -> c_int;
    pub(crate) fn quo_mpi_comm_let_errors_return(comm: u64) -> c_int;
    #[cfg(feature = "rsmpi")]
    pub(crate) fn quo_mpi_comm_let_errors_end(comm: u64) -> c_int;
    pub(crate) fn quo_mpi_comm_split(comm: u64, colour: c_int, key: c_int, part: *mut u64)
    -> c_int;
    pub(crate) fn quo_mpi_comm_free(comm: u64) -> c_int;
    pub(crate) fn quo_mpi_comm_idup(comm: u64, operation: *mut *mut Operation) -> c_int;
    pub(crate) fn quo_mpi_igather(
        comm: u64,
        mine: *const c_void,
        all: *mut c_void,
        bytes: c_int,
        operation: *mut *mut Operation,
    ) -> c_int;
    pub(crate) fn quo_mpi_icount(
        comm: u64,
        marks: *const c_int,
        own: *mut c_int,
        operation: *mut *mut Operation,
    ) -> c_int;
    pub(crate) fn quo_mpi_imin(
        comm: u64,
        mine: *const i64,
        all: *mut i64,
        count: c_int,
        operation: *mut *mut Operation,
    ) -> c_int;
    pub(crate) fn quo_mpi_test(operation: *mut Operation, done: *mut c_int) -> c_int;
    pub(crate) fn quo_mpi_operation_end(operation: *mut Operation) -> u64;
    pub(crate) fn quo_mpi_gatherv(
        comm: u64,
        mine: *const c_void,
        bytes: c_int,
        all: *mut c_void,
        counts: *const c_int,
        starts: *const c_int,
    ) -> c_int;
    pub(crate) fn quo_mpi_barrier(comm: u64) -> c_int;
    pub(crate) fn quo_mpi_comm_from_fortran(fortran: u64) -> u64;
    pub(crate) fn quo_mpi_load_comm(place: *const c_void) -> u64;
    pub(crate) fn quo_mpi_store_comm(comm: u64, place: *mut c_void);
    pub(crate) fn quo_mpi_store_fortran(comm: u64, place: *mut c_void);
    pub(crate) fn quo_mpi_isend(
        comm: u64,
        bytes: *const c_void,
        count: c_int,
        to: c_int,
        tag: c_int,
        operation: *mut *mut Operation,
    ) -> c_int;
    pub(crate) fn quo_mpi_irecv(
        comm: u64,
        bytes: *mut c_void,
        count: c_int,
        from: c_int,
        tag: c_int,
        operation: *mut *mut Operation,
    ) -> c_int;
    pub(crate) fn quo_mpi_iprobe(comm: u64, tag: c_int, from: *mut c_int) -> c_int;
    pub(crate) fn quo_mpi_ibarrier(comm: u64, operation: *mut *mut Operation) -> c_int;
    pub(crate) fn quo_mpi_ibcast(
        comm: u64,
        bytes: *mut c_void,
        count: c_int,
        root: c_int,
        operation: *mut *mut Operation,
    ) -> c_int;
    pub(crate) fn quo_mpi_comm_part(
        comm: u64,
        ranks: *const c_int,
        count: c_int,
        tag: c_int,
        part: *mut u64,
    ) -> c_int;
    pub(crate) fn quo_mpi_intercomm(
        local: u64,
        leader: c_int,
        peer: u64,
        other: c_int,
        tag: c_int,
        inter: *mut u64,
    ) -> c_int;
    pub(crate) fn quo_mpi_merge(inter: u64, high: c_int, merged: *mut u64) -> c_int;
    pub(crate) fn quo_mpi_comm_remote_size(inter: u64, size: *mut c_int) -> c_int;
    pub(crate) fn quo_mpi_comm_disconnect(comm: u64) -> c_int;
    pub(crate) fn quo_mpi_comm_self(own: *mut u64) -> c_int;
    pub(crate) fn quo_mpi_parent(parent: *mut u64) -> c_int;
    pub(crate) fn quo_mpi_spawn(
        own: u64,
        command: *const c_char,
        arguments: *mut *mut c_char,
        count: c_int,
        keys: *const *const c_char,
        values: *const *const c_char,
        pairs: c_int,
        inter: *mut u64,
    ) -> c_int;
    pub(crate) safe fn quo_mpi_port_length() -> c_int;
    pub(crate) fn quo_mpi_open_port(port: *mut c_char) -> c_int;
    pub(crate) fn quo_mpi_close_port(port: *const c_char) -> c_int;
    pub(crate) fn quo_mpi_accept(port: *const c_char, local: u64, inter: *mut u64) -> c_int;
    pub(crate) fn quo_mpi_connect(port: *const c_char, local: u64, inter: *mut u64) -> c_int;
    pub(crate) fn quo_mpi_universe(size: *mut c_int) -> c_int;
    pub(crate) fn quo_mpi_thread_level(level: *mut c_int) -> c_int;
    pub(crate) fn quo_mpi_mark(comm: u64, mark: u64) -> c_int;
    pub(crate) fn quo_mpi_marked(comm: u64) -> u64;
    pub(crate) fn quo_mpi_init_threads(level: c_int) -> c_int;
    pub(crate) fn quo_mpi_init() -> c_int;
    pub(crate) fn quo_mpi_finalize() -> c_int;
    pub(crate) safe fn quo_mpi_comm_world() -> u64;
    pub(crate) fn quo_mpi_at_finalize(call: extern "C" fn()) -> c_int;
    pub(crate) fn quo_mpi_abort(status: c_int);
}

/// Converts MPI's code into a result; an error has MPI's own text.
pub(crate) fn succeed(call: &'static str, code: i32) -> Result<(), GroupError> {
    if code == 0 {
        return Ok(());
    }
    let mut text = vec![0_u8; usize::try_from(quo_mpi_text_length()).unwrap_or(0).max(1)];
    // SAFETY: the buffer has the length that MPI requires.
    let length = unsafe { quo_mpi_error_text(code, text.as_mut_ptr().cast()) };
    text.truncate(usize::try_from(length).unwrap_or(0));
    Err(GroupError::Mpi { call, text: String::from_utf8_lossy(&text).into_owned() })
}
