//! The tables as the dissertation prints them, where they have contention, and how that is avoided.

use super::*;

type Dims = (usize, usize);
/// Rows are steps, columns are ranks; `None` is idle.
type Table = Vec<Vec<Option<usize>>>;

fn lcm(a: usize, b: usize) -> usize {
    (1..).map(|times| times * a).find(|multiple| multiple % b == 0).expect("there is one")
}

/// C_Send of section 3.4.1: blocks of a superblock, row by row, in the next row of their column.
fn c_send(p: Dims, q: Dims) -> Table {
    let (r, c) = (lcm(p.0, q.0), lcm(p.1, q.1));
    let mut table = vec![vec![None; p.0 * p.1]; r * c / (p.0 * p.1)];
    let mut next = vec![0; p.0 * p.1];
    for i in 0..r {
        for j in 0..c {
            let from = p.1 * (i % p.0) + j % p.1;
            table[next[from]][from] = Some(q.1 * (i % q.0) + j % q.1);
            next[from] += 1;
        }
    }
    table
}

/// C_Recv of section 3.4.1: derived from C_Send. If the number of ranks decreases, each destination
/// takes its messages in the order of C_Send, row by row.
fn c_recv(p: Dims, q: Dims) -> Table {
    let (r, c, ranks) = (lcm(p.0, q.0), lcm(p.1, q.1), q.0 * q.1);
    let grows = p.0 * p.1 < ranks;
    let mut table = vec![vec![None; ranks]; r * c / ranks.min(p.0 * p.1)];
    let mut next = vec![0; ranks];
    for (row, sends) in c_send(p, q).iter().enumerate() {
        for (from, to) in sends.iter().enumerate() {
            let to = to.expect("all sources send in each row");
            let row = if grows { row } else { next[to] };
            table[row][to] = Some(from);
            next[to] += 1;
        }
    }
    table
}

/// Returns true if a rank occurs twice in a row.
fn collides(table: &Table) -> bool {
    table.iter().any(|row| {
        let mut ranks: Vec<usize> = row.iter().flatten().copied().collect();
        ranks.sort_unstable();
        ranks.windows(2).any(|pair| pair[0] == pair[1])
    })
}

/// Returns true if following the published algorithm makes a rank send or receive twice in a step.
fn published_collides(p: Dims, q: Dims) -> bool {
    if p.0 * p.1 < q.0 * q.1 { collides(&c_send(p, q)) } else { collides(&c_recv(p, q)) }
}

fn grid(ranks: Ranks, dims: Dims, superblock: Dims) -> Distribution {
    Distribution::checkerboard(superblock, (1, 1), Grid::new(dims.0, dims.1), ranks)
        .expect("a grid of its ranks")
}

/// Our schedule over disjoint ranks, as a table of the steps of the old or the new ranks.
fn ours(p: Dims, q: Dims, sends: bool) -> Table {
    let superblock = (lcm(p.0, q.0), lcm(p.1, q.1));
    let (old, new) = (p.0 * p.1, q.0 * q.1);
    let from = grid(Ranks::first(old), p, superblock);
    let to = grid(Ranks::range(old..old + new), q, superblock);
    let schedule = Schedule::between(&from, &to, 1).expect("same shape");
    let ranks = if sends { 0..old } else { old..old + new };
    let mut table = vec![vec![None; ranks.len()]; schedule.steps()];
    for (column, rank) in ranks.enumerate() {
        for step in schedule.of(rank).steps() {
            let message = if sends { step.send() } else { step.receive() };
            let peer = message.map(|message| message.peer());
            table[step.number()][column] = if sends { peer.map(|peer| peer - old) } else { peer };
        }
    }
    table
}

fn rows(rows: &[[usize; 4]]) -> Table {
    rows.iter().map(|row| row.iter().copied().map(Some).collect()).collect()
}

#[test]
fn expansion_from_2x2_to_3x4_is_figure_3_2() {
    let golden = rows(&[
        [0, 1, 4, 5],
        [2, 3, 6, 7],
        [8, 9, 0, 1],
        [10, 11, 2, 3],
        [4, 5, 8, 9],
        [6, 7, 10, 11],
    ]);
    assert_eq!(c_send((2, 2), (3, 4)), golden);
    assert_eq!(ours((2, 2), (3, 4), true), golden);
    assert_eq!(ours((2, 2), (3, 4), false), c_recv((2, 2), (3, 4)));
    assert_eq!(c_recv((2, 2), (3, 4))[0][..6], [0, 1, 9, 9, 2, 3].map(|r| (r < 9).then_some(r)));
    // The contraction has the same table, read by the receivers.
    assert_eq!(c_recv((3, 4), (2, 2)), golden);
    assert_eq!(ours((3, 4), (2, 2), false), golden);
}

