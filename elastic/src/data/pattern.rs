//! Pattern of an array: its layout on any number of ranks.

use serde::{Deserialize, Serialize};

use crate::layout::{Distribution, Grid, Halo, LayoutError, Order, Ranks, Storage};

/// Process grid for any number of ranks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Grids {
    /// As nearly square as possible, with no more rows than columns: 6 ranks are 2 × 3, 7 are 1 ×
    /// 7.
    #[default]
    NearlySquare,
    /// This grid, for as many ranks as it has places; other numbers of ranks are an error until
    /// [`Registry::lay_out`](super::Registry::lay_out) sets the next grid.
    Fixed(Grid),
}

impl Grids {
    /// Returns the grid for `ranks` ranks.
    ///
    /// ```
    /// use elastic::data::Grids;
    /// use elastic::layout::Grid;
    /// let shapes = [1, 4, 6, 7].map(|ranks| Grids::NearlySquare.of(ranks));
    /// assert_eq!(shapes, [(1, 1), (2, 2), (2, 3), (1, 7)].map(|(rows, columns)| Grid::new(rows, columns)));
    /// ```
    #[must_use]
    pub fn of(self, ranks: usize) -> Grid {
        match self {
            Self::Fixed(grid) => grid,
            Self::NearlySquare => {
                let ranks = ranks.max(1);
                let rows = largest_divisor(ranks, ranks.isqrt());
                Grid { rows, columns: ranks / rows, order: Order::RowMajor }
            }
        }
    }
}

/// Returns the largest divisor of a number that is at most `most`.
fn largest_divisor(number: usize, most: usize) -> usize {
    (1..=most).rev().find(|divisor| number.is_multiple_of(*divisor)).unwrap_or(1)
}

/// Returns the layers, rows and columns of a grid of ranks: where `grid` has zeros, nearly a cube
/// or a square over the dimensions with more than one cell, the most along columns.
fn grid_for(ranks: usize, grid: [usize; 3], shape: [usize; 3]) -> [usize; 3] {
    let fixed: usize = grid.iter().filter(|&&along| along > 0).product();
    let mut rest = ranks / fixed.max(1);
    let mut open: Vec<usize> =
        (0..3).filter(|&along| grid[along] == 0 && shape[along] > 1).collect();
    if open.is_empty() {
        open.extend((0..3).rev().find(|&along| grid[along] == 0));
    }
    let mut found = grid.map(|along| along.max(1));
    while let Some((&along, others)) = open.split_first() {
        let most = match others.len() {
            0 => rest,
            1 => rest.isqrt(),
            _ => (1..=rest).take_while(|edge| edge.pow(3) <= rest).last().unwrap_or(1),
        };
        found[along] = largest_divisor(rest, most);
        rest /= found[along];
        open.remove(0);
    }
    found
}

/// Elements of an array, and their distribution: a [`Distribution`] for any number of ranks.
///
/// ```
/// use elastic::data::{Grids, Pattern};
/// use elastic::layout::{Ranks, Storage};
/// let matrix = Pattern::checkerboard((100, 80), (8, 8), Grids::NearlySquare).stored(Storage::Columns);
/// assert_eq!(matrix.over(Ranks::first(6))?.held(0), (52, 32));
/// assert_eq!(matrix.over(Ranks::first(1))?.held(0), (100, 80));
/// # Ok::<(), elastic::layout::LayoutError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Pattern {
    kind: Kind,
    storage: Storage,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
enum Kind {
    Block { elements: usize },
    BlockCyclic { elements: usize, block: usize },
    BlockRows { rows: usize, columns: usize },
    BlockColumns { rows: usize, columns: usize },
    BlockGrid { shape: (usize, usize), grids: Grids },
    Checkerboard { shape: (usize, usize), block: (usize, usize), grids: Grids },
    Replicated { rows: usize, columns: usize },
    Halo { shape: [usize; 3], halo: [Halo; 3], grid: [usize; 3] },
}

impl Pattern {
    const fn new(kind: Kind) -> Self {
        Self { kind, storage: Storage::Rows }
    }

    /// A vector in one block for each rank: [`Distribution::block`].
    #[must_use]
    pub const fn block(elements: usize) -> Self {
        Self::new(Kind::Block { elements })
    }

