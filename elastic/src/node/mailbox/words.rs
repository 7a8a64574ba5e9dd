#![allow(unsafe_code)]
//! The words of a node in shared memory.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};
use std::time::Duration;

use quo::node::SharedMemory;
use rustix::thread::futex;

use crate::model::round::{Signal, Slot};
use crate::observe::measured::{LOOPS, LoopFigures};

/// Size of the mailbox in bytes.
pub(super) const MAIL_BYTES: usize = 256 * 1024;
const LINE: usize = 128;

/// Words that all processes of the node use.
#[repr(C, align(128))]
struct Common {
    signal: Signal<AtomicU64>,
    _apart: [u64; LINE / 8 - 1],
    mail_bytes: AtomicU64,
    loss: AtomicU32,
    said: AtomicU32,
    _rest: [u32; LINE / 4 - 4],
}

/// Words of one process.
#[repr(C, align(128))]
struct Own {
    slot: Slot<AtomicU64>,
    _apart: [u64; LINE / 8 - 1],
    bell: AtomicU32,
    ready: AtomicU32,
    seat: AtomicU32,
    _rest: [u32; LINE / 4 - 3],
    loops: LoopWords,
}

/// Figures of a process's loops, which only that process writes.
#[repr(C, align(128))]
struct LoopWords {
    /// Odd while the figures are being written.
    version: AtomicU64,
    /// The epoch of the figures, plus one.
    epoch: AtomicU64,
    count: AtomicU64,
    figures: [[AtomicU64; 6]; LOOPS],
}

/// The words of a node: the common words and the mailbox are at the beginning of the first
/// process's part.
#[derive(Debug)]
pub(super) struct Words {
    memory: SharedMemory,
}

const COMMON: usize = size_of::<Common>() + MAIL_BYTES;

impl Words {
    /// Size in bytes of the shared memory that a process contributes.
    pub(super) fn bytes(node_rank: usize) -> usize {
        size_of::<Own>() + if node_rank == 0 { COMMON } else { 0 }
    }

    /// Returns the words in memory to which every process has contributed its
    /// [`bytes`](Self::bytes).
    pub(super) fn of(memory: SharedMemory, processes: usize) -> Option<Self> {
        let right = memory.all().len() == COMMON + processes * size_of::<Own>()
            && memory.all().as_ptr().addr().is_multiple_of(align_of::<Common>());
        right.then_some(Self { memory })
    }

    fn common(&self) -> &Common {
        // SAFETY: the memory begins with this struct, aligned and zeroed, is mapped as long as
        // `self` lives, and is only used through atomics.
        unsafe { &*self.memory.all().as_ptr().cast::<Common>() }
    }

    fn own(&self, member: usize) -> &Own {
        let all = self.memory.all();
        let at = COMMON + member * size_of::<Own>();
        assert!(at + size_of::<Own>() <= all.len(), "the node has no process {member}");
        // SAFETY: inside the memory, a multiple of the alignment from its beginning; else as above.
        unsafe { &*all.as_ptr().add(at).cast::<Own>() }
    }

    pub(super) fn signal(&self) -> &Signal<AtomicU64> {
        &self.common().signal
    }

    pub(super) fn slot(&self, member: usize) -> &Slot<AtomicU64> {
        &self.own(member).slot
    }

    pub(super) fn bell(&self, member: usize) -> &AtomicU32 {
        &self.own(member).bell
    }

    /// Lower half of the number of the last resize that this process was ready to join.
    pub(super) fn ready(&self, member: usize) -> &AtomicU32 {
        &self.own(member).ready
    }

    /// The rank because of which the job is ended, plus one; or 0.
    pub(super) fn loss(&self) -> &AtomicU32 {
        &self.common().loss
    }

    /// 1 once a process has reported why the job ends.
    pub(super) fn said(&self) -> &AtomicU32 {
        &self.common().said
    }

    /// The [`Seat`](super::Seat) of this process, encoded.
    pub(super) fn seat(&self, member: usize) -> &AtomicU32 {
        &self.own(member).seat
    }

