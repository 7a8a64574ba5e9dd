//! Resize points: the functions of `quo-reshape.h`. A program has one world of this kind, without a
//! handle.
#![allow(unsafe_code)]

use std::ffi::{c_double, c_int, c_void};
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};

use elastic::data::Element;
use elastic::layout::Storage;
use elastic_policy::points::{Configuration, Decision, Topology};
use elastic_reshape::{
    Choice, ProcessorTopology, Reshape, ReshapeError, Scheduler, Seat, SweetSpot,
};
use quo_mpi::Comm as MPI_Comm;
use quo_mpi::communicator::Communicator;

use crate::codes::Code;
use crate::create::{mpi_not_finalized, mpi_usable};
use crate::guard::{self, Failure, Mark, entry};
use crate::types::{FintPtr, Growing, HeapPtr, In, RawOut};
use crate::world::options::{self, Wanted};
use crate::world::{QUO_world_options_t, agree, invalid_state};

#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct QUO_reshape_topology_t {
    /// Size known to the caller.
    pub size: usize,
    pub kind: c_int,
    /// 1 or 2.
    pub ndims: c_int,
    /// Rows and columns, if `ndims` is 2.
    pub dims: [c_int; 2],
    /// Number of processors.
    pub total: c_int,
    /// Number of processors by which an arbitrary topology grows.
    pub increment: c_int,
}

// SAFETY: repr(C), starts with its size, and all other fields are numbers.
unsafe impl Growing for QUO_reshape_topology_t {
    const NAME: &'static str = "QUO_reshape_topology_t";
}

pub type QUO_reshape_scheduler_t =
    Option<unsafe extern "C" fn(*mut c_void, c_int, c_int, c_double) -> c_int>;

pub type QUO_reshape_valid_t = Option<unsafe extern "C" fn(*mut c_void, c_int, c_int) -> c_int>;

struct Only(Option<Reshape>);

// SAFETY: by the contract of the C interface one thread at a time is in a call, which the lock
// enforces; pointers passed by C (callbacks) may be used by each thread that calls.
unsafe impl Send for Only {}

static ONLY: Mutex<Only> = Mutex::new(Only(None));

fn alone() -> Result<MutexGuard<'static, Only>, Failure> {
    match ONLY.try_lock() {
        Ok(only) => Ok(only),
        Err(TryLockError::Poisoned(only)) => Ok(PoisonError::into_inner(only)),
        Err(TryLockError::WouldBlock) => {
            Err(Failure::new(Code::Busy, "another thread, or this one, is in a resize point"))
        }
    }
}

fn with<T>(what: impl FnOnce(&mut Reshape) -> Result<T, Failure>) -> Result<T, Failure> {
    let mut only = alone()?;
    let reshape =
        only.0.as_mut().ok_or_else(|| invalid_state("the program has not begun: init"))?;
    mpi_not_finalized()?;
    what(reshape)
}

/// Scheduler provided by the program.
struct Asked {
    decide: unsafe extern "C" fn(*mut c_void, c_int, c_int, c_double) -> c_int,
    data: *mut c_void,
    topology: ProcessorTopology,
}

impl Scheduler for Asked {
    fn decide(&mut self, choice: &Choice<'_>) -> Decision {
        let report = choice.report;
        let now = report.configuration.size();
        let number = |value: u64| c_int::try_from(value).unwrap_or(c_int::MAX);
        let (size, iteration) = (number(now.into()), number(report.iteration));
        let _outside = Mark::outside();
        // SAFETY: by the contract of the C interface the function takes these arguments, and may be
        // called until the program's world ends.
        let wanted = unsafe { (self.decide)(self.data, size, iteration, report.iteration_seconds) };
        match usize::try_from(wanted) {
            Ok(size) if size > now as usize => Decision::Expand(self.topology.arranged(size)),
            Ok(size) if size > 0 && size < now as usize => {
                Decision::Shrink(self.topology.arranged(size))
            }
            _ => Decision::Continue,
        }
    }
}

