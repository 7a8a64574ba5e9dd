//! Decoder of a trace file.

mod history;
mod rows;
mod slots;
mod timeline;

use self::rows::{Checked, table};
use super::source::Source;
use super::{Fault, Options, Row, Trace, TraceError};
use crate::layout::{
    BLOCK_SIZE, COMPONENTS_LIMIT, HEADER_CHECKSUM, HEADER_SIZE, HeaderStart, IDENTITY, Identity,
    ROWS_LIMIT, SECTION_TABLE, SECTIONS_LIMIT, SectionEntry, SectionKind, SlotHead, StateRow,
};

/// Maximum initial width of bins; wider ones would not fit times of 64 bits.
const WIDEST_BIN_SHIFT: u32 = 40;
/// Maximum number of slots of any table; a timeline has the most. Readers keep data for each slot,
/// and search rows of some tables for each row of others.
const MOST_BINS: u32 = 1 << 17;
const MOST_SLOTS: u32 = 2 * ROWS_LIMIT as u32;
const NUMBER_OF_KINDS: usize = SectionKind::ALL.len() + 1;

/// Checked positions of sections: they lie in the file as it was created, do not overlap, and have
/// slots large enough for their heads.
struct Sections([Option<SectionEntry>; NUMBER_OF_KINDS]);

impl Sections {
    fn get(&self, kind: SectionKind) -> Option<&SectionEntry> {
        self.0.get(kind as usize)?.as_ref()
    }
}

/// The bytes being read, and the faults found in them.
struct Decoder<'s> {
    source: &'s Source<'s>,
    version: u32,
    sections: Sections,
    faults: Vec<Fault>,
}

impl Decoder<'_> {
    fn fault(&mut self, count: u64, fault: impl FnOnce(u64) -> Fault) {
        if count > 0 {
            self.faults.push(fault(count));
        }
    }
}

pub(super) fn decode(
    source: &Source<'_>,
    header: &[u8],
    start: &HeaderStart,
    options: Options,
) -> Result<Trace, TraceError> {
    let length = source.length();
    if header.len() < HEADER_SIZE {
        return Err(TraceError::HeaderCut { length });
    }
    let checksum = crc32fast::hash(&header[..HEADER_CHECKSUM]);
    if checksum.to_le_bytes() != header[HEADER_CHECKSUM..HEADER_SIZE] {
        return Err(TraceError::HeaderDamaged);
    }
    let mut identity =
        Identity::from_bytes(&header[IDENTITY..]).ok_or(TraceError::HeaderDamaged)?;
    // Clock readings, to which times are added.
    rows::cut_counted([&mut identity.monotonic_ns]);
    identity.realtime_ns = identity.realtime_ns.min(u64::MAX / 4);
    if start.bin_shift > WIDEST_BIN_SHIFT {
        return Err(TraceError::Nonsense { what: "the bins of the timeline are too wide" });
    }
    let sections = sections(header, start)?;
    let mut decoder = Decoder { source, version: start.version, sections, faults: Vec::new() };
    if length < start.file_size {
        decoder.faults.push(Fault::Truncated { length, expected: start.file_size });
    }
    let (state, trusted) = state(&mut decoder)?;
    // Without a state, it is not known how many rows there have to be.
    let count = |rows: u32| trusted.then_some(rows);
    let detail = options.detail;
    let trace = Trace {
        version: start.version,
        file_size: start.file_size,
        identity,
        components: table(&mut decoder, SectionKind::Components, count(state.components))?,
        objects: table(&mut decoder, SectionKind::Objects, count(state.objects))?,
        notes: table(&mut decoder, SectionKind::Notes, count(state.notes))?,
        names: table(&mut decoder, SectionKind::Names, count(state.names))?,
        summary: rows::summary(&mut decoder)?,
        phases: table(&mut decoder, SectionKind::Phases, count(state.phases))?,
        phase_peaks: wanted(detail, || {
            table(&mut decoder, SectionKind::PhasePeaks, count(state.phase_peaks))
        })?,
        segments: wanted(detail, || {
            table(&mut decoder, SectionKind::Segments, count(state.segments))
        })?,
        sites: wanted(detail, || table(&mut decoder, SectionKind::Sites, count(state.sites)))?,
        touches: wanted(detail, || table(&mut decoder, SectionKind::Touches, None))?,
        times: table(&mut decoder, SectionKind::Times, None)?,
        loops: table(&mut decoder, SectionKind::Loops, None)?,
        handles: table(&mut decoder, SectionKind::Handles, None)?,
        timeline: wanted(detail, || timeline::read(&mut decoder, start.bin_shift))?,
        history: wanted(options.history, || {
            history::read(&mut decoder, count_blocks(&state, trusted))
        })?,
        state,
        faults: Vec::new(),
    };
    decoder.fault(state.rows_lost, |rows| Fault::NoRoom { rows });
    Ok(Trace { faults: decoder.faults, ..trace })
}

