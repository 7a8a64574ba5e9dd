//! CPUs of the threads of a region while the rank borrows: as many threads as the rank has CPUs
//! stay on these, and each further one starts the region on a borrowed CPU. Left to itself, the
//! kernel keeps two threads on one CPU for milliseconds if the polls of a lender interrupt the
//! other's idleness.
//!
//! A thread that waits behind the owner of its CPU holds up the whole region, so owners that return
//! move such threads away, by a table of all ranks in shared memory: where the kernel would move
//! them, it does so at its next tick.
//!
//! Threads place themselves when a region starts, and the main thread brings them back to its own
//! CPUs between regions. Shared words instead of locks: a forked child finds none that is held.
#![allow(unsafe_code)]

use std::cell::Cell;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicI32, AtomicU32, AtomicU64, AtomicUsize, Ordering};

use quo::SharedMemory;
use quo::affinity::kernel::mask_of;
use quo::affinity::{Backend as _, CALLER, Kernel};
use quo::cpuset::CpuSet;

/// Threads and borrowed CPUs that are considered; further ones stay on the rank's own CPUs.
const MOST: usize = 1_024;

/// Number of the current loan, or of the next one while [`BORROWED`] is 0.
static LOAN: AtomicU64 = AtomicU64::new(1);
/// Number of CPUs of the rank itself, and number of borrowed ones.
static OWN: AtomicUsize = AtomicUsize::new(1);
static BORROWED: AtomicUsize = AtomicUsize::new(0);
static CPUS: [AtomicU32; MOST] = [const { AtomicU32::new(0) }; MOST];
/// Threads bound in the current loan, by their numbers in the region; 0 for none.
static BOUND: [AtomicI32; MOST] = [const { AtomicI32::new(0) }; MOST];
/// Kernel's number of the main thread.
static MAIN: AtomicI32 = AtomicI32::new(0);

/// Table of the ranks: two words of namespaces, and for each CPU the process and the thread that
/// borrows it; 0 for none.
static TABLE: OnceLock<SharedMemory> = OnceLock::new();
const NAMESPACES: usize = 2;
/// Bytes of the table.
pub const TABLE_BYTES: usize = (NAMESPACES + MOST) * size_of::<AtomicU64>();

thread_local! {
    /// Loan in which this thread was bound, and its CPU.
    static PLACE: Cell<(u64, usize)> = const { Cell::new((0, 0)) };
}

fn kernel() -> Option<&'static Kernel> {
    static KERNEL: OnceLock<Option<Kernel>> = OnceLock::new();
    KERNEL.get_or_init(|| Kernel::new().ok()).as_ref()
}

/// Keeps the table of the ranks, which all of them share. Ranks that number threads in different
/// namespaces do not use it.
pub fn share(table: SharedMemory) {
    let table = TABLE.get_or_init(|| table);
    let namespace = std::fs::metadata("/proc/self/ns/pid").map_or(0, |file| file.ino());
    if let Some([first, differ, ..]) = words(table) {
        let before = first.compare_exchange(0, namespace, Ordering::AcqRel, Ordering::Acquire);
        let is_same = namespace != 0 && before.err().is_none_or(|other| other == namespace);
        differ.fetch_or(u64::from(!is_same), Ordering::AcqRel);
    }
}

fn words(table: &SharedMemory) -> Option<&[AtomicU64]> {
    let view = table.all();
    let is_whole = view.len() >= TABLE_BYTES && view.as_ptr().cast::<AtomicU64>().is_aligned();
    // SAFETY: aligned words of memory that lives as long as the table; all ranks use them as
    // atomic words only.
    is_whole.then(|| unsafe {
        std::slice::from_raw_parts(view.as_ptr().cast(), TABLE_BYTES / size_of::<AtomicU64>())
    })
}

/// Returns the words of all CPUs, if the ranks number threads alike.
fn borrowers() -> Option<&'static [AtomicU64]> {
    let (namespaces, cpus) = words(TABLE.get()?)?.split_at(NAMESPACES);
    (namespaces[1].load(Ordering::Acquire) == 0).then_some(cpus)
}

/// Returns the word that names a thread of this process.
fn name(thread: i32) -> u64 {
    u64::from(std::process::id()) << 32 | u64::from(thread.unsigned_abs())
}

/// Moves the threads of borrowers away from this rank's CPUs, to the other CPUs that they may use.
/// Called by an owner that returns.
pub fn evict() {
    let (Some(table), Some(kernel)) = (borrowers(), kernel()) else { return };
    let Ok(own) = kernel.mask(CALLER) else { return };
    for cpu in own.iter().take_while(|cpu| *cpu < MOST) {
        let word = table[cpu].swap(0, Ordering::AcqRel);
        let (process, thread) = ((word >> 32) as i32, word as u32 as i32);
        // A number may have passed on to a thread of another process, and a thread may have been
        // bound anew.
        if word != 0
            && is_thread(process, thread)
            && let Ok(mask) = mask_of(thread)
            && mask.contains(cpu)
        {
            let rest = mask.difference(&CpuSet::single(cpu));
            if !rest.is_empty() {
                let _ = kernel.set_mask(thread, &rest);
            }
        }
    }
}

