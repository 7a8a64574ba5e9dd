//! C++'s `operator new` and `delete`, so that the caller of `new` is the owner, not the C++
//! library.
//!
//! They work as those of the C++ library do, as long as malloc succeeds; when it fails, the
//! library's own operator is called, with its handlers and exceptions. A program that defines
//! operators keeps them: the tool's operators then pass every call on to the function that would be
//! called without the tool.

#![allow(unsafe_code)]

use core::ffi::CStr;
use core::ptr;
use core::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

use super::calls;
use crate::base::arch::Errno;
use crate::base::symbols;
use crate::base::thread::Guard;
use crate::owners::dladdr;

const UNKNOWN: u32 = 0;
/// The operators are a C++ library's, and the tool's do the same.
const OURS: u32 = 1;
/// The program or another object replaced the operators.
const REPLACED: u32 = 2;
static MODE: AtomicU32 = AtomicU32::new(UNKNOWN);

/// Libraries that define the operators as the language specifies.
const LIBRARIES: [&CStr; 4] =
    [c"libstdc++.so.6", c"libc++.so.1", c"libc++abi.so.1", c"libc++.so.2"];

type New = unsafe extern "C-unwind" fn(usize, usize, usize) -> *mut u8;
type Delete = unsafe extern "C-unwind" fn(*mut u8, usize, usize);

#[inline(always)]
fn replaced() -> bool {
    match MODE.load(Ordering::Relaxed) {
        UNKNOWN => decide_if_unguarded(),
        mode => mode == REPLACED,
    }
}

#[cold]
#[inline(never)]
fn decide_if_unguarded() -> bool {
    if crate::base::thread::local().guard.get() > 0 {
        return false;
    }
    decide()
}

fn decide() -> bool {
    let errno = Errno::save();
    let _guard = Guard::enter();
    let replaced = [c"_Znwm", c"_Znam", c"_ZdlPv", c"_ZdaPv"].into_iter().any(is_replaced)
        || !is_ours(symbols::dlsym(libc::RTLD_DEFAULT, c"malloc"));
    MODE.store(if replaced { REPLACED } else { OURS }, Ordering::Relaxed);
    errno.restore();
    replaced
}

/// Returns true if the operator that the program calls, or would call without the tool, is not a
/// C++ library's.
fn is_replaced(name: &CStr) -> bool {
    let first = symbols::dlsym(libc::RTLD_DEFAULT, name);
    let next = symbols::dlsym_next(name);
    [first, next]
        .into_iter()
        .filter(|address| *address != 0)
        .any(|address| !is_ours(address) && !is_of_a_library(address))
}

/// Does for the operators what [`super::malloc_family::look_around`] does.
pub fn look_around() {
    // Without a C++ library there is nothing to decide yet.
    if symbols::dlsym_next(c"_Znwm") != 0 && decide() {
        NEWS.iter().chain(DELETES).for_each(|original| {
            original.find();
        });
    }
}

/// Returns true if an address is in the tool's own object. In a program with its own allocator,
/// `malloc` is not: the C++ library's operators would use that allocator, so they have to be
/// called.
pub fn is_ours(address: usize) -> bool {
    match (dladdr::of(address), dladdr::of(replaced as *const () as usize)) {
        (Some(holder), Some(own)) => holder == own,
        (found, own) => found.is_none() && own.is_none(),
    }
}

fn is_of_a_library(address: usize) -> bool {
    let Some(holder) = dladdr::of(address) else { return false };
    let path = holder.path();
    let name = path.rsplit(|byte| *byte == b'/').next().unwrap_or(path);
    name.starts_with(b"libstdc++.so")
        || name.starts_with(b"libc++.so")
        || name.starts_with(b"libc++abi.so")
}

/// The operator of a name that would be called without the tool.
pub struct Original {
    name: &'static CStr,
    address: AtomicUsize,
}

impl Original {
    const fn new(name: &'static CStr) -> Original {
        Original { name, address: AtomicUsize::new(0) }
    }

    /// Returns the address; 0 if no C++ library is loaded. Looks it up until it is found, early,
    /// since a later lookup could have to wait for the loader.
    fn get(&self) -> usize {
        match self.address.load(Ordering::Relaxed) {
            0 => self.find(),
            address => address,
        }
    }

