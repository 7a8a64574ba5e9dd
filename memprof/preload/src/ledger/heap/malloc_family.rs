//! Functions of the malloc family that an allocator need not define.
//!
//! A program that contains an allocator, or has one preloaded before the tool, calls that
//! allocator, and reaches the tool only for functions missing there, with blocks that are not the
//! tool's. The same holds for a program whose allocator follows the tool in load order and lacks
//! some functions. Each function then works as it would without the tool: it calls the next one of
//! its name.

#![allow(unsafe_code)]

use core::ffi::CStr;
use core::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

use super::{any_address, calls, next_allocator, operators};
use crate::base::arch::Errno;
use crate::base::symbols;
use crate::base::thread::{Guard, local};

const UNKNOWN: u32 = 0;
/// All blocks pass through the tool and come from one allocator.
const WHOLE: u32 = 1;
const PASSED: u32 = 2;
static MODE: AtomicU32 = AtomicU32::new(UNKNOWN);

/// Determines whose functions the program calls, at a time when this does not have to wait for the
/// loader.
pub fn look_around() {
    passes();
    operators::look_around();
}

#[inline]
fn passes() -> bool {
    match MODE.load(Ordering::Relaxed) {
        UNKNOWN => look(),
        mode => mode == PASSED,
    }
}

#[cold]
#[inline(never)]
fn look() -> bool {
    if cfg!(any(test, feature = "archive")) || local().guard.get() > 0 && !next_allocator::settled()
    {
        return false;
    }
    let errno = Errno::save();
    let _guard = Guard::enter();
    let passed = !operators::is_ours(symbols::dlsym(libc::RTLD_DEFAULT, c"malloc"))
        || next_allocator::is_partial();
    if passed {
        for next in [&REALLOCARRAY, &VALLOC, &FREE_SIZED, &FREE_ALIGNED_SIZED] {
            next.find();
        }
        FREE.store(symbols::dlsym(libc::RTLD_DEFAULT, c"free"), Ordering::Relaxed);
    }
    MODE.store(if passed { PASSED } else { WHOLE }, Ordering::Release);
    errno.restore();
    passed
}

/// A function that only this module looks up.
struct Next {
    name: &'static CStr,
    address: AtomicUsize,
}

impl Next {
    const fn new(name: &'static CStr) -> Next {
        Next { name, address: AtomicUsize::new(0) }
    }

    fn find(&self) {
        self.address.store(symbols::dlsym_next(self.name), Ordering::Relaxed);
    }

    fn get(&self) -> Option<usize> {
        Some(self.address.load(Ordering::Relaxed)).filter(|address| *address != 0)
    }
}

static REALLOCARRAY: Next = Next::new(c"reallocarray");
static VALLOC: Next = Next::new(c"valloc");
static FREE_SIZED: Next = Next::new(c"free_sized");
static FREE_ALIGNED_SIZED: Next = Next::new(c"free_aligned_sized");
/// Address of the `free` that the program calls.
static FREE: AtomicUsize = AtomicUsize::new(0);

/// Frees a block by plain `free`, for functions that the program's allocator does not define.
unsafe fn free_first(block: *mut u8, caller: usize, stack: usize) {
    match FREE.load(Ordering::Relaxed) {
        address if address == 0 || operators::is_ours(address) => {
            // SAFETY: guaranteed by the caller.
            unsafe { calls::free(block, caller, stack) }
        }
        address => {
            // SAFETY: the function of this name.
            let free = unsafe { core::mem::transmute::<usize, next_allocator::Free>(address) };
            // SAFETY: guaranteed by the caller.
            unsafe { free(block) }
        }
    }
}

pub unsafe extern "C-unwind" fn reallocarray(
    block: *mut u8,
    count: usize,
    each: usize,
    caller: usize,
    stack: usize,
) -> *mut u8 {
    type Next = unsafe extern "C" fn(*mut u8, usize, usize) -> *mut u8;
    if passes()
        && let Some(next) = REALLOCARRAY.get()
    {
        // SAFETY: the function of this name, with the caller's arguments.
        return unsafe { core::mem::transmute::<usize, Next>(next)(block, count, each) };
    }
    // SAFETY: guaranteed by the caller.
    unsafe { calls::reallocarray(block, count, each, caller, stack) }
}

