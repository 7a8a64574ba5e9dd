//! Bytes of large blocks that a reader of the tables may miss: blocks in `realloc`, blocks in
//! `free`, and new blocks.
//!
//! In `realloc` a block leaves the tables before the real call, which may give its memory to
//! another thread, and enters them again afterwards. The sampler reads the tables first and the
//! pages of the process after that, so the pages of a block that it missed in the tables would be
//! unattributed. This module counts how many bytes of each owner that may be. A very large block
//! leaves the tables before `free`, which unmaps its pages only later: until then they would count
//! as the allocator's.
//!
//! The following order is checked with a model checker (`tests/model`). A writer counts a block
//! that leaves before it removes the block from the tables, and one that enters after it has
//! inserted the block and before the program can touch it. A reader loads `out` and `moved` before
//! the tables, and `moved` again after the pages. A reader that finds a page of a block touched
//! sees everything written before that touch, since the kernel takes the same lock for both.
//!
//! In `free`, a writer counts `freeing` before it removes the block from the tables, and `freed`
//! after the real call. A reader loads `freed` before the tables, and `freeing` after them and
//! before the pages: a block that is no longer in the tables is counted in `freeing`, and one
//! counted in `freed` has no pages. A block that is in the tables is not counted.

use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed};

#[cfg(not(loom))]
use core::sync::atomic::AtomicU64;
#[cfg(loom)]
use loom::sync::atomic::AtomicU64;

/// Minimum size of a counted block. Smaller blocks are in the tables again soon, and seldom in
/// separate mappings.
pub const FROM: usize = 128 * 1024;

/// Counters of blocks in flight, by the index of their owner.
pub struct InFlight<const OWNERS: usize> {
    /// Bytes of blocks that have left the tables and will enter them again.
    out: [AtomicU64; OWNERS],
    /// Total bytes of all blocks that left the tables to enter them again, or entered them.
    moved: [AtomicU64; OWNERS],
    /// Total bytes of all blocks whose `free` began (`freeing`) and returned (`freed`).
    freeing: [AtomicU64; OWNERS],
    freed: [AtomicU64; OWNERS],
}

/// Counters that a reader loads before it reads the tables.
pub struct Before<const OWNERS: usize> {
    moved: [u64; OWNERS],
    out: [u64; OWNERS],
    /// `freed` until the tables are read; afterwards the bytes of blocks that were in `free`
    /// meanwhile.
    leaving: [u64; OWNERS],
}

impl<const OWNERS: usize> Before<OWNERS> {
    pub const fn new() -> Self {
        Self { moved: [0; OWNERS], out: [0; OWNERS], leaving: [0; OWNERS] }
    }

    /// Returns the bytes of each owner in `free` while the tables were read. Valid after
    /// [`InFlight::tables_read`].
    pub fn leaving(&self) -> &[u64; OWNERS] {
        &self.leaving
    }
}

impl<const OWNERS: usize> InFlight<OWNERS> {
    #[cfg(not(loom))]
    pub const fn new() -> Self {
        Self {
            out: [const { AtomicU64::new(0) }; OWNERS],
            moved: [const { AtomicU64::new(0) }; OWNERS],
            freeing: [const { AtomicU64::new(0) }; OWNERS],
            freed: [const { AtomicU64::new(0) }; OWNERS],
        }
    }

    #[cfg(loom)]
    pub fn new() -> Self {
        let counters = || core::array::from_fn(|_| AtomicU64::new(0));
        Self { out: counters(), moved: counters(), freeing: counters(), freed: counters() }
    }

    /// Counts a block that is about to leave the tables. [`InFlight::entered_again`] must follow,
    /// even if the block does not enter them again.
    pub fn leaves(&self, owner: usize, size: usize) {
        if size >= FROM {
            self.out[owner].fetch_add(size as u64, Relaxed);
            self.moved[owner].fetch_add(size as u64, AcqRel);
        }
    }

    /// Ends what [`InFlight::leaves`] began, with the same arguments.
    pub fn entered_again(&self, owner: usize, size: usize) {
        if size >= FROM {
            self.out[owner].fetch_sub(size as u64, AcqRel);
        }
    }

    /// Counts a block that has just entered the tables.
    #[inline(always)]
    pub fn entered(&self, owner: usize, size: usize) {
        if size >= FROM {
            self.moved[owner].fetch_add(size as u64, AcqRel);
        }
    }

    /// Counts a block, of any size, that is about to leave the tables for `free`.
    /// [`InFlight::freed`] must follow.
    pub fn frees(&self, owner: usize, size: usize) {
        self.freeing[owner].fetch_add(size as u64, AcqRel);
    }

