//! What was resident at most in each phase.

use memprof_trace::layout::sample;

use super::walk::{PHASES, Sampler};
use crate::component::{Component, LIMIT};
use crate::{heap, kernel};

/// The first phase there is.
const MAIN: u16 = 0;
/// The part of what was resident that is no change.
const SMALL: u64 = 64;
/// The part, and the least bytes, for which a sample is taken that is not earned yet.
const LARGE: u64 = 8;
const LARGE_BYTES: u64 = 8 << 20;

impl Sampler {
    /// A phase begins or ends: a sample shows what it finds or leaves, if much has changed and there is
    /// time for one. What is there when a phase ends that no sample fell into is seen by no later one.
    pub fn phase_edge(&mut self, index: u16, begins: bool) {
        let began = kernel::thread_time();
        // What is freed may stay resident, and be the allocator's.
        let (then, (blocks, mappings)) = (self.head.kernel_resident, self.owned_then);
        let owned = heap::all().0.abs_diff(blocks + mappings);
        let resident = self.kernel_resident();
        let change = resident.abs_diff(then).max(owned);
        self.charge(kernel::thread_time().saturating_sub(began));
        // Before MPI begins there is little, and `main` comes back.
        self.others_ended |= !begins && index != MAIN;
        let comes_back = index == MAIN && !self.others_ended;
        let is_lost = !begins && !comes_back && !self.was_seen(index);
        let is_large = change > (then / LARGE).max(LARGE_BYTES) && self.may_overdraw();
        let has_changed = change > then / SMALL;
        let looks = has_changed
            && (self.affordable(resident)
                || is_lost && (is_large || self.affordable_ahead(resident)));
        if looks {
            self.full(sample::PHASE);
        }
        if begins {
            self.outdated |= has_changed && !looks;
            self.keep_peaks(index);
        } else if !self.has_peaks(index) {
            // Nearly what was there.
            self.add_peaks(index);
        }
    }

    /// The most that was resident while a phase was open.
    pub fn phase_resident(&mut self, index: u16) -> &[u64; LIMIT] {
        self.keep_peaks(index);
        &self.phases[usize::from(index) % PHASES]
    }

    /// Whether a sample fell into the phase.
    fn was_seen(&self, index: u16) -> bool {
        self.seen.get(usize::from(index)).is_none_or(|seen| *seen)
    }

    /// Whether there is something about the phase: the tool is always there.
    fn has_peaks(&self, index: u16) -> bool {
        let peaks = self.phases.get(usize::from(index));
        peaks.is_none_or(|peaks| peaks[usize::from(Component::TOOL.0)] > 0)
    }

    /// A sample was taken in a phase.
    pub fn saw(&mut self, phase: u16) {
        self.add_peaks(phase);
        if let Some(seen) = self.seen.get_mut(usize::from(phase)) {
            *seen = true;
        }
    }

    /// What the last sample found resident counts for a phase, unless it is of before.
    fn keep_peaks(&mut self, phase: u16) {
        if !self.outdated {
            self.add_peaks(phase);
        }
    }

    fn add_peaks(&mut self, phase: u16) {
        if let Some(peaks) = self.phases.get_mut(usize::from(phase)) {
            for (peak, row) in peaks.iter_mut().zip(&self.rows) {
                *peak = (*peak).max(row.resident);
            }
        }
    }
}
