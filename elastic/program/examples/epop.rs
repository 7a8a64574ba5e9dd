//! Cannon's product of matrices and Gauss's elimination as programs of elements:
//! `mpirun -n 4 epop cannon 3:4 6:1` has four ranks from step 3 on, and one from step 6 on. `gauss`
//! replaces `cannon`; `3:4!` aborts that resize; `serial` as the first word runs the same program
//! in one process, without MPI; `trace` prints each action to standard error.
#![allow(clippy::print_stdout, clippy::print_stderr)]

use std::error::Error;
use std::time::Duration;

use elastic::Window;
use elastic::WorldOptions;
use elastic::data::{Grids, Pattern};
use elastic::place::{Allowed, Bounds};
use elastic_program::{BlockError, Program, Stage};
use quo::group::{WaitLimits, allgather_bytes};
use quo_mpi::Mpi;
use quo_mpi::communicator::ThreadLevel;

/// Rows and columns of the matrices: divisible by the grids on which Cannon's algorithm runs.
const N: usize = 24;
/// Number of products.
const PRODUCTS: usize = 9;

fn limits() -> WaitLimits<'static> {
    WaitLimits::for_at_most(Duration::from_secs(60))
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut words: Vec<String> = std::env::args().skip(1).collect();
    let mut takes = |word: &str| {
        let found = words.first().is_some_and(|first| first == word);
        if found {
            words.remove(0);
        }
        found
    };
    let (serial, trace) = (takes("serial"), takes("trace"));
    let (name, sizes) =
        words.split_first().ok_or("epop [serial] [trace] cannon|gauss [STEP:SIZE] ...")?;
    let sizes = sizes.iter().map(|word| Size::read(word)).collect::<Result<Vec<_>, _>>()?;
    let most = sizes.iter().map(|size| size.size).max().unwrap_or(1);
    let (mut program, allowed) = match name.as_str() {
        "cannon" => (cannon(sizes), Allowed::Square),
        "gauss" => (gauss(sizes), Allowed::Any),
        other => return Err(format!("{other} is neither cannon nor gauss").into()),
    };
    if trace {
        // One write for each line: several ranks write at once.
        program = program.traced(|name, action| {
            let line = format!("{name}: {action:?}\n");
            eprint!("{line}");
        });
    }
    if serial {
        program.serial()?;
        return Ok(());
    }
    let _mpi = Mpi::initialize_for(ThreadLevel::Multiple)?; // more processes may be started
    let options = WorldOptions::new().initial_ranks(1).allowed_sizes(Bounds::new(
        1,
        most.max(1) as u32,
        allowed,
    )?);
    program.run(options.max_ranks(most).allow_oversubscribe(true))?;
    Ok(())
}

/// A size that the program requests at a step.
#[derive(Clone)]
struct Size {
    step: usize,
    size: usize,
    refused: bool,
}

impl Size {
    fn read(word: &str) -> Result<Self, Box<dyn Error>> {
        let (step, size) = word.split_once(':').ok_or_else(|| format!("{word} is no STEP:SIZE"))?;
        let refused = size.ends_with('!');
        let size = size.trim_end_matches('!').parse()?;
        Ok(Self { step: step.parse()?, size, refused })
    }
}

/// Progress of a process, which joiners receive.
struct Work {
    sizes: Vec<Size>,
    step: usize,
    /// Index of the next size.
    next: usize,
    asked: bool,
}

impl Work {
    fn new(sizes: &[Size]) -> Self {
        Self { sizes: sizes.to_vec(), step: 0, next: 0, asked: false }
    }

    /// Requests the size of this step, and returns true until the world has this size.
    fn waits(&mut self, stage: &Stage<'_>) -> Result<bool, BlockError> {
        let due = self.sizes.get(self.next).filter(|due| due.step <= self.step);
        let Some(due) = due.filter(|_| stage.world().is_some()) else { return Ok(false) };
        if stage.size() == due.size {
            if stage.rank() == 0 {
                println!("step {}: {} ranks", self.step, due.size);
            }
            (self.next, self.asked) = (self.next + 1, false);
            return Ok(false);
        }
        if !self.asked && stage.rank() == 0 {
            stage.request(due.size)?;
        }
        self.asked = true;
        std::thread::yield_now();
        Ok(true)
    }

