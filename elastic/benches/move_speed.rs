//! Speed of moving arrays on a node: `mpirun -n 2 move_speed shared 64`, with the size of each
//! array in megabytes.
//!
//! The world changes from one rank to all and back. After each move all participating ranks do the
//! same by plain means, into equally new memory: with `shared` each copies as many bytes as the
//! move brings it; with `messages`, which are used between nodes, two ranks exchange in one message
//! the bytes that the move sends, and copy those that stay. The ratio is the time of the plain way
//! divided by that of the move, the median of some rounds; the last line, JSON, has the lowest over
//! all cases and directions, and with `shared` also the lowest relative to copying into memory
//! already in use. With `background` the ranks compute while the data move.
#![allow(clippy::print_stdout)]

use std::error::Error;
use std::hint::black_box;
use std::time::{Duration, Instant};

use elastic::data::{Grids, Moved, Pattern, Transport};
use elastic::{Status, Window, World, WorldOptions};
use quo::group::{Group as _, WaitLimits};
use quo_mpi::{Mpi, MpiGroup};

const ROUNDS: usize = 9;
/// The first of the cases in which a rank's data are not contiguous.
const FIRST_IN_TURNS: usize = 2;
/// Time between two checks of a move in the background.
const COMPUTED: Duration = Duration::from_millis(1);

/// Times of one case and one direction, round by round.
#[derive(Clone, Default)]
struct Times {
    moved: Vec<f64>,
    plain: Vec<f64>,
    ratios: Vec<f64>,
    in_use: Vec<f64>,
    bytes: u64,
}

