//! Process sets over a running world.
#![allow(unsafe_code)]

use std::ffi::{c_char, c_double, c_int, c_longlong, c_void};
use std::time::Duration;

use elastic::Acceptance;
use elastic::change::ChangeKind;
use elastic::member::MemberId;
use elastic::sets::{AttributeChange, Operation, Outcome, SetName, SetOp};

use super::options::{lines, optional};
use super::requests::number_of_step;
use super::{invalid_state, with};
use crate::codes::Code;
use crate::collective::limit;
use crate::guard::{Failure, entry};
use crate::types::{
    Bytes, Growing, In, Longs, QUO_world_t, RawOut, Text, bytes_for_c, ids_for_c, int, text_for_c,
};

#[derive(Clone, Copy)]
#[repr(C)]
pub struct QUO_pset_change_t {
    /// Size known to the caller.
    pub size: usize,
    /// 1: only the application changes the members; -1: resizes do, too; 0: unchanged.
    pub active: c_int,
    /// Hints, one per line, or NULL.
    pub hints: Text,
}

// SAFETY: repr(C), starts with its size, and all other fields are numbers and pointers that are
// checked when they are read.
unsafe impl Growing for QUO_pset_change_t {
    const NAME: &'static str = "QUO_pset_change_t";
}

#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct QUO_pset_info_t {
    /// Size known to the caller.
    pub size: usize,
    /// True if only the application changes the members.
    pub active: c_int,
    /// True if this process joined while the job was running.
    pub dynamic: c_int,
    /// True if this process is in the set.
    pub included: c_int,
    /// Number of members.
    pub members: c_longlong,
    /// Number of changes of the members.
    pub version: c_longlong,
    /// Epoch of the resize that last changed it.
    pub epoch: c_longlong,
}

// SAFETY: repr(C), starts with its size, and all other fields are numbers.
unsafe impl Growing for QUO_pset_info_t {
    const NAME: &'static str = "QUO_pset_info_t";
}

#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct QUO_pset_view_t {
    /// Size known to the caller.
    pub size: usize,
    pub kind: c_int,
    /// True if this process is in the delta.
    pub included: c_int,
    /// `QUO_event_kind_t`, or 0.
    pub step: c_int,
    /// The request, or 0.
    pub request: c_longlong,
}

// SAFETY: repr(C), starts with its size, and all other fields are numbers.
unsafe impl Growing for QUO_pset_view_t {
    const NAME: &'static str = "QUO_pset_view_t";
}

/// Parses the name of a set.
fn set_name(text: Text, name: &str) -> Result<SetName, Failure> {
    SetName::new(text.read(name)?).map_err(|error| Failure::invalid(error.to_string()))
}

fn change(given: In<QUO_pset_change_t>) -> Result<AttributeChange, Failure> {
    let mut change = AttributeChange::none();
    let Some(given) = given.read()? else { return Ok(change) };
    change.active = (given.active != 0).then_some(given.active > 0);
    for line in lines(&optional(given.hints, "hints")?.unwrap_or_default()) {
        let (key, value) = match line.split_once('=') {
            Some((key, value)) => (key.to_owned(), Some(value.to_owned())),
            None => (line, None),
        };
        change.hints.insert(key, value);
    }
    Ok(change)
}

fn number(value: u64) -> c_longlong {
    c_longlong::try_from(value).unwrap_or(c_longlong::MAX)
}

/// Converts names for C, one per line.
fn names_for_c(names: &[SetName]) -> Result<*mut c_char, Failure> {
    text_for_c(&names.iter().map(SetName::as_str).collect::<Vec<_>>().join("\n"))
}

fn unexpected(outcome: &Outcome) -> Failure {
    Failure::new(Code::Error, format!("unexpected reply: {outcome:?}"))
}

