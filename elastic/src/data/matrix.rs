//! Sparse matrices in compressed rows (CSR): the rows of a rank, and their move to other ranks.

use std::ops::Range;
use std::sync::Arc;

use super::block::Block;
use super::carry::{Carry, Seats};
use super::message::DescribedMatrix;
use super::pieces::{Pieces, Refusal, reserved};

const WORD: usize = size_of::<u64>();

/// A matrix of the world, as this process holds it.
#[derive(Debug)]
pub(super) struct Matrix {
    pub described: DescribedMatrix,
    pub rows: MatrixRows,
    /// The rows after the resize under way.
    arrived: Option<MatrixRows>,
    /// Made with the first exchange after a resize.
    pub plan: Option<Vec<Arc<Neighbour>>>,
}

/// Rows of a rank.
#[derive(Debug)]
pub(super) struct MatrixRows {
    /// Number of the first row in the matrix, from 0.
    pub first: usize,
    /// Beginning of the elements of each row, and at the end of the last one, from the base.
    pub pointers: Vec<usize>,
    /// Index in a vector of the matrix of each element's column, from the base.
    pub columns: Vec<u32>,
    /// Numbers in the matrix of the ghost columns, ascending, from the base.
    pub ghosts: Vec<usize>,
    pub values: Block,
}

/// Elements of a vector that this rank sends to another one and receives from it.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Neighbour {
    pub rank: usize,
    /// Indices of the own elements that are ghosts on the other rank.
    pub sent: Vec<usize>,
    /// Indices of the ghosts that the other rank owns.
    pub received: Range<usize>,
}

/// Returns the rows of a rank: blocks of ⌈rows / ranks⌉, as in
/// [`Pattern::block`](super::Pattern::block).
pub(super) fn block_of(rows: usize, ranks: usize, rank: usize) -> Range<usize> {
    let each = rows.div_ceil(ranks.max(1));
    let begin = rank.saturating_mul(each).min(rows);
    begin..begin.saturating_add(each).min(rows)
}

fn common(one: &Range<usize>, other: &Range<usize>) -> Range<usize> {
    one.start.max(other.start)..one.end.min(other.end)
}

fn words(bytes: &[u8]) -> impl Iterator<Item = usize> + '_ {
    // Written from sizes of this machine, or of one like it.
    bytes.as_chunks().0.iter().map(|word| u64::from_ne_bytes(*word) as usize)
}

impl MatrixRows {
    /// Makes the rows of a rank, with columns as they are numbered in the matrix, from 0.
    pub fn new(
        described: &DescribedMatrix,
        own: &Range<usize>,
        pointers: Vec<usize>,
        columns: &[usize],
        values: Block,
    ) -> Result<Self, String> {
        let base = described.base;
        let mut ghosts: Vec<usize> =
            columns.iter().copied().filter(|column| !own.contains(column)).collect();
        ghosts.sort_unstable();
        ghosts.dedup();
        let most = own.len() + ghosts.len() + base;
        if i32::try_from(most).is_err() {
            return Err(format!("{most} columns on this rank are more than an int counts"));
        }
        let index = |column: &usize| {
            let index = if own.contains(column) {
                column - own.start
            } else {
                own.len() + ghosts.partition_point(|ghost| ghost < column)
            };
            (index + base) as u32
        };
        let columns = columns.iter().map(index).collect();
        ghosts.iter_mut().for_each(|ghost| *ghost += base);
        Ok(Self { first: own.start, pointers, columns, ghosts, values })
    }

    fn none(described: &DescribedMatrix) -> Self {
        let (columns, ghosts) = (Vec::new(), Vec::new());
        let pointers = vec![described.base];
        Self { first: 0, pointers, columns, ghosts, values: Block::nothing() }
    }

    /// Number of rows.
    pub fn count(&self) -> usize {
        self.pointers.len() - 1
    }

