//! Tests of observed entries, which pass words and results through and report each call from
//! outside once.
#![cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
#![allow(unsafe_code)]

use std::cell::{Cell, RefCell};

use memprof_boundary::functions::{COUNT, find, name};
use memprof_boundary::thread::{BEGAN, Position, block};
use memprof_boundary::thunks::{Observer, entry, observe, set_real};

type Function = unsafe extern "C-unwind" fn(
    usize,
    usize,
    usize,
    usize,
    usize,
    usize,
    usize,
    usize,
    usize,
    usize,
    usize,
    usize,
    usize,
) -> usize;

thread_local! {
    static SEEN: RefCell<[usize; 13]> = const { RefCell::new([0; 13]) };
    /// Functions that have returned.
    static LEFT: RefCell<Vec<usize>> = const { RefCell::new(Vec::new()) };
    static CLOCK: Cell<u64> = const { Cell::new(100) };
    /// Argument of the MPI call inside a call.
    static INNER: Cell<usize> = const { Cell::new(0) };
}

fn position() -> &'static Position {
    // SAFETY: the thread's own block.
    unsafe { &*block() }
}

fn began() -> u64 {
    // SAFETY: a word of the thread's own block.
    unsafe { *((block() as usize + BEGAN) as *const u64) }
}

extern "C" fn left(function: usize) {
    assert_eq!(position().function.get(), function + 1, "still inside");
    LEFT.with_borrow_mut(|left| left.push(function));
}

/// Uses every register that an argument may be in.
extern "C" fn clock() -> u64 {
    // SAFETY: changes only what a function may change.
    #[cfg(target_arch = "x86_64")]
    unsafe {
        std::arch::asm!("mov rdi, 1", "mov rsi, 1", "mov rdx, 1", "mov rcx, 1", "mov r8, 1", "mov r9, 1",
            "mov r10, 1", "mov r11, 1", out("rdi") _, out("rsi") _, out("rdx") _, out("rcx") _,
            out("r8") _, out("r9") _, out("r10") _, out("r11") _);
    }
    // SAFETY: as above.
    #[cfg(target_arch = "aarch64")]
    unsafe {
        std::arch::asm!("mov x0, 1", "mov x1, 1", "mov x2, 1", "mov x3, 1", "mov x4, 1", "mov x5, 1", "mov x6, 1",
            "mov x7, 1", "mov x9, 1", "mov x16, 1", "mov x17, 1", out("x0") _, out("x1") _, out("x2") _,
            out("x3") _, out("x4") _, out("x5") _, out("x6") _, out("x7") _, out("x9") _, out("x16") _,
            out("x17") _);
    }
    CLOCK.with(|clock| clock.replace(clock.get() + 1))
}

unsafe extern "C-unwind" fn record(
    a: usize,
    b: usize,
    c: usize,
    d: usize,
    e: usize,
    f: usize,
    g: usize,
    h: usize,
    i: usize,
    j: usize,
    k: usize,
    l: usize,
    m: usize,
) -> usize {
    let marker = 0u128;
    let mut address = core::ptr::from_ref(&marker) as usize;
    // SAFETY: nothing but a copy, which the compiler cannot see through.
    unsafe { std::arch::asm!("/* {0} */", inout(reg) address, options(nostack)) };
    assert_eq!(address % 16, 0, "the stack is aligned");
    SEEN.with_borrow_mut(|seen| *seen = [a, b, c, d, e, f, g, h, i, j, k, l, m]);
    match INNER.with(Cell::take) {
        0 => {}
        1 => assert_eq!(call("PMPI_Barrier"), 0x1234_5678_9abc_def0),
        _ => std::panic::resume_unwind(Box::new(5)),
    }
    0x1234_5678_9abc_def0
}

fn call(symbol: &str) -> usize {
    let name = find(symbol.as_bytes()).expect("a function");
    assert!(set_real(name, record as *const () as usize));
    // SAFETY: entries take as many of the words as they need, and any words are valid.
    unsafe {
        let entry: Function = core::mem::transmute(entry(name).expect("an entry"));
        entry(1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13)
    }
}

fn words(symbol: &str) -> usize {
    let line = include_str!("../src/functions.s")
        .lines()
        .find_map(|line| line.strip_prefix(&format!("memprof_mpi {symbol}, ")));
    line.expect("a line of the table").parse().expect("a number")
}

/// Calls every function by both names.
fn call_all() {
    for index in 0..COUNT {
        let function = name(index);
        for symbol in [function.to_owned(), format!("P{function}")] {
            assert_eq!(call(&symbol), 0x1234_5678_9abc_def0, "{symbol}");
            assert_eq!(position().function.get(), 0, "{symbol}");
            assert_eq!(LEFT.take(), [index], "{symbol}");
            let count = words(function);
            SEEN.with_borrow(|seen| {
                assert!((0..count).all(|at| seen[at] == at + 1), "{symbol} {seen:?}");
            });
        }
    }
}

#[test]
fn observed_entries_hand_words_through_and_tell_each_call() {
    observe(Observer { left, clock: None });
    let before = began();
    call_all();
    let counter = began();
    call("MPI_Send");
    assert!(counter > before && began() > counter, "the time-stamp counter rises");
    LEFT.take();

    // An inner call is not reported.
    INNER.set(1);
    call("MPI_Allreduce");
    assert_eq!(LEFT.take().map_names(), ["MPI_Allreduce"]);

    // An exception passes through; the next call is again one from outside.
    INNER.set(2);
    assert!(std::panic::catch_unwind(|| call("MPI_Alltoallw")).is_err());
    assert_eq!(LEFT.take(), [0; 0]);
    call("MPI_Recv");
    assert_eq!(LEFT.take().map_names(), ["MPI_Recv"]);

    observe(Observer { left, clock: Some(clock) });
    call_all();
    let last = CLOCK.get() - 1;
    assert_eq!(began(), last, "the time of the clock");
    assert_eq!(last, 100 + 2 * COUNT as u64 - 1, "read once for each call");
}

trait Names {
    fn map_names(self) -> Vec<&'static str>;
}

impl Names for Vec<usize> {
    fn map_names(self) -> Vec<&'static str> {
        self.into_iter().map(name).collect()
    }
}
