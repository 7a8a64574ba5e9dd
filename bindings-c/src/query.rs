//! Queries of the machine.
#![allow(unsafe_code, reason = "the functions are exported under their C names")]

use std::ffi::{c_char, c_int};

use quo::ObjectType;

use crate::create::context;
use crate::guard::{Failure, entry};
use crate::types::{QUO_t, RawOut, object_index, object_type, text_for_c};

fn count(
    call: &'static str,
    argument: &str,
    q: *mut QUO_t,
    out: RawOut<c_int>,
    kind: impl FnOnce() -> Result<ObjectType, Failure>,
) -> c_int {
    entry(call, || {
        let context = context(q)?;
        let place = out.checked(argument)?;
        place.set_number(context.count(kind()?))
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn QUO_nobjs_by_type(
    q: *mut QUO_t,
    target_type: c_int,
    out_nobjs: RawOut<c_int>,
) -> c_int {
    count("QUO_nobjs_by_type", "out_nobjs", q, out_nobjs, || object_type(target_type))
}

#[unsafe(no_mangle)]
pub extern "C" fn QUO_nnumanodes(q: *mut QUO_t, out_nnumanodes: RawOut<c_int>) -> c_int {
    count("QUO_nnumanodes", "out_nnumanodes", q, out_nnumanodes, || Ok(ObjectType::NumaNode))
}

#[unsafe(no_mangle)]
pub extern "C" fn QUO_nsockets(q: *mut QUO_t, out_nsockets: RawOut<c_int>) -> c_int {
    count("QUO_nsockets", "out_nsockets", q, out_nsockets, || Ok(ObjectType::Package))
}

#[unsafe(no_mangle)]
pub extern "C" fn QUO_ncores(q: *mut QUO_t, out_ncores: RawOut<c_int>) -> c_int {
    count("QUO_ncores", "out_ncores", q, out_ncores, || Ok(ObjectType::Core))
}

#[unsafe(no_mangle)]
pub extern "C" fn QUO_npus(q: *mut QUO_t, out_npus: RawOut<c_int>) -> c_int {
    count("QUO_npus", "out_npus", q, out_npus, || Ok(ObjectType::Pu))
}

#[unsafe(no_mangle)]
pub extern "C" fn QUO_nnodes(q: *mut QUO_t, out_nodes: RawOut<c_int>) -> c_int {
    entry("QUO_nnodes", || {
        let context = context(q)?;
        out_nodes.checked("out_nodes")?.set_number(context.node_count())
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn QUO_nobjs_in_type_by_type(
    q: *mut QUO_t,
    in_type: c_int,
    in_type_index: c_int,
    r#type: c_int,
    out_result: RawOut<c_int>,
) -> c_int {
    entry("QUO_nobjs_in_type_by_type", || {
        let context = context(q)?;
        let place = out_result.checked("out_result")?;
        let (outer, inner) = (object_type(in_type)?, object_type(r#type)?);
        let index = object_index(outer, in_type_index, context.count(outer))?;
        let inside = context.count_inside(outer, index, inner).map_err(Failure::of_index)?;
        place.set_number(inside)
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn QUO_cpuset_of_type(
    q: *mut QUO_t,
    r#type: c_int,
    type_index: c_int,
    out_list: RawOut<*mut c_char>,
) -> c_int {
    entry("QUO_cpuset_of_type", || {
        let place = out_list.checked_null("out_list");
        let context = context(q)?;
        let kind = object_type(r#type)?;
        let index = object_index(kind, type_index, context.count(kind))?;
        let object = context.object(kind, index).map_err(Failure::of_index)?;
        place?.set(text_for_c(&object.cpuset.to_string())?);
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn QUO_ncore_kinds(q: *mut QUO_t, out_nkinds: RawOut<c_int>) -> c_int {
    entry("QUO_ncore_kinds", || {
        let context = context(q)?;
        out_nkinds.checked("out_nkinds")?.set_number(context.topology().core_kinds().len())
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn QUO_core_kind(
    q: *mut QUO_t,
    index: c_int,
    out_speed: RawOut<c_int>,
    out_list: RawOut<*mut c_char>,
) -> c_int {
    entry("QUO_core_kind", || {
        let (speed, list) = (out_speed.checked("out_speed"), out_list.checked_null("out_list"));
        let context = context(q)?;
        let (speed, list) = (speed?, list?);
        let machine = context.topology();
        let kinds = machine.core_kinds();
        let kind = usize::try_from(index).ok().and_then(|index| kinds.get(index));
        let kind = kind.ok_or_else(|| {
            let count = kinds.len();
            Failure::invalid(format!("there is no kind of cores {index}: the machine has {count}"))
        })?;
        let text = text_for_c(&kind.cpuset.to_string())?;
        speed.set(c_int::try_from(kind.speed).unwrap_or(c_int::MAX));
        list.set(text);
        Ok(())
    })
}
