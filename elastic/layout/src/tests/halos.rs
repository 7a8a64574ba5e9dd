//! Blocks with ghost cells: redistribution keeps the edges, and an exchange fills the rest.

use super::*;

/// Distributions of the same cells over any number of ranks.
fn on(shape: [usize; 3], halo: [Halo; 3], grid: [usize; 3], first: usize) -> Distribution {
    let ranks = grid.iter().product::<usize>();
    Distribution::halo(shape, halo, grid, Ranks::range(first..first + ranks)).expect("a grid")
}

const CASES: [([usize; 3], [Halo; 3]); 6] = [
    ([1, 1, 23], [Halo::NONE, Halo::NONE, Halo::edge(2)]),
    ([1, 1, 7], [Halo::NONE, Halo::NONE, Halo::periodic(3)]),
    ([1, 12, 9], [Halo::NONE, Halo::edge(1), Halo::periodic(1)]),
    ([1, 5, 8], [Halo::NONE, Halo { before: 0, after: 2, periodic: false }, Halo::edge(3)]),
    ([6, 5, 4], [Halo::edge(1), Halo::periodic(1), Halo::edge(2)]),
    (
        [3, 4, 5],
        [Halo::periodic(1), Halo::periodic(2), Halo { before: 1, after: 0, periodic: true }],
    ),
];

const GRIDS: [[usize; 3]; 7] =
    [[1, 1, 1], [1, 1, 3], [1, 2, 2], [1, 4, 1], [2, 1, 2], [3, 2, 1], [2, 3, 4]];

fn fits(shape: [usize; 3], grid: [usize; 3]) -> bool {
    (0..3).all(|along| shape[along] > 1 || grid[along] == 1)
}

#[test]
fn cells_and_edges_move_between_any_two_grids() {
    for (shape, halo) in CASES {
        for from in GRIDS.into_iter().filter(|&grid| fits(shape, grid)) {
            for to in GRIDS.into_iter().filter(|&grid| fits(shape, grid)) {
                for storage in [Storage::Rows, Storage::Columns] {
                    let old = on(shape, halo, from, 0).stored(storage);
                    check(&old, &on(shape, halo, to, 0).stored(storage), 8);
                    check(&old, &on(shape, halo, to, 2), 4);
                }
            }
        }
    }
}

#[test]
fn cells_move_to_and_from_blocks_without_ghost_cells() {
    let halo = [Halo::NONE, Halo::edge(1), Halo::edge(2)];
    let cells = on([1, 12, 9], halo, [1, 2, 3], 0);
    for blocks in [
        Distribution::block_rows(14, 13, Ranks::first(4)),
        Distribution::checkerboard((14, 13), (2, 3), Grid::new(2, 2), Ranks::first(4)),
        Distribution::replicated_matrix(14, 13, Ranks::first(3)),
    ] {
        let blocks = blocks.expect("ranks");
        check(&blocks, &cells, 8);
        check(&cells, &blocks, 8);
    }
    let layers = on([3, 4, 5], [Halo::NONE; 3], [2, 2, 1], 0);
    assert!(Schedule::between(&layers, &on([4, 3, 5], [Halo::NONE; 3], [1; 3], 0), 8).is_err());
    let all = Distribution::replicated_matrix(12, 5, Ranks::first(2)).expect("ranks");
    let error = Schedule::between(&layers, &all, 8).expect_err("another shape").to_string();
    assert!(error.contains("3 x 4 x 5 before and 12 x 5 after"), "{error}");
}

/// Exchanges the ghost cells of all ranks.
fn exchange(distribution: &Distribution, memory: &mut Memory, element: usize) {
    let mut sent = BTreeMap::new();
    for rank in distribution.ranks().iter() {
        for message in distribution.halo_messages(rank, element) {
            let mut packed = vec![0; message.sent_bytes()];
            message.pack(&memory[&rank], &mut packed).expect("lengths fit");
            sent.insert((rank, message.peer()), packed);
        }
    }
    for rank in distribution.ranks().iter() {
        for message in distribution.halo_messages(rank, element) {
            let packed = sent.remove(&(message.peer(), rank)).expect("the peer has a message");
            let to = memory.get_mut(&rank).expect("it has memory");
            message.unpack(&packed, to).expect("lengths fit");
        }
    }
    assert!(sent.is_empty(), "messages that nobody receives");
}

