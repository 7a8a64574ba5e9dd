//! Addresses of functions by name, as the loader finds them.

#![allow(unsafe_code)]

use core::ffi::{CStr, c_void};

/// Returns the function of this name in the objects after the tool, 0 if there is none.
pub fn dlsym_next(name: &CStr) -> usize {
    dlsym(libc::RTLD_NEXT, name)
}

/// Returns the function of this name that a handle refers to, 0 if there is none.
#[cfg(any(not(feature = "archive"), test))]
pub fn dlsym(handle: *mut c_void, name: &CStr) -> usize {
    // SAFETY: the name is zero-terminated. The loader determines the objects after the tool from
    // the return address of this call, so it must not become a jump: the result is used after it.
    let address = unsafe { libc::dlsym(handle, name.as_ptr()) };
    core::hint::black_box(address) as usize
}

/// Declares functions that the linker has replaced by others, and [`dlsym`] for them.
#[cfg(all(feature = "archive", not(test)))]
macro_rules! wrapped {
    ($($name:literal $real:ident,)*) => {
        unsafe extern "C" {
            $(fn $real();)*
        }

        /// Returns the function that the linker has replaced, 0 for other names.
        pub fn dlsym(_handle: *mut c_void, name: &CStr) -> usize {
            match name.to_bytes() {
                $($name => $real as *const () as usize,)*
                _ => 0,
            }
        }
    };
}

#[cfg(all(feature = "archive", not(test)))]
wrapped! {
    b"malloc" __real_malloc,
    b"calloc" __real_calloc,
    b"realloc" __real_realloc,
    b"reallocarray" __real_reallocarray,
    b"free" __real_free,
    b"memalign" __real_memalign,
    b"aligned_alloc" __real_aligned_alloc,
    b"posix_memalign" __real_posix_memalign,
    b"valloc" __real_valloc,
    b"pvalloc" __real_pvalloc,
    b"malloc_usable_size" __real_malloc_usable_size,
    b"mmap" __real_mmap,
    b"mmap64" __real_mmap64,
    b"munmap" __real_munmap,
    b"mremap" __real_mremap,
    b"shmat" __real_shmat,
    b"shmdt" __real_shmdt,
    b"brk" __real_brk,
    b"sbrk" __real_sbrk,
    b"pthread_create" __real_pthread_create,
}
