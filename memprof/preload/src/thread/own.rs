//! Reads of words that only the calling thread writes.

#![allow(unsafe_code)]

use core::sync::atomic::{AtomicI64, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize};

/// A word of a thread's own, which no other writes.
pub trait Own {
    type Word;

    /// Its word. Unlike an atomic load it can be part of another instruction.
    ///
    /// # Safety
    /// Only the calling thread writes the word.
    unsafe fn own(&self) -> Self::Word;

    /// The same, read anew where that is as quick as to keep it.
    ///
    /// # Safety
    /// As for [`Own::own`].
    unsafe fn own_again(&self) -> Self::Word;
}

macro_rules! own {
    ($($atomic:ty: $word:ty,)*) => {$(
        impl Own for $atomic {
            type Word = $word;

            #[inline(always)]
            unsafe fn own(&self) -> $word {
                // SAFETY: nobody writes meanwhile.
                unsafe { self.as_ptr().read() }
            }

            #[inline(always)]
            unsafe fn own_again(&self) -> $word {
                // SAFETY: nobody writes meanwhile.
                unsafe { self.as_ptr().read_volatile() }
            }
        }
    )*};
}

own! { AtomicI64: i64, AtomicU32: u32, AtomicU64: u64, AtomicUsize: usize, }

impl<T> Own for AtomicPtr<T> {
    type Word = *mut T;

    #[inline(always)]
    unsafe fn own(&self) -> *mut T {
        // SAFETY: nobody writes meanwhile.
        unsafe { self.as_ptr().read() }
    }

    #[inline(always)]
    unsafe fn own_again(&self) -> *mut T {
        // SAFETY: nobody writes meanwhile.
        unsafe { self.as_ptr().read_volatile() }
    }
}
