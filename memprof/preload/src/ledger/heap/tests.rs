//! Tests of the ledger of this test process: blocks of the tests go through the same functions that
//! programs call by name.

use super::*;
use crate::base::thread::Guard;
use proptest::prelude::*;

/// Returns the ledger of a component that no other test uses, so that tests can run in parallel.
fn ledger(component: u16) -> Ledger {
    let mut all = [Ledger::default(); LIMIT];
    snapshot(&mut all);
    all[usize::from(component)]
}

fn at_home<R>(component: u16, work: impl FnOnce() -> R) -> R {
    let before = crate::base::thread::local().home.replace(Component(component));
    let result = work();
    crate::base::thread::local().home.set(before);
    result
}

/// Waits until the real allocator is known, from when on blocks are in the ledger. In programs the
/// only thread looks it up at startup; tests start in parallel.
fn settle() {
    while !next_allocator::settled() {
        std::thread::yield_now();
    }
}

fn malloc(size: usize) -> *mut u8 {
    settle();
    // SAFETY: no precondition.
    unsafe { calls::malloc(size, 0, 0) }
}

/// Code address in an object that owns its allocations, as this thread has cached it.
const CALLER: usize = 0x1234;

/// Allocates on the fast path, as the object does that called this thread last.
fn malloc_quickly(size: usize, component: u16) -> *mut u8 {
    settle();
    let local = crate::base::thread::local();
    if !crate::owners::is_same_caller(local, CALLER)
        || local.object_component.get() != Component(component)
    {
        // A lookup stores the current version of the table.
        crate::owners::caller(malloc_quickly as *const () as usize);
        local.object_low.set(0x1000);
        local.object_length.set(0x1000);
        local.object_component.set(Component(component));
        account::work_for_caller(local);
    }
    let frame = CALLER;
    // SAFETY: no precondition.
    unsafe { calls::malloc(size, CALLER, &raw const frame as usize) }
}

fn free(block: *mut u8) {
    // SAFETY: tests free what they allocated, once.
    unsafe { calls::free(block, 0, 0) }
}

#[derive(Clone, Debug)]
enum Step {
    Malloc(usize),
    Quick(usize),
    Calloc(usize, usize),
    Realloc(usize, usize),
    Aligned(u32, usize),
    Free(usize),
    Give(usize, u16),
    Impossible(usize),
}

fn step() -> impl Strategy<Value = Step> {
    let size = prop_oneof![8 => 0_usize..300, 4 => 300_usize..9000, 1 => 9000_usize..400_000];
    prop_oneof![
        2 => size.clone().prop_map(Step::Malloc),
        4 => size.clone().prop_map(Step::Quick),
        1 => (0_usize..40, 0_usize..200).prop_map(|(count, each)| Step::Calloc(count, each)),
        2 => (any::<usize>(), size.clone()).prop_map(|(which, size)| Step::Realloc(which, size)),
        1 => (4_u32..14, size).prop_map(|(shift, size)| Step::Aligned(shift, size)),
        4 => any::<usize>().prop_map(Step::Free),
        1 => (any::<usize>(), 0_u16..2).prop_map(|(which, to)| Step::Give(which, to)),
        1 => any::<usize>().prop_map(Step::Impossible),
    ]
}