    /// Packs rows by their numbers in the matrix: number of elements of each row, columns as they are
    /// numbered in the matrix from 0, values.
    fn pack(&self, rows: &Range<usize>, described: &DescribedMatrix) -> Result<Vec<u8>, Refusal> {
        let (base, element) = (described.base, described.element);
        let pointers = &self.pointers[rows.start - self.first..=rows.end - self.first];
        let [Some(begin), Some(end)] = [pointers.first(), pointers.last()] else {
            return Ok(Vec::new());
        };
        let elements = begin - base..end - base;
        let mut packed = reserved(rows.len() * WORD + elements.len() * (WORD + element))?;
        let mut add = |word: usize| packed.extend((word as u64).to_ne_bytes());
        pointers.windows(2).for_each(|pair| add(pair[1] - pair[0]));
        for &column in &self.columns[elements.clone()] {
            let index = column as usize - base;
            let ghost = index.checked_sub(self.count());
            add(ghost.map_or(self.first + index, |ghost| self.ghosts[ghost] - base));
        }
        let values = self.values.bytes();
        packed.extend(&values[elements.start * element..elements.end * element]);
        Ok(packed)
    }
}

impl Matrix {
    pub fn new(described: DescribedMatrix, rows: MatrixRows) -> Self {
        Self { described, rows, arrived: None, plan: None }
    }

    /// Makes the matrix on a process that has no rows.
    pub fn without_rows(described: DescribedMatrix) -> Self {
        let rows = MatrixRows::none(&described);
        Self::new(described, rows)
    }

    /// Packs all rows of this rank.
    pub fn packed(&self) -> Result<Vec<u8>, Refusal> {
        let own = self.rows.first..self.rows.first + self.rows.count();
        self.rows.pack(&own, &self.described)
    }

    /// Returns the ranks among `old` ones that have rows of a rank among others.
    pub fn holders(&self, old: usize, (rank, size): (usize, usize)) -> Vec<usize> {
        let rows = self.described.rows;
        let own = block_of(rows, size, rank);
        let holds = |old_rank: &usize| !common(&own, &block_of(rows, old, *old_rank)).is_empty();
        (0..old).filter(holds).collect()
    }

    /// Returns rows for a rank among others, packed, from all packed rows of a rank among `old` ones.
    pub fn repacked(
        &self,
        packed: Vec<u8>,
        (old_rank, old): (usize, usize),
        (rank, size): (usize, usize),
    ) -> Result<Vec<u8>, String> {
        let mut there = Self::without_rows(self.described.clone());
        let seats = Seats {
            old_size: old,
            new_size: old,
            old_rank: Some(old_rank),
            new_rank: Some(old_rank),
        };
        there.take(&seats, vec![(old_rank, packed)])?;
        there.end_transfer(true);
        let rows = self.described.rows;
        let wanted = common(&block_of(rows, old, old_rank), &block_of(rows, size, rank));
        there.rows.pack(&wanted, &self.described).map_err(|refusal| refusal.to_string())
    }

    /// Number of ghost columns after the resize under way.
    pub fn next_ghosts(&self) -> usize {
        self.arrived.as_ref().map_or(0, |rows| rows.ghosts.len())
    }

    /// Returns the ghosts that each other rank owns: the rank, and their range among the ghosts.
    pub fn wanted(&self, ranks: usize) -> Vec<(usize, Range<usize>)> {
        let each = self.described.rows.div_ceil(ranks.max(1)).max(1);
        let mut wanted: Vec<(usize, Range<usize>)> = Vec::new();
        for (place, ghost) in self.rows.ghosts.iter().enumerate() {
            let owner = (ghost - self.described.base) / each;
            match wanted.last_mut() {
                Some((rank, range)) if *rank == owner => range.end = place + 1,
                _ => wanted.push((owner, place..place + 1)),
            }
        }
        wanted
    }

    /// Returns the message that asks for a range of ghosts: their indices in the owner's vector.
    pub fn question(&self, owner: usize, ghosts: &Range<usize>, ranks: usize) -> Vec<u8> {
        let begin = block_of(self.described.rows, ranks, owner).start + self.described.base;
        let indices = self.rows.ghosts[ghosts.clone()].iter().map(|ghost| ghost - begin);
        indices.flat_map(|index| (index as u64).to_ne_bytes()).collect()
    }

