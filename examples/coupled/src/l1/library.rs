//! The heat library in C++, which finds by itself who works with how many threads.
#![allow(unsafe_code)]

use std::ffi::{CStr, c_char};
use std::ptr::{NonNull, null_mut};

use anyhow::{Result, bail, ensure};
use mpi::ffi::MPI_Comm;
use mpi::raw::AsRaw;
use mpi::topology::SimpleCommunicator;
// Its C functions are what the library is linked with.
use quo_c as _;

use super::{Block, Failure, RawBlock, Solve};
use crate::deck::Over;

/// Failed below the solver.
const RUNTIME: i32 = 5;

/// Task of the library, the same at every step but for the time.
#[derive(Copy, Clone, Debug)]
pub struct Task {
    /// The calling rank's rows.
    pub block: Block,
    pub kappa: f64,
    pub tolerance: f64,
    pub max_iterations: usize,
    /// At most `max` ranks work for each object of this type.
    pub over: Over,
    pub max: usize,
}

/// Work of the calling rank in all steps so far.
#[derive(Copy, Clone, Debug)]
pub struct Used {
    pub worker: bool,
    /// While it worked; 0 before the first step.
    pub threads: usize,
}

/// The library, set up. Given back by [`Library::free`] only, which is collective.
pub struct Library {
    handle: NonNull<RawLibrary>,
    block: Block,
}

/// Its contents are C++'s business.
#[repr(C)]
struct RawLibrary {
    private: [u8; 0],
}

#[repr(C)]
struct RawProblem {
    block: RawBlock,
    kappa: f64,
    tolerance: f64,
    max_iterations: i32,
    over: i32,
    max_per_object: i32,
}

#[repr(C)]
struct RawOutcome {
    iterations: i32,
    workers: i32,
    residual: f64,
}

#[repr(C)]
struct RawUsage {
    worker: i32,
    threads: i32,
    working: f64,
    asleep: f64,
    cpus: [c_char; 256],
}

unsafe extern "C" {
    fn heat_create(
        ranks: MPI_Comm,
        problem: *const RawProblem,
        library: *mut *mut RawLibrary,
    ) -> i32;
    fn heat_step(
        library: *mut RawLibrary,
        dt: f64,
        depth: *const f64,
        heat: *mut f64,
        outcome: *mut RawOutcome,
    ) -> i32;
    fn heat_used(library: *const RawLibrary, usage: *mut RawUsage);
    fn heat_free(library: *mut RawLibrary) -> i32;
    fn heat_last_error() -> *const c_char;
}

impl Library {
    /// Sets it up. Collective over `ranks`, which hold consecutive blocks of rows.
    ///
    /// # Errors
    /// The same on every rank.
    pub fn new(ranks: &SimpleCommunicator, task: &Task) -> Result<Library> {
        let size = |n: usize| i32::try_from(n).unwrap_or(-1);
        let Task { block, kappa, tolerance, .. } = *task;
        let problem = RawProblem {
            block: RawBlock {
                nx: size(block.nx),
                rows: size(block.rows),
                stride: size(2 * block.nx),
                dx: block.dx,
                dy: block.dy,
            },
            kappa,
            tolerance,
            max_iterations: i32::try_from(task.max_iterations).unwrap_or(i32::MAX),
            over: match task.over {
                Over::Machine => 0,
                Over::Numa => 1,
                Over::Package => 2,
                Over::Core => 3,
            },
            max_per_object: i32::try_from(task.max).unwrap_or(i32::MAX),
        };
        let mut handle = null_mut();
        // SAFETY: the problem and the place for the handle outlive the call.
        let code = unsafe { heat_create(ranks.as_raw(), &raw const problem, &raw mut handle) };
        match NonNull::new(handle) {
            Some(handle) if code == 0 => Ok(Library { handle, block }),
            _ => bail!("setting up the heat library: {}", last_error()),
        }
    }

    /// One step. `state` holds the rank's rows as for [`super::diffuse`]. Collective over the ranks.
    ///
    /// # Errors
    /// Of the runtime below; the same on every rank, as is the solver's failure.
    pub fn step(&mut self, dt: f64, state: &mut [f64]) -> Result<Result<Solve, Failure>> {
        let Block { nx, rows, .. } = self.block;
        ensure!(
            state.len() == 2 * nx * rows,
            "these are not the rows that the library was made for"
        );
        let mut outcome = RawOutcome { iterations: 0, workers: 0, residual: 0.0 };
        let base = state.as_mut_ptr();
        // SAFETY: the handle is in use until `free`. Both pointers come from the one exclusive
        // borrow of `state`, and `rows` rows of nx values from each at distances of 2 nx stay
        // within it and apart from each other.
        let code = unsafe {
            heat_step(self.handle.as_ptr(), dt, base, base.wrapping_add(nx), &raw mut outcome)
        };
        if code == RUNTIME {
            bail!("a step of the heat library: {}", last_error());
        }
        Ok(match Failure::from_code(code) {
            Some(failure) => Err(failure),
            None => Ok(Solve {
                iterations: usize::try_from(outcome.iterations).unwrap_or(0),
                threads: self.used().threads,
                residual: outcome.residual,
            }),
        })
    }

    /// Work of the calling rank.
    pub fn used(&self) -> Used {
        let mut used =
            RawUsage { worker: 0, threads: 0, working: 0.0, asleep: 0.0, cpus: [0; 256] };
        // SAFETY: the handle is in use until `free`, and the place outlives the call.
        unsafe { heat_used(self.handle.as_ptr(), &raw mut used) };
        Used { worker: used.worker != 0, threads: usize::try_from(used.threads).unwrap_or(0) }
    }

    /// Gives everything back. Collective over the ranks.
    pub fn free(self) {
        // SAFETY: the handle is in use, and `self` is gone after this.
        unsafe { heat_free(self.handle.as_ptr()) };
    }
}

fn last_error() -> String {
    // SAFETY: never null, ends with a zero, and lives until this thread's next failure.
    unsafe { CStr::from_ptr(heat_last_error()) }.to_string_lossy().into_owned()
}
