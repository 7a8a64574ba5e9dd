//! Memory of a rank when it leaves, and while it is parked: `mpirun -n 2 parked_memory 64`. Rank 1
//! has 64 MiB of an array of the world, has freed as much again in small blocks, and is then
//! parked. Rank 0 watches its memory until it is much less, for half a minute at most, and calls it
//! back. With `mpirun -n 2 parked_memory 64 300` all ranks rest for 300 ms before rank 1 leaves,
//! while it is parked, and when it is back.
#![allow(clippy::print_stdout)]

use std::error::Error;
use std::fs;
use std::time::{Duration, Instant};

use elastic::data::Pattern;
use elastic::{Status, World, WorldOptions};
use quo::group::{Group as _, WaitLimits};
use quo_mpi::Mpi;

type Result<T> = std::result::Result<T, Box<dyn Error>>;

const LIMIT: Duration = Duration::from_secs(30);

fn main() -> Result<()> {
    let mebibytes: usize = std::env::args().nth(1).ok_or("how many MiB?")?.parse()?;
    let rest = std::env::args().nth(2).map_or(Ok(0), |word| word.parse())?;
    // Sleeps: an observer from outside must see the memory of this moment.
    let rest = || std::thread::sleep(Duration::from_millis(rest));
    let mpi = Mpi::initialize()?;
    let mut world = World::create(WorldOptions::new())?;
    if world.size() != 2 {
        return Err("it takes two ranks".into());
    }
    let elements = mebibytes << 18;
    let array = world.data_mut().register::<f64>("array", Pattern::block(elements))?;
    world.data_mut().local_mut(array)?.fill(1.0);
    let kept = if world.rank() == 1 { last_of_many(mebibytes)? } else { Vec::new() };
    rest();
    if world.rank() == 0 {
        world.request(1)?;
    }
    let left = resize(&mut world)?;
    if world.status() == Status::Parked {
        // Called back when rank 0 has seen enough.
        if !world.wait()? {
            return Err("it was not called back".into());
        }
        change(&mut world)?;
        rest();
        if kept.iter().any(|&byte| byte != 1) {
            return Err("what was in use is another".into());
        }
    } else {
        let asleep = watch(left.process, left.held.saturating_sub((mebibytes << 20) * 7 / 4))?;
        rest();
        world.request(2)?;
        resize(&mut world)?;
        rest();
        let mib = |bytes: usize| bytes as f64 / f64::from(1 << 20);
        println!("rank 1 held {:.1} MiB and holds {:.1} MiB asleep", mib(left.held), mib(asleep));
    }
    world.end()?;
    drop(mpi);
    Ok(())
}

/// Frees this many MiB in blocks of 1 kB, except the last block, above which the allocator has
/// nothing.
fn last_of_many(mebibytes: usize) -> Result<Vec<u8>> {
    let mut blocks: Vec<Vec<u8>> = (0..mebibytes << 10).map(|_| vec![1; 1000]).collect();
    Ok(blocks.pop().ok_or("no blocks")?)
}

/// A leaver, and its memory before it leaves.
struct Leaver {
    process: u64,
    held: usize,
}

fn resize(world: &mut World) -> Result<Leaver> {
    let deadline = Instant::now() + LIMIT;
    while !world.probe()? {
        if Instant::now() > deadline {
            return Err("no resize came".into());
        }
        std::thread::yield_now();
    }
    change(world)
}

fn change(world: &mut World) -> Result<Leaver> {
    let window = world.begin()?;
    let own = u64::from(std::process::id());
    let mine = [own, if window.leaves() { held(own)? as u64 } else { 0 }];
    let mine = mine.map(u64::to_ne_bytes).concat();
    let all = window.all_ranks().as_group()?.allgather(&mine, &WaitLimits::for_at_most(LIMIT))?;
    window.commit(Ok(()))?;
    let numbers: Vec<u64> = all
        .chunks_exact(8)
        .filter_map(|word| Some(u64::from_ne_bytes(word.try_into().ok()?)))
        .collect();
    let leaver = numbers.chunks_exact(2).last().ok_or("nobody")?;
    Ok(Leaver { process: leaver[0], held: leaver[1] as usize })
}

/// Returns the memory of a process.
fn held(process: u64) -> Result<usize> {
    let pages = fs::read_to_string(format!("/proc/{process}/statm"))?;
    let resident: usize = pages.split(' ').nth(1).ok_or("no such column")?.parse()?;
    Ok(resident * rustix::param::page_size())
}

/// Returns the memory of a process once it is at most `enough`, or when the time is up.
fn watch(process: u64, enough: usize) -> Result<usize> {
    let deadline = Instant::now() + LIMIT;
    loop {
        let holds = held(process)?;
        if holds <= enough || Instant::now() > deadline {
            return Ok(holds);
        }
        // Sleeps: another process returns its memory at an unknown time.
        std::thread::sleep(Duration::from_millis(10));
    }
}
