"""Handles of the library."""

from ctypes import c_void_p
from types import TracebackType
from typing import Any, Optional, Type

from . import _library as library
from .errors import HandleError


class Handle:
    """A handle of the library, which is freed once, by hand or by ``with``."""

    _free = ""

    def __init__(self, kind: str) -> None:
        self._kind = kind
        self._value = c_void_p()

    @property
    def _handle(self) -> c_void_p:
        if not self._value:
            raise HandleError(15, f"the {self._kind} was freed before")
        return self._value

    def free(self) -> None:
        """Frees the object. Does nothing where that was done before."""
        if self._value:
            library.call(self._free, self._value)
            self._value = c_void_p()

    def __enter__(self) -> Any:
        return self

    def __exit__(
        self,
        kind: Optional[Type[BaseException]],
        error: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None:
        self.free()
