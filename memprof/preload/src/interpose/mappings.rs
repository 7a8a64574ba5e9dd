//! Mappings that the program and its libraries make, change and unmap.

#![allow(unsafe_code)]

use core::ffi::c_int;
use core::sync::atomic::{AtomicUsize, Ordering};

use super::hooked::{Function, SYSCALL, hook, real};
use crate::base::arch::code;
use crate::base::component::Component;
use crate::base::dictionary;
use crate::base::thread::local;
use crate::ledger::ranges;
use crate::owners;
use crate::recording::mpi_position;
use crate::sampling::sampler;

/// Minimum size of a release that is examined before it happens.
pub const LOOKED_AT: usize = 1 << 20;

/// Since Linux 5.7.
const MREMAP_DONTUNMAP: usize = 4;

type Call = unsafe extern "C-unwind" fn(usize, usize, usize, usize, usize, usize) -> usize;

/// # Safety
///
/// `words` are the arguments of a call to this function.
unsafe fn pass(function: Function, words: [usize; 6]) -> usize {
    let [a, b, c, d, e, f] = words;
    // SAFETY: the real function, which uses as many of the words as it needs.
    unsafe {
        let real: Call = core::mem::transmute(real(function));
        real(a, b, c, d, e, f)
    }
}

fn failed(address: usize) -> bool {
    address == libc::MAP_FAILED as usize
}

/// Returns true for mappings that the tool makes, which it registers itself.
fn is_tools() -> bool {
    local().guard.get() > 0
}

/// Returns the owner of a shared mapping that an object has made. Segments of an MPI and memory
/// that the program shares are separate components; a file that the program maps belongs to the
/// mapper. A window that MPI maps is the program's in every rank that maps it, however much of it
/// each rank has requested.
fn shared_owner(maker: Component, memory: bool, file: c_int) -> Component {
    match dictionary::class(maker) {
        class if class.is_mpi() && makes_window() => Component::MPI_FOR_USER,
        class if class.is_mpi() => Component::MPI_SHARED,
        _ if memory || lies_in_memory(file) => Component::APPLICATION_SHARED,
        _ => maker,
    }
}

/// Returns true if the calling thread is inside an MPI function that allocates a window.
fn makes_window() -> bool {
    let word = local().mpi.function.get();
    mpi_position::function_name(word).starts_with("MPI_Win_allocate")
}

/// Returns true for files of /dev/shm, memfd_create and hugetlbfs.
fn lies_in_memory(file: c_int) -> bool {
    // SAFETY: the kernel fills the structure; the program's error number is restored.
    unsafe {
        let error = *libc::__errno_location();
        let mut about: libc::statfs = core::mem::zeroed();
        let known = libc::fstatfs(file, &raw mut about) == 0;
        *libc::__errno_location() = error;
        known && matches!(about.f_type as i64, libc::TMPFS_MAGIC | libc::HUGETLBFS_MAGIC)
    }
}

hook! {
    mmap => mmap_work;
    munmap => munmap_work;
    ucx_mmap => ucx_mmap_work;
    ucx_munmap => ucx_munmap_work;
    mremap => mremap_work;
    shmat => shmat_work;
    shmdt => shmdt_work;
    brk => brk_work;
    sbrk => sbrk_work;
}

macro_rules! mmap_by {
    ($work:ident, $function:expr, $maker:expr) => {
        unsafe extern "C-unwind" fn $work(
            address: usize,
            length: usize,
            protection: usize,
            flags: usize,
            file: usize,
            offset: usize,
            caller: usize,
            stack: usize,
        ) -> usize {
            let words = [address, length, protection, flags, file, offset];
            // SAFETY: the caller's arguments.
            let result = unsafe { pass($function, words) };
            let maker: fn(usize, usize) -> Option<Component> = $maker;
            if !failed(result)
                && let Some(maker) = maker(caller, stack)
            {
                mapped(result, length, flags as c_int, file as c_int, maker);
            }
            result
        }
    };
}

