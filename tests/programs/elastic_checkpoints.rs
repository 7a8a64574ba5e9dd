//! Writes and reads checkpoints of data of every kind: `mpirun -n 4 checkpoints FOLDER 2 WORD...`
//! begins with 2 ranks (0: all) and obeys the words one after the other. After `load` every rank
//! checks all of its data; after an error it checks that nothing has changed.
//!
//! | word | meaning |
//! |---|---|
//! | `init`, `lists`, `other` | registers all data; only what needs a function; arrays in other patterns |
//! | `clear` | removes all data |
//! | `fill=7` | sets the values of time 7 |
//! | `save`, `load` | a checkpoint with the time as its state, and back |
//! | `size=3` | resizes the world |
//! | `element`, `shape`, `unknown`, `index`, `rows`, `callback` | registers something that does not fit |
//! | `fixed` | registers an array on a grid of 4 ranks |
//! | `alone` | registers an array on the last rank only |
//! | `begin`, `end` | begins and ends an exchange of ghost cells |
//! | `limit=9` | allows the last rank files of at most 9 bytes |
//! | `text` | restores with a state of another type |
#![allow(clippy::print_stdout)]

use std::error::Error;
use std::path::Path;

use elastic::data::{Carry, Grids, Pattern, Registry, Seats};
use elastic::layout::{Compressed, Grid, Halo, Storage};
use elastic::{Status, World, WorldOptions};
use quo_mpi::Mpi;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

type Failed = Box<dyn Error>;

const ROWS: usize = 37;
const ITEMS: u64 = 101;

/// Name, element size in bytes, and pattern of each array.
fn arrays() -> Vec<(&'static str, usize, Pattern)> {
    let blocks = Pattern::checkerboard((37, 53), (4, 5), Grids::NearlySquare);
    let halo = [Halo::edge(1), Halo::periodic(1), Halo::NONE];
    vec![
        ("blocks", 8, Pattern::block(1001)),
        ("blocks in turns", 3, Pattern::block_cyclic(1007, 7)),
        ("rows", 8, Pattern::block_rows(37, 53)),
        ("columns", 16, Pattern::block_columns(37, 53).stored(Storage::Columns)),
        ("grid", 24, Pattern::block_grid((37, 53), Grids::NearlySquare)),
        ("checkerboard", 8, blocks),
        ("columns of blocks", 1, blocks.stored(Storage::ColumnsOfBlocks)),
        ("everywhere", 8, Pattern::replicated(99)),
        ("three elements", 8, Pattern::block(3)),
        ("nothing", 8, Pattern::block(0)),
        ("cells", 8, Pattern::halo([5, 9, 11], halo)),
        // Larger than the portion with one checksum.
        ("large", 8, Pattern::block_cyclic(900_000, 1000)),
    ]
}

/// Other patterns of arrays of the same shapes.
fn other_patterns() -> Vec<(&'static str, usize, Pattern)> {
    let grids = Grids::NearlySquare;
    vec![
        ("everywhere", 8, Pattern::block(99)),
        ("blocks", 8, Pattern::replicated(1001)),
        ("rows", 8, Pattern::block_columns(37, 53)),
        ("checkerboard", 8, Pattern::checkerboard((37, 53), (3, 7), grids)),
        ("large", 8, Pattern::block(900_000)),
        ("cells", 8, Pattern::halo([5, 9, 11], [Halo::edge(1), Halo::periodic(2), Halo::NONE])),
    ]
}

/// Returns the expected byte of an element at a time.
fn right(array: usize, place: (usize, usize), byte: usize, time: u64) -> u8 {
    let mixed = place.0.wrapping_mul(0x9e37) ^ place.1.wrapping_mul(0x85eb) ^ (array << 5);
    (mixed.wrapping_add(mixed >> 8).wrapping_add(byte * 29)).wrapping_add(time as usize * 101) as u8
}

/// The columns of a row of the matrix.
fn columns(row: usize) -> impl Iterator<Item = usize> {
    (0..row % 4).map(move |number| (row + 7 * number) % ROWS)
}

