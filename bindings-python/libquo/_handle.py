"""Handles of the library."""

from ctypes import c_void_p
from types import TracebackType
from typing import Any, List, Optional, Type, TypeVar

from . import _library as library
from .errors import HandleError


#: The class of the object itself: that which ``with`` gives.
Self = TypeVar("Self", bound="Handle")


class Handle:
    """A handle of the library, which is freed once, by hand or by ``with``."""

    _free = ""

    def __init__(self, kind: str, parent: "Optional[Handle]" = None) -> None:
        self._kind = kind
        self._value = c_void_p()
        self._parent = parent
        #: Objects made from this one that must be freed before it.
        self._children: "List[Handle]" = []

    @property
    def _handle(self) -> c_void_p:
        if not self._value:
            raise HandleError(15, f"the {self._kind} was freed before")
        return self._value

    def _made(self, function: str, *arguments: Any) -> None:
        """Makes the object by a function of the library, and lets its parent free it."""
        library.call(function, *arguments, self._value)
        if self._parent is not None:
            self._parent._children.append(self)

    def free(self) -> None:
        """Frees the object, and before it what was made from it and must not outlive it.

        Does nothing where that was done before.
        """
        for child in reversed(self._children[:]):
            child.free()
        if self._value:
            library.call(self._free, self._value)
            self._value = c_void_p()
            if self._parent is not None:
                self._parent._children.remove(self)

    def __enter__(self: Self) -> Self:
        return self

    def __exit__(
        self,
        kind: Optional[Type[BaseException]],
        error: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None:
        self.free()
