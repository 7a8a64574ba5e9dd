//! Contexts: creating and freeing them.
#![allow(unsafe_code)]

use std::ffi::c_int;
use std::ptr;

use quo::context::CreateOptions;
use quo::{Context, Error};
use quo_mpi::communicator::marked;
use quo_mpi::{Comm as MPI_Comm, MpiGroup, is_finalized, is_running, is_usable};

use crate::codes::Code;
use crate::failures;
use crate::guard::{self, Failure, entry, entry_with_code};
use crate::handle::{Handled, Held, Kind, Table};
use crate::types::{Growing, In, QUO_t, RawOut};

static CONTEXTS: Table<Context, 1024> = Table::new();

impl Handled for Context {
    const KIND: Kind = Kind { number: 1, name: "context" };
}

const NO_MT: c_int = 1;
const LEND: c_int = 2;
const IGNORE_QUOTA: c_int = 4;

#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct QUO_create_options_t {
    /// Size known to the caller.
    pub size: usize,
    pub flags: c_int,
}

// SAFETY: repr(C), starts with its size, and all other fields are numbers.
unsafe impl Growing for QUO_create_options_t {
    const NAME: &'static str = "QUO_create_options_t";
}

/// Checks that MPI is initialised and not finalised.
pub(crate) fn mpi_state() -> Result<(), Failure> {
    Ok(is_running().map_err(Error::from)?)
}

/// Like [`mpi_state`], and checks that MPI is the one that this library was built for. Until then
/// no handle of MPI may be used.
pub(crate) fn mpi_usable() -> Result<(), Failure> {
    Ok(is_usable().map_err(Error::from)?)
}

/// Checks only that MPI is not finalised, for handles: their owner has seen MPI initialised.
pub(crate) fn mpi_not_finalized() -> Result<(), Failure> {
    if is_finalized() { mpi_state() } else { Ok(()) }
}

/// Returns the context of a handle.
pub(crate) fn context(q: *mut QUO_t) -> Result<Held<Context>, Failure> {
    let context = CONTEXTS.get(q.addr())?;
    mpi_not_finalized()?;
    Ok(context)
}

/// Returns true if this is the handle of a context in use.
pub(crate) fn is_context(handle: usize) -> bool {
    CONTEXTS.get(handle).is_ok()
}

/// The caller's options, or the error in them; a rank with wrong arguments takes part in the
/// creation, so that it fails everywhere.
pub(crate) type Request = Result<CreateOptions, Failure>;

pub(crate) fn request(flags: c_int) -> Request {
    if flags & !(NO_MT | LEND | IGNORE_QUOTA) != 0 {
        return Err(Failure::invalid(format!("flags {flags:#x} ({flags}) hold an unknown flag")));
    }
    let options = CreateOptions::new().with_no_smt(flags & NO_MT != 0);
    Ok(options.with_lending(flags & LEND != 0).with_quota_ignored(flags & IGNORE_QUOTA != 0))
}

pub(crate) fn options_request(options: In<QUO_create_options_t>) -> Request {
    options.read()?.map_or(Ok(CreateOptions::new()), |options| request(options.flags))
}

pub(crate) fn create(
    out: RawOut<*mut QUO_t>,
    comm: MPI_Comm,
    request: Request,
) -> Result<(), Failure> {
    guard::stay_quiet();
    let place = out.checked_null("q");
    mpi_usable()?;
    let refused = |failure: &Failure| CreateOptions::new().with_refusal(failure.text());
    let options = match (&place, &request) {
        (Err(failure), _) | (_, Err(failure)) => refused(failure),
        (Ok(_), Ok(options)) => options.clone(),
    };
    // SAFETY: by the contract of the C interface the communicator is null or has not been freed.
    let tag = unsafe { marked(comm) };
    // Set if this process has joined a world whose other ranks have the context already.
    let waiting = if tag == 0 { None } else { Context::take_offered(tag) };
    let context = match waiting {
        Some(context) => context,
        None => {
            // SAFETY: as above.
            let group = unsafe { MpiGroup::from_raw(comm) }.map_err(Error::from)?;
            Context::create_with(group, options)?
        }
    };
    place?.set(keep_context(context)?);
    failures::watch();
    Ok(())
}

/// Stores a context and returns its handle.
pub(crate) fn keep_context(context: Context) -> Result<*mut QUO_t, Failure> {
    Ok(ptr::without_provenance_mut(CONTEXTS.insert(context)?))
}

#[unsafe(no_mangle)]
pub extern "C" fn QUO_create(q: RawOut<*mut QUO_t>, comm: MPI_Comm) -> c_int {
    entry("QUO_create", || create(q, comm, request(0)))
}

#[unsafe(no_mangle)]
pub extern "C" fn QUO_create_with_flags(
    q: RawOut<*mut QUO_t>,
    comm: MPI_Comm,
    flags: c_int,
) -> c_int {
    entry("QUO_create_with_flags", || create(q, comm, request(flags)))
}

#[unsafe(no_mangle)]
pub extern "C" fn QUO_create_with_options(
    q: RawOut<*mut QUO_t>,
    comm: MPI_Comm,
    options: In<QUO_create_options_t>,
) -> c_int {
    entry("QUO_create_with_options", || create(q, comm, options_request(options)))
}

#[unsafe(no_mangle)]
pub extern "C" fn QUO_free(q: *mut QUO_t) -> c_int {
    entry("QUO_free", || {
        if q.is_null() {
            return Ok(());
        }
        // Looked up first, to distinguish a wrong handle from a late call.
        drop(context(q)?);
        CONTEXTS.remove(q.addr())?.free()?;
        Ok(())
    })
}

pub(crate) fn adapt(q: *mut QUO_t, comm: MPI_Comm) -> Result<(), Failure> {
    let context = context(q)?;
    mpi_usable()?;
    // SAFETY: by the contract of the C interface the communicator is null or has not been freed.
    let group = unsafe { MpiGroup::from_raw(comm) }.map_err(Error::from)?;
    Ok(context.adapt(group)?)
}

#[unsafe(no_mangle)]
pub extern "C" fn QUO_adapt(q: *mut QUO_t, comm: MPI_Comm) -> c_int {
    entry("QUO_adapt", || adapt(q, comm))
}

#[unsafe(no_mangle)]
pub extern "C" fn QUO_retire(q: *mut QUO_t) -> c_int {
    entry_with_code("QUO_retire", || {
        let context = context(q)?;
        let is_news = !context.is_retired();
        context.retire()?;
        Ok(if is_news { Code::Success } else { Code::AlreadyDone })
    })
}
