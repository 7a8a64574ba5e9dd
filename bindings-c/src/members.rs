//! Members that leave and rejoin.
#![allow(unsafe_code, reason = "the functions are exported under their C names")]

use std::ffi::c_int;

use crate::codes::Code;
use crate::create::context;
use crate::guard::{entry, entry_with_code};
use crate::types::{QUO_t, RawOut, node_rank, numbers_for_c};

/// Returns the code of a call that changed something, or had nothing to do.
pub(crate) fn first_time(changed: bool) -> Code {
    if changed { Code::Success } else { Code::AlreadyDone }
}

#[unsafe(no_mangle)]
pub extern "C" fn QUO_detach(q: *mut QUO_t) -> c_int {
    entry_with_code("QUO_detach", || Ok(first_time(context(q)?.detach()?)))
}

#[unsafe(no_mangle)]
pub extern "C" fn QUO_attach(q: *mut QUO_t) -> c_int {
    entry_with_code("QUO_attach", || Ok(first_time(context(q)?.attach()?)))
}

#[unsafe(no_mangle)]
pub extern "C" fn QUO_dead_qids(
    q: *mut QUO_t,
    out_nqids: RawOut<c_int>,
    out_qids: RawOut<*mut c_int>,
) -> c_int {
    entry("QUO_dead_qids", || {
        let (number, list) = (out_nqids.checked("out_nqids"), out_qids.checked_null("out_qids"));
        if let Ok(number) = number {
            number.set(0);
        }
        let context = context(q)?;
        let (number, list) = (number?, list?);
        let dead = context.dead_node_ranks();
        list.set(numbers_for_c(&dead)?);
        number.set_number(dead.len())
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn QUO_expel(q: *mut QUO_t, qid: c_int) -> c_int {
    entry_with_code("QUO_expel", || {
        let context = context(q)?;
        let rank = node_rank(qid, context.node_size())?;
        Ok(first_time(context.expel(rank)?))
    })
}