/// Reads a requested part; a part that is not requested is empty and not read.
fn wanted<T: Default>(
    wanted: bool,
    read: impl FnOnce() -> Result<T, TraceError>,
) -> Result<T, TraceError> {
    if wanted { read() } else { Ok(T::default()) }
}

fn count_blocks(state: &StateRow, trusted: bool) -> u64 {
    if trusted { state.blocks } else { 0 }
}

/// Returns the state, and whether it is certain to be the last one.
fn state(decoder: &mut Decoder<'_>) -> Result<(StateRow, bool), TraceError> {
    let before = decoder.faults.len();
    let rows: Vec<Row<StateRow>> = table(decoder, SectionKind::State, Some(1))?;
    let whole = decoder.faults.len() == before;
    Ok(match rows.into_iter().next() {
        Some(row) => (row.row, whole),
        None => (StateRow::default(), false),
    })
}

impl Checked for StateRow {
    fn checked(payload: &[u8]) -> Option<(Self, bool)> {
        let mut row = Self::from_bytes(payload)?;
        let StateRow { time, closed_time, rows_lost, .. } = &mut row;
        let mended = rows::cut_counted([time, closed_time, rows_lost]);
        Some((row, mended))
    }
}

fn sections(header: &[u8], start: &HeaderStart) -> Result<Sections, TraceError> {
    let nonsense = |what| Err(TraceError::Nonsense { what });
    let count = start.sections as usize;
    if count > SECTIONS_LIMIT {
        return nonsense("there are too many sections");
    }
    let mut found = Sections([None; NUMBER_OF_KINDS]);
    let mut ranges = Vec::with_capacity(count);
    for number in 0..count {
        let at = SECTION_TABLE + number * SectionEntry::SIZE;
        let Some(entry) = SectionEntry::from_bytes(&header[at..]) else {
            return nonsense("the section table is cut off");
        };
        let Some(end) = entry.offset.checked_add(entry.length) else {
            return nonsense("a section ends beyond all numbers");
        };
        if entry.offset < HEADER_SIZE as u64 || end > start.file_size {
            return nonsense("a section lies outside the file");
        }
        if u64::from(entry.slot_size) * u64::from(entry.slots) != entry.length {
            return nonsense("the slots do not make up their section");
        }
        ranges.push((entry.offset, end));
        // An unknown kind was added to this version later, and is not needed here.
        let Some(kind) = SectionKind::from_number(entry.kind) else { continue };
        let smallest = match kind {
            SectionKind::Ring => BLOCK_SIZE,
            _ => SlotHead::SIZE,
        };
        if (entry.slot_size as usize) < smallest || entry.capacity > entry.slots {
            return nonsense("the slots of a section are too small");
        }
        let most = match kind {
            SectionKind::Ring => u32::MAX,
            SectionKind::Timeline => MOST_BINS,
            _ => MOST_SLOTS,
        };
        if entry.slots > most {
            return nonsense("a table has too many rows");
        }
        if kind == SectionKind::Ring && entry.slot_size as usize != BLOCK_SIZE {
            return nonsense("the blocks of the ring have the wrong size");
        }
        if kind == SectionKind::Components && entry.capacity as usize > COMPONENTS_LIMIT {
            return nonsense("there are too many components");
        }
        if found.get(kind).is_some() {
            return nonsense("a section is there twice");
        }
        found.0[kind as usize] = Some(entry);
    }
    ranges.sort_unstable();
    if ranges.windows(2).any(|pair| pair[0].1 > pair[1].0) {
        return nonsense("sections overlap");
    }
    Ok(found)
}
