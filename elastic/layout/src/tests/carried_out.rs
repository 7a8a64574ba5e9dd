//! Named cases: each kind of distribution, sizes that do not divide, ranks that join and leave.

use super::*;

fn block(elements: usize, ranks: Ranks) -> Distribution {
    Distribution::block(elements, ranks).expect("there are ranks")
}

#[test]
fn blocks_with_clipped_tails_and_empty_ranks_move() {
    for elements in [0, 1, 5, 12, 15, 16, 17, 97] {
        for p in 1..10 {
            for q in 1..10 {
                let old = block(elements, Ranks::first(p));
                for new in [Ranks::first(q), Ranks::range(p..p + q), Ranks::range(p / 2..p / 2 + q)]
                {
                    let schedule = check(&old, &block(elements, new), 8);
                    assert!(schedule.is_minimal());
                    for rank in schedule.ranks() {
                        let part = schedule.of(rank);
                        let sent = part.steps().iter().filter_map(Step::send);
                        assert!(sent.chain(part.kept()).all(|message| message.piece_count() == 1));
                    }
                }
            }
        }
    }
}

#[test]
fn blocks_in_turns_become_blocks_and_the_other_way() {
    for (elements, size, p, q) in [(64, 2, 4, 3), (61, 5, 3, 7), (100, 1, 6, 4), (9, 4, 2, 5)] {
        let turns = Distribution::block_cyclic(elements, size, Ranks::first(p)).expect("ranks");
        check(&turns, &block(elements, Ranks::first(q)), 4);
        check(&block(elements, Ranks::first(q)), &turns, 4);
        let others =
            Distribution::block_cyclic(elements, size + 1, Ranks::first(q)).expect("ranks");
        check(&turns, &others, 8);
    }
}

#[test]
fn block_rows_become_block_columns_by_all_to_all() {
    let old = Distribution::block_rows(12, 20, Ranks::first(4)).expect("ranks");
    let new = Distribution::block_columns(12, 20, Ranks::first(4)).expect("ranks");
    // Each rank keeps its own quarter.
    assert_eq!(check(&old, &new, 8).steps(), 3);
    let more = Distribution::block_columns(12, 20, Ranks::first(5)).expect("ranks");
    assert_eq!(check(&old, &more.stored(Storage::Columns), 8).steps(), 4);
}

#[test]
fn growth_by_one_rank_in_place_saves_a_step() {
    let on = |count| Distribution::block_cyclic(60, 1, Ranks::first(count)).expect("ranks");
    let schedule = check(&on(4), &on(5), 8);
    let apart = Distribution::block_cyclic(60, 1, Ranks::range(4..9)).expect("ranks");
    assert_eq!((schedule.steps(), check(&on(4), &apart, 8).steps()), (4, 5));
    assert_eq!(check(&on(4), &on(4), 8).statistics().bytes_moved, 0);
    assert_eq!(check(&on(4), &on(4), 8).steps(), 0);
}

#[test]
fn replicated_arrays_double_their_holders_in_each_step() {
    let on = |ranks| Distribution::replicated(10, ranks).expect("ranks");
    for (old, new, steps) in [
        (Ranks::first(1), Ranks::first(8), 3),
        (Ranks::first(1), Ranks::first(9), 4),
        (Ranks::first(3), Ranks::first(12), 2),
        (Ranks::first(8), Ranks::first(2), 0),
        (Ranks::range(0..2), Ranks::range(1..4), 1),
        (Ranks::first(2), Ranks::range(5..11), 2),
    ] {
        assert_eq!(check(&on(old), &on(new), 8).steps(), steps);
    }
}

#[test]
fn replicated_arrays_are_dealt_out_and_gathered() {
    let all = Distribution::replicated(23, Ranks::first(3)).expect("ranks");
    let schedule = check(&all, &block(23, Ranks::range(1..9)), 8);
    // Ranks 3 to 8 are new; 3 of the 8 parts of 3 are held by staying ranks.
    assert_eq!(schedule.steps(), 2);
    assert_eq!(check(&block(23, Ranks::first(4)), &all, 4).steps(), 3);
    assert_eq!(check(&block(23, Ranks::range(5..7)), &all, 4).steps(), 3);
}

#[test]
fn a_sparse_matrix_moves_with_its_indices() {
    let index = [0, 3, 3, 3, 10, 11, 11, 30, 31];
    let matrix = Compressed::new(&index).expect("ascending");
    for (old, new) in [
        (Ranks::first(2), Ranks::first(5)),
        (Ranks::first(8), Ranks::first(3)),
        (Ranks::range(0..3), Ranks::range(2..8)),
        (Ranks::first(3), Ranks::range(3..20)),
    ] {
        let from = matrix.entries(old.clone()).expect("ranks");
        let to = matrix.entries(new.clone()).expect("ranks");
        let values = check(&from, &to, 8);
        assert!(values.is_minimal());
        let columns = values.with_element(4).expect("it fits");
        assert_eq!(columns.statistics().bytes_moved * 2, values.statistics().bytes_moved);
        check(&matrix.index(old).expect("ranks"), &matrix.index(new).expect("ranks"), 8);
    }
}

