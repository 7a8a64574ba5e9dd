"""Arrays of the elastic world."""

from __future__ import annotations

import ctypes
from ctypes import c_size_t, c_void_p
from typing import TYPE_CHECKING, Any, NamedTuple, Optional, Tuple, Union

from . import _library as library
from . import _numpy
from .errors import InvalidArgumentError
from .values import ArrayKind, Storage

if TYPE_CHECKING:
    import numpy

    from .elastic import World


def array_spec(
    element: int,
    shape: Union[int, Tuple[int, ...]],
    kind: Optional[ArrayKind | str],
    storage: Storage | str,
    block: Union[int, Tuple[int, int]],
    grid: Tuple[int, ...],
    halo: Union[int, Tuple[int, ...]] = 0,
    periodic: Union[bool, Tuple[bool, ...]] = False,
) -> library.ArraySpec:
    is_vector = isinstance(shape, int)
    extents = (shape,) if isinstance(shape, int) else tuple(shape)
    if not 1 <= len(extents) <= 3:
        raise InvalidArgumentError(5, f"add_array: the shape {shape} has not 1 to 3 dimensions")
    widths = (halo,) * len(extents) if isinstance(halo, int) else tuple(halo)
    rings = (periodic,) * len(extents) if isinstance(periodic, bool) else tuple(periodic)
    if len(widths) != len(extents) or len(rings) != len(extents):
        raise InvalidArgumentError(
            5, f"add_array: halo {halo} and periodic {periodic} are not of the shape {shape}"
        )
    if kind is None:
        kind = ArrayKind.BLOCK if is_vector else ArrayKind.BLOCK_ROWS
        if any(widths) or len(extents) == 3:
            kind = ArrayKind.HALO
    block_rows, block_columns = (1, block) if isinstance(block, int) else block
    if any(count < 0 for count in (*extents, block_rows, block_columns, *grid, *widths)):
        counts = (*extents, block_rows, block_columns, *grid, *widths)
        raise InvalidArgumentError(5, f"add_array: {counts} has a negative number")
    size = ctypes.sizeof(library.ArraySpec)
    spec = library.ArraySpec(size, ArrayKind.of(kind), Storage.of(storage), element)
    spec.layers, spec.rows, spec.columns = (1,) * (3 - len(extents)) + extents
    spec.block_rows, spec.block_columns = block_rows, block_columns
    spec.grid_layers, spec.grid_rows, spec.grid_columns = (0,) * (3 - len(grid)) + tuple(grid)
    halos = (spec.halo_columns, spec.halo_rows, spec.halo_layers)
    for ghosts, width, ring in zip(halos, reversed(widths), reversed(rings)):
        ghosts.before, ghosts.after, ghosts.periodic = width, width, int(ring and width > 0)
    return spec


class Part(NamedTuple):
    """This rank's part of an array."""

    #: The memory, with ghost cells.
    whole: "numpy.ndarray[Any, Any]"
    #: The block of cells, a view without ghost cells and edges.
    cells: "numpy.ndarray[Any, Any]"
    #: Place of the block's first cell in the array.
    first: Tuple[int, ...]


