//! The atomic word that protocols in shared memory are generic over: the standard library's there, the model
//! checker's in its models.

use std::sync::atomic::Ordering;

/// A 64-bit atomic word.
pub trait AtomicWord {
    /// Reads the word.
    fn load(&self, order: Ordering) -> u64;
    /// Writes the word.
    fn store(&self, value: u64, order: Ordering);
    /// Orders a store before it and a load after it, between all who do so.
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

    fn fence() {
        loom::sync::atomic::fence(Ordering::SeqCst);
    }
}