fn value(row: usize, column: usize, time: u64) -> f64 {
    (row * 1000 + column) as f64 + time as f64 / 64.0
}

fn own_rows(rank: usize, size: usize) -> std::ops::Range<usize> {
    let each = ROWS.div_ceil(size);
    (rank * each).min(ROWS)..((rank + 1) * each).min(ROWS)
}

/// A matrix in compressed rows, of which only the index matters.
fn index() -> Result<Compressed, Failed> {
    let starts = (0..30).scan(0, |next, line| Some(std::mem::replace(next, *next + line % 5)));
    Ok(Compressed::new(&starts.collect::<Vec<usize>>())?)
}

fn register_lists(data: &mut Registry) -> Result<(), Failed> {
    data.register_items::<[u64; 2]>("ants", |ant, ranks| (ant[0] * ranks as u64 / ITEMS) as usize)?;
    data.register_items::<u8>("bees", |_, ranks| ranks - 1)?;
    Ok(())
}

fn register_matrix(data: &mut Registry, rank: usize, size: usize) -> Result<(), Failed> {
    let own = own_rows(rank, size);
    let mut pointers = vec![0];
    own.clone().for_each(|row| pointers.push(pointers[pointers.len() - 1] + columns(row).count()));
    let columns: Vec<usize> = own.flat_map(columns).collect();
    let values = vec![0.0; columns.len()];
    data.register_matrix("A", ROWS, &pointers, &columns, &values)?;
    data.register_vector::<f64>("x", "A")?;
    Ok(())
}

fn register(world: &mut World) -> Result<(), Failed> {
    let (rank, size) = (world.rank(), world.size());
    let data = world.data_mut();
    for (name, element, pattern) in arrays() {
        data.register_bytes(name, element, pattern)?;
    }
    data.register_compressed_bytes("nonzeros", 8, &index()?)?;
    register_matrix(data, rank, size)?;
    register_lists(data)
}

/// Name and element size of what has an element for each place of a distribution.
fn with_places() -> Vec<(&'static str, usize)> {
    let arrays = arrays().into_iter().map(|(name, element, _)| (name, element));
    arrays.chain([("nonzeros", 8)]).collect()
}

fn fill(world: &mut World, time: u64) -> Result<(), Failed> {
    let (rank, size) = (world.rank(), world.size());
    let data = world.data_mut();
    for (array, (name, element)) in with_places().into_iter().enumerate() {
        let lies = data.distribution(name)?.clone();
        for (offset, place) in data.bytes_mut(name)?.chunks_exact_mut(element).enumerate() {
            let Some(origin) = lies.origin(rank, offset) else { continue };
            for (byte, to) in place.iter_mut().enumerate() {
                *to = right(array, origin, byte, time);
            }
        }
    }
    let own = own_rows(rank, size);
    let all: Vec<f64> =
        own.clone().flat_map(|row| columns(row).map(move |c| value(row, c, time))).collect();
    data.matrix_values_mut::<f64>("A")?.copy_from_slice(&all);
    let vector = data.array::<f64>("x")?;
    for (row, place) in own.zip(data.local_mut(vector)?) {
        *place = value(row, ROWS, time);
    }
    let ants: Vec<_> = (0..ITEMS).filter(|ant| ant * size as u64 / ITEMS == rank as u64).collect();
    data.resize_items("ants", ants.len())?;
    for (ant, place) in ants.into_iter().zip(data.items_mut::<[u64; 2]>("ants")?) {
        *place = [ant, ant * 7 + time];
    }
    // Not with their owner yet.
    data.resize_items("bees", 2)?;
    data.items_mut::<u8>("bees")?.fill(time as u8);
    Ok(())
}

