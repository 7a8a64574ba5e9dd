//! Slots of a table: which are valid, and which of several for one row is the newest.

use std::collections::BTreeMap;

use crc32fast::Hasher;

use super::Decoder;
use crate::layout::{SEQUENCE_MARK, SectionEntry, SectionKind, SlotHead};
use crate::read::TraceError;

/// Number of attempts to read a consistent state of a table that is being written.
const ATTEMPTS: usize = 4;
/// Slots after the rows that the state counts: the spare one, and those written since.
const MARGIN: u64 = 3;

/// A slot that matches its checksum.
pub(super) struct Slot<'a> {
    pub(super) head: SlotHead,
    pub(super) payload: &'a [u8],
}

/// Content of a slot.
enum Found<'a> {
    Unused,
    Whole(Slot<'a>),
    Damaged,
}

fn check(bytes: &[u8]) -> Found<'_> {
    let Some(head) = SlotHead::from_bytes(bytes) else { return Found::Damaged };
    if head.sequence == 0 {
        return Found::Unused;
    }
    let payload = bytes[SlotHead::SIZE..].get(..head.length as usize);
    let (Some(payload), true) = (payload, head.sequence & SEQUENCE_MARK == SEQUENCE_MARK) else {
        return Found::Damaged;
    };
    let written = SlotHead { checksum: 0, ..head }.to_bytes();
    let mut hasher = Hasher::new();
    hasher.update(&written[..16]);
    hasher.update(&written[20..]);
    hasher.update(payload);
    if hasher.finalize() == head.checksum {
        Found::Whole(Slot { head, payload })
    } else {
        Found::Damaged
    }
}

/// Returns all valid slots of some bytes, in order, and the number of damaged ones. A truncated
/// slot does not count: the file is known to be shorter than it was.
pub(super) fn whole<'a>(bytes: &'a [u8], entry: &SectionEntry) -> (Vec<Slot<'a>>, u64) {
    let (mut slots, mut damaged) = (Vec::new(), 0);
    for bytes in bytes.chunks_exact(entry.slot_size as usize) {
        match check(bytes) {
            Found::Unused => {}
            Found::Whole(slot) => slots.push(slot),
            Found::Damaged => damaged += 1,
        }
    }
    (slots, damaged)
}

/// Newest rows of a table.
#[derive(Default)]
pub(super) struct Newest {
    /// The newest payload of each row.
    pub(super) rows: BTreeMap<u32, (u64, Vec<u8>)>,
    pub(super) damaged: u64,
    /// Rows without even an older value.
    pub(super) missing: u64,
}

/// Returns the newest value of each row. `count` is the expected number of rows, where that is
/// known.
pub(super) fn newest(
    decoder: &Decoder<'_>,
    kind: SectionKind,
    count: Option<u32>,
) -> Result<Newest, TraceError> {
    let Some(entry) = decoder.sections.get(kind) else { return Ok(Newest::default()) };
    let needed = count.map_or(entry.slots.into(), |count| u64::from(count) + MARGIN);
    let length = entry.length.min(needed.saturating_mul(u64::from(entry.slot_size)));
    let mut last = Vec::new();
    let mut result = Newest::default();
    for attempt in 0..ATTEMPTS {
        let bytes = decoder.source.read(entry.offset, length)?;
        if attempt > 0 && last == *bytes {
            break;
        }
        result = collect(&bytes, entry);
        let found = result.rows.len() as u64;
        result.missing = u64::from(count.unwrap_or(0)).saturating_sub(found);
        let whole = result.damaged == 0 && result.missing == 0;
        if whole || !decoder.source.may_change() {
            break;
        }
        last = bytes.into_owned();
    }
    Ok(result)
}

fn collect(bytes: &[u8], entry: &SectionEntry) -> Newest {
    let (slots, damaged) = whole(bytes, entry);
    let mut result = Newest { damaged, ..Newest::default() };
    let mut best: BTreeMap<u32, Slot<'_>> = BTreeMap::new();
    for slot in slots {
        if slot.head.index >= entry.capacity {
            result.damaged += 1;
        } else if best
            .get(&slot.head.index)
            .is_none_or(|older| older.head.sequence < slot.head.sequence)
        {
            best.insert(slot.head.index, slot);
        }
    }
    let own = |(index, slot): (u32, Slot<'_>)| (index, (slot.head.sequence, slot.payload.to_vec()));
    result.rows = best.into_iter().map(own).collect();
    result
}
