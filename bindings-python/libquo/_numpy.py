"""The check for NumPy, which only arrays need, and views of the library's memory."""

import ctypes
from typing import TYPE_CHECKING, Any, Optional

if TYPE_CHECKING:
    import numpy


def require() -> None:
    """Raises an :class:`ImportError` with the remedy if NumPy cannot be imported."""
    try:
        import numpy  # noqa: F401
    except ImportError as error:
        raise ImportError(
            f"libquo: arrays need NumPy ({error}): install it for this Python, such as by "
            "`apt-get install python3-numpy` or `pip install numpy`, or load the site's module",
            name="numpy",
        ) from error


def view(address: Optional[int], count: int, dtype: Any) -> "numpy.ndarray[Any, Any]":
    """Returns a vector at an address, without a copy."""
    import numpy

    dtype = numpy.dtype(dtype)
    if not count or not address:
        return numpy.empty(0, dtype)
    buffer = (ctypes.c_ubyte * (count * dtype.itemsize)).from_address(address)
    return numpy.frombuffer(memoryview(buffer).cast("B"), dtype)
