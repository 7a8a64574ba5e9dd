//! L1: implicit diffusion of heat, by threaded solvers in C and C++ that know nothing of `quo`, and a
//! library in C++ that does.
#![allow(unsafe_code)]

pub mod library;

use std::fmt;

use mpi::ffi::{MPI_Comm, RSMPI_COMM_NULL};
use mpi::raw::AsRaw;
use serde::{Deserialize, Serialize};

/// The solver; both end with the same bits.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
pub enum Solver {
    /// In C with OpenMP.
    #[default]
    #[value(name = "c")]
    #[serde(rename = "c")]
    C,
    /// In C++ with threads of its own.
    #[value(name = "c++")]
    #[serde(rename = "c++")]
    Cxx,
}

/// A worker's part of the mesh: `rows` consecutive rows of `nx` cells.
#[derive(Copy, Clone, Debug)]
pub struct Block {
    pub nx: usize,
    pub rows: usize,
    /// Cell sizes in metres.
    pub dx: f64,
    pub dy: f64,
}

/// Tolerances and coefficients of the solver.
#[derive(Copy, Clone, Debug)]
pub struct Options {
    /// Seconds.
    pub dt: f64,
    /// Square metres per second.
    pub kappa: f64,
    /// Of the residual, relative to the right-hand side.
    pub tolerance: f64,
    pub max_iterations: usize,
}

/// Report of the solver on a step.
#[derive(Copy, Clone, Debug, Default, PartialEq)]
pub struct Solve {
    pub iterations: usize,
    pub threads: usize,
    pub residual: f64,
}

/// Why a step was not made; the same on all workers.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
#[repr(i32)]
pub enum Failure {
    NoMemory = 1,
    NotConverged = 2,
    Breakdown = 3,
    BadArgument = 4,
}

impl Failure {
    /// From a library's code; `None` for success.
    pub fn from_code(code: i32) -> Option<Failure> {
        match code {
            0 => None,
            1 => Some(Failure::NoMemory),
            2 => Some(Failure::NotConverged),
            3 => Some(Failure::Breakdown),
            _ => Some(Failure::BadArgument),
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Failure::NoMemory => "no memory for the diffusion solver on at least one worker",
            Failure::NotConverged => {
                "the diffusion solver did not converge in `diffusion.max_iterations`"
            }
            Failure::Breakdown => {
                "the diffusion matrix is not positive definite (NaN or a dry cell)"
            }
            Failure::BadArgument => "the diffusion solver was given a bad block or time step",
        })
    }
}

impl std::error::Error for Failure {}

#[repr(C)]
struct RawBlock {
    nx: i32,
    rows: i32,
    stride: i32,
    dx: f64,
    dy: f64,
}

#[repr(C)]
struct RawOptions {
    dt: f64,
    kappa: f64,
    tolerance: f64,
    max_iterations: i32,
}

#[repr(C)]
struct RawResult {
    iterations: i32,
    threads: i32,
    residual: f64,
}

unsafe extern "C" {
    fn diffusion_step(
        workers: MPI_Comm,
        block: *const RawBlock,
        options: *const RawOptions,
        depth: *const f64,
        heat: *mut f64,
        result: *mut RawResult,
    ) -> i32;
    fn omp_set_num_threads(threads: i32);
    fn heat_diffusion_step(
        workers: MPI_Comm,
        block: *const RawBlock,
        options: *const RawOptions,
        depth: *const f64,
        heat: *mut f64,
        result: *mut RawResult,
    ) -> i32;
    fn heat_set_threads(threads: i32);
}

impl Solver {
    /// Sets on how many threads the steps that the calling thread asks for are solved.
    pub fn set_threads(self, threads: usize) {
        let threads = i32::try_from(threads.max(1)).unwrap_or(i32::MAX);
        // SAFETY: any positive number may be passed, by any thread.
        unsafe {
            match self {
                Solver::C => omp_set_num_threads(threads),
                Solver::Cxx => heat_set_threads(threads),
            }
        }
    }
}

