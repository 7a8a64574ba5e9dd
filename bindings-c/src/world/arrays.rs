//! Arrays that belong to the world, and checkpoints of all its data.
#![allow(unsafe_code)]

use std::ffi::{c_int, c_void};
use std::path::Path;

use elastic::data::{Grids, Pattern};
use elastic::layout::{Compressed, Grid, Halo, Ranks, Storage};

use super::{Open, invalid_state, with};
use crate::guard::{Failure, entry};
use crate::types::{Bytes, Growing, In, QUO_world_t, RawOut, Sizes, Text};

#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct QUO_halo_t {
    /// Ghost cells before the block.
    pub before: usize,
    /// Ghost cells after the block.
    pub after: usize,
    /// Nonzero: the dimension is periodic.
    pub periodic: usize,
}

impl From<QUO_halo_t> for Halo {
    fn from(halo: QUO_halo_t) -> Self {
        Self { before: halo.before, after: halo.after, periodic: halo.periodic != 0 }
    }
}

#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct QUO_array_spec_t {
    /// Size known to the caller.
    pub size: usize,
    pub kind: c_int,
    pub storage: c_int,
    /// Bytes per element.
    pub element: usize,
    /// Rows; a vector has one.
    pub rows: usize,
    /// Columns, or the length of a vector.
    pub columns: usize,
    /// Rows per block.
    pub block_rows: usize,
    /// Columns per block, or the block length of a vector.
    pub block_columns: usize,
    /// Rows of the grid of ranks; 0 for a grid as nearly square as possible.
    pub grid_rows: usize,
    /// Columns of the grid of ranks.
    pub grid_columns: usize,
    /// Layers of an array of three dimensions; 0 for one.
    pub layers: usize,
    /// Layers of the grid of ranks.
    pub grid_layers: usize,
    /// Ghost cells along layers.
    pub halo_layers: QUO_halo_t,
    /// Ghost cells along rows.
    pub halo_rows: QUO_halo_t,
    /// Ghost cells along columns.
    pub halo_columns: QUO_halo_t,
}

// SAFETY: repr(C), starts with its size, and all other fields are numbers.
unsafe impl Growing for QUO_array_spec_t {
    const NAME: &'static str = "QUO_array_spec_t";
    const FIRST: usize = std::mem::offset_of!(QUO_array_spec_t, layers);
}

#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct QUO_array_part_t {
    /// Size known to the caller.
    pub size: usize,
    /// Beginning of this rank's memory.
    pub data: *mut c_void,
    /// Layers of the block.
    pub layers: usize,
    /// Rows of the block.
    pub rows: usize,
    /// Columns of the block.
    pub columns: usize,
    /// First layer of the block in the array.
    pub first_layer: usize,
    /// First row of the block in the array.
    pub first_row: usize,
    /// First column of the block in the array.
    pub first_column: usize,
    /// Layers in memory, with ghost cells.
    pub all_layers: usize,
    /// Rows in memory, with ghost cells.
    pub all_rows: usize,
    /// Columns in memory, with ghost cells.
    pub all_columns: usize,
    /// Layers of ghost cells before the block.
    pub before_layers: usize,
    /// Rows of ghost cells before the block.
    pub before_rows: usize,
    /// Columns of ghost cells before the block.
    pub before_columns: usize,
    /// Bytes of an element.
    pub element: usize,
}

// SAFETY: repr(C), starts with its size; the other fields are numbers and a pointer.
unsafe impl Growing for QUO_array_part_t {
    const NAME: &'static str = "QUO_array_part_t";
}