    /// Ends what [`InFlight::frees`] began, with the same arguments, when the real `free` has
    /// returned.
    pub fn freed(&self, owner: usize, size: usize) {
        self.freed[owner].fetch_add(size as u64, AcqRel);
    }

    /// Records the blocks in flight before the tables are read.
    pub fn before(&self, into: &mut Before<OWNERS>) {
        for (owner, (moved, out)) in self.moved.iter().zip(&self.out).enumerate() {
            into.moved[owner] = moved.load(Acquire);
            into.out[owner] = out.load(Acquire);
        }
        for (into, freed) in into.leaving.iter_mut().zip(&self.freed) {
            *into = freed.load(Acquire);
        }
    }

    /// Records the blocks in `free` since [`InFlight::before`]. Called after the tables are read
    /// and before the pages are.
    pub fn tables_read(&self, before: &mut Before<OWNERS>) {
        for (leaving, freeing) in before.leaving.iter_mut().zip(&self.freeing) {
            *leaving = freeing.load(Acquire).wrapping_sub(*leaving);
        }
    }

    /// Calls `each` with the index of an owner and the bytes that a reader of the tables may have
    /// missed since `before`.
    pub fn missed(&self, before: &Before<OWNERS>, each: &mut dyn FnMut(usize, u64)) {
        for (owner, moved) in self.moved.iter().enumerate() {
            let since = moved.load(Acquire).wrapping_sub(before.moved[owner]);
            let bytes = since.saturating_add(before.out[owner]);
            if bytes > 0 {
                each(owner, bytes);
            }
        }
    }

    /// Forgets the blocks of other threads, in the child of a fork.
    pub fn forget_other_threads(&self) {
        // Where nothing was in flight, the page stays shared with the parent.
        for out in self.out.iter().filter(|out| out.load(Relaxed) != 0) {
            out.store(0, Relaxed);
        }
        for (freeing, freed) in self.freeing.iter().zip(&self.freed) {
            let begun = freeing.load(Relaxed);
            if freed.load(Relaxed) != begun {
                freed.store(begun, Relaxed);
            }
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn missed(counters: &InFlight<8>, before: &Before<8>) -> Vec<(usize, u64)> {
        let mut all = Vec::new();
        counters.missed(before, &mut |owner, bytes| all.push((owner, bytes)));
        all
    }

    #[test]
    fn blocks_that_enter_during_a_read_are_missed() {
        let (counters, mut before) = (InFlight::new(), Before::new());
        counters.entered(3, FROM);
        counters.before(&mut before);
        assert_eq!(missed(&counters, &before), []);
        counters.entered(3, FROM);
        counters.entered(4, FROM - 1);
        assert_eq!(missed(&counters, &before), [(3, FROM as u64)]);
        counters.before(&mut before);
        assert_eq!(missed(&counters, &before), []);
    }

    #[test]
    fn blocks_on_their_way_during_a_read_are_missed() {
        let (counters, mut before) = (InFlight::new(), Before::new());
        counters.leaves(3, FROM);
        counters.entered_again(3, FROM);
        counters.leaves(3, 2 * FROM);
        counters.before(&mut before);
        counters.entered_again(3, 2 * FROM);
        counters.leaves(5, 3 * FROM);
        assert_eq!(missed(&counters, &before), [(3, 2 * FROM as u64), (5, 3 * FROM as u64)]);
        counters.entered_again(5, 3 * FROM);
        counters.before(&mut before);
        assert_eq!(missed(&counters, &before), []);
    }

    #[test]
    fn blocks_in_free_are_leaving_until_it_returns() {
        let (counters, mut before) = (InFlight::<8>::new(), Before::new());
        counters.frees(3, 100);
        counters.before(&mut before);
        counters.freed(3, 100);
        counters.frees(3, 7);
        counters.tables_read(&mut before);
        assert_eq!(before.leaving(), &[0, 0, 0, 107, 0, 0, 0, 0]);
        assert_eq!(missed(&counters, &before), []);
        counters.freed(3, 7);
        counters.before(&mut before);
        counters.tables_read(&mut before);
        assert_eq!(before.leaving(), &[0; 8]);
    }

    #[test]
    fn a_child_forgets_blocks_of_other_threads() {
        let (counters, mut before) = (InFlight::new(), Before::new());
        counters.leaves(3, FROM);
        counters.frees(4, FROM);
        counters.forget_other_threads();
        counters.before(&mut before);
        counters.tables_read(&mut before);
        assert_eq!(before.leaving(), &[0; 8]);
        assert_eq!(missed(&counters, &before), []);
    }
}
