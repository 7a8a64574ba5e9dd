//! Memory of the ledger itself.

use core::ptr::{self, NonNull};

/// Zeroed pages that stay; null if there are none.
pub fn map(bytes: usize) -> *mut u8 {
    crate::base::memory::map(bytes).map_or(ptr::null_mut(), NonNull::as_ptr)
}
