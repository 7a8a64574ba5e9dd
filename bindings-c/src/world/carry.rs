//! Data that the program moves itself.
#![allow(unsafe_code)]

use std::cell::RefCell;
use std::ffi::{c_int, c_void};

use elastic::data::{Carry, Seats};

use super::{invalid_state, with};
use crate::guard::{Failure, Mark, entry};
use crate::types::{Bytes, Growing, In, QUO_world_t, Text, int};

#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct QUO_seats_t {
    /// Size of the old world.
    pub old_size: c_int,
    /// Size of the new world.
    pub new_size: c_int,
    /// Old rank of this process; -1 for a joiner.
    pub old_rank: c_int,
    /// New rank of this process; -1 for a leaver.
    pub new_rank: c_int,
}

#[derive(Clone, Copy)]
#[repr(C)]
pub struct QUO_carry_t {
    /// Size known to the caller.
    pub size: usize,
    /// Provides this process's pieces.
    pub give: Option<unsafe extern "C" fn(*mut c_void, *const QUO_seats_t) -> c_int>,
    /// Takes the pieces of one rank.
    pub take: Option<
        unsafe extern "C" fn(*mut c_void, *const QUO_seats_t, c_int, *const c_void, usize) -> c_int,
    >,
    /// Called when the resize is over.
    pub end_transfer: Option<unsafe extern "C" fn(*mut c_void, c_int)>,
    /// Passed to the callbacks.
    pub data: *mut c_void,
}

// SAFETY: repr(C), starts with its size; by the contract of the C interface a function's address is
// valid, and NULL is none.
unsafe impl Growing for QUO_carry_t {
    const NAME: &'static str = "QUO_carry_t";
}

/// New ranks, and the bytes for each.
type Pieces = Vec<(usize, Vec<u8>)>;

thread_local! {
    /// Pieces that the callback running in this thread has provided so far.
    static GIVEN: RefCell<Option<Pieces>> = const { RefCell::new(None) };
}

struct Carried(QUO_carry_t);

fn seats(seats: &Seats) -> Result<QUO_seats_t, String> {
    let number = |value: usize| int(value).map_err(|failure| failure.text().to_owned());
    let rank = |rank: Option<usize>| rank.map_or(Ok(-1), number);
    Ok(QUO_seats_t {
        old_size: number(seats.old_size)?,
        new_size: number(seats.new_size)?,
        old_rank: rank(seats.old_rank)?,
        new_rank: rank(seats.new_rank)?,
    })
}

fn answer(what: &str, code: c_int) -> Result<(), String> {
    if code == 0 { Ok(()) } else { Err(format!("the program's {what} returned {code}")) }
}

impl Carry for Carried {
    fn give(&mut self, all: &Seats) -> Result<Pieces, String> {
        let seats = seats(all)?;
        let Some(give) = self.0.give else { return Ok(Vec::new()) };
        GIVEN.set(Some(Vec::new()));
        let code = {
            let _outside = Mark::outside();
            // SAFETY: by the contract of the C interface the function takes these arguments, and
            // may be called until the callbacks are removed.
            unsafe { give(self.0.data, &raw const seats) }
        };
        let given = GIVEN.take().unwrap_or_default();
        answer("give", code)?;
        match given.iter().find(|(rank, _)| *rank >= all.new_size) {
            Some((rank, _)) => {
                Err(format!("something was given to rank {rank}, which will not be"))
            }
            None => Ok(given),
        }
    }

    fn take(&mut self, all: &Seats, pieces: Pieces) -> Result<(), String> {
        let seats = seats(all)?;
        let Some(take) = self.0.take else { return Ok(()) };
        let _outside = Mark::outside();
        for (rank, bytes) in pieces {
            let rank = int(rank).map_err(|failure| failure.text().to_owned())?;
            // SAFETY: as in `give`; the bytes live until it returns.
            let code = unsafe {
                take(self.0.data, &raw const seats, rank, bytes.as_ptr().cast(), bytes.len())
            };
            answer("take", code)?;
        }
        Ok(())
    }

    fn end_transfer(&mut self, committed: bool) {
        if let Some(end_transfer) = self.0.end_transfer {
            let _outside = Mark::outside();
            // SAFETY: as in `give`.
            unsafe { end_transfer(self.0.data, c_int::from(committed)) }
        }
    }
}

#[unsafe(no_mangle)]
pub extern "C" fn QUO_world_carry(
    w: *mut QUO_world_t,
    name: Text,
    callbacks: In<QUO_carry_t>,
) -> c_int {
    entry("QUO_world_carry", || {
        with(w, |open| {
            let name = name.read("name")?;
            let given = callbacks.read()?;
            let given = given.ok_or_else(|| Failure::invalid("the argument callbacks is NULL"))?;
            open.data_mut()?.carry(&name, Box::new(Carried(given)))?;
            Ok(())
        })
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn QUO_carry_give(new_rank: c_int, data: Bytes, length: usize) -> c_int {
    entry("QUO_carry_give", || {
        let rank = usize::try_from(new_rank)
            .map_err(|_| Failure::invalid(format!("new_rank is {new_rank}, which is no rank")))?;
        let bytes = data.read("data", length)?;
        GIVEN.with_borrow_mut(|given| {
            let given = given.as_mut();
            let given = given.ok_or_else(|| invalid_state("only the callback give calls this"))?;
            match given.iter_mut().find(|(other, _)| *other == rank) {
                // A rank gets one piece from each process.
                Some((_, before)) => before.extend(bytes),
                None => given.push((rank, bytes)),
            }
            Ok(())
        })
    })
}
