//! Intersection of a part of one distribution and a part of another, without listing it.
//!
//! Two combs of blocks meet in a pattern that repeats with the least common multiple of their
//! strides, so a few [`Family`] values describe an array of any size. This is the idea of the line
//! segments of PITFALLS, which the dissertation cites (section 3.2).

use super::axis::{Progression, common_divisor, least_multiple};

/// Runs of equal length at equal distances, in two levels. No run crosses the end of a block of
/// either side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Family {
    /// Beginning of the first run, within the old and the new part.
    pub old: Position,
    pub new: Position,
    /// Indices in a run.
    pub length: usize,
    /// The inner level passes through the blocks of one side within a block of the other.
    pub inner: Repeat,
    /// The outer level repeats the pattern.
    pub outer: Repeat,
}

/// A position or a distance within a part: whole blocks and elements. The two are kept apart
/// because in tiled memory each has its own stride.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Position {
    pub blocks: usize,
    pub elements: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Repeat {
    pub count: usize,
    pub old: Position,
    pub new: Position,
}

const ONCE: Repeat = Repeat {
    count: 1,
    old: Position { blocks: 0, elements: 0 },
    new: Position { blocks: 0, elements: 0 },
};

impl Family {
    pub fn indices(&self) -> usize {
        self.length * self.inner.count * self.outer.count
    }

    /// Number of its subdivisions of at most `most` indices, at least one.
    pub fn part_count(&self, most: usize) -> usize {
        let pattern = self.length * self.inner.count;
        if pattern <= most {
            self.outer.count.div_ceil(most / pattern)
        } else if self.length <= most {
            self.outer.count * self.inner.count.div_ceil(most / self.length)
        } else {
            self.outer.count * self.inner.count * self.length.div_ceil(most.max(1))
        }
    }

    /// Returns one of these subdivisions.
    pub fn part(&self, most: usize, number: usize) -> Self {
        let pattern = self.length * self.inner.count;
        if pattern <= most {
            let first = number * (most / pattern);
            let mut part = self.moved(&self.outer, first);
            part.outer.count = (most / pattern).min(self.outer.count - first);
            return part;
        }
        let each = self.part_count(most) / self.outer.count;
        let once = Self { outer: ONCE, ..self.moved(&self.outer, number / each) };
        let number = number % each;
        if self.length <= most {
            let first = number * (most / self.length);
            let mut part = once.moved(&self.inner, first);
            part.inner.count = (most / self.length).min(self.inner.count - first);
            return part;
        }
        let most = most.max(1);
        let each = self.length.div_ceil(most);
        let run = Self { inner: ONCE, ..once.moved(&self.inner, number / each) };
        let first = number % each * most;
        let step = Position { blocks: 0, elements: 1 };
        let elements = Repeat { count: self.length, old: step, new: step };
        Self { length: most.min(self.length - first), ..run.moved(&elements, first) }
    }

    /// Returns the same family moved by `turns` repetitions.
    fn moved(&self, by: &Repeat, turns: usize) -> Self {
        let further = |at: Position, step: Position| Position {
            blocks: at.blocks + turns * step.blocks,
            elements: at.elements + turns * step.elements,
        };
        Self { old: further(self.old, by.old), new: further(self.new, by.new), ..*self }
    }
}

impl Progression {
    fn at(&self, index: usize) -> Position {
        let offset = index - self.first;
        Position { blocks: offset / self.stride, elements: offset % self.stride }
    }
}

/// Returns the indices that both parts hold. Both ends of a message compute the same list in the
/// same order.
pub(super) fn meet(old: &Progression, new: &Progression) -> Vec<Family> {
    let mut families = Vec::new();
    if old.is_empty() || new.is_empty() {
        return families;
    }
    let end = old.end;
    let period = least_multiple(old.stride, new.stride).filter(|&period| period < end);
    let window = period.unwrap_or(end);
    let divisor = common_divisor(old.stride, new.stride);
    // Overlapping blocks are less than a block apart, and their distance is known modulo `divisor`.
    let distances = (old.block + new.block) / divisor + 1;
    if distances < old.blocks_below(window).min(new.blocks_below(window)) {
        by_distance(old, new, divisor, &mut families);
        return families;
    }
    let Some(period) = period else {
        by_blocks(old, new, 0, end, ONCE, &mut families);
        return families;
    };
    let whole = end / period;
    let repeat = Repeat {
        count: whole,
        old: Position { blocks: period / old.stride, elements: 0 },
        new: Position { blocks: period / new.stride, elements: 0 },
    };
    by_blocks(old, new, 0, period, repeat, &mut families);
    if whole * period < end {
        by_blocks(old, new, whole * period, end, ONCE, &mut families);
    }
    families
}

