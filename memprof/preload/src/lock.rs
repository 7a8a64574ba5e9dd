//! A lock that is held for a moment and never across a call out of the tool.

use core::sync::atomic::{AtomicU32, Ordering};

/// Taken by spinning, then yielding the processor.
pub struct SpinLock(AtomicU32);

impl SpinLock {
    pub const fn new() -> SpinLock {
        SpinLock(AtomicU32::new(0))
    }

    /// The caller must hold a [`crate::thread::Guard`].
    pub fn lock(&self) {
        while self.0.compare_exchange_weak(0, 1, Ordering::Acquire, Ordering::Relaxed).is_err() {
            core::hint::spin_loop();
        }
    }

    pub fn unlock(&self) {
        self.0.store(0, Ordering::Release);
    }
}
