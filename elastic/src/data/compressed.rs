//! Arrays along the nonzeros of a sparse matrix in compressed rows (CSR) or columns (CSC).

use quo::group::{Group as _, GroupError, WaitLimits};
use quo_mpi::MpiGroup;

use super::matrix_index::MatrixIndex;
use super::message::{Described, TAG_OF_INDICES};
use super::{Array, DataError, Element, Pattern, Registry};
use crate::layout::Compressed;

impl Registry {
    /// Adds an array of zeros with an element for each nonzero of a sparse matrix: its values, or
    /// the indices of their columns (CSR) or rows (CSC). A rank holds the elements of its lines,
    /// [`Compressed::lines_of`]; the matrix, which is the index of all lines, is the same on all
    /// ranks and is sent to joiners. Local; called in the same way by all ranks.
    ///
    /// ```
    /// # use elastic::data::Registry;
    /// use elastic::layout::Compressed;
    ///
    /// # fn example(data: &mut Registry) -> Result<(), elastic::data::DataError> {
    /// // Three rows with 2, 0 and 1 nonzeros.
    /// let matrix = Compressed::new(&[0, 2, 2, 3]).expect("ascending from 0");
    /// let values = data.register_compressed::<f64>("A.values", &matrix)?;
    /// let columns = data.register_compressed::<u32>("A.columns", &matrix)?;
    /// assert_eq!(data.local(values)?.len(), data.local(columns)?.len());
    /// # Ok(())
    /// # }
    /// # example(&mut Registry::serial()).unwrap();
    /// ```
    ///
    /// # Errors
    /// As [`register`](Self::register).
    #[doc(alias = "reshape_Redistribute_CSR")]
    pub fn register_compressed<T: Element>(
        &mut self,
        name: &str,
        matrix: &Compressed,
    ) -> Result<Array<T>, DataError> {
        self.register_compressed_bytes(name, size_of::<T>(), matrix)?;
        self.array(name)
    }

    /// Adds an array as [`register_compressed`](Self::register_compressed) does, with elements of
    /// `element` bytes.
    ///
    /// # Errors
    /// As [`register`](Self::register).
    pub fn register_compressed_bytes(
        &mut self,
        name: &str,
        element: usize,
        matrix: &Compressed,
    ) -> Result<(), DataError> {
        let pattern = Pattern::block(matrix.nonzeros());
        self.add(name, element, pattern, Some(MatrixIndex::of(matrix))).map(drop)
    }

    /// Returns the matrix of an array along nonzeros, also on a joiner. Local.
    ///
    /// # Errors
    /// [`DataError::Unknown`], also for an array of another kind.
    pub fn compressed(&self, name: &str) -> Result<&Compressed, DataError> {
        const CALL: &str = "compressed";
        let lines = self.named(CALL, name)?.described.lines.as_ref();
        let unknown = || self.unknown(CALL, "array along a matrix", name);
        lines.and_then(|lines| lines.matrix().ok()).ok_or_else(unknown)
    }

    /// Completes descriptions with the indices of matrices, each of which rank 0 sends to joiners
    /// once; the first `old` ranks of the group are no joiners. Collective over the group.
    pub(super) fn complete(
        &self,
        described: &mut [Described],
        group: &MpiGroup,
        old: usize,
        limits: &WaitLimits<'_>,
    ) -> Result<(), GroupError> {
        let me = group.rank();
        let mut known: Vec<MatrixIndex> = Vec::new();
        for (position, described) in described.iter_mut().enumerate() {
            let Some(lines) = described.lines.clone() else { continue };
            let found = match known.iter().find(|other| **other == lines) {
                Some(found) => found.clone(),
                None => {
                    let tag = TAG_OF_INDICES + (known.len() % 1024) as u16;
                    let mine = self.entries.get(position);
                    let mine = mine.and_then(|entry| entry.described.lines.clone());
                    let found = match mine.filter(|_| me < old) {
                        Some(mine) => mine,
                        None => {
                            let place = vec![0; lines.bytes()];
                            MatrixIndex::received(
                                &group.begin_receive(0, place, tag)?.finish(limits)?,
                            )?
                        }
                    };
                    if me == 0 {
                        let bytes = found.to_bytes();
                        let sent = (old..group.size())
                            .map(|joiner| group.begin_send(joiner, bytes.clone(), tag));
                        for transfer in sent.collect::<Result<Vec<_>, _>>()? {
                            transfer.finish(limits)?;
                        }
                    }
                    known.push(found.clone());
                    found
                }
            };
            described.lines = Some(found);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::Ranks;

    #[test]
    fn rank_holds_nonzeros_of_its_lines() {
        let matrix = Compressed::new(&[0, 2, 2, 5, 6, 9]).unwrap();
        let ranks = Ranks::first(2);
        for (rank, held) in [(0, 5), (1, 4)] {
            let mut registry = Registry::new(Some((rank, 2)));
            let values = registry.register_compressed::<f64>("values", &matrix).unwrap();
            assert_eq!(registry.local(values).unwrap().len(), held);
            let (first, end) = registry.compressed("values").unwrap().lines_of(&ranks, rank);
            assert_eq!(end - first, [3, 2][rank]);
        }
    }

    #[test]
    fn matrices_are_told_apart_by_their_index() {
        let lines = |index: &[usize]| MatrixIndex::of(&Compressed::new(index).unwrap());
        assert_eq!(lines(&[0, 2, 3]), lines(&[0, 2, 3]));
        assert_ne!(lines(&[0, 2, 3]), lines(&[0, 1, 3]));
        let sent = MatrixIndex::received(&lines(&[0, 4, 4, 7]).to_bytes()).unwrap();
        assert_eq!(sent, lines(&[0, 4, 4, 7]));
        assert_eq!(sent.matrix().unwrap().pointers(), [0, 4, 4, 7]);
    }

    #[test]
    fn arrays_of_other_kinds_have_no_matrix_and_keep_patterns() {
        let matrix = Compressed::new(&[0, 1, 3]).unwrap();
        let mut registry = Registry::serial();
        registry.register_compressed::<u8>("sparse", &matrix).unwrap();
        registry.register::<u8>("dense", Pattern::block(3)).unwrap();
        assert!(matches!(registry.compressed("dense"), Err(DataError::Unknown { .. })));
        let wrong = registry.lay_out("sparse", Pattern::block(3)).unwrap_err();
        assert!(wrong.to_string().contains("follows the lines of its matrix"), "{wrong}");
    }
}