/// Sizes that the program can work with.
struct Allowed {
    valid: unsafe extern "C" fn(*mut c_void, c_int, c_int) -> c_int,
    data: *mut c_void,
}

impl Allowed {
    fn says(&self, on: Configuration) -> bool {
        let (rows, columns) = on.dimensions();
        let number = |value: u32| c_int::try_from(value).unwrap_or(c_int::MAX);
        let _outside = Mark::outside();
        // SAFETY: as for the scheduler.
        unsafe { (self.valid)(self.data, number(rows), number(columns)) != 0 }
    }
}

fn natural(name: &str, value: c_int) -> Result<u32, Failure> {
    u32::try_from(value)
        .ok()
        .filter(|&value| value > 0)
        .ok_or_else(|| Failure::invalid(format!("{name} is {value}; give at least 1")))
}

fn topology(given: In<QUO_reshape_topology_t>) -> Result<ProcessorTopology, Failure> {
    let given = given.read()?.ok_or_else(|| Failure::invalid("the argument topology is NULL"))?;
    let start = match given.ndims {
        1 => Configuration::Line(natural("total", given.total)?),
        2 => {
            let [rows, columns] = given.dims;
            let grid = Configuration::grid(natural("dims", rows)?, natural("dims", columns)?);
            grid.map_err(ReshapeError::from)?
        }
        other => return Err(Failure::invalid(format!("ndims is {other}; give 1 or 2"))),
    };
    let kind = match given.kind {
        0 => Topology::Arbitrary { increment: natural("increment", given.increment)? },
        1 => Topology::PowerOfTwo,
        2 => Topology::NearlySquare { difference: None, divides: None },
        other => {
            return Err(Failure::invalid(format!("kind {other} is not a QUO_reshape_kind_t")));
        }
    };
    Ok(ProcessorTopology { kind, start: kind.start(start).map_err(ReshapeError::from)? })
}

fn init(
    given: In<QUO_reshape_topology_t>,
    wanted: Option<In<QUO_world_options_t>>,
    decide: QUO_reshape_scheduler_t,
    data: *mut c_void,
) -> Result<(), Failure> {
    guard::stay_quiet();
    let mut only = alone()?;
    mpi_usable()?;
    let (topology, options) = agree(|launched| {
        let topology = topology(given)?;
        if only.0.is_some() {
            return Err(invalid_state("the program has begun already"));
        }
        let wanted = match wanted {
            Some(wanted) => options::wanted(wanted, launched)?,
            None => Wanted::default(),
        };
        let start = c_int::try_from(topology.start.size()).unwrap_or(c_int::MAX);
        Ok(((topology, wanted.options), (start, wanted.same.1)))
    })?;
    let scheduler: Box<dyn Scheduler> = match decide {
        Some(decide) => Box::new(Asked { decide, data, topology }),
        None => Box::new(SweetSpot::default()),
    };
    only.0 = Some(Reshape::init(options, topology, scheduler)?);
    Ok(())
}

#[unsafe(no_mangle)]
pub extern "C" fn QUO_reshape_init(topology: In<QUO_reshape_topology_t>) -> c_int {
    entry("QUO_reshape_init", || init(topology, None, None, std::ptr::null_mut()))
}

#[unsafe(no_mangle)]
pub extern "C" fn QUO_reshape_init_with(
    topology: In<QUO_reshape_topology_t>,
    options: In<QUO_world_options_t>,
    decide: QUO_reshape_scheduler_t,
    data: *mut c_void,
) -> c_int {
    entry("QUO_reshape_init_with", || init(topology, Some(options), decide, data))
}

