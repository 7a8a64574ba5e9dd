//! Time of the thread that began MPI in OpenMP parallel regions, without its MPI calls in them.

use core::sync::atomic::{AtomicU64, Ordering, fence};

use super::{SUMS, add, is_on, is_owner, now};

/// Sums of regions that have ended; written like [`SUMS`].
static TICKS: AtomicU64 = AtomicU64::new(0);
static REGIONS: AtomicU64 = AtomicU64::new(0);
/// Start of the outermost region, 0 outside; and the time in MPI and lent until then.
static SINCE: AtomicU64 = AtomicU64::new(0);
static BEFORE: AtomicU64 = AtomicU64::new(0);

/// Returns the time in MPI and lent until now, of calls that have returned.
fn apart() -> u64 {
    let ticks = SUMS.ticks.iter().map(|ticks| ticks.load(Ordering::Relaxed)).sum::<u64>();
    ticks + SUMS.lent.load(Ordering::Relaxed)
}

/// Handles the begin of a region. Returns true if it is the outermost one of the measured thread.
#[inline]
pub fn begins() -> bool {
    if !is_on() || !is_owner() || SINCE.load(Ordering::Relaxed) != 0 {
        return false;
    }
    write(|| {
        BEFORE.store(apart(), Ordering::Relaxed);
        SINCE.store(now(), Ordering::Relaxed);
    });
    true
}

/// Handles the end of that region.
#[inline]
pub fn ends() {
    write(|| {
        let (ticks, regions) = sums(now(), apart());
        TICKS.store(ticks, Ordering::Relaxed);
        REGIONS.store(regions, Ordering::Relaxed);
        SINCE.store(0, Ordering::Relaxed);
    });
}

/// Changes the words in a section that readers detect.
#[inline]
fn write(work: impl FnOnce()) {
    add(&SUMS.sequence, 1);
    fence(Ordering::Release);
    work();
    SUMS.sequence.store(SUMS.sequence.load(Ordering::Relaxed) + 1, Ordering::Release);
}

/// Returns the ticks in regions and their number until now, including the region that has not
/// ended. `apart` is the time in MPI and lent.
pub fn sums(now: u64, apart: u64) -> (u64, u64) {
    let (ticks, regions) = (TICKS.load(Ordering::Relaxed), REGIONS.load(Ordering::Relaxed));
    match SINCE.load(Ordering::Relaxed) {
        0 => (ticks, regions),
        since => {
            let apart = apart.saturating_sub(BEFORE.load(Ordering::Relaxed));
            (ticks + now.saturating_sub(since).saturating_sub(apart), regions + 1)
        }
    }
}

/// Resets the state in a child after fork, whose thread is in no region.
pub fn after_fork() {
    SINCE.store(0, Ordering::Relaxed);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn region_that_goes_on_counts_without_its_calls_of_mpi() {
        assert_eq!(sums(1_000, 30), (0, 0));
        BEFORE.store(20, Ordering::Relaxed);
        SINCE.store(900, Ordering::Relaxed);
        assert_eq!(sums(1_000, 30), (90, 1));
        // The clock of another core may be behind.
        assert_eq!(sums(890, 20), (0, 1));
        after_fork();
        assert_eq!(sums(1_000, 30), (0, 0));
    }
}
