//! A small arena for allocations while the next allocator is still being looked up: `dlsym` itself
//! may allocate.

#![allow(unsafe_code)]

use core::cell::UnsafeCell;
use core::ptr;
use core::sync::atomic::{AtomicUsize, Ordering};

use super::next_allocator;

const CAPACITY: usize = 64 * 1024;
/// Bytes before each block: its size, and a word that marks a block as mapped in the C library's
/// format, so that the block never takes the fast path.
const HEADER: usize = 16;

#[repr(align(4096))]
struct Arena(UnsafeCell<[u8; CAPACITY]>);

// SAFETY: each byte is handed out once, to one caller.
unsafe impl Sync for Arena {}

static ARENA: Arena = Arena(UnsafeCell::new([0; CAPACITY]));
static USED: AtomicUsize = AtomicUsize::new(0);

fn base() -> usize {
    ARENA.0.get() as usize
}

/// Returns true for a block of this arena.
#[inline(always)]
pub fn holds(block: *const u8) -> bool {
    (block as usize).wrapping_sub(base()) < CAPACITY
}

/// Returns zeroed memory that is never freed; null when the arena is full.
pub fn allocate(size: usize, alignment: usize) -> *mut u8 {
    let alignment = alignment.max(HEADER);
    let mut used = USED.load(Ordering::Relaxed);
    loop {
        let Some(start) =
            (base() + used + HEADER).checked_next_multiple_of(alignment).map(|at| at - base())
        else {
            return ptr::null_mut();
        };
        let Some(end) = start.checked_add(size).filter(|end| *end <= CAPACITY) else {
            return ptr::null_mut();
        };
        match USED.compare_exchange_weak(used, end, Ordering::Relaxed, Ordering::Relaxed) {
            Ok(_) => {
                let block = (base() + start) as *mut u8;
                // SAFETY: the header lies before the block, after all earlier blocks, and is
                // aligned.
                unsafe {
                    block.sub(HEADER).cast::<usize>().write(size);
                    block.sub(size_of::<usize>()).cast::<usize>().write(next_allocator::MAPPED);
                }
                return block;
            }
            Err(now) => used = now,
        }
    }
}

/// Returns the requested size of a block.
///
/// # Safety
/// `block` is a block of this arena.
pub unsafe fn size(block: *const u8) -> usize {
    // SAFETY: every block has its header.
    unsafe { block.sub(HEADER).cast::<usize>().read() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_aligned_apart_and_know_their_size() {
        let blocks: Vec<(*mut u8, usize, usize)> = [(1, 1), (24, 8), (100, 64), (7, 4096), (0, 16)]
            .into_iter()
            .map(|(size, alignment)| (allocate(size, alignment), size, alignment))
            .collect();
        for (block, length, alignment) in &blocks {
            assert!(!block.is_null() && holds(*block));
            assert_eq!(*block as usize % alignment, 0);
            // SAFETY: a block of the arena.
            assert_eq!(unsafe { size(*block) }, *length);
        }
        for (before, after) in blocks.iter().zip(&blocks[1..]) {
            assert!(before.0 as usize + before.1 <= after.0 as usize);
        }
        assert!(allocate(CAPACITY, 16).is_null());
        assert!(allocate(usize::MAX - 8, 16).is_null());
        assert!(!holds(&raw const blocks as *const u8));
    }
}
