//! Cost of a growth by a spawned rank for the present ranks:
//! `mpirun -n 2 start_cost [rounds [alone]]`, with `alone` without a starter. Prints one line of
//! JSON: milliseconds from the window's beginning to the end of its commit (`stall_ms`; until the
//! joiners have joined: `begin_ms`), from the request to the ranks' entry (`start_ms`), and the
//! share of that in which they continued (`overlap_percent`): an iteration, which is a millisecond
//! of sleep and a barrier of all, counts as lost for the time beyond twice the usual time.
#![allow(clippy::print_stdout)]

use std::error::Error;
use std::time::{Duration, Instant};

use elastic::{Status, World, WorldOptions};
use quo::group::WaitLimits;
use quo_mpi::Mpi;
use quo_mpi::communicator::ThreadLevel;

const USUAL: usize = 200;

fn main() -> Result<(), Box<dyn Error>> {
    let rounds = std::env::args().nth(1).map_or(Ok(5), |word| word.parse())?;
    let is_alone = std::env::args().nth(2).is_some_and(|word| word == "alone");
    let mpi = Mpi::initialize_for(ThreadLevel::Multiple)?;
    let mut world = World::create(
        WorldOptions::new().max_ranks(3).allow_oversubscribe(true).spawn_helper(!is_alone),
    )?;
    // All ranks get the same result, and end together.
    if let Err(why) = &world.back_end().spawned {
        let message = format!("no rank can be started here: {why}");
        world.end()?;
        return Err(message.into());
    }
    let mut context = None;
    let (mut stalls, mut starts, mut overlaps) = (Vec::new(), Vec::new(), Vec::new());
    let mut begins = Vec::new();
    let mut usual = 0.0;
    if world.status() == Status::New {
        context = Some(world.context()?);
        let mut times = Vec::new();
        for _ in 0..USUAL {
            times.push(iteration(&world)?);
        }
        usual = middle(&mut times);
    }
    let mut done = 0;
    while done < 2 * rounds && world.status() != Status::Ended {
        let asked = Instant::now();
        let mut lost = 0.0;
        if world.status() != Status::Joining {
            if world.rank() == 0 {
                world.request(if world.size() == 2 { 3 } else { 2 })?;
            }
            while !world.probe()? {
                lost += (iteration(&world)? - 2.0 * usual).max(0.0);
            }
        }
        let waited = asked.elapsed().as_secs_f64() * 1e3;
        let entered = Instant::now();
        let window = world.begin()?;
        let begun = entered.elapsed().as_secs_f64() * 1e3;
        window.broadcast(&mut done)?;
        window.commit(Ok(()))?;
        let stall = entered.elapsed().as_secs_f64() * 1e3;
        done += 1;
        if world.status() == Status::Staying {
            if context.is_none() {
                context = Some(world.context()?);
            }
            if world.size() == 3 {
                stalls.push(stall);
                begins.push(begun);
                starts.push(waited);
                overlaps.push(100.0 * (1.0 - lost / waited));
            }
        }
    }
    if world.communicator().is_some() && world.rank() == 0 {
        let (stall, start) = (middle(&mut stalls), middle(&mut starts));
        let (overlap, begin) = (middle(&mut overlaps), middle(&mut begins));
        println!(
            r#"{{"stall_ms":{stall:.1},"begin_ms":{begin:.1},"start_ms":{start:.0},"overlap_percent":{overlap:.1},"iteration_ms":{usual:.2}}}"#
        );
    }
    drop(context);
    world.end()?;
    drop(mpi);
    Ok(())
}

/// Returns the milliseconds of an iteration.
fn iteration(world: &World) -> Result<f64, Box<dyn Error>> {
    let since = Instant::now();
    // Sleeps: this stands in for the computation, and leaves the cores to spawned processes.
    std::thread::sleep(Duration::from_millis(1));
    let limits = WaitLimits::for_at_most(Duration::from_secs(60));
    world.communicator().ok_or("no rank")?.barrier(&limits)?;
    Ok(since.elapsed().as_secs_f64() * 1e3)
}

/// Returns the median.
fn middle(times: &mut [f64]) -> f64 {
    times.sort_by(f64::total_cmp);
    times.get(times.len() / 2).copied().unwrap_or(f64::NAN)
}
