//! The entries into MPI. Each function has one of exact arity for its `MPI_` and one for its `PMPI_`
//! name. Entering writes three words of the thread, leaving writes one:
//!
//! - Inside MPI already (a callback of the program, a binding on top of another): straight on.
//! - The entry from outside is remembered with its stack pointer and return address, so that leaving
//!   MPI by longjmp or by an exception is noticed by whoever looks next ([`Position::is_inside`]
//!   and the entries themselves).
//!
//! They are written out, since they have to know the stack pointer at entry to the byte; they carry the
//! notes that exceptions need to pass through them.
//!
//! [`Position::is_inside`]: crate::thread::Position::is_inside

#![allow(unsafe_code)]

use core::sync::atomic::{AtomicUsize, Ordering};

use crate::functions::{COUNT, Name, TEXT};

#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
mod entries {
    use super::{COUNT, TEXT};
    use core::sync::atomic::AtomicUsize;

    // The thread's words are at 0 (function plus one), 8 (stack pointer) and 16 (return address) of its
    // block. r10, r11 and rax are nobody's at a call. On the way out rax and rdx hold the result. An entry begins a
    // line of the cache: it is in two then, and not in three, which a message of one byte feels (0.3 of 2.9 %).
    core::arch::global_asm!(
        ".macro memprof_entry slot, words",
        "  .p2align 6",
        "  .cfi_startproc",
        "  mov r11, qword ptr [rip + memprof_local@GOTTPOFF]",
        "  mov r10, qword ptr [rsp]",
        "  cmp qword ptr fs:[r11], 0",
        "  jne 2f",
        "1:",
        "  mov qword ptr fs:[r11 + 8], rsp",
        "  mov qword ptr fs:[r11 + 16], r10",
        "  mov qword ptr fs:[r11], (\\slot) / 2 + 1",
        "  .if (\\words) > 6",
        "  .set memprof_room, 8 * ((\\words) - 6) + 8 * (1 - ((\\words) & 1))",
        "  .set memprof_pad, memprof_room - 8 * ((\\words) - 6)",
        "  .if memprof_pad",
        "  sub rsp, memprof_pad",
        "  .cfi_adjust_cfa_offset memprof_pad",
        "  .endif",
        "  .rept (\\words) - 6",
        "  push qword ptr [rsp + memprof_pad + 8 * ((\\words) - 6)]",
        "  .cfi_adjust_cfa_offset 8",
        "  .endr",
        "  .else",
        "  .set memprof_room, 8",
        "  sub rsp, 8",
        "  .cfi_adjust_cfa_offset 8",
        "  .endif",
        "  call qword ptr [rip + memprof_real + 8 * (\\slot)]",
        "  add rsp, memprof_room",
        "  .cfi_adjust_cfa_offset -memprof_room",
        "  mov r11, qword ptr [rip + memprof_local@GOTTPOFF]",
        "  mov qword ptr fs:[r11], 0",
        "  ret",
        // Seen inside: is it true?
        "2:",
        "  mov rax, qword ptr fs:[r11 + 8]",
        "  cmp rsp, rax",
        "  jae 1b",
        "  mov rax, qword ptr [rax]",
        "  cmp rax, qword ptr fs:[r11 + 16]",
        "  jne 1b",
        "  jmp qword ptr [rip + memprof_real + 8 * (\\slot)]",
        "  .cfi_endproc",
        ".endm",
        ".macro memprof_mpi name, words",
        "  .p2align 6",
        "  7:",
        "  memprof_entry 2 * memprof_index, \\words",
        "  .p2align 6",
        "  8:",
        "  memprof_entry 2 * memprof_index + 1, \\words",
        "  .pushsection .data.rel.ro.memprof_entries, \"aw\", @progbits",
        "  .quad 7b, 8b",
        "  .popsection",
        "  .set memprof_index, memprof_index + 1",
        ".endm",
        ".set memprof_index, 0",
        ".pushsection .bss.memprof_real, \"aw\", @nobits",
        ".p2align 6",
        ".hidden memprof_real",
        ".globl memprof_real",
        ".type memprof_real, @object",
        ".size memprof_real, {bytes}",
        "memprof_real:",
        ".zero {bytes}",
        ".popsection",
        ".pushsection .data.rel.ro.memprof_entries, \"aw\", @progbits",
        ".p2align 3",
        ".hidden memprof_entries",
        ".globl memprof_entries",
        "memprof_entries:",
        ".popsection",
        ".pushsection .text.memprof_entries, \"ax\", @progbits",
        include_str!("functions.s"),
        ".popsection",
        ".purgem memprof_mpi",
        ".purgem memprof_entry",
        bytes = const COUNT * 2 * 8,
    );
    const _: () = assert!(!TEXT.is_empty());

    unsafe extern "C" {
        #[link_name = "memprof_real"]
        pub static REAL: [AtomicUsize; COUNT * 2];
        #[link_name = "memprof_entries"]
        pub static ENTRIES: [usize; COUNT * 2];
    }
}

#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
mod timed {
    use core::sync::atomic::{AtomicBool, AtomicUsize};

