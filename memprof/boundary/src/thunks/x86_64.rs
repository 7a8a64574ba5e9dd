//! Entries for x86-64.

#![allow(unsafe_code)]

use core::sync::atomic::{AtomicUsize, Ordering};

use super::Observer;
use crate::functions::{COUNT, Name, TEXT};

mod entries {
    use super::{COUNT, TEXT};
    use core::sync::atomic::AtomicUsize;

    // The thread's words are at 0 (function plus one), 8 (stack pointer) and 16 (return address) of
    // its block. r10, r11 and rax are free at a call. On the way out, rax and rdx hold the result.
    // An entry begins at a cache line, so that it is in two lines and not in three, which is
    // measurable with a message of one byte (0.3 of 2.9 %).
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
        "  call qword ptr [rip + memprof_outer + 8 * (\\slot)]",
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
        ".hidden memprof_outer",
        ".globl memprof_outer",
        ".type memprof_outer, @object",
        ".size memprof_outer, {bytes}",
        "memprof_outer:",
        ".zero {bytes}",
        ".popsection",
        ".pushsection .data.rel.ro.memprof_entries, \"aw\", @progbits",
        ".p2align 3",
        ".hidden memprof_entries",
        ".globl memprof_entries",
        "memprof_entries:",
        ".popsection",
        ".pushsection .text.memprof_entries, \"ax\", @progbits",
        include_str!("../functions.s"),
        ".popsection",
        ".purgem memprof_mpi",
        ".purgem memprof_entry",
        bytes = const COUNT * 2 * 8,
    );
    const _: () = assert!(!TEXT.is_empty());

    unsafe extern "C" {
        #[link_name = "memprof_real"]
        pub static REAL: [AtomicUsize; COUNT * 2];
        #[link_name = "memprof_outer"]
        pub static OUTER: [AtomicUsize; COUNT * 2];
        #[link_name = "memprof_entries"]
        pub static ENTRIES: [usize; COUNT * 2];
    }
}

mod timed {
    use core::sync::atomic::{AtomicBool, AtomicUsize};

    use crate::functions::{COUNT, WORDS};
    use crate::thread::BEGAN;

    // As the entries above, but with one routine for all: each entry only passes its slot in eax,
    // which is free at a call. The time of entry is stored in the thread's block; rdx, which the
    // time-stamp counter overwrites, is an argument. The stack pointer before the call of MPI
    // varies, so the frame is found by rbp.
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
        "  lea r10, [rip + memprof_outer]",
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

    /// True if the clock is the function, and not the time-stamp counter.
    pub static SLOW: AtomicBool = AtomicBool::new(false);
    /// Functions of [`super::Observer`]; 0 without an observer.
    pub static LEFT: AtomicUsize = AtomicUsize::new(0);
    pub static CLOCK: AtomicUsize = AtomicUsize::new(0);

    /// Bytes between two entries.
    pub const DISTANCE: usize = 16;

    unsafe extern "C" {
        #[link_name = "memprof_timed_entries"]
        pub static ENTRIES: u8;
    }
}

/// Implements [`super::observe`].
pub fn observe(observer: Observer) {
    timed::SLOW.store(observer.clock.is_some(), Ordering::Relaxed);
    let clock = observer.clock.map_or(0, |clock| clock as *const () as usize);
    timed::CLOCK.store(clock, Ordering::Relaxed);
    timed::LEFT.store(observer.left as *const () as usize, Ordering::Release);
}

fn cell(name: Name) -> Option<&'static AtomicUsize> {
    // SAFETY: the array exists as long as the object is loaded, which is permanently.
    unsafe { &*core::ptr::addr_of!(entries::REAL) }.get(name.slot())
}

fn outer(name: Name) -> Option<&'static AtomicUsize> {
    // SAFETY: as above.
    unsafe { &*core::ptr::addr_of!(entries::OUTER) }.get(name.slot())
}

/// Implements [`super::entry`].
pub fn entry(name: Name) -> Option<usize> {
    if name.slot() < 2 * COUNT && timed::LEFT.load(Ordering::Acquire) != 0 {
        return Some(core::ptr::addr_of!(timed::ENTRIES) as usize + timed::DISTANCE * name.slot());
    }
    // SAFETY: as above; the table is never written.
    unsafe { &*core::ptr::addr_of!(entries::ENTRIES) }.get(name.slot()).copied()
}

/// Implements [`super::set_real`].
pub fn set_real(name: Name, address: usize) -> bool {
    super::set(cell(name), outer(name), address)
}

/// Implements [`super::wrap`].
pub fn wrap(name: Name, wrapper: usize) {
    super::replace(outer(name), wrapper);
}

/// Implements [`super::real`].
pub fn real(name: Name) -> usize {
    cell(name).map_or(0, |cell| cell.load(Ordering::Acquire))
}
