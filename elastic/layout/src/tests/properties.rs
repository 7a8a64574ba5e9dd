//! Any pair of distributions.

use proptest::prelude::*;

use super::*;

fn ranks(count: usize) -> impl Strategy<Value = Ranks> {
    prop_oneof![
        Just(Ranks::first(count)),
        (0..6usize).prop_map(move |start| Ranks::range(start..start + count)),
        Just((0..14).collect::<Vec<usize>>()).prop_shuffle().prop_map(move |mut all| {
            all.truncate(count);
            Ranks::list(all).expect("distinct")
        }),
    ]
}

fn storage() -> impl Strategy<Value = Storage> {
    prop::sample::select(vec![
        Storage::Rows,
        Storage::Columns,
        Storage::RowsOfBlocks,
        Storage::ColumnsOfBlocks,
    ])
}

fn distribution(shape: (usize, usize)) -> impl Strategy<Value = Distribution> {
    let kind = (0..6usize, 1..5usize, 1..4usize, 1..5usize, 1..5usize, any::<bool>());
    let runs = prop::collection::vec(0..=shape.1, 0..9);
    (kind, runs, storage()).prop_flat_map(
        move |((kind, p, q, high, wide, turned), mut cuts, stored)| {
            let grid = Grid::new(p, q);
            let grid = if turned { grid.column_major() } else { grid };
            cuts.extend([0, shape.1]);
            cuts.sort_unstable();
            let count = match kind {
                0 | 1 => p * q,
                2 if shape.0 == 1 => cuts.len() - 1,
                _ => p * q,
            };
            ranks(count).prop_map(move |ranks| {
                let (rows, columns) = shape;
                let made = match kind {
                    0 => Distribution::checkerboard(shape, (high, wide), grid, ranks),
                    1 => Distribution::block_grid(shape, grid, ranks),
                    2 if rows == 1 => Distribution::runs(&cuts, ranks),
                    2 | 3 => Distribution::block_columns(rows, columns, ranks),
                    4 => Distribution::block_rows(rows, columns, ranks),
                    _ => Distribution::replicated_matrix(rows, columns, ranks),
                };
                made.expect("it is well formed").stored(stored)
            })
        },
    )
}

fn pairs() -> impl Strategy<Value = (Distribution, Distribution)> {
    let shape = prop_oneof![
        (Just(1usize), 0..90usize),
        (0..16usize, 0..16usize),
        (10..30usize, 10..30usize)
    ];
    shape.prop_flat_map(|shape| (distribution(shape), distribution(shape)))
}

