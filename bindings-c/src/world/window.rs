//! A resize between begin and commit or abort.
#![allow(unsafe_code)]

use std::ffi::c_int;

use elastic::data::Moved;
use quo_mpi::Comm;
use quo_mpi::communicator::Communicator;

use super::{Open, events, invalid_state, three, with};
use crate::codes::Code;
use crate::guard::{Failure, entry};
use crate::types::{Bytes, CommPtr, Growing, QUO_world_t, RawOut, Text};

#[unsafe(no_mangle)]
pub extern "C" fn QUO_world_begin(w: *mut QUO_world_t) -> c_int {
    entry("QUO_world_begin", || with(w, Open::begin))
}

/// Stores one of the communicators of the window.
pub(crate) fn window_communicator<P>(
    w: *mut QUO_world_t,
    which: c_int,
    place: Result<P, Failure>,
    store: impl FnOnce(P, Comm),
) -> Result<(), Failure> {
    with(w, |open| {
        let window = open.window()?;
        let raw = |comm: Option<&Communicator>| comm.map_or_else(Comm::null, Communicator::as_raw);
        let comm = match which {
            0 => window.all_ranks().as_raw(),
            1 => raw(window.old()),
            2 => raw(window.next()),
            // Collective: created before any other argument of this rank is found wrong.
            3 => window.intercommunicator()?.map_or_else(Comm::null, |between| between.as_raw()),
            other => {
                return Err(Failure::invalid(format!("{other} is not a QUO_window_comm_t")));
            }
        };
        store(place?, comm);
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn QUO_window_comm(w: *mut QUO_world_t, which: c_int, out_comm: CommPtr) -> c_int {
    entry("QUO_window_comm", || {
        window_communicator(w, which, out_comm.checked("out_comm"), CommPtr::set)
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn QUO_window_counts(
    w: *mut QUO_world_t,
    out_stay: RawOut<c_int>,
    out_leave: RawOut<c_int>,
    out_join: RawOut<c_int>,
) -> c_int {
    entry("QUO_window_counts", || {
        with(w, |open| three(open.window()?.counts(), [out_stay, out_leave, out_join]))
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn QUO_window_broadcast(w: *mut QUO_world_t, data: Bytes, length: usize) -> c_int {
    entry("QUO_window_broadcast", || {
        with(w, |open| {
            let window = open.window()?;
            let is_first = window.all_ranks().rank() == 0;
            let mine = data.read("data", length);
            // A rank with a wrong argument takes part, so that no rank waits for it.
            let given = if is_first { mine.as_deref().unwrap_or_default() } else { &[] };
            let told = window.broadcast_bytes(given.to_vec())?;
            mine?;
            if told.len() != length {
                let text =
                    format!("rank 0 tells {} bytes, this process wants {length}", told.len());
                return Err(Failure::new(Code::Disagree, text));
            }
            if !is_first {
                data.write(&told);
            }
            Ok(())
        })
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn QUO_window_move_data(w: *mut QUO_world_t) -> c_int {
    entry("QUO_window_move_data", || {
        with(w, |open| {
            open.window_mut()?.move_data()?;
            Ok(())
        })
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn QUO_window_move_begin(w: *mut QUO_world_t) -> c_int {
    entry("QUO_window_move_begin", || with(w, Open::begin_move))
}

#[unsafe(no_mangle)]
pub extern "C" fn QUO_window_move_test(w: *mut QUO_world_t, out_done: RawOut<c_int>) -> c_int {
    entry("QUO_window_move_test", || {
        with(w, |open| {
            let place = out_done.checked("out_done")?;
            place.set(c_int::from(open.moving()?.test()?));
            Ok(())
        })
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn QUO_window_move_end(w: *mut QUO_world_t) -> c_int {
    entry("QUO_window_move_end", || {
        with(w, |open| {
            open.take_move()?.finish()?;
            Ok(())
        })
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn QUO_world_commit(w: *mut QUO_world_t) -> c_int {
    entry("QUO_world_commit", || {
        let done = with(w, |open| Ok(open.take_window(true)?.commit(Ok(()))?));
        events::deliver_events(w);
        done
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn QUO_world_abort(w: *mut QUO_world_t, reason: Text) -> c_int {
    entry("QUO_world_abort", || {
        let done = with(w, |open| {
            let window = open.take_window(false)?;
            let reason = if reason.is_null() { None } else { reason.read("reason").ok() };
            let reason = reason.unwrap_or_else(|| "the program gives no reason".to_owned());
            match window.commit(Err(reason)) {
                Err(elastic::Error::Aborted { .. }) => Ok(()),
                Err(error) => Err(error.into()),
                Ok(()) => Err(invalid_state("a resize that was to be given up is done")),
            }
        });
        events::deliver_events(w);
        done
    })
}

#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct QUO_move_metrics_t {
    /// Size known to the caller.
    pub size: usize,
    /// Number of arrays and callbacks.
    pub arrays: usize,
    /// Number of steps of all schedules.
    pub steps: usize,
    /// Bytes that this process had for other processes.
    pub sent: usize,
    /// Bytes that this process copied from the memory of others.
    pub shared: usize,
    /// Bytes that stayed here.
    pub kept: usize,
    /// Bytes that all processes had for others.
    pub all_sent: usize,
    /// The part of those bytes that went through memory.
    pub all_shared: usize,
    /// Bytes that stayed where they were, on all processes.
    pub all_kept: usize,
    /// Seconds until all processes had agreed that the move is done.
    pub seconds: f64,
}

// SAFETY: repr(C), starts with its size, and all other fields are numbers.
unsafe impl Growing for QUO_move_metrics_t {
    const NAME: &'static str = "QUO_move_metrics_t";
}

impl From<&Moved> for QUO_move_metrics_t {
    fn from(moved: &Moved) -> Self {
        let bytes = |count: u64| usize::try_from(count).unwrap_or(usize::MAX);
        Self {
            size: size_of::<Self>(),
            arrays: moved.arrays,
            steps: moved.steps,
            sent: bytes(moved.sent),
            shared: bytes(moved.shared),
            kept: bytes(moved.kept),
            all_sent: bytes(moved.all_sent),
            all_shared: bytes(moved.all_shared),
            all_kept: bytes(moved.all_kept),
            seconds: moved.seconds,
        }
    }
}

#[unsafe(no_mangle)]
pub extern "C" fn QUO_world_last_move(
    w: *mut QUO_world_t,
    out_metrics: RawOut<QUO_move_metrics_t>,
) -> c_int {
    entry("QUO_world_last_move", || {
        with(w, |open| {
            let place = out_metrics.checked_sized("out_metrics")?;
            let moved = open.world()?.data().last_move();
            let moved =
                moved.ok_or_else(|| Failure::new(Code::NotFound, "nothing has been moved yet"))?;
            place.set(&QUO_move_metrics_t::from(moved));
            Ok(())
        })
    })
}
