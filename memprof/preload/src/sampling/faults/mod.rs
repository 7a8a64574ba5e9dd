//! First touches of memory, reported by the kernel: an event for every page fault, if requested.
//!
//! Each thread has a ring that the kernel writes into. The sampler reads all rings every few
//! milliseconds and before large releases. The owner of a page is looked up then in the ledgers.
//! Its toucher is the object of the instruction or, in neutral code and in the kernel, the first
//! caller on the stack that is not neutral. Without the option, none of this is active, and no hot
//! path checks for it.

#![allow(unsafe_code)]

mod matrix;
mod perf;
mod ring;

use core::cell::UnsafeCell;
use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use memprof_trace::layout::{NONE_SHORT, TouchRow, flags};

use crate::base::component::Component;
use crate::base::diagnostics::{self, Code};
use crate::base::dictionary;
use crate::base::kernel::SignalsBlocked;
use crate::base::lock::SpinLock;
use crate::base::pagemap::{Run, Scanner};
use crate::base::thread::{Guard, local};
use crate::base::{kernel, memory};
use crate::ledger::{heap, ranges};
use crate::owners;
use crate::recording::{mpi_position, writer};
use perf::Ring;
use ring::Fault;

/// Time between two reads of the rings, in nanoseconds.
pub const INTERVAL: u64 = 2_000_000;
/// Maximum number of watched threads.
const THREADS: usize = 64;
/// Bytes for events of the main thread, which touches most memory, and of the others.
const MAIN_BYTES: usize = 2 << 20;
const THREAD_BYTES: usize = 256 << 10;
/// Maximum number of large blocks distinguished in one read.
const BLOCKS: usize = 16384;
const HUGE_PAGE: usize = 2 << 20;

/// A watched thread.
#[derive(Copy, Clone)]
struct Watched {
    ring: Ring,
    /// Address of the thread's `Local`, which may no longer exist.
    local: usize,
    /// MPI function in which the thread was last seen.
    function: usize,
}

/// A large block: start, end, owner.
#[derive(Copy, Clone)]
struct Block {
    start: usize,
    end: usize,
    owner: Component,
}

struct Faults {
    threads: [Option<Watched>; THREADS],
    count: usize,
    matrix: matrix::Matrix,
    blocks: Option<&'static mut [Block]>,
    block_count: usize,
    scanner: Option<Scanner>,
    /// True if the kernel may make huge pages; and the last region that was checked for one.
    huge: bool,
    huge_region: usize,
    /// An address near the top of the main thread's stack.
    stack: usize,
    seen: u64,
    lost: u64,
}

struct Shared(UnsafeCell<Faults>);

// SAFETY: accessed only while LOCK is held.
unsafe impl Sync for Shared {}

static ALL: Shared = Shared(UnsafeCell::new(Faults {
    threads: [None; THREADS],
    count: 0,
    matrix: matrix::Matrix::new(),
    blocks: None,
    block_count: 0,
    scanner: None,
    huge: false,
    huge_region: 0,
    stack: 0,
    seen: 0,
    lost: 0,
}));
static LOCK: SpinLock = SpinLock::new();
static ON: AtomicBool = AtomicBool::new(false);
/// Number of threads whose faults are not reported.
static UNWATCHED: AtomicUsize = AtomicUsize::new(0);

/// Runs `work` under the lock. Signals are blocked: a handler that leaves by longjmp would leave
/// the lock taken.
fn with<R>(work: impl FnOnce(&mut Faults) -> R) -> R {
    let _guard = Guard::enter();
    let _signals = SignalsBlocked::enter();
    LOCK.lock();
    // SAFETY: the lock is held, and `work` does not call this function again.
    let result = work(unsafe { &mut *ALL.0.get() });
    LOCK.unlock();
    result
}

/// Returns true if faults are reported.
#[inline]
pub fn is_on() -> bool {
    ON.load(Ordering::Relaxed)
}

