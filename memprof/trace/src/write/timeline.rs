//! The whole run in a fixed number of bins. When the last bin is full, pairs of bins become one and
//! all are twice as wide.
//!
//! A bin says itself which time it stands for, so a reader needs no order of slots: of two bins that
//! tell about the same time, the wider or newer one counts. That makes folding safe at every store:
//! bin `k` is written over a bin that is already part of bin `k / 2`, from two bins further on. Only
//! bin 0 would overwrite one of its own halves, so it goes through a place of its own first. The bin
//! being filled is written to two places in turn.

use super::memory::Region;
use super::table::{Filling, Sequence};
use super::{ComponentSample, SampleHead};
use crate::bounds::{Bounds, Known, between};
use crate::layout::{BIN_SHIFT, BinHead, COMPONENTS_LIMIT, Cell, Section, SlotHead, sample};

/// What a component had in the samples of the bin being filled.
#[derive(Copy, Clone)]
struct Column {
    min: u32,
    max: u32,
    owned_max: u32,
    /// In the sample being folded.
    now: u32,
    sum: u64,
    floor: u32,
    ceiling: u32,
}

const NOTHING: Column =
    Column { min: u32::MAX, max: 0, owned_max: 0, now: 0, sum: 0, floor: u32::MAX, ceiling: 0 };
const UNKNOWN: Known = Known { owned: 0, resident: 0, allocated: 0, owned_peak: 0, image: 0 };

pub(super) struct Timeline {
    section: Section,
    /// Of which component samples are kept.
    components: usize,
    /// Components seen so far: the highest plus 1.
    columns: usize,
    head: BinHead,
    total_sum: u128,
    cells: [Column; COMPONENTS_LIMIT],
    /// At the last full sample, and at the one being folded in.
    known: [[Known; COMPONENTS_LIMIT]; 2],
    /// Which of the two places for the open bin is next.
    place: u32,
}

impl Timeline {
    pub(super) fn new(section: Section, components: u32) -> Self {
        Self {
            section,
            components: (components as usize).min(COMPONENTS_LIMIT),
            columns: 0,
            head: BinHead::default(),
            total_sum: 0,
            cells: [NOTHING; COMPONENTS_LIMIT],
            known: [[UNKNOWN; COMPONENTS_LIMIT]; 2],
            place: 0,
        }
    }

    /// Folds a sample in. A full one counts for min and mean, others for max only.
    pub(super) fn add(
        &mut self,
        region: &mut Region<'_>,
        sequence: &mut Sequence,
        head: &SampleHead,
        rows: &[ComponentSample],
    ) {
        self.advance(region, sequence, head.time);
        if self.head.samples == 0 && self.head.others == 0 {
            self.head.first_time = head.time;
        }
        self.head.last_time = self.head.last_time.max(head.time);
        self.head.kernel_max = self.head.kernel_max.max(head.kernel_resident);
        let full = head.flags & sample::FULL != 0;
        for row in rows {
            let index = usize::from(row.component);
            if index >= self.components {
                continue;
            }
            self.columns = self.columns.max(index + 1);
            let cell = &mut self.cells[index];
            cell.now = kib(row.resident);
            cell.max = cell.max.max(cell.now);
            cell.owned_max = cell.owned_max.max(kib(row.owned));
            self.known[1][index] = Known {
                owned: row.owned,
                resident: row.resident,
                allocated: row.allocated,
                owned_peak: row.owned_peak,
                image: row.image,
            };
        }
        if full {
            self.add_full(head);
        } else {
            self.head.others = self.head.others.saturating_add(1);
            for cell in &mut self.cells[..self.columns] {
                cell.now = 0;
            }
            self.known[1][..self.columns].fill(UNKNOWN);
        }
        let slot = self.section.slot(self.section.capacity + self.place);
        self.place ^= 1;
        self.write(region, sequence, slot);
    }