/// Walks over the blocks of the side with fewer of them in `low..high`, which begins at a multiple
/// of both strides.
fn by_blocks(
    old: &Progression,
    new: &Progression,
    low: usize,
    high: usize,
    outer: Repeat,
    out: &mut Vec<Family>,
) {
    let old_walks = old.blocks_below(high) - old.blocks_below(low)
        <= new.blocks_below(high) - new.blocks_below(low);
    let (walked, met) = if old_walks { (old, new) } else { (new, old) };
    // Successive runs are one block apart on the side that is met, and one stride of that side
    // apart within the same block of the side that is walked.
    let inside = Position { blocks: 0, elements: met.stride };
    let across = Position { blocks: 1, elements: 0 };
    let mut push = |start: usize, length: usize, count: usize| {
        let (inner_old, inner_new) = if old_walks { (inside, across) } else { (across, inside) };
        let inner =
            if count == 1 { ONCE } else { Repeat { count, old: inner_old, new: inner_new } };
        out.push(Family { old: old.at(start), new: new.at(start), length, inner, outer });
    };
    for number in walked.blocks_below(low)..walked.blocks_below(high) {
        let (start, end) = walked.block_at(number);
        let end = end.min(high);
        let mut index = met.block_after(start);
        let last = met.blocks_below(end);
        while index < last {
            let (low, high) = met.block_at(index);
            let (from, to) = (low.max(start), high.min(end));
            let mut count = 1;
            if to - from == met.block {
                // Handles all whole blocks at once.
                let room = end - from;
                count = (room - met.block) / met.stride + 1;
                count = count.min(last - index);
            }
            push(from, to - from, count);
            index += count;
        }
    }
}

/// For each distance at which two blocks overlap, finds the first place with that distance by a
/// pair of congruences. The place repeats with the period.
fn by_distance(old: &Progression, new: &Progression, divisor: usize, out: &mut Vec<Family>) {
    let (old_stride, new_stride) = (wide(old.stride), wide(new.stride));
    let (step, end) = (wide(divisor), wide(old.end));
    let period = old_stride / step * new_stride;
    let inverse = inverse(old_stride / step, new_stride / step);
    let apart = wide(new.first) - wide(old.first);
    // The least distance above -new.block that is congruent.
    let least = 1 - wide(new.block);
    let mut distance = least + (apart - least).rem_euclid(step);
    while distance < wide(old.block) {
        // old.first + k * old_stride + distance = new.first (modulo new_stride)
        let turns = ((apart - distance) / step * inverse).rem_euclid(new_stride / step);
        let block = wide(old.first) + turns * old_stride;
        let start = block + distance.max(0);
        let length = wide(old.block).min(distance + wide(new.block)) - distance.max(0);
        if start < end {
            let whole = if start + length <= end { (end - start - length) / period + 1 } else { 0 };
            let mut push = |start: i128, length: i128, outer: Repeat| {
                let start = narrow(start);
                let (old, new) = (old.at(start), new.at(start));
                out.push(Family { old, new, length: narrow(length), inner: ONCE, outer });
            };
            if whole > 0 {
                let across = |stride| Position { blocks: narrow(period / stride), elements: 0 };
                let outer = Repeat {
                    count: narrow(whole),
                    old: across(old_stride),
                    new: across(new_stride),
                };
                push(start, length, if whole == 1 { ONCE } else { outer });
            }
            let rest = start + whole * period;
            if rest < end {
                push(rest, end - rest, ONCE);
            }
        }
        distance += step;
    }
}

/// Converts to 128 bits, which products of two strides need.
pub(super) fn wide(number: usize) -> i128 {
    i128::try_from(number).unwrap_or(i128::MAX)
}

/// Converts back a number that is known to be an index.
pub(super) fn narrow(number: i128) -> usize {
    usize::try_from(number).unwrap_or(0)
}

/// Returns the inverse of a number modulo another, to which it is coprime.
pub(super) fn inverse(number: i128, modulus: i128) -> i128 {
    let (mut rest, mut next) = (modulus, number.rem_euclid(modulus));
    let (mut factor, mut following) = (0, 1);
    while next != 0 {
        let quotient = rest / next;
        (rest, next) = (next, rest - quotient * next);
        (factor, following) = (following, factor - quotient * following);
    }
    factor.rem_euclid(modulus)
}

#[cfg(test)]
mod tests {
    use super::super::axis::Axis;
    use super::*;
    use proptest::prelude::*;

    fn listed(
        comb: &Progression,
        from: impl Fn(&Family) -> (Position, Position, Position),
        family: &Family,
    ) -> Vec<usize> {
        let (start, inner, outer) = from(family);
        let index = |at: Position| comb.first + at.blocks * comb.stride + at.elements;
        let mut all = Vec::new();
        for o in 0..family.outer.count {
            for i in 0..family.inner.count {
                for e in 0..family.length {
                    all.push(index(Position {
                        blocks: start.blocks + i * inner.blocks + o * outer.blocks,
                        elements: start.elements + i * inner.elements + o * outer.elements + e,
                    }));
                }
            }
        }
        all
    }

