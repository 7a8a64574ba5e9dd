//! Data that the program moves itself, and items that it gives owners.
#![allow(unsafe_code)]

use std::cell::RefCell;
use std::ffi::{c_int, c_void};

use elastic::data::{Carry, Seats};

use super::{invalid_state, with};
use crate::guard::{Failure, Mark, entry};
use crate::types::{Bytes, Growing, In, QUO_world_t, RawOut, Text, int};

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

type Owner = unsafe extern "C" fn(*mut c_void, *const c_void, c_int) -> c_int;
type Owners = unsafe extern "C" fn(*mut c_void, *const c_void, usize, c_int, *mut c_int) -> c_int;

pub type QUO_owner_t = Option<Owner>;
pub type QUO_owners_t = Option<Owners>;

/// A function of the program for the owners of items, and what is passed to it.
struct Asked<F> {
    function: F,
    data: *mut c_void,
}

impl Asked<Owner> {
    /// Returns the owner of an item.
    fn owner(&self, item: &[u8], ranks: c_int) -> c_int {
        // SAFETY: by the contract of the C interface the function takes these arguments, and may be
        // called until the items are removed; the item lives until it returns.
        unsafe { (self.function)(self.data, item.as_ptr().cast(), ranks) }
    }
}

impl Asked<Owners> {
    /// Sets the owners of items. Returns the code of the function.
    fn owners(&self, items: &[u8], ranks: c_int, places: &mut [c_int]) -> c_int {
        let (count, start) = (places.len(), places.as_mut_ptr());
        // SAFETY: as in `owner`; there is a place for the owner of each item.
        unsafe { (self.function)(self.data, items.as_ptr().cast(), count, ranks, start) }
    }
}

/// Adds a list of items with a function that sets the owners of all of them.
fn add_items(
    w: *mut QUO_world_t,
    name: Text,
    element: usize,
    mut owners: impl FnMut(&[u8], c_int, &mut [c_int]) -> Result<(), String> + 'static,
) -> Result<(), Failure> {
    with(w, |open| {
        let name = name.read("name")?;
        let of_bytes = move |items: &[u8], ranks: usize, places: &mut [c_int]| {
            let ranks = int(ranks).map_err(|failure| failure.text().to_owned())?;
            let _outside = Mark::outside();
            owners(items, ranks, places)
        };
        open.data_mut()?.register_items_bytes(&name, element, Box::new(of_bytes))?;
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn QUO_world_items_add(
    w: *mut QUO_world_t,
    name: Text,
    element: usize,
    owner: QUO_owner_t,
    data: *mut c_void,
) -> c_int {
    entry("QUO_world_items_add", || {
        let function = owner.ok_or_else(|| Failure::invalid("the argument owner is NULL"))?;
        let asked = Asked { function, data };
        add_items(w, name, element, move |items, ranks, places| {
            for (item, place) in items.chunks_exact(element).zip(places) {
                *place = asked.owner(item, ranks);
            }
            Ok(())
        })
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn QUO_world_items_add_with_owners(
    w: *mut QUO_world_t,
    name: Text,
    element: usize,
    owners: QUO_owners_t,
    data: *mut c_void,
) -> c_int {
    entry("QUO_world_items_add_with_owners", || {
        let function = owners.ok_or_else(|| Failure::invalid("the argument owners is NULL"))?;
        let asked = Asked { function, data };
        add_items(w, name, element, move |items, ranks, places| {
            answer("owners", asked.owners(items, ranks, places))
        })
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn QUO_world_items(
    w: *mut QUO_world_t,
    name: Text,
    out_items: RawOut<*mut c_void>,
    out_count: RawOut<usize>,
) -> c_int {
    entry("QUO_world_items", || {
        let items = out_items.checked_null("out_items");
        with(w, |open| {
            let (name, items, count) =
                (name.read("name")?, items?, out_count.checked("out_count")?);
            let arrays = open.arrays()?.0;
            let bytes = arrays.items_bytes(&name)?;
            count.set(bytes.len() / arrays.item_size(&name)?);
            // Items can be read while they are moved.
            items.set(if open.is_moving() {
                bytes.as_ptr().cast_mut().cast()
            } else {
                open.data_mut()?.items_bytes_mut(&name)?.as_mut_ptr().cast()
            });
            Ok(())
        })
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn QUO_world_items_resize(w: *mut QUO_world_t, name: Text, count: usize) -> c_int {
    entry("QUO_world_items_resize", || {
        with(w, |open| {
            let name = name.read("name")?;
            if open.has_window() {
                return Err(invalid_state("items are added and removed outside of resizes"));
            }
            open.data_mut()?.resize_items(&name, count)?;
            Ok(())
        })
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn QUO_world_migrate(w: *mut QUO_world_t, name: Text) -> c_int {
    entry("QUO_world_migrate", || {
        with(w, |open| {
            let name = name.read("name")?;
            if open.is_serial() {
                open.data_mut()?.migrate(&name)?;
                return Ok(());
            }
            open.world_mut()?.migrate(&name)?;
            Ok(())
        })
    })
}
