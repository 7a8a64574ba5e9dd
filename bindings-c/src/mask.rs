//! Queries of the current bindings of ranks.
#![allow(unsafe_code, reason = "the functions are exported under their C names")]

use std::ffi::{c_char, c_int};

use crate::codes::Code;
use crate::create::context;
use crate::guard::{Failure, entry};
use crate::types::{
    QUO_t, RawOut, node_rank, numbers_for_c, object_index, object_type, text_for_c,
};

#[unsafe(no_mangle)]
pub extern "C" fn QUO_nqids(q: *mut QUO_t, out_nqids: RawOut<c_int>) -> c_int {
    entry("QUO_nqids", || {
        let context = context(q)?;
        out_nqids.checked("out_nqids")?.set_number(context.node_size())
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn QUO_id(q: *mut QUO_t, out_qid: RawOut<c_int>) -> c_int {
    entry("QUO_id", || {
        let context = context(q)?;
        out_qid.checked("out_qid")?.set_number(context.node_rank())
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn QUO_cpuset_in_type(
    q: *mut QUO_t,
    r#type: c_int,
    in_type_index: c_int,
    out_result: RawOut<c_int>,
) -> c_int {
    entry("QUO_cpuset_in_type", || {
        let context = context(q)?;
        let place = out_result.checked("out_result")?;
        let kind = object_type(r#type)?;
        let index = object_index(kind, in_type_index, context.count(kind))?;
        place.set(c_int::from(context.is_on(kind, index).map_err(Failure::of_index)?));
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn QUO_qids_in_type(
    q: *mut QUO_t,
    r#type: c_int,
    in_type_index: c_int,
    out_nqids: RawOut<c_int>,
    out_qids: RawOut<*mut c_int>,
) -> c_int {
    entry("QUO_qids_in_type", || {
        let (number, list) = (out_nqids.checked("out_nqids"), out_qids.checked_null("out_qids"));
        if let Ok(number) = number {
            number.set(0);
        }
        let context = context(q)?;
        let (number, list) = (number?, list?);
        let kind = object_type(r#type)?;
        let index = object_index(kind, in_type_index, context.count(kind))?;
        let ranks = context.ranks_on(kind, index).map_err(Failure::of_index)?;
        list.set(numbers_for_c(&ranks)?);
        number.set_number(ranks.len())
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn QUO_bound(q: *mut QUO_t, bound: RawOut<c_int>) -> c_int {
    entry("QUO_bound", || {
        let context = context(q)?;
        let place = bound.checked("bound")?;
        place.set(c_int::from(context.is_bound()?));
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn QUO_stringify_cbind(q: *mut QUO_t, cbind_str: RawOut<*mut c_char>) -> c_int {
    entry("QUO_stringify_cbind", || {
        let place = cbind_str.checked_null("cbind_str");
        let context = context(q)?;
        place?.set(text_for_c(&context.binding()?.to_string())?);
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn QUO_stringify_cbind_of(
    q: *mut QUO_t,
    qid: c_int,
    cbind_str: RawOut<*mut c_char>,
) -> c_int {
    entry("QUO_stringify_cbind_of", || {
        let place = cbind_str.checked_null("cbind_str");
        let context = context(q)?;
        let rank = node_rank(qid, context.node_size())?;
        place?.set(text_for_c(&context.binding_of(rank)?.to_string())?);
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn QUO_explain(q: *mut QUO_t, json: c_int, text: RawOut<*mut c_char>) -> c_int {
    entry("QUO_explain", || {
        let place = text.checked_null("text");
        let context = context(q)?;
        let place = place?;
        let explanation = context.explain()?;
        let text = if json == 0 {
            explanation.to_string()
        } else {
            let text = serde_json::to_string(&explanation);
            text.map_err(|error| Failure::new(Code::Error, error.to_string()))?
        };
        place.set(text_for_c(&text)?);
        Ok(())
    })
}
