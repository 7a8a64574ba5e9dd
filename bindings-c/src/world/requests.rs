//! Requests to resize the world, and the status of the job.
#![allow(unsafe_code)]

use std::ffi::{c_char, c_int, c_longlong};
use std::mem::offset_of;
use std::ptr;

use elastic::Progress;
use elastic::change::{Cause, CauseKind, Request, RequestId, RequestKind, Step};
use elastic::manager::Requests;

use super::options::{hosts, optional};
use super::{Open, invalid_state, with};
use crate::codes::Code;
use crate::collective::limit;
use crate::guard::{Failure, entry};
use crate::types::{Growing, In, QUO_world_t, RawOut, Text, text_for_c};

#[derive(Clone, Copy)]
#[repr(C)]
pub struct QUO_request_spec_t {
    /// Size known to the caller.
    pub size: usize,
    pub kind: c_int,
    /// Number of ranks.
    pub ranks: c_int,
    /// Number of nodes that the resource manager provides.
    pub nodes: c_int,
    /// Hosts to grow on, or NULL.
    pub on: Text,
    /// Hosts to leave, or NULL.
    pub from: Text,
    /// Time limit of the resize in seconds; 0 for none.
    pub grace: f64,
    /// Origin of the request, or NULL.
    pub origin: Text,
}

// SAFETY: repr(C), starts with its size, and all other fields are numbers and pointers that are
// checked when they are read.
unsafe impl Growing for QUO_request_spec_t {
    const NAME: &'static str = "QUO_request_spec_t";
}

#[derive(Clone, Copy)]
#[repr(C)]
pub struct QUO_progress_t {
    /// Size known to the caller.
    pub size: usize,
    /// Number of the iteration.
    pub iteration: c_longlong,
    /// Duration of the iteration in seconds.
    pub iteration_seconds: f64,
    /// Time in MPI divided by the time computing; -1: not measured.
    pub mpi_ratio: f64,
    /// Seconds until the end; -1: unknown.
    pub remaining_seconds: f64,
    /// Bytes of the rank that has the most; -1: not measured.
    pub bytes_per_rank: c_longlong,
}

// SAFETY: repr(C), starts with its size, and all other fields are numbers.
unsafe impl Growing for QUO_progress_t {
    const NAME: &'static str = "QUO_progress_t";
    const FIRST: usize = offset_of!(Self, bytes_per_rank);
}

/// Kinds of causes by their numbers in the header, from 1 on.
const CAUSES: [CauseKind; 14] = [
    CauseKind::NoCapacity,
    CauseKind::NotAllowed,
    CauseKind::Unsupported,
    CauseKind::Unreachable,
    CauseKind::SpawnFailed,
    CauseKind::JoinerLost,
    CauseKind::MemberLost,
    CauseKind::DataLost,
    CauseKind::Rejected,
    CauseKind::Deadline,
    CauseKind::Superseded,
    CauseKind::Cancelled,
    CauseKind::Manager,
    CauseKind::Other,
];

/// Returns the number of a kind of cause.
pub(super) fn number_of_cause(kind: CauseKind) -> c_int {
    let place = CAUSES.iter().position(|&known| known == kind).unwrap_or(CAUSES.len() - 1);
    c_int::try_from(place + 1).unwrap_or(0)
}

/// Returns the number of a step as a kind of event; three kinds are not steps.
pub(super) fn number_of_step(step: Step) -> c_int {
    let place = Step::ALL.iter().position(|&known| known == step).unwrap_or(0);
    c_int::try_from(place + 3).unwrap_or(0)
}

/// Returns the handle for requests; only rank 0 has one.
fn requests(open: &Open) -> Result<Requests, Failure> {
    open.world()?.requests().ok_or_else(|| invalid_state("requests go through rank 0"))
}

/// Converts a number of ranks or nodes.
fn number(name: &str, value: c_int, least: u32) -> Result<u32, Failure> {
    u32::try_from(value)
        .ok()
        .filter(|&value| value >= least)
        .ok_or_else(|| Failure::invalid(format!("{name} is {value}; give at least {least}")))
}

