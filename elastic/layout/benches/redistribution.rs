//! Speed of moving data out of and into place, compared with `memcpy` of as many bytes in messages
//! of the same sizes, in one run: only the ratios mean anything on a shared machine.
//!
//! One rank packs all it sends, unpacks all it receives, and copies the same directly, as ranks of
//! a node do that map each other's memory. Data that stay on the rank count as a message.
#![allow(clippy::print_stdout)]

use std::hint::black_box;
use std::time::{Duration, Instant};

use elastic_layout::{
    Distribution, Grid, LayoutError, Message, Ranks, Schedule, Step, Storage, in_turns,
};

const ROUNDS: usize = 5;

/// A redistribution to measure.
struct Case {
    name: String,
    schedule: Schedule,
}

fn cases() -> Result<Vec<Case>, LayoutError> {
    let mut cases = Vec::new();
    let mut add = |name: String, old: &Distribution, new: &Distribution, element: usize| {
        let schedule = Schedule::between(old, new, element)?;
        cases.push(Case { name, schedule });
        Ok::<(), LayoutError>(())
    };
    let vector = 32 << 20;
    let blocks = |ranks| Distribution::block(vector, Ranks::first(ranks));
    add("vector, blocks, 4 to 5 ranks".into(), &blocks(4)?, &blocks(5)?, 8)?;
    for block in [512, 8, 1] {
        let turns = |ranks| Distribution::block_cyclic(vector, block, Ranks::first(ranks));
        add(format!("vector, {block} in turns, 4 to 5"), &turns(4)?, &turns(5)?, 8)?;
    }
    let turns = Distribution::block_cyclic(vector, 1, Ranks::first(4))?;
    add("vector, 1 in turns to blocks, 4 to 5".into(), &turns, &blocks(5)?, 8)?;
    let shape = (6144, 6144);
    let on = |rows, columns, block, storage| {
        let grid = Grid::new(rows, columns);
        let ranks = Ranks::first(rows * columns);
        Ok::<_, LayoutError>(
            Distribution::checkerboard(shape, (block, block), grid, ranks)?.stored(storage),
        )
    };
    for (element, block, storage) in [
        (8, 512, Storage::RowsOfBlocks),
        (8, 512, Storage::Rows),
        (8, 512, Storage::Columns),
        (8, 64, Storage::RowsOfBlocks),
        (8, 64, Storage::Rows),
        (8, 64, Storage::Columns),
        (4, 64, Storage::Rows),
        (8, 16, Storage::Rows),
        (8, 8, Storage::Rows),
        (4, 8, Storage::Rows),
    ] {
        let (old, new) = (on(2, 2, block, storage)?, on(2, 3, block, storage)?);
        let name = format!("matrix, {block} x {block}, {storage:?}, 2x2 to 2x3");
        add(name, &old, &new, element)?;
    }
    let (old, new) = (on(2, 2, 64, Storage::Rows)?, on(2, 3, 64, Storage::RowsOfBlocks)?);
    add("matrix, 64 x 64, Rows to RowsOfBlocks".into(), &old, &new, 8)?;
    let rows = Distribution::block_rows(shape.0, shape.1, Ranks::first(4))?;
    let columns = Distribution::block_columns(shape.0, shape.1, Ranks::first(5))?;
    add("matrix, block rows to block columns, 4 to 5".into(), &rows, &columns, 8)?;
    let turned = columns.stored(Storage::Columns);
    add("the same, and Rows to Columns".into(), &rows, &turned, 8)?;
    Ok(cases)
}

/// Makes memory with all pages in place.
fn memory(bytes: usize) -> Vec<u8> {
    (0..bytes).map(|index| (index / 4096) as u8).collect()
}

fn timed(run: impl FnOnce() -> Result<(), LayoutError>) -> Result<Duration, LayoutError> {
    let start = Instant::now();
    run()?;
    Ok(start.elapsed())
}

/// Size of the parts of messages taken in turns.
const PARTS: usize = 16 << 10;

