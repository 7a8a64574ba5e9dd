//! The elastic world: what `quo-elastic.h` declares.
//!
//! - this file: making and ending a world, what this process is to it, requests;
//! - [`window`]: a resize between its beginning and its end;
//! - [`arrays`]: arrays that go along;
//! - [`carry`]: data that the program moves itself;
//! - `error`: which error becomes which code.
#![allow(unsafe_code)]

pub mod arrays;
pub mod carry;
mod error;
pub mod window;

use std::ffi::{c_char, c_int, c_longlong};
use std::ptr;
use std::sync::{Mutex, MutexGuard, TryLockError};
use std::time::Duration;

use elastic::change::{RequestId, Step};
use elastic::data::{Registry, Transport};
use elastic::manager::{ControlSocket, ScriptedPlan};
use elastic::{Status, Window, World, WorldOptions};
use quo::Error;
use quo::group::{Group as _, Patience};
use quo_mpi::Comm;
use quo_mpi::members::Communicator;

use crate::codes::Code;
use crate::collective::limit;
use crate::create::{mpi_not_finalized, mpi_usable};
use crate::guard::{self, Failure, entry};
use crate::handle::{Held, Kind, Table};
use crate::types::{CommPlace, Growing, In, Out, QUO_world_t, Text, int, text_for_c};

static WORLDS: Table<Shared, 16> = Table::new(Kind { number: 5, name: "world" });

/// `QUO_world_options_t`.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct QUO_world_options_t {
    /// The size that the caller knows.
    pub size: usize,
    /// Ranks at first; 0: all that were launched.
    pub start: c_int,
    /// Ranks that there can be; 0: as many as were launched.
    pub most: c_int,
    /// Processes that are started and leave together; 0: all of one growth.
    pub unit: c_int,
    /// Whether more processes are started than the launcher has slots for.
    pub crowded: c_int,
    /// Whether the job listens for `quo-elastic`.
    pub control: c_int,
    /// Whether arrays go in messages also within a node.
    pub messages: c_int,
    /// Seconds until processes that were started have to be ready; 0: a minute.
    pub start_limit: f64,
    /// The job's name, or NULL.
    pub name: Text,
    /// A file for events, or NULL.
    pub log: Text,
    /// A plan, or NULL.
    pub plan: Text,
    /// Whether the job ends with a rank that has ended without a word.
    pub abort_on_death: c_int,
}

// SAFETY: repr(C), starts with its size, and all other fields are numbers and pointers that are
// checked when they are read.
unsafe impl Growing for QUO_world_options_t {
    const NAME: &'static str = "QUO_world_options_t";
}

/// A world that C holds, with the window that is open.
pub(crate) struct Open {
    /// Borrows from `world`, and goes first.
    window: Option<Window<'static>>,
    /// From a Box; reached through the window while there is one.
    world: *mut World,
}

// SAFETY: by the contract of the C interface one thread at a time is in a call of a world, which the
// lock around it enforces; what C gave along (callbacks) may be used by each thread that calls.
unsafe impl Send for Open {}

type Shared = Mutex<Open>;

impl Open {
    fn new(world: World) -> Self {
        Self { window: None, world: Box::into_raw(Box::new(world)) }
    }

    pub(crate) fn world(&self) -> &World {
        match &self.window {
            Some(window) => window.world(),
            // SAFETY: the pointer is from a Box, and no window borrows from it.
            None => unsafe { &*self.world },
        }
    }

    /// The world, while no window is open.
    fn world_mut(&mut self) -> Result<&mut World, Failure> {
        if self.window.is_some() {
            return Err(misplaced("a resize has begun: commit it, or abort it"));
        }
        // SAFETY: as in `world`, and this borrows all of `self`.
        Ok(unsafe { &mut *self.world })
    }

    pub(crate) fn data(&self) -> &Registry {
        self.world().data()
    }

    pub(crate) fn data_mut(&mut self) -> &mut Registry {
        match &mut self.window {
            Some(window) => window.data_mut(),
            // SAFETY: as in `world_mut`.
            None => unsafe { (*self.world).data_mut() },
        }
    }

    fn begin(&mut self) -> Result<(), Failure> {
        self.world_mut()?;
        // SAFETY: the world stays where it is until this is dropped, which drops the window first; until
        // the window is gone the world is reached through it only.
        let world: &'static mut World = unsafe { &mut *self.world };
        self.window = Some(world.begin()?);
        Ok(())
    }

