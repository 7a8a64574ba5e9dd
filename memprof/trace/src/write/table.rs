//! Rows that change: the new value is written to the spare slot, and the old slot becomes the
//! spare.

use crc32fast::Hasher;

use super::memory::Region;
use crate::layout::{SEQUENCE_MARK, Section, SlotHead};

/// Source of sequence numbers, each greater than all before it.
pub(super) struct Sequence(u64);

impl Sequence {
    pub(super) const fn new() -> Self {
        Self(0)
    }

    pub(super) fn next(&mut self) -> u64 {
        self.0 += 1;
        SEQUENCE_MARK | self.0
    }
}

/// Bytes included in the checksum at once: large pieces can use processor instructions.
const CHUNK: usize = 1024;

/// A slot being written. Until it is finished, it is invalid.
pub(super) struct Filling<'r, 'a> {
    region: &'r mut Region<'a>,
    slot: usize,
    /// Offset for `chunk`.
    next: usize,
    end: usize,
    head: SlotHead,
    hasher: Hasher,
    chunk: [u8; CHUNK],
    filled: usize,
}

impl<'r, 'a> Filling<'r, 'a> {
    /// Begins a row, which makes the slot invalid; `length` bytes must follow.
    pub(super) fn begin(
        region: &'r mut Region<'a>,
        slot: usize,
        index: u32,
        length: usize,
        sequence: u64,
    ) -> Self {
        region.store(slot, 0);
        let short = u32::try_from(length).unwrap_or(0);
        let head = SlotHead { sequence, index, length: short, ..SlotHead::default() };
        let mut hasher = Hasher::new();
        let bytes = head.to_bytes();
        hasher.update(&bytes[..16]);
        hasher.update(&bytes[20..]);
        let next = slot + SlotHead::SIZE;
        let end = next + short as usize;
        Self { region, slot, next, end, head, hasher, chunk: [0; CHUNK], filled: 0 }
    }

    /// Writes the next bytes of the payload.
    #[inline]
    pub(super) fn put(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            if self.filled == CHUNK {
                self.flush();
            }
            let (now, later) = bytes.split_at(bytes.len().min(CHUNK - self.filled));
            self.chunk[self.filled..][..now.len()].copy_from_slice(now);
            self.filled += now.len();
            bytes = later;
        }
    }

    fn flush(&mut self) {
        let chunk = &self.chunk[..self.filled.min(self.end - self.next)];
        self.hasher.update(chunk);
        self.region.copy(self.next, chunk);
        self.next += chunk.len();
        self.filled = 0;
    }

    /// Ends the row, which makes the slot valid.
    pub(super) fn finish(mut self) {
        self.flush();
        // Zeros, if less was written than announced.
        while self.next < self.end {
            self.chunk.fill(0);
            self.filled = CHUNK;
            self.flush();
        }
        self.head.checksum = self.hasher.finalize();
        self.region.copy(self.slot + 8, &self.head.to_bytes()[8..]);
        self.region.store(self.slot, self.head.sequence);
    }
}

/// Result of writing a row.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) enum Written {
    /// The first row with this index.
    New,
    /// A row in place of an older one.
    Again,
    /// The index is beyond the table.
    NoRoom,
}

/// Slot of each row: at most `N` rows, or as many as the file has room for.
pub(super) struct Table<const N: usize> {
    section: Section,
    /// Slot by index, plus 1; 0 for rows never written.
    slots: [u16; N],
    spare: u16,
    /// First slot that was never used.
    fresh: u16,
}

impl<const N: usize> Table<N> {
    pub(super) const fn new(section: Section) -> Self {
        Self { section, slots: [0; N], spare: 0, fresh: 1 }
    }

    /// Rows there can be.
    pub(super) fn capacity(&self) -> u32 {
        self.section.capacity.min(N as u32)
    }

    /// Writes a row of `length` bytes, which `fill` has to provide.
    pub(super) fn write(
        &mut self,
        region: &mut Region<'_>,
        sequence: &mut Sequence,
        index: u32,
        length: usize,
        fill: impl FnOnce(&mut Filling<'_, '_>),
    ) -> Written {
        if index >= self.capacity() || length > self.room() {
            return Written::NoRoom;
        }
        let target = self.spare;
        let place = self.section.slot(u32::from(target));
        let mut filling = Filling::begin(region, place, index, length, sequence.next());
        fill(&mut filling);
        filling.finish();
        let own = &mut self.slots[index as usize];
        let written = if *own == 0 {
            self.spare = self.fresh;
            self.fresh += 1;
            Written::New
        } else {
            self.spare = *own - 1;
            Written::Again
        };
        *own = target + 1;
        written
    }

    /// Returns the payload of a row, with the bytes behind it in its slot; empty if it was never
    /// written.
    pub(super) fn payload<'r>(&self, region: &'r Region<'_>, index: u32) -> &'r [u8] {
        match self.slots.get(index as usize) {
            None | Some(0) => &[],
            Some(slot) => {
                let place = self.section.slot(u32::from(*slot) - 1) + SlotHead::SIZE;
                region.bytes(place, self.room())
            }
        }
    }

    /// Returns the number of payload bytes that fit in a row.
    pub(super) fn room(&self) -> usize {
        self.section.slot_size - SlotHead::SIZE
    }
}
