//! Resident memory, sampled a few times per second and before large releases.
//!
//! floors: agreement < budget < free_pages < attribute < world < entry < maps < peaks < rows < publish <
//!     thread < list < sources < segments < state < phase_peaks < reattribute < ledger < status <
//!     release < walk < consistency < summary

#![allow(unsafe_code)]

mod agreement;
mod attribute;
mod budget;
mod consistency;
mod entry;
mod free_pages;
mod ledger;
mod list;
mod maps;
mod peaks;
mod phase_peaks;
mod publish;
mod reattribute;
mod release;
mod rows;
mod segments;
mod sources;
mod state;
mod status;
mod summary;
mod thread;
mod walk;
mod world;

use core::cell::UnsafeCell;
use core::sync::atomic::{AtomicBool, AtomicU16, AtomicU64, Ordering};

use memprof_trace::layout::sample;

use crate::base::component::{Component, LIMIT};
use crate::base::kernel::{self, File, SignalsBlocked};
use crate::base::lock::SpinLock;
use crate::base::thread::Guard;
use crate::ledger::heap;
use crate::recording::{phases, writer};

pub use release::before_release;
use state::Sampler;
use status::has_relatives;
pub use thread::{prepare_sampler, start};

struct Shared(UnsafeCell<Sampler>);

// SAFETY: accessed only while LOCK is held.
unsafe impl Sync for Shared {}

static SAMPLER: Shared = Shared(UnsafeCell::new(Sampler::new()));
/// Held while a sample is taken; threads that wait for it sleep.
static LOCK: SpinLock = SpinLock::new();

/// Resident bytes now and at the peak, and the time, for readers without the lock.
struct Seen {
    resident: AtomicU64,
    peak: AtomicU64,
}

static SEEN: [Seen; LIMIT] =
    [const { Seen { resident: AtomicU64::new(0), peak: AtomicU64::new(0) } }; LIMIT];
static TOTAL: Seen = Seen { resident: AtomicU64::new(0), peak: AtomicU64::new(0) };
static SEEN_TIME: AtomicU64 = AtomicU64::new(0);

/// Resident bytes at the last full sample and at the peak.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct Resident {
    pub now: u64,
    pub peak: u64,
}

/// Returns the resident bytes of a component at the last full sample, and their peak.
pub fn resident(component: Component) -> Resident {
    let seen = &SEEN[usize::from(component.0) % LIMIT];
    Resident { now: seen.resident.load(Ordering::Relaxed), peak: seen.peak.load(Ordering::Relaxed) }
}

/// Returns the same as [`resident`] for all components together.
pub fn total() -> Resident {
    Resident {
        now: TOTAL.resident.load(Ordering::Relaxed),
        peak: TOTAL.peak.load(Ordering::Relaxed),
    }
}

/// Returns the time of the last full sample in nanoseconds since the trace began.
pub fn seen_time() -> u64 {
    SEEN_TIME.load(Ordering::Relaxed)
}

/// True after the first use, when the sampler is no longer in its initial state.
static TOUCHED: AtomicBool = AtomicBool::new(false);

/// Runs `work` on the sampler. Signals are blocked: a handler that leaves by longjmp would leave
/// the lock taken.
fn with<R>(work: impl FnOnce(&mut Sampler) -> R) -> R {
    let _guard = Guard::enter();
    let _signals = SignalsBlocked::enter();
    with_signals_blocked(work)
}

/// Does what [`with`] does, for a thread that has blocked signals already: to do so again takes two
/// system calls.
fn with_signals_blocked<R>(work: impl FnOnce(&mut Sampler) -> R) -> R {
    LOCK.lock();
    TOUCHED.store(true, Ordering::Relaxed);
    // SAFETY: the lock is held.
    let result = work(unsafe { &mut *SAMPLER.0.get() });
    LOCK.unlock();
    result
}

