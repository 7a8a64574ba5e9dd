//! Sparse matrices of the world, and vectors with an element for each row and each ghost column.

use std::collections::BTreeMap;
use std::sync::Arc;

use quo::group::{Group as _, WaitLimits};

use super::block::Block;
use super::element::{elements, elements_mut};
use super::matrix::{Matrix, MatrixRows, block_of};
use super::message::{Described, DescribedMatrix, TAG_OF_PLANS};
use super::pieces::{PassError, Refusal, agree, pass};
use super::registry::Entry;
use super::{Array, DataError, Element, Pattern, Registry};

/// Rows of a sparse matrix on this rank. Numbers count from 0 or 1, as they did when it was
/// registered.
#[derive(Clone, Copy, Debug)]
pub struct MatrixPart<'a, T> {
    /// Number of the first row in the matrix, always from 0.
    pub first_row: usize,
    /// Beginning of each row's elements in `columns` and `values`, and the end of the last one's.
    pub pointers: &'a [usize],
    /// Column of each element, as index in this rank's part of a vector of the matrix: its own
    /// elements first, the ghosts after them.
    pub columns: &'a [u32],
    /// Numbers of the ghost columns in the matrix, ascending: columns that other ranks own.
    pub ghost_columns: &'a [usize],
    /// Value of each element.
    pub values: &'a [T],
}

impl Registry {
    /// Adds a square sparse matrix in compressed rows (CSR) with a copy of this rank's rows: a block
    /// of ⌈rows / ranks⌉. Row `i` of the rank has the elements `pointers[i]..pointers[i + 1]` of
    /// `columns` and `values`; pointers begin at 0, or at 1 if columns count from 1 too. Columns are
    /// numbered as in the whole matrix. A resize moves rows to their new ranks.
    /// [`register_vector`](Self::register_vector) adds vectors to multiply with. Local; called by all ranks in
    /// the same order.
    ///
    /// ```
    /// # use elastic::data::Registry;
    /// # fn example(data: &mut Registry) -> Result<(), elastic::data::DataError> {
    /// // [ 2 -1 ]
    /// // [ 0  2 ] on one rank
    /// data.register_matrix("A", 2, &[0, 2, 3], &[0, 1, 1], &[2.0, -1.0, 2.0])?;
    /// let x = data.register_vector::<f64>("x", "A")?;
    /// data.local_mut(x)?.copy_from_slice(&[1.0, 3.0]);
    /// data.exchange_halo("x")?; // in a world: world.exchange_halo("x")?
    /// let (matrix, x) = (data.matrix::<f64>("A")?, data.local(x)?);
    /// let product = |row: usize| -> f64 {
    ///     let elements = matrix.pointers[row]..matrix.pointers[row + 1];
    ///     elements.map(|at| matrix.values[at] * x[matrix.columns[at] as usize]).sum()
    /// };
    /// assert_eq!([product(0), product(1)], [-1.0, 6.0]);
    /// # Ok(())
    /// # }
    /// # example(&mut Registry::serial()).unwrap();
    /// ```
    ///
    /// # Errors
    /// As [`register`](Self::register), and [`DataError::Rows`] for rows that do not fit: nothing is
    /// added then.
    #[doc(alias = "QUO_world_matrix_add")]
    pub fn register_matrix<T: Element>(
        &mut self,
        name: &str,
        rows: usize,
        pointers: &[usize],
        columns: &[usize],
        values: &[T],
    ) -> Result<(), DataError> {
        self.add_matrix(name, (rows, size_of::<T>()), pointers, columns, values.len(), |place| {
            elements_mut(place).copy_from_slice(values);
        })
    }

