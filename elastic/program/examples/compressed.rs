//! Moves a sparse matrix in compressed rows from each number of ranks to each other one and back,
//! as a program of elements: `mpirun -n 8 compressed`. Each rank checks its values, columns and row
//! pointers after each resize.
#![allow(clippy::print_stdout)]

use std::error::Error;

use elastic::WorldOptions;
use elastic::layout::{Compressed, Ranks};
use elastic_program::{BlockError, Program, Stage};
use quo_mpi::Mpi;

const ROWS: usize = 53;

/// Data of a process: the sizes to change to, and the index of the next one.
struct Walk {
    sizes: Vec<usize>,
    next: usize,
    asked: bool,
}

fn main() -> Result<(), Box<dyn Error>> {
    let mpi = Mpi::initialize()?;
    let processes = quo_mpi::communicator::Communicator::world()?;
    let most = processes.size();
    processes.free()?;
    let program = Program::new(move |stage| {
        if stage.is_new() {
            let matrix = matrix()?;
            let values = stage.data_mut().register_compressed::<f64>("values", &matrix)?;
            let columns = stage.data_mut().register_compressed::<u32>("columns", &matrix)?;
            for (at, value) in stage.data_mut().local_mut(values)?.iter_mut().enumerate() {
                *value = value_of(at);
            }
            for (at, column) in stage.data_mut().local_mut(columns)?.iter_mut().enumerate() {
                *column = column_of(at);
            }
        }
        Ok(Walk { sizes: walk(most), next: 0, asked: false })
    })
    .elastic(
        "walk",
        go,
        |walk| walk.next < walk.sizes.len(),
        |walk, window| {
            let mut told = (walk.next, walk.asked);
            window.broadcast(&mut told)?;
            (walk.next, walk.asked) = told;
            Ok(())
        },
    )
    .rigid("report", |walk, stage| {
        if stage.rank() == 0 {
            println!(
                "right after {} resizes over up to {} ranks",
                walk.next,
                walk.sizes.iter().max().unwrap_or(&1)
            );
        }
        Ok(())
    });
    program.run(WorldOptions::new().initial_ranks(1))?;
    drop(mpi);
    Ok(())
}

/// Goes from each number of ranks to each other one, and back.
fn walk(most: usize) -> Vec<usize> {
    (2..=most).flat_map(|p| std::iter::once(p).chain((1..p).flat_map(move |q| [q, p]))).collect()
}

fn go(walk: &mut Walk, stage: &mut Stage<'_>) -> Result<(), BlockError> {
    if stage.size() == walk.sizes[walk.next] {
        check(stage)?;
        (walk.next, walk.asked) = (walk.next + 1, false);
    } else {
        if !walk.asked && stage.rank() == 0 {
            stage.request(walk.sizes[walk.next])?;
        }
        walk.asked = true;
        std::thread::yield_now();
    }
    Ok(())
}

/// Makes rows of different lengths, some of them empty.
fn matrix() -> Result<Compressed, BlockError> {
    let mut index = vec![0];
    index.extend((0..ROWS).scan(0, |sum, row| {
        *sum += row * row % 7;
        Some(*sum)
    }));
    Ok(Compressed::new(&index)?)
}

fn value_of(nonzero: usize) -> f64 {
    nonzero as f64 * 1.5 + 0.1
}

fn column_of(nonzero: usize) -> u32 {
    (nonzero * nonzero % 101) as u32
}

fn check(stage: &Stage<'_>) -> Result<(), BlockError> {
    let data = stage.data();
    let whole = matrix()?;
    if data.compressed("values")? != &whole {
        return Err("the index is another one".into());
    }
    let (first, end) = whole.lines_of(&Ranks::first(stage.size()), stage.rank());
    let held = whole.pointers()[first]..whole.pointers()[end];
    let values: Vec<f64> = held.clone().map(value_of).collect();
    let columns: Vec<u32> = held.map(column_of).collect();
    let right = data.local(data.array::<f64>("values")?)? == values
        && data.local(data.array::<u32>("columns")?)? == columns;
    if right { Ok(()) } else { Err(format!("rank {} of {}", stage.rank(), stage.size()).into()) }
}
