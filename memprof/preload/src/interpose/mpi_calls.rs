//! The MPI functions that inform the tool: the beginning and end of MPI, memory for the program,
//! and `MPI_Pcontrol`.

#![allow(unsafe_code)]

use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use memprof_boundary::functions::{self, Name};
use memprof_boundary::thunks;

use super::{EVENTS, Events};
use crate::base::component::Component;
use crate::base::kernel;
use crate::ledger::{heap, ranges};
use crate::owners;
use crate::recording::phases;

type Function = unsafe extern "C-unwind" fn(usize, usize, usize, usize, usize, usize) -> usize;

/// Wrapper of a function's entry.
struct Around {
    name: &'static str,
    /// For the `MPI_` and the `PMPI_` name: each calls its own entry.
    by_name: [Function; 2],
}

macro_rules! around {
    ($($name:literal => $work:ident;)*) => {
        const AROUND: &[Around] = &[$(Around {
            name: $name,
            by_name: [
                {
                    unsafe extern "C-unwind" fn call(
                        a: usize, b: usize, c: usize, d: usize, e: usize, f: usize,
                    ) -> usize {
                        // SAFETY: the arguments of the program's call.
                        unsafe { $work($name, false, [a, b, c, d, e, f]) }
                    }
                    call
                },
                {
                    unsafe extern "C-unwind" fn call(
                        a: usize, b: usize, c: usize, d: usize, e: usize, f: usize,
                    ) -> usize {
                        // SAFETY: the arguments of the program's call.
                        unsafe { $work($name, true, [a, b, c, d, e, f]) }
                    }
                    call
                },
            ],
        }),*];
    };
}

around! {
    "MPI_Init" => begin_world;
    "MPI_Init_thread" => begin_world;
    "MPI_Session_init" => begin_session;
    "MPI_Session_finalize" => end_session;
    "MPI_Finalize" => end;
    "MPI_Alloc_mem" => allocate;
    "MPI_Free_mem" => free;
    "MPI_Win_allocate" => window;
    "MPI_Win_allocate_c" => window;
    "MPI_Win_allocate_shared" => window;
    "MPI_Win_allocate_shared_c" => window;
}

/// Returns the wrapper of a function's entry, if there is one.
pub fn around(name: Name) -> Option<usize> {
    let text = functions::name(name.function);
    let around = AROUND.iter().find(|around| around.name == text)?;
    Some(around.by_name[usize::from(name.profiling)] as *const () as usize)
}

/// Calls a function through its entry.
///
/// # Safety
///
/// `words` are the arguments of a call to this function, which is patched.
unsafe fn call(name: &str, profiling: bool, words: [usize; 6]) -> usize {
    let entry = functions::find(name.as_bytes())
        .and_then(|found| thunks::entry(Name { profiling, ..found }))
        .unwrap_or(0);
    let [a, b, c, d, e, f] = words;
    // SAFETY: guaranteed by the caller; a function that is not in the table is not patched.
    unsafe {
        let entry: Function = core::mem::transmute(entry);
        entry(a, b, c, d, e, f)
    }
}

/// Returns true if a call succeeded. MPI's results are `int`.
fn succeeded(result: usize) -> bool {
    result as i32 == 0
}

fn tell(event: fn(&Events)) {
    if let Some(events) = EVENTS.get() {
        event(events);
    }
}

unsafe fn begin(name: &str, profiling: bool, words: [usize; 6]) -> usize {
    tell(|events| (events.begins)());
    phases::mpi_begins();
    #[cfg(all(feature = "archive", not(test), target_arch = "x86_64", target_os = "linux"))]
    crate::interpose::ucx_events::start();
    // SAFETY: the program's arguments.
    let result = unsafe { call(name, profiling, words) };
    phases::mpi_is_ready();
    tell(|events| (events.is_ready)());
    result
}

unsafe fn end(name: &str, profiling: bool, words: [usize; 6]) -> usize {
    // Before the tool's own work.
    phases::whole_ends();
    tell(|events| (events.ends)());
    phases::mpi_ends();
    // SAFETY: the program's arguments.
    let result = unsafe { call(name, profiling, words) };
    phases::mpi_has_ended();
    tell(|events| (events.has_ended)());
    result
}

