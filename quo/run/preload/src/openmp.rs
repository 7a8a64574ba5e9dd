//! Entries of OpenMP regions of GNU's runtime: threads beyond the program's own number while CPUs
//! are borrowed.
//!
//! The number is set as programs set it, by `omp_set_num_threads`. A program that sets the number
//! itself, or queries it outside regions, may depend on it, and so may a region that names its
//! number: CPUs are then borrowed only for threads without a CPU of the rank, and the number stays,
//! unless the user states that regions may have any number (`quo-run --malleable`). The program is
//! then given the maximum that a region may get, since programs size arrays by it, and a region
//! that requests this number gets the available threads; its results may depend on that.

#![allow(unsafe_code)]

use core::ffi::c_int;
use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};

use memprof_boundary::thread;

use crate::{lending, places};

/// True if the user states that regions may have any number of threads.
static MALLEABLE: AtomicBool = AtomicBool::new(false);
/// Block of the main thread.
static MAIN: AtomicUsize = AtomicUsize::new(0);
/// Threads beyond the program's own number that OpenMP has been set to.
static EXTRA: AtomicUsize = AtomicUsize::new(0);
/// The program's own number, while there are extra threads.
static OWN: AtomicUsize = AtomicUsize::new(0);

type Region =
    unsafe extern "C-unwind" fn(usize, usize, usize, usize, usize, usize, usize, usize) -> usize;

/// A function of OpenMP whose calls are routed through this module.
struct Hook {
    name: &'static str,
    target: usize,
    real: &'static AtomicUsize,
}

macro_rules! hooks {
    ($($name:ident),*; $($other:ident => $target:path),*) => {
        #[allow(non_upper_case_globals)]
        mod real {
            use core::sync::atomic::AtomicUsize;
            $(pub static $name: AtomicUsize = AtomicUsize::new(0);)*
            $(pub static $other: AtomicUsize = AtomicUsize::new(0);)*
        }
        #[allow(non_snake_case)]
        mod regions {
            $(
                /// # Safety
                /// As the function of this name requires; words beyond those of the call are
                /// ignored.
                pub unsafe extern "C-unwind" fn $name(
                    a: usize, b: usize, c: usize, d: usize, e: usize, f: usize, g: usize, h: usize,
                ) -> usize {
                    // SAFETY: the program's own words.
                    unsafe { super::region(&super::real::$name, [a, b, c, d, e, f, g, h]) }
                }
            )*
        }
        fn hooks() -> impl Iterator<Item = Hook> {
            [
                $(Hook {
                    name: stringify!($name),
                    target: regions::$name as *const () as usize,
                    real: &real::$name,
                },)*
                $(Hook {
                    name: stringify!($other),
                    target: $target as *const () as usize,
                    real: &real::$other,
                },)*
            ]
            .into_iter()
        }
    };
}

hooks! {
    GOMP_parallel,
    GOMP_parallel_reductions,
    GOMP_parallel_sections,
    GOMP_parallel_loop_static,
    GOMP_parallel_loop_dynamic,
    GOMP_parallel_loop_guided,
    GOMP_parallel_loop_runtime,
    GOMP_parallel_loop_nonmonotonic_dynamic,
    GOMP_parallel_loop_nonmonotonic_guided,
    GOMP_parallel_loop_nonmonotonic_runtime,
    GOMP_parallel_loop_maybe_nonmonotonic_runtime;
    omp_set_num_threads => set_threads,
    omp_set_num_threads_ => set_threads_fortran,
    omp_get_max_threads => max_threads,
    omp_get_max_threads_ => max_threads
}

/// Returns the target of calls to `symbol`, a function of OpenMP at the address `found`.
pub fn target(symbol: &[u8], found: usize) -> Option<usize> {
    let hook = hooks().find(|hook| hook.name.as_bytes() == symbol)?;
    let before = hook.real.compare_exchange(0, found, Relaxed, Relaxed);
    before.err().is_none_or(|before| before == found).then_some(hook.target)
}

