//! Goes through a list of sizes: `mpirun -n 4 sizes 1 2 4 2 1`. For each it says how long the change took; `3!` is
//! given up by its highest rank. At the end rank 0 says what the process holds, and held after the first round trip.
#![allow(clippy::print_stdout)]

use std::error::Error;
use std::fs;
use std::time::{Duration, Instant};

use elastic::{Status, World, WorldOptions};
use quo::Context;
use quo::group::{Group as _, Patience};
use quo_mpi::Mpi;

/// One word of the list.
struct Turn {
    size: usize,
    is_given_up: bool,
}

fn main() -> Result<(), Box<dyn Error>> {
    let turns = std::env::args().skip(1).map(|word| {
        let number = word.trim_end_matches('!');
        number.parse().map(|size| Turn { size, is_given_up: number != word })
    });
    let mut turns = turns.collect::<Result<Vec<_>, _>>()?.into_iter();
    let start = turns.next().ok_or("which sizes?")?.size;
    let turns: Vec<Turn> = turns.collect();

    let mpi = Mpi::initialize()?;
    let mut world = World::create(WorldOptions::new().start(start))?;
    let mut context = None;
    let (mut turn, mut asked) = (0, 0);
    let mut since = Instant::now();
    let mut held = None;
    loop {
        if world.status() == Status::Parked && !world.wait()? {
            break;
        }
        if world.status() == Status::New && context.is_none() {
            context = Some(world.context()?);
        }
        if world.status() == Status::Joining || world.probe()? {
            change(&mut world, &turns, &mut turn, since)?;
            if world.status() == Status::Parked {
                let is_out = context.as_ref().is_none_or(Context::is_retired);
                if is_out {
                    continue;
                } else {
                    return Err("a context of who left is not retired".into());
                }
            }
            let context = match &mut context {
                Some(context) => context,
                none => none.insert(world.context()?),
            };
            check(&world, context)?;
            turn += 1;
            if turn == 4 {
                held = Some(holdings()?);
            }
        }
        if turn == turns.len() {
            break;
        }
        if world.rank() == 0 && asked == turn {
            since = Instant::now();
            asked += 1;
            if let Err(error) = world.request(turns[turn].size) {
                println!("{error}");
                break;
            }
        } else {
            std::thread::yield_now();
        }
    }
    if let (Some(before), Some(_)) = (held, world.communicator()) {
        let now = holdings()?;
        println!("rank {} held {before:?} and holds {now:?}", world.rank());
    }
    if let Some(context) = context {
        context.free()?;
    }
    world.end()?;
    drop(mpi);
    Ok(())
}

fn change(
    world: &mut World,
    turns: &[Turn],
    turn: &mut usize,
    since: Instant,
) -> Result<(), Box<dyn Error>> {
    let window = world.begin()?;
    window.tell(turn)?;
    let counts = window.counts();
    let everybody = window.everybody();
    let refuses = turns[*turn].is_given_up && everybody.rank() + 1 == everybody.size();
    let vote = if refuses { Err("it does not fit".to_owned()) } else { Ok(()) };
    let ended = window.commit(vote);
    if world.rank() == 0 && world.status() != Status::Parked {
        let us = since.elapsed().as_secs_f64() * 1e6;
        let (stay, leave, join) = counts;
        println!(
            "epoch {} size {}: {stay} stay, {leave} leave, {join} join, {us:.0} us",
            world.epoch(),
            world.size()
        );
    }
    match ended {
        Err(elastic::Error::GivenUp { rank, reason, .. }) if turns[*turn].is_given_up => {
            if world.status() != Status::Parked && world.rank() == 0 {
                println!("given up because of rank {rank}: {reason}");
            }
            Ok(())
        }
        ended => Ok(ended?),
    }
}

/// All ranks are there, in order, also in the context that went along.
fn check(world: &World, context: &Context) -> Result<(), Box<dyn Error>> {
    if (context.rank(), context.size()) != (world.rank(), world.size()) {
        return Err("the context has other ranks than the world".into());
    }
    context.barrier()?;
    let group = world.communicator().ok_or("no rank")?.group()?;
    let mine = (group.rank() as u64).to_ne_bytes();
    let all = group.allgather(&mine, &Patience::for_at_most(Duration::from_secs(30)))?;
    let right = (0..world.size() as u64).flat_map(u64::to_ne_bytes).collect::<Vec<_>>();
    if all == right { Ok(()) } else { Err("ranks are missing".into()) }
}

/// Open files, mappings and threads.
fn holdings() -> std::io::Result<(usize, usize, usize)> {
    let count = |folder: &str| fs::read_dir(folder).map(Iterator::count);
    let mappings = fs::read_to_string("/proc/self/maps")?.lines().count();
    Ok((count("/proc/self/fd")?, mappings, count("/proc/self/task")?))
}
