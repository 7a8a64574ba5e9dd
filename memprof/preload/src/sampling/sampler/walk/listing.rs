//! Conversion of the process's mappings, as the kernel lists them, into entries that are scanned in
//! batches.

use super::super::list::Visitor;
use super::super::maps;
use super::{BATCH, Sampler, maker};
use crate::base::component::Component;
use crate::ledger::ranges;

/// Visitor that turns listed mappings into entries of a sampler.
pub struct Listing<'s> {
    pub sampler: &'s mut Sampler,
    pub walk: ranges::Walk,
    pub system: Component,
    /// Entries that are not scanned yet.
    pub count: usize,
    /// End of the last mapping.
    pub before: usize,
    pub mappings: u64,
}

impl Visitor for Listing<'_> {
    fn knows(&self, device: u64, inode: u64) -> bool {
        self.sampler.walked.segments.knows((device, inode))
    }

    fn mapping(&mut self, line: &mut maps::Line<'_>) {
        if line.start as u64 >= 1 << 63 || line.end <= self.before {
            return;
        }
        if line.start < self.before {
            // The mapping has merged with the previous one since that was read.
            line.offset += (self.before - line.start) as u64;
            line.start = self.before;
        }
        if line.start > self.before {
            ranges::gone(self.before, line.start, self.walk);
        }
        self.before = line.end;
        self.mappings += 1;
        let entry = self.sampler.entry(line);
        let maker = maker(&entry.mapping);
        if self.walk.corrects || maker.is_some() {
            ranges::seen(line.start, line.end, maker, self.walk);
        }
        if let Some(before) = self.count.checked_sub(1) {
            let has_copies =
                self.sampler.walked.copies.has(self.sampler.walked.entries[before].mapping.start);
            self.sampler.walked.entries[before].look_at_next(&entry, has_copies);
        }
        self.sampler.walked.entries[self.count] = entry;
        self.count += 1;
        if self.count == BATCH {
            self.sampler.scan(self.count, self.system);
            self.count = 0;
        }
    }
}
