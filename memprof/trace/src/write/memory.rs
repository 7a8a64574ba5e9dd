//! The mapped file, written by one process and read by others.
#![allow(unsafe_code)]

use std::marker::PhantomData;
use std::ptr::NonNull;
use std::slice;
use std::sync::atomic::{AtomicU64, Ordering, fence};

/// Memory that other processes read while it is written. Accesses outside it are ignored: a trace
/// with a gap is better than a program that ends.
pub(super) struct Region<'a> {
    base: NonNull<u8>,
    length: usize,
    memory: PhantomData<&'a mut [u8]>,
}

// SAFETY: it stands for a `&mut [u8]`, which may be sent to another thread.
unsafe impl Send for Region<'_> {}

impl<'a> Region<'a> {
    pub(super) fn new(memory: &'a mut [u8]) -> Self {
        let length = memory.len();
        Self { base: NonNull::from(memory).cast(), length, memory: PhantomData }
    }

    pub(super) fn length(&self) -> usize {
        self.length
    }

    pub(super) fn is_aligned(&self) -> bool {
        self.base.cast::<u64>().is_aligned()
    }

    /// Copies bytes with plain stores, in any order.
    #[inline]
    pub(super) fn copy(&mut self, at: usize, bytes: &[u8]) {
        if at.checked_add(bytes.len()).is_none_or(|end| end > self.length) {
            debug_assert!(false, "{at} + {} is outside", bytes.len());
            return;
        }
        #[cfg(test)]
        if let Some(survive) = super::kill_tests::survive(bytes.len().div_ceil(8)) {
            let words = bytes.chunks(8).enumerate().filter(|(word, _)| survive(*word));
            for (word, bytes) in words {
                let place = self.base.as_ptr().wrapping_add(at + 8 * word);
                // SAFETY: part of the range that was checked.
                unsafe { place.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
            }
            return;
        }
        // SAFETY: the range was checked; `&mut self` stands for the only writer of this memory, and
        // `bytes` cannot overlap what is borrowed mutably.
        unsafe {
            self.base.add(at).copy_from_nonoverlapping(NonNull::from(bytes).cast(), bytes.len());
        }
    }

    /// Makes one store, after all stores before it and before all that follow.
    #[inline]
    pub(super) fn store(&mut self, at: usize, value: u64) {
        if !at.is_multiple_of(8) || at.checked_add(8).is_none_or(|end| end > self.length) {
            debug_assert!(false, "{at} is outside or not aligned");
            return;
        }
        #[cfg(test)]
        if super::kill_tests::survive(1).is_some_and(|survive| !survive(0)) {
            return;
        }
        // SAFETY: in range and aligned as `create` has checked the base; other processes only read.
        let word = unsafe { AtomicU64::from_ptr(self.base.add(at).as_ptr().cast()) };
        word.store(value.to_le(), Ordering::Release);
        // Later stores must not be visible before it; on x86-64 this costs no instruction.
        fence(Ordering::AcqRel);
    }

    /// Returns the bytes written there; empty if outside.
    #[inline]
    pub(super) fn bytes(&self, at: usize, length: usize) -> &[u8] {
        if at.checked_add(length).is_none_or(|end| end > self.length) {
            return &[];
        }
        // SAFETY: in range, and not written while `self` is borrowed.
        unsafe { slice::from_raw_parts(self.base.add(at).as_ptr(), length) }
    }
}