mmap_by!(mmap_work, Function::Mmap, |caller, stack| {
    (!is_tools()).then(|| owners::owner(caller, stack))
});
// Also where UCX maps memory in a call that the tool has made, for example when that call frees
// memory.
mmap_by!(ucx_mmap_work, Function::UcxMmap, |caller, _| Some(owners::caller(caller).component));

/// Records that `maker` has mapped `length` bytes with these flags of `mmap(2)`.
pub fn mapped(start: usize, length: usize, flags: c_int, file: c_int, maker: Component) {
    let shared = flags & libc::MAP_TYPE != libc::MAP_PRIVATE;
    let owner = match shared {
        true => shared_owner(maker, flags & libc::MAP_ANONYMOUS != 0, file),
        false => maker,
    };
    ranges::mapped(start, length, owner, shared);
}

macro_rules! munmap_by {
    ($work:ident, $function:expr) => {
        unsafe extern "C-unwind" fn $work(
            address: usize,
            length: usize,
            c: usize,
            d: usize,
            e: usize,
            f: usize,
            _caller: usize,
            _stack: usize,
        ) -> usize {
            let words = [address, length, c, d, e, f];
            if is_tools() {
                // SAFETY: the caller's arguments.
                return unsafe { pass($function, words) };
            }
            if length >= LOOKED_AT {
                sampler::before_release(address, length);
            }
            local().mpi.forget_stack(address, length);
            let leaving = ranges::leaves(address, length);
            // SAFETY: the caller's arguments.
            let result = unsafe { pass($function, words) };
            ranges::left(&leaving, result as c_int == 0);
            result
        }
    };
}

munmap_by!(munmap_work, Function::Munmap);
munmap_by!(ucx_munmap_work, Function::UcxMunmap);

unsafe extern "C-unwind" fn mremap_work(
    old: usize,
    old_length: usize,
    length: usize,
    flags: usize,
    new: usize,
    f: usize,
    caller: usize,
    stack: usize,
) -> usize {
    if !is_tools() && old_length > length && old_length - length >= LOOKED_AT {
        sampler::before_release(old.wrapping_add(length), old_length - length);
    }
    // A length of zero makes a second mapping of shared memory, and leaves the first where it is.
    let moving = (!is_tools() && old_length != 0).then(|| ranges::moves(old, old_length));
    // SAFETY: the caller's arguments.
    let result = unsafe { pass(Function::Mremap, [old, old_length, length, flags, new, f]) };
    if let Some(moving) = moving {
        match failed(result) {
            true => ranges::stayed(&moving),
            // Only the pages move: the old addresses stay mapped, with the same owner.
            false if flags & MREMAP_DONTUNMAP != 0 => ranges::doubled(&moving, result, length),
            false => ranges::moved(&moving, result, length),
        }
    }
    if !failed(result) && !is_tools() && old_length == 0 {
        let owner = shared_owner(owners::owner(caller, stack), true, -1);
        ranges::mapped(result, length, owner, true);
    }
    result
}

/// Address and length of attached segments.
static ATTACHED: [[AtomicUsize; 2]; 128] = [const { [const { AtomicUsize::new(0) }; 2] }; 128];

unsafe extern "C-unwind" fn shmat_work(
    segment: usize,
    address: usize,
    flags: usize,
    d: usize,
    e: usize,
    f: usize,
    caller: usize,
    stack: usize,
) -> usize {
    // SAFETY: the caller's arguments.
    let result = unsafe { pass(Function::Shmat, [segment, address, flags, d, e, f]) };
    if !failed(result) && !is_tools() {
        attached(result, segment as c_int, owners::owner(caller, stack));
    }
    result
}

