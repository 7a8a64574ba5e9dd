//! Return of memory to the kernel when a process sleeps: memory that its allocator holds unused.
#![allow(unsafe_code)]

/// glibc's `malloc_trim`.
type Trim = unsafe extern "C" fn(libc::size_t) -> libc::c_int;

/// Returns free memory of the allocator to the kernel, if the C library can: glibc keeps blocks
/// that were freed below a block in use. Takes 10 to 30 ms for each 100 MB returned.
///
/// Memory in use stays. Without swap the kernel has no place for it, and with swap it finds idle
/// pages itself; `MADV_PAGEOUT` would evict pages that a joiner needs at once.
pub(crate) fn give_back() {
    // SAFETY: dlsym reads a NUL-terminated name and only looks it up.
    let symbol = unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"malloc_trim".as_ptr()) };
    if symbol.is_null() {
        return;
    }
    // SAFETY: glibc, which defined the function, gives it this type. It locks what it reads.
    let trim = unsafe { std::mem::transmute::<*mut libc::c_void, Trim>(symbol) };
    // SAFETY: any thread may call it at any time; it releases no memory in use.
    unsafe { trim(0) };
}