    fn redistribute(&mut self, window: &mut Window<'_>) -> Result<(), BlockError> {
        let mut told = (self.step, self.next, self.asked);
        window.broadcast(&mut told)?;
        (self.step, self.next, self.asked) = told;
        if self.sizes.get(self.next).is_some_and(|due| due.refused) {
            (self.next, self.asked) = (self.next + 1, false);
            return Err("refused on purpose".into());
        }
        Ok(())
    }
}

/// Computes A := A B modulo 97 repeatedly: numbers stay whole, so that their sums are exact in any
/// order.
fn cannon(sizes: Vec<Size>) -> Program<Work> {
    let square = Pattern::block_grid((N, N), Grids::NearlySquare);
    Program::new(move |stage| {
        if stage.is_new() {
            let a = stage.data_mut().register::<f64>("a", square)?;
            let b = stage.data_mut().register::<f64>("b", square)?;
            let (first, second) = (|at: usize| at % 7, |at: usize| at * at % 5);
            for (at, value) in stage.data_mut().local_mut(a)?.iter_mut().enumerate() {
                *value = first(at) as f64;
            }
            for (at, value) in stage.data_mut().local_mut(b)?.iter_mut().enumerate() {
                *value = second(at) as f64;
            }
        }
        Ok(Work::new(&sizes))
    })
    .elastic(
        "multiply",
        |work: &mut Work, stage| {
            if work.waits(stage)? {
                return Ok(());
            }
            let (a, b) = (stage.data().array::<f64>("a")?, stage.data().array::<f64>("b")?);
            let parts = (stage.data().local(a)?.to_vec(), stage.data().local(b)?.to_vec());
            let product = multiply(stage, parts)?;
            for (to, value) in stage.data_mut().local_mut(a)?.iter_mut().zip(product) {
                *to = value % 97.0;
            }
            work.step += 1;
            Ok(())
        },
        |work| work.step < PRODUCTS,
        |work, window| work.redistribute(window),
    )
    .rigid("report", |_, stage| {
        let a = stage.data().array::<f64>("a")?;
        let (side, wide) = (stage.size().isqrt(), N / stage.size().isqrt());
        let (row, column) = (stage.rank() / side * wide, stage.rank() % side * wide);
        let part = stage.data().local(a)?.iter().enumerate();
        let own: f64 = part
            .map(|(at, value)| value * ((row + at / wide) * N + column + at % wide + 1) as f64)
            .sum();
        let sum: f64 = gather(stage, &[own])?.into_iter().sum();
        if stage.rank() == 0 {
            println!("cannon: {PRODUCTS} products, checksum {sum}");
        }
        Ok(())
    })
}

/// Cannon's algorithm, on a square grid of ranks: blocks of A move left and blocks of B move up.
fn multiply(
    stage: &Stage<'_>,
    (mut a, mut b): (Vec<f64>, Vec<f64>),
) -> Result<Vec<f64>, BlockError> {
    let side = stage.size().isqrt();
    let (row, column, wide) = (stage.rank() / side, stage.rank() % side, N / side);
    let left = |by: usize| {
        let to = row * side + (column + side - by % side) % side;
        (to, row * side + (column + by) % side)
    };
    let up = |by: usize| {
        let to = (row + side - by % side) % side * side + column;
        (to, (row + by) % side * side + column)
    };
    a = shift(stage, a, left(row))?;
    b = shift(stage, b, up(column))?;
    let mut c = vec![0.0; wide * wide];
    for _ in 0..side {
        for i in 0..wide {
            for k in 0..wide {
                for j in 0..wide {
                    c[i * wide + j] += a[i * wide + k] * b[k * wide + j];
                }
            }
        }
        a = shift(stage, a, left(1))?;
        b = shift(stage, b, up(1))?;
    }
    Ok(c)
}

