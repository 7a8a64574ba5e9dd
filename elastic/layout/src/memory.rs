//! The part of a rank: its elements, its memory, and the place of each element in it.

use super::distribution::{Distribution, Storage};
use super::halo::Span;

/// Place of local indices in memory, in elements: along each axis a stride for blocks and one for
/// elements; the sum over both axes is the offset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Strides {
    pub layer: usize,
    pub row_block: usize,
    pub row: usize,
    pub column_block: usize,
    pub column: usize,
}

impl Distribution {
    /// Returns rows, of all layers, and columns that a rank holds, with the edge of the array but
    /// without ghost cells; (0, 0) for other ranks.
    #[must_use]
    pub fn held(&self, rank: usize) -> (usize, usize) {
        self.parts_of(rank).map_or((0, 0), |[layer, row, column]| {
            (self.layers.held(layer) * self.rows.held(row), self.columns.held(column))
        })
    }

    /// Returns the blocks of a rank along layers, rows and columns, and the ghost cells around them;
    /// without a block for other ranks. Elements in several blocks have the first of the first one.
    #[must_use]
    pub fn spans(&self, rank: usize) -> [Span; 3] {
        let Some(parts) = self.parts_of(rank) else { return [Span::default(); 3] };
        [0, 1, 2].map(|along| self.halo[along].span(self.axis(along), parts[along]))
    }

    /// Returns layers, rows and columns of a rank's memory, with the ghost cells; zeros for other
    /// ranks.
    #[must_use]
    pub fn memory(&self, rank: usize) -> [usize; 3] {
        self.parts_of(rank).map_or([0; 3], |parts| self.memory_of(parts))
    }

    /// Number of elements for which a rank needs memory: those it holds, ghost cells, and the rest of
    /// clipped blocks if blocks are stored whole.
    #[must_use]
    pub fn room(&self, rank: usize) -> usize {
        let [layers, rows, columns] = self.memory(rank);
        match self.storage {
            Storage::Rows | Storage::Columns => layers * rows * columns,
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
        let (rows, columns) = self.shape();
        if row >= rows || column >= columns {
            return None;
        }
        let (layer_part, layer) = self.layers.place(row / self.rows.extent());
        let (row_part, row) = self.rows.place(row % self.rows.extent());
        let (column_part, column) = self.columns.place(column);
        let parts = [layer_part, row_part, column_part];
        let strides = self.strides(parts);
        let (high, wide) = (self.rows.block(), self.columns.block());
        let offset = self.begin(parts)
            + layer * strides.layer
            + row / high * strides.row_block
            + row % high * strides.row
            + column / wide * strides.column_block
            + column % wide * strides.column;
        let grid_row = layer_part * self.rows.parts() + row_part;
        Some((self.ranks.at(self.grid.position(grid_row, column_part)), offset))
    }

    /// Returns row and column of the element at an offset of a rank's memory, in elements; `None`
    /// if the rank holds no element there, as in a ghost cell or the rest of a clipped block.
    #[must_use]
    pub fn origin(&self, rank: usize, offset: usize) -> Option<(usize, usize)> {
        let parts = self.parts_of(rank)?;
        let [layers, rows, columns] = self.memory_of(parts);
        if layers == 0 || rows == 0 || columns == 0 {
            return None;
        }
        let (high, wide) = (self.rows.block(), self.columns.block());
        let blocks = (rows.div_ceil(high), columns.div_ceil(wide));
        let within = |block: (usize, usize)| {
            let inside = offset % (high * wide);
            (block.0 * high + inside / wide, block.1 * wide + inside % wide)
        };
        let number = offset / high.saturating_mul(wide);
        let (layer, inside) = (offset / (rows * columns), offset % (rows * columns));
        let (layer, (row, column)) = match self.storage {
            Storage::Rows => (layer, (inside / columns, inside % columns)),
            Storage::Columns => (layer, (inside % rows, inside / rows)),
            Storage::RowsOfBlocks => (0, within((number / blocks.1, number % blocks.1))),
            Storage::ColumnsOfBlocks => (0, within((number % blocks.0, number / blocks.0))),
        };
        let [layer, row, column] = self
            .owned(parts, 0, layer)
            .zip(self.owned(parts, 1, row))
            .zip(self.owned(parts, 2, column))
            .map(|((layer, row), column)| [layer, row, column])?;
        Some((layer * self.rows.extent() + row, column))
    }

    /// Returns the index in the array of an index in the memory of a part; `None` if the part does not
    /// hold it.
    fn owned(&self, parts: [usize; 3], along: usize, index: usize) -> Option<usize> {
        let (axis, part) = (self.axis(along), parts[along]);
        let local = index.checked_sub(self.halo[along].margins(axis, part).0)?;
        (local < axis.held(part)).then(|| axis.index(part, local))
    }

    /// Returns the parts of layers, rows and columns at a place of the grid.
    pub(super) fn parts_at(&self, (row, column): (usize, usize)) -> [usize; 3] {
        [row / self.rows.parts(), row % self.rows.parts(), column]
    }

    /// Returns the parts of a rank.
    pub(super) fn parts_of(&self, rank: usize) -> Option<[usize; 3]> {
        let position = self.ranks.position(rank)?;
        Some(if self.replicated { [0; 3] } else { self.parts_at(self.grid.place(position)) })
    }

    /// Returns layers, rows and columns of the memory of parts: of none at all if one is empty.
    fn memory_of(&self, parts: [usize; 3]) -> [usize; 3] {
        let memory = [0, 1, 2].map(|along| self.halo[along].room(self.axis(along), parts[along]));
        if self.has_halo() && memory.contains(&0) { [0; 3] } else { memory }
    }

    /// Returns the offset of the first element that the parts own in their memory.
    pub(super) fn begin(&self, parts: [usize; 3]) -> usize {
        let strides = self.strides(parts);
        let before = |along: usize| self.halo[along].margins(self.axis(along), parts[along]).0;
        before(0) * strides.layer + before(1) * strides.row + before(2) * strides.column
    }

    /// Returns the strides of the elements in the memory of parts.
    pub(super) fn strides(&self, parts: [usize; 3]) -> Strides {
        let [_, rows, columns] = self.memory_of(parts);
        let layer = rows.saturating_mul(columns);
        let (high, wide) = (self.rows.block(), self.columns.block());
        let area = high.saturating_mul(wide);
        let linear = |row: usize, column: usize| Strides {
            layer,
            row_block: row.saturating_mul(high),
            row,
            column_block: column.saturating_mul(wide),
            column,
        };
        match self.storage {
            Storage::Rows => linear(columns, 1),
            Storage::Columns => linear(1, rows),
            Storage::RowsOfBlocks => Strides {
                layer,
                row_block: area.saturating_mul(columns.div_ceil(wide)),
                row: wide,
                column_block: area,
                column: 1,
            },
            Storage::ColumnsOfBlocks => Strides {
                layer,
                row_block: area,
                row: wide,
                column_block: area.saturating_mul(rows.div_ceil(high)),
                column: 1,
            },
        }
    }
}
