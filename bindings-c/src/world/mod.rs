//! The elastic world: the functions of `quo-elastic.h`.
//!
//! - this file: creating and ending a world, and the status of this process in it;
//! - [`options`]: options of a world;
//! - [`requests`]: requests for resizes, and the status of the job;
//! - [`events`]: the log of events;
//! - [`psets`]: process sets;
//! - [`window`]: a resize between begin and commit or abort;
//! - [`arrays`]: arrays that are moved by resizes;
//! - [`matrices`]: sparse matrices that are moved by resizes, and their vectors;
//! - [`run`]: the main loop, owned by the library;
//! - [`carry`]: data that the program moves itself, and lists of items such as particles;
//! - [`program`]: the functions of `quo-program.h`, which run arrays of elements;
//! - `error`: the code of each error.
#![allow(unsafe_code)]

pub mod arrays;
pub mod carry;
mod error;
pub mod events;
pub mod matrices;
mod open;
pub mod options;
pub mod program;
pub mod psets;
pub mod requests;
pub mod run;
pub mod window;

use std::ffi::{c_char, c_int, c_longlong};
use std::ptr;
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::Duration;

use elastic::data::Transport;
use elastic::{Status, Window, World};
use quo::Error;
use quo::group::{Group as _, WaitLimits};
use quo_mpi::Comm;
use quo_mpi::LaunchedPeers;
use quo_mpi::communicator::Communicator;

use crate::codes::Code;
use crate::create::{mpi_not_finalized, mpi_usable};
use crate::guard::{self, Failure, entry};
use crate::handle::{Handled, Held, Kind, Table};
use crate::types::{CommPtr, In, QUO_world_t, RawOut, int, text_for_c};
use open::Open;
pub(crate) use open::invalid_state;
pub use options::QUO_world_options_t;

static WORLDS: Table<Shared, 16> = Table::new();

impl Handled for Shared {
    const KIND: Kind = Kind { number: 5, name: "world" };
}

type Shared = Mutex<Open>;

/// Returns the world of a handle.
fn held(w: *mut QUO_world_t) -> Result<Held<Shared>, Failure> {
    let world = WORLDS.get(w.addr())?;
    mpi_not_finalized()?;
    Ok(world)
}

/// Locks a world, unless another thread is in a call of it.
fn alone(world: &Shared) -> Result<MutexGuard<'_, Open>, Failure> {
    match world.try_lock() {
        Ok(open) => Ok(open),
        Err(TryLockError::Poisoned(open)) => Ok(open.into_inner()),
        Err(TryLockError::WouldBlock) => Err(Failure::new(
            Code::Busy,
            "the world is in a call of another thread, or in this one",
        )),
    }
}

/// Calls `what` with the world of a handle.
pub(crate) fn with<T>(
    w: *mut QUO_world_t,
    what: impl FnOnce(&mut Open) -> Result<T, Failure>,
) -> Result<T, Failure> {
    let world = held(w)?;
    let mut open = alone(&world)?;
    what(&mut open)
}

/// Agrees that all processes launched together have valid and equal options, which `make` creates
/// for their number. Collective over them.
pub(crate) fn agree<T>(
    make: impl FnOnce(usize) -> Result<(T, (c_int, c_int)), Failure>,
) -> Result<T, Failure> {
    let peers = LaunchedPeers::of_world().map_err(Error::from)?;
    let check = || peers.check_liveness("create");
    let limits =
        WaitLimits { check_peers: &check, ..WaitLimits::for_at_most(Duration::from_secs(60)) };
    let world = Communicator::world_within(&limits).map_err(Error::from)?;
    let mine = make(world.size());
    let mut words = [0; 3];
    if let Ok((_, (start, most))) = &mine {
        words = [1, *start, *most];
    }
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
    let told = {
        let group = world.as_group().map_err(Error::from)?;
        group.allgather(&bytes, &limits).map_err(Error::from)?
    };
    world.free().map_err(Error::from)?;
    let (mine, _) = mine?;
    let differs = told.chunks_exact(bytes.len()).position(|other| other != bytes);
    match differs {
        None => Ok(mine),
        Some(rank) => {
            let text = format!(
                "rank {rank} gave other options, or wrong ones: initial_ranks and max_ranks are the same everywhere"
            );
            Err(Failure::new(Code::Disagree, text))
        }
    }
}