/// Returns the bytes per element, and the layout of the array.
fn pattern(spec: In<QUO_array_spec_t>) -> Result<(usize, Pattern), Failure> {
    let given = spec.read()?.ok_or_else(|| Failure::invalid("the argument spec is NULL"))?;
    let (rows, columns) = (given.rows, given.columns);
    let block = (given.block_rows, given.block_columns);
    let grids = match (given.grid_rows, given.grid_columns) {
        (0, 0) => Grids::NearlySquare,
        (rows, columns) => Grids::Fixed(Grid::new(rows, columns)),
    };
    let halo = [given.halo_layers, given.halo_rows, given.halo_columns].map(Halo::from);
    let layers = given.layers.max(1);
    if given.kind != 7 && (layers != 1 || given.grid_layers > 1 || halo != [Halo::NONE; 3]) {
        return Err(Failure::invalid(format!(
            "kind {} has no layers and no ghost cells: QUO_ARRAY_HALO has",
            given.kind
        )));
    }
    let is_vector = matches!(given.kind, 0 | 1 | 6);
    if is_vector && rows != 1 {
        return Err(Failure::invalid(format!("rows is {rows}: a vector has one")));
    }
    let made = match given.kind {
        0 => Pattern::block(columns),
        1 => Pattern::block_cyclic(columns, block.1),
        2 => Pattern::block_rows(rows, columns),
        3 => Pattern::block_columns(rows, columns),
        4 => Pattern::block_grid((rows, columns), grids),
        5 => Pattern::checkerboard((rows, columns), block, grids),
        6 => Pattern::replicated(columns),
        7 => Pattern::halo([layers, rows, columns], halo).on_grid([
            given.grid_layers,
            given.grid_rows,
            given.grid_columns,
        ]),
        other => return Err(Failure::invalid(format!("kind {other} is not a QUO_array_kind_t"))),
    };
    let storage = match given.storage {
        0 => Storage::Rows,
        1 => Storage::Columns,
        other => {
            return Err(Failure::invalid(format!("storage {other} is not a QUO_array_storage_t")));
        }
    };
    Ok((given.element, made.stored(storage)))
}

