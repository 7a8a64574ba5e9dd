//! What a walk finds under another name than its owner's.

use super::attribute::Share;
use super::walk::Sampler;
use crate::component::{self, Component, LIMIT};
use crate::heap::{self, Ledger};

/// What a component owned when a walk began, and until its end.
#[derive(Copy, Clone, Debug, Default)]
struct During {
    owned: u64,
    /// Of blocks that were on their way out then, and no longer owned.
    leaving: u64,
    /// Allocated since.
    came: u64,
    /// Owned at the end.
    after: u64,
    /// The most that was ever owned.
    peak: u64,
}

impl During {
    /// Bytes that were found of it beyond what it can have had at one moment: of blocks that were freed while the walk
    /// went on, behind it, whose successors were found before it. `beside` is what is there of it without being owned.
    fn surplus(&self, found: u64, beside: u64) -> u64 {
        let most = self.owned + self.came + self.leaving;
        let most = most.min(self.peak.max(self.after));
        let freed = (self.owned + self.came).saturating_sub(self.after);
        found.saturating_sub(most.saturating_add(beside)).min(freed)
    }
}

impl Sampler {
    /// Blocks that moved, or were made, since the look at the tables began are in none of them. What nobody and the
    /// allocator had in the last sample, they have still.
    pub fn give_what_moved(&mut self) {
        self.give_what_leaves();
        let [nobody, slack] =
            [Component::UNATTRIBUTED, Component::SLACK].map(|one| usize::from(one.0));
        let all = &mut self.totals.components;
        let before = [(nobody, self.nobodys), (slack, self.slacks)];
        let mut more =
            before.map(|(index, then)| (index, all[index].resident.saturating_sub(then)));
        heap::motion::since(&self.moved, &mut |owner, bytes| {
            let mut left = bytes;
            for (index, more) in &mut more {
                let given = left.min(*more);
                if let Ok([from, to]) = all.get_disjoint_mut([*index, usize::from(owner.0)]) {
                    from.give(to, given);
                    to.moved += given;
                    (left, *more) = (left - given, *more - given);
                }
            }
        });
        let now = |index: usize| -> &Share { &self.totals.components[index] };
        (self.nobodys, self.slacks) = (now(nobody).resident, now(slack).resident);
    }

    /// Blocks that are being freed are their owners' as long as their pages are there.
    fn give_what_leaves(&mut self) {
        let all = &mut self.totals.components;
        let slack = usize::from(Component::SLACK.0);
        let mut more = all[slack].resident.saturating_sub(self.slacks);
        for (index, bytes) in self.leaving.iter().enumerate().filter(|(_, bytes)| **bytes > 0) {
            let given = more.min(*bytes);
            if let Ok([from, to]) = all.get_disjoint_mut([slack, index]) {
                from.give(to, given);
                to.moved += given;
                more -= given;
            }
        }
    }

    /// What all own, before a walk.
    pub fn remember_ledger(&mut self) {
        heap::snapshot(&mut self.ledger);
        for (then, Ledger { owned, allocated_total, .. }) in self.then.iter_mut().zip(&self.ledger)
        {
            *then = (*owned, *allocated_total);
        }
    }

    /// A walk takes its time: pages of blocks that were freed behind it are the allocator's. After the ledger was read.
    pub fn take_what_was_freed(&mut self) {
        let slack = usize::from(Component::SLACK.0);
        for index in 0..component::count().min(LIMIT) {
            let (now, (owned, allocated)) = (&self.ledger[index], self.then[index]);
            let during = During {
                owned,
                leaving: self.leaving[index],
                came: now.allocated_total.saturating_sub(allocated),
                after: now.owned,
                peak: now.peak.max(self.rows[index].owned_peak),
            };
            let image = self.owners.image(Component(index as u16));
            let shares = &mut self.totals.components;
            if let Ok([from, to]) = shares.get_disjoint_mut([index, slack]) {
                from.give(to, during.surplus(from.resident, image + from.error));
            }
        }
    }

    /// What the tool has added to the blocks is its own. It is in pages that blocks are in, where it counts as slack
    /// until here.
    pub fn take_tags(&mut self) {
        self.tags = heap::tags(&self.ledger);
        let [slack, tool] = [Component::SLACK, Component::TOOL].map(|one| usize::from(one.0));
        if let Ok([slack, tool]) = self.totals.components.get_disjoint_mut([slack, tool]) {
            slack.give(tool, self.tags.min(slack.resident));
        }
        self.ledger[tool].owned += self.tags;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_taken_of_what_was_owned_at_one_moment() {
        let during = During { owned: 100, after: 100, peak: 500, ..During::default() };
        assert_eq!(during.surplus(100, 0), 0);
        assert_eq!(during.surplus(130, 30), 0);
        let grown = During { came: 50, after: 150, ..during };
        assert_eq!(grown.surplus(150, 0), 0);
    }

    #[test]
    fn blocks_freed_behind_the_walk_are_taken() {
        // One was found and freed, and its successor was found as well.
        let during = During { owned: 100, came: 40, after: 100, peak: 110, ..During::default() };
        assert_eq!(during.surplus(140, 0), 30);
        assert_eq!(during.surplus(145, 5), 30);
    }

    #[test]
    fn what_no_freed_block_explains_stays_where_it_was_found() {
        let during = During { owned: 100, after: 100, peak: 100, ..During::default() };
        assert_eq!(during.surplus(1000, 0), 0);
        let freed = During { after: 90, ..during };
        assert_eq!(freed.surplus(1000, 0), 10);
    }

    #[test]
    fn block_on_its_way_out_counts_beside_what_is_owned() {
        let during = During { owned: 5, leaving: 40, after: 5, peak: 45, ..During::default() };
        assert_eq!(during.surplus(45, 0), 0);
    }
}