pub(crate) fn create_world(
    w: RawOut<*mut QUO_world_t>,
    given: In<QUO_world_options_t>,
) -> Result<(), Failure> {
    guard::stay_quiet();
    let place = w.checked_null("w");
    mpi_usable()?;
    let (place, options, messages) = agree(|launched| {
        let (place, wanted) = (place?, options::wanted(given, launched)?);
        Ok(((place, wanted.options, wanted.messages), wanted.same))
    })?;
    let mut world = World::create(options)?;
    if messages {
        world.data_mut().via(Transport::Messages);
    }
    let handle = WORLDS.insert(Mutex::new(Open::new(world)))?;
    place.set(ptr::without_provenance_mut(handle));
    Ok(())
}

#[unsafe(no_mangle)]
pub extern "C" fn QUO_world_create(
    w: RawOut<*mut QUO_world_t>,
    options: In<QUO_world_options_t>,
) -> c_int {
    entry("QUO_world_create", || create_world(w, options))
}

#[unsafe(no_mangle)]
pub extern "C" fn QUO_world_end(w: *mut QUO_world_t) -> c_int {
    entry("QUO_world_end", || {
        if w.is_null() {
            return Ok(());
        }
        // Looked up first, to distinguish a wrong handle from a late call.
        drop(held(w)?);
        events::deliver_events(w);
        let open = WORLDS.remove(w.addr())?;
        end(open)
    })
}

/// Ends a world that has been taken from the table.
fn end(open: Box<Shared>) -> Result<(), Failure> {
    match open.into_inner().unwrap_or_else(PoisonError::into_inner).into_world() {
        Some(world) => Ok(world.end()?),
        None => Ok(()),
    }
}

#[unsafe(no_mangle)]
pub extern "C" fn QUO_world_status(w: *mut QUO_world_t, out_status: RawOut<c_int>) -> c_int {
    entry("QUO_world_status", || {
        with(w, |open| {
            let place = out_status.checked("out_status")?;
            if open.is_serial() {
                place.set(0);
                return Ok(());
            }
            place.set(match open.world()?.status() {
                _ if open.has_window() && open.window().is_ok_and(Window::leaves) => 3,
                Status::New => 0,
                Status::Joining => 1,
                Status::Staying => 2,
                Status::Parked => 4,
                Status::Ended => 5,
            });
            Ok(())
        })
    })
}