fn request(given: &QUO_request_spec_t) -> Result<Request, Failure> {
    let ranks = || number("ranks", given.ranks, 1);
    let wish = match given.kind {
        0 => RequestKind::Size(ranks()?),
        1 => RequestKind::Grow(ranks()?),
        2 => RequestKind::Shrink(ranks()?),
        3 => RequestKind::Leave,
        4 => RequestKind::Move,
        other => {
            return Err(Failure::invalid(format!("kind {other} is not a QUO_request_kind_t")));
        }
    };
    let origin = optional(given.origin, "origin")?;
    let mut request = Request::new(wish, origin.unwrap_or_else(|| "application".to_owned()));
    request.nodes = number("nodes", given.nodes, 0)?;
    request.on = hosts(given.on, "on")?;
    request.from = hosts(given.from, "from")?;
    let grace = limit(given.grace)?;
    request.grace = (!grace.is_zero()).then_some(grace);
    Ok(request)
}

/// Requests a resize and stores the numbers of the request and of the one before it.
fn ask(
    open: &Open,
    request: Request,
    out_request: RawOut<c_longlong>,
    out_after: RawOut<c_longlong>,
) -> Result<(), Failure> {
    let (id, answer) = match requests(open)?.ask(request) {
        Ok(accepted) => (accepted.request, Ok(accepted.after)),
        Err((id, cause)) => (id, Err(cause)),
    };
    if let Some(place) = out_request.optional() {
        place.set(id.0.cast_signed());
    }
    let after = answer.map_err(|cause| Failure::new(Code::Refused, cause.to_string()))?;
    if let Some(place) = out_after.optional() {
        place.set(after.map_or(0, |other| other.0.cast_signed()));
    }
    Ok(())
}