/// Marks the calling thread as the one that owns the rank's CPUs.
pub fn be_main() {
    MAIN.store(thread::block() as usize, Relaxed);
}

/// Returns true in the thread that owns the rank's CPUs.
#[inline]
pub fn is_main() -> bool {
    MAIN.load(Relaxed) == thread::block() as usize
}

/// Returns true once a thread owns the rank's CPUs: the process is a rank.
pub fn has_main() -> bool {
    MAIN.load(Relaxed) != 0
}

/// Functions of the loaded runtime; zero if there is none.
static IN_PARALLEL: AtomicUsize = AtomicUsize::new(0);
static GET: AtomicUsize = AtomicUsize::new(0);
static SET: AtomicUsize = AtomicUsize::new(0);
static NUMBER: AtomicUsize = AtomicUsize::new(0);
static TEAM: AtomicUsize = AtomicUsize::new(0);

/// Finds the runtime. Must be called before the program starts.
pub fn start() {
    MALLEABLE.store(std::env::var_os("QUO_RUN_MALLEABLE").is_some(), Relaxed);
    for (name, word) in [
        (c"omp_in_parallel", &IN_PARALLEL),
        (c"omp_get_max_threads", &GET),
        (c"omp_set_num_threads", &SET),
        (c"omp_get_thread_num", &NUMBER),
        (c"omp_get_num_threads", &TEAM),
    ] {
        // SAFETY: a NUL-terminated text. The result is used after the call, so that the call is not
        // a tail call: the loader examines its return address.
        let found = unsafe { libc::dlsym(libc::RTLD_NEXT, name.as_ptr()) };
        word.store(core::hint::black_box(found) as usize, Relaxed);
    }
}

/// Returns an address in the runtime; 0 if there is none.
pub fn runtime() -> usize {
    IN_PARALLEL.load(Relaxed)
}

fn ask(function: &AtomicUsize) -> Option<usize> {
    let address = function.load(Relaxed);
    // SAFETY: a function of OpenMP without arguments that returns an `int`.
    (address != 0).then(|| unsafe {
        let function: extern "C" fn() -> c_int = core::mem::transmute(address);
        usize::try_from(function()).unwrap_or(0)
    })
}

/// Returns true inside an active region.
pub fn is_in_region() -> bool {
    ask(&IN_PARALLEL).is_some_and(|answer| answer != 0)
}

fn set_real(threads: usize) {
    let address = SET.load(Relaxed);
    if address != 0
        && let Ok(threads) = c_int::try_from(threads)
    {
        // SAFETY: `omp_set_num_threads`.
        unsafe {
            let function: extern "C" fn(c_int) = core::mem::transmute(address);
            function(threads);
        }
    }
}

/// Returns the program's own number of threads.
fn own() -> usize {
    if EXTRA.load(Relaxed) == 0 { ask(&GET).unwrap_or(1) } else { OWN.load(Relaxed) }
}

/// Sets OpenMP's number of threads to the program's own number plus `extra`.
fn set_extra(extra: usize) {
    if EXTRA.load(Relaxed) != extra {
        let own = own();
        OWN.store(own, Relaxed);
        EXTRA.store(extra, Relaxed);
        set_real(own + extra);
    }
}

/// Lends this rank's CPUs, unless its threads are at work. Gives back borrowed CPUs first.
pub fn lend() {
    if is_main() && !is_in_region() && lending::lend() > 0 {
        set_extra(0);
    }
}

/// Gives back borrowed CPUs if an owner wants them.
fn give_back_if_wanted() {
    if lending::is_wanted() {
        lending::give_back();
        set_extra(0);
    }
}

/// The program's function of a region and its data, with which each thread of the team is called.
#[repr(C)]
struct Outlined {
    /// First word of the data, which the runtime reads if the region has reductions.
    first: usize,
    function: usize,
    data: usize,
}

