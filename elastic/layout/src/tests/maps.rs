//! Local and global indices.

use super::*;

fn samples() -> Vec<Distribution> {
    let mut all = Vec::new();
    let grids = [Grid::new(2, 3), Grid::new(3, 2).column_major(), Grid::new(1, 6), Grid::new(6, 1)];
    for grid in grids {
        for (shape, block) in [((12, 12), (2, 2)), ((13, 11), (2, 3)), ((3, 40), (5, 4))] {
            for storage in
                [Storage::Rows, Storage::Columns, Storage::RowsOfBlocks, Storage::ColumnsOfBlocks]
            {
                let ranks = Ranks::list([5, 3, 9, 0, 1, 2]).expect("distinct");
                let distribution = Distribution::checkerboard(shape, block, grid, ranks);
                all.push(distribution.expect("six places").stored(storage));
            }
        }
        let ranks = Ranks::first(6);
        all.push(Distribution::block_grid((7, 5), grid, ranks).expect("six places"));
    }
    let ranks = || Ranks::range(2..7);
    all.push(Distribution::block(12, ranks()).expect("ranks"));
    all.push(Distribution::block(3, ranks()).expect("ranks"));
    all.push(Distribution::block(0, ranks()).expect("ranks"));
    all.push(Distribution::block_cyclic(31, 3, ranks()).expect("ranks"));
    all.push(Distribution::block_rows(7, 4, ranks()).expect("ranks"));
    all.push(Distribution::block_columns(4, 11, ranks()).expect("ranks"));
    all.push(Distribution::runs(&[0, 4, 4, 5, 5, 12], ranks()).expect("ranks"));
    all
}

#[test]
fn each_element_lies_at_one_place_and_conversely() {
    for distribution in samples() {
        let (rows, columns) = distribution.shape();
        let mut places = std::collections::BTreeSet::new();
        for row in 0..rows {
            for column in 0..columns {
                let (rank, offset) = distribution.locate(row, column).expect("within the array");
                assert!(offset < distribution.room(rank), "{distribution:?}");
                assert_eq!(distribution.origin(rank, offset), Some((row, column)));
                assert!(places.insert((rank, offset)));
            }
        }
        let mut held = 0;
        for rank in distribution.ranks().iter() {
            let (rows, columns) = distribution.held(rank);
            held += rows * columns;
            let lying = (0..distribution.room(rank) + 3)
                .filter(|&offset| distribution.origin(rank, offset).is_some());
            assert_eq!(lying.count(), rows * columns, "{distribution:?}");
        }
        assert_eq!(held, rows * columns);
        assert_eq!(distribution.locate(rows, 0), None);
        assert_eq!(distribution.held(77), (0, 0));
    }
}

#[test]
fn blocks_of_a_checkerboard_lie_as_the_dissertation_says() {
    let rows = Distribution::checkerboard((8, 8), (2, 2), Grid::new(2, 2), Ranks::first(4))
        .expect("four places");
    let cbr = rows.clone().stored(Storage::RowsOfBlocks);
    let cbc = rows.clone().stored(Storage::ColumnsOfBlocks);
    // Block (2, 0) is the second of rank 0 down, block (0, 2) the second to the right.
    assert_eq!((cbr.locate(0, 4), cbr.locate(4, 0)), (Some((0, 4)), Some((0, 8))));
    assert_eq!((cbc.locate(0, 4), cbc.locate(4, 0)), (Some((0, 8)), Some((0, 4))));
    assert_eq!((cbr.locate(1, 0), cbc.locate(1, 0)), (Some((0, 2)), Some((0, 2))));
    assert_eq!(rows.locate(1, 5), Some((0, 7)));
    // Ranks count row by row, or column by column.
    assert_eq!(rows.locate(0, 2).map(|place| place.0), Some(1));
    let turned =
        Distribution::checkerboard((8, 8), (2, 2), Grid::new(2, 2).column_major(), Ranks::first(4));
    assert_eq!(turned.expect("four places").locate(0, 2).map(|place| place.0), Some(2));
}

#[test]
fn what_cannot_be_is_refused_with_its_reason() {
    let none = Ranks::first(0);
    assert_eq!(Distribution::block(5, none), Err(LayoutError::NoRanks { call: "block" }));
    assert_eq!(
        Distribution::block_cyclic(5, 0, Ranks::first(2)),
        Err(LayoutError::EmptyBlock { call: "block_cyclic" })
    );
    let grid = Distribution::checkerboard((4, 4), (1, 1), Grid::new(2, 2), Ranks::first(3));
    let error = grid.expect_err("three ranks");
    assert_eq!(error.to_string(), "checkerboard: a grid of 2 x 2 has 4 places for 3 ranks");
    assert!(Distribution::checkerboard((4, 4), (1, 1), Grid::new(0, 3), Ranks::first(3)).is_err());
    assert_eq!(
        Distribution::block_rows(usize::MAX, 3, Ranks::first(2)),
        Err(LayoutError::TooLarge { call: "block_rows" })
    );
    assert_eq!(
        Distribution::runs(&[0, 3, 2], Ranks::first(2)),
        Err(LayoutError::Descending { call: "runs", position: 2, before: 3, found: 2 })
    );
    assert_eq!(
        Distribution::runs(&[0, 3], Ranks::first(2)),
        Err(LayoutError::Boundaries { call: "runs", ranks: 2, found: 2 })
    );
    let (short, long) =
        (Distribution::block(5, Ranks::first(2)), Distribution::block(6, Ranks::first(2)));
    let (short, long) = (short.expect("ranks"), long.expect("ranks"));
    assert_eq!(
        Schedule::between(&short, &long, 8).map(|_| ()),
        Err(LayoutError::Shape { old: [1, 1, 5], new: [1, 1, 6] })
    );
    assert_eq!(Schedule::between(&short, &short, 0).map(|_| ()), Err(LayoutError::EmptyElement));
    let huge = Schedule::between(&short, &short, usize::MAX / 2).map(|_| ());
    assert_eq!(huge, Err(LayoutError::TooLarge { call: "schedule" }));
}

