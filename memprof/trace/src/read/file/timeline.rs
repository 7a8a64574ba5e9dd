//! Bins of the timeline: each says which time it is for; of two for the same time the wider one holds
//! the other, and of equal ones the newer counts.

use super::Decoder;
use super::rows::{cut_bytes, cut_counted};
use super::slots::whole;
use crate::layout::{BinHead, COMPONENTS_LIMIT, Cell, SectionEntry, SectionKind, v1};
use crate::read::{Bin, Fault, TraceError};

/// While the process folds, bins move; then the section is read again.
const ATTEMPTS: usize = 4;

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
    let version = decoder.version;
    let mut result = Bins::default();
    let mut last = Vec::new();
    for attempt in 0..ATTEMPTS {
        let bytes = decoder.source.read(offset, length)?;
        if attempt > 0 && last == *bytes {
            break;
        }
        result = collect(&bytes, entry, bin_shift, version);
        let level = |bin: Option<&Bin>| bin.map(|bin| bin.head.level);
        let folding = level(result.bins.first()) != level(result.bins.last());
        if !decoder.source.may_change() || (result.damaged == 0 && !folding) {
            break;
        }
        last = bytes.into_owned();
    }
    decoder.fault(result.damaged, |count| Fault::Damaged { section, count });
    decoder.fault(result.nonsense, |count| Fault::Nonsense { section, count });
    Ok(result.bins)
}

fn collect(bytes: &[u8], entry: &SectionEntry, bin_shift: u32, version: u32) -> Bins {
    let (slots, damaged) = whole(bytes, entry);
    let mut candidates = Vec::with_capacity(slots.len());
    let mut nonsense = 0;
    for slot in slots {
        match bin(slot.head.index, slot.payload, bin_shift, version) {
            Some((bin, mended)) => {
                nonsense += u64::from(mended);
                candidates.push((bin, slot.head.sequence));
            }
            None => nonsense += 1,
        }
    }
    // Bins are nested or apart, so the widest of those that begin together covers the others.
    candidates
        .sort_by_key(|(bin, sequence)| (bin.start, std::cmp::Reverse((bin.head.level, *sequence))));
    let mut bins: Vec<Bin> = Vec::with_capacity(candidates.len());
    for (bin, _) in candidates {
        if bins.last().is_none_or(|last| last.end() <= bin.start) {
            bins.push(bin);
        }
    }
    Bins { bins, damaged, nonsense }
}

/// With whether something had to be put right. Nothing if it is not what its index says, or has too
/// many components.
fn bin(index: u32, payload: &[u8], bin_shift: u32, version: u32) -> Option<(Bin, bool)> {
    let mut head = BinHead::from_bytes(payload)?;
    let payload = &payload[BinHead::SIZE..];
    let cells: Vec<Cell> = match version {
        v1::VERSION => {
            let old = payload.chunks_exact(v1::Cell::SIZE).filter_map(v1::Cell::from_bytes);
            old.map(Cell::from).collect()
        }
        _ => payload.chunks_exact(Cell::SIZE).filter_map(Cell::from_bytes).collect(),
    };
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