/// Largest number of messages that a rank sends or receives.
fn busiest(schedule: &Schedule) -> usize {
    let count = |rank| {
        let part = schedule.of(rank);
        let sent = part.steps().iter().filter(|step| step.send().is_some()).count();
        let received = part.steps().iter().filter(|step| step.receive().is_some()).count();
        sent.max(received)
    };
    schedule.ranks().into_iter().map(count).max().unwrap_or(0)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(400) })]

    #[test]
    fn every_element_arrives_once_in_the_fewest_steps(
        (old, new) in pairs(), element in prop::sample::select(vec![1usize, 3, 4, 8, 16, 24])
    ) {
        let schedule = check(&old, &new, element);
        let doubles = old.is_replicated() && new.is_replicated();
        if schedule.is_minimal() && !doubles {
            prop_assert_eq!(schedule.steps(), busiest(&schedule), "{:?} -> {:?}", old, new);
        }
        let sparse = |d: &Distribution| d.shape().0 == 1;
        prop_assert!(schedule.is_minimal() || new.is_replicated() && sparse(&old));
    }

    #[test]
    fn data_is_the_same_after_there_and_back((old, new) in pairs()) {
        let there = Schedule::between(&old, &new, 4).expect("same shape");
        let back = Schedule::between(&new, &old, 4).expect("same shape");
        let before = filled(&old, 4);
        let mut between = blank(&new, 4);
        carry_out(&there, &before, &mut between, true);
        prop_assert_eq!(&between, &filled(&new, 4));
        let mut after = blank(&old, 4);
        carry_out(&back, &between, &mut after, true);
        prop_assert_eq!(after, before);
    }

    #[test]
    fn pieces_say_what_a_copy_does((old, new) in pairs()) {
        let schedule = Schedule::between(&old, &new, 8).expect("same shape");
        let before = filled(&old, 8);
        for rank in schedule.ranks() {
            let part = schedule.of(rank);
            let sent = part.steps().iter().filter_map(Step::send);
            for message in sent.chain(part.kept()).filter(|m| m.source() == Source::Old) {
                let (mut copied, mut pieced) = (vec![0; message.target_bytes()], vec![0; message.target_bytes()]);
                message.copy(&before[&rank], &mut copied).expect("lengths fit");
                for piece in message.pieces() {
                    let from = &before[&rank][piece.from..piece.from + piece.length];
                    pieced[piece.to..piece.to + piece.length].copy_from_slice(from);
                }
                prop_assert_eq!(copied, pieced);
                prop_assert_eq!(message.pieces().count(), message.piece_count());
                let lengths = message.pieces().map(|piece| piece.length).sum::<usize>();
                prop_assert_eq!(lengths, message.bytes());
                let first = message.pieces().map(|piece| piece.to).min().unwrap_or_default();
                let last = message.pieces().map(|piece| piece.to + piece.length).max();
                prop_assert_eq!(message.target_span(), first..last.unwrap_or_default());
                let first = message.pieces().map(|piece| piece.from).min().unwrap_or_default();
                let last = message.pieces().map(|piece| piece.from + piece.length).max();
                prop_assert_eq!(message.source_span(), first..last.unwrap_or_default());
            }
        }
    }

    #[test]
    fn a_message_in_parts_is_the_same_message((old, new) in pairs(), most in 1..400usize) {
        let schedule = Schedule::between(&old, &new, 4).expect("same shape");
        let before = filled(&old, 4);
        for rank in schedule.ranks() {
            let part = schedule.of(rank);
            let sent = part.steps().iter().filter_map(Step::send);
            for message in sent.chain(part.kept()).filter(|m| m.source() == Source::Old) {
                let (mut whole, mut parts) = (vec![0; message.target_bytes()], vec![0; message.target_bytes()]);
                message.copy(&before[&rank], &mut whole).expect("lengths fit");
                let mut bytes = 0;
                for part in message.split(most) {
                    prop_assert!(part.bytes() <= most.max(4) && part.bytes() > 0);
                    let mut packed = vec![0; part.bytes()];
                    part.pack(&before[&rank], &mut packed).expect("lengths fit");
                    part.unpack(&packed, &mut parts).expect("lengths fit");
                    bytes += part.bytes();
                }
                prop_assert_eq!(bytes, message.bytes());
                prop_assert_eq!(whole, parts);
            }
        }
    }

    /// Values and indices of a sparse matrix, from p to q ranks and back, for all p and q up to 8.
    #[test]
    fn sparse_matrix_returns_unchanged_over_any_ranks(counts in proptest::collection::vec(0_usize..6, 0..20)) {
        let mut index = vec![0];
        for count in counts {
            index.push(index[index.len() - 1] + count);
        }
        let matrix = Compressed::new(&index).expect("ascending");
        let on = |count| matrix.entries(Ranks::first(count)).expect("ranks");
        for (p, q) in (1..9).flat_map(|p| (1..9).map(move |q| (p, q))) {
            for element in [8, 4] {
                let (old, new) = (on(p), on(q));
                let first = filled(&old, element);
                let there = Schedule::between(&old, &new, element).expect("shapes fit");
                let back = Schedule::between(&new, &old, element).expect("shapes fit");
                let (mut away, mut last) = (blank(&new, element), blank(&old, element));
                carry_out(&there, &first, &mut away, false);
                carry_out(&back, &away, &mut last, true);
                prop_assert_eq!(&last, &first, "{} to {}", p, q);
            }
        }
    }
}
