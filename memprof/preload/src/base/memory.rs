//! Memory of the tool: mapped, counted, and never from the program's heap.

#![allow(unsafe_code)]

use core::ptr::NonNull;
use core::sync::atomic::{AtomicUsize, Ordering};

use crate::base::kernel;
use crate::base::lock::SpinLock;
use crate::base::thread::Guard;

/// Maximum number of separate ranges of the tool's memory. Adjacent ranges count as one.
const PIECES: usize = 512;

struct Piece {
    start: AtomicUsize,
    end: AtomicUsize,
}

/// Unordered. A range only grows, and none is ever removed, so that readers need no lock.
static TABLE: [Piece; PIECES] =
    [const { Piece { start: AtomicUsize::new(0), end: AtomicUsize::new(0) } }; PIECES];
static COUNT: AtomicUsize = AtomicUsize::new(0);
static LOCK: SpinLock = SpinLock::new();

/// Maps zeroed memory, rounded up to pages, that stays until the process ends. Returns `None` when
/// the kernel provides none; the caller then omits what the memory is for.
pub fn map(bytes: usize) -> Option<NonNull<u8>> {
    let page = kernel::page();
    let bytes = bytes.checked_add(page - 1)? & !(page - 1);
    let start = kernel::map_anonymous(bytes).ok()?;
    adopt(start, bytes);
    NonNull::new(start as *mut u8)
}

/// Maps zeroed memory for `count` values whose all-zero pattern is valid.
///
/// # Safety
/// All zeros must be a valid `T`.
pub unsafe fn slice<T>(count: usize) -> Option<&'static mut [T]> {
    let bytes = count.checked_mul(size_of::<T>())?;
    let start = map(bytes.max(1))?;
    // SAFETY: fresh zeroed memory, aligned to a page, large enough, never unmapped.
    Some(unsafe { core::slice::from_raw_parts_mut(start.as_ptr().cast(), count) })
}

/// Registers memory as the tool's that was mapped otherwise: the live file, the sampler's stack.
pub fn adopt(start: usize, bytes: usize) {
    let _guard = Guard::enter();
    let end = start + bytes;
    LOCK.lock();
    let count = COUNT.load(Ordering::Relaxed);
    let neighbour = TABLE[..count].iter().find(|piece| {
        let (low, high) = (piece.start.load(Ordering::Relaxed), piece.end.load(Ordering::Relaxed));
        (low <= start && start <= high) || (low <= end && end <= high)
    });
    if let Some(piece) = neighbour {
        piece.start.fetch_min(start, Ordering::Relaxed);
        piece.end.fetch_max(end, Ordering::Relaxed);
    } else if count < PIECES {
        TABLE[count].start.store(start, Ordering::Relaxed);
        TABLE[count].end.store(end, Ordering::Relaxed);
        COUNT.store(count + 1, Ordering::Release);
    }
    LOCK.unlock();
}

/// Returns the range of the tool with the lowest end above `address`: start and end.
pub fn next(address: usize) -> Option<(usize, usize)> {
    let count = COUNT.load(Ordering::Acquire);
    let pieces = TABLE[..count]
        .iter()
        .map(|piece| (piece.start.load(Ordering::Relaxed), piece.end.load(Ordering::Relaxed)));
    pieces.filter(|&(_, end)| end > address).min_by_key(|&(_, end)| end)
}

/// Returns the total size of all ranges.
#[cfg(test)]
pub fn total() -> usize {
    let count = COUNT.load(Ordering::Acquire);
    let length = |piece: &Piece| {
        piece.end.load(Ordering::Relaxed).wrapping_sub(piece.start.load(Ordering::Relaxed))
    };
    TABLE[..count].iter().map(length).sum()
}

/// Returns the lock, for [`crate::lifecycle::fork`].
pub fn lock() -> &'static SpinLock {
    &LOCK
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_zero_counted_and_found_by_address() {
        let before = total();
        let memory = map(10_000).unwrap();
        let start = memory.as_ptr() as usize;
        assert!(total() >= before + 10_000);
        let (low, high) = next(start).unwrap();
        assert!(low <= start && start + 10_000 <= high);
        // SAFETY: just mapped.
        let bytes = unsafe { core::slice::from_raw_parts(memory.as_ptr(), 10_000) };
        assert!(bytes.iter().all(|&byte| byte == 0));
    }

    #[test]
    fn more_than_there_can_be_is_refused() {
        assert_eq!(map(usize::MAX), None);
        assert_eq!(map(usize::MAX / 2), None);
    }
}