    use crate::functions::{COUNT, WORDS};
    use crate::thread::BEGAN;

    // As the entries above, but one routine for all: each entry only says its slot, in eax, which is nobody's at a
    // call. The time of entry goes into the thread's block; rdx, which the time-stamp counter takes, is an argument.
    // The stack pointer before the call of MPI varies, so that the frame is found by rbp.
    core::arch::global_asm!(
        ".pushsection .text.memprof_timed, \"ax\", @progbits",
        ".p2align 6",
        ".cfi_startproc",
        "memprof_timed:",
        "  mov r11, qword ptr [rip + memprof_local@GOTTPOFF]",
        "  mov r10, qword ptr [rsp]",
        "  cmp qword ptr fs:[r11], 0",
        "  jne 20f",
        "21:",
        "  mov qword ptr fs:[r11 + 8], rsp",
        "  mov qword ptr fs:[r11 + 16], r10",
        "  .cfi_remember_state",
        "  push rbp",
        "  .cfi_def_cfa_offset 16",
        "  .cfi_offset rbp, -16",
        "  mov rbp, rsp",
        "  .cfi_def_cfa_register rbp",
        "  push rbx",
        "  .cfi_offset rbx, -24",
        "  mov ebx, eax",
        "  cmp byte ptr [rip + {slow}], 0",
        "  jne 22f",
        "  mov r10, rdx",
        "  rdtsc",
        "  shl rdx, 32",
        "  or rax, rdx",
        "  mov rdx, r10",
        "23:",
        "  mov qword ptr fs:[r11 + {began}], rax",
        "  mov r10d, ebx",
        "  shr r10d, 1",
        "  lea eax, [r10 + 1]",
        "  mov qword ptr fs:[r11], rax",
        // Words on the stack are given once more, the last first.
        "  lea r11, [rip + {words}]",
        "  movzx eax, byte ptr [r11 + r10]",
        "  sub eax, 6",
        "  jbe 24f",
        "  test al, 1",
        "  jne 25f",
        "  sub rsp, 8",
        "25:",
        "  push qword ptr [rbp + 8 + 8 * rax]",
        "  dec eax",
        "  jne 25b",
        "  jmp 26f",
        "24:",
        "  sub rsp, 8",
        "26:",
        "  lea r10, [rip + memprof_real]",
        "  call qword ptr [r10 + 8 * rbx]",
        "  sub rsp, 16",
        "  mov qword ptr [rsp], rax",
        "  mov qword ptr [rsp + 8], rdx",
        "  mov edi, ebx",
        "  shr edi, 1",
        "  call qword ptr [rip + {left}]",
        "  mov rax, qword ptr [rsp]",
        "  mov rdx, qword ptr [rsp + 8]",
        "  mov r11, qword ptr [rip + memprof_local@GOTTPOFF]",
        "  mov qword ptr fs:[r11], 0",
        "  mov rbx, qword ptr [rbp - 8]",
        "  mov rsp, rbp",
        "  pop rbp",
        "  .cfi_restore_state",
        "  .cfi_remember_state",
        "  ret",
        // The clock is a function, which may use what the arguments are in.
        "22:",
        "  .cfi_def_cfa rbp, 16",
        "  .cfi_offset rbp, -16",
        "  .cfi_offset rbx, -24",
        "  push rdi",
        "  push rsi",
        "  push rdx",
        "  push rcx",
        "  push r8",
        "  push r9",
        "  sub rsp, 8",
        "  call qword ptr [rip + {clock}]",
        "  add rsp, 8",
        "  pop r9",
        "  pop r8",
        "  pop rcx",
        "  pop rdx",
        "  pop rsi",
        "  pop rdi",
        "  mov r11, qword ptr [rip + memprof_local@GOTTPOFF]",
        "  jmp 23b",
        // Seen inside: is it true?
        "20:",
        "  .cfi_restore_state",
        "  mov r10, qword ptr fs:[r11 + 8]",
        "  cmp rsp, r10",
        "  jae 27f",
        "  mov r10, qword ptr [r10]",
        "  cmp r10, qword ptr fs:[r11 + 16]",
        "  jne 27f",
        "  lea r10, [rip + memprof_real]",
        "  jmp qword ptr [r10 + 8 * rax]",
        "27:",
        "  mov r10, qword ptr [rsp]",
        "  jmp 21b",
        ".cfi_endproc",
        ".p2align 4",
        ".hidden memprof_timed_entries",
        ".globl memprof_timed_entries",
        ".cfi_startproc",
        "memprof_timed_entries:",
        ".set memprof_index, 0",
        ".rept {entries}",
        "  .p2align 4",
        "  mov eax, memprof_index",
        "  jmp memprof_timed",
        "  .set memprof_index, memprof_index + 1",
        ".endr",
        ".cfi_endproc",
        ".popsection",
        entries = const COUNT * 2,
        began = const BEGAN,
        slow = sym SLOW,
        words = sym WORDS,
        left = sym LEFT,
        clock = sym CLOCK,
    );

