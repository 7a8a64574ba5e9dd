use super::*;
use proptest::prelude::*;
use std::collections::BTreeSet;

const PAGE: u64 = 4096;

/// A mapping of the pages `pages`, described with granules of `1 << (12 + power)` bytes.
fn mapping(ino: u64, power: u32, pages: &BTreeSet<u64>) -> Shared {
    let mut bitmap = vec![0u64; 16];
    for page in pages {
        let granule = page >> power;
        bitmap[(granule / 64) as usize] |= 1 << (granule % 64);
    }
    Shared {
        dev: 1,
        ino,
        path: format!("/dev/shm/segment{ino}").into(),
        component: "mpi.shm".into(),
        size: 1024 * PAGE,
        hugetlb: false,
        gone: false,
        granule_shift: 12 + power,
        exact: power == 0,
        bitmap,
        present: pages.len() as u64 * PAGE,
        counted: pages.len() as u64 * PAGE,
        dropped: 0,
        doubled: 0,
        is_moved: false,
        is_whole: true,
    }
}

#[test]
fn page_of_two_ranks_counts_once_and_private_ones_each() {
    let mut join = Join::default();
    join.add(0, [mapping(7, 0, &BTreeSet::from([0, 1, 2]))]);
    join.add(1, [mapping(7, 0, &BTreeSet::from([2, 3]))]);
    let joined = join.finish();
    assert_eq!(joined.files.len(), 1);
    let file = &joined.files[0];
    assert_eq!((file.processes, file.sum, file.once), (2, 5 * PAGE, 4 * PAGE));
    assert_eq!((joined.repeated, joined.uncertain), (PAGE, 0));
    assert_eq!(joined.components, [("mpi.shm".into(), 5 * PAGE, PAGE)]);
}

#[test]
fn the_same_inode_on_another_device_is_another_file() {
    let pages = BTreeSet::from([0, 1]);
    let mut join = Join::default();
    join.add(0, [mapping(7, 0, &pages)]);
    join.add(1, [Shared { dev: 2, ..mapping(7, 0, &pages) }]);
    let joined = join.finish();
    assert_eq!((joined.files.len(), joined.repeated), (2, 0));
}

#[test]
fn page_mapped_twice_by_a_process_is_one_page() {
    let mut join = Join::default();
    let once = mapping(7, 0, &BTreeSet::from([5, 6]));
    join.add(3, [Shared { counted: 3 * PAGE, ..once }]);
    let joined = join.finish();
    assert_eq!((joined.files[0].once, joined.repeated), (2 * PAGE, PAGE));
}

#[test]
fn a_file_one_process_maps_twice_is_one_process() {
    let pages = BTreeSet::from([5]);
    let mut join = Join::default();
    join.add(3, [mapping(7, 0, &pages), mapping(7, 0, &pages)]);
    let joined = join.finish();
    assert_eq!((joined.files[0].processes, joined.files[0].once), (1, PAGE));
}

#[test]
fn hostile_numbers_do_not_overflow() {
    let mut join = Join::default();
    for process in 0..3 {
        join.add(
            process,
            [Shared {
                granule_shift: 63 + process,
                bitmap: vec![u64::MAX; 16],
                present: u64::MAX,
                exact: process != 1,
                ..mapping(1, 0, &BTreeSet::new())
            }],
        );
    }
    assert_eq!(join.finish().files[0].once, u64::MAX);
}

proptest! {
    /// Compared with sets of pages: exact where granules are pages, otherwise bounds.
    #[test]
    fn the_union_is_that_of_the_sets(
        ranks in proptest::collection::vec(
            (0u32..4, proptest::collection::btree_set(0u64..1000, 0..40), 0u64..3), 1..8),
        coarse in any::<bool>(),
    ) {
        let mut join = Join::default();
        let mut truth: HashMap<u64, BTreeSet<u64>> = HashMap::new();
        let mut sum = 0;
        for (process, (power, pages, ino)) in ranks.iter().enumerate() {
            join.add(process as u32, [mapping(*ino, if coarse { *power } else { 0 }, pages)]);
            truth.entry(*ino).or_default().extend(pages);
            sum += pages.len() as u64 * PAGE;
        }
        let joined = join.finish();
        let once: u64 = truth.values().map(|pages| pages.len() as u64 * PAGE).sum();
        let upper: u64 = joined.files.iter().map(|file| file.once).sum();
        let lower: u64 = joined.files.iter().map(|file| file.least).sum();
        prop_assert!(lower <= once && once <= upper, "{lower} <= {once} <= {upper}");
        prop_assert_eq!(joined.repeated, sum - upper);
        if !coarse {
            prop_assert_eq!(once, upper);
            prop_assert_eq!(joined.uncertain, 0);
        }
        let shares: u64 = joined.components.iter().map(|(_, _, repeated)| repeated).sum();
        prop_assert!(shares <= joined.repeated && joined.repeated - shares <= joined.files.len() as u64);
    }
}
