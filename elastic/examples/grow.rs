//! The Rust program of `docs/elastic.md`, which quotes it word for word: grows to four ranks and
//! shrinks to one.
//! Run it with `mpirun -n 4 grow`.
#![allow(clippy::print_stdout)]

// What follows is on the page.
use std::error::Error;
use std::time::Duration;

use elastic::data::Pattern;
use elastic::{Status, World, WorldOptions};
use quo::group::{Group, WaitLimits};
use quo_mpi::Mpi;

const SIZES: [usize; 2] = [4, 1];

fn main() -> Result<(), Box<dyn Error>> {
    let _mpi = Mpi::initialize()?; // MPI_Init, and MPI_Finalize at the end
    let mut world = World::create(WorldOptions::new().initial_ranks(2))?; // the others sleep
    if world.status() == Status::New {
        let vector = world.data_mut().register::<f64>("vector", Pattern::block(1000))?;
        world.data_mut().local_mut(vector)?.fill(1.0);
    }
    let (mut done, mut asked) = (0, 0);
    loop {
        match world.status() {
            Status::Parked if !world.wait()? => break, // asleep until called in, or the end
            Status::Ended => break,
            _ => {}
        }
        if world.status() == Status::Joining || world.probe()? {
            let window = world.begin()?;
            window.broadcast(&mut done)?; // joiners learn the state of the old ranks
            window.commit(Ok(()))?; // moves the vector
            done += 1;
            continue;
        }
        let sum = sum_of_all(&world)?; // a step of the program
        if world.rank() == 0 && asked <= done {
            println!("{} ranks, sum {sum}", world.size());
        }
        if done == SIZES.len() {
            break;
        }
        if world.rank() == 0 && asked <= done {
            world.request(SIZES[done])?;
            asked += 1;
        }
    }
    Ok(world.end()?)
}

/// Adds the parts of the vector up, over all ranks of the world.
fn sum_of_all(world: &World) -> Result<f64, Box<dyn Error>> {
    let vector = world.data().array::<f64>("vector")?;
    let own: f64 = world.data().local(vector)?.iter().sum();
    let group = world.communicator().ok_or("no rank")?.group()?;
    let all =
        group.allgather(&own.to_ne_bytes(), &WaitLimits::for_at_most(Duration::from_secs(60)))?;
    Ok(all.as_chunks().0.iter().map(|sum| f64::from_ne_bytes(*sum)).sum())
}
