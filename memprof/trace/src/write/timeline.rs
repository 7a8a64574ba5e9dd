//! Timeline of the whole run in a fixed number of bins. When the last bin is full, pairs of bins
//! are merged and all bins become twice as wide.
//!
//! A bin contains the time that it covers, so a reader does not depend on the order of slots: of
//! two bins that cover the same time, the wider or newer one counts. This makes folding safe at
//! every store: bin `k` is written over a bin that is already part of bin `k / 2`, from two later
//! bins. Only bin 0 would overwrite one of its own halves, so it first goes through a separate
//! slot. The bin being filled is written to two slots in turn.
//!
//! Between full samples, the findings of the earlier one are assumed to hold, since full samples
//! are taken when something has changed. Means are therefore over time, a bin begins with the state
//! that held, and from the first full sample on every time has its bin.

use super::memory::Region;
use super::table::{Filling, Sequence};
use super::{ComponentSample, SampleHead};
use crate::bounds::{Bounds, Known, between};
use crate::layout::{BIN_SHIFT, BinHead, COMPONENTS_LIMIT, Cell, Section, SlotHead, sample};

/// Memory of a component in the samples of the bin being filled.
#[derive(Copy, Clone)]
struct Column {
    min: u32,
    max: u32,
    owned_max: u32,
    /// Value in the sample being folded in.
    now: u32,
    owned_now: u32,
    /// Value at the last full sample; owned bytes are those last reported.
    held: u32,
    owned_held: u32,
    /// Sum of the state that held, weighted by time.
    sum: u64,
    floor: u32,
    ceiling: u32,
    /// Part of `now` in pages that other processes may map, too; and that of the state that holds.
    shared_now: u64,
    private_now: u64,
    shared_held: u64,
    private_held: u64,
    shared_max: u64,
    private_max: u64,
}

const NOTHING: Column = Column {
    min: 0,
    max: 0,
    owned_max: 0,
    now: 0,
    owned_now: 0,
    held: 0,
    owned_held: 0,
    sum: 0,
    floor: u32::MAX,
    ceiling: 0,
    shared_now: 0,
    private_now: 0,
    shared_held: 0,
    private_held: 0,
    shared_max: 0,
    private_max: 0,
};
/// Unit of time within a bin, as a part of its width: two to the power of this, so that sums fit 64
/// bits.
const PARTS: u32 = 20;
const UNKNOWN: Known = Known { owned: 0, resident: 0, allocated: 0, owned_peak: 0, image: 0 };

pub(super) struct Timeline {
    section: Section,
    /// Number of components whose samples are kept.
    components: usize,
    /// Components seen so far: the highest number plus 1.
    columns: usize,
    head: BinHead,
    /// Time of the first full sample.
    begun: Option<u64>,
    /// Memory of all components at the last full sample, and the kernel's total at the last sample
    /// of any kind.
    total_held: u64,
    kernel_held: u64,
    /// Bytes beyond the process's share of its private pages: lower and upper bound. Until the next
    /// full sample they include those that it has found.
    beyond: [u64; 2],
    /// The same as last found.
    beyond_now: [u64; 2],
    total_sum: u128,
    /// Position up to which the sums of the open bin reach, and over how much of it, in its parts.
    reached: u64,
    weight: u64,
    cells: [Column; COMPONENTS_LIMIT],
    /// Values at the last full sample, and at the one being folded in.
    known: [[Known; COMPONENTS_LIMIT]; 2],
    /// Which of the two slots for the open bin is next.
    place: u32,
}

impl Timeline {
    pub(super) fn new(section: Section, components: u32) -> Self {
        Self {
            section,
            components: (components as usize).min(COMPONENTS_LIMIT),
            columns: 0,
            head: BinHead::default(),
            begun: None,
            total_held: 0,
            kernel_held: 0,
            beyond: [0; 2],
            beyond_now: [0; 2],
            total_sum: 0,
            reached: 0,
            weight: 0,
            cells: [NOTHING; COMPONENTS_LIMIT],
            known: [[UNKNOWN; COMPONENTS_LIMIT]; 2],
            place: 0,
        }
    }

