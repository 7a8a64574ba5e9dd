//! Sparse matrices that belong to the world, and their vectors.
#![allow(unsafe_code)]

use std::ffi::{c_int, c_void};

use super::{invalid_state, with};
use crate::guard::{Failure, entry};
use crate::types::{Bytes, Growing, QUO_world_t, RawOut, Sizes, Text};

#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct QUO_matrix_part_t {
    /// Size known to the caller.
    pub size: usize,
    /// Number of rows of this rank.
    pub rows: usize,
    /// First row of this rank in the matrix.
    pub first_row: usize,
    /// Number of ghost columns.
    pub ghosts: usize,
    /// Beginning of each row's elements, and the end of the last one's.
    pub pointers: *const usize,
    /// Columns as indices of vectors.
    pub columns: *const u32,
    /// Values of the elements.
    pub values: *mut c_void,
    /// Columns of the ghosts in the matrix.
    pub ghost_columns: *const usize,
    /// Bytes of a value.
    pub element: usize,
}

// SAFETY: repr(C), starts with its size; the other fields are numbers and pointers.
unsafe impl Growing for QUO_matrix_part_t {
    const NAME: &'static str = "QUO_matrix_part_t";
}

#[unsafe(no_mangle)]
pub extern "C" fn QUO_world_matrix_add(
    w: *mut QUO_world_t,
    name: Text,
    element: usize,
    rows: usize,
    own_rows: usize,
    pointers: Sizes,
    columns: Sizes,
    values: Bytes,
) -> c_int {
    entry("QUO_world_matrix_add", || {
        with(w, |open| {
            let name = name.read("name")?;
            let count = own_rows.checked_add(1);
            let count = count.ok_or_else(|| Failure::invalid(format!("own_rows is {own_rows}")))?;
            let pointers = pointers.read("pointers", count)?;
            let begin = pointers.first().copied().unwrap_or(0);
            let elements = pointers.last().map_or(0, |end| end.saturating_sub(begin));
            let columns = match elements {
                0 => Vec::new(),
                _ => columns.read("columns", elements)?,
            };
            let values = values.read("values", elements.saturating_mul(element))?;
            if open.has_window() {
                return Err(invalid_state("matrices are added outside of resizes"));
            }
            let arrays = open.data_mut()?;
            arrays.register_matrix_bytes(&name, (rows, element), &pointers, &columns, &values)?;
            Ok(())
        })
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn QUO_world_vector_add(
    w: *mut QUO_world_t,
    name: Text,
    element: usize,
    matrix: Text,
) -> c_int {
    entry("QUO_world_vector_add", || {
        with(w, |open| {
            let (name, matrix) = (name.read("name")?, matrix.read("matrix")?);
            if open.has_window() {
                return Err(invalid_state("vectors are added outside of resizes"));
            }
            open.data_mut()?.register_vector_bytes(&name, element, &matrix)?;
            Ok(())
        })
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn QUO_world_matrix(
    w: *mut QUO_world_t,
    name: Text,
    out_part: RawOut<QUO_matrix_part_t>,
) -> c_int {
    entry("QUO_world_matrix", || {
        with(w, |open| {
            let (place, name) = (out_part.checked_sized("out_part")?, name.read("name")?);
            // Values can be read while they are moved.
            let values = if open.is_moving() {
                open.arrays()?.0.matrix_bytes(&name)?.values.as_ptr().cast_mut()
            } else {
                open.data_mut()?.matrix_bytes_mut(&name)?.as_mut_ptr()
            };
            let matrix = open.arrays()?.0.matrix_bytes(&name)?;
            place.set(&QUO_matrix_part_t {
                size: size_of::<QUO_matrix_part_t>(),
                rows: matrix.pointers.len() - 1,
                first_row: matrix.first_row,
                ghosts: matrix.ghost_columns.len(),
                pointers: matrix.pointers.as_ptr(),
                columns: matrix.columns.as_ptr(),
                values: values.cast(),
                ghost_columns: matrix.ghost_columns.as_ptr(),
                element: open.arrays()?.0.matrix_element(&name)?,
            });
            Ok(())
        })
    })
}
