//! What is owned between full samples: the ledger knows it exactly at any time, so cheap looks and edges of phases write
//! it into the timeline where it has changed.

use super::walk::Sampler;
use crate::base::component::{self, LIMIT};
use crate::ledger::heap;
use crate::recording::{phases, writer};

/// What was last written.
pub struct Owned {
    /// All components together.
    total: u64,
    each: [u64; LIMIT],
}

impl Owned {
    pub const fn new() -> Owned {
        Owned { total: 0, each: [0; LIMIT] }
    }
}

impl Sampler {
    /// Returns true if components own something else together than when that was last written.
    pub fn owns_otherwise(&self, total: u64) -> bool {
        total != self.owned.total && self.is_ready() && !phases::paused()
    }

    /// Writes what components own, which is `total` together.
    pub fn write_owned(&mut self, total: u64) {
        self.owned.total = total;
        heap::owned_each(&mut self.owned.each);
        let each = &self.owned.each[..component::count().min(LIMIT)];
        writer::with(|writer, time| writer.owned(time, each));
    }
}
