//! For programs that load nothing at run time: the linker puts these between the program, its allocator
//! and MPI. `link-flags.txt` beside this folder is what it has to be told.
//!
//! Each `MPI_` function is in a section of its own and calls its `PMPI_` name, so that the linker drops
//! those that the program does not use, with all that they need. Everything in a static program is one
//! object, so of an allocation it is known only whether the thread was inside MPI.

#![allow(unsafe_code)]

use core::ffi::CStr;

use crate::arch::entry;
use crate::heap::blocks as wrapped;

entry! {
    1 __wrap_malloc(size: usize) -> *mut u8 = wrapped::malloc;
    2 __wrap_calloc(count: usize, each: usize) -> *mut u8 = wrapped::calloc;
    2 __wrap_realloc(block: *mut u8, size: usize) -> *mut u8 = wrapped::realloc;
    3 __wrap_reallocarray(block: *mut u8, count: usize, each: usize) -> *mut u8
        = wrapped::reallocarray;
    1 __wrap_free(block: *mut u8) = wrapped::free;
    2 __wrap_memalign(alignment: usize, size: usize) -> *mut u8 = wrapped::memalign;
    2 __wrap_aligned_alloc(alignment: usize, size: usize) -> *mut u8 = wrapped::aligned_alloc;
    3 __wrap_posix_memalign(into: *mut *mut u8, alignment: usize, size: usize) -> i32
        = wrapped::posix_memalign;
    1 __wrap_valloc(size: usize) -> *mut u8 = wrapped::valloc;
    1 __wrap_pvalloc(size: usize) -> *mut u8 = wrapped::pvalloc;
    1 __wrap_malloc_usable_size(block: *mut u8) -> usize = wrapped::malloc_usable_size;
}

unsafe extern "C" {
    fn __real_malloc();
    fn __real_calloc();
    fn __real_realloc();
    fn __real_free();
    fn __real_memalign();
    fn __real_aligned_alloc();
    fn __real_posix_memalign();
    fn __real_pvalloc();
    fn __real_malloc_usable_size();
}

/// What the linker has put behind a function of the allocator; 0 for other names.
pub fn real(name: &CStr) -> usize {
    let function: unsafe extern "C" fn() = match name.to_bytes() {
        b"malloc" => __real_malloc,
        b"calloc" => __real_calloc,
        b"realloc" => __real_realloc,
        b"free" => __real_free,
        b"memalign" => __real_memalign,
        b"aligned_alloc" => __real_aligned_alloc,
        b"posix_memalign" => __real_posix_memalign,
        b"pvalloc" => __real_pvalloc,
        b"malloc_usable_size" => __real_malloc_usable_size,
        _ => return 0,
    };
    function as *const () as usize
}

type Function = unsafe extern "C-unwind" fn(usize, usize, usize, usize, usize, usize) -> usize;

macro_rules! around {
    ($($name:ident: $before:block $after:block)*) => {$(
        #[unsafe(no_mangle)]
        unsafe extern "C-unwind" fn $name(
            a: usize, b: usize, c: usize, d: usize, e: usize, f: usize, entry: Function,
        ) -> usize {
            $before
            // SAFETY: the words of the program's call, for the entry of the same function.
            let result = unsafe { entry(a, b, c, d, e, f) };
            $after
            result
        }
    )*};
}

around! {
    memprof_archive_begin: {
        crate::start::mpi_begins();
        crate::phases::mpi_begins();
    } {
        crate::phases::mpi_is_ready();
        crate::start::mpi_ready();
    }
    memprof_archive_end: {
        crate::start::mpi_ends();
        crate::phases::mpi_ends();
    } {
        crate::phases::mpi_has_ended();
        crate::start::mpi_ended();
    }
}

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn memprof_archive_control(level: i32, second: usize) {
    crate::phases::pcontrol(level, second);
}

