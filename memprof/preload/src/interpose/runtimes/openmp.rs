//! Calls of the program into the OpenMP runtime that contain a parallel region: those of GNU's
//! runtime, and the one of LLVM's and Intel's. The runtimes are called as without the tool, and the
//! time of the calls is measured.

#![allow(unsafe_code)]

use core::sync::atomic::{AtomicUsize, Ordering};

use crate::base::arch::code;
use crate::recording::mpi_time::{self, openmp};

/// Functions of GNU's runtime, with up to eight words.
const GNU: [(&[u8], Entry); 11] = [
    (b"GOMP_parallel", gnu::<0>),
    (b"GOMP_parallel_loop_dynamic", gnu::<1>),
    (b"GOMP_parallel_loop_guided", gnu::<2>),
    (b"GOMP_parallel_loop_maybe_nonmonotonic_runtime", gnu::<3>),
    (b"GOMP_parallel_loop_nonmonotonic_dynamic", gnu::<4>),
    (b"GOMP_parallel_loop_nonmonotonic_guided", gnu::<5>),
    (b"GOMP_parallel_loop_nonmonotonic_runtime", gnu::<6>),
    (b"GOMP_parallel_loop_runtime", gnu::<7>),
    (b"GOMP_parallel_loop_static", gnu::<8>),
    (b"GOMP_parallel_reductions", gnu::<9>),
    (b"GOMP_parallel_sections", gnu::<10>),
];

type Entry =
    unsafe extern "C-unwind" fn(usize, usize, usize, usize, usize, usize, usize, usize) -> usize;

static REAL: [AtomicUsize; GNU.len()] = [const { AtomicUsize::new(0) }; GNU.len()];

/// Function of LLVM's runtime: source location, number of words, function, and the words for it.
const LLVM: &[u8] = b"__kmpc_fork_call";
static REAL_FORK: AtomicUsize = AtomicUsize::new(0);
/// Maximum number of words passed on to the function. Regions with more are not measured.
const MOST: usize = 26;

/// Returns true if a call to `symbol` contains a parallel region, and times are measured.
pub fn is_region(symbol: &[u8]) -> bool {
    let is_known = symbol == LLVM || GNU.iter().any(|(name, _)| *name == symbol);
    is_known && mpi_time::is_on()
}

/// Returns the target of a call to such a `symbol` if it is defined at `found`. Returns `None` if
/// another runtime defines it too: its calls stay unchanged.
pub fn target(symbol: &[u8], found: usize) -> Option<usize> {
    let (real, target) = match GNU.iter().position(|(name, _)| *name == symbol) {
        Some(at) => (&REAL[at], GNU[at].1 as *const () as usize),
        None => (&REAL_FORK, fork_call as *const () as usize),
    };
    let before = real.compare_exchange(0, found, Ordering::AcqRel, Ordering::Acquire);
    before.err().is_none_or(|before| before == found).then_some(target)
}

unsafe extern "C-unwind" fn gnu<const AT: usize>(
    a: usize,
    b: usize,
    c: usize,
    d: usize,
    e: usize,
    f: usize,
    g: usize,
    h: usize,
) -> usize {
    let real = REAL[AT].load(Ordering::Relaxed);
    // SAFETY: the runtime's function, which uses as many of the words as it has.
    let real = unsafe { core::mem::transmute::<usize, Entry>(real) };
    let is_outermost = openmp::begins();
    // SAFETY: with the caller's arguments.
    let result = unsafe { real(a, b, c, d, e, f, g, h) };
    if is_outermost {
        openmp::ends();
    }
    result
}

/// Passes calls with too many words on unchanged.
#[unsafe(naked)]
unsafe extern "C-unwind" fn fork_call() {
    code!(
        x86_64: "cmp esi, {most}",
        "ja 2f",
        "jmp {measured}",
        "2:",
        "jmp qword ptr [rip + {real}]";
        aarch64: "cmp w1, {most}",
        "b.hi 2f",
        "b {measured}",
        "2:",
        "adrp x16, {real}",
        "ldr x16, [x16, :lo12:{real}]",
        "br x16";
        most = const MOST,
        measured = sym measured_fork,
        real = sym REAL_FORK,
    )
}

/// Words beyond those passed are from the frame of the caller, and are not used.
#[rustfmt::skip]
unsafe extern "C-unwind" fn measured_fork(
    place: usize, count: usize, function: usize,
    a: usize, b: usize, c: usize, d: usize, e: usize, f: usize, g: usize, h: usize, i: usize, j: usize, k: usize,
    l: usize, m: usize, n: usize, o: usize, p: usize, q: usize, r: usize, s: usize, t: usize, u: usize, v: usize,
    w: usize, x: usize, y: usize, z: usize,
) {
    type Fork = unsafe extern "C-unwind" fn(usize, usize, usize, ...);
    // SAFETY: the runtime's function.
    let real = unsafe { core::mem::transmute::<usize, Fork>(REAL_FORK.load(Ordering::Relaxed)) };
    let is_outermost = openmp::begins();
    // SAFETY: with the caller's arguments.
    unsafe {
        real(
            place, count, function,
            a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r, s, t, u, v, w, x, y, z,
        );
    }
    if is_outermost {
        openmp::ends();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn regions_are_among_the_names_that_are_read() {
        let firsts = crate::interpose::patch::FIRSTS;
        assert!(GNU.iter().all(|(name, _)| firsts.contains(&name[0])) && firsts.contains(&LLVM[0]));
    }

    #[test]
    fn each_runtime_function_has_an_entry_of_its_own() {
        for (at, (name, entry)) in GNU.iter().enumerate() {
            assert_eq!(target(name, 64 + at), Some(*entry as *const () as usize));
            assert_eq!(REAL[at].load(Ordering::Relaxed), 64 + at);
            assert_eq!(target(name, 4096), None, "a second runtime");
        }
    }
}
