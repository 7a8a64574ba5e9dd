//! Samples before memory is released, if it may have raised a peak: a buffer that exists for less
//! than the time between two samples is not missed.
//!
//! Most releases cost two comparisons and one query of the kernel, and no lock. The decision uses
//! an upper bound: a component has at most its owned bytes, and at most its bytes at the last
//! sample plus the growth of the process, the releases of others since, and the bytes without an
//! owner. If that is no new peak, nothing is examined, so a loop that repeats the same releases
//! pays for its first round only. A range with almost no resident memory causes no sample either.

use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use memprof_trace::layout::sample;

use super::state::Sampler;
use crate::base::component::{Component, LIMIT};
use crate::base::kernel;
use crate::base::thread::local;
use crate::ledger::{heap, ranges};
use crate::recording::{phases, writer};

/// Minimum size of a release; smaller ones are left to the periodic samples.
const SMALLEST: usize = 1 << 20;
static SKIPPED: AtomicU64 = AtomicU64::new(0);

/// Returns the smallest increase that counts as a new peak: half a percent.
fn margin(peak: u64) -> u64 {
    (peak / 200).max(SMALLEST_PEAK)
}

/// Minimum size of a peak: a smaller one is never new.
const SMALLEST_PEAK: u64 = 256 * 1024;

/// Bounds that the last sample provides to callers without the lock: up to them there is no new
/// peak.
struct Known {
    /// Bound of each component's owned bytes.
    owned: [AtomicU64; LIMIT],
    /// Bound of the highest bytes of the process as the kernel counts them.
    most: AtomicU64,
    /// Phase that the bounds are valid for.
    phase: AtomicU32,
}

static KNOWN: Known = Known {
    owned: [const { AtomicU64::new(0) }; LIMIT],
    most: AtomicU64::new(0),
    phase: AtomicU32::new(u32::MAX),
};

/// Highest resident bytes of the process that started the program, which an `exec` keeps in the
/// kernel's count; 0 once this program has had more.
static INHERITED: AtomicU64 = AtomicU64::new(0);

/// Returns true if the bounds show that there is no new peak, neither of `owner` nor of the
/// process.
fn is_known(owner: Component) -> bool {
    KNOWN.phase.load(Ordering::Acquire) == u32::from(phases::current())
        && heap::owned(owner) <= KNOWN.owned[usize::from(owner.0) % LIMIT].load(Ordering::Relaxed)
        && is_known_of_process(kernel::most_resident())
}

/// Returns true if the highest count of the kernel shows no new peak of the process. It shows nothing
/// as long as it is the inherited one.
fn is_known_of_process(most: u64) -> bool {
    most > INHERITED.load(Ordering::Relaxed) && most <= KNOWN.most.load(Ordering::Relaxed)
}

/// Returns the most bytes that a component can have now: its bytes when the process had `then`,
/// plus those added since and those that `others` have released since or the allocator kept, but no
/// more than it owns.
fn bound(had: u64, then: u64, now: u64, others: u64, owned: u64) -> u64 {
    owned.min(had.saturating_add(now.saturating_sub(then)).saturating_add(others))
}

/// Returns the number of releases without a sample.
pub fn skipped() -> u64 {
    SKIPPED.load(Ordering::Relaxed)
}

/// Handles a range that is about to be released to the kernel or the allocator.
pub fn before_release(start: usize, length: usize) {
    if length < SMALLEST || !writer::is_recording() || phases::paused() {
        return;
    }
    // A signal handler that interrupted the tool while it held its locks in this thread may release
    // memory as well.
    if local().guard.get() > 0 {
        return;
    }
    // Read while the owner is known.
    crate::sampling::faults::read_rings();
    let owner = heap::large(start).map(|large| large.component);
    let owner = owner.or_else(|| {
        ranges::next(start).filter(|piece| piece.start <= start).map(|piece| piece.owner)
    });
    // Where no block and no mapping is known, the object that requested the memory from the kernel
    // has it until it is gone.
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
    /// Returns true if the process or a component may be at a peak now.
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
                // A decrease of all owned bytes since the last sample was released, by whatever
                // component.
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

    /// Returns the highest resident bytes that a sample found, as the kernel counts them.
    fn process_peak(&self) -> u64 {
        self.record
            .head
            .peak
            .saturating_sub(self.record.head.page_tables + self.record.head.hugetlb)
    }

    /// Returns true if so much is resident in the range that a peak would be lost with it, or if
    /// the kernel does not report it.
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

    /// Stores the bounds for callers without the lock.
    pub fn tell_known(&self) {
        KNOWN.phase.store(u32::MAX, Ordering::Release);
        for (index, owned) in KNOWN.owned.iter().enumerate() {
            let margin = margin(self.record.rows[index].resident_peak);
            owned.store(self.least_peak(index).saturating_add(margin), Ordering::Relaxed);
        }
        let process = self.process_peak();
        let most = kernel::most_resident();
        let own = self.record.head.kernel_peak;
        let is_inherited = own > 0 && most > own + margin(own);
        INHERITED.store(if is_inherited { most } else { 0 }, Ordering::Relaxed);
        let most = most.max(process + margin(process));
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
    fn inherited_count_shows_nothing_of_a_peak() {
        INHERITED.store(300, Ordering::Relaxed);
        KNOWN.most.store(310, Ordering::Relaxed);
        assert!(!is_known_of_process(300));
        assert!(is_known_of_process(301) && !is_known_of_process(311));
    }

    #[test]
    fn small_differences_are_no_peak() {
        assert_eq!(margin(0), 256 * 1024);
        assert_eq!(margin(1 << 30), (1 << 30) / 200);
    }
}
