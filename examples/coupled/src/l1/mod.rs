//! L1: implicit diffusion of heat, by a threaded solver in C that does not use `quo`.
#![allow(unsafe_code)]

use mpi::ffi::{MPI_Comm, RSMPI_COMM_NULL};
use mpi::raw::AsRaw;

/// Equation of a step, the same at every step but for the time.
#[derive(Copy, Clone, Debug)]
pub struct Problem {
    /// Cells of a row.
    pub nx: usize,
    /// Cell sizes in metres.
    pub dx: f64,
    pub dy: f64,
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
#[derive(Copy, Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[repr(i32)]
pub enum Failure {
    #[error("no memory for the diffusion solver on at least one worker")]
    NoMemory = 1,
    #[error("the diffusion solver did not converge in `diffusion.max_iterations`")]
    NotConverged = 2,
    #[error("the diffusion matrix is not positive definite (NaN or a dry cell)")]
    Breakdown = 3,
    #[error("the diffusion solver was given a bad block or time step")]
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
}

/// Sets the number of threads of the steps that the calling thread asks for.
pub fn set_threads(threads: usize) {
    let threads = i32::try_from(threads.max(1)).unwrap_or(i32::MAX);
    // SAFETY: any positive number may be passed, by any thread.
    unsafe { omp_set_num_threads(threads) }
}

impl Problem {
    /// Makes one implicit step of `dt` seconds. `state` holds the worker's rows, each of them `nx` depths followed by
    /// `nx` heats (depth × temperature), which are replaced. Collective over `workers`, which hold
    /// consecutive blocks of rows; `None` is a mesh held by the caller alone (no MPI is called).
    ///
    /// # Errors
    /// The failure, agreed by all workers; `state` is then unchanged.
    pub fn solve<C>(
        &self,
        workers: Option<&C>,
        dt: f64,
        state: &mut [f64],
    ) -> Result<Solve, Failure>
    where
        C: AsRaw<Raw = MPI_Comm>,
    {
        let row = 2 * self.nx;
        // State that is no whole rows is passed as an impossible size, so that all workers hear of it.
        let is_whole = !state.is_empty() && row > 0 && state.len().is_multiple_of(row);
        let size = |n: usize| if is_whole { i32::try_from(n).unwrap_or(-1) } else { -1 };
        let block = RawBlock {
            nx: size(self.nx),
            rows: size(state.len() / row.max(1)),
            stride: size(row),
            dx: self.dx,
            dy: self.dy,
        };
        let options = RawOptions {
            dt,
            kappa: self.kappa,
            tolerance: self.tolerance,
            max_iterations: i32::try_from(self.max_iterations).unwrap_or(i32::MAX),
        };
        let mut result = RawResult { iterations: 0, threads: 0, residual: 0.0 };
        let base = state.as_mut_ptr();
        // SAFETY: reading a constant of the MPI library.
        let alone = unsafe { RSMPI_COMM_NULL };
        let workers = workers.map_or(alone, |communicator| communicator.as_raw());
        let heat = base.wrapping_add(self.nx);
        // SAFETY: the structures outlive the call and have the C layout. Both pointers come from the
        // one exclusive borrow of `state`, and rows of nx values from each at distances of 2 nx stay
        // within it and apart from each other (else the size is -1 and neither is touched).
        let code = unsafe {
            diffusion_step(
                workers,
                &raw const block,
                &raw const options,
                base,
                heat,
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
}

#[cfg(test)]
mod tests {
    use std::f64::consts::PI;

    use mpi::topology::SimpleCommunicator;

    use super::*;

    const ALONE: Option<&SimpleCommunicator> = None;

    /// A square of side 1.
    fn problem(n: usize, tolerance: f64) -> Problem {
        let side = 1.0 / n as f64;
        Problem { nx: n, dx: side, dy: side, kappa: 1.0, tolerance, max_iterations: 10_000 }
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

    /// Solves on a square mesh and returns the new heat.
    fn solve(n: usize, tolerance: f64, dt: f64, depth: &[f64], heat: &[f64]) -> Vec<f64> {
        let mut state = state(n, depth, heat);
        problem(n, tolerance).solve(ALONE, dt, &mut state).unwrap();
        heat_of(n, &state)
    }

    fn error_at(n: usize) -> f64 {
        let dt = 0.01;
        let depth = vec![2.0; n * n];
        let heat: Vec<f64> = (0..n * n).map(|k| 2.0 * wave(n, k % n, k / n)).collect();
        let heat = solve(n, 1e-13, dt, &depth, &heat);
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
        let tight = solve(n, 1e-14, 0.01, &depth, &before);
        let loose = solve(n, 1e-6, 0.01, &depth, &before);
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
            let heat = solve(n, tolerance, 0.1, &depth, &before);
            let (old, new) = (before.iter().sum::<f64>(), heat.iter().sum::<f64>());
            assert!(((new - old) / old).abs() < 1e-13, "{}", (new - old) / old);
        }
    }

    #[test]
    fn a_constant_temperature_stays() {
        let n = 16;
        let (depth, _) = rough(n);
        let heat: Vec<f64> = depth.iter().map(|h| 3.0 * h).collect();
        let heat = solve(n, 1e-12, 1.0, &depth, &heat);
        for (q, h) in heat.iter().zip(&depth) {
            assert!((q / h - 3.0).abs() < 1e-12);
        }
    }

    #[test]
    fn the_bits_do_not_depend_on_the_number_of_threads() {
        let n = 45;
        let (depth, before) = rough(n);
        let solve = |threads: &[usize]| {
            let problem = problem(n, 1e-10);
            let mut state = state(n, &depth, &before);
            // A separate thread: the setting belongs to the calling thread.
            std::thread::scope(|scope| {
                let all = scope.spawn(|| {
                    for &threads in threads {
                        set_threads(threads);
                        let solve = problem.solve(ALONE, 0.05, &mut state).unwrap();
                        assert_eq!(solve.threads, threads);
                    }
                });
                all.join().unwrap();
            });
            state
        };
        let one = solve(&[1; 4]);
        for threads in [[2; 4], [3; 4], [7; 4], [1, 4, 2, 5]] {
            assert!(solve(&threads) == one, "{threads:?} threads");
        }
    }

    #[test]
    fn too_few_iterations_leave_the_field_unchanged() {
        let n = 32;
        let (depth, before) = rough(n);
        let mut rows = state(n, &depth, &before);
        let short = Problem { max_iterations: 2, ..problem(n, 1e-12) };
        assert_eq!(short.solve(ALONE, 1.0, &mut rows), Err(Failure::NotConverged));
        assert_eq!(rows, state(n, &depth, &before));
    }

    #[test]
    fn bad_input_is_an_error_and_touches_nothing() {
        let (depth, before) = rough(8);
        let mut rows = state(8, &depth, &before);
        let good = problem(8, 1e-6);
        assert_eq!(good.solve(ALONE, 1.0, &mut rows[1..]), Err(Failure::BadArgument));
        assert_eq!(problem(0, 1e-6).solve(ALONE, 1.0, &mut []), Err(Failure::BadArgument));
        assert_eq!(good.solve(ALONE, f64::NAN, &mut rows), Err(Failure::BadArgument));
        assert_eq!(rows, state(8, &depth, &before));
        rows[5] = f64::NAN;
        assert_eq!(good.solve(ALONE, 1.0, &mut rows), Err(Failure::Breakdown));
        assert_eq!(heat_of(8, &rows), before);
    }
}
