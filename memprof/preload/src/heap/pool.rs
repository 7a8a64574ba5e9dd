//! Memory of the ledger itself.

#![allow(unsafe_code)]

use core::ptr;

/// Zeroed pages that stay; null if there are none.
pub fn map(bytes: usize) -> *mut u8 {
    // SAFETY: new pages at an address of the kernel's choice.
    let pages = unsafe {
        libc::mmap(
            ptr::null_mut(),
            bytes,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE,
            -1,
            0,
        )
    };
    if pages == libc::MAP_FAILED { ptr::null_mut() } else { pages.cast() }
}
