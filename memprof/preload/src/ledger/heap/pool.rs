//! Memory of the ledger itself.

use core::ptr::{self, NonNull};

/// Returns zeroed pages that are never freed; null if there are none.
pub fn map(bytes: usize) -> *mut u8 {
    crate::base::memory::map(bytes).map_or(ptr::null_mut(), NonNull::as_ptr)
}
