//! Cost of a parked resize: `mpirun -n 2 resize_cost [rounds]`. Prints one line of JSON:
//! nanoseconds of a probe with nothing pending, and microseconds of a growth and of a shrink by one
//! rank, from the request to the return of the commit, with one context that follows.
#![allow(clippy::print_stdout)]

use std::error::Error;
use std::time::Instant;

use elastic::{Status, World, WorldOptions};
use quo_mpi::Mpi;

const PROBES: u32 = 1_000_000;

fn main() -> Result<(), Box<dyn Error>> {
    let rounds = std::env::args().nth(1).map_or(Ok(100), |word| word.parse())?;
    let mpi = Mpi::initialize()?;
    let mut world = World::create(WorldOptions::new().initial_ranks(1))?;
    let mut context = None;
    let (mut grown, mut shrunk) = (Vec::new(), Vec::new());
    let mut done = 0;
    if world.status() == Status::New {
        context = Some(world.context()?);
    }
    let probe = if world.status() == Status::New { probe(&mut world)? } else { 0.0 };
    while done < 2 * rounds {
        if world.status() == Status::Parked && !world.wait()? {
            break;
        }
        let since = Instant::now();
        if world.status() == Status::Staying || world.status() == Status::New {
            if world.rank() == 0 {
                let other = if world.size() == 1 { world.capacity() } else { 1 };
                world.request(other)?;
            }
            while !world.probe()? {
                std::thread::yield_now();
            }
        }
        let window = world.begin()?;
        window.broadcast(&mut done)?;
        window.commit(Ok(()))?;
        let taken = since.elapsed().as_secs_f64() * 1e6;
        done += 1;
        if world.status() == Status::Staying {
            if context.is_none() {
                context = Some(world.context()?);
            }
            if world.size() == 1 { shrunk.push(taken) } else { grown.push(taken) }
        }
    }
    if world.communicator().is_some() && world.rank() == 0 {
        let (grow, shrink) = (middle(&mut grown), middle(&mut shrunk));
        println!(r#"{{"probe_ns":{probe:.1},"grow_us":{grow:.0},"shrink_us":{shrink:.0}}}"#);
    }
    drop(context);
    world.end()?;
    drop(mpi);
    Ok(())
}

fn probe(world: &mut World) -> Result<f64, elastic::Error> {
    let since = Instant::now();
    for _ in 0..PROBES {
        if std::hint::black_box(world.probe()?) {
            break;
        }
    }
    Ok(since.elapsed().as_secs_f64() * 1e9 / f64::from(PROBES))
}

/// Returns the median.
fn middle(times: &mut [f64]) -> f64 {
    times.sort_by(f64::total_cmp);
    times.get(times.len() / 2).copied().unwrap_or(f64::NAN)
}