    /// Returns the neighbour that sent a question, or `None` if one of its indices is none of this
    /// rank's.
    pub fn asked(&self, rank: usize, question: &[u8], ghosts: Range<usize>) -> Option<Neighbour> {
        let (sent, own) = (words(question).collect::<Vec<_>>(), self.rows.count());
        let received = own + ghosts.start..own + ghosts.end;
        sent.iter().all(|&index| index < own).then_some(Neighbour { rank, sent, received })
    }
}

impl Carry for Matrix {
    fn give(&mut self, seats: &Seats) -> Result<Pieces, String> {
        let own = self.rows.first..self.rows.first + self.rows.count();
        let mut pieces = Vec::new();
        for rank in 0..seats.new_size {
            let rows = common(&own, &block_of(self.described.rows, seats.new_size, rank));
            if !rows.is_empty() {
                let packed = self.rows.pack(&rows, &self.described);
                pieces.push((rank, packed.map_err(|refusal| refusal.to_string())?));
            }
        }
        Ok(pieces)
    }

    fn take(&mut self, seats: &Seats, pieces: Pieces) -> Result<(), String> {
        let Some(rank) = seats.new_rank else { return Ok(()) };
        let DescribedMatrix { rows, element, base, .. } = self.described;
        let own = block_of(rows, seats.new_size, rank);
        let short = |refusal: Refusal| refusal.to_string();
        let mut pointers = reserved(own.len() + 1).map_err(short)?;
        pointers.push(base);
        let mut end = base;
        let mut parts = Vec::with_capacity(pieces.len());
        for (old, bytes) in &pieces {
            let count = common(&own, &block_of(rows, seats.old_size, *old)).len();
            let unfit = || format!("rank {old} has sent {} bytes, which are no rows", bytes.len());
            let (lengths, rest) = bytes.split_at_checked(count * WORD).ok_or_else(unfit)?;
            let before = end;
            for length in words(lengths) {
                end = end.checked_add(length).ok_or_else(unfit)?;
                pointers.push(end);
            }
            let (columns, values) =
                rest.split_at_checked((end - before).saturating_mul(WORD)).ok_or_else(unfit)?;
            if values.len() != (end - before) * element || words(columns).any(|it| it >= rows) {
                return Err(unfit());
            }
            parts.push((columns, values));
        }
        if pointers.len() != own.len() + 1 {
            return Err(format!("{} of {} rows have arrived", pointers.len() - 1, own.len()));
        }
        let mut columns = reserved(end - base).map_err(short)?;
        columns.extend(parts.iter().flat_map(|(columns, _)| words(columns)));
        let mut block = Block::new((end - base) * element).map_err(|error| error.to_string())?;
        let mut place = block.bytes_mut();
        for (_, values) in parts {
            let (part, rest) = place.split_at_mut(values.len());
            part.copy_from_slice(values);
            place = rest;
        }
        self.arrived = Some(MatrixRows::new(&self.described, &own, pointers, &columns, block)?);
        Ok(())
    }

