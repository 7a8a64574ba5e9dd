//! Ghost cells around the block of a part, along one dimension.

use serde::{Deserialize, Serialize};

use super::axis::Axis;

/// Ghost cells along one dimension of an array: how many lie before and after the block of a rank
/// in its memory, and what they are at the ends of the dimension.
///
/// Inside the array, and everywhere if the dimension is periodic, ghost cells are copies of cells of
/// other ranks, which an exchange brings up to date. At the ends of a dimension that is not periodic
/// they are the edge of the array: the first and the last rank own them, they keep their values,
/// and a redistribution moves them with the block.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Halo {
    /// Number of ghost cells before the block.
    pub before: usize,
    /// Number of ghost cells after the block.
    pub after: usize,
    /// True if the last cell of the dimension is followed by the first one.
    pub periodic: bool,
}

/// Cells of a rank along one dimension, and the ghost cells around them in its memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Span {
    /// Index in the array of the first cell of the block, without the edge.
    pub first: usize,
    /// Number of cells of the block, without the edge.
    pub count: usize,
    /// Number of cells before the block in memory.
    pub before: usize,
    /// Number of cells after the block in memory.
    pub after: usize,
}

/// Cells next to each other in the memory of a part, and the part that owns them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Segment {
    /// Index of the first one in the memory of the part.
    pub start: usize,
    pub length: usize,
    pub owner: usize,
    /// Index of the first one in the memory of the owner.
    pub source: usize,
    /// True for the cells that the part owns, false for copies.
    pub owned: bool,
}

impl Halo {
    /// Makes no ghost cells.
    pub const NONE: Self = Self { before: 0, after: 0, periodic: false };

    /// Makes `width` ghost cells on both sides, which at the ends are the edge of the array.
    #[must_use]
    pub const fn edge(width: usize) -> Self {
        Self { before: width, after: width, periodic: false }
    }

    /// Makes `width` ghost cells on both sides of a periodic dimension.
    #[must_use]
    pub const fn periodic(width: usize) -> Self {
        Self { before: width, after: width, periodic: true }
    }

    /// Returns the number of edge cells before the first and after the last cell of the dimension.
    #[must_use]
    pub const fn edges(&self) -> (usize, usize) {
        if self.periodic { (0, 0) } else { (self.before, self.after) }
    }

    /// Divides `extent` cells and the edge among parts: as equally as possible, the first parts have
    /// one cell more. `None` if the number of cells does not fit into an address.
    pub(super) fn divide(&self, extent: usize, parts: usize) -> Option<Axis> {
        let (low, high) = self.edges();
        let whole = extent.checked_add(low)?.checked_add(high)?;
        let (each, more) = (extent / parts, extent % parts);
        let cut = |part: usize| match part * each + part.min(more) {
            0 => 0,
            at if at == extent => whole,
            at => low + at,
        };
        Some(Axis::Cuts((0..=parts).map(cut).collect()))
    }

    /// Returns the number of cells before and after the owned cells of a part in its memory.
    pub(super) fn margins(&self, axis: &Axis, part: usize) -> (usize, usize) {
        let comb = axis.comb(part);
        if comb.is_empty() {
            return (0, 0);
        }
        let is_first = !self.periodic && comb.first == 0;
        let is_last = !self.periodic && comb.first + comb.block >= axis.extent();
        (if is_first { 0 } else { self.before }, if is_last { 0 } else { self.after })
    }

    /// Returns the number of cells of a part in its memory.
    pub(super) fn room(&self, axis: &Axis, part: usize) -> usize {
        let (before, after) = self.margins(axis, part);
        axis.held(part).saturating_add(before).saturating_add(after)
    }

    /// Returns the block of a part and the cells around it.
    pub(super) fn span(&self, axis: &Axis, part: usize) -> Span {
        let owned = axis.held(part);
        if owned == 0 {
            return Span::default();
        }
        let first = axis.comb(part).first;
        let (before, after) = self.margins(axis, part);
        Span {
            first: if self.periodic { first } else { first - before },
            count: owned + before + after - self.before - self.after,
            before: self.before,
            after: self.after,
        }
    }