/// One implicit step. `state` holds the worker's rows, each of them `nx` depths followed by `nx`
/// heats (depth × temperature), which are replaced. Collective over `workers`, whose ranks hold
/// consecutive blocks of rows; `None` is a mesh held by the caller alone (no MPI is called).
///
/// # Errors
/// The failure, agreed by all workers; `state` is then unchanged.
pub fn diffuse<C>(
    solver: Solver,
    workers: Option<&C>,
    block: &Block,
    options: &Options,
    state: &mut [f64],
) -> Result<Solve, Failure>
where
    C: AsRaw<Raw = MPI_Comm>,
{
    // What does not fit is passed as an impossible size, so that all workers hear of it.
    let consistent = state.len() == 2 * block.nx * block.rows && !state.is_empty();
    let size = |n: usize| if consistent { i32::try_from(n).unwrap_or(-1) } else { -1 };
    let raw_block = RawBlock {
        nx: size(block.nx),
        rows: size(block.rows),
        stride: size(2 * block.nx),
        dx: block.dx,
        dy: block.dy,
    };
    let base = state.as_mut_ptr();
    let raw_options = RawOptions {
        dt: options.dt,
        kappa: options.kappa,
        tolerance: options.tolerance,
        max_iterations: i32::try_from(options.max_iterations).unwrap_or(i32::MAX),
    };
    let mut result = RawResult { iterations: 0, threads: 0, residual: 0.0 };
    // SAFETY: reading a constant of the MPI library.
    let alone = unsafe { RSMPI_COMM_NULL };
    let workers = workers.map_or(alone, |communicator| communicator.as_raw());
    let step = match solver {
        Solver::C => diffusion_step,
        Solver::Cxx => heat_diffusion_step,
    };
    // SAFETY: the structures outlive the call and have the C layout. Both pointers come from the
    // one exclusive borrow of `state`, and rows of nx values from each at distances of 2 nx stay
    // within it and apart from each other (else the size is -1 and neither is touched).
    let code = unsafe {
        step(
            workers,
            &raw const raw_block,
            &raw const raw_options,
            base,
            base.wrapping_add(block.nx),
            &raw mut result,
        )
    };
    match Failure::from_code(code) {
        Some(failure) => Err(failure),
        None => Ok(Solve {
            iterations: usize::try_from(result.iterations).unwrap_or(0),
            threads: usize::try_from(result.threads).unwrap_or(1),
            residual: result.residual,
        }),
    }
}

#[cfg(test)]
mod tests {
    use std::f64::consts::PI;

    use mpi::topology::SimpleCommunicator;

    use super::*;

    const ALONE: Option<&SimpleCommunicator> = None;

    fn options(dt: f64, tolerance: f64) -> Options {
        Options { dt, kappa: 1.0, tolerance, max_iterations: 10_000 }
    }

    fn block(n: usize) -> Block {
        Block { nx: n, rows: n, dx: 1.0 / n as f64, dy: 1.0 / n as f64 }
    }

    fn wave(n: usize, i: usize, j: usize) -> f64 {
        let (x, y) = ((i as f64 + 0.5) / n as f64, (j as f64 + 0.5) / n as f64);
        (PI * x).cos() * (2.0 * PI * y).cos()
    }

    /// Depth and heat with something going on in every cell.
    fn rough(n: usize) -> (Vec<f64>, Vec<f64>) {
        let depth: Vec<f64> =
            (0..n * n).map(|k| 1.0 + 0.5 * ((k * 37 % 101) as f64 / 101.0)).collect();
        let heat = depth.iter().enumerate().map(|(k, h)| h * (1.0 + (k % 17) as f64)).collect();
        (depth, heat)
    }

    /// Rows as the solver takes them.
    fn state(n: usize, depth: &[f64], heat: &[f64]) -> Vec<f64> {
        depth.chunks(n).zip(heat.chunks(n)).flat_map(|(h, q)| [h, q].concat()).collect()
    }

    fn heat_of(n: usize, state: &[f64]) -> Vec<f64> {
        state.chunks(2 * n).flat_map(|row| row[n..].to_vec()).collect()
    }

    /// One step by both solvers, which may differ in nothing.
    fn step(block: &Block, options: &Options, state: &mut [f64]) -> Result<Solve, Failure> {
        let mut other = state.to_vec();
        let by_c = diffuse(Solver::C, ALONE, block, options, state);
        let by_cxx = diffuse(Solver::Cxx, ALONE, block, options, &mut other);
        let essence = |solve: Solve| (solve.iterations, solve.residual.to_bits());
        assert_eq!(by_c.map(essence), by_cxx.map(essence));
        let bits = |values: &[f64]| values.iter().map(|v| v.to_bits()).collect::<Vec<_>>();
        assert!(bits(state) == bits(&other), "the solvers differ");
        by_c
    }

    /// Solves on a square mesh and returns the new heat.
    fn solve(n: usize, options: &Options, depth: &[f64], heat: &[f64]) -> Vec<f64> {
        let mut state = state(n, depth, heat);
        step(&block(n), options, &mut state).unwrap();
        heat_of(n, &state)
    }

    fn error_at(n: usize) -> f64 {
        let dt = 0.01;
        let depth = vec![2.0; n * n];
        let heat: Vec<f64> = (0..n * n).map(|k| 2.0 * wave(n, k % n, k / n)).collect();
        let heat = solve(n, &options(dt, 1e-13), &depth, &heat);
        let decay = 1.0 / (1.0 + dt * 5.0 * PI * PI);
        (0..n * n)
            .map(|k| (heat[k] / 2.0 - decay * wave(n, k % n, k / n)).abs())
            .fold(0.0, f64::max)
    }

    #[test]
    fn an_eigenmode_decays_with_second_order_accuracy_in_space() {
        let (coarse, fine) = (error_at(16), error_at(32));
        let order = (coarse / fine).log2();
        assert!((1.9..2.1).contains(&order), "order {order}: {coarse} {fine}");
    }

