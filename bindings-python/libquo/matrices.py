"""Sparse matrices of the elastic world."""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, Any, NamedTuple

from . import _library as library
from . import _numpy
from .errors import InvalidArgumentError

if TYPE_CHECKING:
    import numpy

    from .elastic import World


class MatrixPart(NamedTuple):
    """Rows of a sparse matrix on this rank, without a copy.

    Pointers, columns and ghost columns count from 0, or from 1 if they did when the matrix was added.
    """

    #: Number of the first row in the matrix, from 0.
    first_row: int
    #: Beginning of the elements of each row, and the end of the last one's.
    pointers: "numpy.ndarray[Any, Any]"
    #: Column of each element, as index in a vector of the matrix: own elements first, then ghosts.
    columns: "numpy.ndarray[Any, Any]"
    #: Value of each element, to be read and written.
    values: "numpy.ndarray[Any, Any]"
    #: Number in the matrix of each ghost column, ascending.
    ghost_columns: "numpy.ndarray[Any, Any]"


def _indices(name: str, what: str, values: Any) -> "numpy.ndarray[Any, Any]":
    import numpy

    given = numpy.asarray(values)
    if given.ndim != 1 or given.size and (given.dtype.kind not in "iu" or given.min() < 0):
        raise InvalidArgumentError(
            5, f"add_matrix: `{name}`: {what} are a vector of integers that are not negative"
        )
    return numpy.ascontiguousarray(given, numpy.uintp)


class Matrix:
    """A sparse matrix of the world, made by :meth:`World.add_matrix` and :meth:`World.matrix`.

    It stays valid over resizes; what :attr:`part` returns does not.
    """

    def __init__(self, world: "World", name: str, dtype: Any) -> None:
        _numpy.require()
        import numpy

        self._world = world
        self._name = library.encoded(name)
        self.name = name
        self.dtype: "numpy.dtype[Any]" = numpy.dtype(dtype)

    @classmethod
    def added(
        cls, world: "World", name: str, rows: int, pointers: Any, columns: Any, values: Any
    ) -> "Matrix":
        """Adds the matrix to the world: see :meth:`World.add_matrix`."""
        _numpy.require()
        import numpy

        values = numpy.ascontiguousarray(values)
        if values.dtype.hasobject:
            raise TypeError(f"add_matrix: `{name}`: {values.dtype} has references to objects")
        matrix = cls(world, name, values.dtype)
        starts = _indices(name, "pointers", pointers)
        places = _indices(name, "columns", columns)
        elements = int(starts[-1]) - int(starts[0]) if starts.size else -1
        if rows < 0 or values.ndim != 1 or not places.size == values.size == elements:
            raise InvalidArgumentError(
                5,
                f"add_matrix: `{name}`: {rows} rows, pointers of {max(elements, 0)} elements, "
                f"{places.size} columns and values of the shape {values.shape} do not fit: the last "
                "pointer minus the first one is the number of columns and of values",
            )
        library.call(
            "QUO_world_matrix_add",
            world._handle,
            matrix._name,
            matrix.dtype.itemsize,
            rows,
            starts.size - 1,
            starts.ctypes.data,
            places.ctypes.data if elements else None,
            values.ctypes.data if elements else None,
        )
        return matrix

    def _place(self) -> library.MatrixPart:
        part = library.MatrixPart(ctypes.sizeof(library.MatrixPart))
        library.call("QUO_world_matrix", self._world._handle, self._name, part)
        if part.element != self.dtype.itemsize:
            raise InvalidArgumentError(
                5,
                f"matrix: `{self.name}`: its values have {part.element} bytes, {self.dtype} has "
                f"{self.dtype.itemsize}: name their dtype",
            )
        return part

    @property
    def part(self) -> MatrixPart:
        """This rank's rows. To be requested again after each commit. Local.

        The product with a vector ``x``, of which ghosts have been exchanged::

            part = matrix.part
            row = numpy.repeat(numpy.arange(part.pointers.size - 1), numpy.diff(part.pointers))
            product = numpy.bincount(
                row, part.values * x.local[part.columns], part.pointers.size - 1
            )
        """
        import numpy

        part = self._place()
        pointers = _numpy.view(part.pointers, part.rows + 1, numpy.intp)
        elements = int(pointers[-1]) - int(pointers[0])
        columns = _numpy.view(part.columns, elements, numpy.intc)
        ghost_columns = _numpy.view(part.ghost_columns, part.ghosts, numpy.intp)
        for fixed in (pointers, columns, ghost_columns):
            fixed.flags.writeable = False
        values = _numpy.view(part.values, elements, self.dtype)
        return MatrixPart(part.first_row, pointers, columns, values, ghost_columns)

    def remove(self) -> None:
        """Forgets the matrix, which has no vectors any more. Local; made alike by all ranks."""
        library.call("QUO_world_array_remove", self._world._handle, self._name)