    #[cold]
    #[inline(never)]
    fn find(&self) -> usize {
        let errno = Errno::save();
        let _guard = Guard::enter();
        let mut found = symbols::dlsym_next(self.name);
        if found == 0 {
            // A C++ library that was loaded for one object only is not in the search order behind
            // the tool.
            let in_any = |library: &CStr| in_library(library, self.name);
            found = LIBRARIES.into_iter().map(in_any).find(|found| *found != 0).unwrap_or(0);
        }
        self.address.store(found, Ordering::Relaxed);
        errno.restore();
        found
    }
}

fn in_library(library: &CStr, name: &CStr) -> usize {
    // The library stays loaded, since the address of its operator is stored.
    const KEPT: i32 = libc::RTLD_LAZY | libc::RTLD_NOLOAD | libc::RTLD_NODELETE;
    // SAFETY: the name ends with a zero; nothing is loaded.
    let handle = unsafe { libc::dlopen(library.as_ptr(), KEPT) };
    if handle.is_null() {
        return 0;
    }
    let found = symbols::dlsym(handle, name);
    // SAFETY: releases the reference from dlopen; the object stays for the other users.
    unsafe { libc::dlclose(handle) };
    found
}

/// Calls the original operator. Returns null if there is none.
#[cold]
#[inline(never)]
unsafe fn call_new(original: &Original, words: [usize; 3]) -> *mut u8 {
    match original.get() {
        0 => ptr::null_mut(),
        // SAFETY: the operator of this name; it ignores words beyond its own.
        address => unsafe {
            core::mem::transmute::<usize, New>(address)(words[0], words[1], words[2])
        },
    }
}

#[cold]
#[inline(never)]
unsafe fn call_delete(original: &Original, block: *mut u8, words: [usize; 2]) {
    match original.get() {
        // SAFETY: guaranteed by the caller.
        0 => unsafe { calls::free(block, 0, 0) },
        // SAFETY: as in `call_new`.
        address => unsafe {
            core::mem::transmute::<usize, Delete>(address)(block, words[0], words[1]);
        },
    }
}

/// Defines the body of each operator: its words after the first, and which of them is the
/// alignment.
macro_rules! work {
    (new $($work:ident = $name:literal ($($word:ident),*) $allocate:ident ($($argument:ident),*);)*) => {
        static NEWS: &[&Original] = &[$(&$work::ORIGINAL),*];
        $(
        mod $work {
            pub static ORIGINAL: super::Original = super::Original::new($name);
        }

        unsafe extern "C-unwind" fn $work(
            size: usize,
            $($word: usize,)*
            caller: usize,
            stack: usize,
        ) -> *mut u8 {
            if !replaced() {
                // SAFETY: guaranteed by the caller.
                let block = unsafe { calls::$allocate($($argument,)* size, caller, stack) };
                if !block.is_null() {
                    return block;
                }
            }
            let mut words = [size, 0, 0];
            words[1..].iter_mut().zip([$($word),*]).for_each(|(to, word): (_, usize)| *to = word);
            // SAFETY: guaranteed by the caller.
            unsafe { call_new(&$work::ORIGINAL, words) }
        }
        )*
    };
    (delete $($work:ident = $name:literal ($($word:ident),*);)*) => {
        static DELETES: &[&Original] = &[$(&$work::ORIGINAL),*];
        $(
        mod $work {
            pub static ORIGINAL: super::Original = super::Original::new($name);
        }

        unsafe extern "C-unwind" fn $work(
            block: *mut u8,
            $($word: usize,)*
            caller: usize,
            stack: usize,
        ) {
            if replaced() {
                let mut words = [0, 0];
                words.iter_mut().zip([$($word),*]).for_each(|(to, word): (_, usize)| *to = word);
                // SAFETY: guaranteed by the caller.
                return unsafe { call_delete(&$work::ORIGINAL, block, words) };
            }
            // SAFETY: guaranteed by the caller.
            unsafe { calls::free(block, caller, stack) }
        }
        )*
    };
}

