//! The entries into MPI. Each function has one of exact arity for its `MPI_` and one for its `PMPI_`
//! name. Entering writes three words of the thread, leaving writes one:
//!
//! - Inside MPI already (a callback of the program, a binding on top of another): straight on.
//! - The entry from outside is remembered with its stack pointer and return address, so that leaving
//!   MPI by longjmp or by an exception is noticed by whoever looks next ([`Local::inside_mpi`] and the
//!   entries themselves).
//!
//! They are written out, since they have to know the stack pointer at entry to the byte; they carry the
//! notes that exceptions need to pass through them.
//!
//! [`Local::inside_mpi`]: crate::base::thread::Local::inside_mpi

#![allow(unsafe_code)]

use core::sync::atomic::{AtomicUsize, Ordering};

/// The functions and their words, as the assembler reads it.
const TEXT: &str = include_str!("functions.s");

const fn count(text: &[u8]) -> usize {
    let (mut index, mut count, mut start) = (0, 0, true);
    while index < text.len() {
        if start && text[index] == b'm' {
            count += 1;
        }
        start = text[index] == b'\n';
        index += 1;
    }
    count
}

/// Number of functions.
pub const COUNT: usize = count(TEXT.as_bytes());

/// Name and words of each.
static FUNCTIONS: [(&str, u8); COUNT] = {
    let text = TEXT.as_bytes();
    let mut functions = [("", 0); COUNT];
    let (mut index, mut count) = (0, 0);
    while index < text.len() {
        let mut end = index;
        while end < text.len() && text[end] != b'\n' {
            end += 1;
        }
        if text[index] == b'm' {
            // `memprof_mpi NAME, WORDS`
            let mut comma = index + 12;
            while text[comma] != b',' {
                comma += 1;
            }
            let (_, rest) = TEXT.split_at(index + 12);
            let (name, _) = rest.split_at(comma - index - 12);
            let mut words = 0;
            let mut digit = comma + 2;
            while digit < end {
                words = words * 10 + text[digit] - b'0';
                digit += 1;
            }
            functions[count] = (name, words);
            count += 1;
        }
        index = end + 1;
    }
    functions
};

/// The words of `MPI_Pcontrol`, which has no entry here but is a function of MPI.
pub const PCONTROL: usize = COUNT;

/// An entry: function and which of its names.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Name {
    pub function: usize,
    /// By its `PMPI_` name.
    pub profiling: bool,
}

impl Name {
    const fn slot(self) -> usize {
        self.function * 2 + self.profiling as usize
    }
}

/// The function of this name (`MPI_Send`, `PMPI_Send`).
pub fn find(symbol: &[u8]) -> Option<Name> {
    let (name, profiling) = match symbol.strip_prefix(b"P") {
        Some(name) => (name, true),
        None => (symbol, false),
    };
    if !name.starts_with(b"MPI") {
        return None;
    }
    let function = FUNCTIONS.binary_search_by(|entry| entry.0.as_bytes().cmp(name)).ok()?;
    Some(Name { function, profiling })
}

/// The name of a function by its number; that of `MPI_Pcontrol` too.
pub fn name(function: usize) -> &'static str {
    match FUNCTIONS.get(function) {
        Some((name, _)) => name,
        None if function == PCONTROL => "MPI_Pcontrol",
        None => "",
    }
}

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
pub use machine::{entry, set_real};

#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
mod machine {
    use super::{AtomicUsize, Name, Ordering, entries};

    fn cell(name: Name) -> Option<&'static AtomicUsize> {
        // SAFETY: the array is there for as long as the object is loaded, which is for good.
        unsafe { &*core::ptr::addr_of!(entries::REAL) }.get(name.slot())
    }

    /// The entry of a function.
    pub fn entry(name: Name) -> Option<usize> {
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
    use crate::base::thread::local;

    #[test]
    fn functions_are_sorted_and_found_by_both_names() {
        assert!(FUNCTIONS.windows(2).all(|pair| pair[0].0 < pair[1].0));
        const { assert!(COUNT > 600) };
        for (index, (text, words)) in FUNCTIONS.iter().enumerate() {
            assert!(*words <= 13, "{text}");
            assert_eq!(find(text.as_bytes()), Some(Name { function: index, profiling: false }));
            let profiling = format!("P{text}");
            assert_eq!(find(profiling.as_bytes()), Some(Name { function: index, profiling: true }));
            assert_eq!(name(index), *text);
        }
        for absent in ["MPI_Wtime", "MPI_Wtick", "MPI_Pcontrol", "MPI_Sen", "PPMPI_Send", "", "P"] {
            assert_eq!(find(absent.as_bytes()), None, "{absent}");
        }
        assert_eq!(name(PCONTROL), "MPI_Pcontrol");
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
            SEEN.with_borrow_mut(|seen| *seen = (local().mpi.get(), words));
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
                    assert_eq!(local().mpi.get(), 0);
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
            let outer = local().mpi.get();
            assert_eq!(name(outer - 1), "MPIX_Comm_agree");
            let function = entry_of("PMPI_Barrier", record as *const () as usize);
            assert_eq!(call(function), 0x1234_5678_9abc_def0);
            SEEN.with_borrow(|(word, _)| assert_eq!(*word, outer, "the outermost stays"));
            assert_eq!(local().mpi.get(), outer);
            if a == 1 { 7 } else { panic!("thrown") }
        }

        #[test]
        fn a_call_inside_leaves_the_outermost() {
            let function = entry_of("MPIX_Comm_agree", nested as *const () as usize);
            assert_eq!(call(function), 7);
            assert_eq!(local().mpi.get(), 0);
        }

        #[inline(never)]
        fn look(depth: usize) -> bool {
            let marker = [depth; 8];
            if depth > 0 {
                return look(depth - 1) && core::hint::black_box(marker)[0] == depth;
            }
            local().inside_mpi(core::ptr::from_ref(&marker) as usize)
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
                    assert_eq!(local().mpi.get(), 0);
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
