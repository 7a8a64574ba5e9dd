//! Schedules are carried out on memory filled with the numbers of its elements.

mod amounts;
mod carried_out;
mod grids;
mod halos;
mod maps;
mod properties;
mod published;

use std::collections::BTreeMap;

use super::*;

/// The memory of each rank, with 0xFF bytes in places without an element.
type Memory = BTreeMap<usize, Vec<u8>>;

fn number(distribution: &Distribution, row: usize, column: usize) -> u64 {
    (row * distribution.shape().1 + column + 1) as u64
}

/// Memory of the ranks for an array in which each element is its own number, in `element` bytes.
fn filled(distribution: &Distribution, element: usize) -> Memory {
    let mut memory: Memory = distribution
        .ranks()
        .iter()
        .map(|rank| (rank, vec![0xFF; distribution.room(rank) * element]))
        .collect();
    for (&rank, bytes) in &mut memory {
        for (offset, bytes) in bytes.chunks_exact_mut(element).enumerate() {
            if let Some((row, column)) = distribution.origin(rank, offset) {
                let number = number(distribution, row, column).to_le_bytes();
                for (index, byte) in bytes.iter_mut().enumerate() {
                    *byte = number[index % 8].wrapping_add((index / 8) as u8);
                }
            }
        }
    }
    memory
}

/// Carries a schedule out, step by step, and panics if it has contention or if the two ends of a
/// message disagree. Returns the bytes moved and kept.
fn carry_out(schedule: &Schedule, old: &Memory, new: &mut Memory, in_place: bool) -> Statistics {
    let parts: BTreeMap<usize, Part> =
        schedule.ranks().into_iter().map(|rank| (rank, schedule.of(rank))).collect();
    let mut seen = Statistics { steps: schedule.steps(), ..Statistics::default() };
    for part in parts.values() {
        for message in part.kept() {
            assert_eq!(message.peer(), part.rank());
            let to = new.get_mut(&part.rank()).expect("who keeps has new memory");
            message.copy(&old[&part.rank()], to).expect("lengths fit");
            seen.add(message.bytes(), false);
        }
        assert!(part.steps().windows(2).all(|pair| pair[0].number() < pair[1].number()));
        assert!(part.steps().iter().all(|step| step.number() < schedule.steps()));
    }
    // One list of messages by step: a part has one step of a number, so no rank sends twice.
    let mut by_step: BTreeMap<usize, Vec<(usize, &Message, &Message)>> = BTreeMap::new();
    let mut received = 0;
    for part in parts.values() {
        for step in part.steps() {
            received += usize::from(step.receive().is_some());
            if let Some(message) = step.send() {
                assert_ne!(message.peer(), part.rank(), "what stays is no message");
                let receiver = parts[&message.peer()].steps();
                let same = receiver
                    .binary_search_by_key(&step.number(), Step::number)
                    .ok()
                    .and_then(|index| receiver[index].receive())
                    .expect("the receiver expects it");
                assert_eq!((same.peer(), same.bytes()), (part.rank(), message.bytes()));
                by_step.entry(step.number()).or_default().push((part.rank(), message, same));
            }
        }
    }
    assert_eq!(by_step.values().map(Vec::len).sum::<usize>(), received);
    for messages in by_step.values() {
        let mut packed = Vec::new();
        for &(sender, message, _) in messages {
            let from = if message.source() == Source::New { &new[&sender] } else { &old[&sender] };
            let mut bytes = vec![0; message.bytes()];
            message.pack(from, &mut bytes).expect("lengths fit");
            packed.push(bytes);
            seen.add(message.bytes(), true);
        }
        for (&(sender, message, same), bytes) in messages.iter().zip(&packed) {
            if in_place && message.source() == Source::Old {
                let to = new.get_mut(&message.peer()).expect("it has new memory");
                message.copy(&old[&sender], to).expect("lengths fit");
            } else {
                let to = new.get_mut(&message.peer()).expect("it has new memory");
                same.unpack(bytes, to).expect("lengths fit");
            }
        }
    }
    seen
}

/// Memory for a distribution, not filled yet.
fn blank(distribution: &Distribution, element: usize) -> Memory {
    let room = |rank| vec![0xFF; distribution.room(rank) * element];
    distribution.ranks().iter().map(|rank| (rank, room(rank))).collect()
}

/// Moves an array from one distribution to another and compares it with the expected one.
fn check(old: &Distribution, new: &Distribution, element: usize) -> Schedule {
    let schedule = Schedule::between(old, new, element).expect("shapes fit");
    let mut memory = blank(new, element);
    let before = filled(old, element);
    let seen = carry_out(&schedule, &before, &mut memory, false);
    assert_eq!(memory, filled(new, element), "{old:?} -> {new:?}");
    assert_eq!(seen, schedule.statistics());
    let (rows, columns) = old.shape();
    let copies = if new.is_replicated() { new.ranks().len() } else { 1 };
    assert_eq!(seen.bytes_moved + seen.bytes_kept, rows * columns * element * copies);
    schedule
}
