//! Entries for 64-bit Arm: one routine for all, to which each entry passes its slot in w17.
//!
//! A call stores its return address in a register. The outermost entry therefore keeps the address
//! in its frame, and that location stands for the stack pointer that the entries of other
//! processors store. The next call does not always overwrite the contents of a frame that is gone,
//! so an exception that passes through the frame is detected at once.

#![allow(unsafe_code)]

use core::ffi::{c_int, c_void};
use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use super::Observer;
use crate::functions::{COUNT, Name, WORDS};
use crate::thread::{BEGAN, block};

// x9 to x17 are free at a call. The thread's words are at 0 (function plus one), 8 (place of the
// return address) and 16 (that address) of its block. The frame: x29, x30, x19, and the result
// while a call is observed.
core::arch::global_asm!(
    // The block of the thread in x16.
    ".macro memprof_block",
    "  adrp x16, :gottprel:memprof_local",
    "  ldr x16, [x16, :gottprel_lo12:memprof_local]",
    "  mrs x9, tpidr_el0",
    "  add x16, x9, x16",
    ".endm",
    // The address of something in this object.
    ".macro memprof_address to, of",
    "  adrp \\to, \\of",
    "  add \\to, \\to, :lo12:\\of",
    ".endm",
    ".macro memprof_routine timed",
    "  .cfi_startproc",
    "  .cfi_personality 0x1b, {passes}",
    "  memprof_block",
    "  ldr x9, [x16]",
    "  cbnz x9, 20f",
    "21:",
    "  .cfi_remember_state",
    "  stp x29, x30, [sp, #-32]!",
    "  .cfi_def_cfa_offset 32",
    "  .cfi_offset x29, -32",
    "  .cfi_offset x30, -24",
    "  mov x29, sp",
    "  .cfi_def_cfa_register x29",
    "  str x19, [sp, #16]",
    "  .cfi_offset x19, -16",
    "  mov w19, w17",
    "  add x9, sp, #8",
    "  str x9, [x16, #8]",
    "  str x30, [x16, #16]",
    "  .if \\timed",
    "  memprof_address x9, {slow}",
    "  ldrb w9, [x9]",
    "  cbnz w9, 22f",
    "  mrs x9, cntvct_el0",
    "23:",
    "  str x9, [x16, #{began}]",
    "  .endif",
    "  lsr w10, w19, #1",
    "  add w11, w10, #1",
    "  str x11, [x16]",
    // Words on the stack are given once more.
    "  memprof_address x11, {words}",
    "  ldrb w11, [x11, x10]",
    "  subs w11, w11, #8",
    "  b.ls 24f",
    "  add w12, w11, #1",
    "  and w12, w12, #0xfe",
    "  sub sp, sp, x12, uxtx #3",
    "  add x13, x29, #32",
    "25:",
    "  sub w11, w11, #1",
    "  ldr x14, [x13, w11, uxtw #3]",
    "  str x14, [sp, w11, uxtw #3]",
    "  cbnz w11, 25b",
    "24:",
    "  memprof_address x10, {outer}",
    "  ldr x16, [x10, w19, uxtw #3]",
    "  blr x16",
    "  .if \\timed",
    "  str x0, [x29, #24]",
    "  lsr w0, w19, #1",
    "  memprof_address x9, {left}",
    "  ldr x16, [x9]",
    "  blr x16",
    "  ldr x0, [x29, #24]",
    "  .endif",
    "  memprof_block",
    "  str xzr, [x16]",
    "  mov sp, x29",
    "  ldr x19, [sp, #16]",
    "  ldp x29, x30, [sp], #32",
    "  .cfi_restore_state",
    "  .cfi_remember_state",
    "  ret",
    "  .if \\timed",
    // The clock is a function, which may use what the arguments are in.
    "22:",
    "  .cfi_def_cfa x29, 32",
    "  .cfi_offset x29, -32",
    "  .cfi_offset x30, -24",
    "  .cfi_offset x19, -16",
    "  stp x0, x1, [sp, #-64]!",
    "  stp x2, x3, [sp, #16]",
    "  stp x4, x5, [sp, #32]",
    "  stp x6, x7, [sp, #48]",
    "  memprof_address x9, {clock}",
    "  ldr x16, [x9]",
    "  blr x16",
    "  mov x10, x0",
    "  ldp x2, x3, [sp, #16]",
    "  ldp x4, x5, [sp, #32]",
    "  ldp x6, x7, [sp, #48]",
    "  ldp x0, x1, [sp], #64",
    "  memprof_block",
    "  mov x9, x10",
    "  b 23b",
    "  .endif",
    // Seen inside: is it true?
    "20:",
    "  .cfi_restore_state",
    "  ldr x9, [x16, #8]",
    "  mov x10, sp",
    "  cmp x10, x9",
    "  b.hs 21b",
    "  ldr x10, [x9]",
    "  ldr x11, [x16, #16]",
    "  cmp x10, x11",
    "  b.ne 21b",
    "  memprof_address x10, {real}",
    "  ldr x16, [x10, w17, uxtw #3]",
    "  br x16",
    "  .cfi_endproc",
    ".endm",
    ".macro memprof_entries_to routine",
    "  .cfi_startproc",
    "  .set memprof_index, 0",
    "  .rept {entries}",
    "  mov w17, #memprof_index",
    "  b \\routine",
    "  .set memprof_index, memprof_index + 1",
    "  .endr",
    "  .cfi_endproc",
    ".endm",
    ".pushsection .text.memprof_entries, \"ax\", @progbits",
    ".p2align 6",
    "memprof_plain:",
    "  memprof_routine 0",
    ".p2align 6",
    "memprof_timed:",
    "  memprof_routine 1",
    ".hidden memprof_entries",
    ".globl memprof_entries",
    "memprof_entries:",
    "  memprof_entries_to memprof_plain",
    ".hidden memprof_timed_entries",
    ".globl memprof_timed_entries",
    "memprof_timed_entries:",
    "  memprof_entries_to memprof_timed",
    ".popsection",
    ".purgem memprof_block",
    ".purgem memprof_address",
    ".purgem memprof_routine",
    ".purgem memprof_entries_to",
    entries = const COUNT * 2,
    began = const BEGAN,
    passes = sym passes,
    slow = sym SLOW,
    words = sym WORDS,
    real = sym REAL,
    outer = sym OUTER,
    left = sym LEFT,
    clock = sym CLOCK,
);