#[unsafe(no_mangle)]
pub extern "C" fn QUO_pset_member(w: *mut QUO_world_t, out_member: RawOut<c_longlong>) -> c_int {
    entry("QUO_pset_member", || {
        with(w, |open| {
            let place = out_member.checked("out_member")?;
            let member = open.sets()?.member()?;
            place.set(member.map_or(-1, |member| number(member.0)));
            Ok(())
        })
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn QUO_pset_names(w: *mut QUO_world_t, out_names: RawOut<*mut c_char>) -> c_int {
    entry("QUO_pset_names", || {
        let place = out_names.checked_null("out_names");
        with(w, |open| {
            place?.set(names_for_c(&open.sets()?.names()?)?);
            Ok(())
        })
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn QUO_pset_info(
    w: *mut QUO_world_t,
    set: Text,
    out_info: RawOut<QUO_pset_info_t>,
) -> c_int {
    entry("QUO_pset_info", || {
        with(w, |open| {
            let (set, place) = (set_name(set, "set")?, out_info.checked_sized("out_info")?);
            let info = open.sets()?.info(&set)?;
            place.set(&QUO_pset_info_t {
                size: size_of::<QUO_pset_info_t>(),
                active: c_int::from(info.active),
                dynamic: c_int::from(info.dynamic),
                included: c_int::from(info.included),
                members: number(info.size),
                version: number(info.version),
                epoch: number(info.epoch),
            });
            Ok(())
        })
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn QUO_pset_hint(
    w: *mut QUO_world_t,
    set: Text,
    key: Text,
    out_value: RawOut<*mut c_char>,
) -> c_int {
    entry("QUO_pset_hint", || {
        let place = out_value.checked_null("out_value");
        with(w, |open| {
            let (set, key, place) = (set_name(set, "set")?, key.read("key")?, place?);
            let info = open.sets()?.info(&set)?;
            let value = info.hints.get(&key).ok_or_else(|| {
                Failure::new(Code::NotFound, format!("process set {set} has no hint {key:?}"))
            })?;
            place.set(text_for_c(value)?);
            Ok(())
        })
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn QUO_pset_members(
    w: *mut QUO_world_t,
    set: Text,
    out_members: RawOut<*mut c_longlong>,
    out_count: RawOut<c_int>,
) -> c_int {
    entry("QUO_pset_members", || {
        let place = out_members.checked_null("out_members");
        with(w, |open| {
            let (set, place, count) =
                (set_name(set, "set")?, place?, out_count.checked("out_count")?);
            let members = open.sets()?.members(&set)?;
            let members: Vec<u64> = members.iter().map(|member| member.0).collect();
            count.set(int(members.len())?);
            place.set(ids_for_c(&members)?);
            Ok(())
        })
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn QUO_pset_operate(
    w: *mut QUO_world_t,
    op: c_int,
    first: Text,
    second: Text,
    target: Text,
    attributes: In<QUO_pset_change_t>,
    out_set: RawOut<*mut c_char>,
) -> c_int {
    entry("QUO_pset_operate", || {
        if let Some(place) = out_set.optional() {
            place.set(std::ptr::null_mut());
        }
        with(w, |open| {
            let op = match op {
                0 => SetOp::Union,
                1 => SetOp::Difference,
                2 => SetOp::Intersection,
                other => {
                    return Err(Failure::invalid(format!("op {other} is not a QUO_pset_op_t")));
                }
            };
            let (first, second) = (set_name(first, "first")?, set_name(second, "second")?);
            let target = if target.is_null() { None } else { Some(set_name(target, "target")?) };
            let attributes = change(attributes)?;
            let made = open.sets()?.operate(op, &first, &second, target.as_ref(), &attributes)?;
            if let Some(place) = out_set.optional() {
                place.set(text_for_c(made.as_str())?);
            }
            Ok(())
        })
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn QUO_pset_update(
    w: *mut QUO_world_t,
    set: Text,
    attributes: In<QUO_pset_change_t>,
) -> c_int {
    entry("QUO_pset_update", || {
        with(w, |open| {
            let (target, attributes) = (set_name(set, "set")?, change(attributes)?);
            open.sets()?.apply(Operation::Update { target, attributes })?;
            Ok(())
        })
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn QUO_pset_split(
    w: *mut QUO_world_t,
    set: Text,
    sizes: Longs,
    count: c_int,
    below: Text,
    out_names: RawOut<*mut c_char>,
) -> c_int {
    entry("QUO_pset_split", || {
        if let Some(place) = out_names.optional() {
            place.set(std::ptr::null_mut());
        }
        with(w, |open| {
            // The process that answers identifies the caller.
            let split = Operation::Split {
                caller: MemberId(0),
                set: set_name(set, "set")?,
                sizes: sizes.read("sizes", count)?,
                below: set_name(below, "below")?,
            };
            let names = match open.sets()?.apply(split)? {
                Outcome::Sets(names) => names,
                other => return Err(unexpected(&other)),
            };
            if let Some(place) = out_names.optional() {
                place.set(names_for_c(&names)?);
            }
            Ok(())
        })
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn QUO_pset_prune(w: *mut QUO_world_t, set: Text) -> c_int {
    entry("QUO_pset_prune", || {
        with(w, |open| {
            let set = set_name(set, "set")?;
            open.sets()?.apply(Operation::Prune { set })?;
            Ok(())
        })
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn QUO_pset_publish(
    w: *mut QUO_world_t,
    set: Text,
    key: Text,
    data: Bytes,
    length: usize,
    out_version: RawOut<c_longlong>,
) -> c_int {
    entry("QUO_pset_publish", || {
        with(w, |open| {
            let (set, key) = (set_name(set, "set")?, key.read("key")?);
            let version = open.sets()?.publish(&set, &key, &data.read("data", length)?)?;
            if let Some(place) = out_version.optional() {
                place.set(number(version));
            }
            Ok(())
        })
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn QUO_pset_withdraw(w: *mut QUO_world_t, set: Text, key: Text) -> c_int {
    entry("QUO_pset_withdraw", || {
        with(w, |open| {
            let (set, key) = (set_name(set, "set")?, key.read("key")?);
            open.sets()?.apply(Operation::Withdraw { set, key })?;
            Ok(())
        })
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn QUO_pset_lookup(
    w: *mut QUO_world_t,
    set: Text,
    key: Text,
    wait: c_double,
    out_data: RawOut<*mut c_void>,
    out_length: RawOut<usize>,
    out_version: RawOut<c_longlong>,
    out_publisher: RawOut<c_longlong>,
) -> c_int {
    entry("QUO_pset_lookup", || {
        let data = out_data.checked_null("out_data");
        with(w, |open| {
            let (set, key, data) = (set_name(set, "set")?, key.read("key")?, data?);
            let length = out_length.checked("out_length")?;
            let found = open.sets()?.lookup(&set, &key, limit(wait)?)?;
            let found = found.ok_or_else(|| {
                let text =
                    format!("timed out after {wait} seconds: set {set} has no value under {key:?}");
                Failure::new(Code::Timeout, text)
            })?;
            data.set(bytes_for_c(&found.value)?);
            length.set(found.value.len());
            let told = [(out_version, found.version), (out_publisher, found.publisher.0)];
            for (place, value) in told {
                if let Some(place) = place.optional() {
                    place.set(number(value));
                }
            }
            Ok(())
        })
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn QUO_pset_query(
    w: *mut QUO_world_t,
    bound: Text,
    out_view: RawOut<QUO_pset_view_t>,
    out_delta: RawOut<*mut c_char>,
) -> c_int {
    entry("QUO_pset_query", || {
        if let Some(place) = out_delta.optional() {
            place.set(std::ptr::null_mut());
        }
        with(w, |open| {
            let (bound, place) = (set_name(bound, "bound")?, out_view.checked_sized("out_view")?);
            let view = open.sets()?.query(&bound)?;
            if let Some(place) = out_delta.optional() {
                place.set(text_for_c(view.delta.as_ref().map_or("", SetName::as_str))?);
            }
            place.set(&QUO_pset_view_t {
                size: size_of::<QUO_pset_view_t>(),
                kind: match view.kind {
                    ChangeKind::Null => 0,
                    ChangeKind::Add => 1,
                    ChangeKind::Sub => 2,
                    ChangeKind::Replace => 3,
                },
                included: c_int::from(view.included),
                step: view.status.map_or(0, number_of_step),
                request: view.id.map_or(0, |id| number(id.0)),
            });
            Ok(())
        })
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn QUO_world_accept(
    w: *mut QUO_world_t,
    delta: Text,
    set: Text,
    wait: c_double,
    out_acceptance: RawOut<c_int>,
    out_set: RawOut<*mut c_char>,
) -> c_int {
    entry("QUO_world_accept", || {
        if let Some(place) = out_set.optional() {
            place.set(std::ptr::null_mut());
        }
        with(w, |open| {
            let place = out_acceptance.checked("out_acceptance");
            // Arguments of ranks other than 0 are ignored. A rank with wrong arguments still takes
            // part: rank 0 does so with a set that is not a delta, which is refused on all ranks.
            let nothing = || (SetName::world(), SetName::world(), Duration::ZERO);
            let given = if open.world()?.rank() == 0 {
                set_name(delta, "delta")
                    .and_then(|delta| Ok((delta, set_name(set, "set")?, limit(wait)?)))
            } else {
                Ok(nothing())
            };
            let (delta, set, wait) = given.as_ref().map_or_else(|_| nothing(), Clone::clone);
            let acceptance =
                open.with_sets(|world, sets| world.probe_accepting_for(sets, &delta, &set, wait));
            given?;
            let acceptance = acceptance?;
            let (number, name) = match &acceptance {
                Acceptance::Pending => (0, ""),
                Acceptance::Enters { set } => (1, set.as_str()),
                Acceptance::Aborted => (2, ""),
            };
            if let Some(place) = out_set.optional() {
                place.set(text_for_c(name)?);
            }
            place?.set(number);
            Ok(())
        })
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn QUO_world_confirm(
    w: *mut QUO_world_t,
    wait: c_double,
    out_set: RawOut<*mut c_char>,
) -> c_int {
    entry("QUO_world_confirm", || {
        let place = out_set.checked_null("out_set");
        with(w, |open| {
            if open.has_window() {
                return Err(invalid_state("a process confirms before QUO_world_begin"));
            }
            let (place, wait) = (place?, limit(wait)?);
            let set = open.with_sets(|world, sets| world.confirm(sets, wait))?;
            place.set(text_for_c(set.as_str())?);
            Ok(())
        })
    })
}
