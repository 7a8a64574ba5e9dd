//! Samples before memory is given back, if it may have raised a peak: a buffer that lives shorter than the time between
//! two samples is not missed.
//!
//! Most releases cost two comparisons and a question to the kernel, and no lock. The decision goes by an upper bound: a
//! component has at most its owned bytes, and at most its bytes at the last sample plus the growth of the process since
//! plus the releases of others since plus the bytes without an owner. Where that is no new peak, nothing is looked at,
//! so a loop that does the same again and again pays for its first round only; and nothing is lost with a range of
//! which hardly anything is resident.

use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use memprof_trace::layout::sample;

use super::walk::Sampler;
use crate::base::component::{Component, LIMIT};
use crate::base::kernel;
use crate::base::thread::local;
use crate::ledger::{heap, ranges};
use crate::recording::{phases, writer};

/// Smaller ones are left to the sampler's own time.
const SMALLEST: usize = 1 << 20;
static SKIPPED: AtomicU64 = AtomicU64::new(0);

/// Differences that are no new peak: half a percent.
fn margin(peak: u64) -> u64 {
    (peak / 200).max(SMALLEST_PEAK)
}

/// Smallest peak: less is nowhere a new one.
const SMALLEST_PEAK: u64 = 256 * 1024;

/// Bounds that the last sample leaves for callers without the lock: up to here there is no new
/// peak.
struct Known {
    /// Of each component's owned bytes.
    owned: [AtomicU64; LIMIT],
    /// Of the highest bytes of the process by the kernel.
    most: AtomicU64,
    /// The phase that this is of.
    phase: AtomicU32,
}

static KNOWN: Known = Known {
    owned: [const { AtomicU64::new(0) }; LIMIT],
    most: AtomicU64::new(0),
    phase: AtomicU32::new(u32::MAX),
};

/// Returns true if it is known without a look that this is no new peak, neither of `owner` nor of the process.
fn is_known(owner: Component) -> bool {
    KNOWN.phase.load(Ordering::Acquire) == u32::from(phases::current())
        && heap::owned(owner) <= KNOWN.owned[usize::from(owner.0) % LIMIT].load(Ordering::Relaxed)
        && kernel::most_resident() <= KNOWN.most.load(Ordering::Relaxed)
}

/// The most a component can have now: its bytes when the process had `then`, plus those that came
/// since and that `others` have given back since or the allocator kept, but no more than it owns.
fn bound(had: u64, then: u64, now: u64, others: u64, owned: u64) -> u64 {
    owned.min(had.saturating_add(now.saturating_sub(then)).saturating_add(others))
}

/// Number of releases that were not looked at.
pub fn skipped() -> u64 {
    SKIPPED.load(Ordering::Relaxed)
}

/// These addresses are about to be given back to the kernel or the allocator.
pub fn before_release(start: usize, length: usize) {
    if length < SMALLEST || !writer::is_recording() || phases::paused() {
        return;
    }
    // A handler of a signal that came while the tool held its locks in this thread may release as well.
    if local().guard.get() > 0 {
        return;
    }
    // While its owner is known.
    crate::sampling::faults::look();
    let owner = heap::large(start).map(|large| large.component);
    let owner = owner.or_else(|| {
        ranges::next(start).filter(|piece| piece.start <= start).map(|piece| piece.owner)
    });
    // Where no block and no mapping is known, who asked the kernel for the memory has it until it is gone.
    let asked = || ranges::next_asked(start).is_some_and(|(from, ..)| from <= start);
    if owner.is_some() || !asked() {
        super::world::released(start, length);
    }
    let owner = owner.unwrap_or(Component::UNATTRIBUTED);
    let looked = !is_known(owner)
        && super::with(|sampler| {
            let began = kernel::thread_time();
            let wanted = sampler.would_lose(owner) && sampler.holds(start, length);
            sampler.charge(kernel::thread_time().saturating_sub(began));
            let looks = wanted && sampler.may_overdraw();
            if looks {
                sampler.full(sample::RELEASE);
            }
            looks
        });
    if !looked {
        SKIPPED.fetch_add(1, Ordering::Relaxed);
    }
}

impl Sampler {
    /// Returns true if there may be a peak now, of the process or of a component.
    fn would_lose(&mut self, owner: Component) -> bool {
        if !self.is_ready() {
            return false;
        }
        let now = self.kernel_resident();
        let most = kernel::most_resident();
        let index = usize::from(owner.0) % LIMIT;
        let process = self.process_peak();
        let is_peak = now > process + margin(process) || {
            let owned = heap::owned(owner);
            let row = &self.record.rows[index];
            let margin = margin(row.resident_peak);
            self.would_be_peak(index, owned, margin) && {
                let now_mapped = ranges::total();
                let in_blocks = heap::all().0.saturating_sub(now_mapped);
                // What all own less than at the last sample was given back; by whom is not asked.
                let (blocks, mappings) = self.last.owned;
                let others = blocks.saturating_sub(in_blocks) + mappings.saturating_sub(now_mapped);
                let kept = self.record.rows[usize::from(Component::SLACK.0)].resident;
                let then = self.last.resident;
                let most = bound(row.resident, then, now, others + kept, owned);
                self.would_be_peak(index, most, margin)
            }
        };
        if !is_peak {
            // Until the process has more than it ever had, it has no new peak.
            KNOWN.most.fetch_max(most, Ordering::Relaxed);
        }
        is_peak
    }

    /// The most resident bytes, as the kernel counts them, that a sample found.
    fn process_peak(&self) -> u64 {
        self.record
            .head
            .peak
            .saturating_sub(self.record.head.page_tables + self.record.head.hugetlb)
    }

    /// Returns true if so much is resident there that a peak would be lost with it. If the kernel does not tell, it is.
    fn holds(&mut self, start: usize, length: usize) -> bool {
        let Some(scanner) = &mut self.sources.scanner else { return true };
        let page = kernel::page();
        let (mut at, end) = (start & !(page - 1), start.saturating_add(length) & !(page - 1));
        let mut found = 0;
        while at < end && found < SMALLEST_PEAK {
            let Ok((count, to)) = scanner.next(at, end, false, &mut self.sources.runs) else {
                return true;
            };
            let present = self.sources.runs[..count].iter().filter(|run| run.is_present());
            found += present.map(|run| run.end - run.start).sum::<u64>();
            at = to;
        }
        found >= SMALLEST_PEAK
    }

    /// Leaves word for those who ask without the lock.
    pub fn tell_known(&self) {
        KNOWN.phase.store(u32::MAX, Ordering::Release);
        for (index, owned) in KNOWN.owned.iter().enumerate() {
            let margin = margin(self.record.rows[index].resident_peak);
            owned.store(self.least_peak(index).saturating_add(margin), Ordering::Relaxed);
        }
        let process = self.process_peak();
        let most = (process + margin(process)).max(kernel::most_resident());
        KNOWN.most.store(most, Ordering::Relaxed);
        KNOWN.phase.store(u32::from(phases::current()), Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_component_has_no_more_than_it_owns() {
        assert_eq!(bound(10, 100, 1000, 0, 50), 50);
        assert_eq!(bound(10, 100, 120, 0, 50), 30);
        assert_eq!(bound(10, 120, 100, 5, 50), 15);
        assert_eq!(bound(10, 0, u64::MAX, u64::MAX, u64::MAX), u64::MAX);
    }

    #[test]
    fn small_differences_are_no_peak() {
        assert_eq!(margin(0), 256 * 1024);
        assert_eq!(margin(1 << 30), (1 << 30) / 200);
    }
}
