//! Events of the world: queried one by one, or passed to a function of the program.
#![allow(unsafe_code)]

use std::ffi::{CString, c_char, c_double, c_int, c_longlong, c_void};

use elastic::change::{Event, Happening};

use super::requests::{number_of_cause, number_of_step};
use super::{Open, invalid_state, with};
use crate::guard::{Failure, Mark, entry};
use crate::types::{Growing, QUO_world_t, RawOut};

#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct QUO_event_t {
    /// Size known to the caller.
    pub size: usize,
    /// Number of the event, counted from 0.
    pub number: c_longlong,
    /// Seconds since the start of the job.
    pub time: c_double,
    pub kind: c_int,
    pub cause: c_int,
    /// The request; 0 for none.
    pub request: c_longlong,
    /// Epoch from this event on.
    pub epoch: c_longlong,
    /// Number of ranks from this event on.
    pub ranks: c_longlong,
    /// Number of ranks that the request leads to, -1 if undecided.
    pub target: c_longlong,
    /// Number of joiners, -1 if unknown.
    pub joining: c_longlong,
    /// Number of leavers.
    pub leaving: c_longlong,
    /// Probe at which all ranks enter.
    pub round: c_longlong,
    /// Bytes sent between ranks.
    pub bytes: c_longlong,
    /// Text of the cause.
    pub text: *const c_char,
    /// Whole event as a line of JSON.
    pub json: *const c_char,
}

// SAFETY: repr(C), starts with its size, and all other fields are numbers and pointers.
unsafe impl Growing for QUO_event_t {
    const NAME: &'static str = "QUO_event_t";
}

pub type QUO_event_handler_t = Option<unsafe extern "C" fn(*mut c_void, *const QUO_event_t)>;

/// Cursors over the events.
#[derive(Default)]
pub(super) struct Seen {
    /// The next event to be queried.
    next: u64,
    /// Texts of the event returned last.
    last: Option<Texts>,
    handler: Option<Handler>,
}

/// A function of the program.
#[derive(Clone, Copy)]
struct Handler {
    call: unsafe extern "C" fn(*mut c_void, *const QUO_event_t),
    data: *mut c_void,
    /// The next event for the function.
    next: u64,
    /// True while the function is being called.
    runs: bool,
}

/// Texts that an event points to.
struct Texts {
    text: CString,
    json: CString,
}

fn c_text(text: &str) -> CString {
    CString::new(text.replace('\0', " ")).unwrap_or_default()
}

/// Converts an event for C, with pointers into the texts.
fn for_c(event: &Event) -> (QUO_event_t, Texts) {
    let number = |value: u64| c_longlong::try_from(value).unwrap_or(c_longlong::MAX);
    let perhaps = |value: Option<u64>| value.map_or(-1, number);
    let cause = event.cause.as_ref();
    let texts = Texts {
        text: cause.map_or_else(CString::default, |cause| c_text(&cause.to_string())),
        json: c_text(&event.to_line()),
    };
    let given = QUO_event_t {
        size: size_of::<QUO_event_t>(),
        number: number(event.sequence),
        time: event.time().as_secs_f64(),
        kind: match event.what {
            Happening::Started => 0,
            Happening::Notice => 1,
            Happening::Overdue => 2,
            Happening::Step(step) => number_of_step(step),
        },
        cause: cause.map_or(0, |cause| number_of_cause(cause.kind)),
        request: event.request.map_or(0, |request| number(request.0)),
        epoch: number(event.epoch),
        ranks: number(event.size),
        target: perhaps(event.target),
        joining: perhaps(event.joining),
        leaving: perhaps(event.leaving),
        round: perhaps(event.round),
        bytes: perhaps(event.bytes),
        text: texts.text.as_ptr(),
        json: texts.json.as_ptr(),
    };
    (given, texts)
}

impl Seen {
    /// Returns true if there is a function to which events can be passed.
    pub(super) fn has_handler(&self) -> bool {
        self.handler.is_some_and(|handler| !handler.runs)
    }
}