    fn window(&self) -> Result<&Window<'static>, Failure> {
        self.window.as_ref().ok_or_else(|| misplaced("no resize has begun"))
    }

    fn window_mut(&mut self) -> Result<&mut Window<'static>, Failure> {
        self.window.as_mut().ok_or_else(|| misplaced("no resize has begun"))
    }

    fn take_window(&mut self) -> Result<Window<'static>, Failure> {
        self.window.take().ok_or_else(|| misplaced("no resize has begun"))
    }

    fn into_world(mut self) -> World {
        let world = std::mem::replace(&mut self.world, ptr::null_mut());
        // Whoever ends a world with a window open gives the resize up.
        drop(self.window.take());
        // SAFETY: from a Box, which nobody else takes back: `drop` finds a null pointer.
        *unsafe { Box::from_raw(world) }
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        drop(self.window.take());
        if !self.world.is_null() {
            // SAFETY: from a Box, and taken back once.
            drop(unsafe { Box::from_raw(self.world) });
        }
    }
}

pub(crate) fn misplaced(text: &str) -> Failure {
    Failure::new(Code::Misplaced, text)
}

/// The world of a handle.
fn held(w: *mut QUO_world_t) -> Result<Held<Shared>, Failure> {
    let world = WORLDS.get(w.addr())?;
    mpi_not_finalized()?;
    Ok(world)
}

/// Nobody else is in a call of it.
fn alone(world: &Shared) -> Result<MutexGuard<'_, Open>, Failure> {
    match world.try_lock() {
        Ok(open) => Ok(open),
        Err(TryLockError::Poisoned(open)) => Ok(open.into_inner()),
        Err(TryLockError::WouldBlock) => Err(Failure::new(
            Code::Busy,
            "the world is in a call of another thread, or in this one",
        )),
    }
}

/// Does something with the world of a handle.
pub(crate) fn with<T>(
    w: *mut QUO_world_t,
    what: impl FnOnce(&mut Open) -> Result<T, Failure>,
) -> Result<T, Failure> {
    let world = held(w)?;
    let mut open = alone(&world)?;
    what(&mut open)
}

fn count(name: &str, value: c_int) -> Result<Option<usize>, Failure> {
    match usize::try_from(value) {
        Ok(0) => Ok(None),
        Ok(value) => Ok(Some(value)),
        Err(_) => Err(Failure::invalid(format!("{name} is {value}: it is no number of ranks"))),
    }
}

/// What C wants, and whether arrays go in messages.
pub(crate) fn options(
    given: In<QUO_world_options_t>,
) -> Result<(WorldOptions, bool, (c_int, c_int)), Failure> {
    let mut options = WorldOptions::new();
    let Some(given) = given.read()? else { return Ok((options, false, (0, 0))) };
    if let Some(start) = count("start", given.start)? {
        options = options.start(start);
    }
    if let Some(most) = count("most", given.most)? {
        options = options.most(most);
    }
    if let Some(unit) = count("unit", given.unit)? {
        options = options.unit(unit);
    }
    options = options.crowded(given.crowded != 0).abort_on_death(given.abort_on_death != 0);
    let start_limit = limit(given.start_limit)?;
    if start_limit != Duration::ZERO {
        options = options.start_limit(start_limit);
    }
    if !given.name.is_null() {
        options = options.name(given.name.read("name")?);
    }
    if !given.log.is_null() {
        options = options.log(given.log.read("log")?);
    }
    if !given.plan.is_null() {
        let plan = given.plan.read("plan")?.parse();
        let plan = plan.map_err(|error| Failure::invalid(format!("the plan: {error}")))?;
        options = options.manager(ScriptedPlan::new(plan));
    }
    if given.control != 0 {
        options = options.manager(ControlSocket::new());
    }
    Ok((options, given.messages != 0, (given.start, given.most)))
}

/// All who were launched together have good options, and the same. Collective over them.
pub(crate) fn agree<T>(mine: Result<(T, (c_int, c_int)), Failure>) -> Result<T, Failure> {
    let world = Communicator::world().map_err(Error::from)?;
    let mut words = [0; 3];
    if let Ok((_, (start, most))) = &mine {
        words = [1, *start, *most];
    }
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
    let told = {
        let group = world.lend().map_err(Error::from)?;
        let all = group.allgather(&bytes, &Patience::for_at_most(Duration::from_secs(60)));
        all.map_err(Error::from)?
    };
    world.free().map_err(Error::from)?;
    let (mine, _) = mine?;
    let differs = told.chunks_exact(bytes.len()).position(|other| other != bytes);
    match differs {
        None => Ok(mine),
        Some(rank) => {
            let text = format!(
                "rank {rank} gave other options, or wrong ones: start and most are the same everywhere"
            );
            Err(Failure::new(Code::Disagree, text))
        }
    }
}