/// Starts to watch faults, beginning with this thread, which is the main one.
pub fn start() {
    if ON.load(Ordering::Acquire) {
        return;
    }
    let ring = match perf::watch(MAIN_BYTES) {
        Ok(ring) => ring,
        Err(kernel::Errno(error)) => {
            diagnostics::say(
                Code::NoFaults,
                format_args!(
                    "the kernel does not tell of page faults (error {error}; \
                     kernel.perf_event_paranoid must be at most 2)"
                ),
            );
            return;
        }
    };
    with(|faults| {
        // SAFETY: all zeros is an empty block.
        faults.blocks = unsafe { memory::slice(BLOCKS) };
        faults.scanner = Scanner::open().ok();
        let mut text = [0; 64];
        let setting = c"/sys/kernel/mm/transparent_hugepage/enabled";
        let setting = kernel::read_path(setting, &mut text).unwrap_or(b"");
        faults.huge = !setting.is_empty() && !setting.windows(7).any(|word| word == b"[never]");
        // SAFETY: only reads a number.
        faults.stack = unsafe { libc::getauxval(libc::AT_RANDOM) } as usize;
        faults.add(ring);
    });
    writer::flags(flags::FAULTS, 0);
    ON.store(true, Ordering::Release);
}

/// Starts to watch the calling thread, which has just begun.
pub fn thread_begins() {
    if !is_on() {
        return;
    }
    let _guard = Guard::enter();
    let room = with(|faults| faults.count < THREADS);
    match room.then(|| perf::watch(THREAD_BYTES)) {
        Some(Ok(ring)) => with(|faults| faults.add(ring)),
        _ => {
            UNWATCHED.fetch_add(1, Ordering::Relaxed);
            diagnostics::say(
                Code::NoFaults,
                format_args!("page faults of some threads are not told: there is no room for more"),
            );
        }
    }
}

/// Reads all rings.
pub fn read_rings() {
    if is_on() {
        with(Faults::read_rings);
    }
}

/// Calls `each` with the changes since the last call; `intern` gives functions their numbers in the
/// trace. Returns the numbers of faults seen and lost.
pub fn changes(each: &mut dyn FnMut(u32, &TouchRow, &'static str)) -> (u64, u64) {
    if !is_on() {
        return (0, 0);
    }
    with(|faults| {
        faults.matrix.changes(&mut |index, cell| {
            let row = TouchRow {
                owner: cell.owner.0,
                toucher: cell.toucher,
                faults: cell.faults,
                bytes: cell.bytes,
                ..TouchRow::default()
            };
            each(index as u32, &row, mpi_position::function_name(cell.function));
        });
        (faults.seen, faults.lost + faults.matrix.left_out)
    })
}

/// Forgets everything, in the child of a fork, which watches nothing until it starts again.
pub fn forget() {
    // SAFETY: the only thread of the process, and the lock is held since before the fork.
    let faults = unsafe { &mut *ALL.0.get() };
    if !ON.swap(false, Ordering::AcqRel) {
        return;
    }
    // The rings exist in the parent only: the kernel does not copy their mappings.
    faults.threads = [None; THREADS];
    if let Some(scanner) = faults.scanner.take() {
        scanner.close();
    }
    (faults.count, faults.seen, faults.lost) = (0, 0, 0);
    faults.matrix.forget();
}

/// Returns the lock, for [`crate::lifecycle::fork`].
pub fn lock() -> &'static SpinLock {
    &LOCK
}

impl Faults {
    fn add(&mut self, ring: Ring) {
        if let Some(place) = self.threads.get_mut(self.count) {
            let local = core::ptr::from_ref(local()) as usize;
            *place = Some(Watched { ring, local, function: 0 });
            self.count += 1;
        }
    }

    fn read_rings(&mut self) {
        let mut looked = false;
        for index in 0..self.count {
            let Some(mut watched) = self.threads[index] else { continue };
            let mut now = None;
            let seen = watched.ring.take(&mut |fault| {
                if !looked {
                    looked = true;
                    self.note_blocks();
                }
                let now = *now.get_or_insert_with(|| function(watched.local));
                if now != 0 {
                    watched.function = now;
                }
                self.fault(fault, watched.function);
            });
            self.seen += seen.faults;
            self.lost += seen.lost;
            self.threads[index] = Some(watched);
        }
    }