    fn check(old: &Axis, new: &Axis) -> Result<(), TestCaseError> {
        for a in 0..old.parts() {
            let mut partners = Vec::new();
            for b in 0..new.parts() {
                let (x, y) = (old.comb(a), new.comb(b));
                let mut found = Vec::new();
                for family in meet(&x, &y) {
                    let ours = listed(&x, |f| (f.old, f.inner.old, f.outer.old), &family);
                    let theirs = listed(&y, |f| (f.new, f.inner.new, f.outer.new), &family);
                    prop_assert_eq!(&ours, &theirs, "both sides mean the same elements");
                    prop_assert_eq!(ours.len(), family.indices());
                    prop_assert!(!ours.is_empty(), "no family is empty");
                    found.extend(ours);
                }
                found.sort_unstable();
                let expected: Vec<usize> = (0..old.extent())
                    .filter(|&index| old.place(index).0 == a && new.place(index).0 == b)
                    .collect();
                if !expected.is_empty() {
                    partners.push(b);
                }
                prop_assert_eq!(found, expected);
            }
            prop_assert_eq!(new.parts_meeting(&old.comb(a)), partners);
        }
        Ok(())
    }

    pub(crate) fn axis(extent: usize) -> impl Strategy<Value = Axis> {
        prop_oneof![
            (1..9usize, 1..8usize).prop_map(move |(block, parts)| Axis::Cyclic {
                extent,
                block,
                parts
            }),
            (1..20usize).prop_map(move |parts| Axis::blocks(extent, parts)),
            prop::collection::vec(0..=extent, 0..6).prop_map(move |mut cuts| {
                cuts.extend([0, extent]);
                cuts.sort_unstable();
                Axis::Cuts(cuts.into())
            }),
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn parts_meet_in_what_both_hold((old, new) in (0..160usize).prop_flat_map(|n| (axis(n), axis(n)))) {
            check(&old, &new)?;
        }
    }

    /// Small axes of all kinds.
    fn small(extent: usize) -> Vec<Axis> {
        let cyclic = (1..4).flat_map(|block| {
            [1, 2, 3, 6, 10].map(move |parts| Axis::Cyclic { extent, block, parts })
        });
        let mut all: Vec<Axis> = cyclic.collect();
        all.extend([1, 4, 7].map(|parts| Axis::blocks(extent, parts)));
        for cuts in [[0, 0, extent / 2], [0, extent / 3, extent / 3], [0, extent / 4, extent]] {
            let cuts: Vec<usize> = cuts.into_iter().chain([extent]).collect();
            all.push(Axis::Cuts(cuts.into()));
        }
        all
    }

    #[test]
    fn small_axes_meet_in_what_both_hold() {
        for extent in [0, 1, 7, 60, 73] {
            for old in small(extent) {
                for new in small(extent) {
                    check(&old, &new).unwrap();
                }
            }
        }
    }

    #[test]
    fn parts_of_a_family_add_up_within_the_size() {
        let old = Axis::Cyclic { extent: 400, block: 3, parts: 4 };
        for new in [
            Axis::Cyclic { extent: 400, block: 3, parts: 10 },
            Axis::Cyclic { extent: 400, block: 1, parts: 2 },
            Axis::blocks(400, 3),
        ] {
            let (x, y) = (old.comb(1), new.comb(1));
            for family in meet(&x, &y) {
                let whole = listed(&x, |f| (f.old, f.inner.old, f.outer.old), &family);
                for most in [1, 2, 3, 4, 7, 12, 30, 1_000] {
                    let parts = (0..family.part_count(most)).map(|part| family.part(most, part));
                    let mut found = Vec::new();
                    for part in parts {
                        assert!((1..=most).contains(&part.indices()), "{most} {part:?}");
                        found.extend(listed(&x, |f| (f.old, f.inner.old, f.outer.old), &part));
                    }
                    assert_eq!(found, whole, "{most} {family:?}");
                }
            }
        }
    }

    #[test]
    fn a_description_does_not_grow_with_the_array() {
        for extent in [10_000, 1_000_000_000, 100_000_000_000_000] {
            let old = Axis::Cyclic { extent, block: 64, parts: 6 };
            let new = Axis::Cyclic { extent, block: 64, parts: 10 };
            assert!(meet(&old.comb(1), &new.comb(3)).len() <= 2);
            let other = Axis::Cyclic { extent, block: 48, parts: 10 };
            assert!(meet(&old.comb(1), &other.comb(3)).len() <= 8);
            // Single elements in turns against one long block.
            let fine = Axis::Cyclic { extent, block: 1, parts: 4 };
            assert!(meet(&fine.comb(1), &Axis::blocks(extent, 7).comb(3)).len() <= 3);
        }
    }

    #[test]
    fn a_hundred_thousand_parts_meet_without_walking_through_their_blocks() {
        let extent = 1 << 50;
        let old = Axis::Cyclic { extent, block: 8, parts: 100_000 };
        let new = Axis::Cyclic { extent, block: 8, parts: 100_003 };
        assert_eq!(meet(&old.comb(99_999), &new.comb(0)).len(), 1);
    }
}
