"""Memory per component at run time, and named regions, in programs under ``memprof run``.

Without the profiler :func:`is_active` is false, regions do nothing, and queries return None, so
that a program can keep its calls in production. No MPI is needed. Local to the process.
"""

from __future__ import annotations

import contextlib
import ctypes
from ctypes import (
    CFUNCTYPE,
    POINTER,
    Structure,
    c_char,
    c_char_p,
    c_int,
    c_size_t,
    c_uint32,
    c_uint64,
    c_void_p,
)
from typing import Dict, Iterator, NamedTuple, Optional


class _Component(Structure):
    """memprof_component_t."""

    _fields_ = [
        ("name", c_char * 96),
        ("owned", c_uint64),
        ("owned_peak", c_uint64),
        ("resident", c_uint64),
        ("resident_peak", c_uint64),
        ("sample_time_ns", c_uint64),
    ]


class _Totals(Structure):
    """memprof_totals_t."""

    _fields_ = [
        ("resident", c_uint64),
        ("resident_peak", c_uint64),
        ("unattributed", c_uint64),
        ("owned", c_uint64),
        ("sample_time_ns", c_uint64),
    ]


class _Time(Structure):
    """memprof_time_t."""

    _fields_ = [
        ("elapsed", c_uint64),
        ("useful", c_uint64),
        ("mpi", c_uint64),
        ("lent", c_uint64),
        ("point_to_point", c_uint64),
        ("collective", c_uint64),
        ("one_sided", c_uint64),
        ("file", c_uint64),
        ("wait", c_uint64),
        ("other", c_uint64),
        ("calls", c_uint64),
    ]


class _Loop(Structure):
    """memprof_loop_t."""

    _fields_ = [
        ("id", c_uint64),
        ("iterations", c_uint64),
        ("elapsed", c_uint64),
        ("mpi", c_uint64),
        ("recent_elapsed", c_uint64),
        ("recent_mpi", c_uint64),
    ]


class _Hooks(Structure):
    """memprof_hooks_t."""

    _fields_ = [
        ("version", c_uint32),
        ("size", c_uint32),
        ("region_begin", CFUNCTYPE(c_uint32, c_char_p, c_size_t, c_uint32)),
        ("region_end", CFUNCTYPE(None, c_uint32)),
        ("component_count", CFUNCTYPE(c_uint32)),
        ("component", CFUNCTYPE(c_int, c_uint32, POINTER(_Component))),
        ("totals", CFUNCTYPE(c_int, POINTER(_Totals))),
        ("flush", CFUNCTYPE(c_int)),
        ("time", CFUNCTYPE(c_int, POINTER(_Time))),
        ("lend_begin", CFUNCTYPE(None)),
        ("lend_end", CFUNCTYPE(None)),
        ("loops", CFUNCTYPE(None, c_uint32)),
        ("loop_copies", POINTER(c_uint64)),
        ("outermost_loops", CFUNCTYPE(c_int, POINTER(_Loop), c_uint32)),
    ]


#: The structures by their names in C, for the comparison with the header.
STRUCTURES = {
    "memprof_component_t": _Component,
    "memprof_totals_t": _Totals,
    "memprof_time_t": _Time,
    "memprof_loop_t": _Loop,
    "memprof_hooks_t": _Hooks,
}


class Component(NamedTuple):
    """Memory of a component, in bytes. Residency is that of the last sample."""

    owned: int
    owned_peak: int
    resident: int
    resident_peak: int


class Totals(NamedTuple):
    """Memory of the process, in bytes. Residency is that of the last sample."""

    resident: int
    resident_peak: int
    unattributed: int
    owned: int


class Time(NamedTuple):
    """Time of this process since MPI was ready, in seconds."""

    elapsed: float
    #: Outside of MPI.
    useful: float
    mpi: float
    #: In quo's barriers, while others use the CPUs.
    lent: float
    #: Calls of MPI.
    calls: int


_hooks: Optional[_Hooks] = None
_is_looked_up = False


def _profiler() -> Optional[_Hooks]:
    global _hooks, _is_looked_up
    if not _is_looked_up:
        try:
            function = ctypes.CDLL(None).memprof_hooks
        except AttributeError:
            pass
        else:
            function.argtypes = [c_uint32]
            function.restype = c_void_p
            address = function(1)
            _hooks = _Hooks.from_address(address) if address else None
        _is_looked_up = True
    return _hooks


def is_active() -> bool:
    """Returns true if the process runs under the profiler."""
    return _profiler() is not None


@contextlib.contextmanager
def region(name: str) -> Iterator[None]:
    """Makes the ``with`` block a separate phase in reports, with the peaks inside it.

    Regions nest, and belong to the process, not to a thread. Names longer than 47 bytes are cut.
    """
    hooks = _profiler()
    if hooks is None:
        yield
        return
    text = name.encode("utf-8")
    begun = hooks.region_begin(text, len(text), 0)
    try:
        yield
    finally:
        hooks.region_end(begun)


def components() -> Dict[str, Component]:
    """Returns the memory of each component, by its name in reports; empty without the profiler."""
    hooks = _profiler()
    found: Dict[str, Component] = {}
    if hooks is None:
        return found
    for index in range(hooks.component_count()):
        raw = _Component()
        if hooks.component(index, raw) == 0:
            name = raw.name.decode("utf-8", "replace")
            found[name] = Component(raw.owned, raw.owned_peak, raw.resident, raw.resident_peak)
    return found


def totals() -> Optional[Totals]:
    """Returns the memory of the process; None without the profiler or before its first sample."""
    hooks = _profiler()
    raw = _Totals()
    if hooks is None or hooks.totals(raw) != 0:
        return None
    return Totals(raw.resident, raw.resident_peak, raw.unattributed, raw.owned)


def time() -> Optional[Time]:
    """Returns where the time went; None without ``memprof run --mpi-time`` or before MPI is ready."""
    hooks = _profiler()
    raw = _Time()
    if hooks is None or hooks.size < ctypes.sizeof(_Hooks) or hooks.time(raw) != 0:
        return None
    return Time(raw.elapsed / 1e9, raw.useful / 1e9, raw.mpi / 1e9, raw.lent / 1e9, raw.calls)


def flush() -> bool:
    """Takes a sample now, which costs milliseconds. Returns false where nothing is recorded."""
    hooks = _profiler()
    return hooks is not None and hooks.flush() == 0
