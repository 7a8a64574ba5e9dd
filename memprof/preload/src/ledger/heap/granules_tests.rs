//! Tests with random blocks of many components by several threads, compared with a simple model.

use super::*;
use crate::ledger::heap::ThreadCounters;
use proptest::prelude::*;

fn table() -> &'static Table {
    let memory = pool::map(size_of::<Table>()).cast::<Table>();
    // SAFETY: a zeroed table is an empty one.
    unsafe { &*memory }
}

fn state(number: u32) -> Box<ThreadCounters> {
    Box::new(ThreadCounters::new(number))
}

fn split(table: &Table, start: usize, end: usize) -> (Vec<i64>, i64, bool) {
    let mut into = Split { bytes: [0; LIMIT], rest: 0 };
    let known = table.split(start, end, &mut into);
    (into.bytes.to_vec(), into.rest, known)
}

#[derive(Clone, Debug)]
struct Block {
    start: usize,
    length: usize,
    component: u16,
    by: usize,
    freed_by: usize,
}

/// Returns blocks that do not overlap: each begins at the end of the previous one or later.
fn blocks() -> impl Strategy<Value = Vec<Block>> {
    let length = prop_oneof![4 => 0_usize..300, 4 => 300_usize..12_000, 1 => 12_000_usize..60_000];
    let gap = prop_oneof![3 => Just(0_usize), 1 => 0_usize..300, 1 => 0_usize..9000];
    let block = (gap, length, 0_u16..40, 0_usize..3, 0_usize..3);
    prop::collection::vec(block, 1..120).prop_map(|blocks| {
        // The range crosses the boundary of a region.
        let mut at = (5 << REGION_SHIFT) - 150_000;
        let mut all = Vec::new();
        for (gap, length, component, by, freed_by) in blocks {
            let start = (at + gap).next_multiple_of(16);
            at = start + length + 8;
            all.push(Block { start, length, component, by, freed_by });
        }
        all
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    #[test]
    fn every_page_knows_what_lives_in_it(blocks in blocks(), kept in 0_usize..50) {
        let table = table();
        let states = [state(1), state(2), state(3)];
        let (low, high) = ((4 << REGION_SHIFT) + (3 << 20), (5 << REGION_SHIFT) + (3 << 20));
        let mut model = vec![[0_i64; LIMIT]; (high - low) >> PAGE_SHIFT];
        let change = |model: &mut [[i64; LIMIT]], block: &Block, by: usize, sign: i32| {
            let component = Component(block.component);
            // The current component of the thread varies, and with it the component that belongs in
            // the first slot.
            let current = u32::from(block.component) - u32::from(block.component > 20);
            states[by].current.component.store(current, Relaxed);
            table.change(&states[by], block.start, block.length, component, sign);
            for address in block.start..block.start + block.length {
                let page = (address - low) >> PAGE_SHIFT;
                model[page][usize::from(block.component)] += i64::from(sign);
            }
        };
        for block in &blocks {
            change(&mut model, block, block.by, 1);
        }
        for block in blocks.iter().skip(kept) {
            change(&mut model, block, block.freed_by, -1);
        }
        for (page, expected) in model.iter().enumerate().filter(|(_, page)| page.iter().any(|bytes| *bytes != 0)) {
            let start = low + (page << PAGE_SHIFT);
            let (bytes, rest, _) = split(table, start, start + (1 << PAGE_SHIFT));
            prop_assert_eq!(rest, 0);
            prop_assert_eq!(&bytes[..], &expected[..]);
        }
        // Pages without a block are known too.
        let mut wrong = Vec::new();
        table.live(low, high, &mut |start, end, live| {
            let pages = &model[(start - low) >> PAGE_SHIFT..(end - low) >> PAGE_SHIFT];
            let expected: i64 = pages.iter().flatten().sum();
            if (live == 0) != (expected == 0) {
                wrong.push((start, end, live, expected));
            }
        });
        prop_assert!(wrong.is_empty(), "{wrong:x?}");
        // The sum over many pages equals the sums of the single pages.
        let middle = low + (high - low) / 2 / 4096 * 4096;
        for (start, end) in [(low, middle), (middle, high), (low, high)] {
            let pages = &model[(start - low) >> PAGE_SHIFT..(end - low) >> PAGE_SHIFT];
            let sums: Vec<i64> = (0..LIMIT).map(|of| pages.iter().map(|page| page[of]).sum()).collect();
            prop_assert_eq!(split(table, start, end).0, sums);
        }
        for block in blocks.iter().take(kept) {
            change(&mut model, block, block.freed_by, -1);
        }
        let (bytes, rest, _) = split(table, low, high);
        prop_assert!(bytes.iter().all(|bytes| *bytes == 0) && rest == 0);
    }
}

#[test]
fn threads_at_one_page_leave_nothing_behind() {
    let table = table();
    let page = 9 << REGION_SHIFT;
    table.change(&state(1), page, 1, Component(1), 1);
    std::thread::scope(|scope| {
        for number in 1..5_u32 {
            scope.spawn(move || {
                let state = state(number);
                for round in 0..30_000_usize {
                    let component = Component((round % 23) as u16);
                    table.change(&state, page + 16, 100, component, 1);
                    // Another thread frees what this one recorded, and vice versa.
                    table.change(&state, page + 16, 100, Component((round * 7 % 23) as u16), -1);
                }
                for round in 0..30_000_usize {
                    table.change(&state, page + 16, 100, Component((round * 7 % 23) as u16), 1);
                    table.change(&state, page + 16, 100, Component((round % 23) as u16), -1);
                }
            });
        }
    });
    table.change(&state(2), page, 1, Component(1), -1);
    let (bytes, rest, known) = split(table, page, page + 4096);
    assert!(known && rest == 0 && bytes.iter().all(|bytes| *bytes == 0), "{bytes:?} {rest}");
}

#[test]
fn stream_between_two_threads_does_not_overflow() {
    let table = table();
    let (owner, other) = (state(1), state(2));
    let page = 7 << REGION_SHIFT;
    for _ in 0..20_000 {
        table.change(&owner, page, 4000, Component(3), 1);
        table.change(&other, page, 4000, Component(3), -1);
    }
    assert_eq!(split(table, page, page + 4096).0[3], 0);
}

#[test]
fn bytes_beyond_one_slot_are_noted_all_the_same() {
    let table = table();
    let state = state(1);
    let page = 11 << REGION_SHIFT;
    let full = usize::try_from(near::MOST).unwrap();
    for (component, sign) in [(1, 1), (2, 1), (2, -1), (1, -1)] {
        // The same bytes repeatedly: these are not blocks, but each change counts.
        for _ in 0..2 * full / 4000 {
            table.change(&state, page, 4000, Component(component), sign);
        }
        let bytes = split(table, page, page + 4096).0;
        let held = (2 * full / 4000 * 4000) as i64;
        let (first, second) = match (component, sign) {
            (1, 1) | (2, -1) => (held, 0),
            (2, _) => (held, held),
            _ => (0, 0),
        };
        assert_eq!((bytes[1], bytes[2]), (first, second));
    }
}

#[test]
fn later_leaves_are_coarser_and_spread_evenly() {
    let table = table();
    let state = state(1);
    for region in 1..=KINDS[0].0 + 1 {
        table.change(&state, region << REGION_SHIFT, 1600, Component(2), 1);
    }
    let last = (KINDS[0].0 + 1) << REGION_SHIFT;
    assert_eq!(split(table, last, last + 4096).0[2], 100);
    assert_eq!(split(table, last, last + (64 << 10)).0[2], 1600);
    assert!(!split(table, last + (4 << 20), last + (8 << 20)).2);
}