/// The functions that nested calls reach.
static REAL: [AtomicUsize; COUNT * 2] = [const { AtomicUsize::new(0) }; COUNT * 2];
/// The functions that calls from outside reach: the same, or their wrappers.
static OUTER: [AtomicUsize; COUNT * 2] = [const { AtomicUsize::new(0) }; COUNT * 2];
/// True if the clock is the function, and not the processor's counter.
static SLOW: AtomicBool = AtomicBool::new(false);
/// Functions of [`Observer`]; 0 without an observer.
static LEFT: AtomicUsize = AtomicUsize::new(0);
static CLOCK: AtomicUsize = AtomicUsize::new(0);

/// Bytes between two entries.
const DISTANCE: usize = 8;

unsafe extern "C" {
    #[link_name = "memprof_entries"]
    static ENTRIES: u8;
    #[link_name = "memprof_timed_entries"]
    static TIMED: u8;
}

/// Personality routine for the frame of an entry. An exception that passes through the outermost
/// entry leaves MPI permanently.
unsafe extern "C" fn passes(
    _: c_int,
    actions: c_int,
    _: u64,
    _: *mut c_void,
    _: *mut c_void,
) -> c_int {
    const CLEANS_UP: c_int = 2;
    const GO_ON: c_int = 8;
    if actions & CLEANS_UP != 0 {
        // SAFETY: the thread's own block. Only the outermost entry has a frame.
        unsafe { (*block()).function.set(0) };
    }
    GO_ON
}

/// Implements [`super::observe`].
pub fn observe(observer: Observer) {
    SLOW.store(observer.clock.is_some(), Ordering::Relaxed);
    let clock = observer.clock.map_or(0, |clock| clock as *const () as usize);
    CLOCK.store(clock, Ordering::Relaxed);
    LEFT.store(observer.left as *const () as usize, Ordering::Release);
}

/// Implements [`super::entry`].
pub fn entry(name: Name) -> Option<usize> {
    let entries = match LEFT.load(Ordering::Acquire) {
        0 => &raw const ENTRIES,
        _ => &raw const TIMED,
    };
    (name.slot() < COUNT * 2).then(|| entries as usize + DISTANCE * name.slot())
}

/// Implements [`super::set_real`].
pub fn set_real(name: Name, address: usize) -> bool {
    super::set(REAL.get(name.slot()), OUTER.get(name.slot()), address)
}

/// Implements [`super::wrap`].
pub fn wrap(name: Name, wrapper: usize) {
    super::replace(OUTER.get(name.slot()), wrapper);
}

/// Implements [`super::real`].
pub fn real(name: Name) -> usize {
    REAL.get(name.slot()).map_or(0, |cell| cell.load(Ordering::Acquire))
}