#[unsafe(no_mangle)]
pub extern "C" fn QUO_reshape_accept(valid: QUO_reshape_valid_t, data: *mut c_void) -> c_int {
    entry("QUO_reshape_accept", || {
        with(|reshape| {
            match valid {
                Some(valid) => {
                    let allowed = Allowed { valid, data };
                    reshape.accept(move |on| allowed.says(on));
                }
                None => reshape.accept(|_| true),
            }
            Ok(())
        })
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn QUO_reshape_exit() -> c_int {
    entry("QUO_reshape_exit", || {
        with(|_| Ok(()))?;
        let reshape = alone()?.0.take();
        if let Some(reshape) = reshape {
            reshape.exit()?;
        }
        Ok(())
    })
}

fn of_decision(decision: Decision) -> c_int {
    match decision {
        Decision::Continue => 0,
        Decision::Expand(_) => 1,
        Decision::Shrink(_) => 2,
    }
}

#[unsafe(no_mangle)]
pub extern "C" fn QUO_reshape_contact(
    seconds: f64,
    iteration: c_int,
    out_decision: RawOut<c_int>,
) -> c_int {
    entry("QUO_reshape_contact", || {
        with(|reshape| {
            let place = out_decision.checked("out_decision")?;
            let iteration = u64::try_from(iteration).map_err(|_| {
                Failure::invalid(format!("iteration is {iteration}; give 0 or more"))
            })?;
            place.set(of_decision(reshape.contact(seconds, iteration)?));
            Ok(())
        })
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn QUO_reshape_resize(decision: c_int) -> c_int {
    // The library knows the decision; programs of ReSHAPE pass it.
    let _ = decision;
    entry("QUO_reshape_resize", || {
        with(|reshape| {
            reshape.resize()?;
            Ok(())
        })
    })
}

fn tell(
    name: &str,
    out: RawOut<c_int>,
    what: impl FnOnce(&mut Reshape) -> c_int,
) -> Result<(), Failure> {
    with(|reshape| {
        out.checked(name)?.set(what(reshape));
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn QUO_reshape_seat(out_seat: RawOut<c_int>) -> c_int {
    entry("QUO_reshape_seat", || {
        tell("out_seat", out_seat, |reshape| match reshape.seat() {
            Seat::Stays => 0,
            Seat::Joins => 1,
            Seat::Ended => 2,
        })
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn QUO_reshape_decision(out_decision: RawOut<c_int>) -> c_int {
    entry("QUO_reshape_decision", || {
        tell("out_decision", out_decision, |reshape| of_decision(reshape.decision()))
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn QUO_reshape_iteration(out_iteration: RawOut<c_int>) -> c_int {
    entry("QUO_reshape_iteration", || {
        tell("out_iteration", out_iteration, |reshape| {
            c_int::try_from(reshape.iteration()).unwrap_or(c_int::MAX)
        })
    })
}

fn dimensions(
    rows: RawOut<c_int>,
    columns: RawOut<c_int>,
    which: impl FnOnce(&Reshape) -> Configuration,
) -> Result<(), Failure> {
    with(|reshape| {
        let (wide, high) = (rows.checked("out_rows")?, columns.checked("out_columns")?);
        let (rows, columns) = which(reshape).dimensions();
        wide.set_number(rows as usize)?;
        high.set_number(columns as usize)
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn QUO_reshape_old_dimensions(
    out_rows: RawOut<c_int>,
    out_columns: RawOut<c_int>,
) -> c_int {
    entry("QUO_reshape_old_dimensions", || {
        dimensions(out_rows, out_columns, Reshape::old_dimensions)
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn QUO_reshape_new_dimensions(
    out_rows: RawOut<c_int>,
    out_columns: RawOut<c_int>,
) -> c_int {
    entry("QUO_reshape_new_dimensions", || {
        dimensions(out_rows, out_columns, Reshape::new_dimensions)
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn QUO_reshape_rearrange(rows: c_int, columns: c_int) -> c_int {
    entry("QUO_reshape_rearrange", || {
        let grid = Configuration::grid(natural("rows", rows)?, natural("columns", columns)?);
        let grid = grid.map_err(ReshapeError::from)?;
        with(|reshape| Ok(reshape.rearrange(grid)?))
    })
}

fn current() -> Result<MPI_Comm, Failure> {
    with(|reshape| {
        let current = reshape.world().communicator();
        Ok(current.map_or_else(MPI_Comm::null, Communicator::as_raw))
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn QUO_reshape_world() -> MPI_Comm {
    let mut comm = None;
    entry("QUO_reshape_world", || {
        comm = Some(current()?);
        Ok(())
    });
    comm.unwrap_or_else(MPI_Comm::null)
}

#[unsafe(no_mangle)]
pub extern "C" fn QUO_reshape_world_f2c(out_comm: FintPtr) -> c_int {
    entry("QUO_reshape_world_f2c", || {
        let comm = current()?;
        out_comm.checked("out_comm")?.set(comm);
        Ok(())
    })
}

/// Layout of a program's array, and how it is moved.
#[derive(Clone, Copy)]
enum Lies {
    Cyclic { length: usize, block: usize },
    Block { length: usize },
    Checkerboard { shape: (usize, usize), block: usize, storage: Storage },
}

fn moved<T: Element>(
    reshape: &mut Reshape,
    data: HeapPtr,
    count: &mut usize,
    lies: Lies,
) -> Result<(), Failure> {
    let mut elements: Vec<T> = match data.read_elements(*count) {
        Ok(elements) => elements,
        Err(failure) => return Err(refused(reshape, failure)),
    };
    match lies {
        Lies::Cyclic { length, block } => reshape.redistribute_1d(&mut elements, length, block),
        Lies::Block { length } => reshape.redistribute_uniform_block(&mut elements, length),
        Lies::Checkerboard { shape, block, storage } => {
            reshape.redistribute_2d(&mut elements, shape, block, storage)
        }
    }?;
    data.replace_elements(&elements)?;
    *count = elements.len();
    Ok(())
}

/// Records an error of this rank, so that the others do not wait for it.
fn refused(reshape: &mut Reshape, failure: Failure) -> Failure {
    // The error on all ranks says less than this one.
    let _ = reshape.refuse_redistribution(failure.text());
    failure
}

fn redistribute(
    data: HeapPtr,
    count: RawOut<usize>,
    element: usize,
    lies: Result<Lies, Failure>,
) -> Result<(), Failure> {
    with(|reshape| {
        let checked = || Ok((data.checked("data")?, count.checked("count")?, lies?));
        let (data, place, lies) = checked().map_err(|failure| refused(reshape, failure))?;
        let mut count = place.get();
        let count_of = &mut count;
        match element {
            1 => moved::<u8>(reshape, data, count_of, lies),
            2 => moved::<u16>(reshape, data, count_of, lies),
            4 => moved::<u32>(reshape, data, count_of, lies),
            8 => moved::<u64>(reshape, data, count_of, lies),
            16 => moved::<[u64; 2]>(reshape, data, count_of, lies),
            other => {
                let text = format!("elements of {other} bytes: they have 1, 2, 4, 8 or 16");
                Err(refused(reshape, Failure::invalid(text)))
            }
        }?;
        place.set(count);
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn QUO_reshape_redistribute_1d(
    data: HeapPtr,
    count: RawOut<usize>,
    element: usize,
    length: usize,
    block: usize,
) -> c_int {
    entry("QUO_reshape_redistribute_1d", || {
        redistribute(data, count, element, Ok(Lies::Cyclic { length, block }))
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn QUO_reshape_redistribute_uniform_block(
    data: HeapPtr,
    count: RawOut<usize>,
    element: usize,
    length: usize,
) -> c_int {
    entry("QUO_reshape_redistribute_uniform_block", || {
        redistribute(data, count, element, Ok(Lies::Block { length }))
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn QUO_reshape_redistribute_2d(
    data: HeapPtr,
    count: RawOut<usize>,
    element: usize,
    rows: usize,
    columns: usize,
    block: usize,
    storage: c_int,
) -> c_int {
    entry("QUO_reshape_redistribute_2d", || {
        let storage = match storage {
            0 => Ok(Storage::Rows),
            1 => Ok(Storage::Columns),
            other => Err(Failure::invalid(format!("storage {other} is not a QUO_array_storage_t"))),
        };
        let shape = (rows, columns);
        let lies = storage.map(|storage| Lies::Checkerboard { shape, block, storage });
        redistribute(data, count, element, lies)
    })
}