#[unsafe(no_mangle)]
pub extern "C" fn QUO_world_array_add(
    w: *mut QUO_world_t,
    name: Text,
    spec: In<QUO_array_spec_t>,
) -> c_int {
    entry("QUO_world_array_add", || {
        with(w, |open| {
            let name = name.read("name")?;
            let (element, pattern) = pattern(spec)?;
            if open.has_window() {
                return Err(invalid_state("arrays are added outside of resizes"));
            }
            open.data_mut()?.register_bytes(&name, element, pattern)?;
            Ok(())
        })
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn QUO_world_array(
    w: *mut QUO_world_t,
    name: Text,
    out_data: RawOut<*mut c_void>,
    out_rows: RawOut<usize>,
    out_columns: RawOut<usize>,
) -> c_int {
    entry("QUO_world_array", || {
        let data = out_data.checked_null("out_data");
        with(w, |open| {
            let (name, data) = (name.read("name")?, data?);
            let (arrays, rank) = open.arrays()?;
            let [layers, rows, columns] = arrays.distribution(&name)?.memory(rank);
            let (rows, columns) = (layers * rows, columns + arrays.ghosts(&name)?);
            for (place, value) in [(out_rows, rows), (out_columns, columns)] {
                if let Some(place) = place.optional() {
                    place.set(value);
                }
            }
            data.set(address(open, &name)?);
            Ok(())
        })
    })
}

/// Returns the address of this rank's part. Arrays can be read while they are being moved.
fn address(open: &mut Open, name: &str) -> Result<*mut c_void, Failure> {
    Ok(if open.is_moving() {
        open.arrays()?.0.bytes(name)?.as_ptr().cast_mut().cast()
    } else {
        open.data_mut()?.bytes_mut(name)?.as_mut_ptr().cast()
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn QUO_world_array_part(
    w: *mut QUO_world_t,
    name: Text,
    out_part: RawOut<QUO_array_part_t>,
) -> c_int {
    entry("QUO_world_array_part", || {
        with(w, |open| {
            let (place, name) = (out_part.checked_sized("out_part")?, name.read("name")?);
            let (arrays, rank) = open.arrays()?;
            let distribution = arrays.distribution(&name)?;
            let [layers, rows, columns] = distribution.spans(rank);
            let [all_layers, all_rows, own_columns] = distribution.memory(rank);
            let all_columns = own_columns + arrays.ghosts(&name)?;
            let element = arrays.element_size(&name)?;
            place.set(&QUO_array_part_t {
                size: size_of::<QUO_array_part_t>(),
                data: address(open, &name)?,
                layers: layers.count,
                rows: rows.count,
                columns: columns.count,
                first_layer: layers.first,
                first_row: rows.first,
                first_column: columns.first,
                all_layers,
                all_rows,
                all_columns,
                before_layers: layers.before,
                before_rows: rows.before,
                before_columns: columns.before,
                element,
            });
            Ok(())
        })
    })
}

/// Begins and ends an exchange of ghost cells; without other ranks it has both at its beginning.
fn exchange(w: *mut QUO_world_t, name: Text, (begins, ends): (bool, bool)) -> Result<(), Failure> {
    with(w, |open| {
        let name = name.read("name")?;
        if open.is_serial() {
            if begins {
                open.data_mut()?.exchange_halo(&name)?;
            }
            return Ok(());
        }
        let world = open.world_mut()?;
        if begins {
            world.exchange_halo_begin(&name)?;
        }
        if ends {
            world.exchange_halo_end(&name)?;
        }
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn QUO_world_exchange_halo(w: *mut QUO_world_t, name: Text) -> c_int {
    entry("QUO_world_exchange_halo", || exchange(w, name, (true, true)))
}

#[unsafe(no_mangle)]
pub extern "C" fn QUO_world_exchange_halo_begin(w: *mut QUO_world_t, name: Text) -> c_int {
    entry("QUO_world_exchange_halo_begin", || exchange(w, name, (true, false)))
}

#[unsafe(no_mangle)]
pub extern "C" fn QUO_world_exchange_halo_end(w: *mut QUO_world_t, name: Text) -> c_int {
    entry("QUO_world_exchange_halo_end", || exchange(w, name, (false, true)))
}

#[unsafe(no_mangle)]
pub extern "C" fn QUO_world_array_swap(w: *mut QUO_world_t, name: Text, other: Text) -> c_int {
    entry("QUO_world_array_swap", || {
        with(w, |open| {
            let (name, other) = (name.read("name")?, other.read("other")?);
            if open.has_window() {
                return Err(invalid_state("arrays are swapped outside of resizes"));
            }
            open.data_mut()?.swap(&name, &other)?;
            Ok(())
        })
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn QUO_world_array_origin(
    w: *mut QUO_world_t,
    name: Text,
    offset: usize,
    out_row: RawOut<usize>,
    out_column: RawOut<usize>,
) -> c_int {
    entry("QUO_world_array_origin", || {
        with(w, |open| {
            let name = name.read("name")?;
            let (arrays, rank) = open.arrays()?;
            let origin = arrays.distribution(&name)?.origin(rank, offset);
            let (row, column) = origin.ok_or_else(|| {
                Failure::invalid(format!("this rank's part of `{name}` has no element {offset}"))
            })?;
            for (place, value) in [(out_row, row), (out_column, column)] {
                if let Some(place) = place.optional() {
                    place.set(value);
                }
            }
            Ok(())
        })
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn QUO_world_array_add_compressed(
    w: *mut QUO_world_t,
    name: Text,
    element: usize,
    lines: usize,
    pointers: Sizes,
) -> c_int {
    entry("QUO_world_array_add_compressed", || {
        with(w, |open| {
            let name = name.read("name")?;
            let count = lines
                .checked_add(1)
                .ok_or_else(|| Failure::invalid(format!("lines is {lines}: a matrix has fewer")))?;
            let matrix = Compressed::new(&pointers.read("pointers", count)?)
                .map_err(|error| Failure::invalid(format!("pointers of `{name}`: {error}")))?;
            if open.has_window() {
                return Err(invalid_state("arrays are added outside of resizes"));
            }
            open.data_mut()?.register_compressed_bytes(&name, element, &matrix)?;
            Ok(())
        })
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn QUO_world_array_lines(
    w: *mut QUO_world_t,
    name: Text,
    out_first: RawOut<usize>,
    out_lines: RawOut<usize>,
    out_pointers: RawOut<*const usize>,
) -> c_int {
    entry("QUO_world_array_lines", || {
        with(w, |open| {
            let name = name.read("name")?;
            let (arrays, rank) = open.arrays()?;
            let matrix = arrays.compressed(&name)?;
            let ranks = Ranks::first(arrays.distribution(&name)?.ranks().len());
            let (first, end) = matrix.lines_of(&ranks, rank);
            for (place, value) in [(out_first, first), (out_lines, end - first)] {
                if let Some(place) = place.optional() {
                    place.set(value);
                }
            }
            if let Some(place) = out_pointers.optional() {
                place.set(matrix.pointers()[first..].as_ptr());
            }
            Ok(())
        })
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn QUO_world_array_lay_out(
    w: *mut QUO_world_t,
    name: Text,
    spec: In<QUO_array_spec_t>,
) -> c_int {
    entry("QUO_world_array_lay_out", || {
        with(w, |open| {
            let name = name.read("name")?;
            let (_, pattern) = pattern(spec)?;
            open.data_mut()?.lay_out(&name, pattern)?;
            Ok(())
        })
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn QUO_world_array_remove(w: *mut QUO_world_t, name: Text) -> c_int {
    entry("QUO_world_array_remove", || {
        with(w, |open| {
            let name = name.read("name")?;
            if open.has_window() {
                return Err(invalid_state("arrays are removed outside of resizes"));
            }
            open.data_mut()?.remove(&name)?;
            Ok(())
        })
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn QUO_world_checkpoint(
    w: *mut QUO_world_t,
    folder: Text,
    state: Bytes,
    length: usize,
) -> c_int {
    entry("QUO_world_checkpoint", || {
        with(w, |open| {
            let (folder, state) = (folder.read("folder"), state.read("state", length));
            // A rank with a wrong argument takes part, so that no rank waits for it.
            let (path, state) = match (folder, state) {
                (Ok(path), Ok(state)) => (path, Ok(state)),
                (Err(failure), _) | (_, Err(failure)) => {
                    (String::new(), Err(failure.text().to_owned()))
                }
            };
            if open.is_serial() {
                open.data_mut()?.checkpoint_bytes(Path::new(&path), state)?;
                return Ok(());
            }
            open.world_mut()?.checkpoint_bytes(Path::new(&path), state)?;
            Ok(())
        })
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn QUO_world_restore(
    w: *mut QUO_world_t,
    folder: Text,
    state: Bytes,
    length: usize,
    out_restored: RawOut<c_int>,
) -> c_int {
    entry("QUO_world_restore", || {
        with(w, |open| {
            let (folder, place) = (folder.read("folder"), out_restored.checked("out_restored"));
            let given = state.read("state", length).map(drop);
            let wrong = given.as_ref().err().or(place.as_ref().err());
            let wrong = wrong.map(|failure| failure.text().to_owned());
            let mut found = Vec::new();
            // As above: its reason is that of all ranks.
            let accept = |bytes: &[u8]| {
                if let Some(text) = wrong {
                    return Err(text);
                }
                if bytes.len() != length {
                    let written = bytes.len();
                    return Err(format!(
                        "the state of the checkpoint has {written} bytes, and length is {length}: restore it with the program that wrote it"
                    ));
                }
                found = bytes.to_vec();
                Ok(())
            };
            let path = Path::new(folder.as_deref().unwrap_or_default());
            let restored = if open.is_serial() {
                open.data_mut()?.restore_bytes(path, accept)?
            } else {
                open.world_mut()?.restore_bytes(path, accept)?
            };
            let place = place?;
            given?;
            if restored {
                state.write(&found);
            }
            place.set(c_int::from(restored));
            Ok(())
        })
    })
}
