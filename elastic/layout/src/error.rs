//! Errors of a distribution, a schedule or the memory it is applied to.

/// Why a distribution or a schedule is not possible. The same call gives the same error on every
/// rank, except for [`LayoutError::Memory`], which is about the memory of one rank.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LayoutError {
    /// An array needs at least one rank to lie on.
    #[error("{call}: there are no ranks to hold the array")]
    NoRanks {
        /// The function that was called.
        call: &'static str,
    },
    /// A rank may hold one part of an array.
    #[error("ranks: rank {rank} is named twice; a rank holds one part of an array")]
    RankTwice {
        /// The rank.
        rank: usize,
    },
    /// A process grid needs exactly one rank for each of its places.
    #[error("{call}: a grid of {rows} x {columns} has {} places for {ranks} ranks", (*.rows).saturating_mul(*.columns))]
    Grid {
        /// The function that was called.
        call: &'static str,
        /// Rows of the process grid.
        rows: usize,
        /// Columns of the process grid.
        columns: usize,
        /// Number of ranks.
        ranks: usize,
    },
    /// A block without elements would never reach the end of the array.
    #[error("{call}: the block size is 0; a block has at least one element")]
    EmptyBlock {
        /// The function that was called.
        call: &'static str,
    },
    /// An element has at least one byte.
    #[error("schedule: the element size is 0 bytes; an element has at least one")]
    EmptyElement,
    /// The size, in elements or bytes, does not fit into an address.
    #[error("{call}: the array is too large: its size does not fit in {} bits", usize::BITS)]
    TooLarge {
        /// The function that was called.
        call: &'static str,
    },
    /// Boundaries have to begin at 0 and must not decrease.
    #[error(
        "{call}: boundary {position} is {found} after {before}; they begin at 0 and never descend"
    )]
    Descending {
        /// The function that was called.
        call: &'static str,
        /// Index of the boundary.
        position: usize,
        /// The boundary before it, 0 for the first one.
        before: usize,
        /// Its value.
        found: usize,
    },
    /// Each rank needs a beginning and an end.
    #[error("{call}: {found} boundaries for {ranks} ranks; there has to be one more than ranks")]
    Boundaries {
        /// The function that was called.
        call: &'static str,
        /// Number of ranks.
        ranks: usize,
        /// Number of boundaries given.
        found: usize,
    },
    /// A schedule moves one array, which has one shape.
    #[error(
        "schedule: the array is {} before and {} after; redistribution keeps the shape",
        extents(.old), extents(.new)
    )]
    Shape {
        /// Layers, rows and columns before.
        old: [usize; 3],
        /// Layers, rows and columns after.
        new: [usize; 3],
    },
    /// The array does not divide into equal parts of whole blocks, as the caller requires.
    #[error(
        "{axis}: {extent} elements in blocks of {block} do not fall into whole blocks, as many for \
         each of {parts} parts"
    )]
    Uneven {
        /// `rows` or `columns`.
        axis: &'static str,
        /// Elements along the axis.
        extent: usize,
        /// Elements in a block along the axis.
        block: usize,
        /// Ranks of the grid along the axis.
        parts: usize,
    },
    /// The length of a slice does not match the schedule.
    #[error("{call}: the {what} has {found} bytes and has to have {expected}")]
    Memory {
        /// The function that was called.
        call: &'static str,
        /// Name of the slice.
        what: &'static str,
        /// Its length according to the schedule, in bytes.
        expected: usize,
        /// Its length, in bytes.
        found: usize,
    },
}

/// Returns a shape as text, without the layers if there is one.
fn extents(&[layers, rows, columns]: &[usize; 3]) -> String {
    if layers == 1 {
        format!("{rows} x {columns}")
    } else {
        format!("{layers} x {rows} x {columns}")
    }
}