fn check(world: &World, time: u64) -> Result<(), Failed> {
    let (rank, size) = (world.rank(), world.size());
    let data = world.data();
    for (array, (name, element)) in with_places().into_iter().enumerate() {
        let lies = data.distribution(name)?;
        let bytes = data.bytes(name)?;
        if bytes.len() != lies.room(rank) * element {
            return Err(format!("`{name}` has {} bytes", bytes.len()).into());
        }
        for (offset, place) in bytes.chunks_exact(element).enumerate() {
            let Some(origin) = lies.origin(rank, offset) else { continue };
            let found = place.iter().enumerate();
            if !found.into_iter().all(|(byte, found)| *found == right(array, origin, byte, time)) {
                return Err(format!("`{name}` {origin:?} on rank {rank} is {place:?}").into());
            }
        }
    }
    let own = own_rows(rank, size);
    let part = data.matrix::<f64>("A")?;
    for (number, row) in own.clone().enumerate() {
        let elements = part.pointers[number]..part.pointers[number + 1];
        let found: Vec<_> = elements
            .map(|at| {
                let index = part.columns[at] as usize;
                let ghost = index.checked_sub(own.len());
                (ghost.map_or(own.start + index, |at| part.ghost_columns[at]), part.values[at])
            })
            .collect();
        let right: Vec<_> = columns(row).map(|column| (column, value(row, column, time))).collect();
        if found != right {
            return Err(format!("row {row} on rank {rank} is {found:?}").into());
        }
    }
    let vector = data.local(data.array::<f64>("x")?)?;
    let rows = own.clone().map(|row| value(row, ROWS, time));
    if vector.len() != own.len() + part.ghost_columns.len()
        || !rows.eq(vector[..own.len()].to_vec())
    {
        return Err(format!("`x` on rank {rank} is {vector:?}").into());
    }
    let ants = (0..ITEMS).filter(|ant| ant * size as u64 / ITEMS == rank as u64);
    let ants: Vec<_> = ants.map(|ant| [ant, ant * 7 + time]).collect();
    if data.items::<[u64; 2]>("ants")? != ants {
        return Err(format!("ants on rank {rank} are {:?}", data.items::<[u64; 2]>("ants")?).into());
    }
    if rank + 1 < size && !data.items::<u8>("bees")?.is_empty() {
        return Err(format!("rank {rank} has bees of the last rank").into());
    }
    Ok(())
}

/// Returns all data of this rank, to compare.
fn snapshot(data: &Registry) -> Vec<(String, Vec<u8>)> {
    let bytes = |name: &str| {
        let part = data.matrix_bytes(name).map(|part| part.values.to_vec());
        let items = || data.items_bytes(name).map(<[u8]>::to_vec);
        data.bytes(name).map(<[u8]>::to_vec).or(part).or_else(|_| items()).unwrap_or_default()
    };
    data.names().map(|name| (name.to_owned(), bytes(name))).collect()
}

struct Nothing;

impl Carry for Nothing {
    fn give(&mut self, _: &Seats) -> Result<Vec<(usize, Vec<u8>)>, String> {
        Ok(Vec::new())
    }

    fn take(&mut self, _: &Seats, _: Vec<(usize, Vec<u8>)>) -> Result<(), String> {
        Ok(())
    }

    fn end_transfer(&mut self, _committed: bool) {}
}

fn main() -> Result<(), Failed> {
    let mut words = std::env::args().skip(1);
    let folder = words.next().ok_or("which folder?")?;
    let start: usize = words.next().ok_or("how many ranks?")?.parse()?;
    let words: Vec<String> = words.collect();
    let mpi = Mpi::initialize()?;
    let options = WorldOptions::new();
    let options = if start == 0 { options } else { options.initial_ranks(start) };
    let mut world = World::create(options)?;
    if world.status() != Status::New {
        register_lists(world.data_mut())?;
    }
    let (mut at, mut time, mut asked) = (0, 0, None);
    loop {
        if world.status() == Status::Parked && !world.wait()? {
            break;
        }
        if world.status() == Status::Joining || world.probe()? {
            let window = world.begin()?;
            window.broadcast(&mut at)?;
            window.broadcast(&mut time)?;
            window.commit(Ok(()))?;
            at += 1;
            if world.status() == Status::Staying {
                check(&world, time)?;
            }
            continue;
        }
        let Some(word) = words.get(at) else { break };
        if let Some(size) = word.strip_prefix("size=") {
            if world.rank() == 0 && asked != Some(at) {
                asked = Some(at);
                world.request(size.parse()?)?;
            }
            std::thread::yield_now();
            continue;
        }
        obey(&mut world, word, Path::new(&folder), &mut time)?;
        at += 1;
    }
    world.end()?;
    drop(mpi);
    Ok(())
}

