//! Bins of the timeline. Each contains the time that it covers; of two for the same time the wider
//! one includes the other, and of equal ones the newer counts.

use crc32fast::Hasher;

use super::Decoder;
use super::rows::{cut_bytes, cut_counted};
use super::slots::whole;
use crate::layout::{BinHead, COMPONENTS_LIMIT, Cell, SectionEntry, SectionKind};
use crate::read::{Bin, Fault, TraceError};

/// Number of attempts to read the section, since bins move while the process folds.
const ATTEMPTS: usize = 4;
/// Number of slots read at once. In a short run most are empty, and memory for all of them at once
/// would cost more time than their content.
const PIECE: usize = 16;

/// First version whose cells contain the shared part.
const CELLS_WITH_SHARES: u32 = 3;
/// Bytes of a cell before that version.
const CELL_OF_OLD: usize = 24;

#[derive(Default)]
struct Bins {
    bins: Vec<Bin>,
    damaged: u64,
    nonsense: u64,
}

pub(super) fn read(decoder: &mut Decoder<'_>, bin_shift: u32) -> Result<Vec<Bin>, TraceError> {
    let section = SectionKind::Timeline;
    let Some(entry) = decoder.sections.get(section) else { return Ok(Vec::new()) };
    let (offset, length) = (entry.offset, entry.length);
    let slot_size = entry.slot_size as usize;
    let cell_size = if decoder.version < CELLS_WITH_SHARES { CELL_OF_OLD } else { Cell::SIZE };
    let mut result = Bins::default();
    let mut last = None;
    for _ in 0..ATTEMPTS {
        let mut found = Found::default();
        let mut seen = Hasher::new();
        decoder.source.each_piece(offset, length, slot_size * PIECE, &mut |bytes| {
            seen.update(bytes);
            found.add(bytes, entry, bin_shift, cell_size);
        })?;
        let seen = Some(seen.finalize());
        if last == seen {
            break;
        }
        result = found.bins();
        let level = |bin: Option<&Bin>| bin.map(|bin| bin.head.level);
        let folding = level(result.bins.first()) != level(result.bins.last());
        if !decoder.source.may_change() || (result.damaged == 0 && !folding) {
            break;
        }
        last = seen;
    }
    decoder.fault(result.damaged, |count| Fault::Damaged { section, count });
    decoder.fault(result.nonsense, |count| Fault::Nonsense { section, count });
    Ok(result.bins)
}

/// Content of the slots.
#[derive(Default)]
struct Found {
    /// Bins, and the sequence number of each.
    candidates: Vec<(Bin, u64)>,
    damaged: u64,
    nonsense: u64,
}

impl Found {
    /// Adds the content of some of the slots.
    fn add(&mut self, bytes: &[u8], entry: &SectionEntry, bin_shift: u32, cell_size: usize) {
        let (slots, damaged) = whole(bytes, entry);
        self.damaged += damaged;
        for slot in slots {
            match bin(slot.head.index, slot.payload, bin_shift, cell_size) {
                Some((bin, mended)) => {
                    self.nonsense += u64::from(mended);
                    self.candidates.push((bin, slot.head.sequence));
                }
                None => self.nonsense += 1,
            }
        }
    }

    /// Bins are nested or disjoint, so the widest of those with the same begin covers the others.
    fn bins(self) -> Bins {
        let Found { mut candidates, damaged, nonsense } = self;
        candidates.sort_by_key(|(bin, sequence)| {
            (bin.start, std::cmp::Reverse((bin.head.level, *sequence)))
        });
        let mut bins: Vec<Bin> = Vec::with_capacity(candidates.len());
        for (bin, _) in candidates {
            if bins.last().is_none_or(|last| last.end() <= bin.start) {
                bins.push(bin);
            }
        }
        Bins { bins, damaged, nonsense }
    }
}

/// Reads a cell; in an older one, any part may be shared, or none.
fn cell(bytes: &[u8]) -> Option<Cell> {
    if bytes.len() >= Cell::SIZE {
        return Cell::from_bytes(bytes);
    }
    let mut whole = [0; Cell::SIZE];
    whole[..bytes.len()].copy_from_slice(bytes);
    let cell = Cell::from_bytes(&whole)?;
    Some(Cell { private_max: cell.resident_max, shared_max: cell.resident_max, ..cell })
}

/// Reads a bin. Also returns whether something had to be corrected. Returns `None` if the bin does
/// not match its index, or has too many components.
fn bin(index: u32, payload: &[u8], bin_shift: u32, cell_size: usize) -> Option<(Bin, bool)> {
    let mut head = BinHead::from_bytes(payload)?;
    let payload = &payload[BinHead::SIZE..];
    let cells: Vec<Cell> = payload.chunks_exact(cell_size).filter_map(cell).collect();
    let shift = bin_shift.checked_add(head.level)?;
    let fits = shift < 64 && head.number < 1 << 24 && head.level < 256;
    if !fits || index != head.level << 24 | head.number || cells.len() > COMPONENTS_LIMIT {
        return None;
    }
    let width = 1_u64 << shift;
    let start = u64::from(head.number).checked_mul(width)?;
    let BinHead { total_min, total_max, total_mean, kernel_max, first_time, last_time, .. } =
        &mut head;
    let mended = cut_bytes([total_min, total_max, total_mean, kernel_max])
        | cut_counted([first_time, last_time]);
    Some((Bin { start, width, head, cells }, mended))
}
