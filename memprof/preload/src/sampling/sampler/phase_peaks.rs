//! Highest resident memory in each phase.

use memprof_trace::layout::sample;

use super::walk::Sampler;
use crate::base::component::{Component, LIMIT};
use crate::base::kernel;
use crate::ledger::heap;

/// The first phase there is.
const MAIN: u16 = 0;
/// The part of the resident memory that is no change.
const SMALL: u64 = 64;
/// The part, and the least bytes, for which a sample is taken that is not earned yet.
const LARGE: u64 = 8;
const LARGE_BYTES: u64 = 8 << 20;

/// Edges that come so soon after another find the same: the kernel is not asked again, but for a phase that has no peak
/// yet. Memory that one touches in this time and gives back within it is not seen of a later one.
const SOON: u64 = 5_000_000;

/// Phases that have peaks.
pub const PHASES: usize = 64;

/// A phase into which no sample fell: the memory of the process, and the owned bytes, when it
/// ended.
#[derive(Copy, Clone)]
struct Left {
    resident: u64,
    owned: u64,
}

/// The kernel's answer at an edge, and the findings before.
#[derive(Copy, Clone)]
struct Asked {
    resident: u64,
    time: u64,
    sampled: u64,
}

impl Asked {
    const NEVER: Asked = Asked { resident: 0, time: 0, sampled: 0 };
}

/// Peaks of phases by samples.
pub struct Peaks {
    /// Highest resident memory while each was open.
    resident: [[u64; LIMIT]; PHASES],
    /// The same of the whole process: less than the sum where components had their peaks at different moments.
    totals: [u64; PHASES],
    /// Phases with peaks that have not been written: a bit for each.
    unwritten: u64,
    /// True if a sample was taken in each.
    seen: [bool; PHASES],
    /// Memory at the end of those phases that have no peak yet.
    left: [Option<Left>; PHASES],
    /// Resident memory in all when an edge last asked, the time, and the findings then.
    asked: Asked,
    /// One has ended, other than the first.
    others_ended: bool,
    /// Much has changed since the last full sample, and a phase has begun that is not to count it.
    pub outdated: bool,
}

impl Peaks {
    pub const fn new() -> Peaks {
        Peaks {
            resident: [[0; LIMIT]; PHASES],
            totals: [0; PHASES],
            unwritten: 0,
            seen: [false; PHASES],
            left: [None; PHASES],
            asked: Asked::NEVER,
            others_ended: false,
            outdated: false,
        }
    }

    /// In a forked child.
    pub fn forget(&mut self) {
        self.resident = [[0; LIMIT]; PHASES];
        self.totals = [0; PHASES];
        self.seen = [false; PHASES];
        self.left = [None; PHASES];
        self.asked = Asked::NEVER;
        self.others_ended = false;
    }

    /// Highest memory of each component in a phase.
    pub fn of(&self, phase: u16) -> Option<&[u64; LIMIT]> {
        self.resident.get(usize::from(phase))
    }

    /// The most the process had in a phase; 0 where no sample was taken.
    pub fn total(&self, phase: u16) -> u64 {
        self.totals[usize::from(phase) % PHASES]
    }

    /// Phases with sampled peaks that are not written yet: a bit for each.
    pub fn unwritten(&self) -> u64 {
        self.unwritten
    }

    /// Returns true if a sample fell into the phase.
    fn was_seen(&self, phase: u16) -> bool {
        self.seen.get(usize::from(phase)).is_none_or(|seen| *seen)
    }

    /// Returns true if there is something about the phase: the tool is always there.
    fn has(&self, phase: u16) -> bool {
        self.of(phase).is_none_or(|peaks| peaks[usize::from(Component::TOOL.0)] > 0)
    }
}

impl Sampler {
    /// A phase begins or ends: a sample shows the memory it finds or leaves, if much has changed and there is time for
    /// one. If a phase ends that no sample fell into and it is much, or MPI was made ready, one is taken before it is
    /// earned; else the memory there is seen by the next, if that comes before much changes.
    pub fn phase_edge(&mut self, index: u16, begins: bool) {
        let is_own = super::is_automatic(index);
        // What is freed may stay resident, and be the allocator's.
        let (then, (blocks, mappings)) = (self.record.head.kernel_resident, self.last.owned);
        let (owned, owned_then) = (heap::all().0, blocks + mappings);
        let resident = self.resident_at_edge(is_own || !begins && !self.phases.has(index));
        let change = resident.abs_diff(then).max(owned.abs_diff(owned_then));
        let growth = resident.saturating_sub(then).max(owned.saturating_sub(owned_then));
        // When MPI begins, and when it is ready, is looked at in every run.
        let is_first = is_own && if index == MAIN { then == 0 } else { !self.phases.others_ended };
        self.phases.others_ended |= !begins && index != MAIN;
        // What `finalize` finds is known from `main`, and what it leaves is what the last sample finds.
        let may_wait = is_own && index != MAIN;
        let is_missed = if self.phases.has(index) { growth } else { change };
        // A sample in the middle of MPI_Init does not show what it leaves.
        let is_unseen = is_first || !self.phases.was_seen(index);
        let is_lost = !begins && is_unseen && is_missed > then / SMALL;
        let is_large = is_missed > (then / LARGE).max(LARGE_BYTES);
        let has_changed = change > then / SMALL;
        let overdraws = is_large || is_first;
        // What `main` finds when it goes on has been looked at where the phase between ended, or is what
        // the last sample finds.
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
                // Every run has it, and in a short one it would leave nothing for what follows.
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
                // Nearly what was there.
                self.add_peaks(index);
            }
        }
    }

    /// Resident memory in all, now or a moment ago.
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

    /// A sample was taken: it shows the memory that phases have left before it as well.
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

    /// The most that was resident while a phase was open, to be written, and whether it is more than when that was done
    /// last. `is_open` until its end has been told.
    pub fn phase_resident(&mut self, index: u16, is_open: bool) -> (&[u64; LIMIT], bool) {
        if is_open {
            self.keep_peaks(index);
        }
        let index = usize::from(index) % PHASES;
        let is_more = self.phases.unwritten >> index & 1 == 1;
        self.phases.unwritten &= !(1 << index);
        (&self.phases.resident[index], is_more)
    }

    /// A sample was taken in a phase.
    pub fn saw(&mut self, phase: u16) {
        self.add_peaks(phase);
        if let Some(seen) = self.phases.seen.get_mut(usize::from(phase)) {
            *seen = true;
        }
    }

    /// Counts the resident memory of the last sample for a phase, unless it is of before.
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