    /// Folds a sample in. The findings of a full sample hold until the next; others count for the
    /// maximum only.
    pub(super) fn add(
        &mut self,
        region: &mut Region<'_>,
        sequence: &mut Sequence,
        head: &SampleHead,
        rows: &[ComponentSample],
    ) {
        self.advance(region, sequence, head.time);
        self.hold(head.time);
        if self.head.samples == 0 && self.head.others == 0 {
            self.head.first_time = head.time;
        }
        self.head.last_time = self.head.last_time.max(head.time);
        self.head.kernel_max = self.head.kernel_max.max(head.kernel_resident);
        self.kernel_held = head.kernel_resident;
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
            cell.owned_now = kib(row.owned);
            cell.shared_now = row.shared;
            cell.private_now = row.resident.saturating_sub(row.shared);
            cell.owned_max = cell.owned_max.max(cell.owned_now);
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
                (cell.now, cell.owned_now) = (0, 0);
                (cell.shared_now, cell.private_now) = (0, 0);
            }
            self.known[1][..self.columns].fill(UNKNOWN);
        }
        self.write_open(region, sequence);
    }

    /// Records by how much the process exceeds its share of its private pages. It may have done so
    /// at any time since the last full sample.
    pub(super) fn beyond(&mut self, least: u64, most: u64) {
        self.beyond_now = [least, most];
        if self.begun.is_none() {
            self.beyond = self.beyond_now;
        } else {
            self.beyond = [self.beyond[0].min(least), self.beyond[1].max(most)];
            let [least, most] = self.beyond_kib();
            self.head.beyond_min = self.head.beyond_min.min(least);
            self.head.common_max = self.head.common_max.max(most);
        }
    }

    fn beyond_kib(&self) -> [u32; 2] {
        let [least, most] = self.beyond;
        [u32::try_from(least / 1024).unwrap_or(u32::MAX), kib(most)]
    }

    /// Writes the bin being filled to the older of its two slots.
    fn write_open(&mut self, region: &mut Region<'_>, sequence: &mut Sequence) {
        let slot = self.section.slot(self.section.capacity + self.place);
        self.place ^= 1;
        self.write(region, sequence, slot);
    }

    /// Records what components own at a time, by number; it holds until the next report.
    pub(super) fn own(
        &mut self,
        region: &mut Region<'_>,
        sequence: &mut Sequence,
        time: u64,
        owned: &[u64],
    ) {
        self.advance(region, sequence, time);
        self.hold(time);
        for (index, owned) in owned.iter().enumerate().take(self.components) {
            let cell = &mut self.cells[index];
            cell.owned_held = kib(*owned);
            cell.owned_max = cell.owned_max.max(cell.owned_held);
            if cell.owned_held > 0 {
                self.columns = self.columns.max(index + 1);
            }
        }
        self.write_open(region, sequence);
    }

    fn add_full(&mut self, head: &SampleHead) {
        let first = self.begun.is_none();
        if first {
            (self.begun, self.reached) = (Some(head.time), head.time);
        }
        for cell in &mut self.cells[..self.columns] {
            // A component that appears only now was zero before.
            cell.min = if first { cell.now } else { cell.min.min(cell.now) };
            cell.shared_max = cell.shared_max.max(cell.shared_now);
            cell.private_max = cell.private_max.max(cell.private_now);
            (cell.held, cell.owned_held) = (cell.now, cell.owned_now);
            (cell.shared_held, cell.private_held) = (cell.shared_now, cell.private_now);
            (cell.now, cell.owned_now) = (0, 0);
            (cell.shared_now, cell.private_now) = (0, 0);
        }
        self.total_held = head.walked;
        let [before, after] = &mut self.known;
        for index in 0..self.columns {
            let Bounds { low, high } = between(&before[index], &after[index]);
            let cell = &mut self.cells[index];
            cell.floor = cell.floor.min(u32::try_from(low / 1024).unwrap_or(u32::MAX));
            cell.ceiling = cell.ceiling.max(kib(high));
            // A component that is not named has no memory, but its total ever allocated stays.
            before[index] = after[index];
            after[index] = Known { allocated: after[index].allocated, ..UNKNOWN };
        }
        let [least, most] = self.beyond_kib();
        self.head.beyond_min = if first { least } else { self.head.beyond_min.min(least) };
        self.head.common_max = self.head.common_max.max(most);
        self.beyond = self.beyond_now;
        self.head.total_min =
            if first { head.walked } else { self.head.total_min.min(head.walked) };
        self.head.total_max = self.head.total_max.max(head.walked);
        self.head.samples = self.head.samples.saturating_add(1);
    }

    /// Makes the findings of the last full sample hold until `time`, which is in the open bin or at
    /// its end.
    fn hold(&mut self, time: u64) {
        if self.begun.is_none() || time <= self.reached {
            return;
        }
        let begin = bin_start(self.head.level, self.head.number);
        let part = |time: u64| (time - begin) >> (BIN_SHIFT + self.head.level - PARTS);
        let length = part(time) - part(self.reached);
        self.reached = time;
        self.weight += length;
        self.total_sum += u128::from(self.total_held) * u128::from(length);
        for cell in &mut self.cells[..self.columns] {
            cell.sum += u64::from(cell.held) * length;
        }
    }

    /// Begins a bin with the state that holds.
    fn open(&mut self, level: u32, number: u32) {
        self.head = BinHead { level, number, ..BinHead::default() };
        (self.total_sum, self.weight) = (0, 0);
        let Some(begun) = self.begun else {
            for cell in &mut self.cells {
                let owned_held = cell.owned_held;
                *cell = Column { owned_max: owned_held, owned_held, ..NOTHING };
            }
            return;
        };
        self.reached = bin_start(level, number).max(begun);
        let total = self.total_held;
        (self.head.total_min, self.head.total_max) = (total, total);
        self.head.kernel_max = self.kernel_held;
        [self.head.beyond_min, self.head.common_max] = self.beyond_kib();
        for cell in &mut self.cells {
            let Column { held, owned_held, shared_held, private_held, .. } = *cell;
            *cell = Column {
                min: held,
                max: held,
                owned_max: owned_held,
                held,
                owned_held,
                shared_held,
                private_held,
                shared_max: shared_held,
                private_max: private_held,
                ..NOTHING
            };
        }
    }

    /// Writes the open bin to its final slot: nothing is added to it afterwards.
    fn close(&mut self, region: &mut Region<'_>, sequence: &mut Sequence) {
        let is_empty = self.head.samples == 0 && self.head.others == 0 && self.columns == 0;
        if self.begun.is_none() && is_empty {
            return;
        }
        let begin = bin_start(self.head.level, self.head.number);
        self.hold(begin.saturating_add(1 << (BIN_SHIFT + self.head.level)));
        let slot = self.section.slot(self.head.number % self.section.capacity);
        self.write(region, sequence, slot);
    }

    /// Makes the bin of a time the open one; for a time that goes backwards, the bin stays.
    fn advance(&mut self, region: &mut Region<'_>, sequence: &mut Sequence, time: u64) {
        let number = |level: u32| time.checked_shr(BIN_SHIFT + level).unwrap_or(0);
        if number(self.head.level) <= u64::from(self.head.number) {
            return;
        }
        self.close(region, sequence);
        let bins = self.section.capacity;
        let mut level = self.head.level;
        if self.begun.is_none() {
            while number(level) >= u64::from(bins) {
                level += 1;
                self.fold(region, sequence, level);
            }
            self.open(level, u32::try_from(number(level)).unwrap_or(0));
            return;
        }
        // Every bin in between gets the held state; there are never more of them than half of all
        // before they fold.
        let mut next = self.head.number + 1;
        loop {
            if next >= bins {
                level += 1;
                self.fold(region, sequence, level);
                next = bins / 2;
            }
            self.open(level, next);
            if number(level) <= u64::from(next) {
                return;
            }
            self.close(region, sequence);
            next += 1;
        }
    }

    /// Returns the time of a closed bin for which its state is known: all of it after the first
    /// full sample.
    fn known_for(&self, head: &BinHead) -> u64 {
        let begin = bin_start(head.level, head.number);
        let end = begin.saturating_add(1 << (BIN_SHIFT + head.level));
        self.begun.map_or(0, |begun| end.saturating_sub(begin.max(begun)))
    }

    fn write(&self, region: &mut Region<'_>, sequence: &mut Sequence, slot: usize) {
        let length = BinHead::SIZE + self.columns * Cell::SIZE;
        let index = bin_index(self.head.level, self.head.number);
        let mut filling = Filling::begin(region, slot, index, length, sequence.next());
        // Over no time, the mean is the held value.
        let total_mean = match self.weight {
            0 => self.total_held,
            weight => u64::try_from(self.total_sum / u128::from(weight)).unwrap_or(u64::MAX),
        };
        filling.put(&BinHead { total_mean, ..self.head }.to_bytes());
        for column in &self.cells[..self.columns] {
            let mean = match self.weight {
                0 => u64::from(column.held),
                weight => column.sum.div_ceil(weight),
            };
            // Bounds are for times that end with a full sample.
            let (floor, ceiling) = match self.head.samples {
                0 => (0, 0),
                _ => (column.floor, column.ceiling),
            };
            let cell = Cell {
                resident_min: column.min,
                resident_max: column.max,
                resident_mean: u32::try_from(mean).unwrap_or(u32::MAX),
                owned_max: column.owned_max,
                floor,
                ceiling,
                private_max: kib(column.private_max),
                shared_max: kib(column.shared_max),
            };
            filling.put(&cell.to_bytes());
        }
        filling.finish();
    }

    /// Folds all closed bins to `level`, which is one above their present level.
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
        let weights = [left, right].map(|half| half.map_or(0, |(head, ..)| self.known_for(&head)));
        let (left_head, left_cells, left_length) = left.unwrap_or_default();
        let (right_head, right_cells, right_length) = right.unwrap_or_default();
        let head = BinHead { level, number, ..merge_heads(&left_head, &right_head, weights) };
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
            let samples = [left_head.samples, right_head.samples];
            *into = merge_cells(&left, &right, weights, samples);
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