    #[test]
    fn the_solution_satisfies_the_equation_it_was_asked_to() {
        // heat_new - heat_old is the flux of T_new = heat_new / depth only to the tolerance.
        let n = 24;
        let (depth, before) = rough(n);
        let tight = solve(n, &options(0.01, 1e-14), &depth, &before);
        let loose = solve(n, &options(0.01, 1e-6), &depth, &before);
        let scale = tight.iter().fold(0.0_f64, |m, v| m.max(v.abs()));
        let apart = tight.iter().zip(&loose).fold(0.0_f64, |m, (a, b)| m.max((a - b).abs()));
        assert!(apart / scale < 1e-3 && apart > 0.0, "{}", apart / scale);
        let moved = tight.iter().zip(&before).fold(0.0_f64, |m, (a, b)| m.max((a - b).abs()));
        assert!(moved / scale > 0.1);
    }

    #[test]
    fn the_total_is_conserved_whatever_the_tolerance() {
        let n = 40;
        let (depth, before) = rough(n);
        for tolerance in [1e-2, 1e-12] {
            let heat = solve(n, &options(0.1, tolerance), &depth, &before);
            let (old, new) = (before.iter().sum::<f64>(), heat.iter().sum::<f64>());
            assert!(((new - old) / old).abs() < 1e-13, "{}", (new - old) / old);
        }
    }

    #[test]
    fn a_constant_temperature_stays() {
        let n = 16;
        let (depth, _) = rough(n);
        let heat: Vec<f64> = depth.iter().map(|h| 3.0 * h).collect();
        let heat = solve(n, &options(1.0, 1e-12), &depth, &heat);
        for (q, h) in heat.iter().zip(&depth) {
            assert!((q / h - 3.0).abs() < 1e-12);
        }
    }

    #[test]
    fn the_bits_do_not_depend_on_the_number_of_threads() {
        let n = 45;
        let (depth, before) = rough(n);
        let solve = |solver: Solver, threads| {
            // A thread of its own: the setting belongs to the calling thread.
            std::thread::scope(|scope| {
                let all = scope.spawn(|| {
                    solver.set_threads(threads);
                    let mut state = state(n, &depth, &before);
                    let options = options(0.05, 1e-10);
                    let solve = diffuse(solver, ALONE, &block(n), &options, &mut state).unwrap();
                    assert_eq!(solve.threads, threads);
                    state
                });
                all.join().unwrap()
            })
        };
        let one = solve(Solver::C, 1);
        for threads in [1, 2, 3, 7] {
            for solver in [Solver::C, Solver::Cxx] {
                assert!(solve(solver, threads) == one, "{threads} threads, {solver:?}");
            }
        }
    }

    #[test]
    fn a_pool_may_change_its_width_between_steps() {
        let n = 20;
        let (depth, before) = rough(n);
        let mut rows = state(n, &depth, &before);
        let options = options(0.05, 1e-10);
        for threads in [1, 4, 2, 5] {
            Solver::Cxx.set_threads(threads);
            let solve = diffuse(Solver::Cxx, ALONE, &block(n), &options, &mut rows).unwrap();
            assert_eq!(solve.threads, threads);
        }
        let mut expected = state(n, &depth, &before);
        for _ in 0..4 {
            diffuse(Solver::C, ALONE, &block(n), &options, &mut expected).unwrap();
        }
        assert!(rows == expected);
    }

    #[test]
    fn too_few_iterations_leave_the_field_unchanged() {
        let n = 32;
        let (depth, before) = rough(n);
        let mut rows = state(n, &depth, &before);
        let options = Options { dt: 1.0, kappa: 1.0, tolerance: 1e-12, max_iterations: 2 };
        let failed = step(&block(n), &options, &mut rows);
        assert_eq!(failed, Err(Failure::NotConverged));
        assert_eq!(rows, state(n, &depth, &before));
    }

    #[test]
    fn bad_input_is_an_error_and_touches_nothing() {
        let (depth, before) = rough(8);
        let mut rows = state(8, &depth, &before);
        let short = step(&block(8), &options(1.0, 1e-6), &mut rows[1..]);
        assert_eq!(short, Err(Failure::BadArgument));
        let empty = step(&block(0), &options(1.0, 1e-6), &mut []);
        assert_eq!(empty, Err(Failure::BadArgument));
        let not_a_step = step(&block(8), &options(f64::NAN, 1e-6), &mut rows);
        assert_eq!(not_a_step, Err(Failure::BadArgument));
        assert_eq!(rows, state(8, &depth, &before));
        rows[5] = f64::NAN;
        let dry = step(&block(8), &options(1.0, 1e-6), &mut rows);
        assert_eq!(dry, Err(Failure::Breakdown));
        assert_eq!(heat_of(8, &rows), before);
    }
}
