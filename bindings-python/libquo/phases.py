"""Phases: some ranks work with wider bindings, the others sleep."""

from __future__ import annotations

import ctypes
from ctypes import c_int
from types import TracebackType
from typing import TYPE_CHECKING, Optional, Tuple, Type

from . import _library as library
from ._handle import Handle
from .errors import WorkFailedError
from .values import PhaseMetrics, Worker

if TYPE_CHECKING:
    from .context import Context


class Phase(Handle):
    """A phase: some ranks work with wider bindings, the others sleep.

    Made by :meth:`Context.phase`; freed by :meth:`free` or ``with``, or with its context.
    """

    _free = "QUO_phase_free"

    def __init__(
        self,
        context: Context,
        kind: int,
        max_per_object: int,
        threads: int,
        cores: int,
        shared: Tuple[int, float],
        pinning: int,
        name: Optional[str],
    ) -> None:
        super().__init__("phase", context)
        self._context = context
        spec = library.PhaseSpec(
            ctypes.sizeof(library.PhaseSpec),
            kind,
            max_per_object,
            threads,
            library.encoded(name),
            cores,
            shared[0],
            shared[1],
            pinning,
        )
        self._made("QUO_phase_create", context._handle, spec)

    def run(self) -> "PhaseRun":
        """Runs the phase once, in a ``with`` block::

            with phase.run() as worker:
                if worker:
                    solve(threads=worker.threads)

        ``worker`` is None on ranks that are not selected; these sleep at the end of the block.
        While the block runs, every OpenMP runtime and BLAS library of the process, those inside of
        Python's modules (NumPy's OpenBLAS) too, has the worker's threads. ``worker.threads`` is the
        number that every OpenMP runtime gives; :meth:`Context.explain` says why it is fewer than planned.
        An exception in the block fails the run on all ranks of the node: it propagates here, and the
        others get :class:`WorkFailedError` with its text. Collective over the node.
        """
        return PhaseRun(self)

    def pin_thread(self, number: int, count: int) -> None:
        """Binds the calling thread, number ``number`` of ``count`` on this rank, to one CPU until the run ends.

        For threads of Python's own pools, inside the block. Local.
        """
        library.call("QUO_phase_pin_thread", self._handle, number, count)

    def metrics(self) -> PhaseMetrics:
        """Returns the cost of the last run for this rank. Local."""
        raw = library.PhaseMetrics(ctypes.sizeof(library.PhaseMetrics))
        library.call("QUO_phase_metrics", self._handle, raw)
        return PhaseMetrics(
            bool(raw.selected),
            raw.threads,
            raw.run_seconds,
            raw.quiesced_seconds,
            raw.remap_seconds,
        )


class PhaseRun:
    """One run of a phase. Made by :meth:`Phase.run`."""

    def __init__(self, phase: Phase) -> None:
        self._phase = phase

    def __enter__(self) -> Optional[Worker]:
        handle = self._phase._handle
        selected, threads, first, count = c_int(), c_int(), c_int(), c_int()
        library.call("QUO_phase_begin", handle, selected, threads)
        if not selected.value:
            return None
        try:
            library.call("QUO_phase_qids", handle, first, count)
            cpus = self._phase._context.binding()
        except BaseException as error:
            self.__exit__(type(error), error, None)
            raise
        return Worker(threads.value, first.value, count.value, cpus)

    def __exit__(
        self,
        kind: Optional[Type[BaseException]],
        error: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None:
        handle = self._phase._handle
        if error is None:
            library.call("QUO_phase_end", handle)
            return
        reason = f"{type(error).__name__}: {error}".replace("\0", " ")
        library.call("QUO_phase_fail", handle, reason.encode("utf-8", "replace"))
        try:
            library.call("QUO_phase_end", handle)
        except WorkFailedError:
            pass  # The exception of the block propagates.
