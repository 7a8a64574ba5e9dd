//! Moves arrays of every kind through a list of sizes: `mpirun -n 4 arrays shared 1 4 2 3 1`. After
//! each change every rank checks all of its elements, and all ranks change theirs before the next
//! one.
//!
//! The first word chooses how data move: `shared` is the default, `messages` works without shared
//! memory, `background` lets the ranks count during the move. A size may have a mark: `3!` is given
//! up after the move, when nothing can be registered, with `3?` the last of the old ranks has
//! registered another array, with `3~` a callback fails with a reason, with `3^` joiners lack the
//! callback, with `3#` one rank abandons a move before its end.
#![allow(clippy::print_stdout)]

use std::error::Error;
use std::sync::{Arc, Mutex};

use elastic::data::{Carry, DataError, Grids, Pattern, Registry, Seats, Transport};
use elastic::layout::{Ranks, Storage};
use elastic::{Status, Window, World, WorldOptions};
use quo_mpi::Mpi;

type Failed = Box<dyn Error>;

/// One word of the list: a size and its mark.
#[derive(Clone, Copy)]
struct Turn {
    size: usize,
    mark: char,
}

/// Name, element size in bytes, and layout of each array.
fn arrays() -> Vec<(&'static str, usize, Pattern)> {
    let square = Grids::NearlySquare;
    let blocks = Pattern::checkerboard((37, 53), (4, 5), square);
    vec![
        ("blocks", 8, Pattern::block(1001)),
        ("in turns", 4, Pattern::cyclic(1003)),
        ("blocks in turns", 3, Pattern::block_cyclic(1007, 7)),
        ("rows", 8, Pattern::block_rows(37, 53)),
        ("columns", 16, Pattern::block_columns(37, 53).stored(Storage::Columns)),
        ("grid", 24, Pattern::block_grid((37, 53), square)),
        ("checkerboard", 8, blocks),
        ("for Fortran", 8, blocks.stored(Storage::Columns)),
        ("rows of blocks", 5, blocks.stored(Storage::RowsOfBlocks)),
        ("columns of blocks", 1, blocks.stored(Storage::ColumnsOfBlocks)),
        ("everywhere", 8, Pattern::replicated(99)),
        ("three elements", 8, Pattern::block(3)),
        ("nothing", 8, Pattern::block(0)),
        // Larger than the portion that is packed or copied at a time.
        ("large", 8, Pattern::block_cyclic(300_000, 1000)),
    ]
}

/// Returns the expected byte of an element at a time.
fn right(array: usize, place: (usize, usize), byte: usize, time: usize) -> u8 {
    let mixed = place.0.wrapping_mul(0x9e37) ^ place.1.wrapping_mul(0x85eb) ^ (array << 5);
    (mixed.wrapping_add(mixed >> 8).wrapping_add(byte * 29).wrapping_add(time * 101)) as u8
}

/// A list of words for each rank: word k of n on rank k mod n.
#[derive(Default)]
struct Words {
    mine: Vec<(usize, u64)>,
    taken: Vec<(usize, u64)>,
    refuses: bool,
}

const WORDS: usize = 40;

struct Carried(Arc<Mutex<Words>>);

impl Carry for Carried {
    fn give(&mut self, seats: &Seats) -> Result<Vec<(usize, Vec<u8>)>, String> {
        let words = self.0.lock().map_err(|error| error.to_string())?;
        if words.refuses {
            return Err("it keeps what it has".to_owned());
        }
        let to = |rank| {
            let mine = words.mine.iter().filter(|(number, _)| number % seats.new_size == rank);
            let pairs = mine.flat_map(|&(number, word)| [number as u64, word]);
            pairs.flat_map(u64::to_le_bytes).collect::<Vec<u8>>()
        };
        Ok((0..seats.new_size).map(|rank| (rank, to(rank))).collect())
    }