    /// Writes the loops of this process.
    pub(super) fn write_loops(&self, own: usize, epoch: u64, loops: &[LoopFigures]) {
        let words = &self.own(own).loops;
        let version = words.version.load(Ordering::Relaxed);
        words.version.store(version + 1, Ordering::Relaxed);
        fence(Ordering::Release);
        words.epoch.store(epoch + 1, Ordering::Relaxed);
        words.count.store(loops.len().min(LOOPS) as u64, Ordering::Relaxed);
        for (words, of) in words.figures.iter().zip(loops) {
            let LoopFigures { id, iterations, elapsed, mpi, recent_elapsed, recent_mpi } = *of;
            let values = [id, iterations, elapsed, mpi, recent_elapsed, recent_mpi];
            words.iter().zip(values).for_each(|(word, value)| word.store(value, Ordering::Relaxed));
        }
        words.version.store(version + 2, Ordering::Release);
    }

    /// Reads the loops of a process; `None` if it has published none in this epoch, or keeps
    /// writing them.
    pub(super) fn read_loops(&self, member: usize, epoch: u64) -> Option<Vec<LoopFigures>> {
        const ATTEMPTS: usize = 1000;
        let words = &self.own(member).loops;
        for _ in 0..ATTEMPTS {
            let version = words.version.load(Ordering::Acquire);
            let is_of = words.epoch.load(Ordering::Relaxed) == epoch + 1;
            let count = usize::try_from(words.count.load(Ordering::Relaxed)).unwrap_or(0);
            let loops = words.figures.iter().take(count).map(|words| {
                let [id, iterations, elapsed, mpi, recent_elapsed, recent_mpi] =
                    words.each_ref().map(|word| word.load(Ordering::Relaxed));
                LoopFigures { id, iterations, elapsed, mpi, recent_elapsed, recent_mpi }
            });
            let loops: Vec<_> = loops.collect();
            fence(Ordering::Acquire);
            if version.is_multiple_of(2) && words.version.load(Ordering::Relaxed) == version {
                return is_of.then_some(loops);
            }
            std::hint::spin_loop();
        }
        None
    }

    pub(super) fn rings(&self, member: usize) -> u32 {
        self.bell(member).load(Ordering::Acquire)
    }

    pub(super) fn count_ring(&self, member: usize) -> &AtomicU32 {
        let bell = self.bell(member);
        bell.fetch_add(1, Ordering::AcqRel);
        bell
    }

    /// Returns the half of the signal that the kernel compares: all ones while it is raised.
    pub(super) fn signal_half(&self) -> &AtomicU32 {
        let index = if cfg!(target_endian = "little") { 0 } else { 1 };
        // SAFETY: inside the word, which outlives the result; the reference is only handed to the kernel.
        unsafe { &*std::ptr::from_ref(self.signal().word()).cast::<AtomicU32>().add(index) }
    }

    fn mailbox(&self) -> *mut u8 {
        // SAFETY: the mailbox follows the common words.
        unsafe { self.memory.all().as_ptr().add(size_of::<Common>()) }
    }

    /// Writes the mail and returns true if it fits. Only the agent writes, and only while no
    /// process reads: before it rings or signals.
    pub(super) fn write_mail(&self, order: &[u8]) -> bool {
        if order.len() > MAIL_BYTES {
            return false;
        }
        // SAFETY: the mailbox has room; readers wait for the agent's next step.
        unsafe { std::ptr::copy_nonoverlapping(order.as_ptr(), self.mailbox(), order.len()) };
        self.common().mail_bytes.store(order.len() as u64, Ordering::Release);
        true
    }

    pub(super) fn read_mail(&self) -> Vec<u8> {
        let bytes = self.common().mail_bytes.load(Ordering::Acquire);
        let bytes = usize::try_from(bytes).unwrap_or(0).min(MAIL_BYTES);
        // SAFETY: inside the mailbox, which the agent does not write to before all have read.
        unsafe { std::slice::from_raw_parts(self.mailbox(), bytes) }.to_vec()
    }
}

/// Sleeps while the word holds `seen`, for at most `at_most`.
pub(super) fn sleep(word: &AtomicU32, seen: u32, at_most: Duration) {
    let timeout = rustix::time::Timespec {
        tv_sec: i64::try_from(at_most.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: i64::from(at_most.subsec_nanos()),
    };
    // The caller checks the word again for any result.
    let _ = futex::wait(word, futex::Flags::empty(), seen, Some(&timeout));
}

/// Wakes all sleepers.
pub(super) fn wake(word: &AtomicU32) {
    // An error cannot occur for a mapped, aligned word.
    let _ = futex::wake(word, futex::Flags::empty(), i32::MAX.unsigned_abs());
}