/// Runs the steps with two separate components, and checks the ledger after each.
fn run(steps: &[Step], first: u16) {
    let mut blocks: Vec<(*mut u8, usize, u16)> = Vec::new();
    let mut expected = [ledger(first), ledger(first + 1)];
    for step in steps {
        match *step {
            Step::Malloc(size) => {
                blocks.push((malloc(size), size, 0));
                grow(&mut expected[0], size);
            }
            Step::Quick(size) => {
                blocks.push((malloc_quickly(size, first), size, 0));
                grow(&mut expected[0], size);
            }
            Step::Calloc(count, each) => {
                // SAFETY: no precondition.
                let block = unsafe { calls::calloc(count, each, 0, 0) };
                // SAFETY: the block has as many bytes.
                let zero = (0..count * each).all(|at| unsafe { block.add(at).read() } == 0);
                assert!(zero);
                blocks.push((block, count * each, 0));
                grow(&mut expected[0], count * each);
            }
            Step::Aligned(shift, size) => {
                // SAFETY: no precondition.
                let block = unsafe { calls::memalign(1 << shift, size, 0, 0) };
                assert_eq!(block as usize % (1 << shift), 0);
                blocks.push((block, size, 0));
                grow(&mut expected[0], size);
            }
            Step::Realloc(which, size) if !blocks.is_empty() => {
                let which = which % blocks.len();
                let (block, before, owner) = blocks.swap_remove(which);
                // SAFETY: the block is live.
                let after = unsafe { calls::realloc(block, size, 0, 0) };
                shrink(&mut expected[usize::from(owner)], before);
                if size > 0 {
                    blocks.push((after, size, 0));
                    grow(&mut expected[0], size);
                }
            }
            Step::Free(which) if !blocks.is_empty() => {
                let (block, size, owner) = blocks.swap_remove(which % blocks.len());
                free(block);
                shrink(&mut expected[usize::from(owner)], size);
            }
            Step::Give(which, to) if !blocks.is_empty() => {
                let which = which % blocks.len();
                let (block, size, owner) = &mut blocks[which];
                assert!(give(*block, Component(first + to)));
                expected[usize::from(*owner)].owned -= *size as u64;
                expected[usize::from(to)].owned += *size as u64;
                let peak = &mut expected[usize::from(to)];
                peak.peak = peak.peak.max(peak.owned);
                *owner = to;
            }
            Step::Impossible(which) => {
                let size = usize::MAX - which % 4096;
                assert!(malloc(size).is_null());
                // SAFETY: no precondition; a failed reallocation leaves the block as it is.
                unsafe {
                    assert!(calls::calloc(size, 2, 0, 0).is_null());
                    assert!(calls::memalign(64, size, 0, 0).is_null());
                    if let Some((block, ..)) = blocks.first() {
                        assert!(calls::realloc(*block, size, 0, 0).is_null());
                    }
                }
            }
            _ => {}
        }
        for (block, size, owner) in &blocks {
            assert_eq!(blocks::owner_and_size(*block), Some((Component(first + owner), *size)));
            // SAFETY: the block is live.
            assert!(unsafe { calls::malloc_usable_size(*block, 0, 0) } >= *size);
            // SAFETY: all usable bytes are the program's.
            unsafe { block.write_bytes(0xa5, calls::malloc_usable_size(*block, 0, 0)) };
        }
        assert_eq!([ledger(first), ledger(first + 1)], expected);
    }
    for (block, size, owner) in blocks {
        free(block);
        shrink(&mut expected[usize::from(owner)], size);
    }
    assert_eq!([ledger(first), ledger(first + 1)], expected);
}

fn grow(ledger: &mut Ledger, size: usize) {
    ledger.owned += size as u64;
    ledger.peak = ledger.peak.max(ledger.owned);
    ledger.allocations += 1;
    ledger.allocated_total += size as u64;
}

fn shrink(ledger: &mut Ledger, size: usize) {
    ledger.owned -= size as u64;
    ledger.frees += 1;
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]
    #[test]
    fn the_ledger_is_exact_after_every_step(steps in prop::collection::vec(step(), 1..120)) {
        at_home(200, || run(&steps, 200));
    }
}

#[test]
fn blocks_freed_by_other_threads_leave_the_right_ledger() {
    let (to, from) = std::sync::mpsc::sync_channel::<(usize, usize)>(64);
    std::thread::scope(|scope| {
        for seed in 0..3_usize {
            let to = to.clone();
            scope.spawn(move || {
                crate::base::thread::local().home.set(Component(210 + seed as u16));
                for round in 0..20_000 {
                    let size = (round * 7919 + seed) % 5000;
                    let block = match round % 2 {
                        0 => malloc(size),
                        _ => malloc_quickly(size, 210 + seed as u16),
                    };
                    to.send((block as usize, size)).unwrap();
                }
            });
        }
        drop(to);
        scope.spawn(move || {
            for (block, _) in from {
                free(block as *mut u8);
            }
        });
    });
    for component in 210..213 {
        let ledger = ledger(component);
        assert_eq!((ledger.owned, ledger.allocations, ledger.frees), (0, 20_000, 20_000));
    }
}