fn is_thread(process: i32, thread: i32) -> bool {
    // SAFETY: signal 0 is not sent; the kernel only looks the thread up.
    unsafe { libc::syscall(libc::SYS_tgkill, process, thread, 0) == 0 }
}

/// Begins a loan of `cpus` to a rank with `own` CPUs. Main thread, outside regions.
pub fn begin(own: usize, cpus: &CpuSet) {
    let Some(kernel) = kernel() else { return };
    let mut count = 0;
    for (cpu, word) in cpus.iter().zip(&CPUS) {
        word.store(u32::try_from(cpu).unwrap_or(u32::MAX), Ordering::Relaxed);
        count += 1;
    }
    MAIN.store(kernel.caller(), Ordering::Relaxed);
    OWN.store(own, Ordering::Relaxed);
    BORROWED.store(count, Ordering::Release);
}

/// Ends the loan: brings the bound threads back to the CPUs of the main thread, which is the
/// caller, outside regions.
pub fn end() {
    let count = BORROWED.swap(0, Ordering::Relaxed);
    LOAN.fetch_add(1, Ordering::Relaxed);
    let Some(kernel) = kernel().filter(|_| count > 0) else { return };
    let cpus: Vec<usize> = CPUS[..count].iter().map(cpu).collect();
    let table = borrowers().unwrap_or_default();
    for word in &BOUND {
        let thread = word.load(Ordering::Relaxed);
        if thread == 0 {
            continue;
        }
        word.store(0, Ordering::Relaxed);
        for word in cpus.iter().filter_map(|cpu| table.get(*cpu)) {
            let _ = word.compare_exchange(name(thread), 0, Ordering::Relaxed, Ordering::Relaxed);
        }
        // A thread that has ended, or was bound by the program since, is left alone.
        if kernel.are_all_here(&[thread])
            && let Ok(mask) = kernel.mask(thread)
            && let Ok(own) = kernel.mask(CALLER)
            && cpus.iter().any(|cpu| mask == own.union(&CpuSet::single(*cpu)))
        {
            let _ = kernel.set_mask(thread, &own);
        }
    }
}

fn cpu(word: &AtomicU32) -> usize {
    word.load(Ordering::Relaxed) as usize
}

/// Gives the calling thread, number `number` of `team`, its place in the region that starts.
pub fn take(number: usize, team: usize) {
    let borrowed = BORROWED.load(Ordering::Acquire);
    if borrowed == 0 || number == 0 || number >= MOST {
        return;
    }
    let loan = LOAN.load(Ordering::Relaxed);
    let before = PLACE.get();
    let before = (before.0 == loan).then_some(before.1);
    let place = borrowed_place(number, team, OWN.load(Ordering::Relaxed), borrowed);
    let place = place.map(|place| cpu(&CPUS[place]));
    // SAFETY: no arguments.
    let is_there = || place.is_none_or(|cpu| unsafe { libc::sched_getcpu() } as usize == cpu);
    if (place != before || !is_there())
        && let Ok(true) = bind(number, place, before.is_some())
    {
        PLACE.set(place.map_or((0, 0), |cpu| (loan, cpu)));
    }
}

/// Moves the calling thread to a borrowed CPU, or to the CPUs of the main thread. Returns false if
/// the program has bound the thread.
fn bind(number: usize, place: Option<usize>, is_bound: bool) -> io::Result<bool> {
    let Some(kernel) = kernel() else { return Ok(false) };
    let own = mask_of(MAIN.load(Ordering::Relaxed))?;
    if !is_bound && kernel.mask(CALLER)? != own {
        return Ok(false);
    }
    // First the list: a thread that is on it without being bound is left alone.
    BOUND[number].store(kernel.caller(), Ordering::Relaxed);
    let Some(cpu) = place.map(CpuSet::single) else {
        kernel.set_mask(CALLER, &own)?;
        return Ok(true);
    };
    // The narrow mask moves the thread, the wide one lets it leave.
    kernel.set_mask(CALLER, &cpu)?;
    kernel.set_mask(CALLER, &own.union(&cpu))?;
    let table = borrowers().unwrap_or_default();
    if let Some(word) = cpu.first().and_then(|cpu| table.get(cpu)) {
        word.store(name(kernel.caller()), Ordering::Release);
    }
    Ok(true)
}

/// Returns the index of the borrowed CPU for a thread; `None` for a thread that stays on the rank's
/// `own` CPUs. More threads than CPUs share them evenly. Pure.
fn borrowed_place(number: usize, team: usize, own: usize, borrowed: usize) -> Option<usize> {
    let places = own + borrowed;
    let place = if team <= places { number } else { number * places / team };
    place.checked_sub(own).filter(|place| *place < borrowed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn further_threads_have_a_borrowed_cpu_each() {
        let all = |team: usize, own, borrowed| {
            (0..team).map(|number| borrowed_place(number, team, own, borrowed)).collect::<Vec<_>>()
        };
        assert_eq!(all(3, 1, 2), [None, Some(0), Some(1)]);
        assert_eq!(all(3, 4, 2), [None, None, None]);
        assert_eq!(all(4, 1, 1), [None, None, Some(0), Some(0)]);
        assert_eq!(all(2, 1, 0), [None, None]);
    }
}
