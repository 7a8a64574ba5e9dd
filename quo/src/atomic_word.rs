//! Atomic word over which protocols in shared memory are generic.
//!
//! Normally it is the standard library's; the model checker supplies its own. The rest is the same
//! code in both builds.

use std::sync::atomic::Ordering;

/// A 64-bit atomic word.
pub trait AtomicWord {
    /// Reads the word.
    fn load(&self, order: Ordering) -> u64;
    /// Writes the word.
    fn store(&self, value: u64, order: Ordering);
    /// Replaces `current` by `new`. Acquires and releases on success, acquires on failure.
    ///
    /// # Errors
    /// The value found, if it was not `current`.
    fn exchange(&self, current: u64, new: u64) -> Result<(), u64>;
    /// Orders a preceding store before a following load, among all threads that call this.
    fn fence();
}

impl AtomicWord for std::sync::atomic::AtomicU64 {
    #[inline]
    fn load(&self, order: Ordering) -> u64 {
        self.load(order)
    }

    #[inline]
    fn store(&self, value: u64, order: Ordering) {
        self.store(value, order);
    }

    #[inline]
    fn exchange(&self, current: u64, new: u64) -> Result<(), u64> {
        self.compare_exchange(current, new, Ordering::AcqRel, Ordering::Acquire).map(drop)
    }

    #[inline]
    fn fence() {
        std::sync::atomic::fence(Ordering::SeqCst);
    }
}

#[cfg(loom)]
impl AtomicWord for loom::sync::atomic::AtomicU64 {
    fn load(&self, order: Ordering) -> u64 {
        self.load(order)
    }

    fn store(&self, value: u64, order: Ordering) {
        self.store(value, order);
    }

    fn exchange(&self, current: u64, new: u64) -> Result<(), u64> {
        self.compare_exchange(current, new, Ordering::AcqRel, Ordering::Acquire).map(drop)
    }

    fn fence() {
        loom::sync::atomic::fence(Ordering::SeqCst);
    }
}
