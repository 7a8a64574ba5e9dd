"""Memory that ranks of a node share."""

from __future__ import annotations

import ctypes
import threading
import weakref
from ctypes import c_void_p
from typing import TYPE_CHECKING, Any, Optional, Sequence

from . import _library as library
from . import _numpy
from .errors import HandleError

if TYPE_CHECKING:
    import numpy

    from .context import Context


def _unmap(handle: c_void_p) -> None:
    # After MPI's end the library refuses, and the process's end unmaps.
    library.load().QUO_xpm_free(handle)


class SharedMemory:
    """One block for each rank of the node, all mapped by all of them, behind each other.

    Made by :meth:`Context.shared_memory`; starts as zeros. :meth:`free`, or the end of a ``with``
    block, gives the memory up; it stays mapped as long as a view of it is in use.
    """

    def __init__(self, context: Context, size: int, qids: Optional[Sequence[int]]) -> None:
        handle = c_void_p()
        if qids is None:
            library.call("QUO_xpm_allocate", context._handle, size, handle)
        else:
            members = library.numbers(qids)
            arguments = (context._handle, members, len(members), size, handle)
            library.call("QUO_xpm_allocate_by_qids", *arguments)
        self._lock = threading.Lock()
        self._mapping: Optional[_Mapping] = _Mapping(handle)

    def free(self) -> None:
        """Gives the memory up. Local. Does nothing where that was done before."""
        with self._lock:
            self._mapping = None

    def __enter__(self) -> "SharedMemory":
        return self

    def __exit__(self, *_unused: object) -> None:
        self.free()

    def view(self, first: Optional[int] = None, last: Optional[int] = None) -> memoryview:
        """Returns the bytes of a block, or of the blocks of the qids ``first`` to ``last``.

        Without arguments it is the caller's block. Local.
        """
        mapping = self._mapping
        if mapping is None:
            raise HandleError(15, "the shared memory was freed before")
        place = library.View()
        if first is None:
            library.call("QUO_xpm_view_local", mapping.handle, place)
        else:
            end = first if last is None else last
            library.call("QUO_xpm_view_by_qid_range", mapping.handle, first, end, place)
        if not place.extent:
            return memoryview(bytearray())
        buffer = (ctypes.c_ubyte * place.extent).from_address(place.base)
        # Keeps the memory mapped as long as the view is there.
        buffer._mapping = mapping
        return memoryview(buffer).cast("B")

    def array(
        self, dtype: Any = float, first: Optional[int] = None, last: Optional[int] = None
    ) -> "numpy.ndarray[Any, Any]":
        """Returns the memory of :meth:`view` as a one-dimensional array of NumPy. Local."""
        _numpy.require()
        import numpy

        return numpy.frombuffer(self.view(first, last), dtype=dtype)


class _Mapping:
    """The memory in this process, which is unmapped when the last view has gone."""

    def __init__(self, handle: c_void_p) -> None:
        self.handle = handle
        weakref.finalize(self, _unmap, handle)