    /// Adds a matrix as [`register_matrix`](Self::register_matrix) does, of `rows` rows with elements
    /// of `element` bytes.
    ///
    /// # Errors
    /// As there.
    pub fn register_matrix_bytes(
        &mut self,
        name: &str,
        (rows, element): (usize, usize),
        pointers: &[usize],
        columns: &[usize],
        values: &[u8],
    ) -> Result<(), DataError> {
        let count = values.len() / element.max(1);
        self.add_matrix(name, (rows, element), pointers, columns, count, |place| {
            place.copy_from_slice(&values[..place.len()]);
        })
    }

    fn add_matrix(
        &mut self,
        name: &str,
        (rows, element): (usize, usize),
        pointers: &[usize],
        columns: &[usize],
        values: usize,
        fill: impl FnOnce(&mut [u8]),
    ) -> Result<(), DataError> {
        const CALL: &str = "register_matrix";
        let (rank, size) = self.seat.ok_or(DataError::NoRank { call: CALL })?;
        self.check_new(CALL, name)?;
        let unfit = |reason| DataError::Rows { call: CALL, name: name.to_owned(), reason };
        if element == 0 {
            return Err(unfit("its elements have 0 bytes".to_owned()));
        }
        let own = block_of(rows, size, rank);
        let base = check(&own, rows, pointers, columns, values).map_err(unfit)?;
        let bytes = values.saturating_mul(element);
        let mut block = Block::new(bytes).map_err(|error| DataError::Memory {
            call: CALL,
            name: name.to_owned(),
            bytes,
            reason: error.to_string(),
        })?;
        fill(block.bytes_mut());
        let described = DescribedMatrix { name: name.to_owned(), rows, element, base };
        let columns: Vec<usize> = columns.iter().map(|column| column - base).collect();
        let made = MatrixRows::new(&described, &own, pointers.to_vec(), &columns, block);
        self.matrices.push(Matrix::new(described, made.map_err(unfit)?));
        Ok(())
    }

    /// Adds a vector of zeros with an element for each row of a matrix. This rank's part has the
    /// elements of its rows, and after them its ghosts: copies of the elements that its rows are
    /// multiplied with and other ranks own, which
    /// [`World::exchange_halo`](crate::World::exchange_halo) fills. A resize moves the elements; ghosts are zero
    /// afterwards. Local; called in the same way by all ranks.
    ///
    /// # Errors
    /// As [`register`](Self::register), and [`DataError::Unknown`] for the matrix.
    #[doc(alias = "QUO_world_vector_add")]
    pub fn register_vector<T: Element>(
        &mut self,
        name: &str,
        matrix: &str,
    ) -> Result<Array<T>, DataError> {
        self.register_vector_bytes(name, size_of::<T>(), matrix)?;
        self.array(name)
    }

    /// Adds a vector as [`register_vector`](Self::register_vector) does, with elements of `element`
    /// bytes.
    ///
    /// # Errors
    /// As there.
    pub fn register_vector_bytes(
        &mut self,
        name: &str,
        element: usize,
        matrix: &str,
    ) -> Result<(), DataError> {
        const CALL: &str = "register_vector";
        self.seat.ok_or(DataError::NoRank { call: CALL })?;
        let found = self.matrix_of(CALL, matrix)?;
        let (pattern, ghosts) = (Pattern::block(found.described.rows), found.rows.ghosts.len());
        let (name, matrix) = (name.to_owned(), Some(matrix.to_owned()));
        let described =
            Described { number: 0, name, element, pattern, next: None, lines: None, matrix };
        self.add_described(CALL, described, ghosts).map(drop)
    }

