//! Table of the address ranges of loaded objects, which hot paths read: sorted, in two copies. A
//! writer fills the copy that is not current, then makes it current. A reader takes no lock, never
//! waits, and tries again if the copy was rewritten during the read.

use core::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering, fence};

use super::Caller;
use crate::base::component::Component;

/// Number of objects that are distinguished; the addresses of others have no owner.
pub const LIMIT: usize = 1024;

/// Address range of one object.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Range {
    pub low: usize,
    /// Exclusive.
    pub high: usize,
    pub component: Component,
    pub neutral: bool,
    pub trampoline: bool,
    pub executable: bool,
}

impl Range {
    /// Returns what the object is as a caller.
    pub fn caller(&self) -> Caller {
        Caller { component: self.component, neutral: self.neutral, trampoline: self.trampoline }
    }
}

struct Slot {
    low: AtomicUsize,
    high: AtomicUsize,
    what: AtomicU32,
}

struct Copy {
    slots: [Slot; LIMIT],
    count: AtomicUsize,
    /// Odd while the copy is being rewritten.
    sequence: AtomicU64,
}

impl Copy {
    const fn new() -> Copy {
        let slots = [const {
            Slot { low: AtomicUsize::new(0), high: AtomicUsize::new(0), what: AtomicU32::new(0) }
        }; LIMIT];
        Copy { slots, count: AtomicUsize::new(0), sequence: AtomicU64::new(0) }
    }
}

pub struct Table {
    copies: [Copy; 2],
    current: AtomicUsize,
}

impl Table {
    pub const fn new() -> Table {
        Table { copies: [Copy::new(), Copy::new()], current: AtomicUsize::new(0) }
    }

    /// Publishes ranges, which are sorted and do not overlap. Only one thread publishes at a time.
    pub fn publish(&self, ranges: &[Range]) {
        let next = 1 - (self.current.load(Ordering::Relaxed) & 1);
        let copy = &self.copies[next];
        let sequence = copy.sequence.load(Ordering::Relaxed);
        copy.sequence.store(sequence.wrapping_add(1), Ordering::Relaxed);
        fence(Ordering::Release);
        let count = ranges.len().min(LIMIT);
        for (slot, range) in copy.slots.iter().zip(ranges) {
            slot.low.store(range.low, Ordering::Relaxed);
            slot.high.store(range.high, Ordering::Relaxed);
            let what = u32::from(range.component.0)
                | u32::from(range.neutral) << 16
                | u32::from(range.executable) << 17
                | u32::from(range.trampoline) << 18;
            slot.what.store(what, Ordering::Relaxed);
        }
        copy.count.store(count, Ordering::Relaxed);
        copy.sequence.store(sequence.wrapping_add(2), Ordering::Release);
        self.current.store(next, Ordering::Release);
    }

    /// Returns the object that the address is in.
    pub fn find(&self, address: usize) -> Option<Range> {
        self.next_above(address).filter(|range| range.low <= address)
    }

    /// Returns the first object that ends above the address.
    pub fn next_above(&self, address: usize) -> Option<Range> {
        // Two rewrites during one read are rare, and more are not worth waiting for.
        for _ in 0..64 {
            let copy = &self.copies[self.current.load(Ordering::Acquire) & 1];
            let sequence = copy.sequence.load(Ordering::Acquire);
            if sequence & 1 == 1 {
                continue;
            }
            let found = copy.next_above(address);
            fence(Ordering::Acquire);
            if copy.sequence.load(Ordering::Relaxed) == sequence {
                return found;
            }
        }
        None
    }
}

impl Copy {
    fn next_above(&self, address: usize) -> Option<Range> {
        let count = self.count.load(Ordering::Relaxed).min(LIMIT);
        let (mut from, mut to) = (0, count);
        while from < to {
            let middle = from.midpoint(to);
            if address < self.slots[middle].high.load(Ordering::Relaxed) {
                to = middle;
            } else {
                from = middle + 1;
            }
        }
        let slot = self.slots[..count].get(from)?;
        let what = slot.what.load(Ordering::Relaxed);
        Some(Range {
            low: slot.low.load(Ordering::Relaxed),
            high: slot.high.load(Ordering::Relaxed),
            component: Component(what as u16),
            neutral: what >> 16 & 1 == 1,
            executable: what >> 17 & 1 == 1,
            trampoline: what >> 18 & 1 == 1,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicBool;

    fn range(index: usize, component: u16) -> Range {
        Range {
            low: 1000 + index * 100,
            high: 1000 + index * 100 + 50,
            component: Component(component),
            neutral: component.is_multiple_of(2),
            executable: index == 0,
            trampoline: index == 1,
        }
    }

    #[test]
    fn addresses_are_found_between_the_ends_of_ranges_only() {
        let table = Box::new(Table::new());
        assert_eq!(table.find(1000), None);
        let ranges: Vec<Range> = (0..7).map(|index| range(index, 20 + index as u16)).collect();
        table.publish(&ranges);
        for (index, range) in ranges.iter().enumerate() {
            assert_eq!(table.find(range.low), Some(*range));
            assert_eq!(table.find(range.high - 1), Some(*range));
            assert_eq!(table.find(range.high), None);
            assert_eq!(table.find(range.low - 1), None, "{index}");
            assert_eq!(table.next_above(range.low - 1), Some(*range));
            assert_eq!(table.next_above(range.high), ranges.get(index + 1).copied());
        }
        table.publish(&ranges[..2]);
        assert_eq!(table.find(ranges[2].low), None);
    }

    #[test]
    fn readers_see_one_table_or_the_next() {
        let table = Box::new(Table::new());
        let stop = AtomicBool::new(false);
        let short: Vec<Range> = (0..40).map(|index| range(index, 17)).collect();
        let long: Vec<Range> = (0..400).map(|index| range(index, 18)).collect();
        table.publish(&short);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for _ in 0..2000 {
                    table.publish(&long);
                    table.publish(&short);
                }
                stop.store(true, Ordering::Relaxed);
            });
            while !stop.load(Ordering::Relaxed) {
                for index in [0, 17, 39] {
                    if let Some(found) = table.find(1000 + index * 100 + 3) {
                        let old = range(index, 17);
                        let new = range(index, 18);
                        assert!(found == old || found == new, "{found:?}");
                    }
                }
            }
        });
    }
}