/// Gives the calling thread its place, and continues in the program's function.
///
/// # Safety
/// `outlined` is that of the region that the thread starts.
unsafe extern "C-unwind" fn placed(outlined: *const Outlined) {
    // SAFETY: the region's, which ends after all of its threads have returned.
    let outlined = unsafe { &*outlined };
    places::take(ask(&NUMBER).unwrap_or(0), ask(&TEAM).unwrap_or(1));
    // SAFETY: the program's function and its data.
    unsafe {
        let function: unsafe extern "C-unwind" fn(usize) = core::mem::transmute(outlined.function);
        function(outlined.data);
    }
}

/// Prepares a region for which the runtime of OMPT would have `asked` threads. Returns true if it is
/// one of the main thread, outside other regions.
pub fn begin_region(asked: usize) -> bool {
    if !is_main() || is_in_region() {
        return false;
    }
    let own = own();
    let is_free = asked == own + EXTRA.load(Relaxed)
        || MALLEABLE.load(Relaxed) && asked == lending::most_threads(own);
    if is_free {
        set_extra(lending::extra_threads(own));
    } else {
        lending::borrow_for_team(asked);
    }
    true
}

/// Ends a region for which [`begin_region`] returned true.
pub fn end_region() {
    give_back_if_wanted();
}

/// # Safety
/// `real` is a function that starts regions, and the words are those of a call of it.
unsafe fn region(real: &AtomicUsize, words: [usize; 8]) -> usize {
    let [mut function, mut data, mut asked, d, e, f, g, h] = words;
    let is_ours = is_main() && !is_in_region();
    // A number other than the one the program was given is meant literally.
    let own = own();
    let is_most = || MALLEABLE.load(Relaxed) && asked as u32 as usize == lending::most_threads(own);
    let is_free = asked as u32 == 0 || is_most();
    if is_ours && is_free {
        set_extra(lending::extra_threads(own));
        if asked as u32 != 0 {
            asked = own + EXTRA.load(Relaxed);
        }
    } else if is_ours {
        lending::borrow_for_team(asked as u32 as usize);
    }
    let has_reductions = core::ptr::eq(real, &raw const real::GOMP_parallel_reductions);
    // SAFETY: data of a region with reductions begins with their list.
    let first = if has_reductions { unsafe { *(data as *const usize) } } else { 0 };
    let outlined = Outlined { first, function, data };
    if is_ours && lending::borrows() {
        function = placed as *const () as usize;
        data = core::ptr::from_ref(&outlined) as usize;
    }
    // SAFETY: by this function's contract.
    let result = unsafe {
        let real: Region = core::mem::transmute(real.load(Relaxed));
        real(function, data, asked, d, e, f, g, h)
    };
    if is_ours {
        give_back_if_wanted();
    }
    result
}

/// Handles a program that sets or queries its number of threads, and may depend on it.
fn keep_number() {
    if !MALLEABLE.load(Relaxed) && lending::keep_threads() > 0 {
        set_extra(0);
    }
}

extern "C" fn set_threads(threads: c_int) {
    let Ok(number) = usize::try_from(threads) else { return };
    if !is_main() || is_in_region() {
        return set_real(number);
    }
    keep_number();
    let (own, extra) = (own(), EXTRA.load(Relaxed));
    // A program that queried its number has the maximum.
    let number = if number == lending::most_threads(own) { own } else { number };
    OWN.store(number, Relaxed);
    set_real(number + extra);
}

/// # Safety
/// As `omp_set_num_threads` in Fortran: the address of a number.
unsafe extern "C" fn set_threads_fortran(threads: *const c_int) {
    // SAFETY: by this function's contract.
    set_threads(unsafe { *threads });
}

extern "C" fn max_threads() -> c_int {
    let threads = if is_main() && !is_in_region() {
        keep_number();
        lending::most_threads(own())
    } else {
        ask(&GET).unwrap_or(1)
    };
    c_int::try_from(threads).unwrap_or(c_int::MAX)
}
