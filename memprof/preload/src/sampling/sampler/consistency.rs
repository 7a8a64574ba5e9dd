//! Agreement of a walk's findings with the kernel's counts. A walk takes time: memory that moves
//! from an address that it has not reached to one that it has passed is found nowhere, and memory
//! that moves the other way is found twice.

use super::agreement::Found;
use super::state::Sampler;
use crate::base::kernel;
use crate::ledger::heap;

/// Maximum number of walks for one sample.
const WALKS: u32 = 3;

impl Sampler {
    /// Walks over all mappings, and again if the result does not agree with the kernel's total: a
    /// few times at most, and as long as there is budget for it. Returns the processor time of the
    /// walks that another walk replaced.
    pub fn walk_well(&mut self) -> u64 {
        let began = kernel::thread_time();
        let owed = (self.last.unattributed, self.last.slack);
        let (mut last, mut replaced) = (None, 0);
        for walk in 0..WALKS {
            (self.last.unattributed, self.last.slack) = owed;
            self.walked.totals.clear();
            heap::IN_FLIGHT.before(&mut self.last.in_flight);
            self.remember_ledger();
            if walk == 0 {
                self.walked.owners.refresh();
                self.walked.segments.begin();
            } else {
                self.walked.owners.reread();
                self.walked.segments.begin_again();
            }
            heap::IN_FLIGHT.tables_read(&mut self.last.in_flight);
            // Written before the object is unloaded: memory found in the object needs its row.
            self.published.objects();
            let before = self.kernel_resident();
            self.walk();
            self.reattribute_in_flight();
            // Huge pages of hugetlbfs are not part of the kernel's total.
            let walked = self.walked.totals.resident().saturating_sub(self.walked.totals.hugetlb);
            let found = Found { walked, before, after: self.kernel_resident() };
            let spent = kernel::thread_time() - began;
            // The next walk costs as much as this one.
            let with_next = spent + (spent - replaced);
            let is_last =
                self.agreement.accepts(&found, last.as_ref()) || !self.may_overdraw_by(with_next);
            self.phases.outdated = self.agreement.is_outdated(&found);
            if is_last {
                break;
            }
            (last, replaced) = (Some(found), spent);
        }
        replaced
    }
}