    /// A vector distributed element by element.
    #[must_use]
    pub const fn cyclic(elements: usize) -> Self {
        Self::block_cyclic(elements, 1)
    }

    /// A vector distributed in blocks: [`Distribution::block_cyclic`].
    #[must_use]
    pub const fn block_cyclic(elements: usize, block: usize) -> Self {
        Self::new(Kind::BlockCyclic { elements, block })
    }

    /// A matrix in one block of rows for each rank: [`Distribution::block_rows`].
    #[must_use]
    pub const fn block_rows(rows: usize, columns: usize) -> Self {
        Self::new(Kind::BlockRows { rows, columns })
    }

    /// A matrix in one block of columns for each rank: [`Distribution::block_columns`].
    #[must_use]
    pub const fn block_columns(rows: usize, columns: usize) -> Self {
        Self::new(Kind::BlockColumns { rows, columns })
    }

    /// A matrix of (rows, columns) in one block for each place of a grid: [`Distribution::block_grid`].
    #[must_use]
    pub const fn block_grid(shape: (usize, usize), grids: Grids) -> Self {
        Self::new(Kind::BlockGrid { shape, grids })
    }

    /// A matrix of (rows, columns) in blocks of (rows, columns), distributed over a grid:
    /// [`Distribution::checkerboard`].
    #[must_use]
    pub const fn checkerboard(shape: (usize, usize), block: (usize, usize), grids: Grids) -> Self {
        Self::new(Kind::Checkerboard { shape, block, grids })
    }

    /// A vector of which every rank has a full copy: [`Distribution::replicated`]. Elements that
    /// one rank has changed alone keep their values there: a joiner gets the values of the ranks
    /// that send to it.
    #[must_use]
    pub const fn replicated(elements: usize) -> Self {
        Self::new(Kind::Replicated { rows: 1, columns: elements })
    }

    /// An array of layers, rows and columns in one block for each place of a grid of ranks, with ghost
    /// cells around each block: [`Distribution::halo`]. The grid follows the number of ranks: nearly
    /// a cube or a square over the dimensions with more than one cell.
    /// [`World::exchange_halo`](crate::World::exchange_halo) fills the ghost cells; a resize moves the
    /// cells and the edge of the array only, and other ghost cells are zero afterwards.
    ///
    /// ```
    /// use elastic::data::Pattern;
    /// use elastic::layout::{Halo, Ranks};
    /// let cells = Pattern::halo([1, 100, 80], [Halo::NONE, Halo::edge(1), Halo::edge(1)]);
    /// let [_, rows, columns] = cells.over(Ranks::first(6))?.spans(5);
    /// assert_eq!((rows.first, rows.count, columns.first, columns.count), (50, 50, 54, 26));
    /// # Ok::<(), elastic::layout::LayoutError>(())
    /// ```
    #[must_use]
    pub const fn halo(shape: [usize; 3], halo: [Halo; 3]) -> Self {
        Self::new(Kind::Halo { shape, halo, grid: [0; 3] })
    }

    /// Returns the pattern of [`halo`](Self::halo) with this many layers, rows and columns of ranks;
    /// 0 for a number that follows from the number of ranks. No effect on other patterns.
    #[must_use]
    pub const fn on_grid(self, grid: [usize; 3]) -> Self {
        match self.kind {
            Kind::Halo { shape, halo, .. } => {
                Self { kind: Kind::Halo { shape, halo, grid }, ..self }
            }
            _ => self,
        }
    }

    /// Returns the pattern with another storage order of each rank's part.
    #[must_use]
    pub const fn stored(self, storage: Storage) -> Self {
        Self { storage, ..self }
    }

    /// Rows, of all layers, and columns, with the edge of the array; a vector has one row.
    #[must_use]
    pub const fn shape(&self) -> (usize, usize) {
        match self.kind {
            Kind::Halo { shape, halo, .. } => {
                let mut along = 0;
                let mut whole = shape;
                while along < 3 {
                    let (low, high) = halo[along].edges();
                    if shape[along] > 0 {
                        whole[along] = shape[along].saturating_add(low).saturating_add(high);
                    }
                    along += 1;
                }
                (whole[0].saturating_mul(whole[1]), whole[2])
            }
            Kind::Block { elements } | Kind::BlockCyclic { elements, .. } => (1, elements),
            Kind::BlockRows { rows, columns }
            | Kind::BlockColumns { rows, columns }
            | Kind::Replicated { rows, columns } => (rows, columns),
            Kind::BlockGrid { shape, .. } | Kind::Checkerboard { shape, .. } => shape,
        }
    }