    /// Returns this rank's rows of a matrix, also on a joiner. Local.
    ///
    /// # Errors
    /// [`DataError::Unknown`], [`DataError::Element`] if the size of its elements differs.
    pub fn matrix<T: Element>(&self, name: &str) -> Result<MatrixPart<'_, T>, DataError> {
        let part = self.matrix_bytes(name)?;
        self.check_element::<T>("matrix", name)?;
        let MatrixPart { first_row, pointers, columns, ghost_columns, values } = part;
        Ok(MatrixPart { first_row, pointers, columns, ghost_columns, values: elements(values) })
    }

    /// Returns this rank's rows of a matrix with the bytes of its values. Local.
    ///
    /// # Errors
    /// [`DataError::Unknown`].
    pub fn matrix_bytes(&self, name: &str) -> Result<MatrixPart<'_, u8>, DataError> {
        let rows = &self.matrix_of("matrix", name)?.rows;
        Ok(MatrixPart {
            first_row: rows.first,
            pointers: &rows.pointers,
            columns: &rows.columns,
            ghost_columns: &rows.ghosts,
            values: rows.values.bytes(),
        })
    }

    /// Returns the values of this rank's rows of a matrix for writing. Local.
    ///
    /// # Errors
    /// As [`matrix`](Self::matrix).
    pub fn matrix_values_mut<T: Element>(&mut self, name: &str) -> Result<&mut [T], DataError> {
        self.check_element::<T>("matrix_values_mut", name)?;
        self.matrix_bytes_mut(name).map(elements_mut)
    }

    /// Returns the bytes of the values of this rank's rows of a matrix for writing. Local.
    ///
    /// # Errors
    /// [`DataError::Unknown`].
    pub fn matrix_bytes_mut(&mut self, name: &str) -> Result<&mut [u8], DataError> {
        let found = self.matrices.iter().position(|matrix| matrix.described.name == name);
        let found = found.ok_or_else(|| self.unknown("matrix", "matrix", name))?;
        Ok(self.matrices[found].rows.values.bytes_mut())
    }

    /// Returns the number of bytes of a value of a matrix. Local.
    ///
    /// # Errors
    /// [`DataError::Unknown`].
    pub fn matrix_element(&self, name: &str) -> Result<usize, DataError> {
        self.matrix_of("matrix", name).map(|matrix| matrix.described.element)
    }

    /// Number of ghosts at the end of this rank's part of an array; 0 for one that is no vector of a
    /// matrix. Local.
    ///
    /// # Errors
    /// [`DataError::Unknown`].
    pub fn ghosts(&self, name: &str) -> Result<usize, DataError> {
        self.named("ghosts", name).map(|entry| entry.ghosts)
    }

    fn matrix_of(&self, call: &'static str, name: &str) -> Result<&Matrix, DataError> {
        let found = self.matrices.iter().find(|matrix| matrix.described.name == name);
        found.ok_or_else(|| self.unknown(call, "matrix", name))
    }

    fn check_element<T>(&self, call: &'static str, name: &str) -> Result<(), DataError> {
        let (expected, found) = (size_of::<T>(), self.matrix_of(call, name)?.described.element);
        if expected == found {
            return Ok(());
        }
        Err(DataError::Element { call, name: name.to_owned(), expected, found })
    }

    /// Returns the matrix of a vector if it has no plan yet for filling the ghosts.
    pub(crate) fn unplanned(
        &self,
        call: &'static str,
        name: &str,
    ) -> Result<Option<String>, DataError> {
        self.seat.ok_or(DataError::NoRank { call })?;
        let Some(matrix) = &self.named(call, name)?.described.matrix else { return Ok(None) };
        let lacks = self.matrix_of(call, matrix)?.plan.is_none();
        Ok(lacks.then(|| matrix.clone()))
    }

    /// Makes the plan of a matrix: each rank asks the owners of its ghosts. Collective over the ranks,
    /// which are connected.
    pub(crate) fn make_plan(
        &mut self,
        call: &'static str,
        name: &str,
        limits: &WaitLimits<'_>,
    ) -> Result<(), DataError> {
        let matrix = self.matrix_of(call, name)?;
        let mut plan = Vec::new();
        if let Some(group) = &self.halo_group {
            let (ranks, rows) = (group.size(), matrix.described.rows);
            let failed = |error: PassError| {
                error.of(call, name, |found, first| {
                    format!(
                        "its matrix `{name}` has {found} rows, and on rank 0 {first}: register the same number of rows \
                         everywhere"
                    )
                })
            };
            let wanted = matrix.wanted(ranks);
            let questions = wanted
                .iter()
                .map(|(owner, ghosts)| (*owner, matrix.question(*owner, ghosts, ranks)));
            let questions = Ok(questions.collect());
            let asked = pass(call, group, questions, (TAG_OF_PLANS, rows), |_| Ok(()), limits);
            let (asked, ()) = asked.map_err(failed)?;
            let mut neighbours: BTreeMap<usize, (Vec<u8>, _)> =
                wanted.into_iter().map(|(rank, ghosts)| (rank, (Vec::new(), ghosts))).collect();
            for (rank, question) in asked {
                neighbours.entry(rank).or_insert((Vec::new(), 0..0)).0 = question;
            }
            let made = neighbours.into_iter().map(|(rank, (question, ghosts))| {
                let asked = matrix.asked(rank, &question, ghosts).ok_or_else(|| {
                    Refusal::Unfit(format!("rank {rank} has a ghost that this rank does not own"))
                });
                asked.map(Arc::new)
            });
            // The others must not wait for a rank without a plan.
            plan = agree(call, group, made.collect(), 0, limits).map_err(failed)?;
        }
        let found = self.matrices.iter_mut().find(|matrix| matrix.described.name == name);
        if let Some(matrix) = found {
            matrix.plan = Some(plan);
        }
        Ok(())
    }

    /// Adds ghosts to the moved vectors, after their matrices have arrived.
    pub(super) fn grow_vectors(&self, arrays: &mut [Entry]) -> Result<(), DataError> {
        for entry in arrays {
            if let Some(name) = entry.described.matrix.clone() {
                let ghosts = self.matrix_of("move", &name)?.next_ghosts();
                entry.add_ghosts("move", ghosts)?;
            }
        }
        Ok(())
    }
}