#[test]
fn what_a_thread_leaves_behind_stays_in_the_ledger() {
    let blocks: Vec<usize> = (0..50)
        .map(|_| {
            std::thread::spawn(|| {
                crate::base::thread::local().home.set(Component(220));
                malloc(1000) as usize
            })
            .join()
            .unwrap()
        })
        .collect();
    assert_eq!(ledger(220).owned, 50_000);
    // Threads that run one after another take over the counters of earlier ones.
    assert!(thread_counters::each().count() < 40);
    blocks.into_iter().for_each(|block| free(block as *mut u8));
    assert_eq!(ledger(220).owned, 0);
}

#[test]
fn the_tool_pays_for_itself() {
    let before = ledger(Component::TOOL.0).allocations;
    let guard = Guard::enter();
    let block = malloc(12_345);
    assert_eq!(blocks::owner_and_size(block), Some((Component::TOOL, 12_345)));
    drop(guard);
    assert!(ledger(Component::TOOL.0).allocations > before);
    free(block);
}

#[test]
fn blocks_from_elsewhere_pass_through() {
    let real = next_allocator::malloc().unwrap();
    // SAFETY: blocks of the real allocator.
    unsafe {
        let block = real(100);
        block.write_bytes(0xff, next_allocator::usable().unwrap()(block));
        assert_eq!(blocks::owner_and_size(block), None);
        assert_eq!(
            calls::malloc_usable_size(block, 0, 0),
            next_allocator::usable().unwrap()(block)
        );
        let block = at_home(225, || calls::realloc(block, 5000, 0, 0));
        assert_eq!(block.read(), 0xff);
        assert_eq!(blocks::owner_and_size(block), Some((Component(225), 5000)));
        free(block);
        free(real(64));
    }
    assert!(!give(core::ptr::null(), Component(225)));
    assert_eq!(ledger(225).owned, 0);
}

#[test]
fn errors_are_the_allocator_s_and_success_leaves_errno_alone() {
    use std::io::Error;
    crate::base::arch::Errno::set(0);
    assert!(malloc(usize::MAX).is_null());
    assert_eq!(Error::last_os_error().raw_os_error(), Some(libc::ENOMEM));
    crate::base::arch::Errno::set(77);
    std::hint::black_box(malloc(100_000)).cast::<u8>();
    // SAFETY: no precondition.
    unsafe {
        let mut block = core::ptr::null_mut();
        assert_eq!(calls::posix_memalign(&mut block, 3, 10, 0, 0), libc::EINVAL);
        assert!(block.is_null());
        assert_eq!(calls::posix_memalign(&mut block, 256, 10, 0, 0), 0);
        assert_eq!(block as usize % 256, 0);
        free(block);
    }
    assert_eq!(Error::last_os_error().raw_os_error(), Some(77));
    // SAFETY: no precondition.
    unsafe {
        assert!(calls::reallocarray(core::ptr::null_mut(), usize::MAX / 2, 3, 0, 0).is_null());
        let paged = at_home(226, || calls::pvalloc(5000, 0, 0));
        assert_eq!(ledger(226).owned, 8192);
        free(paged);
        assert!(calls::pvalloc(usize::MAX - 5, 0, 0).is_null());
    }
}

#[test]
fn blocks_with_much_slack_count_the_same_when_freed() {
    at_home(227, || {
        let before = ledger(227).owned;
        for shift in [20, 21, 22, 23, 24] {
            // SAFETY: no precondition.
            let block = unsafe { calls::memalign(1 << shift, 64, 0, 0) };
            assert_eq!(block as usize % (1 << shift), 0);
            free(block);
            assert_eq!(ledger(227).owned, before, "an alignment of {}", 1 << shift);
        }
    });
}

