use super::*;
use crate::graph::{Call, Graph, NONE};

/// Returns the sites of a process that makes calls in this order, each of 4 in every 10 units of
/// time.
fn process(order: &[usize]) -> Vec<CallSite<usize>> {
    joining(order, &[])
}

#[test]
fn kinds_of_functions_join_in_their_own_way() {
    let all: Vec<Joins> = (0..6).map(Joins::of_kind).collect();
    let (pair, window, nothing) = (Joins::PointToPoint, Joins::OneSided, Joins::Nothing);
    assert_eq!(all, [pair, nothing, window, nothing, pair, nothing]);
}

/// Returns the same; sites with these names are calls between two ranks.
fn joining(order: &[usize], point_to_point: &[usize]) -> Vec<CallSite<usize>> {
    let mut graph = Graph::<32, 128>::new();
    for (place, name) in order.iter().enumerate() {
        let began = 10 * place as u64;
        graph.call(Call { address: name + 1, function: 0, began, ended: began + 4 });
    }
    let sites = graph.sites().iter().map(|site| {
        let key = site.address - 1;
        let around = if site.head == NONE { site.outer } else { site.head };
        CallSite {
            key,
            joins: match point_to_point.contains(&key) {
                true => Joins::PointToPoint,
                false => Joins::Nothing,
            },
            around: (around != NONE).then_some(usize::from(around)),
            figures: site.is_head.then(|| Figures {
                iterations: site.revisits + 1,
                turns: site.turns,
                measured: site.measured,
                recent: site.recent(),
            }),
        }
    });
    sites.collect()
}

fn call(keys: &[usize]) -> Vec<Block<usize>> {
    keys.iter().map(|key| Block::Call(*key)).collect()
}

#[test]
fn published_example_is_reduced_to_its_loops_and_ranks() {
    let first = [2, 0, 6, 3, 1, 6, 3, 1, 6, 3, 1, 9, 7, 9, 7, 3, 1, 6, 3, 1, 6, 3, 1, 9, 7, 9, 7];
    let others = [2, 0, 6, 3, 1, 6, 3, 1, 6, 3, 1, 6, 3, 1, 6, 3, 1];
    let mut processes = vec![(0, of_process(&process(&first)))];
    processes.extend((1..4).map(|rank| (rank, of_process(&process(&others)))));
    let merged = merge(processes);
    assert_eq!(merged.len(), 1, "{merged:?}");
    let outer = &merged[0];
    assert_eq!(outer.blocks, call(&[6, 3, 1]));
    assert_eq!((&outer.ranks, outer.count), (&vec![(0, 3)], 4));
    // Calls of the head: five each. Those that directly follow the inner loop are not iterations.
    assert_eq!(outer.iterations, 5);
    let inner = &outer.inner[..];
    assert_eq!((inner.len(), &inner[0].blocks), (1, &call(&[9, 7])));
    assert_eq!((&inner[0].ranks, inner[0].iterations), (&vec![(0, 0)], 4));
}

#[test]
fn sites_outside_of_loops_are_dropped() {
    assert_eq!(of_process(&process(&[1, 2, 3])), []);
    let loops = of_process(&process(&[1, 2, 3, 2, 3, 4]));
    assert_eq!((loops.len(), &loops[0].blocks), (1, &call(&[2, 3])));
}

#[test]
fn inner_loops_are_no_part_of_the_body() {
    let loops = of_process(&process(&[1, 2, 3, 2, 3, 4, 5, 5, 1, 2, 3, 2, 3, 4, 5, 5, 1]));
    assert_eq!((loops.len(), &loops[0].blocks), (1, &call(&[1, 4])));
    let inner: Vec<_> = loops[0].inner.iter().map(|of| of.blocks.clone()).collect();
    assert_eq!(inner, [call(&[2, 3]), call(&[5])]);
}