class Array:
    """An array of the world, made by :meth:`World.add_array` and :meth:`World.array`.

    It stays valid over resizes; what :attr:`local` returns does not.
    """

    def __init__(self, world: "World", name: str, dtype: Any, storage: Storage | str) -> None:
        _numpy.require()
        import numpy

        self._world = world
        self._name = library.encoded(name)
        self.name = name
        self.dtype: "numpy.dtype[Any]" = numpy.dtype(dtype)
        self.storage = Storage(Storage.of(storage))

    def _place(self) -> Tuple[Optional[int], int, int]:
        data, rows, columns = c_void_p(), c_size_t(), c_size_t()
        handle = self._world._handle
        library.call("QUO_world_array", handle, self._name, data, rows, columns)
        return data.value, rows.value, columns.value

    def _checked(self) -> library.ArrayPart:
        part = library.ArrayPart(ctypes.sizeof(library.ArrayPart))
        library.call("QUO_world_array_part", self._world._handle, self._name, part)
        if part.element != self.dtype.itemsize:
            raise InvalidArgumentError(
                5,
                f"array: `{self.name}`: its elements have {part.element} bytes, {self.dtype} has "
                f"{self.dtype.itemsize}: name their dtype",
            )
        return part

    @property
    def local(self) -> "numpy.ndarray[Any, Any]":
        """This rank's part, without a copy: a vector, or a matrix where it has more than one row.

        To be requested again after each commit: an earlier part is memory that the library has given
        back, and must not be touched. Local.
        """
        import numpy

        address, rows, columns = self._place()
        count = rows * columns
        if not count or not address:
            return numpy.empty((rows, columns) if rows > 1 else (0,), self.dtype)
        flat = _numpy.view(address, count, self.dtype)
        if rows == 1:
            return flat
        if self.storage is Storage.BY_COLUMNS:
            return flat.reshape((columns, rows)).T
        return flat.reshape((rows, columns))

    @property
    def part(self) -> "Part":
        """This rank's block of cells and its place in the whole array, without a copy.

        A matrix, or layers of matrices where it has more than one layer in memory. To be requested
        again after each commit and each swap, as :attr:`local`. Local.
        """
        import numpy

        part = self._checked()
        shape = (part.all_layers, part.all_rows, part.all_columns)
        if not part.data or not all(shape):
            whole = numpy.empty(shape, self.dtype)
        elif self.storage is Storage.BY_COLUMNS:
            flat = _numpy.view(part.data, shape[0] * shape[1] * shape[2], self.dtype)
            whole = flat.reshape((shape[0], shape[2], shape[1])).transpose(0, 2, 1)
        else:
            whole = _numpy.view(part.data, shape[0] * shape[1] * shape[2], self.dtype).reshape(shape)
        first = (part.first_layer, part.first_row, part.first_column)
        before = (part.before_layers, part.before_rows, part.before_columns)
        counts = (part.layers, part.rows, part.columns)
        places = zip(before, counts)
        cells = whole[tuple(slice(start, start + count) for start, count in places)]
        if shape[0] <= 1:
            return Part(whole.reshape(shape[1:]), cells.reshape(cells.shape[1:]), first[1:])
        return Part(whole, cells, first)

    def exchange_halo(self) -> None:
        """Fills the ghost cells with the cells of the ranks that own them. Collective."""
        library.call("QUO_world_exchange_halo", self._world._handle, self._name)

    def exchange_halo_begin(self) -> None:
        """Sends the cells as they are now; ghost cells are filled at the end. Collective."""
        library.call("QUO_world_exchange_halo_begin", self._world._handle, self._name)

    def exchange_halo_end(self) -> None:
        """Ends an exchange that has begun. Collective."""
        library.call("QUO_world_exchange_halo_end", self._world._handle, self._name)

    def swap(self, other: "Array") -> None:
        """Swaps the elements of two arrays of the same distribution, without a copy. Local."""
        library.call("QUO_world_array_swap", self._world._handle, self._name, other._name)

    def origin(self, offset: int) -> Tuple[int, int]:
        """Returns row and column, in the whole array, of a place in this rank's part. Local."""
        row, column = c_size_t(), c_size_t()
        handle = self._world._handle
        library.call("QUO_world_array_origin", handle, self._name, offset, row, column)
        return row.value, column.value

    def lay_out(
        self,
        shape: Union[int, Tuple[int, int]],
        kind: Optional[ArrayKind | str] = None,
        *,
        block: Union[int, Tuple[int, int]] = (1, 1),
        grid: Tuple[int, int] = (0, 0),
    ) -> None:
        """Sets the distribution from the next resize on: the same elements, in another way.

        Local; made alike by all ranks that have the array.
        """
        spec = array_spec(self.dtype.itemsize, shape, kind, self.storage, block, grid)
        library.call("QUO_world_array_lay_out", self._world._handle, self._name, spec)

    def remove(self) -> None:
        """Forgets the array. Local; made alike by all, outside of resizes."""
        library.call("QUO_world_array_remove", self._world._handle, self._name)
