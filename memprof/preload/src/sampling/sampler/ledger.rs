//! Owned bytes between full samples: the ledger knows them exactly at any time, so ticks and phase
//! edges write them into the timeline where they have changed, at little cost.

use super::state::Sampler;
use crate::base::component::LIMIT;
use crate::base::dictionary;
use crate::ledger::heap;
use crate::recording::{phases, writer};

impl Sampler {
    /// Returns true if the total owned bytes differ from those last written.
    pub fn owns_otherwise(&self, total: u64) -> bool {
        total != self.owned.total && self.is_ready() && !phases::paused()
    }

    /// Writes the owned bytes of the components, which are `total` together.
    pub fn write_owned(&mut self, total: u64) {
        self.owned.total = total;
        heap::owned_each(&mut self.owned.each);
        let each = &self.owned.each[..dictionary::count().min(LIMIT)];
        writer::with(|writer, time| writer.owned(time, each));
    }
}
