//! Samples at the edges of phases, and the peaks that they show.

use memprof_trace::layout::sample;

use super::peaks::{Asked, Left, PHASES};
use super::state::Sampler;
use crate::base::component::LIMIT;
use crate::base::kernel;
use crate::ledger::heap;

/// Index of the first phase.
const MAIN: u16 = 0;
/// Divisor: a smaller part of the resident memory is no change.
const SMALL: u64 = 64;
/// Divisor, and minimum in bytes, for a sample that is taken before it is earned.
const LARGE: u64 = 8;
const LARGE_BYTES: u64 = 8 << 20;

/// Time in which edges use the same resident memory: the kernel is asked again only for a phase
/// that has no peak yet. Memory that a later phase touches and releases within this time is not
/// seen.
const SOON: u64 = 5_000_000;

impl Sampler {
    /// Handles the begin or end of a phase. If much has changed and there is budget, a sample shows
    /// the memory that the phase finds or leaves. If a phase ends in which no sample was taken, and
    /// much has changed or MPI was initialized, the sample is taken before it is earned. Otherwise
    /// the next sample shows the memory at the edge, if little has changed until then.
    pub fn phase_edge(&mut self, index: u16, begins: bool) {
        let is_own = super::is_automatic(index);
        // Freed memory may stay resident, as the allocator's.
        let (then, (blocks, mappings)) = (self.record.head.kernel_resident, self.last.owned);
        let (owned, owned_then) = (heap::all().0, blocks + mappings);
        let resident = self.resident_at_edge(is_own || !begins && !self.phases.has(index));
        let change = resident.abs_diff(then).max(owned.abs_diff(owned_then));
        let growth = resident.saturating_sub(then).max(owned.saturating_sub(owned_then));
        // The start of MPI, and its end of initialization, are sampled in every run.
        let is_first = is_own && if index == MAIN { then == 0 } else { !self.phases.others_ended };
        self.phases.others_ended |= !begins && index != MAIN;
        // What `finalize` finds is known from `main`, and the last sample shows what it leaves.
        let may_wait = is_own && index != MAIN;
        let is_missed = if self.phases.has(index) { growth } else { change };
        // A sample in the middle of MPI_Init does not show what MPI_Init leaves.
        let is_unseen = is_first || !self.phases.was_seen(index);
        let is_lost = !begins && is_unseen && is_missed > then / SMALL;
        let is_large = is_missed > (then / LARGE).max(LARGE_BYTES);
        let has_changed = change > then / SMALL;
        let overdraws = is_large || is_first;
        // What `main` finds when it resumes was sampled where the phase between ended, or the last
        // sample finds it.
        let is_closing = !begins && may_wait && !is_first;
        let goes_on = begins && index == MAIN && self.phases.others_ended;
        let looks = has_changed && !is_closing && !goes_on && self.affordable(resident)
            || is_lost
                && !is_closing
                && (overdraws && self.may_overdraw()
                    || !may_wait && self.affordable_ahead(resident));
        if looks {
            let before = self.record.head.cpu_ns;
            self.full(sample::PHASE);
            if is_first {
                // Every run takes this sample, whose charge would leave a short run nothing for
                // what follows.
                let cost = self.record.head.cpu_ns - before;
                self.duty.iter_mut().for_each(|duty| duty.forgive(cost));
            }
        }
        if !looks && self.owns_otherwise(owned) {
            let began = kernel::thread_time();
            self.write_owned(owned);
            self.charge(kernel::thread_time().saturating_sub(began));
        }
        if begins {
            self.phases.outdated |= has_changed && !looks;
            self.keep_peaks(index);
            return;
        }
        if !looks && (is_lost || !self.phases.has(index)) {
            if let Some(left) = self.phases.left.get_mut(usize::from(index)) {
                *left = Some(Left { resident, owned });
            }
            if !is_large && !self.phases.has(index) {
                // About the same as the phase found.
                self.add_peaks(index);
            }
        }
    }

    /// Returns the total resident memory, as of now or of a moment ago.
    fn resident_at_edge(&mut self, exactly: bool) -> u64 {
        let (time, sampled) = (kernel::monotonic(), self.record.head.kernel_resident);
        let asked = self.phases.asked;
        let is_soon = time.saturating_sub(asked.time) < SOON && asked.sampled == sampled;
        if is_soon && !exactly {
            return asked.resident;
        }
        let began = kernel::thread_time();
        let resident = self.kernel_resident();
        self.charge(kernel::thread_time().saturating_sub(began));
        self.phases.asked = Asked { resident, time, sampled };
        resident
    }

    /// Handles a sample, which also shows the memory that earlier phases left.
    pub fn look_back(&mut self) {
        let (resident, (blocks, mappings)) = (self.last.resident, self.last.owned);
        for index in 0..PHASES {
            let Some(left) = self.phases.left[index].take() else { continue };
            let owned = left.owned.abs_diff(blocks + mappings);
            let change = left.resident.abs_diff(resident).max(owned);
            if change <= (left.resident / LARGE).max(LARGE_BYTES) {
                self.add_peaks(index as u16);
            }
        }
    }

    /// Returns the highest resident bytes while a phase was open, which the caller writes, and
    /// whether they have increased since they were last written. `is_open` is true until the end of
    /// the phase has been handled.
    pub fn phase_resident(&mut self, index: u16, is_open: bool) -> (&[u64; LIMIT], bool) {
        if is_open {
            self.keep_peaks(index);
        }
        let index = usize::from(index) % PHASES;
        let is_more = self.phases.unwritten >> index & 1 == 1;
        self.phases.unwritten &= !(1 << index);
        (&self.phases.resident[index], is_more)
    }

    /// Records that a sample was taken in a phase.
    pub fn saw(&mut self, phase: u16) {
        self.add_peaks(phase);
        if let Some(seen) = self.phases.seen.get_mut(usize::from(phase)) {
            *seen = true;
        }
    }

    /// Counts the resident memory of the last sample for a phase, unless the sample is outdated.
    fn keep_peaks(&mut self, phase: u16) {
        if !self.phases.outdated {
            self.add_peaks(phase);
        }
    }

    fn add_peaks(&mut self, phase: u16) {
        let index = usize::from(phase);
        let phases = &mut self.phases;
        let Some(peaks) = phases.resident.get_mut(index) else { return };
        for (peak, row) in peaks.iter_mut().zip(&self.record.rows) {
            phases.unwritten |= u64::from(row.resident > *peak) << index;
            *peak = (*peak).max(row.resident);
        }
        phases.totals[index] = phases.totals[index].max(self.record.head.walked);
    }
}
