//! Place of each element of an array: its rank, and its offset in the rank's memory.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::axis::{Axis, Progression};
use super::{LayoutError, Ranks};

/// Numbering of the places of a process grid.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Order {
    /// Row by row, as in the dissertation and in C.
    #[default]
    RowMajor,
    /// Column by column.
    ColumnMajor,
}

/// Order of a rank's elements in its memory, without gaps unless said otherwise.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Storage {
    /// The local matrix row by row, as in C.
    #[default]
    Rows,
    /// The local matrix column by column, as in Fortran and ScaLAPACK.
    Columns,
    /// Block after block, rows of blocks first, each block row by row: 2D-CBR of the dissertation
    /// (section 3.4.1). A clipped block takes the room of a whole one.
    RowsOfBlocks,
    /// Block after block, columns of blocks first, each block row by row: 2D-CBC of the
    /// dissertation. A clipped block takes the room of a whole one.
    ColumnsOfBlocks,
}

/// A process grid: ranks in rows and columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Grid {
    /// Number of rows.
    pub rows: usize,
    /// Number of columns.
    pub columns: usize,
    /// Numbering of its places.
    pub order: Order,
}

impl Grid {
    /// Makes a grid with its places numbered row by row.
    #[must_use]
    pub const fn new(rows: usize, columns: usize) -> Self {
        Self { rows, columns, order: Order::RowMajor }
    }

    /// Returns the grid with its places numbered column by column.
    #[must_use]
    pub const fn column_major(self) -> Self {
        Self { order: Order::ColumnMajor, ..self }
    }

    pub(super) fn place(&self, position: usize) -> (usize, usize) {
        match self.order {
            Order::RowMajor => (position / self.columns, position % self.columns),
            Order::ColumnMajor => (position % self.rows, position / self.rows),
        }
    }

    pub(super) fn position(&self, row: usize, column: usize) -> usize {
        match self.order {
            Order::RowMajor => row * self.columns + column,
            Order::ColumnMajor => column * self.rows + row,
        }
    }
}

/// Layout of an array on ranks. An array of one dimension is a matrix of one row.
///
/// | call of ReSHAPE | here |
/// |---|---|
/// | `reshape_Redistribute1D` (1D-BLKCYC) | [`Distribution::block_cyclic`] |
/// | `reshape_Redistribute1D_block` (1D-BLK) | [`Distribution::block`] |
/// | `reshape_Redistribute2D` (2D-CBR, 2D-CBC) | [`Distribution::checkerboard`], [`Storage`] |
/// | `reshape_Redistribute2D_block` | [`Distribution::block_rows`], [`Distribution::block_columns`] |
/// | `reshape_Redistribute_CSR` | [`Compressed`](super::Compressed) |
///
/// Sizes need not be divisible: last blocks are clipped and last ranks may hold less, or nothing.
/// Callers that need equal parts check with [`Distribution::require_even`].
///
/// ```
/// use elastic_layout::{Distribution, Grid, Ranks, Storage};
///
/// let matrix = Distribution::checkerboard((100, 80), (8, 8), Grid::new(2, 3), Ranks::first(6))?
///     .stored(Storage::Columns);
/// let (rank, offset) = matrix.locate(17, 70).unwrap();
/// assert_eq!(matrix.origin(rank, offset), Some((17, 70)));
/// assert_eq!(matrix.held(rank), (52, 24));
/// # Ok::<(), elastic_layout::LayoutError>(())
/// ```
///
/// Source: dissertation of R. Sudarsan (Virginia Tech, 2009), sections 3.3 and 3.4.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Unchecked")]
pub struct Distribution {
    pub(super) rows: Axis,
    pub(super) columns: Axis,
    pub(super) grid: Grid,
    pub(super) storage: Storage,
    pub(super) ranks: Ranks,
    /// True if every rank holds all of the array; the grid has one place then.
    pub(super) replicated: bool,
}