/// Number of open MPI sessions.
static SESSIONS: AtomicUsize = AtomicUsize::new(0);
/// True if `MPI_Init` has begun, so that MPI ends with `MPI_Finalize`.
static HAS_WORLD: AtomicBool = AtomicBool::new(false);

/// `MPI_Session_init(info, errors, &session)`
unsafe fn begin_session(name: &str, profiling: bool, words: [usize; 6]) -> usize {
    SESSIONS.fetch_add(1, Ordering::AcqRel);
    // SAFETY: the program's arguments.
    let result = unsafe { begin(name, profiling, words) };
    if !succeeded(result) {
        SESSIONS.fetch_sub(1, Ordering::AcqRel);
    }
    result
}

/// `MPI_Session_finalize(&session)`: the last session ends MPI, unless `MPI_Finalize` follows.
unsafe fn end_session(name: &str, profiling: bool, words: [usize; 6]) -> usize {
    let less = |open: usize| open.checked_sub(1);
    // Newer compilers call it by a name that older ones do not have.
    #[allow(deprecated)]
    let before = SESSIONS.fetch_update(Ordering::AcqRel, Ordering::Acquire, less);
    if before == Ok(1) && !HAS_WORLD.load(Ordering::Acquire) {
        // SAFETY: the program's arguments.
        return unsafe { end(name, profiling, words) };
    }
    // SAFETY: the program's arguments.
    unsafe { call(name, profiling, words) }
}

/// `MPI_Init(&argc, &argv)` and `MPI_Init_thread`
unsafe fn begin_world(name: &str, profiling: bool, words: [usize; 6]) -> usize {
    HAS_WORLD.store(true, Ordering::Release);
    // SAFETY: the program's arguments.
    unsafe { begin(name, profiling, words) }
}

/// Blocks given to the program, for their return. A block that finds no room here keeps its owner
/// until it is freed, which is all that most libraries do with it.
static BLOCKS: [[AtomicUsize; 2]; 256] = [const { [const { AtomicUsize::new(0) }; 2] }; 256];

/// Mappings given to the program, for their return: start and length.
static GIVEN: [[AtomicUsize; 2]; 256] = [const { [const { AtomicUsize::new(0) }; 2] }; 256];

/// Minimum size of the blocks in the ledger's table of large ones.
const LARGE: usize = 32 << 10;

/// Maximum number of bytes that a library puts before and behind memory that it returns.
const WRAPPING: usize = 8 << 10;

/// Returns the heap block that MPI has returned as `length` bytes at `start`, so that its owner can
/// be changed. MPI's result may also be a mapping, or a part of a block that is used for several
/// results; then the words around it have another meaning, and must not be followed.
fn block_of(start: usize, length: usize) -> Option<usize> {
    let mut block = None;
    heap::each_large(&mut |from, size, _| {
        if from <= start && start + length <= from + size && size - length <= WRAPPING {
            block = Some(from);
        }
    });
    if block.is_some() || length >= LARGE || !heap::knows(start) {
        return block;
    }
    // The C library stores the size of a block, with three flags, in the word before it.
    let mut word = [0; 8];
    if !kernel::peek(start.wrapping_sub(8), &mut word) {
        return None;
    }
    let size = usize::from_ne_bytes(word) & !7;
    let fits = size >= length + 8
        && size <= length + WRAPPING
        && kernel::peek(start + size - 16, &mut word);
    fits.then_some(start)
}

/// Gives the program `length` bytes at `start` that MPI allocated: for a window, until MPI frees or
/// unmaps them, otherwise until the program returns them.
fn give(start: usize, length: usize, window: bool) {
    if start == 0 || length == 0 {
        return;
    }
    if let Some(block) = block_of(start, length) {
        if heap::give(block as *const u8, Component::MPI_FOR_USER) && !window {
            note_down(&BLOCKS, start, length);
        }
        return;
    }
    // MPI's own mapping: only the pages that are the program's alone.
    let Some(piece) = ranges::next(start).filter(|piece| piece.start <= start) else {
        return;
    };
    let end = (start + length).min(piece.end);
    let shared = matches!(piece.kind, ranges::Kind::Shared);
    ranges::mapped(start, end - start, Component::MPI_FOR_USER, shared);
    if !window {
        note_down(&GIVEN, start, end - start);
    }
}