pub(crate) fn create_world(
    w: Out<*mut QUO_world_t>,
    given: In<QUO_world_options_t>,
) -> Result<(), Failure> {
    guard::stay_quiet();
    let place = w.null_place("w");
    mpi_usable()?;
    let checked = place.and_then(|place| {
        let (options, messages, same) = options(given)?;
        Ok(((place, options, messages), same))
    });
    let (place, options, messages) = agree(checked)?;
    let mut world = World::create(options)?;
    if messages {
        world.data_mut().via(Transport::Messages);
    }
    let handle = WORLDS.insert(Mutex::new(Open::new(world)))?;
    place.set(ptr::without_provenance_mut(handle));
    Ok(())
}

/// `QUO_world_create`.
#[unsafe(no_mangle)]
pub extern "C" fn QUO_world_create(
    w: Out<*mut QUO_world_t>,
    options: In<QUO_world_options_t>,
) -> c_int {
    entry("QUO_world_create", || create_world(w, options))
}

/// `QUO_world_end`.
#[unsafe(no_mangle)]
pub extern "C" fn QUO_world_end(w: *mut QUO_world_t) -> c_int {
    entry("QUO_world_end", || {
        if w.is_null() {
            return Ok(());
        }
        // Looked up first, so that a wrong handle is told from a late call.
        drop(held(w)?);
        let open = WORLDS.remove(w.addr())?;
        let open = open.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
        open.into_world().end()?;
        Ok(())
    })
}

/// `QUO_world_status`.
#[unsafe(no_mangle)]
pub extern "C" fn QUO_world_status(w: *mut QUO_world_t, out_status: Out<c_int>) -> c_int {
    entry("QUO_world_status", || {
        with(w, |open| {
            let place = out_status.place("out_status")?;
            place.set(match open.world().status() {
                _ if open.window.as_ref().is_some_and(Window::leaves) => 3,
                Status::New => 0,
                Status::Joining => 1,
                Status::Staying => 2,
                Status::Parked => 4,
                Status::Ended => 5,
            });
            Ok(())
        })
    })
}

fn number(
    w: *mut QUO_world_t,
    name: &str,
    out: Out<c_int>,
    what: impl FnOnce(&World) -> usize,
) -> Result<(), Failure> {
    with(w, |open| out.place(name)?.set_number(what(open.world())))
}

/// `QUO_world_rank`.
#[unsafe(no_mangle)]
pub extern "C" fn QUO_world_rank(w: *mut QUO_world_t, out_rank: Out<c_int>) -> c_int {
    entry("QUO_world_rank", || {
        with(w, |open| {
            let place = out_rank.place("out_rank")?;
            match open.world().status() {
                Status::New | Status::Staying => place.set_number(open.world().rank()),
                Status::Joining | Status::Parked | Status::Ended => {
                    place.set(quo_mpi::undefined());
                    Ok(())
                }
            }
        })
    })
}

/// `QUO_world_size`.
#[unsafe(no_mangle)]
pub extern "C" fn QUO_world_size(w: *mut QUO_world_t, out_size: Out<c_int>) -> c_int {
    entry("QUO_world_size", || number(w, "out_size", out_size, World::size))
}

/// `QUO_world_capacity`.
#[unsafe(no_mangle)]
pub extern "C" fn QUO_world_capacity(w: *mut QUO_world_t, out_most: Out<c_int>) -> c_int {
    entry("QUO_world_capacity", || number(w, "out_most", out_most, World::capacity))
}

/// `QUO_world_was_started`.
#[unsafe(no_mangle)]
pub extern "C" fn QUO_world_was_started(w: *mut QUO_world_t, out_started: Out<c_int>) -> c_int {
    entry("QUO_world_was_started", || {
        number(w, "out_started", out_started, |world| usize::from(world.was_started()))
    })
}

/// `QUO_world_epoch`.
#[unsafe(no_mangle)]
pub extern "C" fn QUO_world_epoch(w: *mut QUO_world_t, out_epoch: Out<c_longlong>) -> c_int {
    entry("QUO_world_epoch", || {
        with(w, |open| {
            out_epoch.place("out_epoch")?.set(open.world().epoch().cast_signed());
            Ok(())
        })
    })
}