fn obey(world: &mut World, word: &str, folder: &Path, time: &mut u64) -> Result<(), Failed> {
    let (rank, size) = (world.rank(), world.size());
    let is_last = rank + 1 == size;
    let (word, number) = word.split_once('=').unwrap_or((word, "0"));
    let number: u64 = number.parse()?;
    match word {
        "save" => match world.checkpoint(folder, time) {
            Ok(()) if rank == 0 => println!("saved {time} on {size}"),
            Ok(()) => {}
            Err(error) => println!("rank {rank}: {error}"),
        },
        "load" | "text" => {
            let before = snapshot(world.data());
            let found = if word == "text" {
                world.restore(folder, &mut String::new())
            } else {
                world.restore(folder, time)
            };
            match found {
                Ok(true) => {
                    check(world, *time)?;
                    if rank == 0 {
                        println!("loaded {time} on {size}");
                    }
                    return Ok(());
                }
                Ok(false) if rank == 0 => println!("nothing to load"),
                Ok(false) => {}
                Err(error) => println!("rank {rank}: {error}"),
            }
            if snapshot(world.data()) != before {
                return Err("data have changed, though nothing was restored".into());
            }
        }
        "init" => register(world)?,
        "lists" => register_lists(world.data_mut())?,
        "other" => {
            for (name, element, pattern) in other_patterns() {
                world.data_mut().register_bytes(name, element, pattern)?;
            }
            world.data_mut().register_compressed_bytes("nonzeros", 8, &index()?)?;
            // Rows without elements, which the rows of the checkpoint replace.
            let pointers = vec![0; own_rows(rank, size).len() + 1];
            world.data_mut().register_matrix::<f64>("A", ROWS, &pointers, &[], &[])?;
        }
        "clear" => {
            let data = world.data_mut();
            let names: Vec<_> = data.names().map(str::to_owned).collect();
            // A matrix goes after its vectors.
            for name in names {
                data.remove(&name)?;
            }
        }
        "fill" => {
            *time = number;
            fill(world, *time)?;
        }
        "element" => world.data_mut().register_bytes("rows", 4, Pattern::block_rows(37, 53))?,
        "shape" => world.data_mut().register_bytes("rows", 8, Pattern::block_rows(53, 37))?,
        "unknown" => world.data_mut().register_bytes("unknown", 8, Pattern::block(3))?,
        "fixed" => {
            let pattern = Pattern::block_grid((4, 4), Grids::Fixed(Grid::new(2, 2)));
            world.data_mut().register_bytes("fixed", 8, pattern)?;
        }
        "index" => {
            let other = Compressed::new(&[0, 3, 57])?;
            world.data_mut().register_compressed_bytes("nonzeros", 8, &other)?;
        }
        "rows" => {
            let own = 38_usize.div_ceil(size);
            let own = 38.min((rank + 1) * own) - 38.min(rank * own);
            world.data_mut().register_matrix::<f64>("A", 38, &vec![0; own + 1], &[], &[])?;
        }
        "callback" => world.data_mut().carry("words", Box::new(Nothing))?,
        "alone" if is_last => world.data_mut().register_bytes("alone", 8, Pattern::block(3))?,
        "begin" => world.exchange_halo_begin("cells")?,
        "end" => world.exchange_halo_end("cells")?,
        "limit" if is_last => {
            let limits = getrlimit(Resource::Fsize);
            setrlimit(Resource::Fsize, Rlimit { current: Some(number), ..limits })?;
        }
        "alone" | "limit" => {}
        other => return Err(format!("what is {other}?").into()),
    }
    Ok(())
}