/// Place of local indices in memory, in elements: along each axis a stride for blocks and one for
/// elements; the sum over both axes is the offset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Strides {
    pub row_block: usize,
    pub row: usize,
    pub column_block: usize,
    pub column: usize,
}

impl Distribution {
    /// Makes a vector in blocks of ⌈`elements` / ranks⌉, in rank order: 1D-BLK, section 3.4.2. The
    /// last rank with elements may hold fewer, and later ranks hold none.
    ///
    /// # Errors
    /// [`LayoutError::NoRanks`].
    #[doc(alias = "reshape_Redistribute1D_block")]
    #[doc(alias = "reshape_RedistributeUniformBlock")]
    pub fn block(elements: usize, ranks: Ranks) -> Result<Self, LayoutError> {
        let columns = Axis::blocks(elements, ranks.len().max(1));
        Self::new("block", Axis::whole(1), columns, Order::RowMajor, ranks)
    }

    /// Makes a vector in blocks of `block` elements that are distributed to the ranks in turns:
    /// 1D-BLKCYC, section 3.4.1.
    ///
    /// # Errors
    /// [`LayoutError::NoRanks`], [`LayoutError::EmptyBlock`], [`LayoutError::TooLarge`].
    #[doc(alias = "reshape_Redistribute1D")]
    pub fn block_cyclic(elements: usize, block: usize, ranks: Ranks) -> Result<Self, LayoutError> {
        let columns = Axis::Cyclic { extent: elements, block, parts: ranks.len().max(1) };
        Self::new("block_cyclic", Axis::whole(1), columns, Order::RowMajor, ranks)
    }

    /// Makes a vector in one run for each rank, with given boundaries: `boundaries[i]` is the
    /// beginning of the run of the rank at position `i`, and the last boundary is the number of
    /// elements.
    ///
    /// # Errors
    /// [`LayoutError::NoRanks`], [`LayoutError::Boundaries`], [`LayoutError::Descending`].
    pub fn runs(boundaries: &[usize], ranks: Ranks) -> Result<Self, LayoutError> {
        let columns = Axis::Cuts(Arc::from(boundaries));
        Self::new("runs", Axis::whole(1), columns, Order::RowMajor, ranks)
    }

    /// Makes a matrix in blocks of ⌈`rows` / ranks⌉ rows: 2D-BLKR, section 3.4.3.
    ///
    /// # Errors
    /// [`LayoutError::NoRanks`], [`LayoutError::TooLarge`].
    #[doc(alias = "reshape_Redistribute2D_block")]
    pub fn block_rows(rows: usize, columns: usize, ranks: Ranks) -> Result<Self, LayoutError> {
        let cut = Axis::blocks(rows, ranks.len().max(1));
        Self::new("block_rows", cut, Axis::whole(columns), Order::RowMajor, ranks)
    }

    /// Makes a matrix in blocks of ⌈`columns` / ranks⌉ columns: 2D-BLKC, section 3.4.3.
    ///
    /// # Errors
    /// [`LayoutError::NoRanks`], [`LayoutError::TooLarge`].
    #[doc(alias = "reshape_Redistribute2D_block")]
    pub fn block_columns(rows: usize, columns: usize, ranks: Ranks) -> Result<Self, LayoutError> {
        let cut = Axis::blocks(columns, ranks.len().max(1));
        Self::new("block_columns", Axis::whole(rows), cut, Order::RowMajor, ranks)
    }

    /// Makes a matrix of `shape` (rows, columns) in blocks of `block` (rows, columns) that are
    /// distributed over a process grid in turns: 2D block-cyclic, section 3.4.1. [`Storage`]
    /// determines how a rank stores its blocks.
    ///
    /// # Errors
    /// [`LayoutError::NoRanks`], [`LayoutError::Grid`], [`LayoutError::EmptyBlock`],
    /// [`LayoutError::TooLarge`].
    #[doc(alias = "reshape_Redistribute2D")]
    pub fn checkerboard(
        shape: (usize, usize),
        block: (usize, usize),
        grid: Grid,
        ranks: Ranks,
    ) -> Result<Self, LayoutError> {
        Self::on_grid("checkerboard", shape, Some(block), grid, ranks)
    }

