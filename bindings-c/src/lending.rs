//! CPUs of waiting ranks, lent to threaded ones.
#![allow(unsafe_code, reason = "the functions are exported under their C names")]

use std::ffi::c_int;

use crate::create::context;
use crate::guard::{entry, entry_with_code};
use crate::members::first_time;
use crate::types::{QUO_t, RawOut};

#[unsafe(no_mangle)]
pub extern "C" fn QUO_lend(q: *mut QUO_t) -> c_int {
    entry_with_code("QUO_lend", || Ok(first_time(context(q)?.start_lending()?)))
}

#[unsafe(no_mangle)]
pub extern "C" fn QUO_reclaim(q: *mut QUO_t) -> c_int {
    entry_with_code("QUO_reclaim", || Ok(first_time(context(q)?.stop_lending()?)))
}

#[unsafe(no_mangle)]
pub extern "C" fn QUO_borrow(
    q: *mut QUO_t,
    out_borrowed: RawOut<c_int>,
    out_threads: RawOut<c_int>,
) -> c_int {
    entry("QUO_borrow", || {
        let number = out_borrowed.checked("out_borrowed")?;
        let threads = out_threads.checked("out_threads")?;
        let context = context(q)?;
        let borrowed = context.borrow()?;
        number.set_number(borrowed.cpus().len())?;
        threads.set_number(borrowed.threads())?;
        borrowed.keep();
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn QUO_borrow_wanted(q: *mut QUO_t, out_wanted: RawOut<c_int>) -> c_int {
    entry("QUO_borrow_wanted", || {
        let place = out_wanted.checked("out_wanted")?;
        place.set(c_int::from(context(q)?.is_wanted_back()));
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn QUO_lenders(q: *mut QUO_t, out_lenders: RawOut<c_int>) -> c_int {
    entry("QUO_lenders", || out_lenders.checked("out_lenders")?.set_number(context(q)?.lenders()))
}

#[unsafe(no_mangle)]
pub extern "C" fn QUO_give_back(q: *mut QUO_t) -> c_int {
    entry_with_code("QUO_give_back", || Ok(first_time(context(q)?.give_back()?)))
}