/// Shortest times of packing, unpacking and copying message by message, of the same in turns, and
/// of memcpy. A rank packs all it sends and keeps, and unpacks or copies all it receives and keeps.
fn measure(sent: &[Message], received: &[Message]) -> Result<[Duration; 7], LayoutError> {
    let from = memory(sent.iter().map(Message::source_bytes).max().unwrap_or(0));
    let mut to = memory(received.iter().map(Message::target_bytes).max().unwrap_or(0));
    let all = |messages: &[Message], bytes: fn(&Message) -> usize| -> Vec<Vec<u8>> {
        messages.iter().map(|message| memory(bytes(message))).collect()
    };
    let mut packed = all(sent, Message::bytes);
    let arrived = all(received, Message::bytes);
    let others = all(received, Message::source_bytes);
    let bytes = |messages: &[Message]| messages.iter().map(Message::bytes).sum::<usize>() as f64;
    let more = bytes(received) / bytes(sent);
    let mut best = [Duration::MAX; 7];
    for _ in 0..ROUNDS {
        let times = [
            timed(|| {
                let mut pairs = sent.iter().zip(&mut packed);
                pairs.try_for_each(|(message, packed)| message.pack(black_box(&from), packed))
            })?,
            timed(|| {
                let mut pairs = received.iter().zip(&arrived);
                pairs.try_for_each(|(message, packed)| message.unpack(packed, black_box(&mut to)))
            })?
            .div_f64(more),
            timed(|| {
                let mut pairs = received.iter().zip(&others);
                pairs.try_for_each(|(message, from)| message.copy(from, black_box(&mut to)))
            })?
            .div_f64(more),
            timed(|| {
                let mut done = vec![0; sent.len()];
                in_turns(sent, PARTS).try_for_each(|(index, part)| {
                    let packed = &mut packed[index][done[index]..][..part.bytes()];
                    done[index] += part.bytes();
                    part.pack(black_box(&from), packed)
                })
            })?,
            timed(|| {
                let mut done = vec![0; received.len()];
                in_turns(received, PARTS).try_for_each(|(index, part)| {
                    let packed = &arrived[index][done[index]..][..part.bytes()];
                    done[index] += part.bytes();
                    part.unpack(packed, black_box(&mut to))
                })
            })?
            .div_f64(more),
            timed(|| {
                in_turns(received, PARTS)
                    .try_for_each(|(index, part)| part.copy(&others[index], black_box(&mut to)))
            })?
            .div_f64(more),
            timed(|| {
                let mut rest = &from[..];
                for packed in &mut packed {
                    let (run, behind) = rest.split_at(packed.len());
                    black_box(&mut packed[..]).copy_from_slice(black_box(run));
                    rest = behind;
                }
                Ok(())
            })?,
        ];
        for (best, time) in best.iter_mut().zip(times) {
            *best = time.min(*best);
        }
    }
    Ok(best)
}

fn main() -> Result<(), LayoutError> {
    println!("of memcpy in the same run: message by message, and in turns of 16 KiB\n");
    println!(
        "{:<50} {:>7} {:>6} {:>7} {:>7} {:>9} {:>7} {:>7} {:>12}",
        "", "element", "pack", "unpack", "copy", "pack", "unpack", "copy", "memcpy"
    );
    for case in cases()? {
        let part = case.schedule.of(0);
        let with_kept = |messages: Vec<&Message>| -> Vec<Message> {
            part.kept().iter().chain(messages).cloned().collect()
        };
        let sent = with_kept(part.steps().iter().filter_map(Step::send).collect());
        let received = with_kept(part.steps().iter().filter_map(Step::receive).collect());
        let bytes: usize = sent.iter().map(Message::bytes).sum();
        let [times @ .., memcpy] = measure(&sent, &received)?.map(|best| best.as_secs_f64());
        let [pack, unpack, copy, turns_pack, turns_unpack, turns_copy] =
            times.map(|time| memcpy / time);
        println!(
            "{:<50} {:>7} {pack:>6.2} {unpack:>7.2} {copy:>7.2} {turns_pack:>9.2} \
             {turns_unpack:>7.2} {turns_copy:>7.2} {:>7.2} GB/s",
            case.name,
            case.schedule.element(),
            bytes as f64 / memcpy / 1e9
        );
    }
    Ok(())
}