    /// Makes a matrix of `shape` (rows, columns) in one block for each place of a process grid.
    ///
    /// # Errors
    /// [`LayoutError::NoRanks`], [`LayoutError::Grid`], [`LayoutError::TooLarge`].
    pub fn block_grid(
        shape: (usize, usize),
        grid: Grid,
        ranks: Ranks,
    ) -> Result<Self, LayoutError> {
        Self::on_grid("block_grid", shape, None, grid, ranks)
    }

    /// Makes a vector of which every rank holds all elements.
    ///
    /// # Errors
    /// [`LayoutError::NoRanks`].
    pub fn replicated(elements: usize, ranks: Ranks) -> Result<Self, LayoutError> {
        Self::replicated_matrix(1, elements, ranks)
    }

    /// Makes a matrix of which every rank holds all elements.
    ///
    /// # Errors
    /// [`LayoutError::NoRanks`], [`LayoutError::TooLarge`].
    pub fn replicated_matrix(
        rows: usize,
        columns: usize,
        ranks: Ranks,
    ) -> Result<Self, LayoutError> {
        Unchecked {
            rows: Axis::whole(rows),
            columns: Axis::whole(columns),
            grid: Grid::new(1, 1),
            storage: Storage::default(),
            ranks,
            replicated: true,
        }
        .checked("replicated")
    }

    fn on_grid(
        call: &'static str,
        shape: (usize, usize),
        block: Option<(usize, usize)>,
        grid: Grid,
        ranks: Ranks,
    ) -> Result<Self, LayoutError> {
        let axis = |extent, block, parts: usize| match block {
            Some(block) => Axis::Cyclic { extent, block, parts },
            None => Axis::blocks(extent, parts.max(1)),
        };
        let rows = axis(shape.0, block.map(|block| block.0), grid.rows);
        let columns = axis(shape.1, block.map(|block| block.1), grid.columns);
        let storage = Storage::default();
        Unchecked { rows, columns, grid, storage, ranks, replicated: false }.checked(call)
    }

    fn new(
        call: &'static str,
        rows: Axis,
        columns: Axis,
        order: Order,
        ranks: Ranks,
    ) -> Result<Self, LayoutError> {
        let grid = Grid { rows: rows.parts(), columns: columns.parts(), order };
        let storage = Storage::default();
        if let Axis::Cuts(at) = &columns
            && at.len() != ranks.len() + 1
            && !ranks.is_empty()
        {
            return Err(LayoutError::Boundaries { call, ranks: ranks.len(), found: at.len() });
        }
        Unchecked { rows, columns, grid, storage, ranks, replicated: false }.checked(call)
    }

    /// Returns the distribution with another storage order of each rank's part.
    #[must_use]
    pub fn stored(self, storage: Storage) -> Self {
        Self { storage, ..self }
    }

    /// Returns the ranks that hold the array.
    #[must_use]
    pub fn ranks(&self) -> &Ranks {
        &self.ranks
    }

    /// Returns rows and columns of the whole array; a vector has one row.
    #[must_use]
    pub fn shape(&self) -> (usize, usize) {
        (self.rows.extent(), self.columns.extent())
    }

    /// Returns the process grid; one place if the array is replicated.
    #[must_use]
    pub fn grid(&self) -> Grid {
        self.grid
    }

    /// Returns true if every rank holds all of the array.
    #[must_use]
    pub fn is_replicated(&self) -> bool {
        self.replicated
    }

    /// Returns rows and columns of the part that a rank holds; (0, 0) for other ranks.
    #[must_use]
    pub fn held(&self, rank: usize) -> (usize, usize) {
        self.place_of(rank)
            .map_or((0, 0), |(row, column)| (self.rows.held(row), self.columns.held(column)))
    }