    fn fault(&mut self, fault: &Fault, function: usize) {
        let toucher = toucher(fault);
        let in_mpi = toucher.is_some_and(|toucher| dictionary::class(toucher).is_mpi());
        let owner = self.owner(fault.address);
        let bytes = self.bytes(fault.address);
        let toucher = toucher.map_or(NONE_SHORT, |toucher| toucher.0);
        self.matrix.add(owner, toucher, if in_mpi { function } else { 0 }, bytes);
    }

    /// Records the present large blocks in ascending order of address.
    fn note_blocks(&mut self) {
        let Some(blocks) = &mut self.blocks else { return };
        let mut count = 0;
        heap::each_large(&mut |start, length, owner| {
            if count < blocks.len() {
                blocks[count] = Block { start, end: start + length, owner };
                count += 1;
            }
        });
        blocks[..count].sort_unstable_by_key(|block| block.start);
        self.block_count = count;
    }

    fn owner(&self, address: usize) -> Component {
        if memory::next(address).is_some_and(|(start, _)| start <= address) {
            return Component::TOOL;
        }
        if let Some(blocks) = &self.blocks {
            let blocks = &blocks[..self.block_count];
            let before = blocks.partition_point(|block| block.start <= address);
            // The first page of a block also holds the data that the allocator keeps before it.
            let page = address & !(kernel::page() - 1);
            let beside = blocks.get(before).filter(|block| block.start < page + kernel::page());
            let block = before.checked_sub(1).map(|index| blocks[index]);
            let block = block.filter(|block| address < block.end).or(beside.copied());
            if let Some(block) = block {
                return block.owner;
            }
        }
        let page = address & !(kernel::page() - 1);
        let mut most = (0, Component::SLACK);
        heap::share(page, page + kernel::page(), &mut |owner, bytes| {
            most = if bytes > most.0 { (bytes, owner) } else { most };
        });
        if most.0 > 0 {
            return most.1;
        }
        if let Some(piece) = ranges::next(address).filter(|piece| piece.start <= address) {
            return piece.owner;
        }
        if let Some(object) = owners::component_at(address) {
            return object;
        }
        // The main thread's stack grows down from there; the range is far larger than any stack may
        // be.
        if (self.stack.saturating_sub(1 << 30)..self.stack + (1 << 20)).contains(&address) {
            return Component::MAIN_STACK;
        }
        if heap::knows(page) { Component::SLACK } else { Component::UNATTRIBUTED }
    }

    /// Returns the bytes that became resident: a page, or a huge page where this is its first
    /// fault.
    fn bytes(&mut self, address: usize) -> u64 {
        let page = kernel::page() as u64;
        let region = address & !(HUGE_PAGE - 1);
        let is_new = self.huge && region != self.huge_region;
        let Some(scanner) = self.scanner.as_mut().filter(|_| is_new) else { return page };
        self.huge_region = region;
        let mut runs = [Run::EMPTY; 2];
        let found = scanner.next(region, region + HUGE_PAGE, false, &mut runs);
        let whole = |run: &Run| {
            run.is_huge() && run.start <= region as u64 && run.end >= (region + HUGE_PAGE) as u64
        };
        match found {
            Ok((1.., _)) if whole(&runs[0]) => HUGE_PAGE as u64,
            _ => page,
        }
    }
}

/// Returns the component with the code that touched the page.
fn toucher(fault: &Fault) -> Option<Component> {
    let own = |address: usize| {
        let component = owners::component_at(address)?;
        let caller = owners::caller(address);
        Some((component, caller.neutral))
    };
    let direct = if fault.in_kernel { None } else { own(fault.instruction) };
    match direct {
        Some((component, false)) => Some(component),
        _ => {
            let stack = fault.stack[..fault.stack_words].iter();
            let mut callers = stack.filter_map(|address| own(*address));
            let caller = callers.find(|caller| !caller.1).map(|caller| caller.0);
            caller
                .or(direct.map(|direct| direct.0))
                .or(fault.in_kernel.then_some(Component::KERNEL))
        }
    }
}

/// Returns the MPI function that a thread is in, read from its `Local` at this address, which may
/// be gone.
fn function(local: usize) -> usize {
    let mut word = [0; 8];
    if kernel::peek(local, &mut word) { usize::from_le_bytes(word) } else { 0 }
}