/// Converts a report; -1 means that a value was not measured.
fn measured(given: &QUO_progress_t) -> Result<Progress, Failure> {
    let number = given.iteration;
    let iteration = u64::try_from(number)
        .map_err(|_| Failure::invalid(format!("iteration is {number}; give 0 or more")))?;
    let known = |value: f64| (value != -1.0).then_some(value);
    let bytes_per_rank = match given.bytes_per_rank {
        // 0 is from a program compiled against a header without this field.
        -1 | 0 => None,
        bytes => {
            let wrong = |_| Failure::invalid(format!("bytes_per_rank is {bytes}: it is negative"));
            Some(u64::try_from(bytes).map_err(wrong)?)
        }
    };
    Ok(Progress {
        iteration,
        iteration_seconds: given.iteration_seconds,
        mpi_ratio: known(given.mpi_ratio),
        remaining_seconds: known(given.remaining_seconds),
        bytes_per_rank,
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn QUO_world_report_progress(
    w: *mut QUO_world_t,
    progress: In<QUO_progress_t>,
) -> c_int {
    entry("QUO_world_report_progress", || {
        with(w, |open| {
            let given = progress.read()?;
            let given = given.ok_or_else(|| Failure::invalid("the argument progress is NULL"))?;
            Ok(open.world()?.report(&measured(&given)?)?)
        })
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn QUO_world_request(
    w: *mut QUO_world_t,
    size: c_int,
    out_request: RawOut<c_longlong>,
) -> c_int {
    entry("QUO_world_request", || {
        with(w, |open| {
            let wanted = usize::try_from(size).ok().filter(|&wanted| wanted > 0);
            let wanted = wanted.ok_or_else(|| {
                Failure::invalid(format!("size is {size}, which is no number of ranks"))
            })?;
            let number = open.world()?.request(wanted)?;
            if let Some(place) = out_request.optional() {
                place.set(number.cast_signed());
            }
            Ok(())
        })
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn QUO_world_ask(
    w: *mut QUO_world_t,
    spec: In<QUO_request_spec_t>,
    out_request: RawOut<c_longlong>,
    out_after: RawOut<c_longlong>,
) -> c_int {
    entry("QUO_world_ask", || {
        with(w, |open| {
            let spec = spec.read()?;
            let spec = spec.ok_or_else(|| Failure::invalid("the argument spec is NULL"))?;
            ask(open, request(&spec)?, out_request, out_after)
        })
    })
}

/// Returns the latest step of a request.
fn step_of(open: &Open, request: c_longlong) -> Result<Step, Failure> {
    let step = requests(open)?.step_of(RequestId(request.cast_unsigned()));
    step.ok_or_else(|| Failure::new(Code::NotFound, format!("no request {request} is known")))
}

#[unsafe(no_mangle)]
pub extern "C" fn QUO_world_cancel(w: *mut QUO_world_t, request: c_longlong) -> c_int {
    entry("QUO_world_cancel", || {
        with(w, |open| {
            step_of(open, request)?;
            let cancelled = requests(open)?.cancel(RequestId(request.cast_unsigned()));
            cancelled.map_err(|reason| Failure::new(Code::Refused, reason))
        })
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn QUO_world_note(w: *mut QUO_world_t, cause: c_int, text: Text) -> c_int {
    entry("QUO_world_note", || {
        with(w, |open| {
            let kind = usize::try_from(cause).ok().and_then(|number| number.checked_sub(1));
            let kind = kind.and_then(|place| CAUSES.get(place)).ok_or_else(|| {
                Failure::invalid(format!("cause {cause} is none of QUO_cause_t that can be noted"))
            })?;
            requests(open)?.note(Cause::new(*kind, text.read("text")?));
            Ok(())
        })
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn QUO_world_request_step(
    w: *mut QUO_world_t,
    request: c_longlong,
    out_step: RawOut<c_int>,
) -> c_int {
    entry("QUO_world_request_step", || {
        with(w, |open| {
            let place = out_step.checked("out_step")?;
            place.set(number_of_step(step_of(open, request)?));
            Ok(())
        })
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn QUO_world_request_state(
    w: *mut QUO_world_t,
    request: c_longlong,
    out_state: RawOut<c_int>,
    out_cause: RawOut<*mut c_char>,
) -> c_int {
    entry("QUO_world_request_state", || {
        let cause = out_cause.optional();
        if let Some(cause) = cause {
            cause.set(ptr::null_mut());
        }
        with(w, |open| {
            let place = out_state.checked("out_state")?;
            let step = step_of(open, request)?;
            if let Some(cause) = cause {
                let mut ended = requests(open)?.events(0).into_iter();
                let number = RequestId(request.cast_unsigned());
                let ended = ended.rfind(|event| event.request == Some(number) && event.is_end());
                let reason = ended.and_then(|event| event.cause).map(|cause| cause.to_string());
                cause.set(text_for_c(&reason.unwrap_or_default())?);
            }
            place.set(match step {
                Step::Finalized => 1,
                step if step.is_end() => 2,
                _ => 0,
            });
            Ok(())
        })
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn QUO_world_job_status(
    w: *mut QUO_world_t,
    out_json: RawOut<*mut c_char>,
) -> c_int {
    entry("QUO_world_job_status", || {
        let place = out_json.checked_null("out_json");
        with(w, |open| {
            let report = serde_json::to_string(&requests(open)?.status());
            let report = report.map_err(|error| Failure::new(Code::Error, error.to_string()))?;
            place?.set(text_for_c(&report)?);
            Ok(())
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_of_causes_and_steps_count_without_gaps() {
        let causes: Vec<c_int> = CAUSES.iter().map(|&kind| number_of_cause(kind)).collect();
        assert_eq!(causes, (1..15).collect::<Vec<c_int>>());
        let steps: Vec<c_int> = Step::ALL.iter().map(|&step| number_of_step(step)).collect();
        assert_eq!(steps, (3..16).collect::<Vec<c_int>>());
    }
}
