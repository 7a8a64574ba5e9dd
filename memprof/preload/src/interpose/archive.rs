//! Support for programs that load nothing at run time: the linker puts these functions between the
//! program, its allocator, its mappings and MPI. `link-flags.txt` next to this folder has the
//! options for the linker.
//!
//! Each `MPI_` function is in its own section and refers to its `PMPI_` name, so that the linker
//! drops those that the program does not use, with everything that they need. The first call is
//! resolved like a call from a loaded object, and further calls go directly to the result.
//!
//! A program that contains MPI but loads its other libraries has the tool preloaded as well, which
//! sees more than an archive can. In such a program the archive is disabled, and the preloaded tool
//! determines where MPI calls go. It finds the word for this through a note in the program's file.

#![allow(unsafe_code)]

use core::ffi::c_char;
use core::sync::atomic::{AtomicU8, AtomicUsize, Ordering};

use crate::base::arch::entry;
use crate::interpose::{self, mappings, mpi_calls, threads};
use crate::ledger::heap::calls;

/// Nonzero where another instance of the tool does the work.
static ASIDE: AtomicU8 = AtomicU8::new(0);

#[used]
#[unsafe(link_section = ".preinit_array")]
static DECIDE: extern "C" fn() = decide;

/// Runs before any code of the program. Checks whether there is a loader, which has then loaded the
/// tool if it is wanted.
extern "C" fn decide() {
    const INTERPRETER: u32 = 3;
    // SAFETY: only reads. The headers are the program's, and stay mapped.
    let headers = unsafe {
        let first = libc::getauxval(libc::AT_PHDR) as *const libc::Elf64_Phdr;
        let count = libc::getauxval(libc::AT_PHNUM) as usize;
        if first.is_null() { &[] } else { core::slice::from_raw_parts(first, count) }
    };
    let loads = headers.iter().any(|header| header.p_type == INTERPRETER);
    ASIDE.store(u8::from(loads), Ordering::Relaxed);
}

/// Returns true if this instance is disabled.
pub fn stands_aside() -> bool {
    ASIDE.load(Ordering::Relaxed) != 0
}

entry! {
    1 memprof_archive_malloc(size: usize) -> *mut u8 = calls::malloc;
    2 memprof_archive_calloc(count: usize, each: usize) -> *mut u8 = calls::calloc;
    2 memprof_archive_realloc(block: *mut u8, size: usize) -> *mut u8 = calls::realloc;
    3 memprof_archive_reallocarray(block: *mut u8, count: usize, each: usize) -> *mut u8
        = calls::reallocarray;
    1 memprof_archive_free(block: *mut u8) = calls::free;
    2 memprof_archive_memalign(alignment: usize, size: usize) -> *mut u8 = calls::memalign;
    2 memprof_archive_aligned_alloc(alignment: usize, size: usize) -> *mut u8
        = calls::aligned_alloc;
    3 memprof_archive_posix_memalign(into: *mut *mut u8, alignment: usize, size: usize) -> i32
        = calls::posix_memalign;
    1 memprof_archive_valloc(size: usize) -> *mut u8 = calls::valloc;
    1 memprof_archive_pvalloc(size: usize) -> *mut u8 = calls::pvalloc;
    1 memprof_archive_malloc_usable_size(block: *mut u8) -> usize = calls::malloc_usable_size;
}

/// Defines functions that the linker calls in place of others, with their targets and the
/// originals.
macro_rules! wrapped {
    ($($wrapper:ident $real:ident => $work:path;)*) => {
        unsafe extern "C" {
            $(fn $real();)*
        }

        $(
            /// # Safety
            /// As required by the function of this name in the C library.
            #[unsafe(no_mangle)]
            #[unsafe(naked)]
            unsafe extern "C-unwind" fn $wrapper() {
                core::arch::naked_asm!(
                    "cmp byte ptr [rip + {aside}], 0",
                    "jne 2f",
                    "jmp {work}",
                    // A jump, so that its target sees the caller.
                    "2: jmp {real}",
                    aside = sym ASIDE,
                    work = sym $work,
                    real = sym $real,
                )
            }
        )*
    };
}

