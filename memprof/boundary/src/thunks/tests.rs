//! Tests that words and results pass through entries, and that leaving MPI in any way is detected.

#![allow(unsafe_code)]

use super::*;
use crate::functions::{FUNCTIONS, find, name};
use crate::thread::{Position, block};

fn position() -> &'static Position {
    // SAFETY: the thread's own block, which lives as long as the thread.
    unsafe { &*block() }
}

#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
mod calls {
    use super::*;
    use std::cell::RefCell;

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
        static SEEN: RefCell<(usize, [usize; 13])> = const { RefCell::new((0, [0; 13])) };
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
        // The alignment is known to the compiler, so it has to be hidden from it.
        let marker = 0u128;
        let mut address = core::ptr::from_ref(&marker) as usize;
        // SAFETY: only a copy.
        unsafe { core::arch::asm!("/* {0} */", inout(reg) address, options(nostack)) };
        assert_eq!(address % 16, 0, "the stack is aligned");
        let words = [a, b, c, d, e, f, g, h, i, j, k, l, m];
        SEEN.with_borrow_mut(|seen| *seen = (position().function.get(), words));
        0x1234_5678_9abc_def0
    }

    fn entry_of(symbol: &str, leads_to: usize) -> Function {
        let name = find(symbol.as_bytes()).expect("a function");
        assert!(set_real(name, leads_to));
        // SAFETY: entries use as many of the words as they need.
        unsafe { core::mem::transmute::<usize, Function>(entry(name).expect("an entry")) }
    }

    fn call(function: Function) -> usize {
        // SAFETY: any words are valid.
        unsafe { function(1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13) }
    }

    #[test]
    fn every_entry_hands_its_words_through_and_the_result_back() {
        let mut arities = [0; 14];
        for (index, (symbol, words)) in FUNCTIONS.iter().enumerate() {
            // Other tests redirect these functions.
            if symbol.starts_with("MPIX_") {
                continue;
            }
            arities[usize::from(*words)] += 1;
            for symbol in [format!("P{symbol}"), (*symbol).to_owned()] {
                let function = entry_of(&symbol, record as *const () as usize);
                assert_eq!(call(function), 0x1234_5678_9abc_def0);
                assert_eq!(position().function.get(), 0);
                SEEN.with_borrow(|(word, seen)| {
                    assert_eq!(*word, index + 1, "{symbol}");
                    let count = usize::from(*words);
                    assert!((0..count).all(|at| seen[at] == at + 1), "{symbol} {seen:?}");
                });
            }
        }
        assert!(arities.iter().all(|&count| count > 0), "{arities:?}");
    }

    unsafe extern "C-unwind" fn nested(
        a: usize,
        _: usize,
        _: usize,
        _: usize,
        _: usize,
        _: usize,
        _: usize,
        _: usize,
        _: usize,
        _: usize,
        _: usize,
        _: usize,
        _: usize,
    ) -> usize {
        let outer = position().function.get();
        assert_eq!(name(outer - 1), "MPIX_Comm_agree");
        let function = entry_of("PMPI_Barrier", record as *const () as usize);
        assert_eq!(call(function), 0x1234_5678_9abc_def0);
        SEEN.with_borrow(|(word, _)| assert_eq!(*word, outer, "the outermost stays"));
        assert_eq!(position().function.get(), outer);
        if a == 1 { 7 } else { panic!("thrown") }
    }

    #[test]
    fn a_call_inside_leaves_the_outermost() {
        let function = entry_of("MPIX_Comm_agree", nested as *const () as usize);
        assert_eq!(call(function), 7);
        assert_eq!(position().function.get(), 0);
    }

    thread_local! {
        static WRAPPED: RefCell<usize> = const { RefCell::new(0) };
    }

    /// Calls the function, and once more through its entry from inside.
    unsafe extern "C-unwind" fn wrapper(
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
        WRAPPED.with_borrow_mut(|count| *count += 1);
        let found = find(b"MPIX_Comm_get_failed").expect("a function");
        assert_eq!(position().function.get(), found.function + 1);
        for address in [real(found), entry(found).expect("an entry")] {
            // SAFETY: as for `entry_of`.
            let function = unsafe { core::mem::transmute::<usize, Function>(address) };
            // SAFETY: any words are valid.
            let result = unsafe { function(a, b, c, d, e, f, g, h, i, j, k, l, m) };
            assert_eq!(result, 0x1234_5678_9abc_def0);
        }
        8
    }

    #[test]
    fn wrapper_takes_calls_from_outside_only() {
        let found = find(b"MPIX_Comm_get_failed").expect("a function");
        assert_eq!(real(found), 0);
        let function = entry_of("MPIX_Comm_get_failed", record as *const () as usize);
        wrap(found, wrapper as *const () as usize);
        assert!(set_real(found, record as *const () as usize), "the same again");
        for calls in 1..3 {
            assert_eq!(call(function), 8);
            assert_eq!(WRAPPED.with_borrow(|count| *count), calls);
            SEEN.with_borrow(|(word, seen)| {
                assert_eq!((*word, seen[0], seen[1]), (found.function + 1, 1, 2))
            });
        }
        assert_eq!(position().function.get(), 0);
    }

    #[inline(never)]
    fn look(depth: usize) -> bool {
        let marker = [depth; 8];
        if depth > 0 {
            return look(depth - 1) && core::hint::black_box(marker)[0] == depth;
        }
        position().is_inside(core::ptr::from_ref(&marker) as usize, |_| None)
    }

    unsafe extern "C-unwind" fn thrower(
        _: usize,
        _: usize,
        _: usize,
        _: usize,
        _: usize,
        _: usize,
        _: usize,
        _: usize,
        _: usize,
        _: usize,
        _: usize,
        _: usize,
        _: usize,
    ) -> usize {
        assert!(look(0) && look(9), "inside");
        std::panic::resume_unwind(Box::new(5))
    }

    #[test]
    fn an_exception_through_an_entry_is_noticed() {
        let function = entry_of("MPIX_Comm_revoke", thrower as *const () as usize);
        for round in 0..3 {
            let thrown = std::panic::catch_unwind(|| call(function));
            assert!(thrown.is_err());
            if round == 0 {
                assert!(!look(9), "deeper than the entry was");
            } else if round == 1 {
                let inner = entry_of("PMPI_Barrier", record as *const () as usize);
                call(inner);
                SEEN.with_borrow(|(word, _)| assert_eq!(name(*word - 1), "MPI_Barrier"));
                assert_eq!(position().function.get(), 0);
            }
        }
    }
}

#[test]
fn one_entry_leads_to_one_place() {
    if cfg!(any(target_arch = "x86_64", target_arch = "aarch64")) {
        let name = find(b"MPIX_Comm_shrink").expect("a function");
        assert!(set_real(name, 64));
        assert!(set_real(name, 64));
        assert!(!set_real(name, 128));
    }
}