    /// The clock is the function, and not the time-stamp counter.
    pub static SLOW: AtomicBool = AtomicBool::new(false);
    /// Functions of [`super::Observer`]; 0 while nobody observes.
    pub static LEFT: AtomicUsize = AtomicUsize::new(0);
    pub static CLOCK: AtomicUsize = AtomicUsize::new(0);

    /// Bytes between two entries.
    pub const DISTANCE: usize = 16;

    unsafe extern "C" {
        #[link_name = "memprof_timed_entries"]
        pub static ENTRIES: u8;
    }
}

/// Functions that are called around calls of MPI from outside, by any thread.
#[derive(Copy, Clone, Debug)]
pub struct Observer {
    /// A call of the function of this index returns now. It began at the time in the thread's block, and the thread's
    /// position still is inside.
    pub left: extern "C" fn(function: usize),
    /// Reads the clock; `None` for the processor's time-stamp counter.
    pub clock: Option<extern "C" fn() -> u64>,
}

/// Has calls through entries that are asked for from now on observed: they take some ten instructions more, and two
/// readings of the clock. To be called before the first is asked for.
#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
pub fn observe(observer: Observer) {
    timed::SLOW.store(observer.clock.is_some(), Ordering::Relaxed);
    let clock = observer.clock.map_or(0, |clock| clock as *const () as usize);
    timed::CLOCK.store(clock, Ordering::Relaxed);
    timed::LEFT.store(observer.left as *const () as usize, Ordering::Release);
}

/// Without entries nothing is observed.
#[cfg(not(all(target_arch = "x86_64", target_os = "linux")))]
pub fn observe(_observer: Observer) {}

#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
pub use machine::{entry, set_real};

#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
mod machine {
    use super::{AtomicUsize, Name, Ordering, entries, timed};

    fn cell(name: Name) -> Option<&'static AtomicUsize> {
        // SAFETY: the array is there for as long as the object is loaded, which is for good.
        unsafe { &*core::ptr::addr_of!(entries::REAL) }.get(name.slot())
    }

    /// Returns the entry of a function, a timed one while calls are observed.
    #[must_use]
    pub fn entry(name: Name) -> Option<usize> {
        if name.slot() < 2 * super::COUNT && timed::LEFT.load(Ordering::Acquire) != 0 {
            return Some(
                core::ptr::addr_of!(timed::ENTRIES) as usize + timed::DISTANCE * name.slot(),
            );
        }
        // SAFETY: as above; nobody writes it.
        unsafe { &*core::ptr::addr_of!(entries::ENTRIES) }.get(name.slot()).copied()
    }

    /// Makes the entry lead to `address`. False if it leads elsewhere already.
    pub fn set_real(name: Name, address: usize) -> bool {
        let Some(cell) = cell(name) else {
            return false;
        };
        match cell.compare_exchange(0, address, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => true,
            Err(before) => before == address,
        }
    }
}

#[cfg(not(all(target_arch = "x86_64", target_os = "linux")))]
pub use elsewhere::{entry, set_real};

/// Without entries for this processor MPI is not entered through the tool.
#[cfg(not(all(target_arch = "x86_64", target_os = "linux")))]
mod elsewhere {
    use super::Name;

    pub fn entry(_name: Name) -> Option<usize> {
        None
    }

    pub fn set_real(_name: Name, _address: usize) -> bool {
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::functions::{FUNCTIONS, find, name};
    use crate::thread::{Position, block};

    fn position() -> &'static Position {
        // SAFETY: the thread's own block, which lives as long as the thread.
        unsafe { &*block() }
    }

    #[cfg(all(target_arch = "x86_64", target_os = "linux"))]
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
            // What is aligned is known to the compiler, so it has to be hidden from it.
            let marker = 0u128;
            let mut address = core::ptr::from_ref(&marker) as usize;
            // SAFETY: nothing but a copy.
            unsafe { core::arch::asm!("/* {0} */", inout(reg) address, options(nostack)) };
            assert_eq!(address % 16, 0, "the stack is aligned");
            let words = [a, b, c, d, e, f, g, h, i, j, k, l, m];
            SEEN.with_borrow_mut(|seen| *seen = (position().function.get(), words));
            0x1234_5678_9abc_def0
        }

        fn entry_of(symbol: &str, leads_to: usize) -> Function {
            let name = find(symbol.as_bytes()).expect("a function");
            assert!(set_real(name, leads_to));
            // SAFETY: entries take as many words as they need of those given.
            unsafe { core::mem::transmute::<usize, Function>(entry(name).expect("an entry")) }
        }

        fn call(function: Function) -> usize {
            // SAFETY: any words will do.
            unsafe { function(1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13) }
        }

        #[test]
        fn every_entry_hands_its_words_through_and_the_result_back() {
            let mut arities = [0; 14];
            for (index, (symbol, words)) in FUNCTIONS.iter().enumerate() {
                // Those that other tests lead elsewhere.
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
        if cfg!(all(target_arch = "x86_64", target_os = "linux")) {
            let name = find(b"MPIX_Comm_shrink").expect("a function");
            assert!(set_real(name, 64));
            assert!(set_real(name, 64));
            assert!(!set_real(name, 128));
        }
    }
}
