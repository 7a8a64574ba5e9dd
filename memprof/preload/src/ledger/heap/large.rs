//! Table of large blocks, whose residency is determined to the page.
//!
//! A bucket has two cache lines; a block is in one of a few buckets from the one that its address
//! selects. The first thread that uses a bucket has the first line to itself, since a locked
//! operation waits for everything that the allocator has just written. The allocator gives each
//! thread separate memory, so nearly all changes are made by the owner. In the entries that all
//! threads share, inserting takes one compare-and-swap. Removing is a plain store: only the thread
//! that frees a block removes it. A block that finds no room is counted like a small one.

use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use core::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize};

use crate::base::arch;
use crate::base::component::Component;

/// Minimum size of a block in this table.
pub const FROM: usize = 32 * 1024;

const OWN: usize = 3;
const SHARED: usize = 4;
const BUCKETS: usize = 4096;
/// Capacity of the table.
pub const MOST: usize = BUCKETS * (OWN + SHARED);
/// Number of buckets a block may be in.
const NEIGHBOURS: usize = 4;

/// Value of `start` in an entry that is being filled; no block has this address.
const CLAIMED: usize = 1;

const COMPONENT_MASK: u64 = 0xff;
const LENGTH_SHIFT: u32 = 8;

/// A large block.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Large {
    pub start: usize,
    pub length: usize,
    pub component: Component,
}

struct Entry {
    start: AtomicUsize,
    /// Length, and the component in the low bits.
    what: AtomicU64,
}

#[repr(C, align(64))]
struct Bucket {
    /// Number of the counters whose thread owns the bucket, permanently; 0 for none yet.
    owner: AtomicU32,
    own: [Entry; OWN],
    shared: [Entry; SHARED],
}

const _: () = assert!(size_of::<Bucket>() == 128);

impl Entry {
    const fn new() -> Entry {
        Entry { start: AtomicUsize::new(0), what: AtomicU64::new(0) }
    }

    /// Fills the entry if `claims` succeeds. A reader that sees the address also sees the words
    /// written before it.
    #[inline(always)]
    fn fill(&self, start: usize, what: u64, claims: impl FnOnce(&AtomicUsize) -> bool) -> bool {
        if !claims(&self.start) {
            return false;
        }
        self.what.store(what, Release);
        self.start.store(start, Release);
        true
    }

    /// Returns the block, or `None` if there is none or it was removed during the read.
    fn read(&self) -> Option<Large> {
        let start = self.start.load(Acquire);
        if start <= CLAIMED {
            return None;
        }
        let what = self.what.load(Acquire);
        let large = Large {
            start,
            length: (what >> LENGTH_SHIFT) as usize,
            component: Component((what & COMPONENT_MASK) as u16),
        };
        (self.start.load(Acquire) == start).then_some(large)
    }
}

impl Bucket {
    fn entries(&self) -> impl Iterator<Item = &Entry> {
        self.own.iter().chain(&self.shared)
    }
}

/// Table of large blocks; the process has one.
pub struct Table {
    buckets: [Bucket; BUCKETS],
    /// One bit for each bucket that was ever used: other buckets are not read, so that their pages
    /// do not even become resident.
    used: [AtomicU64; BUCKETS / 64],
}

impl Table {
    pub const fn new() -> Table {
        Table {
            buckets: [const {
                Bucket {
                    owner: AtomicU32::new(0),
                    own: [const { Entry::new() }; OWN],
                    shared: [const { Entry::new() }; SHARED],
                }
            }; BUCKETS],
            used: [const { AtomicU64::new(0) }; BUCKETS / 64],
        }
    }

