//! Corrections for memory that a walk finds under a component other than its owner.

use super::attribute::Share;
use super::state::Sampler;
use crate::base::component::{Component, LIMIT};
use crate::base::dictionary;
use crate::ledger::heap::{self, Ledger};
use crate::ledger::ranges;

/// Bytes of one component at the begin of a walk, and until its end.
#[derive(Copy, Clone, Debug, Default)]
struct During {
    owned: u64,
    /// Bytes of blocks in `free` then, which are no longer owned.
    leaving: u64,
    /// Bytes allocated and mapped since.
    came: u64,
    /// Bytes owned at the end.
    after: u64,
    /// Highest bytes ever owned.
    peak: u64,
}

impl During {
    /// Returns the bytes found beyond the most that the component can have had at one moment: these
    /// are of blocks that were freed behind the walk and whose successors lay ahead of it. `beside`
    /// is resident without being owned.
    fn surplus(&self, found: u64, beside: u64) -> u64 {
        let most = self.owned + self.came + self.leaving;
        let most = most.min(self.peak.max(self.after));
        let freed = (self.owned + self.came).saturating_sub(self.after);
        found.saturating_sub(most.saturating_add(beside)).min(freed)
    }
}

impl Sampler {
    /// Gives pages that were found unattributed or as slack to blocks that were in `realloc`, new,
    /// or in `free` while the tables were read. Such blocks are in no table; the pages of one in
    /// `free` are slack as long as they exist, or unattributed where another block is in the same
    /// mapping. Memory that had no owner, or was the allocator's, in the last sample stays so.
    pub fn reattribute_in_flight(&mut self) {
        let [nobody, slack] =
            [Component::UNATTRIBUTED, Component::SLACK].map(|one| usize::from(one.0));
        let all = &mut self.walked.totals.components;
        let mut unattributed =
            (nobody, all[nobody].resident.saturating_sub(self.last.unattributed));
        let mut slacks = (slack, all[slack].resident.saturating_sub(self.last.slack));
        for (owner, bytes) in self.last.in_flight.leaving().iter().enumerate() {
            give(all, [&mut slacks, &mut unattributed], owner, *bytes);
        }
        heap::IN_FLIGHT.missed(&self.last.in_flight, &mut |owner, bytes| {
            give(all, [&mut unattributed, &mut slacks], owner, bytes);
        });
        (self.last.unattributed, self.last.slack) = (all[nobody].resident, all[slack].resident);
    }

    /// Records the owned bytes of all components before a walk.
    pub fn remember_ledger(&mut self) {
        let (ledger, mapped) = (&mut self.record.ledger, &mut self.record.ranges);
        heap::snapshot(ledger);
        ranges::owned_all(mapped);
        let now = ledger.iter().zip(mapped.iter());
        for (began, (Ledger { owned, allocated_total, .. }, (_, mapped))) in
            self.walked.began.iter_mut().zip(now)
        {
            *began = (*owned, *allocated_total + *mapped);
        }
    }

    /// Gives the pages of blocks that were freed behind the walk to the allocator. Called after the
    /// ledger was read.
    pub fn take_what_was_freed(&mut self) {
        let slack = usize::from(Component::SLACK.0);
        for index in 0..dictionary::count().min(LIMIT) {
            let (now, (_, mapped)) = (&self.record.ledger[index], self.record.ranges[index]);
            let (owned, total) = self.walked.began[index];
            let during = During {
                owned,
                leaving: self.last.in_flight.leaving()[index],
                came: (now.allocated_total + mapped).saturating_sub(total),
                after: now.owned,
                peak: now.peak.max(self.record.rows[index].owned_peak),
            };
            let image = self.walked.owners.image(Component(index as u16));
            let shares = &mut self.walked.totals.components;
            if let Ok([from, to]) = shares.get_disjoint_mut([index, slack]) {
                from.give(to, during.surplus(from.resident, image + from.error));
            }
        }
    }

    /// Moves the bytes of tags from the slack to the tool. They are in the pages of blocks, where
    /// they count as slack until here.
    pub fn take_tags(&mut self) {
        self.record.tags = heap::tags(&self.record.ledger);
        let [slack, tool] = [Component::SLACK, Component::TOOL].map(|one| usize::from(one.0));
        if let Ok([slack, tool]) = self.walked.totals.components.get_disjoint_mut([slack, tool]) {
            slack.give(tool, self.record.tags.min(slack.resident));
        }
        self.record.ledger[tool].owned += self.record.tags;
    }
}

/// Moves bytes to an owner from components, up to the amount by which each has grown since the last
/// sample.
fn give(all: &mut [Share], from: [&mut (usize, u64); 2], owner: usize, bytes: u64) {
    let mut left = bytes;
    for (index, more) in from {
        let given = left.min(*more);
        if let Ok([from, to]) = all.get_disjoint_mut([*index, owner]) {
            from.give(to, given);
            to.moved += given;
            (left, *more) = (left - given, *more - given);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_owned_at_one_moment_are_no_surplus() {
        let during = During { owned: 100, after: 100, peak: 500, ..During::default() };
        assert_eq!(during.surplus(100, 0), 0);
        assert_eq!(during.surplus(130, 30), 0);
        let grown = During { came: 50, after: 150, ..during };
        assert_eq!(grown.surplus(150, 0), 0);
    }

    #[test]
    fn blocks_freed_behind_the_walk_are_surplus() {
        // A block was found and then freed, and its successor was found as well.
        let during = During { owned: 100, came: 40, after: 100, peak: 110, ..During::default() };
        assert_eq!(during.surplus(140, 0), 30);
        assert_eq!(during.surplus(145, 5), 30);
    }

    #[test]
    fn bytes_that_no_freed_block_explains_are_no_surplus() {
        let during = During { owned: 100, after: 100, peak: 100, ..During::default() };
        assert_eq!(during.surplus(1000, 0), 0);
        let freed = During { after: 90, ..during };
        assert_eq!(freed.surplus(1000, 0), 10);
    }

    #[test]
    fn block_in_free_counts_beside_owned_bytes() {
        let during = During { owned: 5, leaving: 40, after: 5, peak: 45, ..During::default() };
        assert_eq!(during.surplus(45, 0), 0);
    }

    #[test]
    fn block_in_free_takes_from_nobody_behind_slack() {
        let held = |resident| Share { resident, ..Share::default() };
        let mut all = [held(500), held(100), held(30), held(0)];
        let (mut unattributed, mut slacks) = ((0, 450), (1, 60));
        give(&mut all, [&mut slacks, &mut unattributed], 2, 400);
        assert_eq!(all.map(|share| share.resident), [160, 40, 430, 0]);
        assert_eq!((all[2].moved, unattributed.1, slacks.1), (400, 110, 0));
        // Memory that was there before stays.
        give(&mut all, [&mut slacks, &mut unattributed], 3, 400);
        assert_eq!(all.map(|share| share.resident), [50, 40, 430, 110]);
    }
}
