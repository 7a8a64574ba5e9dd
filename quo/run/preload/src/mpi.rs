//! Entries of MPI: its blocking calls, in which a rank may lend, and the yield by which MPI shows
//! that it has found nothing to do.
//!
//! Open MPI is configured to yield when idle (`mpi_yield_when_idle`). In a blocking call each yield
//! of the main thread becomes a sleep, once the call has waited for some time: so every blocking
//! call gives up the CPU, including collective ones, and MPI's own algorithms stay as they are.

#![allow(unsafe_code)]

use core::ffi::c_int;
use core::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::OnceLock;

use memprof_boundary::thunks::{self, Observer};
use memprof_boundary::{functions, thread};

use crate::{job, lending, openmp, wait};

/// Functions in which a rank may wait for others, in lower case and without the suffix of large
/// counts.
const BLOCKING: &[&str] = &[
    "allgather",
    "allgatherv",
    "allreduce",
    "alltoall",
    "alltoallv",
    "alltoallw",
    "barrier",
    "bcast",
    "cart_create",
    "comm_accept",
    "comm_connect",
    "comm_create",
    "comm_create_group",
    "comm_disconnect",
    "comm_dup",
    "comm_free",
    "comm_spawn",
    "comm_spawn_multiple",
    "comm_split",
    "comm_split_type",
    "dist_graph_create",
    "dist_graph_create_adjacent",
    "exscan",
    "file_close",
    "file_open",
    "file_read_all",
    "file_read_at_all",
    "file_read_ordered",
    "file_set_view",
    "file_write_all",
    "file_write_at_all",
    "file_write_ordered",
    "gather",
    "gatherv",
    "intercomm_create",
    "intercomm_merge",
    "mprobe",
    "mrecv",
    "neighbor_allgather",
    "neighbor_allgatherv",
    "neighbor_alltoall",
    "neighbor_alltoallv",
    "neighbor_alltoallw",
    "probe",
    "recv",
    "reduce",
    "reduce_scatter",
    "reduce_scatter_block",
    "scan",
    "scatter",
    "scatterv",
    "send",
    "sendrecv",
    "sendrecv_replace",
    "ssend",
    "wait",
    "waitall",
    "waitany",
    "waitsome",
    "win_complete",
    "win_create",
    "win_fence",
    "win_flush",
    "win_flush_all",
    "win_free",
    "win_lock",
    "win_lock_all",
    "win_start",
    "win_unlock",
    "win_unlock_all",
    "win_wait",
];

/// Functions that initialise MPI.
const BEGINNINGS: [&str; 2] = ["init", "init_thread"];

/// Nanoseconds after which a wait lends.
static AFTER: AtomicU64 = AtomicU64::new(wait::DEFAULT_AFTER);
/// Numbers plus one of the functions that initialise MPI.
static BEGIN: [AtomicUsize; 2] = [const { AtomicUsize::new(0) }; 2];
/// `MPI_Finalize` and `PMPI_Finalize`, `sched_yield`.
static FINALIZE: [AtomicUsize; 2] = [const { AtomicUsize::new(0) }; 2];
static YIELD: AtomicUsize = AtomicUsize::new(0);

/// True if a call that initialises MPI is routed through this module.
static BEGINS: AtomicBool = AtomicBool::new(false);
/// This rank's place, if it will take part.
static PLACE: OnceLock<job::Place> = OnceLock::new();

/// Registers this module for calls that return. Must be called before [`target`].
pub fn start() {
    AFTER.store(wait::after(std::env::var("QUO_RUN_AFTER").ok().as_deref()), Relaxed);
    for (name, word) in ["MPI_Init", "MPI_Init_thread"].iter().zip(&BEGIN) {
        let found = functions::find(name.as_bytes());
        word.store(found.map_or(0, |found| found.function + 1), Relaxed);
    }
    thunks::observe(Observer { left, clock: Some(now) });
}

/// Returns the target of calls to `symbol`, a function of MPI or the yield, at the address `found`.
pub fn target(symbol: &[u8], found: usize) -> Option<usize> {
    let keep = |word: &AtomicUsize, target: usize| {
        let before = word.compare_exchange(0, found, Relaxed, Relaxed);
        before.err().is_none_or(|before| before == found).then_some(target)
    };
    match symbol {
        b"sched_yield" => keep(&YIELD, yields as *const () as usize),
        b"MPI_Finalize" => keep(&FINALIZE[0], finalize as *const () as usize),
        b"PMPI_Finalize" => keep(&FINALIZE[1], finalize_by_profiling as *const () as usize),
        _ => {
            let name = functions::find(symbol).filter(|_| may_wait(symbol))?;
            let entry = thunks::entry(name)?;
            let is_set = thunks::set_real(name, found);
            BEGINS.fetch_or(is_set && is_beginning(name.function), Relaxed);
            is_set.then_some(entry)
        }
    }
}

/// Keeps this rank's place until MPI is initialised, since the program may change its environment
/// before that. Returns the place if the rank will then reach this module.
pub fn keep_place(place: job::Place) -> Option<&'static job::Place> {
    BEGINS.load(Relaxed).then(|| PLACE.get_or_init(|| place))
}

