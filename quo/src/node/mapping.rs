#![allow(unsafe_code)]
//! Typed views of a shared mapping.

use std::io;
use std::marker::PhantomData;
use std::ops::Deref;
use std::os::fd::AsFd;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64};

use rustix::mm::{self, MapFlags, ProtFlags};

/// Types that may lie in memory that several processes share.
///
/// # Safety
/// The type has a fixed representation (`repr(C)`), holds no pointer or reference, and every bit
/// pattern is a value of it. Whatever changes after the segment was created is atomic (or written
/// under a protocol that its module describes).
pub(super) unsafe trait ShmSafe {}

// SAFETY: one atomic word, any bits.
unsafe impl ShmSafe for AtomicU32 {}
// SAFETY: one atomic word, any bits.
unsafe impl ShmSafe for AtomicU64 {}
// SAFETY: any byte is a byte. Views of bytes are only made of parts that are written before the
// view or under the exchange protocol.
unsafe impl ShmSafe for u8 {}

/// A shared mapping of a file, unmapped when the last view is gone.
#[derive(Debug)]
pub(super) struct Mapping {
    base: NonNull<u8>,
    bytes: usize,
}

// SAFETY: the mapping belongs to the process, not to a thread; access goes through `ShmSafe` views.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Maps the first `bytes` bytes of a file, which must be that long.
    pub(super) fn new(file: impl AsFd, bytes: usize) -> io::Result<Arc<Self>> {
        // SAFETY: a new mapping placed by the kernel touches no existing memory.
        let base = unsafe {
            mm::mmap(
                std::ptr::null_mut(),
                bytes,
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::SHARED,
                file,
                0,
            )
        }?;
        let base = NonNull::new(base.cast()).ok_or(io::ErrorKind::InvalidData)?;
        Ok(Arc::new(Self { base, bytes }))
    }

    /// Returns the start of the mapping.
    pub(super) fn base(&self) -> NonNull<u8> {
        self.base
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: exactly what `new` mapped; every view holds the `Arc`, so none is left.
        let _ = unsafe { mm::munmap(self.base.as_ptr().cast(), self.bytes) };
    }
}

/// A view of `T`s in a mapping, which it keeps mapped.
pub(super) struct Shared<T> {
    first: NonNull<T>,
    count: usize,
    mapping: Arc<Mapping>,
    holds: PhantomData<T>,
}

// SAFETY: a view hands out `&T` only, and `Mapping` may be used from any thread.
unsafe impl<T: ShmSafe + Sync> Send for Shared<T> {}
// SAFETY: as above.
unsafe impl<T: ShmSafe + Sync> Sync for Shared<T> {}

impl<T: ShmSafe> Shared<T> {
    /// Returns the `count` values that begin `offset` bytes into the mapping; `None` if they are
    /// not entirely inside the mapping or not aligned.
    pub(super) fn new(mapping: &Arc<Mapping>, offset: usize, count: usize) -> Option<Self> {
        let bytes = count.checked_mul(size_of::<T>())?;
        if offset.checked_add(bytes)? > mapping.bytes {
            return None;
        }
        // SAFETY: the offset is inside the mapping, checked above.
        let first = unsafe { mapping.base.add(offset) }.cast::<T>();
        first.is_aligned().then(|| Self {
            first,
            count,
            mapping: Arc::clone(mapping),
            holds: PhantomData,
        })
    }

    /// Returns the address of the first value.
    pub(super) fn as_ptr(&self) -> NonNull<T> {
        self.first
    }
}

impl<T: ShmSafe> Deref for Shared<T> {
    type Target = [T];

    #[inline]
    fn deref(&self) -> &[T] {
        // SAFETY: inside the mapping and aligned (checked in `new`), mapped as long as `self`
        // lives, and any bits are values of a `ShmSafe` type.
        unsafe { std::slice::from_raw_parts(self.first.as_ptr(), self.count) }
    }
}

impl<T> std::fmt::Debug for Shared<T> {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "{} x {}", self.count, std::any::type_name::<T>())
    }
}

impl<T> Clone for Shared<T> {
    fn clone(&self) -> Self {
        Self {
            first: self.first,
            count: self.count,
            mapping: Arc::clone(&self.mapping),
            holds: PhantomData,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::Ordering::Relaxed;

    #[test]
    fn views_stay_inside_and_see_each_others_writes() {
        let file = tempfile::tempfile().unwrap();
        rustix::fs::ftruncate(&file, 4_096).unwrap();
        let (a, b) = (Mapping::new(&file, 4_096).unwrap(), Mapping::new(&file, 4_096).unwrap());
        let here = Shared::<AtomicU64>::new(&a, 8, 2).unwrap();
        let there = Shared::<AtomicU64>::new(&b, 16, 1).unwrap();
        drop(a);
        here[1].store(7, Relaxed);
        assert_eq!(there[0].load(Relaxed), 7);
        for (offset, count) in [(4_096, 1), (4_089, 1), (0, 513), (4, 1), (8, usize::MAX)] {
            assert!(Shared::<AtomicU64>::new(&b, offset, count).is_none(), "{offset} {count}");
        }
    }
}