#[test]
fn boundaries_of_any_kind_are_a_path_of_fewest_steps() {
    let cuts = |at: &[usize], first: usize| {
        Distribution::runs(at, Ranks::range(first..first + at.len() - 1)).expect("ascending")
    };
    // Sender 1 has one message, and its receiver one from each side.
    let schedule = check(&cuts(&[0, 5, 6, 12], 0), &cuts(&[0, 2, 8, 8, 12], 3), 8);
    assert_eq!(schedule.steps(), 3);
    let schedule = check(&cuts(&[0, 0, 6, 6, 12], 0), &cuts(&[0, 2, 12], 0), 8);
    assert_eq!(schedule.steps(), 1);
}

#[test]
fn whole_moving_blocks_are_single_pieces_where_contiguous() {
    let on = |grid: Grid| {
        let ranks = Ranks::first(grid.rows * grid.columns);
        Distribution::checkerboard((96, 96), (8, 8), grid, ranks)
            .expect("a grid")
            .stored(Storage::RowsOfBlocks)
    };
    let schedule = check(&on(Grid::new(2, 2)), &on(Grid::new(3, 4)), 8);
    for rank in schedule.ranks() {
        for message in schedule.of(rank).steps().iter().filter_map(Step::send) {
            // Two superblocks down and three across, of one block of 8 x 8 elements each.
            assert_eq!((message.bytes(), message.piece_count()), (6 * 512, 6));
        }
    }
}

#[test]
fn part_of_100000_ranks_is_found_without_the_others() {
    let (p, q) = (100_000, 100_001);
    let elements = p * q;
    let blocks = |count| block(elements, Ranks::first(count));
    let schedule = Schedule::between(&blocks(p), &blocks(q), 8).expect("same shape");
    assert_eq!((schedule.steps(), schedule.of(77_777).kept().len()), (1, 1));
    // Two dimensions, mixed: 250 x 400 becomes 400 x 251.
    let on = |rows, columns| {
        let ranks = Ranks::first(rows * columns);
        Distribution::checkerboard((1 << 20, 1 << 23), (64, 64), Grid::new(rows, columns), ranks)
            .expect("a grid")
    };
    let (old, new) = (on(250, 400), on(400, 251));
    let schedule = Schedule::between(&old, &new, 8).expect("same shape");
    let part = schedule.of(99_999);
    assert_eq!(schedule.steps(), 2000 * 100_400 / 100_000);
    assert_eq!(part.steps().iter().filter(|step| step.send().is_some()).count(), 2008);
    // Its messages are described by a few strides each, whatever their size.
    let bytes: usize = part.steps().iter().filter_map(Step::send).map(Message::bytes).sum();
    assert_eq!(bytes + part.kept().iter().map(Message::bytes).sum::<usize>(), part.old_bytes());
}

/// Large enough for several squares where rows become columns.
#[test]
fn large_messages_of_short_runs_arrive() {
    let on = |columns, storage| {
        let ranks = Ranks::first(columns);
        Distribution::checkerboard((700, 803), (8, 3), Grid::new(1, columns), ranks)
            .expect("a grid")
            .stored(storage)
    };
    check(&on(1, Storage::Rows), &on(2, Storage::Rows), 8);
    check(&on(2, Storage::Rows), &on(1, Storage::Columns), 8);
    check(&on(1, Storage::Columns), &on(2, Storage::Rows), 4);
}

#[test]
fn messages_in_turns_arrive_like_whole_ones() {
    let on = |rows, columns| {
        let ranks = Ranks::first(rows * columns);
        Distribution::checkerboard((61, 47), (3, 2), Grid::new(rows, columns), ranks)
            .expect("a grid")
    };
    let schedule = Schedule::between(&on(1, 1), &on(2, 3), 8).expect("same shape");
    let before = filled(schedule.before(), 8);
    let mut after = blank(schedule.after(), 8);
    let part = schedule.of(0);
    let messages: Vec<&Message> =
        part.kept().iter().chain(part.steps().iter().filter_map(Step::send)).collect();
    let mut order = Vec::new();
    for (index, part) in in_turns(messages.iter().copied(), 1000) {
        assert!(part.bytes() <= 1000);
        let to = after.get_mut(&messages[index].peer()).expect("it has new memory");
        part.copy(&before[&0], to).expect("lengths fit");
        order.push(index);
    }
    assert_eq!(after, filled(schedule.after(), 8));
    assert_eq!(order[..7], [0, 1, 2, 3, 4, 5, 0]);
}
