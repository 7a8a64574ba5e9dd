//! What was resident at most in each phase.

use memprof_trace::layout::sample;

use super::walk::{PHASES, Sampler};
use crate::component::{Component, LIMIT};
use crate::{heap, kernel};

impl Sampler {
    /// A phase begins or ends: a sample shows what it finds or leaves, if much has changed. There is
    /// time for one, or it is the first of the phase, of which there are few.
    pub fn phase_edge(&mut self, index: u16, begins: bool) {
        let began = kernel::thread_time();
        // What is freed may stay resident, and be the allocator's.
        let (then, (blocks, mappings)) = (self.head.kernel_resident, self.owned_then);
        let owned = heap::all().0.abs_diff(blocks + mappings);
        let resident = self.kernel_resident();
        let changed = resident.abs_diff(then).max(owned) > then / 64;
        self.charge(kernel::thread_time().saturating_sub(began));
        if changed && (self.affordable(resident) || !self.has_peaks(index)) {
            self.full(sample::PHASE);
        } else if changed && begins {
            self.outdated = true;
        }
        if begins {
            self.keep_peaks(index);
        }
    }

    /// The most that was resident while a phase was open.
    pub fn phase_resident(&mut self, index: u16) -> &[u64; LIMIT] {
        self.keep_peaks(index);
        &self.phases[usize::from(index) % PHASES]
    }

    /// Whether a sample fell into the phase: the tool is always there.
    fn has_peaks(&self, index: u16) -> bool {
        let peaks = self.phases.get(usize::from(index));
        peaks.is_none_or(|peaks| peaks[usize::from(Component::TOOL.0)] > 0)
    }

    /// What the last sample found resident counts for a phase, unless it is of before.
    pub fn keep_peaks(&mut self, phase: u16) {
        if self.outdated {
            return;
        }
        if let Some(peaks) = self.phases.get_mut(usize::from(phase)) {
            for (peak, row) in peaks.iter_mut().zip(&self.rows) {
                *peak = (*peak).max(row.resident);
            }
        }
    }
}