    /// Number of elements for which a rank needs memory: those it holds, and the rest of clipped
    /// blocks if blocks are stored whole.
    #[must_use]
    pub fn room(&self, rank: usize) -> usize {
        let (rows, columns) = self.held(rank);
        match self.storage {
            Storage::Rows | Storage::Columns => rows * columns,
            Storage::RowsOfBlocks | Storage::ColumnsOfBlocks => {
                let (high, wide) = (self.rows.block(), self.columns.block());
                (rows.div_ceil(high).saturating_mul(high))
                    .saturating_mul(columns.div_ceil(wide).saturating_mul(wide))
            }
        }
    }

    /// Returns the rank that holds an element, and the offset in its memory, in elements; `None`
    /// outside the array. For a replicated array it is the first rank.
    #[must_use]
    pub fn locate(&self, row: usize, column: usize) -> Option<(usize, usize)> {
        if row >= self.rows.extent() || column >= self.columns.extent() {
            return None;
        }
        let (grid_row, row) = self.rows.place(row);
        let (grid_column, column) = self.columns.place(column);
        let strides = self.strides((grid_row, grid_column));
        let (high, wide) = (self.rows.block(), self.columns.block());
        let offset = row / high * strides.row_block
            + row % high * strides.row
            + column / wide * strides.column_block
            + column % wide * strides.column;
        Some((self.ranks.at(self.grid.position(grid_row, grid_column)), offset))
    }

    /// Returns row and column of the element at an offset of a rank's memory, in elements; `None`
    /// if there is no element, as in the rest of a clipped block.
    #[must_use]
    pub fn origin(&self, rank: usize, offset: usize) -> Option<(usize, usize)> {
        let place = self.place_of(rank)?;
        let (rows, columns) = self.held(rank);
        if rows == 0 || columns == 0 {
            return None;
        }
        let (high, wide) = (self.rows.block(), self.columns.block());
        let blocks = (rows.div_ceil(high), columns.div_ceil(wide));
        let within = |block: (usize, usize)| {
            let inside = offset % (high * wide);
            (block.0 * high + inside / wide, block.1 * wide + inside % wide)
        };
        let number = offset / high.saturating_mul(wide);
        let (row, column) = match self.storage {
            Storage::Rows => (offset / columns, offset % columns),
            Storage::Columns => (offset % rows, offset / rows),
            Storage::RowsOfBlocks => within((number / blocks.1, number % blocks.1)),
            Storage::ColumnsOfBlocks => within((number % blocks.0, number / blocks.0)),
        };
        (row < rows && column < columns)
            .then(|| (self.rows.index(place.0, row), self.columns.index(place.1, column)))
    }

    /// Requires the conditions of the published algorithm: along both axes only whole blocks, and
    /// the same number for each rank. Without this call redistribution works for any sizes.
    ///
    /// # Errors
    /// [`LayoutError::Uneven`] names the axis that does not divide.
    pub fn require_even(&self) -> Result<(), LayoutError> {
        for (axis, name) in [(&self.rows, "rows"), (&self.columns, "columns")] {
            let (extent, block, parts) = (axis.extent(), axis.block(), axis.parts());
            let even = match axis {
                Axis::Cyclic { .. } => extent % (block * parts) == 0,
                Axis::Cuts(_) => (1..parts).all(|part| axis.comb(part).block == axis.comb(0).block),
            };
            if !even {
                return Err(LayoutError::Uneven { axis: name, extent, block, parts });
            }
        }
        Ok(())
    }

    /// Returns the place of a rank in the grid.
    pub(super) fn place_of(&self, rank: usize) -> Option<(usize, usize)> {
        let position = self.ranks.position(rank)?;
        Some(if self.replicated { (0, 0) } else { self.grid.place(position) })
    }