#[test]
fn step_counts_are_the_published_ones() {
    for (p, q, steps) in
        [((2, 2), (2, 3), 3), ((4, 4), (4, 5), 5), ((8, 8), (10, 10), 25), ((2, 2), (3, 4), 6)]
    {
        assert_eq!(ours(p, q, true).len(), steps);
        assert_eq!(ours(q, p, true).len(), steps);
    }
}

#[test]
fn ranks_on_both_sides_save_the_copying_step() {
    for (p, q, steps) in
        [((2, 2), (2, 3), 3), ((4, 4), (4, 5), 5), ((8, 8), (10, 10), 25), ((2, 2), (3, 4), 5)]
    {
        let superblock = (lcm(p.0, q.0), lcm(p.1, q.1));
        let old = grid(Ranks::first(p.0 * p.1), p, superblock);
        let new = grid(Ranks::first(q.0 * q.1), q, superblock);
        assert_eq!(Schedule::between(&old, &new, 8).expect("same shape").steps(), steps);
    }
}

/// The published tables are ours if both dimensions grow; if they shrink, ours is the table of the
/// expansion backwards, which also avoids the collisions of the published contractions.
#[test]
fn the_published_order_is_kept_where_it_has_no_contention() {
    let mut mended = 0;
    for_all_grids(5, |p, q| {
        if p.0 <= q.0 && p.1 <= q.1 && p != q {
            assert!(!published_collides(p, q));
            assert_eq!(ours(p, q, true), c_send(p, q));
            assert_eq!(ours(q, p, false), c_send(p, q));
            if published_collides(q, p) {
                mended += 1;
            } else if c_recv(q, p) == c_send(p, q) {
                assert_eq!(ours(q, p, false), c_recv(q, p));
            }
        }
    });
    assert!(mended > 0);
}

#[test]
fn colliding_contractions_and_mixed_grids_are_mended() {
    let cases = [
        ((4, 4), (3, 3)),
        ((3, 4), (2, 3)),
        ((8, 8), (5, 5)),
        ((1, 3), (2, 2)),
        ((2, 2), (1, 3)),
        ((4, 1), (2, 3)),
    ];
    for (p, q) in cases {
        assert!(published_collides(p, q), "{p:?} -> {q:?}");
        let (sends, receives) = (ours(p, q, true), ours(p, q, false));
        assert!(!collides(&sends) && !collides(&receives), "{p:?} -> {q:?}");
        let superblock = lcm(p.0, q.0) * lcm(p.1, q.1);
        assert_eq!(sends.len(), superblock / (p.0 * p.1).min(q.0 * q.1), "{p:?} -> {q:?}");
    }
}

/// Statements of the notes on the published algorithm, for all dimensions up to 6.
#[test]
fn the_published_algorithm_collides_where_it_is_said_to() {
    let (mut monotone, mut of_those) = (0, 0);
    for_all_grids(6, |p, q| {
        let (ranks, new_ranks) = (p.0 * p.1, q.0 * q.1);
        let grows = p.0 <= q.0 && p.1 <= q.1;
        let shrinks = p.0 >= q.0 && p.1 >= q.1;
        if ranks < new_ranks {
            assert_eq!(published_collides(p, q), !grows, "{p:?} -> {q:?}");
        } else if ranks > new_ranks {
            if shrinks {
                monotone += 1;
                of_those += usize::from(published_collides(p, q));
            } else {
                assert!(published_collides(p, q), "{p:?} -> {q:?}");
            }
        }
    });
    assert_eq!((monotone, of_those), (405, 15));
}

fn for_all_grids(most: usize, mut with: impl FnMut(Dims, Dims)) {
    for p in 0..most * most {
        for q in 0..most * most {
            with((p / most + 1, p % most + 1), (q / most + 1, q % most + 1));
        }
    }
}

#[test]
fn block_lists_are_those_of_section_3_4_2() {
    // 15 elements, 3 -> 5: rank 1 sends 1, 3, 1 to 1, 2, 3.
    let old = Distribution::block(15, Ranks::first(3)).expect("ranks");
    let new = Distribution::block(15, Ranks::range(3..8)).expect("ranks");
    let schedule = check(&old, &new, 8);
    let sends: Vec<(usize, usize)> = schedule
        .of(1)
        .steps()
        .iter()
        .filter_map(|step| step.send().map(|message| (message.peer() - 3, message.bytes() / 8)))
        .collect();
    assert_eq!(sends, [(1, 1), (2, 3), (3, 1)]);
    assert_eq!(schedule.steps(), 3);
    // Sizes are clipped: n = 5 over 4 ranks.
    let five = Distribution::block(5, Ranks::first(4)).expect("ranks");
    assert_eq!([0, 1, 2, 3].map(|rank| five.held(rank).1), [2, 2, 1, 0]);
}