#[test]
fn equal_parts_error_names_the_axis_that_does_not_divide() {
    let on = |rows, columns| {
        Distribution::checkerboard((rows, columns), (2, 2), Grid::new(2, 3), Ranks::first(6))
            .expect("six places")
    };
    assert_eq!(on(8, 12).require_even(), Ok(()));
    assert_eq!(
        on(10, 12).require_even(),
        Err(LayoutError::Uneven { axis: "rows", extent: 10, block: 2, parts: 2 })
    );
    assert_eq!(
        on(8, 13).require_even().expect_err("13 columns").to_string(),
        "columns: 13 elements in blocks of 2 do not fall into whole blocks, as many for each of 3 \
         parts"
    );
    assert!(Distribution::block(5, Ranks::first(4)).expect("ranks").require_even().is_err());
}

#[test]
fn memory_of_another_length_is_refused_and_nothing_is_written() {
    let old = Distribution::block(8, Ranks::first(1)).expect("ranks");
    let new = Distribution::block(8, Ranks::first(2)).expect("ranks");
    let schedule = Schedule::between(&old, &new, 4).expect("same shape");
    let part = schedule.of(0);
    let message = part.steps()[0].send().expect("rank 1 gets half");
    let mut packed = vec![7; 16];
    assert_eq!(
        message.pack(&[0; 31], &mut packed),
        Err(LayoutError::Memory {
            call: "pack",
            what: "memory it comes from",
            expected: 32,
            found: 31
        })
    );
    assert!(message.pack(&[0; 32], &mut packed[..15]).is_err());
    assert!(message.unpack(&packed, &mut [0; 4]).is_err());
    assert!(message.copy(&[0; 32], &mut [0; 4]).is_err());
    assert_eq!(packed, [7; 16]);
}

#[test]
fn sparse_local_index_counts_from_its_own_rows() {
    let matrix = Compressed::new(&[0, 2, 2, 7, 8, 9]).expect("ascending");
    let ranks = Ranks::first(3);
    assert_eq!((matrix.lines(), matrix.nonzeros()), (5, 9));
    assert_eq!(matrix.local_index(&ranks, 0), [0, 2, 2]);
    assert_eq!(matrix.local_index(&ranks, 1), [0, 5, 6]);
    assert_eq!(matrix.local_index(&ranks, 2), [0, 1]);
    assert!(Compressed::new(&[]).is_err() && Compressed::new(&[1, 2]).is_err());
    assert!(Compressed::new(&[0, 2, 1]).is_err());
}

#[test]
fn sent_distribution_is_unchanged_and_a_damaged_one_is_refused() {
    for distribution in samples() {
        let sent = serde_json::to_string(&distribution).expect("plain data");
        assert_eq!(serde_json::from_str::<Distribution>(&sent).expect("well formed"), distribution);
    }
    let two = Distribution::block_cyclic(8, 2, Ranks::first(2)).expect("ranks");
    let sent = serde_json::to_string(&two).expect("plain data");
    for (good, bad) in [("[0,1]", "[0,0]"), ("[0,1]", "[0]"), ("\"block\":2", "\"block\":0")] {
        assert!(sent.contains(good), "{sent}");
        assert!(serde_json::from_str::<Distribution>(&sent.replace(good, bad)).is_err());
    }
}

#[test]
fn refusal_counts_the_rest_of_a_clipped_block() {
    let elements = usize::MAX / 2 - 2;
    let large = |block| Distribution::block_cyclic(elements, block, Ranks::first(2)).map(|_| ());
    assert_eq!((large(1), large(8)), (Ok(()), Err(LayoutError::TooLarge { call: "block_cyclic" })));
}

#[test]
fn schedule_tells_its_sides_and_element() {
    let (old, new) =
        (Distribution::block(6, Ranks::first(2)), Distribution::block(6, Ranks::first(3)));
    let (old, new) = (old.expect("ranks"), new.expect("ranks"));
    let schedule = Schedule::between(&old, &new, 24).expect("one shape");
    assert_eq!((schedule.before(), schedule.after(), schedule.element()), (&old, &new, 24));
}

#[test]
fn joiner_that_holds_nothing_of_an_array_takes_no_step() {
    let all = Distribution::replicated_matrix(4, 1, Ranks::first(1)).expect("ranks");
    // The second column of the grid has rows and no columns.
    let parts = Distribution::checkerboard((4, 1), (2, 1), Grid::new(2, 2), Ranks::first(4));
    let schedule = Schedule::between(&all, &parts.expect("ranks"), 8).expect("one shape");
    assert_eq!((schedule.steps(), schedule.statistics().messages), (1, 1));
}