#[test]
fn sender_and_receivers_are_in_one_loop() {
    let sender = joining(&[1, 2, 9, 1, 2, 9], &[1, 2]);
    let receiver = joining(&[5, 9, 5, 9, 5, 9], &[5]);
    let loops = [(0, &sender), (1, &receiver), (2, &receiver), (5, &receiver)];
    let merged = merge(loops.map(|(rank, sites)| (rank, of_process(sites))).into());
    assert_eq!(merged.len(), 1, "{merged:?}");
    let blocks = [Block::Joined(Joins::PointToPoint, vec![1, 2, 5]), Block::Call(9)];
    assert_eq!(merged[0].blocks, blocks);
    assert_eq!(merged[0].ranks, [(0, 2), (5, 5)]);
    // The mode of 2, 3, 3, 3; sums of the rest.
    assert_eq!(merged[0].iterations, 3);
    assert_eq!((merged[0].total.iterations, merged[0].total.turns), (11, 7));
}

#[test]
fn loops_of_nothing_but_messages_differ_by_their_sites() {
    let one = joining(&[1, 2, 1, 2], &[1, 2]);
    let other = joining(&[3, 4, 3, 4], &[3, 4]);
    let merged = merge(vec![(0, of_process(&one)), (1, of_process(&other))]);
    assert_eq!(merged.len(), 2);
    assert_eq!(merged[1].blocks[0].sites(), [3, 4]);
}

#[test]
fn spreads_are_over_ranks() {
    let figures = |time, mpi| Figures {
        iterations: 3,
        turns: 2,
        measured: Span { time, mpi },
        recent: Span::default(),
    };
    let of = |time, mpi| {
        of_process(&[CallSite {
            key: 1,
            joins: Joins::Nothing,
            around: None,
            figures: Some(figures(time, mpi)),
        }])
    };
    let merged = merge(vec![(0, of(200, 100)), (1, of(400, 100)), (2, of(0, 0))]);
    let merged = &merged[0];
    assert_eq!(merged.iteration, Some(Spread { min: 0.0, mean: 100.0, max: 200.0 }));
    assert_eq!(merged.mpi_share, Some(Spread { min: 0.25, mean: 0.375, max: 0.5 }));
    assert_eq!(merged.ratio, Some(Spread { min: 1.0 / 3.0, mean: 2.0 / 3.0, max: 1.0 }));
    assert_eq!((merged.recent_ratio, merged.total.measured.mpi), (None, 200));
}

#[test]
fn heads_that_cannot_be_are_none() {
    let site = |around, is_head: bool| CallSite {
        key: 0,
        joins: Joins::Nothing,
        around,
        figures: is_head.then(Figures::default),
    };
    let sites =
        [site(Some(0), true), site(Some(7), false), site(Some(1), true), site(Some(2), false)];
    let loops = of_process(&sites);
    assert_eq!((loops.len(), loops[0].blocks.len(), loops[1].blocks.len()), (2, 1, 2));
}

/// Returns a loop of these sites, and its number.
fn loop_of(sites: &[(u8, u64)]) -> (Vec<Block<u64>>, u64) {
    let mut of = Loop { blocks: Vec::new(), figures: Figures::default(), inner: Vec::new() };
    let mut digest = Digest::default();
    for (kind, key) in sites {
        let joins = [Joins::PointToPoint, Joins::OneSided, Joins::Nothing][usize::from(*kind)];
        of.push(&CallSite { key: *key, joins, around: None, figures: None });
        digest.push(joins, *key);
    }
    (identity(&of.blocks), digest.finish())
}

#[test]
fn messages_after_each_other_are_one_in_the_number() {
    let (one, first) = loop_of(&[(2, 7), (0, 1), (0, 3)]);
    let (other, second) = loop_of(&[(2, 7), (0, 5)]);
    assert_eq!((one, first), (other, second));
}

proptest::proptest! {
    #[test]
    fn digests_are_equal_where_loops_are_merged(
        one in proptest::collection::vec((0_u8..3, 0_u64..2), 1..5),
        other in proptest::collection::vec((0_u8..3, 0_u64..2), 1..5),
    ) {
        let ((one, first), (other, second)) = (loop_of(&one), loop_of(&other));
        proptest::prop_assert_eq!(one == other, first == second, "{:?} {:?}", one, other);
    }
}