    fn near(&self, start: usize) -> impl Iterator<Item = (usize, &Bucket)> {
        // Blocks close in memory are close in the table, so that few of its pages are touched.
        let within = start / FROM;
        let around = ((within / BUCKETS) as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40;
        (0..NEIGHBOURS).map(move |step| {
            let index = (within + around as usize + step) % BUCKETS;
            (index, &self.buckets[index])
        })
    }

    /// Returns true if these counters own the bucket. A bucket without an owner goes to the first
    /// thread that asks.
    #[inline(always)]
    fn is_own(&self, index: usize, bucket: &Bucket, state: u32) -> bool {
        match bucket.owner.load(Relaxed) {
            0 => self.begin(index, bucket, state),
            owner => owner == state,
        }
    }

    #[cold]
    #[inline(never)]
    fn begin(&self, index: usize, bucket: &Bucket, state: u32) -> bool {
        self.used[index / 64].fetch_or(1 << (index % 64), Release);
        bucket.owner.compare_exchange(0, state, AcqRel, Relaxed).is_ok()
    }

    /// Inserts a block. Returns false if there is no room. Called by the thread that holds the
    /// counters with this number.
    #[inline(always)]
    pub fn insert(&self, start: usize, length: usize, component: Component, state: u32) -> bool {
        let what = (length as u64) << LENGTH_SHIFT | u64::from(component.0) & COMPONENT_MASK;
        let alone = |word: &AtomicUsize| arch::claim(word, CLAIMED);
        let first = |word: &AtomicUsize| {
            word.load(Acquire) == 0 && word.compare_exchange(0, CLAIMED, AcqRel, Relaxed).is_ok()
        };
        for (index, bucket) in self.near(start) {
            if self.is_own(index, bucket, state) {
                for entry in &bucket.own {
                    if entry.fill(start, what, alone) {
                        return true;
                    }
                }
            }
            for entry in &bucket.shared {
                if entry.fill(start, what, first) {
                    return true;
                }
            }
        }
        false
    }

    #[inline(always)]
    fn find(&self, start: usize) -> Option<&Entry> {
        for (_, bucket) in self.near(start) {
            for entries in [&bucket.own[..], &bucket.shared] {
                for entry in entries {
                    if entry.start.load(Acquire) == start {
                        return Some(entry);
                    }
                }
            }
        }
        None
    }

    /// Removes a block. Returns false if it is not in the table. Called only by the thread that may
    /// free the block.
    #[inline(always)]
    pub fn remove(&self, start: usize) -> bool {
        match self.find(start) {
            Some(entry) => {
                entry.start.store(0, Release);
                true
            }
            None => false,
        }
    }

    /// Returns the block that starts at an address.
    pub fn get(&self, start: usize) -> Option<Large> {
        self.find(start).and_then(Entry::read)
    }

    /// Calls `each` with every block, in no particular order.
    pub fn each(&self, each: &mut dyn FnMut(Large)) {
        for (used, buckets) in self.used.iter().zip(self.buckets.chunks(64)) {
            let mut left = used.load(Acquire);
            while left != 0 {
                let bucket = &buckets[left.trailing_zeros() as usize];
                left &= left - 1;
                bucket.entries().filter_map(Entry::read).for_each(&mut *each);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashMap;

    fn table() -> Box<Table> {
        // The thread needs a large stack, which holds the table before it moves to the heap.
        std::thread::Builder::new()
            .stack_size(8 << 20)
            .spawn(|| Box::new(Table::new()))
            .unwrap()
            .join()
            .unwrap()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]
        #[test]
        fn the_table_is_what_was_put_in(
            steps in prop::collection::vec((0_usize..600, any::<bool>(), FROM..1 << 40), 1..2000)
        ) {
            let table = table();
            let mut model = HashMap::new();
            for (block, insert, length) in steps {
                let start = 0x7f00_0000_0010 + block * 0x9000;
                let component = Component((length % 256) as u16);
                if model.contains_key(&start) && insert {
                    continue;
                }
                if insert {
                    prop_assert!(table.insert(start, length, component, 2));
                    model.insert(start, Large { start, length, component });
                } else {
                    prop_assert_eq!(table.remove(start), model.remove(&start).is_some());
                }
                prop_assert_eq!(table.get(start), model.get(&start).copied());
            }
            let mut seen = HashMap::new();
            table.each(&mut |large| { seen.insert(large.start, large); });
            prop_assert_eq!(seen, model);
        }
    }

    #[test]
    fn neighbouring_blocks_are_in_few_pages_of_the_table() {
        let table = table();
        for block in 0..40 {
            assert!(table.insert(0x7f12_3456_0010 + block * 0x19000, FROM, Component(1), 2));
        }
        let words = table.used.iter().map(|bits| bits.load(Relaxed));
        let pages = words.flat_map(|word| [word & u64::from(u32::MAX), word >> 32]);
        let used = pages.filter(|buckets| *buckets != 0).count();
        // 4 MiB in steps of 32 KiB, with 32 buckets per page.
        assert!(used <= 6, "{used}");
    }

    #[test]
    fn a_full_table_says_so_and_goes_on() {
        let table = table();
        let starts: Vec<usize> = (0..MOST * 2).map(|block| 0x10_0010 + block * FROM).collect();
        let held: Vec<&usize> =
            starts.iter().filter(|start| table.insert(**start, FROM, Component(9), 2)).collect();
        assert!(held.len() > MOST * 3 / 4 && held.len() <= MOST);
        assert!(held.iter().all(|start| table.remove(**start)));
        table.each(&mut |large| panic!("{large:?} is left"));
    }

    #[test]
    fn blocks_in_another_thread_s_buckets_are_found_and_go() {
        let table = table();
        let starts = || (0..60).map(|block| 0x7f12_3456_0010 + block * 0x9000);
        for (start, state) in starts().zip([2, 3, 4].into_iter().cycle()) {
            assert!(table.insert(start, FROM, Component(1), 2));
            // The block is in the same bucket or in the next.
            assert!(table.insert(start + 16, FROM, Component(2), state));
        }
        for start in starts() {
            let found = [start, start + 16].map(|start| table.get(start).unwrap().component.0);
            assert_eq!(found, [1, 2]);
            assert!(table.remove(start) && table.remove(start + 16) && !table.remove(start));
        }
        table.each(&mut |large| panic!("{large:?} is left"));
    }

    #[test]
    fn where_all_is_another_threads_most_finds_room() {
        let table = table();
        for block in 0..BUCKETS * 2 {
            let start = 0x10_0010 + block * FROM;
            assert!(table.insert(start, FROM, Component(1), 2) && table.remove(start));
        }
        let starts = (0..MOST).map(|block| 0x7f00_0010_0010 + block * FROM);
        let held = starts.filter(|start| table.insert(*start, FROM, Component(1), 3)).count();
        assert!(held > SHARED * BUCKETS * 3 / 4 && held <= SHARED * BUCKETS, "{held}");
    }

    #[test]
    fn threads_do_not_lose_blocks() {
        let table = table();
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let table = &table;
                scope.spawn(move || {
                    for round in 0..200 {
                        let start = |block: usize| 0x10 + (block * 4 + thread) * 0x10000;
                        for block in 0..100 {
                            assert!(table.insert(
                                start(block),
                                FROM + round,
                                Component(1),
                                thread as u32 + 2
                            ));
                        }
                        for block in 0..100 {
                            assert_eq!(table.get(start(block)).unwrap().length, FROM + round);
                            assert!(table.remove(start(block)));
                        }
                    }
                });
            }
        });
        table.each(&mut |large| panic!("{large:?} is left"));
    }
}
