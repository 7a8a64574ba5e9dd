//! The profiler's counters of large blocks in flight: a reader that misses a block in the table and
//! finds its pages touched learns of its bytes, in every interleaving.

#[path = "../../../memprof/preload/src/ledger/heap/in_flight.rs"]
#[allow(dead_code)] // The profiler uses more of it than the models do.
mod protocol;

use loom::sync::Arc;
use loom::sync::atomic::AtomicUsize;
use loom::sync::atomic::Ordering::{Acquire, Release};
use loom::thread;

use protocol::*;

const SIZE: usize = FROM;
const ABSENT: usize = 0;
const PRESENT: usize = 1;

/// The table of one block, the block's first page, and the counters of one owner.
struct Memory {
    table: AtomicUsize,
    page: AtomicUsize,
    counters: InFlight<1>,
}

impl Memory {
    fn new(block: usize) -> Arc<Self> {
        let word = || AtomicUsize::new(block);
        Arc::new(Self { table: word(), page: word(), counters: InFlight::new() })
    }

    /// Reads as the sampler does. Returns table, page, and the bytes that may be missed, of blocks
    /// that moved or were in `free`.
    fn sample(&self) -> (usize, usize, u64) {
        let mut before = Before::new();
        self.counters.before(&mut before);
        let table = self.table.load(Acquire);
        self.counters.tables_read(&mut before);
        let page = self.page.load(Acquire);
        let mut missed = before.leaving()[0];
        self.counters.missed(&before, &mut |_, bytes| missed += bytes);
        (table, page, missed)
    }

    fn expect_block_or_bytes(&self) {
        let (table, page, missed) = self.sample();
        assert!(table == PRESENT || page == ABSENT || missed >= SIZE as u64);
    }
}

#[test]
fn a_touched_block_absent_from_the_table_is_counted() {
    loom::model(|| {
        let memory = Memory::new(ABSENT);
        let program = Arc::clone(&memory);
        let allocates = thread::spawn(move || {
            program.table.store(PRESENT, Release);
            program.counters.entered(0, SIZE);
            program.page.store(PRESENT, Release);
        });
        memory.expect_block_or_bytes();
        allocates.join().unwrap();
        assert_eq!(memory.sample(), (PRESENT, PRESENT, 0));
    });
}

#[test]
fn a_block_out_of_the_table_in_realloc_is_counted() {
    loom::model(|| {
        let memory = Memory::new(PRESENT);
        let program = Arc::clone(&memory);
        let moves = thread::spawn(move || {
            program.counters.leaves(0, SIZE);
            program.table.store(ABSENT, Release);
            program.table.store(PRESENT, Release);
            program.counters.entered(0, SIZE);
            program.counters.entered_again(0, SIZE);
        });
        memory.expect_block_or_bytes();
        moves.join().unwrap();
        assert_eq!(memory.sample(), (PRESENT, PRESENT, 0));
    });
}

#[test]
fn a_block_in_free_is_counted_until_its_page_goes() {
    loom::model(|| {
        let memory = Memory::new(PRESENT);
        let program = Arc::clone(&memory);
        let frees = thread::spawn(move || {
            program.counters.frees(0, SIZE);
            program.table.store(ABSENT, Release);
            program.page.store(ABSENT, Release);
            program.counters.freed(0, SIZE);
        });
        memory.expect_block_or_bytes();
        frees.join().unwrap();
        assert_eq!(memory.sample(), (ABSENT, ABSENT, 0));
    });
}

#[test]
fn bytes_in_free_never_exceed_those_of_blocks_freed_meanwhile() {
    loom::model(|| {
        let memory = Memory::new(PRESENT);
        let program = Arc::clone(&memory);
        let frees = thread::spawn(move || {
            program.counters.frees(0, SIZE);
            program.table.store(ABSENT, Release);
            program.page.store(ABSENT, Release);
            program.counters.freed(0, SIZE);
        });
        // Counters loaded in the wrong order would wrap around.
        let (_, _, missed) = memory.sample();
        assert!(missed <= SIZE as u64);
        frees.join().unwrap();
    });
}
