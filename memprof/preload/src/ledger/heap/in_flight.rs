//! Bytes of large blocks that a reader of the tables may miss: those on their way in `realloc`, those in `free`, and
//! new ones.
//!
//! In `realloc` a block leaves the tables before the real call, which may give its place to another thread, and enters
//! them after it. The sampler reads the tables first and the pages of the process after that: pages of a block that
//! it missed in the tables would be nobody's. This counts how many bytes of each owner that may be. A very large block
//! leaves the tables before `free`, which unmaps its pages only later: until then they would be the allocator's.
//!
//! The order, which the model checker goes through (`tests/model`): a writer counts a block that leaves before it
//! removes it from the tables, and one that enters after it has inserted it and before the program can touch it. A
//! reader loads `out` and `moved` before the tables, and `moved` again after the pages. A reader that finds a page of a
//! block touched sees all that was written before that touch, since the kernel takes the same lock for both.
//!
//! In `free`, a writer counts `freeing` before it removes the block from the tables, and `freed` after the real call. A
//! reader loads `freed` before the tables, and `freeing` after them and before the pages: a block that the tables no
//! longer have is in `freeing`, and one that is in `freed` has no pages. A block that the tables have is not counted.

use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed};

#[cfg(not(loom))]
use core::sync::atomic::AtomicU64;
#[cfg(loom)]
use loom::sync::atomic::AtomicU64;

/// Smaller blocks are not counted: they are soon in the tables, and seldom in mappings of their own.
pub const FROM: usize = 128 * 1024;

/// Counters of blocks in flight, by the number of their owner.
pub struct InFlight<const OWNERS: usize> {
    /// Bytes of blocks that have left the tables and are to enter them again.
    out: [AtomicU64; OWNERS],
    /// Bytes of blocks that ever left the tables to enter them again, or entered them.
    moved: [AtomicU64; OWNERS],
    /// Bytes of blocks whose `free` ever began, and returned.
    freeing: [AtomicU64; OWNERS],
    freed: [AtomicU64; OWNERS],
}

/// Counters that a reader loads before it reads the tables.
pub struct Before<const OWNERS: usize> {
    moved: [u64; OWNERS],
    out: [u64; OWNERS],
    /// `freed` until the tables are read; from then on the bytes of blocks that were in `free` meanwhile.
    leaving: [u64; OWNERS],
}

impl<const OWNERS: usize> Before<OWNERS> {
    pub const fn new() -> Self {
        Self { moved: [0; OWNERS], out: [0; OWNERS], leaving: [0; OWNERS] }
    }

    /// Bytes of each owner in `free` while the tables were read, after [`InFlight::tables_read`].
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

    /// Counts a block that is about to leave the tables. [`InFlight::entered_again`] follows, also where it stays out.
    pub fn leaves(&self, owner: usize, size: usize) {
        if size >= FROM {
            self.out[owner].fetch_add(size as u64, Relaxed);
            self.moved[owner].fetch_add(size as u64, AcqRel);
        }
    }

    /// Ends what [`InFlight::leaves`] began, with the same numbers.
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

    /// Counts a block, of any size, that is about to leave the tables for `free`. [`InFlight::freed`] follows.
    pub fn frees(&self, owner: usize, size: usize) {
        self.freeing[owner].fetch_add(size as u64, AcqRel);
    }

    /// Ends what [`InFlight::frees`] began, with the same numbers, when the real `free` has returned.
    pub fn freed(&self, owner: usize, size: usize) {
        self.freed[owner].fetch_add(size as u64, AcqRel);
    }

    /// Notes the blocks in flight before the tables are read.
    pub fn before(&self, into: &mut Before<OWNERS>) {
        for (owner, (moved, out)) in self.moved.iter().zip(&self.out).enumerate() {
            into.moved[owner] = moved.load(Acquire);
            into.out[owner] = out.load(Acquire);
        }
        for (into, freed) in into.leaving.iter_mut().zip(&self.freed) {
            *into = freed.load(Acquire);
        }
    }

    /// Notes the blocks in `free` since [`InFlight::before`], when the tables were read and before the pages are.
    pub fn tables_read(&self, before: &mut Before<OWNERS>) {
        for (leaving, freeing) in before.leaving.iter_mut().zip(&self.freeing) {
            *leaving = freeing.load(Acquire).wrapping_sub(*leaving);
        }
    }

    /// Calls `each` with owner and bytes that a reader of the tables may have missed since `before`.
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
        // Where nothing was on its way the page stays the parent's.
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