    /// Returns all cells in the memory of a part, in order, by owner.
    pub(super) fn segments(&self, axis: &Axis, part: usize) -> Vec<Segment> {
        let (extent, comb) = (axis.extent(), axis.comb(part));
        let mut segments = Vec::new();
        if comb.is_empty() {
            return segments;
        }
        let (before, after) = self.margins(axis, part);
        let mut copies = |mut start: usize, mut index: usize, mut left: usize| {
            while left > 0 {
                let (owner, offset) = axis.place(index % extent);
                let length = left.min(axis.held(owner) - offset);
                let source = self.margins(axis, owner).0 + offset;
                segments.push(Segment { start, length, owner, source, owned: false });
                (start, index, left) = (start + length, index + length, left - length);
            }
        };
        // A wide periodic halo may hold a cell several times.
        let turns = before.div_ceil(extent) * extent;
        copies(0, comb.first + turns - before, before);
        copies(before + comb.block, comb.first + comb.block, after);
        segments.push(Segment {
            start: before,
            length: comb.block,
            owner: part,
            source: before,
            owned: true,
        });
        segments.sort_by_key(|segment| segment.start);
        segments
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn edges_belong_to_the_first_and_the_last_part() {
        let halo = Halo { before: 1, after: 2, periodic: false };
        let axis = halo.divide(10, 3).unwrap();
        assert_eq!((0..3).map(|part| axis.held(part)).collect::<Vec<_>>(), [5, 3, 5]);
        let spans = [0, 1, 2].map(|part| halo.span(&axis, part));
        assert_eq!(spans.map(|span| (span.first, span.count)), [(0, 4), (4, 3), (7, 3)]);
        assert_eq!([0, 1, 2].map(|part| halo.room(&axis, part)), [7, 6, 6]);
    }

    #[test]
    fn parts_without_cells_have_no_memory() {
        for halo in [Halo::edge(2), Halo::periodic(2)] {
            let axis = halo.divide(3, 5).unwrap();
            let rooms = [0, 1, 2, 3, 4].map(|part| halo.room(&axis, part));
            assert_eq!(rooms, [5, 5, 5, 0, 0], "{halo:?}");
        }
        assert_eq!(Halo::edge(1).divide(0, 2).unwrap().extent(), 0);
    }

    #[test]
    fn segments_cover_the_memory_with_the_right_cells() {
        for halo in [
            Halo::edge(1),
            Halo::periodic(3),
            Halo { before: 0, after: 4, periodic: true },
            Halo { before: 2, after: 0, periodic: false },
            Halo::periodic(9),
        ] {
            for (extent, parts) in [(1, 1), (4, 1), (4, 3), (9, 4), (3, 5), (20, 3)] {
                let axis = halo.divide(extent, parts).unwrap();
                for part in 0..parts {
                    let (span, mut at) = (halo.span(&axis, part), 0);
                    for segment in halo.segments(&axis, part) {
                        assert_eq!(segment.start, at, "{halo:?} {extent} {parts}");
                        for cell in 0..segment.length {
                            // Global index, 0 for the first cell that is no edge.
                            let here = (at + cell + span.first) as isize - span.before as isize;
                            let other = halo.span(&axis, segment.owner);
                            let there = (segment.source + cell + other.first) as isize
                                - other.before as isize;
                            let apart = here - there;
                            let same = if halo.periodic { apart % extent as isize } else { apart };
                            assert_eq!(same, 0, "{halo:?} {extent} {parts} {part} {segment:?}");
                        }
                        assert!(segment.owned == (segment.source == at && segment.owner == part));
                        at += segment.length;
                    }
                    assert_eq!(at, halo.room(&axis, part));
                }
            }
        }
    }
}