    fn add_full(&mut self, head: &SampleHead) {
        let first = self.head.samples == 0;
        for cell in &mut self.cells[..self.columns] {
            // One that appears only now was zero in the samples before.
            cell.min = if first { cell.now } else { cell.min.min(cell.now) };
            cell.sum += u64::from(cell.now);
            cell.now = 0;
        }
        let [before, after] = &mut self.known;
        for index in 0..self.columns {
            let Bounds { low, high } = between(&before[index], &after[index]);
            let cell = &mut self.cells[index];
            cell.floor = cell.floor.min(u32::try_from(low / 1024).unwrap_or(u32::MAX));
            cell.ceiling = cell.ceiling.max(kib(high));
            // One that is not named has nothing, but what it ever allocated stays.
            before[index] = after[index];
            after[index] = Known { allocated: after[index].allocated, ..UNKNOWN };
        }
        for cell in &mut self.cells[self.columns..self.components] {
            cell.min = 0;
        }
        self.head.total_min =
            if first { head.walked } else { self.head.total_min.min(head.walked) };
        self.head.total_max = self.head.total_max.max(head.walked);
        self.total_sum += u128::from(head.walked);
        self.head.samples = self.head.samples.saturating_add(1);
        let mean = self.total_sum / u128::from(self.head.samples);
        self.head.total_mean = u64::try_from(mean).unwrap_or(u64::MAX);
    }

    /// Makes the bin of that time the open one; time that goes backwards stays where it is.
    fn advance(&mut self, region: &mut Region<'_>, sequence: &mut Sequence, time: u64) {
        let number = |level: u32| time.checked_shr(BIN_SHIFT + level).unwrap_or(0);
        if number(self.head.level) <= u64::from(self.head.number) {
            return;
        }
        let bins = u64::from(self.section.capacity);
        if self.head.samples > 0 || self.head.others > 0 {
            let slot = self.section.slot(self.head.number % self.section.capacity);
            self.write(region, sequence, slot);
        }
        let mut level = self.head.level;
        while number(level) >= bins {
            level += 1;
            self.fold(region, sequence, level);
        }
        let number = u32::try_from(number(level)).unwrap_or(0);
        self.head = BinHead { level, number, ..BinHead::default() };
        self.total_sum = 0;
        self.cells = [NOTHING; COMPONENTS_LIMIT];
    }

    fn write(&self, region: &mut Region<'_>, sequence: &mut Sequence, slot: usize) {
        let length = BinHead::SIZE + self.columns * Cell::SIZE;
        let index = bin_index(self.head.level, self.head.number);
        let mut filling = Filling::begin(region, slot, index, length, sequence.next());
        filling.put(&self.head.to_bytes());
        for column in &self.cells[..self.columns] {
            let cell = if self.head.samples == 0 {
                Cell { resident_max: column.max, owned_max: column.owned_max, ..Cell::default() }
            } else {
                let mean = column.sum.div_ceil(u64::from(self.head.samples));
                Cell {
                    resident_min: column.min,
                    resident_max: column.max,
                    resident_mean: u32::try_from(mean).unwrap_or(u32::MAX),
                    owned_max: column.owned_max,
                    floor: column.floor,
                    ceiling: column.ceiling,
                }
            };
            filling.put(&cell.to_bytes());
        }
        filling.finish();
    }

    /// Makes all closed bins those of `level`, which is one more than they have.
    fn fold(&mut self, region: &mut Region<'_>, sequence: &mut Sequence, level: u32) {
        let bins = self.section.capacity;
        let through = self.section.slot(bins + 2);
        for number in 0..bins / 2 {
            let target = self.section.slot(number);
            if number == 0 {
                self.merge(region, sequence, level, number, through);
                let length = self.section.slot_size;
                region.store(target, 0);
                move_slot(region, through, target, length);
                region.store(through, 0);
            } else {
                self.merge(region, sequence, level, number, target);
            }
        }
        for slot in (bins / 2..bins + 2).map(|slot| self.section.slot(slot)) {
            region.store(slot, 0);
        }
    }