wrapped! {
    __wrap_malloc __real_malloc => memprof_archive_malloc;
    __wrap_calloc __real_calloc => memprof_archive_calloc;
    __wrap_realloc __real_realloc => memprof_archive_realloc;
    __wrap_reallocarray __real_reallocarray => memprof_archive_reallocarray;
    __wrap_free __real_free => memprof_archive_free;
    __wrap_memalign __real_memalign => memprof_archive_memalign;
    __wrap_aligned_alloc __real_aligned_alloc => memprof_archive_aligned_alloc;
    __wrap_posix_memalign __real_posix_memalign => memprof_archive_posix_memalign;
    __wrap_valloc __real_valloc => memprof_archive_valloc;
    __wrap_pvalloc __real_pvalloc => memprof_archive_pvalloc;
    __wrap_malloc_usable_size __real_malloc_usable_size
        => memprof_archive_malloc_usable_size;
    __wrap_mmap __real_mmap => mappings::mmap;
    __wrap_mmap64 __real_mmap64 => mappings::mmap;
    __wrap_munmap __real_munmap => mappings::munmap;
    __wrap_mremap __real_mremap => mappings::mremap;
    __wrap_shmat __real_shmat => mappings::shmat;
    __wrap_shmdt __real_shmdt => mappings::shmdt;
    __wrap_brk __real_brk => mappings::brk;
    __wrap_sbrk __real_sbrk => mappings::sbrk;
    __wrap_pthread_create __real_pthread_create => threads::pthread_create;
}

/// Target of the calls of one MPI function; created by the assembly below.
#[repr(C)]
struct Call {
    /// Initially the address of code that calls [`bind`].
    target: AtomicUsize,
    /// Address of the function with the `PMPI_` name.
    real: usize,
    name: *const c_char,
}

#[unsafe(no_mangle)]
static memprof_archive_joined: AtomicUsize = AtomicUsize::new(0);

/// Handles the first call of an MPI function. Returns the target of this call and all later ones.
unsafe extern "C-unwind" fn bind(call: *const Call) -> usize {
    // SAFETY: the record of the call, which lives as long as the program.
    let call = unsafe { &*call };
    let joined = memprof_archive_joined.load(Ordering::Acquire);
    let found = if joined != 0 {
        // SAFETY: the preloaded tool has stored its function of this type there.
        let bind: interpose::Bind = unsafe { core::mem::transmute(joined) };
        // SAFETY: name and function of this call.
        unsafe { bind(call.name, call.real) }
    } else if stands_aside() {
        0
    } else {
        // SAFETY: as above.
        unsafe { interpose::bind(call.name, call.real) }
    };
    let target = if found == 0 { call.real } else { found };
    call.target.store(target, Ordering::Release);
    target
}

mpi_calls::forward!(first_call, bind, "mov rdi, r11");

core::arch::global_asm!(
    ".macro memprof_mpi name, words",
    ".section .text.memprof.\\name, \"ax\", @progbits",
    ".p2align 4",
    // A definition of this name in another tool takes precedence.
    ".weak \\name",
    ".type \\name, @function",
    "\\name:",
    "  jmp qword ptr [rip + 5f]",
    "6:",
    "  lea r11, [rip + 5f]",
    "  jmp {first_call}",
    ".section .rodata.memprof.\\name, \"a\", @progbits",
    "7: .asciz \"\\name\"",
    ".section .data.memprof.\\name, \"aw\", @progbits",
    ".p2align 3",
    "5: .quad 6b, P\\name, 7b",
    ".endm",
    include_str!("../../../boundary/src/functions.s"),
    "memprof_mpi MPI_Pcontrol, 2",
    // A macro of this name from the thunks may be in the same compilation unit.
    ".purgem memprof_mpi",
    // Symbol that makes the linker include this object, whatever else it needs.
    ".globl memprof_archive",
    ".set memprof_archive, memprof_archive_joined",
    ".section .note.memprof, \"a\", @note",
    ".p2align 2",
    ".long 8, 8, 1",
    ".asciz \"memprof\"",
    "1: .quad memprof_archive_joined - 1b",
    ".text",
    first_call = sym first_call,
);
