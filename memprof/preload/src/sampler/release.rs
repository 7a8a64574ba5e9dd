//! What is about to be given back is looked at first, if it may have raised a peak: a buffer that
//! lives shorter than the time between two samples is not missed.
//!
//! Most releases cost a comparison, or one small read from the kernel. What decides is an upper bound:
//! a component has at most what it owns, and at most what it had at the last sample plus what the
//! process has grown since plus what others gave back since plus what nobody had. Where that is no new peak, nothing is
//! looked at, so a loop that does the same again and again pays for its first round only.

use core::sync::atomic::{AtomicU64, Ordering};

use memprof_trace::layout::sample;

use super::walk::Sampler;
use crate::component::{Component, LIMIT};
use crate::thread::local;
use crate::{heap, kernel, phases, ranges, writer};

/// Smaller ones are left to the sampler's own time.
const SMALLEST: usize = 1 << 20;
/// Share of the time that full samples before releases may take in the threads that release.
const SHARE: u64 = 100;
/// What may be spent at once, in nanoseconds.
const BURST: u64 = 20_000_000;

/// Time of processors spent before releases so far.
static SPENT: AtomicU64 = AtomicU64::new(0);
static SKIPPED: AtomicU64 = AtomicU64::new(0);

/// Differences that are no new peak: half a percent.
fn margin(peak: u64) -> u64 {
    (peak / 200).max(256 * 1024)
}

/// The most a component can have now: what it had when the process had `then`, plus what came since
/// and what `others` have given back since or the allocator kept, but no more than it owns.
fn bound(had: u64, then: u64, now: u64, others: u64, owned: u64) -> u64 {
    owned.min(had.saturating_add(now.saturating_sub(then)).saturating_add(others))
}

/// How many releases were not looked at.
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
    crate::faults::look();
    super::world::released(start, length);
    let owner = heap::large(start).map(|large| large.component);
    let owner = owner.or_else(|| {
        ranges::next(start).filter(|piece| piece.start <= start).map(|piece| piece.owner)
    });
    let looked = super::with(|sampler| sampler.release(owner.unwrap_or(Component::UNATTRIBUTED)));
    if !looked {
        SKIPPED.fetch_add(1, Ordering::Relaxed);
    }
}

impl Sampler {
    fn release(&mut self, owner: Component) -> bool {
        if !self.is_ready() {
            return false;
        }
        let now = self.kernel_resident();
        let index = usize::from(owner.0) % LIMIT;
        let process = self.head.peak.saturating_sub(self.head.page_tables + self.head.hugetlb);
        let is_peak = now > process + margin(process) || {
            let owned = heap::owned(owner);
            let row = &self.rows[index];
            let margin = margin(row.resident_peak);
            self.would_be_peak(index, owned, margin) && {
                let now_mapped = ranges::total();
                let in_blocks = heap::all().0.saturating_sub(now_mapped);
                // What all own less than at the last sample was given back; by whom is not asked.
                let (blocks, mappings) = self.owned_then;
                let others = blocks.saturating_sub(in_blocks) + mappings.saturating_sub(now_mapped);
                let kept = self.rows[usize::from(Component::SLACK.0)].resident;
                let then = self.resident_then;
                let most = bound(row.resident, then, now, others + kept, owned);
                self.would_be_peak(index, most, margin)
            }
        };
        if !is_peak {
            return false;
        }
        let began = kernel::thread_time();
        let spent = SPENT.load(Ordering::Relaxed);
        if spent > BURST + writer::now() / SHARE {
            return false;
        }
        self.full(sample::RELEASE);
        SPENT.fetch_add(kernel::thread_time().saturating_sub(began), Ordering::Relaxed);
        true
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
