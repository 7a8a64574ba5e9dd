//! The published selection algorithm, followed exactly.
//!
//! In words: collect for each object the ordered set of ranks that have affinity to it, and the
//! ranks that are in all of these sets. If these are all ranks, no rank is effectively bound, and
//! the first `m` times the number of objects are selected. Otherwise the ranks that are in all sets
//! are skipped, and a rank is selected if it is among the first `m` of some set.
//!
//! Consequences of the exact rule are kept: a rank in two sets uses up a place in both; an object
//! whose first `m` ranks are all skipped or placed elsewhere stays empty; unbound ranks never fill.
//! With a single object every rank that can use it is in "all" sets, so bound and unbound ranks are
//! treated alike unless some rank cannot use the object: then no rank is selected at all.
//!
//! The algorithm names the selected ranks, not their objects. A rank's object is the first one in
//! which it qualifies. If no rank is effectively bound, rank `u` gets object `u` modulo the number
//! of objects: within `m` per object, and spread if there are few ranks.

use super::compatibility::Compatibility;

pub(super) fn select(
    compatible: &Compatibility,
    ranks: usize,
    objects: usize,
    max_per_object: usize,
) -> Vec<Option<usize>> {
    let everywhere = |rank: usize| compatible.degree(rank) == objects;
    if (0..ranks).all(everywhere) {
        let selected = objects.saturating_mul(max_per_object);
        return (0..ranks).map(|rank| (rank < selected).then_some(rank % objects)).collect();
    }
    let mut object_of = vec![None; ranks];
    for object in 0..objects {
        let first =
            (0..ranks).filter(|&rank| compatible.contains(rank, object)).take(max_per_object);
        for rank in first.filter(|&rank| !everywhere(rank)) {
            object_of[rank].get_or_insert(object);
        }
    }
    object_of
}
