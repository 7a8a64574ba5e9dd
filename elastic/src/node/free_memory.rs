//! Return of memory to the kernel when a process sleeps: memory that its allocators hold unused.
#![allow(unsafe_code)]

use std::ffi::{CStr, c_char, c_int, c_void};
use std::ptr;

/// glibc's `malloc_trim`: bytes to keep at the top of the heap.
type Trim = unsafe extern "C" fn(libc::size_t) -> c_int;
/// jemalloc's `mallctl`: name, old value and its size, new value and its size.
type Control =
    unsafe extern "C" fn(*const c_char, *mut c_void, *mut usize, *mut c_void, usize) -> c_int;
/// mimalloc's `mi_collect`: whether to collect everything.
type Collect = unsafe extern "C" fn(bool);
/// `MallocExtension_ReleaseFreeMemory` of gperftools' tcmalloc.
type Release = unsafe extern "C" fn();
/// oneTBB's `scalable_allocation_command`: a command and its parameter.
type Command = unsafe extern "C" fn(c_int, *mut c_void) -> c_int;

/// jemalloc's caches of this thread, and then the unused pages of all arenas (`MALLCTL_ARENAS_ALL`).
const JEMALLOC: [&CStr; 2] = [c"thread.tcache.flush", c"arena.4096.purge"];
/// oneTBB's `TBBMALLOC_CLEAN_ALL_BUFFERS`.
const CLEAN_ALL_BUFFERS: c_int = 0;

/// Returns free memory to the kernel, of each allocator in the process that has a call for it:
/// glibc, jemalloc, mimalloc, tcmalloc, oneTBB. Each keeps pages that a sleeping process never
/// uses: glibc blocks that were freed below a block in use, the others what they hold for the next
/// call. Takes 10 to 30 ms for each 100 MB returned.
///
/// Memory in use stays. Without swap the kernel has no place for it, and with swap it finds idle
/// pages itself; `MADV_PAGEOUT` would evict pages that a joiner needs at once.
pub(crate) fn give_back() {
    // The calls may be made by any thread at any time, and release no memory in use. mimalloc
    // collects the memory of the calling thread and of threads that have ended.
    if let Some(symbol) = symbol(c"mallctl") {
        // SAFETY: jemalloc, which defined the function, gives it this type.
        let control = unsafe { std::mem::transmute::<*mut c_void, Control>(symbol) };
        for name in JEMALLOC {
            // SAFETY: the name ends with NUL, and both commands have no values.
            unsafe { control(name.as_ptr(), ptr::null_mut(), ptr::null_mut(), ptr::null_mut(), 0) };
        }
    }
    if let Some(symbol) = symbol(c"mi_collect") {
        // SAFETY: mimalloc, which defined the function, gives it this type.
        let collect = unsafe { std::mem::transmute::<*mut c_void, Collect>(symbol) };
        // SAFETY: it takes any value, from any thread.
        unsafe { collect(true) };
    }
    if let Some(symbol) = symbol(c"MallocExtension_ReleaseFreeMemory") {
        // SAFETY: tcmalloc, which defined the function, gives it this type.
        let release = unsafe { std::mem::transmute::<*mut c_void, Release>(symbol) };
        // SAFETY: it locks what it reads.
        unsafe { release() };
    }
    if let Some(symbol) = symbol(c"scalable_allocation_command") {
        // SAFETY: oneTBB, which defined the function, gives it this type.
        let command = unsafe { std::mem::transmute::<*mut c_void, Command>(symbol) };
        // SAFETY: the command has no parameter.
        unsafe { command(CLEAN_ALL_BUFFERS, ptr::null_mut()) };
    }
    if let Some(symbol) = symbol(c"malloc_trim") {
        // SAFETY: glibc, which defined the function, gives it this type.
        let trim = unsafe { std::mem::transmute::<*mut c_void, Trim>(symbol) };
        // SAFETY: it locks what it reads.
        unsafe { trim(0) };
    }
}

/// Returns the address of a function in any object that the program was started with.
fn symbol(name: &CStr) -> Option<*mut c_void> {
    // SAFETY: dlsym reads a NUL-terminated name and only looks it up.
    let symbol = unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) };
    (!symbol.is_null()).then_some(symbol)
}
