//! How fast arrays move on a node, beside memcpy: `mpirun -n 2 move_speed shared 64`, with the megabytes of each array.
//!
//! The world goes from one rank to all and back. All ranks that take part copy as many bytes as the move brings
//! each of them, at the same time and into memory that is as new: the best of some rounds of each makes the ratio.
#![allow(clippy::print_stdout)]

use std::error::Error;
use std::hint::black_box;
use std::time::Instant;

use elastic::data::{Grids, Pattern, Transport};
use elastic::{Status, World, WorldOptions};
use quo::group::Group as _;
use quo_mpi::Mpi;

const ROUNDS: usize = 5;

/// Seconds of a move, and of memcpy of as much.
#[derive(Clone, Copy)]
struct Best {
    moved: f64,
    copied: f64,
    bytes: u64,
}

const NONE: Best = Best { moved: f64::MAX, copied: f64::MAX, bytes: 0 };

fn main() -> Result<(), Box<dyn Error>> {
    let mut words = std::env::args().skip(1);
    let way = words.next().ok_or("which way?")?;
    let megabytes: usize = words.next().ok_or("how many megabytes?")?.parse()?;
    let side = (megabytes << 17).isqrt();
    let checkerboard =
        |block| Pattern::checkerboard((side, side), (block, block), Grids::NearlySquare);
    let cases = [
        ("vector in blocks", Pattern::block(side * side)),
        ("vector, 512 in turns", Pattern::block_cyclic(side * side, 512)),
        ("matrix in rows", Pattern::block_rows(side, side)),
        ("matrix in columns", Pattern::block_columns(side, side)),
        ("matrix, 64 x 64 in turns", checkerboard(64)),
    ];
    let mpi = Mpi::initialize()?;
    let mut world = World::create(WorldOptions::new().start(1))?;
    if way == "messages" {
        world.data_mut().via(Transport::Messages);
    }
    let changes = cases.len() * ROUNDS * 2;
    let (mut change, mut asked) = (0, 0);
    let mut best = [[NONE; 2]; 5];
    loop {
        if world.status() == Status::Parked && !world.wait()? {
            break;
        }
        if world.status() == Status::Joining || world.probe()? {
            let mut window = world.begin()?;
            window.tell(&mut change)?;
            let moved = window.move_data()?;
            let group = window.everybody().group()?;
            // Everybody copies as much as it has just got.
            let got = if window.leaves() { 0 } else { moved.all_sent + moved.all_kept };
            let new = window.next().map_or(1, |next| next.size() as u64);
            let copied = copy_as_many((got / new) as usize, &group)?;
            drop(group);
            window.commit(Ok(()))?;
            let place = &mut best[change / (2 * ROUNDS)][change % 2];
            place.moved = place.moved.min(moved.seconds);
            place.copied = place.copied.min(copied);
            place.bytes = moved.all_sent + moved.all_kept;
            change += 1;
            continue;
        }
        if change == changes {
            break;
        }
        if world.rank() == 0 && asked == change {
            if change % (2 * ROUNDS) == 0 {
                let (name, pattern) = cases[change / (2 * ROUNDS)];
                if change > 0 {
                    world.data_mut().remove(cases[change / (2 * ROUNDS) - 1].0)?;
                }
                let array = world.data_mut().register::<f64>(name, pattern)?;
                world.data_mut().local_mut(array)?.fill(1.0);
            }
            asked += 1;
            let size = if change % 2 == 0 { world.capacity() } else { 1 };
            world.request(size)?;
        }
    }
    if world.rank() == 0 && world.communicator().is_some() {
        for ((name, _), [grown, shrunk]) in cases.iter().zip(best) {
            for (what, best) in [("grow", grown), ("shrink", shrunk)] {
                println!(
                    "{name:26} {what:7} {:8.1} MB in {:7.2} ms, memcpy {:7.2} ms: {:.2}",
                    best.bytes as f64 / 1e6,
                    best.moved * 1e3,
                    best.copied * 1e3,
                    best.copied / best.moved
                );
            }
        }
    }
    world.end()?;
    drop(mpi);
    Ok(())
}

/// Seconds in which all copy, each as many bytes as it says, into memory that is new to it.
fn copy_as_many(bytes: usize, group: &quo_mpi::MpiGroup) -> Result<f64, Box<dyn Error>> {
    let from = vec![1_u8; bytes];
    group.barrier()?;
    let begun = Instant::now();
    let mut to: Vec<u8> = Vec::with_capacity(bytes);
    to.extend_from_slice(black_box(&from));
    black_box(&to);
    group.barrier()?;
    Ok(begun.elapsed().as_secs_f64())
}