pub unsafe extern "C-unwind" fn cfree(block: *mut u8, caller: usize, stack: usize) {
    if passes() {
        // SAFETY: guaranteed by the caller.
        return unsafe { free_first(block, caller, stack) };
    }
    // SAFETY: guaranteed by the caller.
    unsafe { calls::free(block, caller, stack) }
}

pub unsafe extern "C-unwind" fn free_sized(
    block: *mut u8,
    size: usize,
    caller: usize,
    stack: usize,
) {
    type Next = unsafe extern "C" fn(*mut u8, usize);
    match FREE_SIZED.get().filter(|_| passes()) {
        // SAFETY: the function of this name, with the caller's arguments.
        Some(next) => unsafe { core::mem::transmute::<usize, Next>(next)(block, size) },
        // SAFETY: guaranteed by the caller.
        None => unsafe { cfree(block, caller, stack) },
    }
}

pub unsafe extern "C-unwind" fn free_aligned_sized(
    block: *mut u8,
    alignment: usize,
    size: usize,
    caller: usize,
    stack: usize,
) {
    type Next = unsafe extern "C" fn(*mut u8, usize, usize);
    match FREE_ALIGNED_SIZED.get().filter(|_| passes()) {
        // SAFETY: the function of this name, with the caller's arguments.
        Some(next) => unsafe { core::mem::transmute::<usize, Next>(next)(block, alignment, size) },
        // SAFETY: guaranteed by the caller.
        None => unsafe { cfree(block, caller, stack) },
    }
}

pub unsafe extern "C-unwind" fn memalign(
    alignment: usize,
    size: usize,
    caller: usize,
    stack: usize,
) -> *mut u8 {
    if passes()
        && let Some(real) = next_allocator::memalign()
    {
        // SAFETY: guaranteed by the caller.
        return unsafe { real(alignment, size) };
    }
    // SAFETY: guaranteed by the caller.
    unsafe { calls::memalign(alignment, size, caller, stack) }
}

pub unsafe extern "C-unwind" fn aligned_alloc(
    alignment: usize,
    size: usize,
    caller: usize,
    stack: usize,
) -> *mut u8 {
    if passes()
        && let Some(real) = next_allocator::aligned_alloc()
    {
        // SAFETY: guaranteed by the caller.
        return unsafe { real(alignment, size) };
    }
    // SAFETY: guaranteed by the caller.
    unsafe { calls::aligned_alloc(alignment, size, caller, stack) }
}

pub unsafe extern "C-unwind" fn posix_memalign(
    into: *mut *mut u8,
    alignment: usize,
    size: usize,
    caller: usize,
    stack: usize,
) -> i32 {
    if passes()
        && let Some(real) = next_allocator::posix_memalign()
    {
        // SAFETY: guaranteed by the caller.
        return unsafe { real(into, alignment, size) };
    }
    // SAFETY: guaranteed by the caller.
    unsafe { calls::posix_memalign(into, alignment, size, caller, stack) }
}

pub unsafe extern "C-unwind" fn valloc(size: usize, caller: usize, stack: usize) -> *mut u8 {
    if passes()
        && let Some(next) = VALLOC.get()
    {
        // SAFETY: the function of this name, with the caller's arguments.
        return unsafe { core::mem::transmute::<usize, next_allocator::Allocate>(next)(size) };
    }
    // SAFETY: guaranteed by the caller.
    unsafe { calls::valloc(size, caller, stack) }
}

pub unsafe extern "C-unwind" fn pvalloc(size: usize, caller: usize, stack: usize) -> *mut u8 {
    if passes()
        && let Some(real) = next_allocator::pvalloc()
    {
        // SAFETY: guaranteed by the caller.
        return unsafe { real(size) };
    }
    // SAFETY: guaranteed by the caller.
    unsafe { calls::pvalloc(size, caller, stack) }
}

pub unsafe extern "C-unwind" fn malloc_usable_size(
    block: *mut u8,
    caller: usize,
    stack: usize,
) -> usize {
    if passes() && !block.is_null() {
        let Some(real) = next_allocator::usable() else { return 0 };
        // SAFETY: guaranteed by the caller. The block may be of an allocator that does not know
        // this function, as it would without the tool.
        let bytes = unsafe { real(block) };
        // A block that a wrapper in the program got from the tool has a tag.
        return any_address::without_tag(block, bytes);
    }
    // SAFETY: guaranteed by the caller.
    unsafe { calls::malloc_usable_size(block, caller, stack) }
}