    fn take(&mut self, _: &Seats, pieces: Vec<(usize, Vec<u8>)>) -> Result<(), String> {
        let mut words = self.0.lock().map_err(|error| error.to_string())?;
        let bytes: Vec<u8> = pieces.into_iter().flat_map(|(_, bytes)| bytes).collect();
        let number = |bytes: &[u8]| bytes.try_into().map_or(0, u64::from_le_bytes);
        let pairs = bytes.chunks_exact(16);
        words.taken = pairs.map(|pair| (number(&pair[..8]) as usize, number(&pair[8..]))).collect();
        words.taken.sort_unstable();
        Ok(())
    }

    fn end_transfer(&mut self, committed: bool) {
        if let Ok(mut words) = self.0.lock() {
            let taken = std::mem::take(&mut words.taken);
            if committed {
                words.mine = taken;
            }
        }
    }
}

fn main() -> Result<(), Failed> {
    let mut words = std::env::args().skip(1);
    let way = words.next().ok_or("which way?")?;
    let turns = words.map(|word| {
        let number = word.trim_end_matches(['!', '?', '~', '^', '#']);
        let mark = word[number.len()..].chars().next().unwrap_or(' ');
        number.parse().map(|size| Turn { size, mark })
    });
    let turns = turns.collect::<Result<Vec<_>, _>>()?;
    let (start, turns) = turns.split_first().ok_or("which sizes?")?;

    let mpi = Mpi::initialize()?;
    let mut world = World::create(WorldOptions::new().initial_ranks(start.size))?;
    if way == "messages" {
        world.data_mut().via(Transport::Messages);
    }
    let carried = Arc::new(Mutex::new(Words::default()));
    let is_new = world.status() == Status::New;
    if is_new || turns.iter().all(|turn| turn.mark != '^') {
        world.data_mut().carry("words", Box::new(Carried(Arc::clone(&carried))))?;
    }
    if is_new {
        for (name, element, pattern) in arrays() {
            world.data_mut().register_bytes(name, element, pattern)?;
        }
        write(&mut world, &carried, 0)?;
    }
    let (mut turn, mut asked) = (0, 0);
    loop {
        if world.status() == Status::Parked && !world.wait()? {
            break;
        }
        if world.status() == Status::Joining || world.probe()? {
            change(&mut world, turns, &mut turn, &way, &carried)?;
            turn += 1;
            if world.status() == Status::Parked {
                let left = world.data().distribution("blocks").is_ok();
                if left {
                    return Err("who left has arrays".into());
                }
                continue;
            }
        }
        if turn == turns.len() {
            break;
        }
        if world.rank() == 0 && asked == turn {
            asked += 1;
            world.request(turns[turn].size)?;
        } else {
            std::thread::yield_now();
        }
    }
    world.end()?;
    drop(mpi);
    Ok(())
}

fn change(
    world: &mut World,
    turns: &[Turn],
    turn: &mut usize,
    way: &str,
    carried: &Mutex<Words>,
) -> Result<(), Failed> {
    let mut window = world.begin()?;
    window.broadcast(turn)?;
    let Turn { mark, .. } = turns[*turn];
    let joins = window.joins();
    let is_last = window.old().is_some_and(|old| old.rank() + 1 == old.size());
    if mark == '?' && is_last {
        window.data_mut().register::<u16>("mine alone", Pattern::block(5))?;
    }
    carried.lock().map_err(|error| error.to_string())?.refuses = mark == '~' && is_last;
    let mut vote = Ok(());
    if mark == '!' {
        let moved = window.move_data()?;
        is_late(window.data_mut())?;
        let all_ranks = window.all_ranks();
        if all_ranks.rank() + 1 == all_ranks.size() {
            vote = Err(format!("{} bytes are too many", moved.all_sent + moved.all_kept));
        }
    } else if mark == '#' {
        let moving = window.begin_move()?;
        if !is_last {
            let failed = moving.finish().map(drop).err();
            if !failed.is_some_and(|error| error.to_string().contains("left before its end")) {
                return Err("a move that one rank has left has ended well".into());
            }
        }
    } else if way == "background" {
        in_background(&mut window, joins)?;
    }
    let ended = window.commit(vote);
    let (rank, size) = (world.rank(), world.size());
    let is_in = world.status() != Status::Parked;
    match ended {
        Err(elastic::Error::Aborted { rank: whose, reason, .. }) if mark != ' ' => {
            if is_in && rank == 0 {
                println!("still {size}: rank {whose}: {reason}");
            }
        }
        ended => {
            ended?;
            if let (true, 0, Some(moved)) = (is_in, rank, world.data().last_move()) {
                let elastic::data::Moved { arrays, all_sent, all_shared, all_kept, .. } = moved;
                println!(
                    "size {size}: {arrays} arrays, {all_sent} sent, {all_shared} shared, {all_kept} kept"
                );
            }
        }
    }
    if mark == '?' && is_last && is_in {
        world.data_mut().remove("mine alone")?;
    }
    if is_in {
        check(world, carried, *turn)?;
        write(world, carried, *turn + 1)?;
    }
    Ok(())
}