#[test]
fn phases_have_peaks_of_their_own() {
    at_home(230, || {
        let mut peaks = [0; LIMIT];
        let base = malloc(1_000_000);
        peaks_begin();
        free(malloc(10_000));
        peaks_begin();
        let inner = malloc(500_000);
        peaks_end(&mut peaks);
        assert_eq!(peaks[230], 1_500_000);
        free(inner);
        free(malloc(20_000));
        peaks_end(&mut peaks);
        assert_eq!(peaks[230], 1_500_000, "the inner one counts for the outer");
        peaks_begin();
        peaks_end(&mut peaks);
        assert_eq!(peaks[230], 1_000_000, "starts at what is owned");
        free(base);
    });
}

#[test]
fn small_blocks_are_found_by_page_large_by_address() {
    at_home(235, || {
        let large = malloc(1 << 20);
        let mut found = None;
        each_large(&mut |start, length, component| {
            if start == large as usize {
                found = Some((length, component));
            }
        });
        assert_eq!(found, Some((1 << 20, Component(235))));
        free(large);
        each_large(&mut |start, _, component| {
            assert!(start != large as usize || component != Component(235));
        });

        let small: Vec<*mut u8> = (0..400).map(|_| malloc(1000)).collect();
        let pages = |block: *mut u8| (block as usize & !4095, (block as usize + 5096) & !4095);
        let low = small.iter().map(|block| pages(*block).0).min().unwrap();
        let high = small.iter().map(|block| pages(*block).1).max().unwrap();
        let of = |low, high| {
            let mut bytes = 0;
            assert!(share(low, high, &mut |component, more| {
                if component == Component(235) {
                    bytes += more;
                }
            }));
            bytes
        };
        // The pages may be of more than one region of the allocator, with nothing known between.
        if high - low < 1 << 20 && knows(low) && knows(high) {
            assert_eq!(of(low, high), 400_000);
        }
        small.into_iter().for_each(free);
    });
}

#[test]
fn block_in_a_region_without_beginnings_is_counted() {
    let edge = 0x2345_6700_0000_usize;
    let (start, length, owner) = (edge - 1000, 5000, Component(233));
    let beyond = || {
        let mut shares = Vec::new();
        let known =
            share(edge, edge + 4096, &mut |component, bytes| shares.push((component, bytes)));
        (known, shares)
    };
    let state = ThreadCounters::new(77);
    GRANULES.change(&state, start, length, owner, 1);
    assert_eq!(beyond(), (true, vec![(owner, 4000)]));
    GRANULES.change(&state, start, length, owner, -1);
    assert_eq!(beyond(), (false, vec![]));
}

/// Returns the bytes of live blocks by page, computed from their addresses and sizes.
fn by_page(blocks: &[(*mut u8, usize)]) -> std::collections::BTreeMap<usize, u64> {
    let mut pages = std::collections::BTreeMap::new();
    for (block, size) in blocks {
        let (mut at, end) = (*block as usize, *block as usize + size);
        while at < end {
            let next = ((at >> 12) + 1) << 12;
            *pages.entry(at >> 12).or_default() += (next.min(end) - at) as u64;
            at = next;
        }
    }
    pages
}

