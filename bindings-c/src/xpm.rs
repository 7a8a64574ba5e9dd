//! Cross-process memory.
#![allow(unsafe_code, reason = "the functions are exported under their C names")]

use std::ffi::{c_int, c_void};
use std::ptr;

use quo::SharedMemory;

use crate::create::{context, mpi_state};
use crate::guard::{Failure, entry};
use crate::handle::{Handled, Held, Kind, Table};
use crate::types::{OutPtr, QUO_t, Qids, RawOut, quo_xpm_t};

static MEMORIES: Table<Memory, 4096> = Table::new();

impl Handled for Memory {
    const KIND: Kind = Kind { number: 4, name: "cross-process memory" };
}

/// Returns true if this is the handle of memory in use.
pub(crate) fn is_memory(handle: usize) -> bool {
    MEMORIES.get(handle).is_ok()
}

#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct QUO_xpm_view_t {
    /// First byte.
    pub base: *mut c_void,
    /// Length in bytes.
    pub extent: usize,
}

const NOWHERE: QUO_xpm_view_t = QUO_xpm_view_t { base: ptr::null_mut(), extent: 0 };

/// Memory held by C.
struct Memory {
    memory: SharedMemory,
    own: usize,
}

/// More bytes than possible: takes part in an allocation and makes it fail everywhere.
const REFUSED: usize = usize::MAX;

fn store(place: OutPtr<*mut quo_xpm_t>, memory: SharedMemory, own: usize) -> Result<(), Failure> {
    place.set(ptr::without_provenance_mut(MEMORIES.insert(Memory { memory, own })?));
    Ok(())
}

#[unsafe(no_mangle)]
pub extern "C" fn QUO_xpm_allocate(
    qc: *mut QUO_t,
    local_size: usize,
    new_xpm: RawOut<*mut quo_xpm_t>,
) -> c_int {
    entry("QUO_xpm_allocate", || {
        let place = new_xpm.checked_null("new_xpm");
        let context = context(qc)?;
        let bytes = if place.is_ok() { local_size } else { REFUSED };
        let memory = context.allocate(bytes);
        store(place?, memory?, context.node_rank())
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn QUO_xpm_allocate_by_qids(
    qc: *mut QUO_t,
    qids: Qids,
    nqids: c_int,
    local_size: usize,
    new_xpm: RawOut<*mut quo_xpm_t>,
) -> c_int {
    entry("QUO_xpm_allocate_by_qids", || {
        let place = new_xpm.checked_null("new_xpm");
        let context = context(qc)?;
        let ranks = qids.read(nqids, context.node_size(), context.node_rank())?;
        let bytes = if place.is_ok() { local_size } else { REFUSED };
        let memory = context.allocate_among(&ranks, bytes);
        store(place?, memory?, context.node_rank())
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn QUO_xpm_free(xpm: *mut quo_xpm_t) -> c_int {
    entry("QUO_xpm_free", || {
        if !xpm.is_null() {
            drop(MEMORIES.remove(xpm.addr())?);
        }
        Ok(())
    })
}

fn view(
    xpm: *mut quo_xpm_t,
    view: RawOut<QUO_xpm_view_t>,
    range: impl FnOnce(&Memory) -> (c_int, c_int),
) -> Result<(), Failure> {
    let place = view.checked("view");
    if let Ok(place) = place {
        place.set(NOWHERE);
    }
    let memory: Held<Memory> = MEMORIES.get(xpm.addr())?;
    mpi_state()?;
    let place = place?;
    let (first, last) = range(&memory);
    let ranks = usize::try_from(first).ok().zip(usize::try_from(last).ok());
    let ranks = ranks.filter(|(first, last)| first <= last);
    let piece = ranks.and_then(|(first, last)| memory.memory.range(first..=last));
    let piece = piece.ok_or_else(|| {
        let text = format!("qids {first} to {last} are no range of ranks that share this memory");
        Failure::invalid(text)
    })?;
    place.set(QUO_xpm_view_t { base: piece.as_ptr().cast(), extent: piece.len() });
    Ok(())
}

#[unsafe(no_mangle)]
pub extern "C" fn QUO_xpm_view_local(xpm: *mut quo_xpm_t, view: RawOut<QUO_xpm_view_t>) -> c_int {
    entry("QUO_xpm_view_local", || {
        self::view(xpm, view, |memory| {
            let own = c_int::try_from(memory.own).unwrap_or(-1);
            (own, own)
        })
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn QUO_xpm_view_by_qid(
    xpm: *mut quo_xpm_t,
    qid: c_int,
    view: RawOut<QUO_xpm_view_t>,
) -> c_int {
    entry("QUO_xpm_view_by_qid", || self::view(xpm, view, |_| (qid, qid)))
}

#[unsafe(no_mangle)]
pub extern "C" fn QUO_xpm_view_by_qid_range(
    xpm: *mut quo_xpm_t,
    qid_start: c_int,
    qid_end: c_int,
    view: RawOut<QUO_xpm_view_t>,
) -> c_int {
    entry("QUO_xpm_view_by_qid_range", || self::view(xpm, view, |_| (qid_start, qid_end)))
}