    /// Returns true if the size of the whole array in bytes, including the rest of clipped blocks,
    /// fits into an address.
    pub(super) fn fits(&self, element: usize) -> bool {
        let room = |axis: &Axis| {
            let block = if axis.is_single_run() && !self.in_blocks() { 1 } else { axis.block() };
            axis.extent().checked_add(block)
        };
        let bytes = room(&self.rows)
            .zip(room(&self.columns))
            .and_then(|(rows, columns)| rows.checked_mul(columns)?.checked_mul(element));
        bytes.is_some()
    }

    fn in_blocks(&self) -> bool {
        matches!(self.storage, Storage::RowsOfBlocks | Storage::ColumnsOfBlocks)
    }

    /// Returns the indices along an axis. A part that holds all of it sees one block, unless memory
    /// is in blocks.
    pub(super) fn comb(&self, axis: &Axis, part: usize) -> Progression {
        match axis {
            Axis::Cyclic { extent, parts: 1, .. } if !self.in_blocks() => {
                Axis::whole(*extent).comb(0)
            }
            _ => axis.comb(part),
        }
    }

    /// Returns the strides of the elements at a place of the grid.
    pub(super) fn strides(&self, place: (usize, usize)) -> Strides {
        let (rows, columns) = (self.rows.held(place.0), self.columns.held(place.1));
        let (high, wide) = (self.rows.block(), self.columns.block());
        let area = high.saturating_mul(wide);
        let linear = |row: usize, column: usize| Strides {
            row_block: row.saturating_mul(high),
            row,
            column_block: column.saturating_mul(wide),
            column,
        };
        match self.storage {
            Storage::Rows => linear(columns, 1),
            Storage::Columns => linear(1, rows),
            Storage::RowsOfBlocks => Strides {
                row_block: area.saturating_mul(columns.div_ceil(wide)),
                row: wide,
                column_block: area,
                column: 1,
            },
            Storage::ColumnsOfBlocks => Strides {
                row_block: area,
                row: wide,
                column_block: area.saturating_mul(rows.div_ceil(high)),
                column: 1,
            },
        }
    }
}

/// A distribution from outside, before it is validated.
#[derive(Deserialize)]
struct Unchecked {
    rows: Axis,
    columns: Axis,
    grid: Grid,
    storage: Storage,
    ranks: Ranks,
    replicated: bool,
}

impl Unchecked {
    fn checked(self, call: &'static str) -> Result<Distribution, LayoutError> {
        let Self { rows, columns, grid, storage, ranks, replicated } = self;
        if ranks.is_empty() {
            return Err(LayoutError::NoRanks { call });
        }
        let places = grid.rows.checked_mul(grid.columns);
        let expected = if replicated { 1 } else { ranks.len() };
        if places != Some(expected) || (rows.parts(), columns.parts()) != (grid.rows, grid.columns)
        {
            let (rows, columns) = (grid.rows, grid.columns);
            return Err(LayoutError::Grid { call, rows, columns, ranks: ranks.len() });
        }
        for axis in [&rows, &columns] {
            check_axis(call, axis)?;
        }
        let distribution = Distribution { rows, columns, grid, storage, ranks, replicated };
        if distribution.fits(1) { Ok(distribution) } else { Err(LayoutError::TooLarge { call }) }
    }
}

fn check_axis(call: &'static str, axis: &Axis) -> Result<(), LayoutError> {
    match axis {
        Axis::Cyclic { block: 0, .. } => Err(LayoutError::EmptyBlock { call }),
        Axis::Cyclic { block, parts, .. } => {
            block.checked_mul(*parts).map(|_| ()).ok_or(LayoutError::TooLarge { call })
        }
        Axis::Cuts(at) => {
            let mut before = 0;
            for (position, &found) in at.iter().enumerate() {
                if found < before || (position == 0 && found != 0) {
                    return Err(LayoutError::Descending { call, position, before, found });
                }
                before = found;
            }
            Ok(())
        }
    }
}

impl TryFrom<Unchecked> for Distribution {
    type Error = LayoutError;

    fn try_from(unchecked: Unchecked) -> Result<Self, LayoutError> {
        unchecked.checked("distribution")
    }
}
