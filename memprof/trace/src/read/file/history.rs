//! Reader of the ring: valid blocks in the order of their numbers, then samples and events from
//! their records.

use super::Decoder;
use super::rows::{cut_bytes, cut_counted};
use crate::layout::{
    BLOCK_RECORDS, BLOCK_SIZE, BlockHead, COMMITTED, COMPONENTS_LIMIT, Record, SEQUENCE_MARK,
    SectionKind, edge, record,
};
use crate::read::{Fault, History, PhaseEdge, Sample, TraceError};
use crate::write::ComponentSample;

/// Number of attempts if blocks are overwritten during the read.
const ATTEMPTS: usize = 4;

/// Valid blocks: number, and offset in the bytes read, by number.
#[derive(Default)]
struct Blocks {
    whole: Vec<(u64, usize)>,
    damaged: u64,
    missing: u64,
}

/// Reads the ring. `begun` is the number of blocks begun, according to the state.
pub(super) fn read(decoder: &mut Decoder<'_>, begun: u64) -> Result<History, TraceError> {
    let section = SectionKind::Ring;
    let Some(entry) = decoder.sections.get(section) else { return Ok(History::default()) };
    // Until the ring is full, the part after the blocks begun has never been written.
    let blocks = match begun {
        0 => u64::from(entry.slots),
        begun => u64::from(entry.slots).min(begun.saturating_add(2)),
    };
    let (offset, slots) = (entry.offset, u64::from(entry.slots));
    let mut bytes = decoder.source.read(offset, blocks * BLOCK_SIZE as u64)?;
    let mut found = collect(&bytes, slots, begun);
    for _ in 1..ATTEMPTS {
        if found.damaged + found.missing == 0 || !decoder.source.may_change() {
            break;
        }
        let again = decoder.source.read(offset, blocks * BLOCK_SIZE as u64)?;
        if again == bytes {
            break;
        }
        found = collect(&again, slots, begun);
        bytes = again;
    }
    let mut reading = Reading::default();
    let mut previous = None;
    for (number, at) in &found.whole {
        if previous.is_some_and(|previous: u64| previous.checked_add(1) != Some(*number)) {
            reading.abandon();
        }
        previous = Some(*number);
        reading.block(&bytes[*at..][..BLOCK_SIZE]);
    }
    reading.abandon();
    let cut = decoder.source.length() < offset.saturating_add(slots * BLOCK_SIZE as u64);
    decoder.fault(found.damaged, |count| Fault::Damaged { section, count });
    // In a truncated file, missing blocks are expected.
    decoder.fault(if cut { 0 } else { found.missing }, |count| Fault::Missing { section, count });
    decoder.fault(reading.nonsense, |count| Fault::Nonsense { section, count });
    Ok(reading.history)
}

fn collect(bytes: &[u8], slots: u64, begun: u64) -> Blocks {
    let mut blocks = Blocks::default();
    let mut empty = 0;
    for (slot, block) in bytes.chunks_exact(BLOCK_SIZE).enumerate() {
        let Some(head) = BlockHead::from_bytes(block) else { continue };
        if head.used == 0 && head.checksum == 0 {
            // Never used, or begun with nothing committed yet.
            empty += u64::from(head.sequence != 0);
            continue;
        }
        let number = head.sequence ^ SEQUENCE_MARK;
        let used = (head.used ^ COMMITTED) as usize;
        let own_place = number >= 1 && (number - 1) % slots.max(1) == slot as u64;
        if used > BLOCK_RECORDS || !own_place || checksum(block, used) != head.checksum {
            blocks.damaged += 1;
            continue;
        }
        blocks.whole.push((number, slot * BLOCK_SIZE));
    }
    blocks.whole.sort_unstable();
    let last = blocks.whole.last().map_or(0, |block| block.0);
    let expected = last.max(begun).min(slots);
    let found = blocks.whole.len() as u64 + blocks.damaged;
    // A block that was being begun when the process was killed, or is now, is not missing.
    blocks.missing = expected.saturating_sub(found + empty.clamp(0, 1));
    blocks
}

fn checksum(block: &[u8], used: usize) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&block[..16]);
    hasher.update(&block[BlockHead::SIZE..][..used * Record::SIZE]);
    hasher.finalize()
}

/// Converts records into samples.
#[derive(Default)]
struct Reading {
    history: History,
    /// Sample whose components are being read, and the number of records that remain.
    open: Option<(Sample, u32)>,
    nonsense: u64,
}

impl Reading {
    fn block(&mut self, block: &[u8]) {
        let used = BlockHead::from_bytes(block).map_or(0, |head| head.used ^ COMMITTED) as usize;
        let records = block[BlockHead::SIZE..].chunks_exact(Record::SIZE).take(used);
        for record in records.filter_map(Record::from_bytes) {
            self.record(&record);
        }
    }

    fn record(&mut self, line: &Record) {
        let mut line = *line;
        let mut mended = cut_counted([&mut line.time]);
        if matches!(line.kind, record::SAMPLE | record::COMPONENT | record::EXTRA) {
            mended |= cut_bytes([&mut line.a, &mut line.b]);
        }
        self.nonsense += u64::from(mended);
        let line = &line;
        match line.kind {
            record::COMPONENT | record::EXTRA => self.component(line),
            record::SAMPLE => {
                self.abandon();
                let start = self.history.rows.len();
                let sample = Sample {
                    time: line.time,
                    flags: line.flags,
                    kernel_resident: line.a,
                    walked: line.b,
                    rows: start..start,
                };
                self.open = Some((sample, line.argument));
                self.close_if_complete();
            }
            record::PHASE => {
                self.abandon();
                self.history.phases.push(PhaseEdge {
                    time: line.time,
                    phase: line.argument,
                    begins: line.flags & edge::BEGIN != 0,
                });
            }
            // Notes have a separate table.
            record::NOTE => self.abandon(),
            _ => self.nonsense += 1,
        }
    }

    fn component(&mut self, line: &Record) {
        // The beginning of the sample may have been overwritten.
        let Some((sample, left)) = &mut self.open else { return };
        *left -= 1;
        if usize::from(line.component) >= COMPONENTS_LIMIT {
            self.nonsense += 1;
        } else if line.kind == record::COMPONENT {
            self.history.rows.push(ComponentSample {
                component: line.component,
                owned: line.a,
                resident: line.b,
                ..ComponentSample::default()
            });
        } else {
            match self.history.rows[sample.rows.start..].last_mut() {
                Some(row) if row.component == line.component => {
                    (row.shared, row.swapped) = (line.a, line.b);
                }
                _ => self.nonsense += 1,
            }
        }
        self.close_if_complete();
    }

    fn close_if_complete(&mut self) {
        if let Some((mut sample, 0)) = self.open.take_if(|(_, left)| *left == 0) {
            sample.rows.end = self.history.rows.len();
            self.history.samples.push(sample);
        }
    }

    /// Drops an incomplete sample.
    fn abandon(&mut self) {
        if let Some((sample, _)) = self.open.take() {
            self.history.rows.truncate(sample.rows.start);
        }
    }
}