/// Work done by a rank while data moved in the background, in seconds.
#[derive(Default)]
struct Background {
    computed: f64,
    all: f64,
    longest: f64,
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut words = std::env::args().skip(1);
    let way = words.next().ok_or("which way?")?;
    let megabytes: usize = words.next().ok_or("how many megabytes?")?.parse()?;
    let side = (megabytes << 17).isqrt();
    let checkerboard =
        |block| Pattern::checkerboard((side, side), (block, block), Grids::NearlySquare);
    let cases = [
        ("vector in blocks", Pattern::block(side * side)),
        ("matrix in rows", Pattern::block_rows(side, side)),
        ("vector, 512 in turns", Pattern::block_cyclic(side * side, 512)),
        ("matrix in columns", Pattern::block_columns(side, side)),
        ("matrix, 64 x 64 in turns", checkerboard(64)),
    ];
    let mpi = Mpi::initialize()?;
    let mut world = World::create(WorldOptions::new().initial_ranks(1))?;
    if way == "messages" {
        world.data_mut().via(Transport::Messages);
    }
    let changes = cases.len() * ROUNDS * 2;
    let (mut change, mut asked) = (0, 0);
    let mut times = vec![[Times::default(), Times::default()]; cases.len()];
    let mut background = Background::default();
    loop {
        if world.status() == Status::Parked && !world.wait()? {
            break;
        }
        if world.status() == Status::Joining || world.probe()? {
            let mut window = world.begin()?;
            window.broadcast(&mut change)?;
            let moved = match way.as_str() {
                "background" => in_background(&mut window, &mut background)?,
                _ => window.move_data()?,
            };
            let group = window.all_ranks().group()?;
            let (plain, in_use) = if way == "messages" {
                (send_as_much(&moved, &group)?, f64::NAN)
            } else {
                // Each rank copies as much as it has just received.
                let got = if window.leaves() { 0 } else { moved.all_sent + moved.all_kept };
                let new = window.next().map_or(1, |next| next.size() as u64);
                copy_as_many((got / new) as usize, &group)?
            };
            drop(group);
            window.commit(Ok(()))?;
            let place = &mut times[change / (2 * ROUNDS)][change % 2];
            place.moved.push(moved.seconds);
            place.plain.push(plain);
            place.ratios.push(plain / moved.seconds);
            place.in_use.push(in_use / moved.seconds);
            place.bytes = moved.all_sent + moved.all_kept;
            change += 1;
            continue;
        }
        if change == changes {
            break;
        }
        if world.rank() == 0 && asked == change {
            if change % 2 == 0 {
                // Memory as a program fills it, not as a move has left it.
                let (name, pattern) = cases[change / (2 * ROUNDS)];
                if change > 0 {
                    world.data_mut().remove(cases[(change - 1) / (2 * ROUNDS)].0)?;
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
        let (mut ratios, mut in_use) = (Vec::new(), Vec::new());
        for ((name, _), directions) in cases.iter().zip(&mut times) {
            for (what, times) in ["grow", "shrink"].iter().zip(directions) {
                ratios.push(middle(&mut times.ratios));
                in_use.push(middle(&mut times.in_use));
                println!(
                    "{name:26} {what:7} {:8.1} MB in {:7.2} ms, plain {:7.2} ms: {:.2} ({:.2})",
                    times.bytes as f64 / 1e6,
                    middle(&mut times.moved) * 1e3,
                    middle(&mut times.plain) * 1e3,
                    middle(&mut times.ratios),
                    middle(&mut times.in_use)
                );
            }
        }
        let (blocks, turns) = ratios.split_at(2 * FIRST_IN_TURNS);
        if way == "background" {
            let share = 100.0 * background.computed / background.all;
            let longest = background.longest * 1e3;
            println!(r#"{{"computed_percent":{share:.0},"longest_ms":{longest:.1}}}"#);
        } else {
            let (blocks, turns) = (lowest(blocks), lowest(turns));
            let in_use = if way == "shared" {
                format!(r#","shared_in_use":{:.2}"#, lowest(&in_use))
            } else {
                String::new()
            };
            println!(r#"{{"{way}_blocks":{blocks:.2},"{way}_turns":{turns:.2}{in_use}}}"#);
        }
    }
    world.end()?;
    drop(mpi);
    Ok(())
}

/// Returns the seconds in which all ranks copy, each its number of bytes, into new memory, and once
/// more into the same memory.
fn copy_as_many(bytes: usize, group: &MpiGroup) -> Result<(f64, f64), Box<dyn Error>> {
    let from = vec![1_u8; bytes];
    group.barrier()?;
    let begun = Instant::now();
    let mut to: Vec<u8> = Vec::with_capacity(bytes);
    to.extend_from_slice(black_box(&from));
    black_box(&to);
    group.barrier()?;
    let new = begun.elapsed().as_secs_f64();
    group.barrier()?;
    let begun = Instant::now();
    to.copy_from_slice(black_box(&from));
    black_box(&to);
    group.barrier()?;
    Ok((new, begun.elapsed().as_secs_f64()))
}

/// Returns the seconds in which one of two ranks sends its data for the other, and both copy the
/// data that stay.
fn send_as_much(moved: &Moved, group: &MpiGroup) -> Result<f64, Box<dyn Error>> {
    if group.size() != 2 {
        return Err("one message is sent between two ranks".into());
    }
    let other = 1 - group.rank();
    let received = (moved.all_sent - moved.sent) as usize;
    let out = vec![1_u8; moved.sent as usize];
    let stays = vec![1_u8; moved.kept as usize];
    group.barrier()?;
    let begun = Instant::now();
    let mut transfers = Vec::new();
    if received > 0 {
        transfers.push(group.begin_receive(other, vec![0; received], 0)?);
    }
    if !out.is_empty() {
        transfers.push(group.begin_send(other, out, 0)?);
    }
    let mut to: Vec<u8> = Vec::with_capacity(stays.len());
    to.extend_from_slice(black_box(&stays));
    black_box(&to);
    for transfer in transfers {
        black_box(transfer.finish(&WaitLimits::for_at_most(Duration::from_secs(60)))?);
    }
    group.barrier()?;
    Ok(begun.elapsed().as_secs_f64())
}

/// Moves the data while this rank computes and checks the move from time to time.
fn in_background(window: &mut Window<'_>, noted: &mut Background) -> Result<Moved, Box<dyn Error>> {
    let begun = Instant::now();
    let mut moving = window.begin_move()?;
    let mut number = 1.0_f64;
    loop {
        let since = Instant::now();
        while since.elapsed() < COMPUTED {
            for _ in 0..1000 {
                number = black_box(number * 0.5 + 1.0);
            }
        }
        noted.computed += since.elapsed().as_secs_f64();
        let looked = Instant::now();
        let is_done = moving.test()?;
        noted.longest = noted.longest.max(looked.elapsed().as_secs_f64());
        if is_done {
            break;
        }
    }
    let moved = moving.finish()?;
    noted.all += begun.elapsed().as_secs_f64();
    Ok(moved)
}

fn lowest(ratios: &[f64]) -> f64 {
    ratios.iter().copied().fold(f64::INFINITY, f64::min)
}

/// Returns the median.
fn middle(times: &mut [f64]) -> f64 {
    times.sort_by(f64::total_cmp);
    times.get(times.len() / 2).copied().unwrap_or(f64::NAN)
}
