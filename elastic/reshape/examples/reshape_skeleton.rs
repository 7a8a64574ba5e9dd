//! The skeleton program of the dissertation (figures 2.3 and 2.4), with a matrix that checks
//! itself: `mpirun -n 4 reshape_skeleton 1 4 2` changes to the next of the sizes at each resize
//! point. With `short` after the sizes the last rank lacks an element at the first attempt to
//! shrink the world.
#![allow(clippy::print_stdout)]

use std::error::Error;
use std::time::Instant;

use elastic::WorldOptions;
use elastic::data::{Grids, Pattern};
use elastic::layout::{Distribution, Grid, Ranks, Storage};
use elastic_policy::points::{Configuration, Decision, Topology};
use elastic_reshape::{Choice, ProcessorTopology, Reshape, Seat};
use quo_mpi::Mpi;

const ITERATIONS: u64 = 60;
const EVERY: u64 = 10;
const SHAPE: (usize, usize) = (96, 72);
const BLOCK: usize = 4;

type Failed = Box<dyn Error>;

fn grid(size: u32) -> Configuration {
    let grid = Grids::NearlySquare.of(size as usize);
    Configuration::Grid(grid.rows as u32, grid.columns as u32)
}

fn lies(on: Configuration) -> Result<Distribution, Failed> {
    let (rows, columns) = on.dimensions();
    let grid = Grid::new(rows as usize, columns as usize);
    let pattern = Pattern::checkerboard(SHAPE, (BLOCK, BLOCK), Grids::Fixed(grid));
    Ok(pattern.over(Ranks::first(on.size() as usize))?)
}

/// Initial value of an element; each iteration adds one.
fn first(place: (usize, usize)) -> f64 {
    (place.0 * 1000 + place.1) as f64
}

fn main() -> Result<(), Failed> {
    let mut words: Vec<String> = std::env::args().skip(1).collect();
    let is_short = words.pop_if(|word| word == "short").is_some();
    let sizes = words.iter().map(|word| word.parse());
    let sizes = sizes.collect::<Result<Vec<u32>, _>>()?;
    let (&start, rest) = sizes.split_first().ok_or("which sizes?")?;
    let most = sizes.iter().copied().max().unwrap_or(start);
    let mut rest = Vec::from(rest).into_iter();
    let scheduler = move |choice: &Choice<'_>| {
        let now = choice.report.configuration.size();
        match rest.next() {
            Some(size) if size > now => Decision::Expand(grid(size)),
            Some(size) if size < now => Decision::Shrink(grid(size)),
            _ => Decision::Continue,
        }
    };
    let mpi = Mpi::initialize()?;
    let kind = Topology::NearlySquare { difference: None, divides: None };
    let topology = ProcessorTopology { kind, start: grid(start) };
    let options = WorldOptions::new().max_ranks(most as usize).allow_oversubscribe(true);
    let mut reshape = Reshape::init(options, topology, Box::new(scheduler))?;
    reshape.accept(|on| on.size() != 3);
    let mut data = Vec::new();
    if reshape.seat() == Seat::Stays {
        let (lies, rank) = (lies(topology.start)?, reshape.world().rank());
        let origins = (0..lies.room(rank)).filter_map(|offset| lies.origin(rank, offset));
        data = origins.map(first).collect();
    }
    compute(&mut reshape, &mut data, is_short)?;
    reshape.exit()?;
    drop(mpi);
    Ok(())
}

fn compute(reshape: &mut Reshape, data: &mut Vec<f64>, is_short: bool) -> Result<(), Failed> {
    let mut step = reshape.iteration();
    let (mut seen, mut grown) = (0, usize::from(reshape.seat() == Seat::Joins));
    while step < ITERATIONS && reshape.seat() != Seat::Ended {
        if let Decision::Expand(to) = reshape.decision() {
            seen += 1;
            let moved = reshape.redistribute_2d(data, SHAPE, BLOCK, Storage::Rows)?;
            if reshape.world().rank() == 0 {
                let (from, bytes) = (reshape.old_dimensions(), moved.all_sent + moved.all_kept);
                println!("iteration {step}: {from} -> {to}, {bytes} bytes");
            }
        }
        let begun = Instant::now();
        check(reshape, data, step)?;
        data.iter_mut().for_each(|element| *element += 1.0);
        if step % EVERY == EVERY - 1 {
            let decision = reshape.contact(begun.elapsed().as_secs_f64(), step)?;
            if let Decision::Shrink(to) = decision {
                if is_short {
                    try_short(reshape, data)?;
                }
                let moved = reshape.redistribute_2d(data, SHAPE, BLOCK, Storage::Rows)?;
                if reshape.world().rank() == 0 {
                    let (from, bytes) = (reshape.new_dimensions(), moved.all_sent + moved.all_kept);
                    println!("iteration {step}: {from} -> {to}, {bytes} bytes");
                }
            }
            let seat = reshape.resize()?;
            grown += usize::from(matches!(decision, Decision::Expand(_)) || seat == Seat::Joins);
            if seat == Seat::Joins {
                step = reshape.iteration();
                continue;
            }
        }
        step += 1;
    }
    if seen != grown {
        return Err(
            format!("the world has grown {grown} times, and this was said {seen} times").into()
        );
    }
    if reshape.seat() != Seat::Ended {
        check(reshape, data, ITERATIONS)?;
        if reshape.world().rank() == 0 {
            let visits = reshape.history().visits().map(|visit| visit.configuration.to_string());
            println!(
                "right after {ITERATIONS} iterations on {}",
                visits.collect::<Vec<_>>().join(" ")
            );
        }
    }
    Ok(())
}

/// Checks that all ranks learn which of them has too little, and keep their data.
fn try_short(reshape: &mut Reshape, data: &mut Vec<f64>) -> Result<(), Failed> {
    let is_last = reshape.world().rank() + 1 == reshape.world().size();
    let lost = if is_last { data.pop() } else { None };
    let failed = reshape.redistribute_2d(data, SHAPE, BLOCK, Storage::Rows).err();
    data.extend(lost);
    let error = failed.ok_or("data of which some is missing have been moved")?;
    println!("rank {}: {error}", reshape.world().rank());
    Ok(())
}

fn check(reshape: &Reshape, data: &[f64], step: u64) -> Result<(), Failed> {
    let (lies, rank) = (lies(reshape.new_dimensions())?, reshape.world().rank());
    if data.len() != lies.room(rank) {
        return Err(format!("rank {rank} has {} elements", data.len()).into());
    }
    for (offset, &found) in data.iter().enumerate() {
        let place = lies.origin(rank, offset).ok_or("nowhere")?;
        if found != first(place) + step as f64 {
            return Err(format!("{place:?} is {found} in iteration {step}").into());
        }
    }
    Ok(())
}
