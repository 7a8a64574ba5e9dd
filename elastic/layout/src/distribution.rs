//! Place of each element of an array: its rank, and its offset in the rank's memory.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::axis::{Axis, Progression};
use super::{Halo, LayoutError, Ranks};

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

/// Layout of an array on ranks. An array of one dimension is a matrix of one row, one of three
/// dimensions is a stack of matrices, its layers: their rows are numbered one layer after the other.
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
    /// One layer, unless the array has three dimensions.
    pub(super) layers: Axis,
    pub(super) rows: Axis,
    pub(super) columns: Axis,
    /// Has the rows of all layers of ranks, one layer after the other.
    pub(super) grid: Grid,
    /// Ghost cells of layers, rows and columns. With ghost cells each part is one block.
    pub(super) halo: [Halo; 3],
    pub(super) storage: Storage,
    pub(super) ranks: Ranks,
    /// True if every rank holds all of the array; the grid has one place then.
    pub(super) replicated: bool,
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

    /// Makes an array of layers, rows and columns in one block for each place of a grid, as equal as
    /// possible, with ghost cells around each block. Places of the grid are numbered like the
    /// elements of a C array. The edge of the array counts as elements: row 0 of the distribution
    /// is the first row of the edge, if there is one.
    ///
    /// ```
    /// use elastic_layout::{Distribution, Halo, Ranks};
    ///
    /// // 10 x 8 cells on 2 x 2 ranks, one ghost cell on each side, periodic along a row.
    /// let halo = [Halo::NONE, Halo::edge(1), Halo::periodic(1)];
    /// let cells = Distribution::halo([1, 10, 8], halo, [1, 2, 2], Ranks::first(4))?;
    /// let [_, rows, columns] = cells.spans(3);
    /// assert_eq!((rows.first, rows.count, columns.first, columns.count), (5, 5, 4, 4));
    /// assert_eq!((cells.shape(), cells.room(3)), ((12, 8), 7 * 6));
    /// # Ok::<(), elastic_layout::LayoutError>(())
    /// ```
    ///
    /// # Errors
    /// [`LayoutError::NoRanks`], [`LayoutError::Grid`], [`LayoutError::TooLarge`].
    pub fn halo(
        shape: [usize; 3],
        halo: [Halo; 3],
        grid: [usize; 3],
        ranks: Ranks,
    ) -> Result<Self, LayoutError> {
        const CALL: &str = "halo";
        if ranks.is_empty() {
            return Err(LayoutError::NoRanks { call: CALL });
        }
        let rows = grid[0].saturating_mul(grid[1]);
        if rows.checked_mul(grid[2]) != Some(ranks.len()) {
            let columns = grid[2];
            return Err(LayoutError::Grid { call: CALL, rows, columns, ranks: ranks.len() });
        }
        let axis = |along: usize| {
            let divided = halo[along].divide(shape[along], grid[along]);
            divided.ok_or(LayoutError::TooLarge { call: CALL })
        };
        Unchecked {
            layers: axis(0)?,
            rows: axis(1)?,
            columns: axis(2)?,
            grid: Grid::new(rows, grid[2]),
            halo,
            storage: Storage::default(),
            ranks,
            replicated: false,
        }
        .checked(CALL)
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
            layers: Axis::whole(1),
            rows: Axis::whole(rows),
            columns: Axis::whole(columns),
            grid: Grid::new(1, 1),
            halo: [Halo::NONE; 3],
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
        Self::flat(call, rows, columns, grid, ranks)
    }

    fn new(
        call: &'static str,
        rows: Axis,
        columns: Axis,
        order: Order,
        ranks: Ranks,
    ) -> Result<Self, LayoutError> {
        let grid = Grid { rows: rows.parts(), columns: columns.parts(), order };
        if let Axis::Cuts(at) = &columns
            && at.len() != ranks.len() + 1
            && !ranks.is_empty()
        {
            return Err(LayoutError::Boundaries { call, ranks: ranks.len(), found: at.len() });
        }
        Self::flat(call, rows, columns, grid, ranks)
    }

    /// Makes a distribution of one layer, without ghost cells.
    fn flat(
        call: &'static str,
        rows: Axis,
        columns: Axis,
        grid: Grid,
        ranks: Ranks,
    ) -> Result<Self, LayoutError> {
        let (layers, storage) = (Axis::whole(1), Storage::default());
        let halo = [Halo::NONE; 3];
        Unchecked { layers, rows, columns, grid, halo, storage, ranks, replicated: false }
            .checked(call)
    }

    /// Returns the distribution with another storage order of each rank's part. A part with ghost
    /// cells is one block and is stored by rows or by columns, never block after block.
    #[must_use]
    pub fn stored(self, storage: Storage) -> Self {
        let storage = match storage {
            Storage::Columns => storage,
            _ if self.has_halo() => Storage::Rows,
            _ => storage,
        };
        Self { storage, ..self }
    }

    /// Returns the ranks that hold the array.
    #[must_use]
    pub fn ranks(&self) -> &Ranks {
        &self.ranks
    }

    /// Returns rows, of all layers, and columns of the whole array, with its edge; a vector has one
    /// row.
    #[must_use]
    pub fn shape(&self) -> (usize, usize) {
        (self.layers.extent() * self.rows.extent(), self.columns.extent())
    }

    /// Returns layers, rows and columns of the whole array, with its edge.
    #[must_use]
    pub fn extents(&self) -> [usize; 3] {
        [&self.layers, &self.rows, &self.columns].map(Axis::extent)
    }

    /// Returns true if parts have ghost cells, or the array has several layers.
    #[must_use]
    pub fn has_halo(&self) -> bool {
        self.halo != [Halo::NONE; 3] || matches!(self.layers, Axis::Cuts(_))
    }

    /// Returns the process grid, with a row for each row of each layer of ranks; one place if the
    /// array is replicated.
    #[must_use]
    pub fn grid(&self) -> Grid {
        self.grid
    }

    /// Returns true if every rank holds all of the array.
    #[must_use]
    pub fn is_replicated(&self) -> bool {
        self.replicated
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

    /// Returns the axis of layers, rows or columns.
    pub(super) fn axis(&self, along: usize) -> &Axis {
        [&self.layers, &self.rows, &self.columns][along]
    }

    /// Returns true if the size of the whole array in bytes, including the rest of clipped blocks,
    /// fits into an address.
    pub(super) fn fits(&self, element: usize) -> bool {
        let room = |along: usize| {
            let (axis, halo) = (self.axis(along), self.halo[along]);
            let block = if axis.is_single_run() && !self.in_blocks() { 1 } else { axis.block() };
            axis.extent().checked_add(block)?.checked_add(halo.before)?.checked_add(halo.after)
        };
        let layers = if self.has_halo() { room(0) } else { Some(1) };
        let bytes = [layers, room(1), room(2)]
            .into_iter()
            .try_fold(element, |bytes, along| bytes.checked_mul(along?));
        bytes.is_some()
    }

    pub(super) fn in_blocks(&self) -> bool {
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
}

/// A distribution from outside, before it is validated.
#[derive(Deserialize)]
struct Unchecked {
    layers: Axis,
    rows: Axis,
    columns: Axis,
    grid: Grid,
    halo: [Halo; 3],
    storage: Storage,
    ranks: Ranks,
    replicated: bool,
}

impl Unchecked {
    fn checked(self, call: &'static str) -> Result<Distribution, LayoutError> {
        let Self { layers, rows, columns, grid, halo, storage, ranks, replicated } = self;
        if ranks.is_empty() {
            return Err(LayoutError::NoRanks { call });
        }
        let places = grid.rows.checked_mul(grid.columns);
        let expected = if replicated { 1 } else { ranks.len() };
        let grid_rows = layers.parts().checked_mul(rows.parts());
        if places != Some(expected)
            || (grid_rows, columns.parts()) != (Some(grid.rows), grid.columns)
        {
            let (rows, columns) = (grid.rows, grid.columns);
            return Err(LayoutError::Grid { call, rows, columns, ranks: ranks.len() });
        }
        for axis in [&layers, &rows, &columns] {
            check_axis(call, axis)?;
        }
        // A part with ghost cells is one block.
        let is_block = [&layers, &rows, &columns].iter().all(|axis| matches!(axis, Axis::Cuts(_)));
        let halo = if is_block { halo } else { [Halo::NONE; 3] };
        let distribution =
            Distribution { layers, rows, columns, grid, halo, storage, ranks, replicated };
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