/// Records that `maker` has attached a segment at `start`.
pub fn attached(start: usize, segment: c_int, maker: Component) {
    // SAFETY: the kernel fills the structure; the program's error number is restored.
    let length = unsafe {
        let error = *libc::__errno_location();
        let mut status: libc::shmid_ds = core::mem::zeroed();
        let known = libc::shmctl(segment, libc::IPC_STAT, &raw mut status) == 0;
        *libc::__errno_location() = error;
        if known { status.shm_segsz } else { 0 }
    };
    if length == 0 {
        return;
    }
    ranges::mapped(start, length, shared_owner(maker, true, -1), true);
    // A segment that something else was mapped over has never been detached.
    for [at, size] in ATTACHED.iter().filter(|[at, _]| starts_at(at, start)) {
        size.store(0, Ordering::Release);
        at.store(0, Ordering::Release);
    }
    let free = |[at, _]: &&[AtomicUsize; 2]| {
        at.compare_exchange(0, start, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    };
    if let Some([_, size]) = ATTACHED.iter().find(free) {
        size.store(length, Ordering::Release);
    }
}

unsafe extern "C-unwind" fn shmdt_work(
    address: usize,
    b: usize,
    c: usize,
    d: usize,
    e: usize,
    f: usize,
    _caller: usize,
    _stack: usize,
) -> usize {
    let place = ATTACHED.iter().find(|[start, _]| !is_tools() && starts_at(start, address));
    let length = place.map_or(0, |[_, size]| size.load(Ordering::Acquire));
    if length >= LOOKED_AT {
        sampler::before_release(address, length);
    }
    let leaving = (length > 0).then(|| ranges::leaves(address, length));
    // SAFETY: the caller's arguments.
    let result = unsafe { pass(Function::Shmdt, [address, b, c, d, e, f]) };
    if let (Some(leaving), Some([start, size])) = (leaving, place) {
        let detached = result as c_int == 0;
        ranges::left(&leaving, detached);
        if detached {
            size.store(0, Ordering::Release);
            start.store(0, Ordering::Release);
        }
    }
    result
}

fn starts_at(start: &AtomicUsize, address: usize) -> bool {
    address != 0 && start.load(Ordering::Acquire) == address
}

/// Returns the present end of the data segment.
fn end_of_data() -> usize {
    // SAFETY: only reads the end.
    unsafe { pass(Function::Sbrk, [0; 6]) }
}

fn grown(from: usize, to: usize, caller: usize, stack: usize) {
    if to > from {
        ranges::mapped(from, to - from, owners::owner(caller, stack), false);
    } else if to < from {
        ranges::unmapped(to, from - to);
    }
}

unsafe extern "C-unwind" fn brk_work(
    address: usize,
    b: usize,
    c: usize,
    d: usize,
    e: usize,
    f: usize,
    caller: usize,
    stack: usize,
) -> usize {
    let before = end_of_data();
    if !failed(before) && before > address {
        sampler::before_release(address, before - address);
    }
    // SAFETY: the caller's arguments.
    let result = unsafe { pass(Function::Brk, [address, b, c, d, e, f]) };
    if result as c_int == 0 && !is_tools() && !failed(before) {
        grown(before, address, caller, stack);
    }
    result
}

unsafe extern "C-unwind" fn sbrk_work(
    increment: usize,
    b: usize,
    c: usize,
    d: usize,
    e: usize,
    f: usize,
    caller: usize,
    stack: usize,
) -> usize {
    let less = 0_usize.wrapping_sub(increment);
    if (increment as isize) < 0 {
        let end = end_of_data();
        sampler::before_release(end.saturating_sub(less), less);
    }
    // SAFETY: the caller's arguments.
    let result = unsafe { pass(Function::Sbrk, [increment, b, c, d, e, f]) };
    if !failed(result) && increment != 0 && !is_tools() {
        grown(result, result.wrapping_add(increment), caller, stack);
    }
    result
}

/// Passes on every call except those for mappings unchanged: some return twice, or on another
/// stack.
///
/// # Safety
/// As required by `syscall` in the C library.
#[unsafe(naked)]
pub unsafe extern "C-unwind" fn syscall() {
    code!(
        x86_64: "cmp rdi, {mmap}",
        "je {numbered}",
        "cmp rdi, {munmap}",
        "je {numbered}",
        "cmp rdi, {mremap}",
        "je {numbered}",
        "mov r11, qword ptr [rip + {real}]",
        "jmp r11";
        aarch64: "cmp x0, {mmap}",
        "b.eq 2f",
        "cmp x0, {munmap}",
        "b.eq 2f",
        "cmp x0, {mremap}",
        "b.eq 2f",
        "adrp x16, {real}",
        "ldr x16, [x16, :lo12:{real}]",
        "br x16",
        "2:",
        "b {numbered}";
        mmap = const libc::SYS_mmap,
        munmap = const libc::SYS_munmap,
        mremap = const libc::SYS_mremap,
        numbered = sym numbered,
        real = sym SYSCALL,
    )
}

/// Takes seven words, of which the last is the word above the stack pointer that `numbered_work`
/// gets.
#[unsafe(naked)]
unsafe extern "C-unwind" fn numbered() {
    code!(
        x86_64: ".cfi_startproc",
        "mov rax, rsp",
        "sub rsp, 8",
        ".cfi_adjust_cfa_offset 8",
        "push rax",
        ".cfi_adjust_cfa_offset 8",
        "push qword ptr [rax]",
        ".cfi_adjust_cfa_offset 8",
        "call {work}",
        "add rsp, 24",
        ".cfi_adjust_cfa_offset -24",
        "ret",
        ".cfi_endproc";
        aarch64: ".cfi_startproc",
        "stp x29, x30, [sp, #-32]!",
        ".cfi_def_cfa_offset 32",
        ".cfi_offset x29, -32",
        ".cfi_offset x30, -24",
        "str x6, [sp, #24]",
        "mov x6, x30",
        "add x7, sp, #16",
        "bl {work}",
        "ldp x29, x30, [sp], #32",
        ".cfi_def_cfa_offset 0",
        ".cfi_restore x29",
        ".cfi_restore x30",
        "ret",
        ".cfi_endproc";
        work = sym numbered_work,
    )
}

type Numbered =
    unsafe extern "C-unwind" fn(usize, usize, usize, usize, usize, usize, usize) -> usize;

unsafe extern "C-unwind" fn numbered_work(
    number: usize,
    a: usize,
    b: usize,
    c: usize,
    d: usize,
    e: usize,
    caller: usize,
    stack: usize,
) -> usize {
    // SAFETY: the seventh word of the call is at this address.
    let f = unsafe { *((stack + size_of::<usize>()) as *const usize) };
    if number as i64 == libc::SYS_munmap && b >= LOOKED_AT && !is_tools() {
        sampler::before_release(a, b);
    }
    // SAFETY: the caller's arguments, passed to the real function.
    let result = unsafe {
        let real: Numbered = core::mem::transmute(real(Function::Syscall));
        real(number, a, b, c, d, e, f)
    };
    if failed(result) {
        return result;
    }
    const PRIVATE: c_int = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
    const KIND: c_int = libc::MAP_TYPE | libc::MAP_ANONYMOUS;
    match number as i64 {
        libc::SYS_mmap if d as c_int & KIND == PRIVATE => {
            ranges::asked(result, b, owners::owner(caller, stack));
        }
        libc::SYS_mmap => ranges::not_asked(result, b),
        libc::SYS_mremap => {
            let asker = ranges::next_asked(a).filter(|(start, ..)| *start <= a);
            if d & MREMAP_DONTUNMAP == 0 {
                ranges::not_asked(a, b);
            }
            match asker {
                Some((.., owner)) => ranges::asked(result, c, owner),
                None => ranges::not_asked(result, c),
            }
        }
        _ => ranges::not_asked(a, b),
    }
    result
}