#[test]
fn fast_path_blocks_are_in_their_pages_to_the_byte() {
    const OWN: u16 = 245;
    let of = |page: usize| {
        let mut bytes = 0;
        share(page << 12, (page + 1) << 12, &mut |component, more| {
            bytes += if component == Component(OWN) { more } else { 0 };
        });
        bytes
    };
    let work = move || {
        let mut live: Vec<(*mut u8, usize)> = Vec::new();
        let mut seen = std::collections::BTreeSet::new();
        // Some blocks end before a page boundary and have their tags after it. How many depends on
        // the arena of this thread.
        let (mut parted, mut random) = (0, 1_usize);
        for round in 0..120_000_usize {
            if round > 12_000 && parted > 5 {
                break;
            }
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let size = (random >> 33) % if round % 7 == 0 { 20_000 } else { 700 };
            if live.len() == 300 {
                free(live.swap_remove((random >> 45) % 300).0);
            }
            let block = malloc_quickly(size, OWN);
            // SAFETY: the block is live.
            let tag = block as usize + unsafe { next_allocator::room_for_tag(block) } - tag::SIZE;
            parted += usize::from(tag.is_multiple_of(4096) && block as usize + size <= tag);
            live.push((block, size));
            if round % 500 == 0 {
                let expected = by_page(&live);
                seen.extend(expected.keys().copied());
                for page in &seen {
                    let expected = expected.get(page).copied().unwrap_or(0);
                    assert_eq!(of(*page), expected, "in page {page:x} in round {round}");
                }
            }
        }
        assert!(parted > 5, "{parted} blocks of this kind");
        let others = live.split_off(150);
        live.into_iter().for_each(|(block, _)| free(block));
        (others.into_iter().map(|(block, _)| block as usize).collect::<Vec<_>>(), seen)
    };
    let (others, seen) = std::thread::spawn(move || at_home(OWN, work)).join().unwrap();
    others.into_iter().for_each(|block| free(block as *mut u8));
    assert!(seen.into_iter().all(|page| of(page) == 0), "freed by another thread");
}

std::thread_local! {
    /// Number of blocks of this thread that did not take the fast path.
    static GENERAL: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}

/// Counts a block that takes the general path.
pub fn generally() {
    GENERAL.set(GENERAL.get() + 1);
}

#[test]
fn nearly_all_blocks_go_the_quick_way() {
    let work = || {
        let mut live: Vec<*mut u8> = (0..300).map(|_| malloc_quickly(100, 240)).collect();
        let before = GENERAL.get();
        for round in 0..20_000_usize {
            let place = &mut live[round * 31 % 300];
            free(*place);
            *place = malloc_quickly(16 + round * 7919 % 6000, 240);
        }
        let general = GENERAL.get() - before;
        live.into_iter().for_each(free);
        general
    };
    // In memory that no thread of another test used first. The rest are allocations that end a
    // countdown.
    let quick = |_| std::thread::spawn(work).join().unwrap() < 4_000;
    assert!((0..10).any(quick), "more than 4000 of 40000");
}

#[test]
fn large_blocks_go_the_quick_way_to_their_table() {
    const OWN: u16 = 229;
    let work = || {
        let size = |round: usize| large::FROM + round * 7919 % 90_000;
        free(malloc_quickly(100, OWN));
        let state = thread_counters::own(crate::base::thread::local()).expect("it has allocated");
        let mut live: Vec<(*mut u8, usize)> =
            (0..40).map(|round| (malloc_quickly(size(round), OWN), size(round))).collect();
        let (mut made, mut freed) = (0, 0);
        for round in 0..2_000_usize {
            // Far from the next sampled stack.
            account::count_down(state, PendingCounters::FAR);
            let place = &mut live[round * 31 % 40];
            let before = GENERAL.get();
            free(place.0);
            freed += GENERAL.get() - before;
            assert_eq!(super::large(place.0 as usize), None);
            let before = GENERAL.get();
            *place = (malloc_quickly(size(round), OWN), size(round));
            made += GENERAL.get() - before;
        }
        for (block, length) in live {
            let start = block as usize;
            let expected = large::Large { start, length, component: Component(OWN) };
            assert_eq!(super::large(start), Some(expected));
            free(block);
        }
        std::cmp::max(made, freed)
    };
    let quick = |_| std::thread::spawn(move || at_home(OWN, work)).join().unwrap() < 200;
    // As above.
    assert!((0..10).any(quick), "more than 200 of 2000");
    let now = ledger(OWN);
    assert_eq!((now.owned, now.allocations), (0, now.frees));
}