/// The number of the cell that belongs at an offset of a rank's memory.
fn expected(distribution: &Distribution, halo: [Halo; 3], rank: usize, offset: usize) -> u64 {
    let [_, rows, columns] = distribution.memory(rank);
    let inside = offset % (rows * columns);
    let at = [offset / (rows * columns), inside / columns, inside % columns];
    let spans = distribution.spans(rank);
    let extents = distribution.extents();
    let cell = [0, 1, 2].map(|along| {
        let cell = (at[along] + spans[along].first) as isize;
        let (low, _) = halo[along].edges();
        // Cells of the edge count from 0; a periodic dimension has none.
        let cell = cell - spans[along].before as isize + low as isize;
        cell.rem_euclid(extents[along] as isize) as usize
    });
    number(distribution, cell[0] * extents[1] + cell[1], cell[2])
}

#[test]
fn exchange_brings_every_ghost_cell_with_corners() {
    for (shape, halo) in CASES {
        for grid in GRIDS.into_iter().filter(|&grid| fits(shape, grid)) {
            for element in [8, 24] {
                let cells = on(shape, halo, grid, 1);
                let mut memory = filled(&cells, element);
                exchange(&cells, &mut memory, element);
                for (&rank, bytes) in &memory {
                    for (offset, found) in bytes.chunks_exact(element).enumerate() {
                        let right = expected(&cells, halo, rank, offset).to_le_bytes();
                        assert_eq!(found[..8], right, "{cells:?} {rank} {offset}");
                    }
                }
            }
        }
    }
}

#[test]
fn storage_by_columns_exchanges_the_same_cells() {
    let (shape, halo) = CASES[2];
    let rows = on(shape, halo, [1, 2, 3], 0);
    let columns = rows.clone().stored(Storage::Columns);
    let (mut one, mut other) = (filled(&rows, 8), filled(&columns, 8));
    exchange(&rows, &mut one, 8);
    exchange(&columns, &mut other, 8);
    for rank in 0..6 {
        let [_, high, wide] = rows.memory(rank);
        for row in 0..high {
            for column in 0..wide {
                let (by_row, by_column) = ((row * wide + column) * 8, (column * high + row) * 8);
                assert_eq!(one[&rank][by_row..][..8], other[&rank][by_column..][..8]);
            }
        }
    }
}

#[test]
fn split_messages_of_layers_arrive_whole() {
    let halo = [Halo::edge(1), Halo::NONE, Halo::periodic(1)];
    let (old, new) = (on([9, 8, 7], halo, [3, 1, 1], 0), on([9, 8, 7], halo, [1, 1, 1], 0));
    let schedule = Schedule::between(&old, &new, 8).expect("same shape");
    let (before, mut after) = (filled(&old, 8), blank(&new, 8));
    for bytes in [8, 100, 8 * 8 * 7 * 2, 1 << 20] {
        for (rank, memory) in &before {
            let part = schedule.of(*rank);
            let sent = part.steps().iter().filter_map(Step::send);
            for message in part.kept().iter().chain(sent) {
                for some in message.split(bytes) {
                    assert!(some.bytes() <= bytes);
                    some.copy(memory, after.get_mut(&0).expect("memory")).expect("lengths fit");
                }
            }
        }
        assert_eq!(after, filled(&new, 8));
        after = blank(&new, 8);
    }
}

#[test]
fn impossible_grids_and_sizes_are_refused() {
    let halo = [Halo::edge(1); 3];
    let ranks = || Ranks::first(4);
    let made = |shape, grid| Distribution::halo(shape, halo, grid, ranks());
    assert!(matches!(made([1, 4, 4], [1, 2, 3]), Err(LayoutError::Grid { .. })));
    assert!(matches!(made([1, 4, 4], [0, 2, 2]), Err(LayoutError::Grid { .. })));
    let huge = made([1, usize::MAX, 4], [1, 2, 2]);
    assert!(matches!(huge, Err(LayoutError::TooLarge { .. })));
    let long = made([1 << 30, 1 << 30, 1 << 30], [1, 2, 2]);
    assert!(matches!(long, Err(LayoutError::TooLarge { .. })));
}