/// Checks the rows that a rank registers, and returns the number that its columns count from.
fn check(
    own: &std::ops::Range<usize>,
    rows: usize,
    pointers: &[usize],
    columns: &[usize],
    values: usize,
) -> Result<usize, String> {
    let (expected, found) = (own.len() + 1, pointers.len());
    if expected != found {
        return Err(format!(
            "this rank has the {} rows from row {} on, in blocks of one size over the ranks, so {expected} pointers; {found} were given",
            own.len(),
            own.start
        ));
    }
    let base = match pointers.first() {
        Some(&base @ (0 | 1)) => base,
        other => {
            let found = other.copied().unwrap_or(0);
            return Err(format!(
                "pointers begin at {found}: on each rank they begin at 0, or at 1"
            ));
        }
    };
    if let Some(row) = pointers.windows(2).position(|pair| pair[1] < pair[0]) {
        let (before, after) = (pointers[row], pointers[row + 1]);
        return Err(format!(
            "row {row} of this rank ends at {after}, before its beginning {before}"
        ));
    }
    let nonzeros = pointers.last().map_or(0, |last| last - base);
    for (what, count) in [("columns", columns.len()), ("values", values)] {
        if count != nonzeros {
            return Err(format!(
                "pointers end after {nonzeros} elements; {count} {what} were given"
            ));
        }
    }
    let wrong = columns.iter().position(|&column| column < base || column - base >= rows);
    if let Some(at) = wrong {
        let (column, last) = (columns[at], (rows + base).saturating_sub(1));
        return Err(format!("element {at} is in column {column}; columns are {base} to {last}"));
    }
    Ok(base)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ring(registry: &mut Registry) -> Result<(), DataError> {
        registry.register_matrix("A", 3, &[1, 2, 4], &[2, 3, 1], &[1.0, 2.0, 3.0])
    }

    #[test]
    fn vector_of_a_matrix_has_its_rows_and_ghosts() {
        let mut registry = Registry::new(Some((0, 2)));
        ring(&mut registry).unwrap();
        let part = registry.matrix::<f64>("A").unwrap();
        assert_eq!((part.first_row, part.pointers), (0, &[1, 2, 4][..]));
        assert_eq!(part.ghost_columns, [3]);
        assert_eq!((part.columns, part.values), (&[2, 3, 1][..], &[1.0, 2.0, 3.0][..]));
        let x = registry.register_vector::<f64>("x", "A").unwrap();
        assert_eq!(registry.local(x).unwrap().len(), 3);
        assert_eq!(registry.ghosts("x"), Ok(1));
        assert_eq!(registry.unplanned("call", "x"), Ok(Some("A".to_owned())));
        registry.matrix_values_mut::<f64>("A").unwrap()[0] = 7.0;
        assert_eq!(registry.matrix::<f64>("A").unwrap().values[0], 7.0);
        assert!(matches!(registry.matrix::<f32>("A"), Err(DataError::Element { .. })));
        assert!(matches!(registry.remove("A"), Err(DataError::Unfit { .. })));
        let laid_out = registry.lay_out("x", Pattern::cyclic(3)).unwrap_err().to_string();
        assert!(laid_out.contains("follows the lines of its matrix"), "{laid_out}");
        registry.remove("x").unwrap();
        registry.remove("A").unwrap();
        assert!(registry.is_empty());
    }

    #[test]
    fn rows_that_do_not_fit_are_refused_with_reason() {
        let mut registry = Registry::new(Some((0, 2)));
        let mut refused = |pointers: &[usize], columns: &[usize], values: &[f64]| {
            registry.register_matrix("A", 3, pointers, columns, values).unwrap_err().to_string()
        };
        let short = refused(&[0, 1], &[0], &[1.0]);
        assert!(
            short.contains("the 2 rows from row 0 on") && short.contains("3 pointers; 2"),
            "{short}"
        );
        assert!(refused(&[2, 2, 2], &[], &[]).contains("pointers begin at 2"));
        assert!(refused(&[0, 2, 1], &[0], &[1.0]).contains("row 1 of this rank ends at 1"));
        assert!(refused(&[0, 1, 2], &[0], &[1.0]).contains("1 columns were given"));
        assert!(refused(&[0, 1, 1], &[0], &[]).contains("0 values were given"));
        assert!(refused(&[0, 1, 1], &[3], &[1.0]).contains("column 3; columns are 0 to 2"));
        assert!(refused(&[1, 2, 2], &[0], &[1.0]).contains("column 0; columns are 1 to 3"));
        assert!(registry.is_empty());
        ring(&mut registry).unwrap();
        assert!(matches!(ring(&mut registry), Err(DataError::Twice { .. })));
        let missing = registry.register_vector::<f64>("x", "B").unwrap_err().to_string();
        assert!(missing.contains("no matrix `B`; this process has matrix A."), "{missing}");
        registry.register_vector::<f64>("x", "A").unwrap();
        let array = registry.register::<f64>("A", Pattern::block(1)).unwrap_err().to_string();
        assert_eq!(array, "register: there is already the matrix `A`: choose another name");
        let vector = registry.matrix::<f64>("x").unwrap_err().to_string();
        assert!(vector.contains("no matrix `x`; this process has vector x, matrix A."), "{vector}");
    }

    #[test]
    fn vector_without_memory_for_ghosts_leaves_no_trace() {
        let mut registry = Registry::new(Some((0, 4)));
        registry.register_matrix("A", 4, &[0, 3], &[1, 2, 3], &[1.0; 3]).unwrap();
        // An address space has one element of this size, and no more than two.
        let failed = registry.register_vector_bytes("x", 100 << 40, "A");
        assert!(matches!(failed, Err(DataError::Memory { .. })), "{failed:?}");
        assert_eq!((registry.next, registry.names().count()), (0, 1));
    }
}
