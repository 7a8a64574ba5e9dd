//! Sparse matrices in compressed rows or columns.

use std::sync::Arc;

use super::{Distribution, LayoutError, Ranks};

/// A sparse matrix in compressed rows (CSR) or compressed columns (CSC), in blocks of
/// ⌈rows / ranks⌉ rows, or columns: 2D-CSR and 2D-CSC, section 3.4.4 of the dissertation. Each rank
/// holds the values of its rows with their column indices, and the complete row index.
///
/// Three schedules move it: first that of [`Compressed::index`], because joiners need it to know
/// the number of nonzeros; then that of [`Compressed::entries`] for the values, and with another
/// element size for their indices.
///
/// ```
/// use elastic_layout::{Compressed, Ranks, Schedule};
///
/// // Four rows with 2, 0, 3 and 1 nonzeros.
/// let matrix = Compressed::new(&[0, 2, 2, 5, 6])?;
/// let (old, new) = (Ranks::first(1), Ranks::first(2));
/// let index = Schedule::between(&matrix.index(old.clone())?, &matrix.index(new.clone())?, 8)?;
/// let values = Schedule::between(&matrix.entries(old)?, &matrix.entries(new.clone())?, 8)?;
/// let columns = values.with_element(size_of::<u32>())?;
/// assert_eq!(values.of(1).new_bytes(), 4 * 8);
/// assert_eq!(columns.of(1).new_bytes(), 4 * 4);
/// assert_eq!(matrix.local_index(&new, 1), [0, 3, 4]);
/// assert_eq!(index.statistics().bytes_moved, 5 * 8);
/// # Ok::<(), elastic_layout::LayoutError>(())
/// ```
#[doc(alias = "reshape_Redistribute_CSR")]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Compressed {
    index: Arc<[usize]>,
}

impl Compressed {
    /// Makes a matrix from its row index (CSR) or column index (CSC): the beginning of the nonzeros
    /// of each row, and at the end their number.
    ///
    /// # Errors
    /// [`LayoutError::Boundaries`] if it is empty, [`LayoutError::Descending`] if it does not begin
    /// at 0 or decreases.
    pub fn new(index: &[usize]) -> Result<Self, LayoutError> {
        let call = "compressed";
        if index.is_empty() {
            return Err(LayoutError::Boundaries { call, ranks: 0, found: 0 });
        }
        let mut before = 0;
        for (position, &found) in index.iter().enumerate() {
            if found < before || (position == 0 && found != 0) {
                return Err(LayoutError::Descending { call, position, before, found });
            }
            before = found;
        }
        Ok(Self { index: Arc::from(index) })
    }

    /// Returns the index: the beginning of the nonzeros of each line, and at the end their number.
    #[must_use]
    pub fn pointers(&self) -> &[usize] {
        &self.index
    }

    /// Number of rows (CSR) or columns (CSC).
    #[must_use]
    pub fn lines(&self) -> usize {
        self.index.len() - 1
    }

    /// Number of nonzeros.
    #[must_use]
    pub fn nonzeros(&self) -> usize {
        self.index.last().copied().unwrap_or(0)
    }

    /// Returns the first line of the rank at a position, and the line after its last.
    #[must_use]
    pub fn lines_of(&self, ranks: &Ranks, position: usize) -> (usize, usize) {
        let each = self.lines().div_ceil(ranks.len().max(1));
        let line = |position: usize| position.saturating_mul(each).min(self.lines());
        (line(position), line(position.saturating_add(1)))
    }

    /// Returns the layout of values and their indices on ranks.
    ///
    /// # Errors
    /// [`LayoutError::NoRanks`].
    pub fn entries(&self, ranks: Ranks) -> Result<Distribution, LayoutError> {
        let ends = (0..ranks.len()).map(|position| self.index[self.lines_of(&ranks, position).1]);
        let boundaries: Vec<usize> = std::iter::once(0).chain(ends).collect();
        Distribution::runs(&boundaries, ranks)
    }

    /// Returns the layout of the complete index on ranks: each rank has all of it.
    ///
    /// # Errors
    /// [`LayoutError::NoRanks`].
    pub fn index(&self, ranks: Ranks) -> Result<Distribution, LayoutError> {
        Distribution::replicated(self.index.len(), ranks)
    }

    /// Returns the index of the lines of the rank at a position, counted from the first nonzero it
    /// holds.
    #[must_use]
    pub fn local_index(&self, ranks: &Ranks, position: usize) -> Vec<usize> {
        let (first, end) = self.lines_of(ranks, position);
        self.index[first..=end].iter().map(|&start| start - self.index[first]).collect()
    }
}
