//! Collective calls on a node. A rank with wrong arguments takes part as well: the others would
//! otherwise wait for a rank that returned at once.
#![allow(unsafe_code)]

use std::ffi::c_int;
use std::time::Duration;

use quo::context::Request;
use quo::group::Group;
use quo::plan::Policy;
use quo::{Context, Error};
use quo_mpi::{Comm, MpiGroup};

use crate::codes::Code;
use crate::create::context;
use crate::guard::{Failure, entry};
use crate::types::{CommPtr, QUO_t, RawOut, known_object_type, unknown_object_type};

/// Converts a time limit in seconds; more than a century means no limit in practice.
pub(crate) fn limit(seconds: f64) -> Result<Duration, Failure> {
    const CENTURY: f64 = 100.0 * 366.0 * 86_400.0;
    if seconds.is_nan() || seconds < 0.0 {
        return Err(Failure::invalid(format!("{seconds} seconds are no time to wait")));
    }
    Ok(Duration::from_secs_f64(seconds.min(CENTURY)))
}

#[unsafe(no_mangle)]
pub extern "C" fn QUO_barrier(q: *mut QUO_t) -> c_int {
    entry("QUO_barrier", || {
        context(q)?.barrier()?;
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn QUO_barrier_timed(q: *mut QUO_t, seconds: f64) -> c_int {
    entry("QUO_barrier_timed", || {
        let context = context(q)?;
        context.barrier_timeout(limit(seconds)?)?;
        Ok(())
    })
}

/// Takes part in a selection with arguments that have been found wrong, so that it fails on every
/// rank; returns the error to return here.
pub(crate) fn refuse_selection(context: &Context, failure: Failure) -> Failure {
    let request = Request { kind: None, max_per_object: 0, policy: Policy::Spread };
    match context.distribute_request(&request) {
        // The others get the error that the ranks disagree, and so does this rank.
        Err(error @ (Error::Disagreement { .. } | Error::DeadMember { .. })) => error.into(),
        _ => failure,
    }
}

fn select(
    q: *mut QUO_t,
    kind: c_int,
    most: c_int,
    policy: Option<c_int>,
    out: RawOut<c_int>,
) -> Result<(), Failure> {
    let context = context(q)?;
    let checked = out.checked("out_selected").and_then(|place| {
        let kind = known_object_type(kind).ok_or_else(|| unknown_object_type(kind))?;
        let policy = match policy {
            None => context.policy(),
            Some(0) => Policy::Spread,
            Some(1) => Policy::LibquoCompat,
            Some(other) => {
                return Err(Failure::invalid(format!("{other} is not a QUO_distrib_policy_t")));
            }
        };
        Ok((place, Request { kind: Some(kind), max_per_object: i64::from(most), policy }))
    });
    let (place, request) = match checked {
        Ok(checked) => checked,
        Err(failure) => return Err(refuse_selection(&context, failure)),
    };
    let distribution = context.distribute_request(&request)?;
    place.set(c_int::from(distribution.is_selected(context.node_rank())));
    Ok(())
}

#[unsafe(no_mangle)]
pub extern "C" fn QUO_auto_distrib(
    q: *mut QUO_t,
    distrib_over_this: c_int,
    max_qids_per_res_type: c_int,
    out_selected: RawOut<c_int>,
) -> c_int {
    entry("QUO_auto_distrib", || {
        select(q, distrib_over_this, max_qids_per_res_type, None, out_selected)
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn QUO_auto_distrib_with_policy(
    q: *mut QUO_t,
    distrib_over_this: c_int,
    max_qids_per_res_type: c_int,
    policy: c_int,
    out_selected: RawOut<c_int>,
) -> c_int {
    entry("QUO_auto_distrib_with_policy", || {
        select(q, distrib_over_this, max_qids_per_res_type, Some(policy), out_selected)
    })
}

/// Creates the communicator of the ranks around an object, owned by the caller from now on.
pub(crate) fn communicator<P>(
    q: *mut QUO_t,
    target_type: c_int,
    place: Result<P, Failure>,
    store: impl FnOnce(P, Comm),
) -> Result<(), Failure> {
    let context = context(q)?;
    let kind = if place.is_ok() { known_object_type(target_type) } else { None };
    let group = context.group_over_request(kind);
    let place = place?;
    if kind.is_none() {
        let failure = unknown_object_type(target_type);
        // The error that the other ranks get if only this rank is wrong, and the same here.
        return Err(group.err().map_or(failure, Failure::from));
    }
    store(place, take_communicator(group?)?);
    Ok(())
}

fn take_communicator(group: Box<dyn Group>) -> Result<Comm, Failure> {
    match group.into_any().downcast::<MpiGroup>() {
        Ok(group) => Ok(group.into_raw()),
        Err(_) => Err(Failure::new(Code::NotSupported, "the context is not made over MPI")),
    }
}

#[unsafe(no_mangle)]
pub extern "C" fn QUO_get_mpi_comm_by_type(
    q: *mut QUO_t,
    target_type: c_int,
    out_comm: CommPtr,
) -> c_int {
    entry("QUO_get_mpi_comm_by_type", || {
        communicator(q, target_type, out_comm.checked("out_comm"), CommPtr::set)
    })
}