/// Checks that nothing can be registered or removed after the move.
fn is_late(data: &mut Registry) -> Result<(), Failed> {
    let added = data.register_items::<u64>("late", |_, _| 0);
    let removed = data.remove("words");
    for late in [added, removed] {
        if !matches!(late, Err(DataError::Unfit { .. })) {
            return Err(format!("between move and commit: {late:?}").into());
        }
    }
    Ok(())
}

/// Counts while the data move.
fn in_background(window: &mut Window<'_>, joins: bool) -> Result<(), Failed> {
    let mut moving = window.begin_move()?;
    let mut count = 0_u64;
    while !moving.test()? {
        let readable = moving.old().distribution("blocks").is_ok();
        if readable == joins {
            return Err("old arrays cannot be read during the move".into());
        }
        count += 1;
        std::thread::yield_now();
    }
    moving.finish()?;
    if count == u64::MAX { Err("too long".into()) } else { Ok(()) }
}

fn write(world: &mut World, carried: &Mutex<Words>, time: usize) -> Result<(), Failed> {
    let (rank, size) = (world.rank(), world.size());
    let data = world.data_mut();
    for (array, (name, element, _)) in arrays().into_iter().enumerate() {
        let lies = data.distribution(name)?.clone();
        for (offset, place) in data.bytes_mut(name)?.chunks_exact_mut(element).enumerate() {
            let Some(origin) = lies.origin(rank, offset) else { continue };
            for (byte, to) in place.iter_mut().enumerate() {
                *to = right(array, origin, byte, time);
            }
        }
    }
    let words = (rank..WORDS).step_by(size).map(|number| (number, (number * 7 + time) as u64));
    carried.lock().map_err(|error| error.to_string())?.mine = words.collect();
    Ok(())
}

fn check(world: &World, carried: &Mutex<Words>, time: usize) -> Result<(), Failed> {
    let (rank, size) = (world.rank(), world.size());
    let data = world.data();
    let mut seen = 0;
    for (array, (name, element, pattern)) in arrays().into_iter().enumerate() {
        let lies = data.distribution(name)?;
        let expected = pattern.over(Ranks::first(size))?;
        let bytes = data.bytes(name)?;
        if *lies != expected || bytes.len() != expected.room(rank) * element {
            return Err(format!("`{name}` does not lie on {size} ranks").into());
        }
        for (offset, place) in bytes.chunks_exact(element).enumerate() {
            let Some(origin) = lies.origin(rank, offset) else { continue };
            seen += 1;
            let is_right = place
                .iter()
                .enumerate()
                .all(|(byte, &found)| found == right(array, origin, byte, time));
            if !is_right {
                return Err(format!("`{name}` {origin:?} on rank {rank} is {place:?}").into());
            }
        }
    }
    if size == 1 && seen == 0 {
        return Err("nothing was looked at".into());
    }
    let field = data.array::<f64>("rows")?;
    if size_of_val(data.local(field)?) != data.bytes("rows")?.len() {
        return Err("a handle leads elsewhere".into());
    }
    let words = &carried.lock().map_err(|error| error.to_string())?.mine;
    let right: Vec<_> =
        (rank..WORDS).step_by(size).map(|number| (number, (number * 7 + time) as u64)).collect();
    // Only if all processes have registered the callback.
    if data.names().any(|name| name == "words") && *words != right {
        return Err(format!("words on rank {rank} are {words:?}").into());
    }
    Ok(())
}
