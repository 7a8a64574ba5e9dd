//! Memory that a process gives back when it sleeps: memory that its allocator holds and nothing
//! uses.
#![allow(unsafe_code)]

/// glibc's `malloc_trim`.
type Trim = unsafe extern "C" fn(libc::size_t) -> libc::c_int;

/// Gives free memory of the allocator back to the kernel, where the C library can: glibc keeps blocks that were freed
/// below a block that is in use. It takes 10 to 30 ms for each 100 MB that are given back.
///
/// Memory in use stays. Without swap the kernel has no place to put it, and with swap it finds pages that nobody
/// touches by itself; asked to (`MADV_PAGEOUT`), it would take pages that a joiner needs at once.
pub(crate) fn give_back() {
    // SAFETY: dlsym reads a NUL-terminated name and only looks it up.
    let symbol = unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"malloc_trim".as_ptr()) };
    if symbol.is_null() {
        return;
    }
    // SAFETY: the function of this name has this type in glibc, which made it up. It locks what it looks at.
    let trim = unsafe { std::mem::transmute::<*mut libc::c_void, Trim>(symbol) };
    // SAFETY: any thread may call it at any time; it takes nothing that is in use.
    unsafe { trim(0) };
}
