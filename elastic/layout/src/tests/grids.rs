//! All pairs of grids up to 8 x 8.

use super::*;

const MOST: usize = 8;

/// Step, sender, receiver, bytes.
type Sent = (usize, usize, usize, usize);

fn lcm(a: usize, b: usize) -> usize {
    (1..).map(|times| times * a).find(|multiple| multiple % b == 0).expect("there is one")
}

fn grids() -> impl Iterator<Item = Grid> {
    (1..=MOST).flat_map(|rows| (1..=MOST).map(move |columns| Grid::new(rows, columns)))
}

/// Checks the senders and receivers of each step, by the parts of all ranks. Panics if a message is
/// not expected, or if a rank sends or receives twice; a part has at most one step of a number.
fn check_steps(schedule: &Schedule) -> usize {
    let ranks = schedule.ranks();
    let mut sent: Vec<Sent> = Vec::new();
    let mut received: Vec<Sent> = Vec::new();
    let mut bytes = 0;
    for &rank in &ranks {
        let part = schedule.of(rank);
        bytes += part.kept().iter().map(Message::bytes).sum::<usize>();
        let mut numbers: Vec<usize> = part.steps().iter().map(Step::number).collect();
        numbers.dedup();
        assert_eq!(numbers.len(), part.steps().len());
        for step in part.steps() {
            if let Some(message) = step.send() {
                assert_ne!(message.peer(), rank);
                bytes += message.bytes();
                sent.push((step.number(), rank, message.peer(), message.bytes()));
            }
            if let Some(message) = step.receive() {
                received.push((step.number(), message.peer(), rank, message.bytes()));
            }
        }
    }
    sent.sort_unstable();
    received.sort_unstable();
    assert_eq!(sent, received);
    let (rows, columns) = schedule.before().shape();
    assert_eq!(bytes, rows * columns);
    let busiest = |pick: &dyn Fn(&Sent) -> usize| {
        let mut counts = vec![0; ranks.last().map_or(0, |last| last + 1)];
        sent.iter().for_each(|message| counts[pick(message)] += 1);
        counts.into_iter().max().unwrap_or(0)
    };
    busiest(&|message| message.1).max(busiest(&|message| message.2))
}

/// In periodic layouts each rank exchanges data with all of its possible peers.
#[test]
fn all_grids_have_no_contention_and_the_fewest_steps() {
    for old_grid in grids() {
        for new_grid in grids() {
            let shape =
                (lcm(old_grid.rows, new_grid.rows), lcm(old_grid.columns, new_grid.columns));
            let (p, q) = (old_grid.rows * old_grid.columns, new_grid.rows * new_grid.columns);
            let on = |grid, ranks| {
                Distribution::checkerboard(shape, (1, 1), grid, ranks).expect("a grid of its ranks")
            };
            let old = on(old_grid, Ranks::first(p));
            let disjoint = on(new_grid, Ranks::range(p..p + q));
            let schedule = Schedule::between(&old, &disjoint, 1).expect("same shape");
            assert_eq!(schedule.steps(), shape.0 * shape.1 / p.min(q), "{old_grid:?} {new_grid:?}");
            let same = Schedule::between(&old, &on(new_grid, Ranks::first(q)), 1).expect("same");
            assert_eq!(check_steps(&same), same.steps(), "{old_grid:?} {new_grid:?}");
            assert!(same.is_minimal());
        }
    }
}

/// With data, on a matrix that divides by none of the larger dimensions: there and back.
#[test]
fn every_element_arrives_once_and_comes_back_on_all_grids() {
    for old_grid in grids() {
        for new_grid in grids() {
            let (p, q) = (old_grid.rows * old_grid.columns, new_grid.rows * new_grid.columns);
            let on = |grid, ranks| {
                Distribution::checkerboard((7, 9), (1, 2), grid, ranks)
                    .expect("a grid of its ranks")
            };
            let old = on(old_grid, Ranks::first(p));
            // Ranks overlap in part.
            let new = on(new_grid, Ranks::range(p / 2..p / 2 + q));
            let there = Schedule::between(&old, &new, 1).expect("same shape");
            let back = Schedule::between(&new, &old, 1).expect("same shape");
            let before = filled(&old, 1);
            let mut between = blank(&new, 1);
            carry_out(&there, &before, &mut between, false);
            assert_eq!(between, filled(&new, 1), "{old_grid:?} -> {new_grid:?}");
            let mut after = blank(&old, 1);
            carry_out(&back, &between, &mut after, false);
            assert_eq!(after, before);
        }
    }
}

#[test]
fn blocks_that_miss_one_rank_take_a_step_less() {
    let cyclic = |block, ranks| Distribution::block_cyclic(6, block, ranks).expect("three ranks");
    let (old, new) = (cyclic(1, Ranks::first(3)), cyclic(2, Ranks::range(3..6)));
    assert_eq!(Schedule::between(&old, &new, 8).expect("same shape").steps(), 2);
}