fn shift(
    stage: &Stage<'_>,
    block: Vec<f64>,
    (to, from): (usize, usize),
) -> Result<Vec<f64>, BlockError> {
    let Some(ranks) = stage.communicator().filter(|_| to != stage.rank()) else { return Ok(block) };
    let bytes = to_bytes(&block);
    let length = bytes.len();
    Ok(numbers(&ranks.exchange(Some((to, bytes)), Some((from, length)), 1, &limits())?))
}

/// Solves a system by elimination: one round for each column; rows are distributed in blocks.
fn gauss(sizes: Vec<Size>) -> Program<Work> {
    Program::new(move |stage| {
        if stage.is_new() {
            let rows = Pattern::block_rows(N, N + 1);
            let matrix = stage.data_mut().register::<f64>("matrix", rows)?;
            // There is only one rank at first.
            for (at, value) in stage.data_mut().local_mut(matrix)?.iter_mut().enumerate() {
                let (row, column) = (at / (N + 1), at % (N + 1));
                let strong = if row == column { N as f64 } else { 0.0 };
                *value = strong + 1.0 / (1 + row + 2 * column) as f64;
            }
        }
        Ok(Work::new(&sizes))
    })
    .elastic(
        "eliminate",
        |work: &mut Work, stage| {
            if work.waits(stage)? {
                return Ok(());
            }
            let each = N.div_ceil(stage.size());
            let (first, pivot) = (stage.rank() * each, work.step);
            let owner = pivot / each;
            let matrix = stage.data().array::<f64>("matrix")?;
            let part = stage.data().local(matrix)?;
            let line = |row: usize| &part[row * (N + 1)..(row + 1) * (N + 1)];
            let own = if owner == stage.rank() { line(pivot - first).to_vec() } else { Vec::new() };
            let top = match stage.communicator() {
                Some(ranks) => numbers(&ranks.broadcast(to_bytes(&own), owner, &limits())?),
                None => own,
            };
            let rows = stage.data_mut().local_mut(matrix)?.chunks_exact_mut(N + 1).enumerate();
            for (_, row) in rows.filter(|(row, _)| first + row > pivot) {
                let factor = row[pivot] / top[pivot];
                for (value, above) in row.iter_mut().zip(&top).skip(pivot) {
                    *value -= factor * above;
                }
            }
            work.step += 1;
            Ok(())
        },
        |work| work.step < N - 1,
        |work, window| work.redistribute(window),
    )
    .rigid("solve", |_, stage| {
        let matrix = stage.data().array::<f64>("matrix")?;
        let all = gather(stage, stage.data().local(matrix)?)?;
        let mut solution = [0.0_f64; N];
        for row in (0..N).rev() {
            let line = &all[row * (N + 1)..(row + 1) * (N + 1)];
            let known: f64 = (row + 1..N).map(|column| line[column] * solution[column]).sum();
            solution[row] = (line[N] - known) / line[row];
        }
        // Includes all bits: the order of operations is the same on any number of ranks.
        let bits = solution.iter().fold(0_u64, |sum, value| sum.rotate_left(7) ^ value.to_bits());
        if stage.rank() == 0 {
            println!("gauss: {N} rows, bits {bits:016x}");
        }
        Ok(())
    })
}

/// Gathers the numbers of all ranks, in rank order.
fn gather(stage: &Stage<'_>, own: &[f64]) -> Result<Vec<f64>, BlockError> {
    let Some(ranks) = stage.communicator() else { return Ok(own.to_vec()) };
    let all = allgather_bytes(&ranks.group()?, &to_bytes(own), &limits())?;
    Ok(all.iter().flat_map(|bytes| numbers(bytes)).collect())
}

fn to_bytes(numbers: &[f64]) -> Vec<u8> {
    numbers.iter().flat_map(|number| number.to_ne_bytes()).collect()
}

fn numbers(bytes: &[u8]) -> Vec<f64> {
    bytes.as_chunks().0.iter().map(|bytes| f64::from_ne_bytes(*bytes)).collect()
}
