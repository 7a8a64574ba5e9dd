//! Named barriers: several independent ones per node.
#![allow(unsafe_code)]

use std::ffi::c_int;
use std::{mem, ptr};

use quo::Context;
use quo::context::NamedBarrier;

use crate::collective::limit;
use crate::create::{context, mpi_not_finalized};
use crate::guard::{Failure, entry};
use crate::handle::{Handled, Held, Kind, Table};
use crate::types::{QUO_named_barrier_t, QUO_t, Qids, RawOut, Text};

static BARRIERS: Table<Barrier, 1024> = Table::new();

impl Handled for Barrier {
    const KIND: Kind = Kind { number: 3, name: "named barrier" };
}

const LONGEST_NAME: usize = 63;

/// A named barrier held by C; keeps its context from being freed. The fields are dropped in this
/// order, the barrier before its owner.
struct Barrier {
    barrier: NamedBarrier<'static>,
    _context: Held<Context>,
}

impl Barrier {
    fn new(name: &str, ranks: &[usize], context: Held<Context>) -> Result<Self, Failure> {
        let mut context = context;
        context.keep_for("named barrier", name);
        let barrier = context.named_barrier(name, ranks)?;
        // SAFETY: only the lifetime changes. The barrier borrows from the context, which stays
        // where it is and alive until `_context` is dropped, which is after the barrier.
        let barrier: NamedBarrier<'static> = unsafe { mem::transmute(barrier) };
        Ok(Self { barrier, _context: context })
    }
}

fn barrier(handle: *mut QUO_named_barrier_t) -> Result<Held<Barrier>, Failure> {
    let barrier = BARRIERS.get(handle.addr())?;
    mpi_not_finalized()?;
    Ok(barrier)
}

/// Returns true if this is the handle of a barrier in use.
pub(crate) fn is_barrier(handle: usize) -> bool {
    BARRIERS.get(handle).is_ok()
}

#[unsafe(no_mangle)]
pub extern "C" fn QUO_named_barrier_create(
    q: *mut QUO_t,
    name: Text,
    qids: Qids,
    nqids: c_int,
    out_barrier: RawOut<*mut QUO_named_barrier_t>,
) -> c_int {
    entry("QUO_named_barrier_create", || {
        let place = out_barrier.checked_null("out_barrier");
        let context = context(q)?;
        let place = place?;
        let name = name.read("name")?;
        if name.is_empty() || name.len() > LONGEST_NAME {
            let length = name.len();
            let text = format!("the name has {length} bytes, it may have 1 to {LONGEST_NAME}");
            return Err(Failure::invalid(text));
        }
        let ranks = if qids.is_null() {
            (0..context.node_size()).collect()
        } else {
            qids.read(nqids, context.node_size(), context.node_rank())?
        };
        let handle = BARRIERS.insert(Barrier::new(&name, &ranks, context)?)?;
        place.set(ptr::without_provenance_mut(handle));
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn QUO_named_barrier_wait(barrier: *mut QUO_named_barrier_t) -> c_int {
    entry("QUO_named_barrier_wait", || {
        self::barrier(barrier)?.barrier.wait()?;
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn QUO_named_barrier_wait_timed(
    barrier: *mut QUO_named_barrier_t,
    seconds: f64,
) -> c_int {
    entry("QUO_named_barrier_wait_timed", || {
        let barrier = self::barrier(barrier)?;
        barrier.barrier.wait_timeout(limit(seconds)?)?;
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn QUO_named_barrier_free(barrier: *mut QUO_named_barrier_t) -> c_int {
    entry("QUO_named_barrier_free", || {
        if barrier.is_null() {
            return Ok(());
        }
        drop(BARRIERS.remove(barrier.addr())?);
        Ok(())
    })
}
