//! Rows that found no room in tables of fixed size: counted for each table, and reported once.
//!
//! Counting is one addition, so that it is possible under locks and inside the allocator; the next
//! sample reports the numbers.

use core::sync::atomic::{AtomicU32, Ordering};

use memprof_trace::layout::lost;

use crate::base::diagnostics::{self, Code};

/// A table, by its position in the summary.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
#[repr(usize)]
pub enum Table {
    Objects = lost::OBJECTS,
    Segments = lost::SEGMENTS,
    Sites = lost::SITES,
    Blocks = lost::BLOCKS,
    Granules = lost::GRANULES,
    Ranges = lost::RANGES,
    Threads = lost::THREADS,
    Handles = lost::HANDLES,
}

const TABLES: [(Table, &str); 8] = [
    (
        Table::Objects,
        "more loaded objects than can be told apart: what further ones have is nobody's",
    ),
    (
        Table::Segments,
        "more mapped files than can be told apart: a node counts further ones for each rank",
    ),
    (
        Table::Sites,
        "more sampled blocks alive than can be kept: call stacks have less than there is",
    ),
    (
        Table::Blocks,
        "more large blocks than can be kept apart: pages of further ones count as slack",
    ),
    (
        Table::Granules,
        "small blocks in more places than can be kept apart: pages of further ones count as slack",
    ),
    (Table::Ranges, "more mappings than can be kept apart: some have no owner"),
    (Table::Threads, "more threads begin at once than can be told apart: some have no home"),
    (
        Table::Handles,
        "more MPI objects or blocks on GPUs alive, or places that make them, than can be kept apart",
    ),
];

const PLACES: usize = 10;

static LOST: [AtomicU32; PLACES] = [const { AtomicU32::new(0) }; PLACES];

/// Counts one row.
pub fn add(table: Table) {
    let place = &LOST[table as usize];
    // Does not exceed the maximum; one missed count there does not matter.
    if place.load(Ordering::Relaxed) < u32::MAX {
        place.fetch_add(1, Ordering::Relaxed);
    }
}

/// Sets a count to at least `count`.
pub fn at_least(table: Table, count: u64) {
    LOST[table as usize].fetch_max(count.min(u32::MAX.into()) as u32, Ordering::Relaxed);
}

/// Returns the numbers for the summary, and reports all that are not zero.
pub fn all() -> [u32; PLACES] {
    let numbers = core::array::from_fn(|place| LOST[place].load(Ordering::Relaxed));
    for (_, text) in TABLES.iter().filter(|(table, _)| numbers[*table as usize] > 0) {
        diagnostics::say(Code::TableFull, format_args!("{text}"));
    }
    numbers
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_as_long_as_a_note_may_be() {
        assert!(TABLES.iter().all(|(_, text)| text.len() <= diagnostics::LENGTH));
    }

    #[test]
    fn losses_are_counted_by_table() {
        let before = all();
        add(Table::Threads);
        at_least(Table::Ranges, 7);
        let after = all();
        assert_eq!(after[lost::THREADS], before[lost::THREADS] + 1);
        assert!(after[lost::RANGES] >= 7);
        let mut said = 0;
        diagnostics::each(0, &mut |_, code, _| said += u32::from(code == Code::TableFull as u16));
        assert!(said >= 2, "each is said");
    }
}
