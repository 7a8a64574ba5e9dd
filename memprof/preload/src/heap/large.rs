//! The table of large blocks, whose residency is told to the page.
//!
//! Buckets of one cache line of addresses each; a block lies in one of a few buckets after the one
//! its address says. Inserting is one compare-and-swap, removing a plain store: only the thread
//! that frees a block removes it. Where there is no room a block is counted like a small one.

use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use core::sync::atomic::{AtomicU64, AtomicUsize};

use crate::component::Component;

/// Blocks from this size on are here.
pub const FROM: usize = 32 * 1024;

const WAYS: usize = 8;
const BUCKETS: usize = 2048;
/// How many buckets a block may lie in.
const NEIGHBOURS: usize = 4;

/// An entry being filled: no block has this address.
const CLAIMED: usize = 1;

const COMPONENT_MASK: u64 = 0xff;
const LENGTH_SHIFT: u32 = 8;

/// What is known of a block.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Large {
    pub start: usize,
    pub length: usize,
    pub component: Component,
}

#[repr(C, align(64))]
struct Bucket {
    starts: [AtomicUsize; WAYS],
    /// Length, and component in the low bits.
    whats: [AtomicU64; WAYS],
}

/// A table; the process has one.
pub struct Table {
    buckets: [Bucket; BUCKETS],
    /// A bit for each bucket that ever held a block: others are not looked at, so that their pages are not
    /// even there.
    used: [AtomicU64; BUCKETS / 64],
}

impl Table {
    pub const fn new() -> Table {
        Table {
            buckets: [const {
                Bucket {
                    starts: [const { AtomicUsize::new(0) }; WAYS],
                    whats: [const { AtomicU64::new(0) }; WAYS],
                }
            }; BUCKETS],
            used: [const { AtomicU64::new(0) }; BUCKETS / 64],
        }
    }

    fn near(&self, start: usize) -> impl Iterator<Item = (usize, &Bucket)> {
        // Neighbours in memory are neighbours here, so that few pages of the table are touched.
        let within = start / FROM;
        let around = ((within / BUCKETS) as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40;
        (0..NEIGHBOURS).map(move |step| {
            let index = (within + around as usize + step) % BUCKETS;
            (index, &self.buckets[index])
        })
    }

    /// False if there is no room.
    pub fn insert(&self, start: usize, length: usize, component: Component) -> bool {
        for (index, bucket) in self.near(start) {
            for (way, word) in bucket.starts.iter().enumerate() {
                if word.load(Relaxed) != 0
                    || word.compare_exchange(0, CLAIMED, AcqRel, Relaxed).is_err()
                {
                    continue;
                }
                let (used, bit) = (&self.used[index / 64], 1 << (index % 64));
                if used.load(Relaxed) & bit == 0 {
                    used.fetch_or(bit, Release);
                }
                let what =
                    (length as u64) << LENGTH_SHIFT | u64::from(component.0) & COMPONENT_MASK;
                bucket.whats[way].store(what, Relaxed);
                word.store(start, Release);
                return true;
            }
        }
        false
    }

    fn find(&self, start: usize) -> Option<(&Bucket, usize)> {
        self.near(start).find_map(|(_, bucket)| {
            let way = bucket.starts.iter().position(|word| word.load(Acquire) == start)?;
            Some((bucket, way))
        })
    }

    /// False if it is not here. Only whoever may free the block.
    pub fn remove(&self, start: usize) -> bool {
        match self.find(start) {
            Some((bucket, way)) => {
                bucket.starts[way].store(0, Release);
                true
            }
            None => false,
        }
    }

    /// The block that starts there.
    pub fn get(&self, start: usize) -> Option<Large> {
        self.find(start).and_then(|(bucket, way)| entry(bucket, way))
    }

    /// Every block, in no order.
    pub fn each(&self, each: &mut dyn FnMut(Large)) {
        for (used, buckets) in self.used.iter().zip(self.buckets.chunks(64)) {
            let mut left = used.load(Acquire);
            while left != 0 {
                let bucket = &buckets[left.trailing_zeros() as usize];
                left &= left - 1;
                for large in (0..WAYS).filter_map(|way| entry(bucket, way)) {
                    each(large);
                }
            }
        }
    }
}

/// None where there is none, or it went while it was read.
fn entry(bucket: &Bucket, way: usize) -> Option<Large> {
    let start = bucket.starts[way].load(Acquire);
    if start <= CLAIMED {
        return None;
    }
    let what = bucket.whats[way].load(Acquire);
    let large = Large {
        start,
        length: (what >> LENGTH_SHIFT) as usize,
        component: Component((what & COMPONENT_MASK) as u16),
    };
    (bucket.starts[way].load(Acquire) == start).then_some(large)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashMap;

    fn table() -> Box<Table> {
        // On a stack that holds it while it moves to the heap.
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
                    prop_assert!(table.insert(start, length, component));
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
    fn blocks_beside_each_other_are_in_few_pages_of_the_table() {
        let table = table();
        for block in 0..40 {
            assert!(table.insert(0x7f12_3456_0010 + block * 0x19000, FROM, Component(1)));
        }
        let words = table.used.iter().map(|bits| bits.load(Relaxed));
        let pages = words.flat_map(|word| [word & u64::from(u32::MAX), word >> 32]);
        let used = pages.filter(|buckets| *buckets != 0).count();
        // 4 MiB in steps of 32 KiB, 32 buckets to a page.
        assert!(used <= 6, "{used}");
    }

    #[test]
    fn a_full_table_says_so_and_goes_on() {
        let table = table();
        let starts: Vec<usize> =
            (0..WAYS * BUCKETS * 2).map(|block| 0x10_0010 + block * FROM).collect();
        let held: Vec<&usize> =
            starts.iter().filter(|start| table.insert(**start, FROM, Component(9))).collect();
        assert!(held.len() > WAYS * BUCKETS * 3 / 4 && held.len() <= WAYS * BUCKETS);
        assert!(held.iter().all(|start| table.remove(**start)));
        table.each(&mut |large| panic!("{large:?} is left"));
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
                            assert!(table.insert(start(block), FROM + round, Component(1)));
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
