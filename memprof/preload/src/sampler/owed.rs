//! What a walk finds under another name than its owner's.

use super::walk::Sampler;
use crate::component::Component;
use crate::heap::{self, Ledger};

impl Sampler {
    /// Blocks that moved during the walk are in no table; what nobody had in the last sample, it has still.
    pub fn give_what_moved(&mut self) {
        let (nobody, others) = self.totals.components.split_at_mut(1);
        let nobody = &mut nobody[0];
        let mut more = nobody.resident.saturating_sub(self.nobodys);
        heap::motion::since(&self.moved, &mut |owner, bytes| {
            let Some(share) = others.get_mut(usize::from(owner.0).wrapping_sub(1)) else { return };
            let given = bytes.min(more);
            more -= given;
            nobody.give(share, given);
            share.error += given;
        });
        self.nobodys = nobody.resident;
    }

    /// What the tool has added to the blocks is its own. It is in pages that blocks are in, where it counts as slack
    /// until here.
    pub fn take_tags(&mut self) {
        let live = |ledger: &Ledger| ledger.allocations.saturating_sub(ledger.frees);
        let tags = self.ledger.iter().map(live).sum::<u64>() * heap::TAG as u64;
        let [slack, tool] = [Component::SLACK, Component::TOOL].map(|one| usize::from(one.0));
        if let Ok([slack, tool]) = self.totals.components.get_disjoint_mut([slack, tool]) {
            slack.give(tool, tags.min(slack.resident));
        }
        self.ledger[tool].owned += tags;
    }
}
