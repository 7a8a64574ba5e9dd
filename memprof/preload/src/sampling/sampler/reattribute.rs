//! Memory that a walk finds under another name than its owner's.

use super::attribute::Share;
use super::walk::Sampler;
use crate::base::component::Component;
use crate::ledger::heap;

impl Sampler {
    /// Blocks that moved, or were made, since the look at the tables began are in none of them. Memory of no owner and
    /// of the allocator in the last sample stays theirs.
    pub fn give_what_moved(&mut self) {
        let [nobody, slack] =
            [Component::UNATTRIBUTED, Component::SLACK].map(|one| usize::from(one.0));
        let all = &mut self.walked.totals.components;
        let before = [(nobody, self.last.nobodys), (slack, self.last.slack)];
        let mut more =
            before.map(|(index, then)| (index, all[index].resident.saturating_sub(then)));
        heap::IN_FLIGHT.missed(&self.last.in_flight, &mut |owner, bytes| {
            let mut left = bytes;
            for (index, more) in &mut more {
                let given = left.min(*more);
                if let Ok([from, to]) = all.get_disjoint_mut([*index, owner]) {
                    from.give(to, given);
                    to.moved += given;
                    (left, *more) = (left - given, *more - given);
                }
            }
        });
        let now = |index: usize| -> &Share { &self.walked.totals.components[index] };
        (self.last.nobodys, self.last.slack) = (now(nobody).resident, now(slack).resident);
    }

    /// Takes the tool's bytes at the blocks as its own. It is in pages that blocks are in, where it counts as slack
    /// until here.
    pub fn take_tags(&mut self) {
        self.record.tags = heap::tags(&self.record.ledger);
        let [slack, tool] = [Component::SLACK, Component::TOOL].map(|one| usize::from(one.0));
        if let Ok([slack, tool]) = self.walked.totals.components.get_disjoint_mut([slack, tool]) {
            slack.give(tool, self.record.tags.min(slack.resident));
        }
        self.record.ledger[tool].owned += self.record.tags;
    }
}
