//! History at full rate: records in blocks, of which the newest overwrites the oldest.

use crc32fast::Hasher;

use super::memory::Region;
use crate::layout::{BLOCK_RECORDS, BlockHead, COMMITTED, Record, SEQUENCE_MARK, Section};

/// Offset of `used` and `checksum` in a block: one aligned word.
const COMMIT: usize = 16;

pub(super) struct Ring {
    section: Section,
    /// Number of blocks begun so far.
    begun: u64,
    /// Number of records in the current block; full before the first.
    used: usize,
    /// Number of records included in the checksum.
    summed: usize,
    checksum: u32,
}

impl Ring {
    pub(super) const fn new(section: Section) -> Self {
        Self { section, begun: 0, used: BLOCK_RECORDS, summed: BLOCK_RECORDS, checksum: 0 }
    }

    pub(super) fn begun(&self) -> u64 {
        self.begun
    }

    /// Adds a record. It becomes valid with [`Self::commit`], or when its block is full.
    pub(super) fn push(&mut self, region: &mut Region<'_>, record: &Record) {
        if self.used >= BLOCK_RECORDS {
            self.begin_block(region, record.time);
        }
        region.copy(self.record(self.used), &record.to_bytes());
        self.used += 1;
        if self.used == BLOCK_RECORDS {
            self.commit(region);
        }
    }

    /// Makes all records so far valid.
    pub(super) fn commit(&mut self, region: &mut Region<'_>) {
        if self.begun == 0 {
            return;
        }
        let mut hasher = Hasher::new_with_initial(self.checksum);
        let (first, behind) = (self.record(self.summed), self.record(self.used));
        hasher.update(region.bytes(first, behind - first));
        (self.checksum, self.summed) = (hasher.finalize(), self.used);
        let used = COMMITTED | u32::try_from(self.used).unwrap_or(0);
        region.store(self.block() + COMMIT, u64::from(self.checksum) << 32 | u64::from(used));
    }

    /// Returns the offset of a record of the current block.
    fn record(&self, number: usize) -> usize {
        self.block() + BlockHead::SIZE + number * Record::SIZE
    }

    fn block(&self) -> usize {
        let number = (self.begun.saturating_sub(1)) % u64::from(self.section.slots.max(1));
        self.section.slot(u32::try_from(number).unwrap_or(0))
    }

    fn begin_block(&mut self, region: &mut Region<'_>, first_time: u64) {
        self.begun += 1;
        (self.used, self.summed) = (0, 0);
        let block = self.block();
        region.store(block + COMMIT, 0);
        let sequence = SEQUENCE_MARK | self.begun;
        let head = BlockHead { sequence, first_time, ..BlockHead::default() };
        let bytes = head.to_bytes();
        self.checksum = crc32fast::hash(&bytes[..COMMIT]);
        region.copy(block, &bytes[..COMMIT]);
    }
}