    /// Returns the layout of the pattern on these ranks.
    ///
    /// # Errors
    /// As the functions of [`Distribution`].
    pub fn over(&self, ranks: Ranks) -> Result<Distribution, LayoutError> {
        let count = ranks.len();
        let made = match self.kind {
            Kind::Block { elements } => Distribution::block(elements, ranks),
            Kind::BlockCyclic { elements, block } => {
                Distribution::block_cyclic(elements, block, ranks)
            }
            Kind::BlockRows { rows, columns } => Distribution::block_rows(rows, columns, ranks),
            Kind::BlockColumns { rows, columns } => {
                Distribution::block_columns(rows, columns, ranks)
            }
            Kind::BlockGrid { shape, grids } => {
                Distribution::block_grid(shape, grids.of(count), ranks)
            }
            Kind::Checkerboard { shape, block, grids } => {
                Distribution::checkerboard(shape, block, grids.of(count), ranks)
            }
            Kind::Halo { shape, halo, grid } => {
                Distribution::halo(shape, halo, grid_for(count, grid, shape), ranks)
            }
            Kind::Replicated { rows, columns } => {
                Distribution::replicated_matrix(rows, columns, ranks)
            }
        };
        made.map(|distribution| distribution.stored(self.storage))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pattern_holds_each_element_once_on_any_rank_count() {
        let patterns = [
            Pattern::block(35),
            Pattern::cyclic(35),
            Pattern::block_cyclic(35, 4),
            Pattern::block_rows(5, 7),
            Pattern::block_columns(5, 7),
            Pattern::block_grid((5, 7), Grids::NearlySquare),
            Pattern::checkerboard((5, 7), (2, 3), Grids::NearlySquare),
            Pattern::halo([1, 5, 7], [Halo::periodic(2); 3]),
            Pattern::halo([1, 3, 5], [Halo::NONE, Halo::edge(1), Halo::edge(1)]),
        ];
        for pattern in patterns {
            for ranks in 1..9 {
                let over = pattern.over(Ranks::first(ranks)).unwrap();
                let held = |rank| {
                    let (rows, columns) = over.held(rank);
                    rows * columns
                };
                assert_eq!((0..ranks).map(held).sum::<usize>(), 35, "{pattern:?} {ranks}");
                assert_eq!(over.shape(), pattern.shape());
            }
        }
    }

    #[test]
    fn grid_of_cells_follows_the_number_of_ranks() {
        let grids = |grid, shape| [1, 6, 7, 8, 24].map(|ranks| grid_for(ranks, grid, shape));
        assert_eq!(grids([0; 3], [9; 3]), [[1, 1, 1], [1, 2, 3], [1, 1, 7], [2, 2, 2], [2, 3, 4]]);
        assert_eq!(
            grids([0; 3], [1, 9, 9]),
            [[1, 1, 1], [1, 2, 3], [1, 1, 7], [1, 2, 4], [1, 4, 6]]
        );
        assert_eq!(grids([0, 0, 1], [1, 9, 9])[3], [1, 8, 1]);
        assert_eq!(grids([0; 3], [1, 1, 1])[1], [1, 1, 6]);
        // A grid that does not fit is refused by the distribution.
        assert_eq!(grid_for(7, [1, 2, 0], [1, 9, 9]), [1, 2, 3]);
        let pattern = Pattern::halo([1, 9, 9], [Halo::NONE; 3]).on_grid([1, 2, 0]);
        assert!(matches!(pattern.over(Ranks::first(7)), Err(LayoutError::Grid { .. })));
    }

    #[test]
    fn fixed_grid_needs_as_many_ranks_as_places() {
        let pattern = Pattern::block_grid((4, 4), Grids::Fixed(Grid::new(2, 2)));
        assert!(pattern.over(Ranks::first(4)).is_ok());
        assert!(matches!(pattern.over(Ranks::first(3)), Err(LayoutError::Grid { .. })));
    }
}