fn is_beginning(function: usize) -> bool {
    BEGIN.iter().any(|word| word.load(Relaxed) == function + 1)
}

/// Returns true if a rank may wait for others in the function of this name, or if it initialises
/// MPI.
fn may_wait(symbol: &[u8]) -> bool {
    let Ok(symbol) = core::str::from_utf8(symbol) else { return false };
    let symbol = symbol.strip_prefix('P').unwrap_or(symbol);
    let Some(name) = symbol.strip_prefix("MPI_") else { return false };
    let name = name.to_ascii_lowercase();
    let name = name.strip_suffix("_c").unwrap_or(&name);
    BLOCKING.binary_search(&name).is_ok() || BEGINNINGS.contains(&name)
}

extern "C" fn now() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: writes the two words.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Called when a call of MPI from outside returns.
extern "C" fn left(function: usize) {
    // In any thread that initialises MPI: the other ranks wait for this one, which has announced
    // itself.
    if is_beginning(function)
        && let Some(place) = PLACE.get()
        && let Some(note) = lending::begin(place)
    {
        say(&note);
    }
    if openmp::is_main() {
        lending::reclaim();
    }
}

/// Returns the nanoseconds that the calling thread has been in an MPI call that may wait; `None`
/// outside.
fn waited() -> Option<u64> {
    let marker = 0u8;
    let stack = core::ptr::from_ref(&marker) as usize;
    let block = thread::block();
    // SAFETY: the thread's own block, in which its entry into MPI has written the time. A call that
    // was left by longjmp is detected; a stack so far off that it may be another thread's counts as
    // outside.
    let (is_inside, began) = unsafe {
        ((*block).is_inside(stack, |_| None), *((block as usize + thread::BEGAN) as *const u64))
    };
    is_inside.then(|| now().saturating_sub(began))
}

extern "C" fn yields() -> c_int {
    if openmp::is_main()
        && lending::is_ready()
        && let Some(waited) = waited()
    {
        if let Some(sleep) = wait::sleep(waited, AFTER.load(Relaxed)) {
            openmp::lend();
            rest(sleep);
        }
        return 0;
    }
    real_yield()
}

/// Lets other threads of the CPU run first.
fn real_yield() -> c_int {
    // SAFETY: the function that `yields` replaces. If MPI does not call it, nothing is lent.
    unsafe {
        let real: extern "C" fn() -> c_int = core::mem::transmute(YIELD.load(Relaxed));
        real()
    }
}

fn rest(nanoseconds: u64) {
    // An interrupted sleep ends early, and MPI polls.
    let time = libc::timespec { tv_sec: 0, tv_nsec: nanoseconds as libc::c_long };
    // SAFETY: reads two words.
    unsafe { libc::nanosleep(&raw const time, core::ptr::null_mut()) };
}

fn end() {
    if !openmp::is_main() {
        return;
    }
    if let Some(line) = lending::end()
        && std::env::var_os("QUO_RUN_REPORT").is_some()
    {
        let rank = PLACE.get().map_or(0, |place| place.rank);
        say(&format!("rank {rank} of its node {line}"));
    }
}

/// Writes a line to standard error.
fn say(line: &str) {
    let text = format!("quo-run: {line}\n");
    // SAFETY: writes the bytes of `text`. One write, so that lines of ranks do not mix.
    unsafe { libc::write(2, text.as_ptr().cast(), text.len()) };
}

extern "C-unwind" fn finalize() -> c_int {
    end();
    real_finalize(0)
}

extern "C-unwind" fn finalize_by_profiling() -> c_int {
    end();
    real_finalize(1)
}

fn real_finalize(name: usize) -> c_int {
    // SAFETY: the function that the callers replace.
    unsafe {
        let real: extern "C-unwind" fn() -> c_int =
            core::mem::transmute(FINALIZE[name].load(Relaxed));
        real()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocking_functions_are_sorted_and_known() {
        assert!(BLOCKING.windows(2).all(|pair| pair[0] < pair[1]));
        let known = |name: &&&str| {
            let mut name = format!("MPI_{name}");
            let rest = name.split_off(5);
            functions::find(format!("{}{rest}", name.to_uppercase()).as_bytes()).is_some()
        };
        let unknown: Vec<_> = BLOCKING.iter().filter(|name| !known(name)).collect();
        assert!(unknown.is_empty(), "{unknown:?}");
    }

    #[test]
    fn calls_that_return_at_once_are_left_alone() {
        for name in ["MPI_Recv", "PMPI_Waitall", "MPI_Allreduce_c", "PMPI_Init_thread"] {
            assert!(may_wait(name.as_bytes()), "{name}");
        }
        for name in ["MPI_Irecv", "MPI_Test", "MPI_Iprobe", "MPI_Comm_rank", "MPI_Initialized"] {
            assert!(!may_wait(name.as_bytes()), "{name}");
        }
    }
}
