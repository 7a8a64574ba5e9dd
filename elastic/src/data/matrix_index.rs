//! The index of a sparse matrix, as ranks compare and send it.

use std::hash::{DefaultHasher, Hash, Hasher};

use quo::group::GroupError;
use serde::{Deserialize, Serialize};

use crate::layout::{Compressed, LayoutError};

/// Index of a matrix, as ranks compare it. The index itself is sent to joiners separately.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct MatrixIndex {
    /// Number of entries of the index.
    entries: usize,
    digest: u64,
    #[serde(skip)]
    matrix: Option<Compressed>,
}

impl PartialEq for MatrixIndex {
    fn eq(&self, other: &Self) -> bool {
        (self.entries, self.digest) == (other.entries, other.digest)
    }
}

impl Eq for MatrixIndex {}

impl MatrixIndex {
    pub fn of(matrix: &Compressed) -> Self {
        let mut hasher = DefaultHasher::new();
        matrix.pointers().hash(&mut hasher);
        let matrix = matrix.clone();
        Self { entries: matrix.pointers().len(), digest: hasher.finish(), matrix: Some(matrix) }
    }

    /// Returns the matrix.
    ///
    /// # Errors
    /// [`LayoutError::Boundaries`] if the index has not arrived.
    pub fn matrix(&self) -> Result<&Compressed, LayoutError> {
        let call = "compressed";
        self.matrix.as_ref().ok_or(LayoutError::Boundaries { call, ranks: self.entries, found: 0 })
    }

    /// Number of bytes of the message with the index.
    pub fn bytes(&self) -> usize {
        self.entries * size_of::<u64>()
    }

    /// Makes the message with the index; empty if the index has not arrived.
    pub fn to_bytes(&self) -> Vec<u8> {
        let pointers = self.matrix.iter().flat_map(Compressed::pointers);
        pointers.flat_map(|&start| (start as u64).to_ne_bytes()).collect()
    }

    /// Reads the message with the index.
    ///
    /// # Errors
    /// [`GroupError::Unsuitable`] for bytes that are no index.
    pub fn received(bytes: &[u8]) -> Result<Self, GroupError> {
        let starts = bytes.as_chunks().0.iter();
        let starts: Vec<usize> = starts
            .map(|start| usize::try_from(u64::from_ne_bytes(*start)).unwrap_or(usize::MAX))
            .collect();
        let matrix = Compressed::new(&starts).map_err(|error| GroupError::Unsuitable {
            call: "move",
            reason: format!("the index of a matrix that rank 0 has sent: {error}").into(),
        })?;
        Ok(Self::of(&matrix))
    }
}
