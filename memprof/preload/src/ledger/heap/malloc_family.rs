//! Functions of the malloc family that an allocator need not define.
//!
//! A program that contains an allocator, or has one preloaded before the tool, calls that
//! allocator, and reaches the tool only for functions missing there, with blocks that are not the
//! tool's. The same holds for a program whose allocator follows the tool in load order and lacks
//! some functions. Each function then works as it would without the tool: it calls the next one of
//! its name.

#![allow(unsafe_code)]

use core::ffi::CStr;
use core::marker::PhantomData;
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
        UNKNOWN => decide_if_unguarded(),
        mode => mode == PASSED,
    }
}

#[cold]
#[inline(never)]
fn decide_if_unguarded() -> bool {
    if cfg!(any(test, feature = "archive")) || local().guard.get() > 0 && !next_allocator::settled()
    {
        return false;
    }
    let errno = Errno::save();
    let _guard = Guard::enter();
    let passed = !operators::is_ours(symbols::dlsym(libc::RTLD_DEFAULT, c"malloc"))
        || next_allocator::is_partial();
    if passed {
        REALLOCARRAY.find();
        VALLOC.find();
        FREE_SIZED.find();
        FREE_ALIGNED_SIZED.find();
        FREE.store(symbols::dlsym(libc::RTLD_DEFAULT, c"free"), Ordering::Relaxed);
    }
    MODE.store(if passed { PASSED } else { WHOLE }, Ordering::Release);
    errno.restore();
    passed
}

/// A function that only this module looks up, of type `F`.
struct Next<F> {
    name: &'static CStr,
    address: AtomicUsize,
    function: PhantomData<F>,
}

impl<F> Next<F> {
    /// # Safety
    /// `F` is a pointer to functions of the type that `name` has.
    const unsafe fn new(name: &'static CStr) -> Next<F> {
        Next { name, address: AtomicUsize::new(0), function: PhantomData }
    }

    fn find(&self) {
        self.address.store(symbols::dlsym_next(self.name), Ordering::Relaxed);
    }

    fn get(&self) -> Option<F> {
        let address = Some(self.address.load(Ordering::Relaxed)).filter(|address| *address != 0)?;
        // SAFETY: the address of the function of this name; `F` is its type, as `new` requires.
        Some(unsafe { core::mem::transmute_copy(&address) })
    }
}

// SAFETY: the types of the C library's functions.
static REALLOCARRAY: Next<unsafe extern "C" fn(*mut u8, usize, usize) -> *mut u8> =
    unsafe { Next::new(c"reallocarray") };
// SAFETY: as for `REALLOCARRAY`.
static VALLOC: Next<next_allocator::Allocate> = unsafe { Next::new(c"valloc") };
// SAFETY: as for `REALLOCARRAY`.
static FREE_SIZED: Next<unsafe extern "C" fn(*mut u8, usize)> = unsafe { Next::new(c"free_sized") };
// SAFETY: as for `REALLOCARRAY`.
static FREE_ALIGNED_SIZED: Next<unsafe extern "C" fn(*mut u8, usize, usize)> =
    unsafe { Next::new(c"free_aligned_sized") };
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

/// Defines functions that call the next function of their name for a program that passes the tool,
/// and the tool's otherwise.
macro_rules! forward {
    ($($name:ident($($argument:ident: $type:ty),*) -> $result:ty = $next:expr;)*) => {$(
        pub unsafe extern "C-unwind" fn $name(
            $($argument: $type,)*
            caller: usize,
            stack: usize,
        ) -> $result {
            if passes() && let Some(next) = $next {
                // SAFETY: the function of this name, with the caller's arguments.
                return unsafe { next($($argument),*) };
            }
            // SAFETY: guaranteed by the caller.
            unsafe { calls::$name($($argument,)* caller, stack) }
        }
    )*};
}

forward! {
    reallocarray(block: *mut u8, count: usize, each: usize) -> *mut u8 = REALLOCARRAY.get();
    memalign(alignment: usize, size: usize) -> *mut u8 = next_allocator::memalign();
    aligned_alloc(alignment: usize, size: usize) -> *mut u8 = next_allocator::aligned_alloc();
    posix_memalign(into: *mut *mut u8, alignment: usize, size: usize) -> i32
        = next_allocator::posix_memalign();
    valloc(size: usize) -> *mut u8 = VALLOC.get();
    pvalloc(size: usize) -> *mut u8 = next_allocator::pvalloc();
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
    match FREE_SIZED.get().filter(|_| passes()) {
        // SAFETY: the function of this name, with the caller's arguments.
        Some(next) => unsafe { next(block, size) },
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
    match FREE_ALIGNED_SIZED.get().filter(|_| passes()) {
        // SAFETY: the function of this name, with the caller's arguments.
        Some(next) => unsafe { next(block, alignment, size) },
        // SAFETY: guaranteed by the caller.
        None => unsafe { cfree(block, caller, stack) },
    }
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
