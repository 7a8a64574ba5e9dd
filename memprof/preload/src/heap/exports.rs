//! The names under which the program finds us instead of the C library.

#![allow(unsafe_code)]

use super::{blocks, family};
#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
use super::{quick, real};
use crate::arch::entry;

entry! {
    2 calloc(count: usize, each: usize) -> *mut u8 = blocks::calloc;
    2 realloc(block: *mut u8, size: usize) -> *mut u8 = blocks::realloc;
    3 reallocarray(block: *mut u8, count: usize, each: usize) -> *mut u8 = family::reallocarray;
    1 cfree(block: *mut u8) = family::cfree;
    2 free_sized(block: *mut u8, size: usize) = family::free_sized;
    3 free_aligned_sized(block: *mut u8, alignment: usize, size: usize)
        = family::free_aligned_sized;
    2 memalign(alignment: usize, size: usize) -> *mut u8 = family::memalign;
    2 aligned_alloc(alignment: usize, size: usize) -> *mut u8 = family::aligned_alloc;
    3 posix_memalign(into: *mut *mut u8, alignment: usize, size: usize) -> i32
        = family::posix_memalign;
    1 valloc(size: usize) -> *mut u8 = family::valloc;
    1 pvalloc(size: usize) -> *mut u8 = family::pvalloc;
    1 malloc_usable_size(block: *mut u8) -> usize = family::malloc_usable_size;
}

/// Frees a block; its tag names the owner, whoever calls.
///
/// # Safety
/// As the function of this name in the C library asks for.
#[cfg_attr(not(test), unsafe(no_mangle))]
#[cfg_attr(test, allow(dead_code))]
pub unsafe extern "C-unwind" fn free(block: *mut u8) {
    // SAFETY: as the caller's.
    unsafe { blocks::free(block, 0, 0) }
}

#[cfg(not(all(target_arch = "x86_64", target_os = "linux")))]
entry! {
    1 malloc(size: usize) -> *mut u8 = blocks::malloc;
}

/// As [`blocks::malloc`], which nothing of is on the stack any more when the C library's malloc has come
/// back, and little before.
///
/// # Safety
/// As the function of this name in the C library asks for.
#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
#[cfg_attr(not(test), unsafe(no_mangle))]
#[cfg_attr(test, allow(dead_code))]
#[unsafe(naked)]
pub unsafe extern "C-unwind" fn malloc(_size: usize) -> *mut u8 {
    core::arch::naked_asm!(
        ".cfi_startproc",
        "cmp byte ptr [rip + {quick} + {open}], 0",
        "je 2f",
        "push rbx",
        ".cfi_adjust_cfa_offset 8",
        ".cfi_rel_offset rbx, 0",
        "mov rbx, rdi",
        "add rdi, {tag}",
        "jc 3f",
        "call qword ptr [rip + {quick} + {malloc}]",
        "mov rsi, rbx",
        "pop rbx",
        ".cfi_adjust_cfa_offset -8",
        ".cfi_restore rbx",
        "mov rdi, rax",
        "mov rdx, qword ptr [rsp]",
        "mov r8, rsp",
        "test rax, rax",
        "jne {enter}",
        "ret",
        "3:",
        ".cfi_adjust_cfa_offset 8",
        "mov rdi, rbx",
        "pop rbx",
        ".cfi_adjust_cfa_offset -8",
        "2:",
        "mov rsi, qword ptr [rsp]",
        "mov rdx, rsp",
        "jmp {general}",
        ".cfi_endproc",
        quick = sym real::QUICK,
        open = const core::mem::offset_of!(real::Quick, open),
        malloc = const core::mem::offset_of!(real::Quick, malloc),
        tag = const super::tag::SIZE,
        enter = sym quick::enter,
        general = sym blocks::malloc,
    )
}