impl Open {
    /// Returns the events from `since` on; empty if the world has none to show.
    fn events(&self, since: u64) -> Vec<Event> {
        let requests = self.world().ok().and_then(elastic::World::requests);
        requests.map(|requests| requests.events(since)).unwrap_or_default()
    }

    /// Takes the new events for the function of the program, which counts as running from now on.
    fn news(&mut self) -> Option<(Handler, Vec<Event>)> {
        let handler = self.seen.handler.filter(|handler| !handler.runs)?;
        let events = self.events(handler.next);
        let last = events.last()?.sequence;
        let taken = Handler { next: last + 1, runs: true, ..handler };
        self.seen.handler = Some(taken);
        Some((taken, events))
    }
}

/// Passes new events to the function of the program, while no call of the world is in progress: the
/// function may make calls itself.
pub(super) fn deliver_events(w: *mut QUO_world_t) {
    // A world that no longer exists has no events.
    while let Ok(Some((handler, events))) = with(w, |open| Ok(open.news())) {
        for event in &events {
            let (given, _texts) = for_c(event);
            let _outside = Mark::outside();
            // SAFETY: by the contract of the C interface the function takes these arguments, and
            // may be called until it is replaced; event and texts live until it returns.
            unsafe { (handler.call)(handler.data, &raw const given) };
        }
        let rested = with(w, |open| {
            if let Some(handler) = &mut open.seen.handler {
                handler.runs = false;
            }
            Ok(())
        });
        if rested.is_err() {
            return;
        }
    }
}

#[unsafe(no_mangle)]
pub extern "C" fn QUO_world_on_event(
    w: *mut QUO_world_t,
    handler: QUO_event_handler_t,
    data: *mut c_void,
) -> c_int {
    entry("QUO_world_on_event", || {
        with(w, |open| {
            open.seen.handler = handler.map(|call| Handler { call, data, next: 0, runs: false });
            Ok(())
        })
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn QUO_world_next_event(
    w: *mut QUO_world_t,
    out_event: RawOut<QUO_event_t>,
    out_found: RawOut<c_int>,
) -> c_int {
    entry("QUO_world_next_event", || with(w, |open| next_event(open, out_event, out_found)))
}

fn next_event(
    open: &mut Open,
    out_event: RawOut<QUO_event_t>,
    out_found: RawOut<c_int>,
) -> Result<(), Failure> {
    let found = out_found.checked("out_found")?;
    let place = out_event.checked_sized("out_event")?;
    if open.world()?.requests().is_none() {
        return Err(invalid_state("events are on rank 0"));
    }
    let event = open.events(open.seen.next).into_iter().next();
    found.set(c_int::from(event.is_some()));
    if let Some(event) = event {
        let (given, texts) = for_c(&event);
        place.set(&given);
        open.seen.last = Some(texts);
        open.seen.next = event.sequence + 1;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::ffi::CStr;

    use super::*;

    #[test]
    fn event_for_c_has_numbers_cause_and_line() {
        let line = r#"{"sequence":7,"time_us":1500000,"event":"aborted","request":2,"epoch":1,"size":4,"target":6,"cause":{"kind":"deadline"}}"#;
        let (event, texts) = for_c(&Event::from_line(line).unwrap());
        assert_eq!((event.number, event.kind, event.cause, event.request), (7, 15, 10, 2));
        assert_eq!((event.epoch, event.ranks, event.target, event.joining), (1, 4, 6, -1));
        assert!((event.time - 1.5).abs() < 1e-9);
        // SAFETY: `texts` holds the texts that the event points to.
        let (text, json) = unsafe { (CStr::from_ptr(event.text), CStr::from_ptr(event.json)) };
        assert_eq!(text, c"it took longer than allowed");
        assert_eq!((json.to_str().unwrap(), json), (line, texts.json.as_c_str()));
    }
}
