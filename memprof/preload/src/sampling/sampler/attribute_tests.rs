//! Tests that every byte has one owner, whatever is known.

use proptest::prelude::*;

use super::*;

const PAGE: usize = 4096;

/// Owners as plain lists, and small blocks as bytes at addresses.
#[derive(Clone, Debug, Default)]
struct Model {
    tools: Vec<Span>,
    blocks: Vec<Span>,
    ranges: Vec<Span>,
    objects: Vec<Span>,
    asked: Vec<Span>,
    small: Vec<(usize, u64, Component)>,
    freed: Vec<Span>,
}

fn next(spans: &[Span], address: usize) -> Option<Span> {
    spans.iter().copied().filter(|span| span.end > address).min_by_key(|span| span.end)
}

impl World for Model {
    fn tool(&self, address: usize) -> Option<Span> {
        next(&self.tools, address)
    }

    fn block(&self, address: usize) -> Option<Span> {
        next(&self.blocks, address)
    }

    fn range(&self, address: usize) -> Option<Span> {
        next(&self.ranges, address)
    }

    fn asked(&self, address: usize) -> Option<Span> {
        next(&self.asked, address)
    }

    fn object(&self, address: usize) -> Option<Span> {
        next(&self.objects, address)
    }

    fn freed(&self, start: usize, end: usize, each: &mut dyn FnMut(Component, u64)) {
        for span in &self.freed {
            let (from, to) = (start.max(span.start), end.min(span.end));
            if from < to {
                each(span.owner, (to - from) as u64);
            }
        }
    }

    fn share(&self, start: usize, end: usize, each: &mut dyn FnMut(Component, u64)) -> Option<u64> {
        let mut any = None;
        for &(address, bytes, owner) in &self.small {
            if (start..end).contains(&address) {
                each(owner, bytes);
                any = Some(0);
            }
        }
        any
    }

    fn live(&self, start: usize, end: usize, each: &mut dyn FnMut(usize, usize, u64)) {
        for page in (start..end).step_by(PAGE) {
            let here = |(address, _, _): &&(usize, u64, Component)| *address / PAGE == page / PAGE;
            each(page, page + PAGE, self.small.iter().filter(here).map(|small| small.1).sum());
        }
    }

    fn heap(&self, start: usize) -> Option<HeapHead> {
        Some(HeapHead { arena: start + 48, before: 0 })
    }

    fn is_mpi(&self, component: Component) -> bool {
        component.0 == 20
    }

    fn was_block(&self, start: usize, end: usize) -> bool {
        self.freed.iter().any(|span| span.start < end && start < span.end)
    }
}

fn spans(limit: usize, exact: bool) -> impl Strategy<Value = Vec<Span>> {
    proptest::collection::vec((1..40_usize, 1..40_usize, 16..24_u16, 0..4096_usize), 0..8).prop_map(
        move |pieces| {
            let mut at = 0;
            let mut spans = Vec::new();
            for (gap, length, owner, odd) in pieces {
                let start = (at + gap) * PAGE + if exact { odd / 16 * 16 } else { 0 };
                let end = (at + gap + length) * PAGE + if exact { odd / 3 } else { 0 };
                if end < limit && spans.last().is_none_or(|last: &Span| last.end <= start) {
                    spans.push(Span { start, end, owner: Component(owner) });
                }
                at += gap + length;
            }
            spans
        },
    )
}

const LIMIT_PAGES: usize = 600;

fn model() -> impl Strategy<Value = Model> {
    let limit = LIMIT_PAGES * PAGE;
    let small = proptest::collection::vec((0..limit, 1..30_000_u64, 16..60_u16), 0..60);
    let plain = || spans(limit, false);
    (plain(), spans(limit, true), plain(), plain(), small, plain(), plain()).prop_map(
        |(tools, blocks, ranges, objects, small, freed, asked)| Model {
            freed,
            asked,
            tools,
            blocks,
            ranges,
            objects,
            small: small
                .into_iter()
                .map(|(at, bytes, owner)| (at, bytes, Component(owner)))
                .collect(),
        },
    )
}

fn backings() -> impl Strategy<Value = Backing> {
    prop_oneof![
        4 => Just(Backing::Anonymous),
        1 => Just(Backing::Heap),
        1 => Just(Backing::Stack),
        1 => Just(Backing::Kernel),
        1 => Just(Backing::File),
        1 => Just(Backing::SharedFile),
        1 => Just(Backing::SharedMemory),
        1 => Just(Backing::MpiMemory),
        1 => Just(Backing::MpiWindow),
    ]
}

