//! Arrays that every rank holds in full.
//!
//! Replicated before and after: those who stay keep theirs. Those who join are served by doubling:
//! in each step everyone who has the array gives it to one who has not, new ranks too, which is
//! ⌈log2((holders + joiners) / holders)⌉ steps. Replicated only before: who was there takes its
//! part from its own copy, and the others are dealt out to the holders in turns.

use super::{Edge, Pair};

/// The joiners: new ranks that were not there before.
fn joins(pair: Pair, new: usize) -> bool {
    pair.old.ranks.position(pair.new.ranks.at(new)).is_none()
}

fn holds_something(pair: Pair, new: usize) -> bool {
    let (rows, columns) = pair.new.held(pair.new.ranks.at(new));
    rows > 0 && columns > 0
}

/// The new positions that need the array from others, in order.
fn needy(pair: Pair<'_>) -> impl Iterator<Item = usize> + '_ {
    (0..pair.new.ranks.len()).filter(move |&new| joins(pair, new) && holds_something(pair, new))
}

fn kept(pair: Pair, old: usize) -> Option<Edge> {
    let new = pair.new.ranks.position(pair.old.ranks.at(old))?;
    holds_something(pair, new).then_some(Edge { old, new, step: None, passed_on: false })
}

pub(super) fn deal_steps(pair: Pair) -> usize {
    needy(pair).count().div_ceil(pair.old.ranks.len())
}

pub(super) fn deal_sends(pair: Pair, old: usize) -> Vec<Edge> {
    let holders = pair.old.ranks.len();
    let edge = |(turn, new): (usize, usize)| {
        (turn % holders == old).then(|| Edge {
            old,
            new,
            step: Some(turn / holders),
            passed_on: false,
        })
    };
    needy(pair).enumerate().filter_map(edge).chain(kept(pair, old)).collect()
}

pub(super) fn deal_receives(pair: Pair, new: usize) -> Vec<Edge> {
    let holders = pair.old.ranks.len();
    let edge = |(turn, _): (usize, usize)| Edge {
        old: turn % holders,
        new,
        step: Some(turn / holders),
        passed_on: false,
    };
    needy(pair).enumerate().find(|&(_, needy)| needy == new).map(edge).into_iter().collect()
}

/// The step in which the one who is `index`-th to have the array gets it; `index` ≥ `holders`.
fn doubling_step(index: usize, holders: usize) -> usize {
    let mut step = 0;
    while index >= holders << (step + 1) {
        step += 1;
    }
    step
}

pub(super) fn double_steps(pair: Pair) -> usize {
    let holders = pair.old.ranks.len();
    match needy(pair).count() {
        0 => 0,
        joiners => doubling_step(holders + joiners - 1, holders) + 1,
    }
}

/// All messages of whoever is `giver`-th to have the array, given the joiners in order.
fn given(pair: Pair, giver: usize, joiners: &[usize]) -> Vec<Edge> {
    let holders = pair.old.ranks.len();
    let first = if giver < holders { 0 } else { doubling_step(giver, holders) + 1 };
    let (old, passed_on) = match giver.checked_sub(holders) {
        None => (giver, false),
        Some(joiner) => (joiners[joiner], true),
    };
    (first..)
        .map_while(|step| {
            let new = *joiners.get(giver + (holders << step) - holders)?;
            Some(Edge { old, new, step: Some(step), passed_on })
        })
        .collect()
}

pub(super) fn double_sends(pair: Pair, old: usize) -> Vec<Edge> {
    let joiners: Vec<usize> = needy(pair).collect();
    let mut edges = given(pair, old, &joiners);
    edges.extend(kept(pair, old));
    edges
}

pub(super) fn passed_on(pair: Pair, new: usize) -> Vec<Edge> {
    let joiners: Vec<usize> = needy(pair).collect();
    match joiners.iter().position(|&joiner| joiner == new) {
        Some(joiner) => given(pair, pair.old.ranks.len() + joiner, &joiners),
        None => Vec::new(),
    }
}

pub(super) fn double_receives(pair: Pair, new: usize) -> Vec<Edge> {
    let joiners: Vec<usize> = needy(pair).collect();
    let Some(joiner) = joiners.iter().position(|&joiner| joiner == new) else {
        return Vec::new();
    };
    let holders = pair.old.ranks.len();
    let step = doubling_step(holders + joiner, holders);
    let giver = holders + joiner - (holders << step);
    let (old, passed_on) = match giver.checked_sub(holders) {
        None => (giver, false),
        Some(earlier) => (joiners[earlier], true),
    };
    vec![Edge { old, new, step: Some(step), passed_on }]
}