fn number(
    w: *mut QUO_world_t,
    name: &str,
    out: RawOut<c_int>,
    serial: usize,
    what: impl FnOnce(&World) -> usize,
) -> Result<(), Failure> {
    with(w, |open| {
        let place = out.checked(name)?;
        place.set_number(if open.is_serial() { serial } else { what(open.world()?) })
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn QUO_world_rank(w: *mut QUO_world_t, out_rank: RawOut<c_int>) -> c_int {
    entry("QUO_world_rank", || {
        with(w, |open| {
            let place = out_rank.checked("out_rank")?;
            if open.is_serial() {
                return place.set_number(0);
            }
            let world = open.world()?;
            match world.status() {
                Status::New | Status::Staying => place.set_number(world.rank()),
                Status::Joining | Status::Parked | Status::Ended => {
                    place.set(quo_mpi::undefined());
                    Ok(())
                }
            }
        })
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn QUO_world_size(w: *mut QUO_world_t, out_size: RawOut<c_int>) -> c_int {
    entry("QUO_world_size", || number(w, "out_size", out_size, 1, World::size))
}

#[unsafe(no_mangle)]
pub extern "C" fn QUO_world_capacity(w: *mut QUO_world_t, out_most: RawOut<c_int>) -> c_int {
    entry("QUO_world_capacity", || number(w, "out_most", out_most, 1, World::capacity))
}

#[unsafe(no_mangle)]
pub extern "C" fn QUO_world_was_started(w: *mut QUO_world_t, out_started: RawOut<c_int>) -> c_int {
    entry("QUO_world_was_started", || {
        number(w, "out_started", out_started, 0, |world| usize::from(world.was_started()))
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn QUO_world_epoch(w: *mut QUO_world_t, out_epoch: RawOut<c_longlong>) -> c_int {
    entry("QUO_world_epoch", || {
        with(w, |open| {
            let place = out_epoch.checked("out_epoch")?;
            place.set(if open.is_serial() { 0 } else { open.world()?.epoch().cast_signed() });
            Ok(())
        })
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn QUO_world_node(w: *mut QUO_world_t, out_node: RawOut<c_int>) -> c_int {
    entry("QUO_world_node", || {
        with(w, |open| {
            let place = out_node.checked("out_node")?;
            if open.has_window() {
                return place.set_number(open.window()?.node());
            }
            place.set_number(open.world()?.node())
        })
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn QUO_world_back_end(w: *mut QUO_world_t, out_text: RawOut<*mut c_char>) -> c_int {
    entry("QUO_world_back_end", || {
        let place = out_text.checked_null("out_text");
        with(w, |open| {
            place?.set(text_for_c(&open.world()?.back_end().to_string())?);
            Ok(())
        })
    })
}

/// Stores the communicator of the world, which the world still owns.
pub(crate) fn communicator<P>(
    w: *mut QUO_world_t,
    place: Result<P, Failure>,
    store: impl FnOnce(P, Comm),
) -> Result<(), Failure> {
    with(w, |open| {
        let place = place?;
        if open.is_serial() {
            store(place, Comm::null());
            return Ok(());
        }
        store(place, open.world()?.communicator().map_or_else(Comm::null, Communicator::as_raw));
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn QUO_world_comm(w: *mut QUO_world_t, out_comm: CommPtr) -> c_int {
    entry("QUO_world_comm", || communicator(w, out_comm.checked("out_comm"), CommPtr::set))
}

#[unsafe(no_mangle)]
pub extern "C" fn QUO_world_probe(w: *mut QUO_world_t, out_enters: RawOut<c_int>) -> c_int {
    entry("QUO_world_probe", || {
        let brings = with(w, |open| {
            let place = out_enters.checked("out_enters");
            // A rank with a wrong argument still probes with the others.
            let enters = open.world_mut()?.probe()?;
            place?.set(c_int::from(enters));
            Ok(open.seen.has_handler())
        })?;
        if brings {
            events::deliver_events(w);
        }
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn QUO_world_wait(w: *mut QUO_world_t, out_joins: RawOut<c_int>) -> c_int {
    entry("QUO_world_wait", || {
        with(w, |open| {
            let place = out_joins.checked("out_joins")?;
            place.set(c_int::from(open.world_mut()?.wait()?));
            Ok(())
        })
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn QUO_world_report_iteration(w: *mut QUO_world_t, number: c_longlong) -> c_int {
    entry("QUO_world_report_iteration", || {
        with(w, |open| {
            let counted = u64::try_from(number)
                .map_err(|_| Failure::invalid(format!("iteration is {number}; give 0 or more")))?;
            open.world()?.report_iteration(counted);
            Ok(())
        })
    })
}

pub(crate) fn three(
    values: (usize, usize, usize),
    places: [RawOut<c_int>; 3],
) -> Result<(), Failure> {
    let values = [int(values.0)?, int(values.1)?, int(values.2)?];
    for (value, place) in values.into_iter().zip(places) {
        if let Some(place) = place.optional() {
            place.set(value);
        }
    }
    Ok(())
}