    fn end_transfer(&mut self, committed: bool) {
        let arrived = self.arrived.take();
        if committed {
            self.rows = arrived.unwrap_or_else(|| MatrixRows::none(&self.described));
            self.plan = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a matrix of 7 rows: row i has i % 3 elements, in columns that pass its own.
    fn matrix(base: usize, ranks: usize, rank: usize) -> Matrix {
        let described = DescribedMatrix { name: "A".to_owned(), rows: 7, element: 8, base };
        let own = block_of(7, ranks, rank);
        let (mut pointers, mut columns, mut values) = (vec![base], Vec::new(), Vec::new());
        for row in own.clone() {
            for number in 0..row % 3 {
                columns.push((row + 3 * number) % 7);
                values.extend(((10 * row + number) as f64).to_ne_bytes());
            }
            pointers.push(base + columns.len());
        }
        let mut block = Block::new(values.len()).unwrap();
        block.bytes_mut().copy_from_slice(&values);
        let rows = MatrixRows::new(&described, &own, pointers, &columns, block).unwrap();
        Matrix::new(described, rows)
    }

    /// Moves a matrix from some ranks to others.
    fn moved(base: usize, old: usize, new: usize) -> Vec<Matrix> {
        let seats = |rank, next| Seats {
            old_size: old,
            new_size: new,
            old_rank: Some(rank),
            new_rank: next,
        };
        let given: Vec<_> = (0..old)
            .map(|rank| matrix(base, old, rank).give(&seats(rank, None)).unwrap())
            .collect();
        let take = |rank: usize| {
            let mut here = Matrix::without_rows(matrix(base, 1, 0).described);
            let pieces = given.iter().enumerate().flat_map(|(from, given)| {
                let mine = given.iter().filter(move |(to, _)| *to == rank);
                mine.map(move |(_, bytes)| (from, bytes.clone()))
            });
            here.take(&seats(0, Some(rank)), pieces.collect()).unwrap();
            here.end_transfer(true);
            here
        };
        (0..new).map(take).collect()
    }

    #[test]
    fn moved_rows_equal_rows_registered_on_new_ranks() {
        for (base, old, new) in [(0, 1, 3), (1, 3, 2), (0, 2, 7), (1, 7, 9), (0, 9, 1)] {
            for (rank, found) in moved(base, old, new).iter().enumerate() {
                let (found, right) = (&found.rows, matrix(base, new, rank).rows);
                assert_eq!(found.first, right.first, "{old} to {new}, {rank}");
                assert_eq!(found.pointers, right.pointers);
                assert_eq!(found.columns, right.columns);
                assert_eq!(found.ghosts, right.ghosts);
                assert_eq!(found.values.bytes(), right.values.bytes());
            }
        }
    }

    #[test]
    fn ghost_columns_are_those_of_other_ranks_once() {
        // Row 4 has column 4, row 5 has columns 5 and 1.
        let two = matrix(1, 2, 1);
        assert_eq!((two.rows.first, two.rows.count()), (4, 3));
        assert_eq!(two.rows.columns, [1, 2, 4]);
        assert_eq!(two.rows.ghosts, [2]);
        assert_eq!(two.wanted(2), [(0, 0..1)]);
        let question = two.question(0, &(0..1), 2);
        let asked = matrix(1, 2, 0).asked(1, &question, 0..0).unwrap();
        assert_eq!(asked, Neighbour { rank: 1, sent: vec![1], received: 4..4 });
        assert_eq!(matrix(1, 7, 0).asked(1, &question, 0..0), None);
    }

    #[test]
    fn aborted_move_keeps_rows_and_plan() {
        let mut here = matrix(0, 1, 0);
        let seats = Seats { old_size: 1, new_size: 2, old_rank: Some(0), new_rank: Some(0) };
        let pieces = here.give(&seats).unwrap();
        here.plan = Some(Vec::new());
        here.take(&seats, vec![(0, pieces[0].1.clone())]).unwrap();
        here.end_transfer(false);
        assert_eq!((here.rows.count(), here.plan.is_some(), here.next_ghosts()), (7, true, 0));
    }

    #[test]
    fn pieces_of_wrong_length_are_refused() {
        let mut here = matrix(0, 1, 0);
        let seats = Seats { old_size: 1, new_size: 1, old_rank: Some(0), new_rank: Some(0) };
        let piece = here.give(&seats).unwrap().remove(0).1;
        for wrong in [&piece[1..], &piece[..60], &piece[..9]] {
            let refused = here.take(&seats, vec![(0, wrong.to_vec())]).unwrap_err();
            assert!(refused.contains("which are no rows"), "{refused}");
        }
        assert!(here.take(&seats, Vec::new()).unwrap_err().starts_with("0 of 7 rows"));
    }
}