/// Calls `each` with every mapping of the process.
pub fn each_mapping(file: File, each: &mut dyn FnMut(&maps::Line<'_>)) {
    let mut text = [0; 8192];
    let mut lines = maps::Lines::new(&mut text);
    let mut offset = 0;
    let mut read = |into: &mut [u8]| {
        let count = kernel::read_at(file, into, offset).unwrap_or(0);
        offset += count as u64;
        count
    };
    while let Some(line) = lines.next(&mut read) {
        if let Some(line) = maps::parse(line) {
            each(&line);
        }
    }
}

/// Takes a sample now, in this thread. Returns false if none is taken.
pub fn request() -> bool {
    writer::is_recording()
        && with(|sampler| {
            sampler.full(sample::ASKED);
            sampler.is_ready() && !phases::paused()
        })
}

/// Takes a sample before the process ends, if there is budget for it in addition to the last one.
pub fn ending() {
    if writer::is_recording() {
        with(|sampler| {
            let resident = sampler.kernel_resident();
            if sampler.affordable(resident) {
                sampler.full(sample::ASKED);
            }
        });
    }
}

/// Takes a sample if memory may be resident that no sample has seen: the process may be gone
/// afterwards.
pub fn leaving() {
    if writer::is_recording() {
        with(|sampler| {
            let seen = sampler.last.resident;
            let resident = sampler.kernel_resident();
            let much = resident > seen + (seen / 20).max(SMALLEST_GROWTH);
            if sampler.may_overdraw() && (much || kernel::most_resident() > resident) {
                sampler.full(sample::ASKED);
            }
        });
    }
}

/// Minimum growth that is worth a sample when the process leaves.
const SMALLEST_GROWTH: u64 = 256 << 10;

/// Takes the last sample, when the process ends normally. No other follows.
pub fn last() {
    if writer::is_recording() {
        crate::sampling::faults::read_rings();
        with(|sampler| {
            sampler.full(sample::LAST);
            let began = kernel::thread_time();
            sampler.published.sites();
            // The cost of the sample itself is in the summary that is written after it.
            sampler.charge(kernel::thread_time().saturating_sub(began));
            sampler.publish();
            sampler.stop();
        });
    }
}

/// Functions that phases call ([`phases::start`]).
pub static PHASES: phases::Sampling = phases::Sampling {
    known: phase_known,
    edge: phase_edge,
    peaks: phase_peaks,
    unwritten: unwritten_phases,
    total: phase_total,
    request,
};

/// Function that the heap calls before it releases a large block
/// ([`crate::ledger::heap::on_release`]).
pub static BEFORE_RELEASE: heap::BeforeRelease = before_release;

/// Parent of each phase when it first began.
static PARENTS: [AtomicU16; peaks::PHASES] = [const { AtomicU16::new(u16::MAX) }; peaks::PHASES];

/// Phases that the profiler defines, as one bit for each.
static AUTOMATIC: AtomicU64 = AtomicU64::new(0);

const _: () = assert!(peaks::PHASES <= 64);

/// Records a new phase.
fn phase_known(index: u16, parent: u16, is_automatic: bool) {
    if let Some(place) = PARENTS.get(usize::from(index)) {
        place.store(parent, Ordering::Relaxed);
        AUTOMATIC.fetch_or(u64::from(is_automatic) << index, Ordering::Relaxed);
    }
}

fn is_automatic(phase: u16) -> bool {
    phase < 64 && AUTOMATIC.load(Ordering::Relaxed) >> phase & 1 == 1
}

fn parent(phase: u16) -> u16 {
    PARENTS.get(usize::from(phase)).map_or(u16::MAX, |place| place.load(Ordering::Relaxed))
}

/// Handles the begin or end of a phase. Called where phases change, with signals blocked.
fn phase_edge(index: u16, begins: bool) {
    if writer::is_recording() {
        with_signals_blocked(|sampler| sampler.phase_edge(index, begins));
    }
}

/// Calls `work` with the highest resident bytes of each component in a phase, if they have
/// increased or with `anyway`, so that they are written. For a phase that is open or has just
/// ended, the present bytes are included. Called where phases change, with signals blocked.
fn phase_peaks(index: u16, is_open: bool, anyway: bool, work: &mut dyn FnMut(&[u64; LIMIT])) {
    if writer::is_recording() {
        with_signals_blocked(|sampler| {
            let (resident, is_more) = sampler.phase_resident(index, is_open);
            if anyway || is_more {
                work(resident);
            }
        });
    }
}

/// Returns the phases with sampled peaks that are not written yet: one bit for each.
fn unwritten_phases() -> u64 {
    let mut unwritten = 0;
    if writer::is_recording() {
        with(|sampler| unwritten = sampler.phases.unwritten());
    }
    unwritten
}

/// Returns the highest resident bytes of the process at a sample in a phase; 0 where none was
/// taken.
fn phase_total(index: u16) -> u64 {
    let mut total = 0;
    if writer::is_recording() {
        with(|sampler| total = sampler.phases.total(index));
    }
    total
}

/// Records that the process has forked and that `all` children are recorded, or some. Until the
/// next sample, any page of the process may also be the child's.
pub fn has_forked(all: bool) {
    has_relatives(all);
    if writer::is_recording() {
        with(|sampler| {
            let resident = sampler.record.head.walked;
            sampler.last.beyond = resident;
            writer::with(|writer, _| writer.beyond_share(0, resident));
        });
    }
}

/// Returns the lock, for [`crate::lifecycle::fork`].
pub fn lock() -> &'static SpinLock {
    &LOCK
}

/// Resets the sampler in the child of a fork, which has no other thread.
pub fn forget() {
    // Otherwise nothing is written: the child, which is often about to start a program, would get
    // copies of the pages.
    if TOUCHED.swap(false, Ordering::Relaxed) {
        // SAFETY: the only thread of the process, and the lock is held since before the fork.
        unsafe { (*SAMPLER.0.get()).forget() };
    }
    SEEN_TIME.store(0, Ordering::Relaxed);
    thread::forget();
}