/// Returns mappings in ascending order of address, each with its runs of pages.
fn mappings() -> impl Strategy<Value = Vec<(Mapping, Vec<Run>)>> {
    let run = (0..9_usize, 1..30_usize, any::<bool>(), any::<bool>(), any::<bool>());
    let mapping = (backings(), any::<bool>(), 0..20_usize, proptest::collection::vec(run, 0..6));
    proptest::collection::vec(mapping, 1..8).prop_map(|list| {
        let mut at = PAGE;
        list.into_iter()
            .map(|(backing, hugetlb, gap, pieces)| {
                let start = at;
                let mut runs = Vec::new();
                for (gap, length, present, shared, huge) in pieces {
                    at += gap * PAGE;
                    runs.push(Run::new(at, at + length * PAGE, present, shared, huge));
                    at += length * PAGE;
                }
                at += PAGE;
                let mapping = Mapping { start, end: at, backing, hugetlb };
                at += gap * PAGE;
                (mapping, runs)
            })
            .collect()
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]
    #[test]
    fn the_sum_over_all_is_what_was_walked(world in model(), mappings in mappings()) {
        let mut totals = Box::new(Totals::new());
        let mut walker = Walker::new(&world, Component(30), &mut totals);
        let (mut present, mut swapped, mut shared, mut huge, mut hugetlb) = (0, 0, 0, 0, 0);
        for (mapping, runs) in &mappings {
            for run in runs {
                let length = run.end - run.start;
                if run.is_present() {
                    present += length;
                    shared += if run.is_shared() { length } else { 0 };
                    huge += if run.is_huge() { length } else { 0 };
                    hugetlb += if mapping.hugetlb { length } else { 0 };
                } else {
                    swapped += length;
                }
                walker.run(mapping, run);
            }
            walker.end(mapping);
        }
        let sum = |what: fn(&Share) -> u64| totals.components.iter().map(what).sum::<u64>();
        prop_assert_eq!(sum(|share| share.resident), present);
        prop_assert_eq!(sum(|share| share.swapped), swapped);
        prop_assert_eq!(sum(|share| share.shared), shared);
        prop_assert_eq!(sum(|share| share.huge), huge);
        prop_assert_eq!(totals.hugetlb, hugetlb);
        for share in &totals.components {
            prop_assert!(share.shared <= share.resident && share.huge <= share.resident);
        }
    }
}

fn walk(world: &Model, backing: Backing, pages: core::ops::Range<usize>) -> Box<Totals> {
    let mut totals = Box::new(Totals::new());
    let mut walker = Walker::new(world, Component(30), &mut totals);
    let mapping =
        Mapping { start: pages.start * PAGE, end: pages.end * PAGE, backing, hugetlb: false };
    walker.run(&mapping, &Run::new(mapping.start, mapping.end, true, false, false));
    walker.end(&mapping);
    totals
}

fn resident(totals: &Totals, owner: u16) -> u64 {
    totals.components[usize::from(owner)].resident
}

fn span(start: usize, end: usize, owner: u16) -> Span {
    Span { start, end, owner: Component(owner) }
}

#[test]
fn large_block_has_its_bytes_and_the_allocator_the_rest() {
    let block = span(PAGE + 16, 11 * PAGE + 24, 16);
    let world = Model { blocks: vec![block], ..Model::default() };
    let totals = walk(&world, Backing::Anonymous, 1..12);
    assert_eq!(resident(&totals, 16), 10 * PAGE as u64 + 8);
    assert_eq!(resident(&totals, Component::SLACK.0), PAGE as u64 - 8);
    assert_eq!(resident(&totals, 0), 0);
}

#[test]
fn block_into_the_next_region_leaves_its_neighbours_theirs() {
    let pages = REGION / PAGE;
    let (first, last) = ((pages - 9) * PAGE, (pages + 3) * PAGE);
    for edge in [PAGE + 16, 5 * PAGE, 9 * PAGE, 11 * PAGE] {
        let world = Model {
            blocks: vec![span(first + edge, last - 16, 16)],
            small: vec![(first, 40, Component(17)), (last - 16, 8, Component(18))],
            ..Model::default()
        };
        let totals = walk(&world, Backing::Heap, pages - 9..pages + 3);
        assert_eq!(resident(&totals, 16), (12 * PAGE - edge - 16) as u64);
        assert_eq!((resident(&totals, 17), resident(&totals, 18)), (40, 8));
        assert_eq!(resident(&totals, Component::SLACK.0), (edge + 16 - 48) as u64);
    }
}

#[test]
fn memory_that_merely_lies_beside_a_large_block_is_nobodys() {
    let world = Model { blocks: vec![span(PAGE + 16, 11 * PAGE, 16)], ..Model::default() };
    let totals = walk(&world, Backing::Anonymous, 1..100);
    assert_eq!(resident(&totals, Component::SLACK.0), 2 * PAGE as u64);
    assert_eq!(resident(&totals, 0), 87 * PAGE as u64 + 16);
}

#[test]
fn pages_around_an_aligned_block_are_the_allocators() {
    let block = span(512 * PAGE, 600 * PAGE, 16);
    let world = Model { blocks: vec![block], ..Model::default() };
    let totals = walk(&world, Backing::Anonymous, 300..601);
    assert_eq!(resident(&totals, 16), 88 * PAGE as u64);
    assert_eq!(resident(&totals, Component::SLACK.0), 213 * PAGE as u64);
    // The address cost no more than its alignment.
    let totals = walk(&world, Backing::Anonymous, 300..1200);
    assert_eq!(resident(&totals, Component::SLACK.0), 514 * PAGE as u64);
    assert_eq!(resident(&totals, 0), (900 - 88 - 514) * PAGE as u64);
}

#[test]
fn pages_of_a_block_being_freed_are_the_allocators() {
    let world = Model { freed: vec![span(PAGE + 16, 5 * PAGE, 16)], ..Model::default() };
    let totals = walk(&world, Backing::Anonymous, 1..5);
    assert_eq!(resident(&totals, Component::SLACK.0), 4 * PAGE as u64);
    assert_eq!(resident(&totals, 0), 0);
}

#[test]
fn block_takes_precedence_over_a_vanished_mapping() {
    let world = Model {
        blocks: vec![span(PAGE, 3 * PAGE, 16)],
        ranges: vec![span(PAGE, 5 * PAGE, 17)],
        ..Model::default()
    };
    let totals = walk(&world, Backing::Anonymous, 1..5);
    assert_eq!(resident(&totals, 16), 2 * PAGE as u64);
    assert_eq!(resident(&totals, 17), 2 * PAGE as u64);
}

#[test]
fn the_tool_counts_more_than_all() {
    let all = span(PAGE, 3 * PAGE, 16);
    let world = Model {
        tools: vec![span(2 * PAGE, 3 * PAGE, 1)],
        ranges: vec![all],
        objects: vec![all],
        ..Model::default()
    };
    for backing in [Backing::Anonymous, Backing::File, Backing::SharedFile] {
        let totals = walk(&world, backing, 1..3);
        assert_eq!(resident(&totals, Component::TOOL.0), PAGE as u64);
        assert_eq!(resident(&totals, 16), PAGE as u64);
    }
}

#[test]
fn small_blocks_never_have_more_than_there_is() {
    let world = Model { small: vec![(PAGE, 9 * PAGE as u64, Component(16))], ..Model::default() };
    let totals = walk(&world, Backing::Heap, 1..3);
    assert_eq!(resident(&totals, 16), 2 * PAGE as u64);
    assert_eq!(totals.components[16].error, 2 * PAGE as u64);
}

#[test]
fn as_many_components_as_there_are_share_a_stretch() {
    // Each component has as many bytes as its number.
    let blocks = (16..LIMIT as u16).map(|owner| (PAGE, u64::from(owner), Component(owner)));
    let world = Model { small: blocks.collect(), ..Model::default() };
    let totals = walk(&world, Backing::Heap, 1..20);
    for owner in 16..LIMIT as u16 {
        assert_eq!(resident(&totals, owner), u64::from(owner));
    }
}

#[test]
fn shared_memory_is_told_by_mapper_and_name() {
    let by = |owner| Model { ranges: vec![span(PAGE, 3 * PAGE, owner)], ..Model::default() };
    let pages = 2 * PAGE as u64;
    let mpi = walk(&by(20), Backing::SharedMemory, 1..3);
    assert_eq!(resident(&mpi, Component::MPI_SHARED.0), pages);
    let own = walk(&by(17), Backing::SharedMemory, 1..3);
    assert_eq!(resident(&own, Component::APPLICATION_SHARED.0), pages);
    let file = walk(&by(17), Backing::SharedFile, 1..3);
    assert_eq!(resident(&file, 17), pages);
    let named = walk(&by(17), Backing::MpiMemory, 1..3);
    assert_eq!(resident(&named, Component::MPI_SHARED.0), pages);
    let window = walk(&by(20), Backing::MpiWindow, 1..3);
    assert_eq!(resident(&window, Component::MPI_FOR_USER.0), pages);
    let given = walk(&by(Component::MPI_FOR_USER.0), Backing::MpiMemory, 1..3);
    assert_eq!(resident(&given, Component::MPI_FOR_USER.0), pages);
}

#[test]
fn paths_tell_what_a_mapping_is() {
    for (path, inode, shared, expected) in [
        ("", 0, false, Backing::Anonymous),
        ("[anon:name]", 0, false, Backing::Anonymous),
        ("/anon_hugepage (deleted)", 5, false, Backing::Anonymous),
        ("/anon_hugepage (deleted)", 5, true, Backing::SharedMemory),
        ("[heap]", 0, false, Backing::Heap),
        ("[stack]", 0, false, Backing::Stack),
        ("[vdso]", 0, false, Backing::Kernel),
        ("[vvar_vclock]", 0, false, Backing::Kernel),
        ("/usr/lib/libc.so.6", 7, false, Backing::File),
        ("/srv/data", 7, true, Backing::SharedFile),
        ("/dev/shm/vader_segment.host.0", 7, true, Backing::MpiMemory),
        ("/dev/shm/sm_segment.host.1000.1 (deleted)", 7, true, Backing::MpiMemory),
        ("/dev/shm/mpich_shm_x", 7, true, Backing::MpiMemory),
        ("/dev/shm/osc_sm.host.1000.7 (deleted)", 7, true, Backing::MpiWindow),
        ("/dev/shm/Intel_MPI_x", 7, true, Backing::MpiMemory),
        (
            "/tmp/ompi.host.0/pid.1/pmix_dstor_1/initial-pmix_shared-segment-0",
            7,
            true,
            Backing::MpiMemory,
        ),
        ("/dev/shm/mine", 7, true, Backing::SharedMemory),
        ("/memfd:mine (deleted)", 7, true, Backing::SharedMemory),
        ("/SYSV00000000 (deleted)", 7, true, Backing::SharedMemory),
        ("/dev/zero (deleted)", 7, true, Backing::SharedMemory),
    ] {
        assert_eq!(backing(path.as_bytes(), inode, shared), expected, "{path}");
    }
}

#[test]
fn memory_without_other_owner_is_of_who_asked_for_it() {
    let asked = vec![span(2 * PAGE, 5 * PAGE, 20)];
    let plain = Model { asked: asked.clone(), ..Model::default() };
    let totals = walk(&plain, Backing::Anonymous, 1..8);
    assert_eq!(resident(&totals, 20), 3 * PAGE as u64);
    assert_eq!(resident(&totals, Component::UNATTRIBUTED.0), 4 * PAGE as u64);
    assert_eq!(totals.asked[20], 3 * PAGE as u64);
    // A mapper that was seen, or blocks that live there, take precedence.
    let mapped = Model { ranges: vec![span(PAGE, 8 * PAGE, 16)], ..plain.clone() };
    let totals = walk(&mapped, Backing::Anonymous, 1..8);
    assert_eq!((resident(&totals, 16), totals.asked[20]), (7 * PAGE as u64, 0));
    let small = Model { small: vec![(2 * PAGE, PAGE as u64, Component(17))], ..plain };
    let totals = walk(&small, Backing::Anonymous, 1..8);
    assert_eq!((resident(&totals, 17), resident(&totals, 20)), (PAGE as u64, 0));
    assert_eq!(totals.asked[20], 0);
    assert_eq!(resident(&totals, Component::SLACK.0), 6 * PAGE as u64);
}

#[test]
fn memory_asked_for_where_arenas_begin_is_no_arena() {
    let at = ARENA / PAGE;
    let world = Model { asked: vec![span(ARENA, ARENA + 3 * PAGE, 20)], ..Model::default() };
    let totals = walk(&world, Backing::Anonymous, at..at + 3);
    assert_eq!(resident(&totals, 20), 3 * PAGE as u64);
    let totals = walk(&Model::default(), Backing::Anonymous, at..at + 3);
    assert_eq!(resident(&totals, Component::SLACK.0), 3 * PAGE as u64);
}
