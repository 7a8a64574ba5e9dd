//! Schedules for arrays that every rank holds in full.
//!
//! If the array is replicated before and after, staying ranks keep theirs. Joiners are served by
//! doubling: in each step every rank with the array gives it to one without, new ranks included,
//! which takes ⌈log2((holders + joiners) / holders)⌉ steps. If it is replicated only before, an
//! earlier rank takes its part from its own copy, and the other ranks are distributed over the
//! holders in turns.

use super::{Edge, Pair};

/// Returns true for joiners: new ranks that were not among the old ones.
fn joins(pair: Pair, new: usize) -> bool {
    pair.old.ranks.position(pair.new.ranks.at(new)).is_none()
}

fn holds_something(pair: Pair, new: usize) -> bool {
    let (rows, columns) = pair.new.held(pair.new.ranks.at(new));
    rows > 0 && columns > 0
}

/// Returns the new positions that need the array from other ranks, in order.
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

/// Returns the step in which the `index`-th rank to have the array gets it; `index` ≥ `holders`.
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

/// Returns all messages of the `giver`-th rank to have the array, given the joiners in order.
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