/// Returns the begin of a bin.
fn bin_start(level: u32, number: u32) -> u64 {
    u64::from(number) << (BIN_SHIFT + level)
}

/// Returns the slot index of a bin.
fn bin_index(level: u32, number: u32) -> u32 {
    level << 24 | number
}

/// Copies a slot so that it becomes valid only when it is complete.
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

fn merge_heads(left: &BinHead, right: &BinHead, weights: [u64; 2]) -> BinHead {
    let some = |head: &BinHead| head.samples > 0 || head.others > 0;
    let mean = weighted(left.total_mean, right.total_mean, weights);
    BinHead {
        samples: left.samples.saturating_add(right.samples),
        others: left.others.saturating_add(right.others),
        first_time: if some(left) { left.first_time } else { right.first_time },
        last_time: left.last_time.max(right.last_time),
        total_min: least(left.total_min, right.total_min, weights),
        total_max: left.total_max.max(right.total_max),
        total_mean: u64::try_from(mean.0 / mean.1).unwrap_or(u64::MAX),
        kernel_max: left.kernel_max.max(right.kernel_max),
        beyond_min: least(left.beyond_min, right.beyond_min, weights),
        common_max: left.common_max.max(right.common_max),
        ..BinHead::default()
    }
}

fn merge_cells(left: &Cell, right: &Cell, weights: [u64; 2], samples: [u32; 2]) -> Cell {
    let mean = weighted(left.resident_mean.into(), right.resident_mean.into(), weights);
    Cell {
        resident_min: least(left.resident_min, right.resident_min, weights),
        resident_max: left.resident_max.max(right.resident_max),
        resident_mean: u32::try_from(mean.0.div_ceil(mean.1)).unwrap_or(u32::MAX),
        owned_max: left.owned_max.max(right.owned_max),
        floor: least(left.floor, right.floor, samples.map(u64::from)),
        ceiling: left.ceiling.max(right.ceiling),
        private_max: left.private_max.max(right.private_max),
        shared_max: left.shared_max.max(right.shared_max),
    }
}

/// Returns the weighted sum of two values, and the number to divide it by.
fn weighted(left: u64, right: u64, [of_left, of_right]: [u64; 2]) -> (u128, u128) {
    let sum = u128::from(left) * u128::from(of_left) + u128::from(right) * u128::from(of_right);
    (sum, (u128::from(of_left) + u128::from(of_right)).max(1))
}

/// Returns the smaller of the two values that have a weight.
fn least<T: Ord>(left: T, right: T, weights: [u64; 2]) -> T {
    match weights {
        [0, _] => right,
        [_, 0] => left,
        _ => left.min(right),
    }
}

/// Returns the bytes in KiB, rounded up.
fn kib(bytes: u64) -> u32 {
    u32::try_from(bytes.div_ceil(1024)).unwrap_or(u32::MAX)
}