    /// Writes bin `number` of `level` from its two halves.
    fn merge(
        &self,
        region: &mut Region<'_>,
        sequence: &mut Sequence,
        level: u32,
        number: u32,
        target: usize,
    ) {
        let half = |region: &Region<'_>, half: u32| {
            let place = self.section.slot(half);
            let head = SlotHead::from_bytes(region.bytes(place, SlotHead::SIZE))?;
            let wanted = head.sequence != 0 && head.index == bin_index(level - 1, half);
            let payload = region.bytes(place + SlotHead::SIZE, head.length as usize);
            let bin = BinHead::from_bytes(payload)?;
            wanted.then_some((bin, place + SlotHead::SIZE + BinHead::SIZE, payload.len()))
        };
        let (left, right) = (half(region, 2 * number), half(region, 2 * number + 1));
        let payload = [left, right].into_iter().flatten().map(|(_, _, length)| length).max();
        let Some(length) = payload else {
            region.store(target, 0);
            return;
        };
        let (left_head, left_cells, left_length) = left.unwrap_or_default();
        let (right_head, right_cells, right_length) = right.unwrap_or_default();
        let head = merge_heads(&left_head, &right_head, level, number);
        let cell = |region: &Region<'_>, cells: usize, length: usize, column: usize| {
            let at = column * Cell::SIZE;
            if BinHead::SIZE + at + Cell::SIZE > length {
                return Cell::default();
            }
            Cell::from_bytes(region.bytes(cells + at, Cell::SIZE)).unwrap_or_default()
        };
        // The halves lie behind `target`, which is written from front to back.
        let mut merged = [Cell::default(); COMPONENTS_LIMIT];
        let columns = ((length - BinHead::SIZE) / Cell::SIZE).min(COMPONENTS_LIMIT);
        for (column, into) in merged[..columns].iter_mut().enumerate() {
            let left = cell(region, left_cells, left_length, column);
            let right = cell(region, right_cells, right_length, column);
            *into = merge_cells(&left, left_head.samples, &right, right_head.samples);
        }
        let index = bin_index(level, number);
        let mut filling = Filling::begin(region, target, index, length, sequence.next());
        filling.put(&head.to_bytes());
        for cell in &merged[..columns] {
            filling.put(&cell.to_bytes());
        }
        filling.finish();
    }
}

/// Slot index of a bin.
fn bin_index(level: u32, number: u32) -> u32 {
    level << 24 | number
}

/// Copies a slot so that it counts only when it is whole.
fn move_slot(region: &mut Region<'_>, from: usize, to: usize, length: usize) {
    let mut chunk = [0; 256];
    let mut at = 8;
    while at < length {
        let part = chunk.len().min(length - at);
        let source = region.bytes(from + at, part);
        chunk[..source.len()].copy_from_slice(source);
        region.copy(to + at, &chunk[..part]);
        at += part;
    }
    let mut word = [0; 8];
    let sequence = region.bytes(from, 8);
    if sequence.len() == 8 {
        word.copy_from_slice(sequence);
        region.store(to, u64::from_le_bytes(word));
    }
}

fn merge_heads(left: &BinHead, right: &BinHead, level: u32, number: u32) -> BinHead {
    let some = |head: &BinHead| head.samples > 0 || head.others > 0;
    let samples = u64::from(left.samples) + u64::from(right.samples);
    let weighted = u128::from(left.total_mean) * u128::from(left.samples)
        + u128::from(right.total_mean) * u128::from(right.samples);
    BinHead {
        level,
        number,
        samples: u32::try_from(samples).unwrap_or(u32::MAX),
        others: left.others.saturating_add(right.others),
        first_time: if some(left) { left.first_time } else { right.first_time },
        last_time: left.last_time.max(right.last_time),
        total_min: match (left.samples, right.samples) {
            (0, _) => right.total_min,
            (_, 0) => left.total_min,
            _ => left.total_min.min(right.total_min),
        },
        total_max: left.total_max.max(right.total_max),
        total_mean: u64::try_from(weighted / u128::from(samples.max(1))).unwrap_or(u64::MAX),
        kernel_max: left.kernel_max.max(right.kernel_max),
        reserved: 0,
    }
}

fn merge_cells(left: &Cell, left_samples: u32, right: &Cell, right_samples: u32) -> Cell {
    let samples = u64::from(left_samples) + u64::from(right_samples);
    let weighted = u128::from(left.resident_mean) * u128::from(left_samples)
        + u128::from(right.resident_mean) * u128::from(right_samples);
    let mean = weighted.div_ceil(u128::from(samples.max(1)));
    Cell {
        resident_min: match (left_samples, right_samples) {
            (0, _) => right.resident_min,
            (_, 0) => left.resident_min,
            _ => left.resident_min.min(right.resident_min),
        },
        resident_max: left.resident_max.max(right.resident_max),
        resident_mean: u32::try_from(mean).unwrap_or(u32::MAX),
        owned_max: left.owned_max.max(right.owned_max),
        floor: match (left_samples, right_samples) {
            (0, _) => right.floor,
            (_, 0) => left.floor,
            _ => left.floor.min(right.floor),
        },
        ceiling: left.ceiling.max(right.ceiling),
    }
}

/// In KiB, rounded up.
fn kib(bytes: u64) -> u32 {
    u32::try_from(bytes.div_ceil(1024)).unwrap_or(u32::MAX)
}