work! { new
    new_one = c"_Znwm" () malloc ();
    new_many = c"_Znam" () malloc ();
    new_one_or_null = c"_ZnwmRKSt9nothrow_t" (quiet) malloc ();
    new_many_or_null = c"_ZnamRKSt9nothrow_t" (quiet) malloc ();
    new_one_aligned = c"_ZnwmSt11align_val_t" (alignment) memalign (alignment);
    new_many_aligned = c"_ZnamSt11align_val_t" (alignment) memalign (alignment);
    new_one_aligned_or_null = c"_ZnwmSt11align_val_tRKSt9nothrow_t" (alignment, quiet)
        memalign (alignment);
    new_many_aligned_or_null = c"_ZnamSt11align_val_tRKSt9nothrow_t" (alignment, quiet)
        memalign (alignment);
}

work! { delete
    delete_one = c"_ZdlPv" ();
    delete_many = c"_ZdaPv" ();
    delete_one_quietly = c"_ZdlPvRKSt9nothrow_t" (quiet);
    delete_many_quietly = c"_ZdaPvRKSt9nothrow_t" (quiet);
    delete_one_sized = c"_ZdlPvm" (size);
    delete_many_sized = c"_ZdaPvm" (size);
    delete_one_aligned = c"_ZdlPvSt11align_val_t" (alignment);
    delete_many_aligned = c"_ZdaPvSt11align_val_t" (alignment);
    delete_one_aligned_quietly = c"_ZdlPvSt11align_val_tRKSt9nothrow_t" (alignment, quiet);
    delete_many_aligned_quietly = c"_ZdaPvSt11align_val_tRKSt9nothrow_t" (alignment, quiet);
    delete_one_aligned_sized = c"_ZdlPvmSt11align_val_t" (size, alignment);
    delete_many_aligned_sized = c"_ZdaPvmSt11align_val_t" (size, alignment);
}

#[cfg(any(not(feature = "archive"), test))]
#[allow(non_snake_case)]
mod exports {
    use super::*;
    use crate::base::arch::entry;

    entry! {
        1 _Znwm(size: usize) -> *mut u8 = new_one;
        1 _Znam(size: usize) -> *mut u8 = new_many;
        2 _ZnwmRKSt9nothrow_t(size: usize, quiet: usize) -> *mut u8 = new_one_or_null;
        2 _ZnamRKSt9nothrow_t(size: usize, quiet: usize) -> *mut u8 = new_many_or_null;
        2 _ZnwmSt11align_val_t(size: usize, alignment: usize) -> *mut u8 = new_one_aligned;
        2 _ZnamSt11align_val_t(size: usize, alignment: usize) -> *mut u8 = new_many_aligned;
        3 _ZnwmSt11align_val_tRKSt9nothrow_t(size: usize, alignment: usize, quiet: usize) -> *mut u8
            = new_one_aligned_or_null;
        3 _ZnamSt11align_val_tRKSt9nothrow_t(size: usize, alignment: usize, quiet: usize) -> *mut u8
            = new_many_aligned_or_null;
        1 _ZdlPv(block: *mut u8) = delete_one;
        1 _ZdaPv(block: *mut u8) = delete_many;
        2 _ZdlPvRKSt9nothrow_t(block: *mut u8, quiet: usize) = delete_one_quietly;
        2 _ZdaPvRKSt9nothrow_t(block: *mut u8, quiet: usize) = delete_many_quietly;
        2 _ZdlPvm(block: *mut u8, size: usize) = delete_one_sized;
        2 _ZdaPvm(block: *mut u8, size: usize) = delete_many_sized;
        2 _ZdlPvSt11align_val_t(block: *mut u8, alignment: usize) = delete_one_aligned;
        2 _ZdaPvSt11align_val_t(block: *mut u8, alignment: usize) = delete_many_aligned;
        3 _ZdlPvSt11align_val_tRKSt9nothrow_t(block: *mut u8, alignment: usize, quiet: usize)
            = delete_one_aligned_quietly;
        3 _ZdaPvSt11align_val_tRKSt9nothrow_t(block: *mut u8, alignment: usize, quiet: usize)
            = delete_many_aligned_quietly;
        3 _ZdlPvmSt11align_val_t(block: *mut u8, size: usize, alignment: usize)
            = delete_one_aligned_sized;
        3 _ZdaPvmSt11align_val_t(block: *mut u8, size: usize, alignment: usize)
            = delete_many_aligned_sized;
    }
}