/// `QUO_world_back_end`.
#[unsafe(no_mangle)]
pub extern "C" fn QUO_world_back_end(w: *mut QUO_world_t, out_text: Out<*mut c_char>) -> c_int {
    entry("QUO_world_back_end", || {
        let place = out_text.null_place("out_text");
        with(w, |open| {
            place?.set(text_for_c(&open.world().back_end().to_string())?);
            Ok(())
        })
    })
}

/// The communicator of the world, the world's still.
pub(crate) fn communicator<P>(
    w: *mut QUO_world_t,
    place: Result<P, Failure>,
    store: impl FnOnce(P, Comm),
) -> Result<(), Failure> {
    with(w, |open| {
        let place = place?;
        store(place, open.world().communicator().map_or_else(Comm::null, Communicator::as_raw));
        Ok(())
    })
}

/// `QUO_world_comm`.
#[unsafe(no_mangle)]
pub extern "C" fn QUO_world_comm(w: *mut QUO_world_t, out_comm: CommPlace) -> c_int {
    entry("QUO_world_comm", || communicator(w, out_comm.place("out_comm"), CommPlace::set))
}

/// `QUO_world_probe`.
#[unsafe(no_mangle)]
pub extern "C" fn QUO_world_probe(w: *mut QUO_world_t, out_enters: Out<c_int>) -> c_int {
    entry("QUO_world_probe", || {
        with(w, |open| {
            let place = out_enters.place("out_enters");
            // A rank with a wrong argument probes with the others all the same.
            let enters = open.world_mut()?.probe()?;
            place?.set(c_int::from(enters));
            Ok(())
        })
    })
}

/// `QUO_world_wait`.
#[unsafe(no_mangle)]
pub extern "C" fn QUO_world_wait(w: *mut QUO_world_t, out_joins: Out<c_int>) -> c_int {
    entry("QUO_world_wait", || {
        with(w, |open| {
            let place = out_joins.place("out_joins")?;
            place.set(c_int::from(open.world_mut()?.wait()?));
            Ok(())
        })
    })
}

/// `QUO_world_report_iteration`.
#[unsafe(no_mangle)]
pub extern "C" fn QUO_world_report_iteration(w: *mut QUO_world_t, number: c_longlong) -> c_int {
    entry("QUO_world_report_iteration", || {
        with(w, |open| {
            let counted = u64::try_from(number)
                .map_err(|_| Failure::invalid(format!("{number} is no number of an iteration")))?;
            open.world().report_iteration(counted);
            Ok(())
        })
    })
}

/// `QUO_world_request`.
#[unsafe(no_mangle)]
pub extern "C" fn QUO_world_request(
    w: *mut QUO_world_t,
    size: c_int,
    out_request: Out<c_longlong>,
) -> c_int {
    entry("QUO_world_request", || {
        with(w, |open| {
            let wanted = usize::try_from(size).ok().filter(|&wanted| wanted > 0);
            let wanted = wanted.ok_or_else(|| {
                Failure::invalid(format!("size is {size}: it is no number of ranks"))
            })?;
            let number = open.world().request(wanted)?;
            if let Some(place) = out_request.optional() {
                place.set(number.cast_signed());
            }
            Ok(())
        })
    })
}

/// `QUO_world_request_state`.
#[unsafe(no_mangle)]
pub extern "C" fn QUO_world_request_state(
    w: *mut QUO_world_t,
    request: c_longlong,
    out_state: Out<c_int>,
    out_cause: Out<*mut c_char>,
) -> c_int {
    entry("QUO_world_request_state", || {
        let cause = out_cause.optional();
        if let Some(cause) = cause {
            cause.set(ptr::null_mut());
        }
        with(w, |open| {
            let place = out_state.place("out_state")?;
            let requests = open.world().requests();
            let requests = requests.ok_or_else(|| misplaced("requests go through rank 0"))?;
            let number = RequestId(request.cast_unsigned());
            let step = requests.step_of(number).ok_or_else(|| {
                Failure::new(Code::NotFound, format!("no request {request} is known"))
            })?;
            if let Some(cause) = cause {
                let mut ended = requests.events(0).into_iter();
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

pub(crate) fn three(values: (usize, usize, usize), places: [Out<c_int>; 3]) -> Result<(), Failure> {
    let values = [int(values.0)?, int(values.1)?, int(values.2)?];
    for (value, place) in values.into_iter().zip(places) {
        if let Some(place) = place.optional() {
            place.set(value);
        }
    }
    Ok(())
}