// As in the table of entries for loaded libraries, but what follows is the linker's business.
core::arch::global_asm!(
    ".macro memprof_mpi name, words",
    ".section .text.memprof.\\name, \"ax\", @progbits",
    ".p2align 4",
    ".ifc \\name, MPI_Init",
    "memprof_around \\name, begin",
    ".endif",
    ".ifc \\name, MPI_Init_thread",
    "memprof_around \\name, begin",
    ".endif",
    ".ifc \\name, MPI_Session_init",
    "memprof_around \\name, begin",
    ".endif",
    ".ifc \\name, MPI_Finalize",
    "memprof_around \\name, end",
    ".endif",
    ".ifndef memprof_named_\\name",
    ".globl \\name",
    ".type \\name, @function",
    "\\name:",
    ".endif",
    "6:",
    "  .cfi_startproc",
    "  mov r11, qword ptr [rip + memprof_local@GOTTPOFF]",
    "  mov r10, qword ptr [rsp]",
    "  cmp qword ptr fs:[r11], 0",
    "  jne 2f",
    "1:",
    "  mov qword ptr fs:[r11 + 8], rsp",
    "  mov qword ptr fs:[r11 + 16], r10",
    "  mov qword ptr fs:[r11], memprof_number",
    "  .if (\\words) > 6",
    "  .set memprof_room, 8 * ((\\words) - 6) + 8 * (1 - ((\\words) & 1))",
    "  .set memprof_pad, memprof_room - 8 * ((\\words) - 6)",
    "  sub rsp, memprof_pad",
    "  .cfi_adjust_cfa_offset memprof_pad",
    "  .rept (\\words) - 6",
    "  push qword ptr [rsp + memprof_pad + 8 * ((\\words) - 6)]",
    "  .cfi_adjust_cfa_offset 8",
    "  .endr",
    "  .else",
    "  .set memprof_room, 8",
    "  sub rsp, 8",
    "  .cfi_adjust_cfa_offset 8",
    "  .endif",
    "  call P\\name",
    "  add rsp, memprof_room",
    "  .cfi_adjust_cfa_offset -memprof_room",
    "  mov r11, qword ptr [rip + memprof_local@GOTTPOFF]",
    "  mov qword ptr fs:[r11], 0",
    "  ret",
    "2:",
    "  mov rax, qword ptr fs:[r11 + 8]",
    "  cmp rsp, rax",
    "  jae 1b",
    "  mov rax, qword ptr [rax]",
    "  cmp rax, qword ptr fs:[r11 + 16]",
    "  jne 1b",
    "  jmp P\\name",
    "  .cfi_endproc",
    ".set memprof_number, memprof_number + 1",
    ".endm",
    ".macro memprof_around name, kind",
    ".set memprof_named_\\name, 1",
    ".globl \\name",
    ".type \\name, @function",
    "\\name:",
    "  .cfi_startproc",
    "  lea rax, [rip + 6f]",
    "  push rax",
    "  .cfi_adjust_cfa_offset 8",
    "  call memprof_archive_\\kind",
    "  add rsp, 8",
    "  .cfi_adjust_cfa_offset -8",
    "  ret",
    "  .cfi_endproc",
    ".p2align 4",
    ".endm",
    ".set memprof_number, 1",
    include_str!("boundary/functions.s"),
    // Its arguments vary and stay where they are.
    ".section .text.memprof.MPI_Pcontrol, \"ax\", @progbits",
    ".globl MPI_Pcontrol",
    ".type MPI_Pcontrol, @function",
    "MPI_Pcontrol:",
    "  .cfi_startproc",
    "  push rdi",
    "  .cfi_adjust_cfa_offset 8",
    "  push rsi",
    "  .cfi_adjust_cfa_offset 8",
    "  push rax",
    "  .cfi_adjust_cfa_offset 8",
    "  call memprof_archive_control",
    "  pop rax",
    "  .cfi_adjust_cfa_offset -8",
    "  pop rsi",
    "  .cfi_adjust_cfa_offset -8",
    "  pop rdi",
    "  .cfi_adjust_cfa_offset -8",
    "  jmp PMPI_Pcontrol",
    "  .cfi_endproc",
    ".text",
);