fn note_down(book: &[[AtomicUsize; 2]], start: usize, length: usize) {
    // Memory at the same address may have been released in a way that the tool did not see.
    let same = book.iter().find(|[at, _]| at.load(Ordering::Acquire) == start);
    let free = || {
        book.iter().find(|[at, _]| {
            at.compare_exchange(0, start, Ordering::AcqRel, Ordering::Relaxed).is_ok()
        })
    };
    if let Some([_, size]) = same.or_else(free) {
        size.store(length, Ordering::Release);
    }
}

/// Removes the entry for the memory that starts at `start`. Returns its length.
fn strike_out(book: &[[AtomicUsize; 2]], start: usize) -> Option<usize> {
    let [at, size] = book.iter().find(|[at, _]| at.load(Ordering::Acquire) == start)?;
    let length = size.swap(0, Ordering::AcqRel);
    at.store(0, Ordering::Release);
    Some(length)
}

/// Memory that the program returns to MPI. It stays the program's until MPI has freed it: it was
/// the program's at its peak, and the sample before its release has to show this.
struct Returned {
    book: &'static [[AtomicUsize; 2]],
    start: usize,
    length: usize,
}

impl Returned {
    fn of(start: usize) -> Option<Returned> {
        let books: [&'static [_]; 2] = [&BLOCKS, &GIVEN];
        books
            .into_iter()
            .filter(|_| start != 0)
            .find_map(|book| strike_out(book, start).map(|length| Returned { book, start, length }))
    }

    /// Makes MPI the owner of the memory if MPI has kept it.
    fn belongs_to_mpi(self) {
        let owner = owners::mpi().unwrap_or(Component::UNATTRIBUTED);
        if core::ptr::eq(self.book, &BLOCKS) {
            // Another thread may have a block at this address by now.
            if let Some(block) = block_of(self.start, self.length)
                && heap::owner_of(block as *const u8) == Some(Component::MPI_FOR_USER)
            {
                heap::give(block as *const u8, owner);
            }
        } else if let Some(piece) = ranges::next(self.start)
            && piece.start <= self.start
            && piece.owner == Component::MPI_FOR_USER
        {
            let shared = matches!(piece.kind, ranges::Kind::Shared);
            let owner = if shared { Component::MPI_SHARED } else { owner };
            ranges::mapped(self.start, self.length, owner, shared);
        }
    }
}

/// `MPI_Alloc_mem(size, info, &base)`
unsafe fn allocate(name: &str, profiling: bool, words: [usize; 6]) -> usize {
    // SAFETY: the program's arguments.
    let result = unsafe { call(name, profiling, words) };
    if succeeded(result) && words[2] != 0 {
        // SAFETY: MPI has just written the address.
        give(unsafe { *(words[2] as *const usize) }, words[0], false);
    }
    result
}

/// `MPI_Free_mem(base)`
unsafe fn free(name: &str, profiling: bool, words: [usize; 6]) -> usize {
    let returned = Returned::of(words[0]);
    // SAFETY: the program's arguments.
    let result = unsafe { call(name, profiling, words) };
    if let Some(returned) = returned {
        if succeeded(result) {
            returned.belongs_to_mpi();
        } else {
            note_down(returned.book, returned.start, returned.length);
        }
    }
    result
}

/// `MPI_Win_allocate(size, unit, info, comm, &base, &win)`, also for shared windows
unsafe fn window(name: &str, profiling: bool, words: [usize; 6]) -> usize {
    // SAFETY: the program's arguments.
    let result = unsafe { call(name, profiling, words) };
    if succeeded(result) && words[4] != 0 {
        // SAFETY: MPI has just written the address.
        give(unsafe { *(words[4] as *const usize) }, words[0], true);
    }
    result
}

/// Targets of the two names of `MPI_Pcontrol`.
static PCONTROL: [AtomicUsize; 2] = [const { AtomicUsize::new(0) }; 2];

/// Returns the function that calls to `MPI_Pcontrol` go through, if `symbol` is one of its names.
pub fn pcontrol(symbol: &[u8], real: usize) -> Option<usize> {
    let (slot, entry) = match symbol {
        b"MPI_Pcontrol" => (0, enter_pcontrol as *const () as usize),
        b"PMPI_Pcontrol" => (1, enter_pmpi_pcontrol as *const () as usize),
        _ => return None,
    };
    match PCONTROL[slot].compare_exchange(0, real, Ordering::AcqRel, Ordering::Acquire) {
        Ok(_) => Some(entry),
        Err(before) => (before == real).then_some(entry),
    }
}

unsafe extern "C-unwind" fn pcontrol_work(level: i32, second: usize) -> usize {
    phases::pcontrol(level, second);
    PCONTROL[0].load(Ordering::Acquire)
}

unsafe extern "C-unwind" fn pmpi_pcontrol_work(level: i32, second: usize) -> usize {
    phases::pcontrol(level, second);
    PCONTROL[1].load(Ordering::Acquire)
}

/// Defines an entry that leaves a call unchanged, however many arguments it has and wherever they
/// are: `work` returns its target. The given instructions run before.
macro_rules! forward {
    ($name:ident, $work:ident $(, $before:literal)*) => {
        #[unsafe(naked)]
        pub(super) unsafe extern "C-unwind" fn $name() {
            $crate::base::arch::code!(
                x86_64: ".cfi_startproc",
                "sub rsp, 184",
                ".cfi_adjust_cfa_offset 184",
                "mov [rsp], rdi",
                "mov [rsp + 8], rsi",
                "mov [rsp + 16], rdx",
                "mov [rsp + 24], rcx",
                "mov [rsp + 32], r8",
                "mov [rsp + 40], r9",
                "mov [rsp + 48], rax",
                "movups [rsp + 56], xmm0",
                "movups [rsp + 72], xmm1",
                "movups [rsp + 88], xmm2",
                "movups [rsp + 104], xmm3",
                "movups [rsp + 120], xmm4",
                "movups [rsp + 136], xmm5",
                "movups [rsp + 152], xmm6",
                "movups [rsp + 168], xmm7",
                $($before,)*
                "call {work}",
                "mov r11, rax",
                "mov rdi, [rsp]",
                "mov rsi, [rsp + 8]",
                "mov rdx, [rsp + 16]",
                "mov rcx, [rsp + 24]",
                "mov r8, [rsp + 32]",
                "mov r9, [rsp + 40]",
                "mov rax, [rsp + 48]",
                "movups xmm0, [rsp + 56]",
                "movups xmm1, [rsp + 72]",
                "movups xmm2, [rsp + 88]",
                "movups xmm3, [rsp + 104]",
                "movups xmm4, [rsp + 120]",
                "movups xmm5, [rsp + 136]",
                "movups xmm6, [rsp + 152]",
                "movups xmm7, [rsp + 168]",
                "add rsp, 184",
                ".cfi_adjust_cfa_offset -184",
                "jmp r11",
                ".cfi_endproc";
                aarch64: ".cfi_startproc",
                "stp x29, x30, [sp, #-224]!",
                ".cfi_def_cfa_offset 224",
                ".cfi_offset x29, -224",
                ".cfi_offset x30, -216",
                "stp x0, x1, [sp, #16]",
                "stp x2, x3, [sp, #32]",
                "stp x4, x5, [sp, #48]",
                "stp x6, x7, [sp, #64]",
                "str x8, [sp, #80]",
                "stp q0, q1, [sp, #96]",
                "stp q2, q3, [sp, #128]",
                "stp q4, q5, [sp, #160]",
                "stp q6, q7, [sp, #192]",
                "bl {work}",
                "mov x16, x0",
                "ldp x0, x1, [sp, #16]",
                "ldp x2, x3, [sp, #32]",
                "ldp x4, x5, [sp, #48]",
                "ldp x6, x7, [sp, #64]",
                "ldr x8, [sp, #80]",
                "ldp q0, q1, [sp, #96]",
                "ldp q2, q3, [sp, #128]",
                "ldp q4, q5, [sp, #160]",
                "ldp q6, q7, [sp, #192]",
                "ldp x29, x30, [sp], #224",
                ".cfi_def_cfa_offset 0",
                ".cfi_restore x29",
                ".cfi_restore x30",
                "br x16",
                ".cfi_endproc";
                work = sym $work,
            )
        }
    };
}

pub(crate) use forward;

forward!(enter_pcontrol, pcontrol_work);
forward!(enter_pmpi_pcontrol, pmpi_pcontrol_work);
