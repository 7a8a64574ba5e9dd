//! Cost of the driver of elastic phases: `mpirun -n 2 program_cost [turns]`. Prints one line of
//! JSON: the times of a round of the same loop, with some microseconds of work, written by hand and
//! as a program, in turns, and the difference in nanoseconds.
#![allow(clippy::print_stdout)]

use std::cell::Cell;
use std::error::Error;
use std::hint::black_box;
use std::rc::Rc;
use std::time::Instant;

use elastic::{World, WorldOptions};
use elastic_program::Program;
use quo_mpi::Mpi;

const ROUNDS: u32 = 20_000;
const CELLS: usize = 20_000;

fn main() -> Result<(), Box<dyn Error>> {
    let turns = std::env::args().nth(1).map_or(Ok(11), |word| word.parse())?;
    let mpi = Mpi::initialize()?;
    let (mut by_hand, mut driven) = (Vec::new(), Vec::new());
    let mut rank = 0;
    for _ in 0..turns {
        let (taken, own) = hand()?;
        rank = own;
        by_hand.push(taken);
        driven.push(program()?);
    }
    if rank == 0 {
        let mut more: Vec<f64> =
            by_hand.iter().zip(&driven).map(|(hand, driver)| (driver - hand) * 1e3).collect();
        let (hand, driver) = (middle(&mut by_hand), middle(&mut driven));
        let more = middle(&mut more);
        println!(
            r#"{{"by_hand_us":{hand:.3},"driver_us":{driver:.3},"driver_more_ns":{more:.0}}}"#
        );
    }
    drop(mpi);
    Ok(())
}

fn work(cells: &mut [f64]) {
    cells.iter_mut().for_each(|cell| *cell = *cell * 0.999 + 1.0);
    black_box(cells);
}

/// Returns the microseconds of a round, and the rank.
fn hand() -> Result<(f64, usize), Box<dyn Error>> {
    let mut world = World::create(WorldOptions::new())?;
    let mut cells = vec![1.0; CELLS];
    let since = Instant::now();
    let mut done = 0;
    while done < ROUNDS {
        if world.probe()? {
            let window = world.begin()?;
            window.broadcast(&mut done)?;
            window.commit(Ok(()))?;
        }
        work(&mut cells);
        done += 1;
    }
    let taken = since.elapsed().as_secs_f64() * 1e6 / f64::from(ROUNDS);
    let rank = world.rank();
    world.end()?;
    Ok((taken, rank))
}

struct Data {
    cells: Vec<f64>,
    done: u32,
    since: Instant,
}

fn program() -> Result<f64, Box<dyn Error>> {
    let taken = Rc::new(Cell::new(0.0));
    let told = Rc::clone(&taken);
    let program =
        Program::new(|_| Ok(Data { cells: vec![1.0; CELLS], done: 0, since: Instant::now() }))
            .elastic(
                "work",
                |data: &mut Data, _| {
                    work(&mut data.cells);
                    data.done += 1;
                    Ok(())
                },
                |data| data.done < ROUNDS,
                |data, window| Ok(window.broadcast(&mut data.done)?),
            )
            .rigid("end", move |data, _| {
                told.set(data.since.elapsed().as_secs_f64() * 1e6 / f64::from(ROUNDS));
                Ok(())
            });
    program.run(WorldOptions::new())?;
    Ok(taken.get())
}

/// Returns the median.
fn middle(times: &mut [f64]) -> f64 {
    times.sort_by(f64::total_cmp);
    times.get(times.len() / 2).copied().unwrap_or(f64::NAN)
}
