"""Contexts: queries, bindings, barriers, phases, scopes and memory that ranks share."""

from __future__ import annotations

import ctypes
import enum
import json as json_module
import threading
import weakref
from ctypes import c_int, c_longlong, c_void_p
from types import TracebackType
from typing import TYPE_CHECKING, Any, List, NamedTuple, Optional, Sequence, Tuple, Type, cast

from . import _library as library
from .errors import HandleError, WorkFailedError

if TYPE_CHECKING:
    from mpi4py import MPI

    import numpy


class ObjectType(enum.IntEnum):
    """Kinds of hardware objects. Indices of objects are logical, from 0."""

    MACHINE = 0
    NUMANODE = 1
    PACKAGE = 2
    CORE = 4
    PU = 5
    DIE = 6
    L3CACHE = 7
    L2CACHE = 8
    L1CACHE = 9


class Distribution(enum.IntEnum):
    """Rules of :meth:`Context.select`."""

    SPREAD = 0
    LIBQUO_COMPAT = 1


class Threads(enum.IntEnum):
    """Handling of the thread counts of OpenMP and BLAS libraries in a phase."""

    KEEP = 0
    OPENMP = 1


class Cores(enum.IntEnum):
    """Cores of a hybrid processor that a phase uses."""

    ALL = 0
    FASTEST = 1


class Sharing(enum.IntEnum):
    """Conduct of a phase whose CPUs another one has."""

    OVERLAP = 0
    WAIT = 1
    LEFT = 2


class DeviceKind(enum.IntEnum):
    """A kind of device, by its class on the PCI bus."""

    GPU = 0
    NETWORK = 1
    STORAGE = 2


class MemoryPolicy(enum.IntEnum):
    """NUMA nodes from which the kernel takes pages when they are first written."""

    KEEP = 0
    FOLLOW = 1
    BIND = 2
    INTERLEAVE = 3


def _extent(array: "numpy.ndarray[Any, Any]") -> Tuple[int, int]:
    """The address and the length in bytes of an array."""
    if not (array.flags.c_contiguous or array.flags.f_contiguous):
        raise ValueError("the array is not contiguous: place the array that it is a view of")
    return int(array.ctypes.data), int(array.nbytes)


class CoreKind(NamedTuple):
    """A kind of cores of a hybrid processor."""

    #: Relative to the other kinds; 0 where unknown.
    speed: int
    #: CPUs as a list such as "0-3,8".
    cpus: str


class Worker(NamedTuple):
    """Assignment of a rank that works in a phase."""

    #: Threads to run: the worker's share of the CPUs.
    threads: int
    #: The first of the qids whose work this rank does.
    first_qid: int
    #: Number of these qids, which are contiguous; the rank's own is among them.
    qids: int
    #: CPUs that the rank is bound to while the phase runs, as a list such as "0-3,8".
    cpus: str


class PhaseMetrics(NamedTuple):
    """Cost of the last run of a phase for this rank. Times are in seconds."""

    selected: bool
    threads: int
    run_seconds: float
    quiesced_seconds: float
    remap_seconds: float


class _Handle:
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


class Pushed:
    """A pushed binding, which is popped at the end of a ``with`` block."""

    def __init__(self, context: "Context") -> None:
        self._context = context

    def __enter__(self) -> None:
        return None

    def __exit__(self, *_unused: object) -> None:
        self._context.pop()


class Context(_Handle):
    """A context: the ranks of a communicator, with a part on each node.

    Collective over the communicator, which is duplicated. To be freed, collectively, by
    :meth:`free` or at the end of a ``with`` block, before MPI's end.
    """

    _free = "QUO_free"

    def __init__(
        self,
        comm: Optional["MPI.Intracomm"] = None,
        *,
        hide_smt: bool = False,
        lends: bool = False,
    ) -> None:
        """Creates a context over ``comm``, by default ``MPI.COMM_WORLD``.

        ``hide_smt`` hides all but one hardware thread of each core; it is the same on every rank.
        ``lends`` lends this rank's CPUs while it waits in a barrier or at a phase's end.
        """
        super().__init__("context")
        library.load()
        from mpi4py import MPI

        comm = MPI.COMM_WORLD if comm is None else comm
        options = library.CreateOptions(
            ctypes.sizeof(library.CreateOptions), int(bool(hide_smt)) | 2 * int(bool(lends))
        )
        library.call("QUO_create_with_options_f2c", self._value, comm.py2f(), options)

    @classmethod
    def _of(cls, handle: c_void_p) -> "Context":
        context = cls.__new__(cls)
        _Handle.__init__(context, "context")
        context._value = handle
        return context

    # What the machine has

    def count(self, kind: ObjectType) -> int:
        """Returns the number of objects of a kind on this node. Local."""
        return library.number("QUO_nobjs_by_type", self._handle, int(kind))

    def count_in(self, outer: ObjectType, index: int, kind: ObjectType) -> int:
        """Returns the number of objects of a kind inside another object. Local."""
        arguments = (self._handle, int(outer), index, int(kind))
        return library.number("QUO_nobjs_in_type_by_type", *arguments)

    def cpus_of(self, kind: ObjectType, index: int) -> str:
        """Returns the CPUs of an object as a list such as "0-3,8". Local."""
        return library.text("QUO_cpuset_of_type", self._handle, int(kind), index)

    def core_kinds(self) -> List[CoreKind]:
        """Returns the kinds of cores, the slowest first; more than one on a hybrid processor.

        Local.
        """
        count = library.number("QUO_ncore_kinds", self._handle)
        kinds = []
        for index in range(count):
            speed = c_int()
            cpus = library.text("QUO_core_kind", self._handle, index, speed)
            kinds.append(CoreKind(speed.value, cpus))
        return kinds

    @property
    def nodes(self) -> int:
        """The number of nodes of the context: machines, not NUMA nodes. Local."""
        return library.number("QUO_nnodes", self._handle)

    # Who is where

    @property
    def qid(self) -> int:
        """This rank's number among the context's ranks on its node, from 0. Local."""
        return library.number("QUO_id", self._handle)

    @property
    def qids(self) -> int:
        """The number of the context's ranks on this node. Local."""
        return library.number("QUO_nqids", self._handle)

    @property
    def is_bound(self) -> bool:
        """True if the binding leaves out CPUs that the control group allows. Local."""
        return bool(library.number("QUO_bound", self._handle))

    def binding(self, qid: Optional[int] = None) -> str:
        """Returns the binding of this rank, or of another one of the node, as a list of CPUs.

        Local; asks the kernel.
        """
        if qid is None:
            return library.text("QUO_stringify_cbind", self._handle)
        return library.text("QUO_stringify_cbind_of", self._handle, qid)

    def is_in(self, kind: ObjectType, index: int) -> bool:
        """Returns true if the binding shares a CPU with an object. Local; asks the kernel."""
        return bool(library.number("QUO_cpuset_in_type", self._handle, int(kind), index))

    def qids_in(self, kind: ObjectType, index: int) -> List[int]:
        """Returns the ranks of the node whose binding shares a CPU with an object.

        Local; asks the kernel about each rank.
        """
        return library.qids("QUO_qids_in_type", self._handle, int(kind), index)

    def explain(self) -> str:
        """Returns the bindings of the node and their reasons, for people. Local."""
        return library.text("QUO_explain", self._handle, 0)

    def explained(self) -> Any:
        """Returns the bindings of :meth:`explain` as dictionaries and lists. Local."""
        return json_module.loads(library.text("QUO_explain", self._handle, 1))

    # Changing the binding

    def push(self, kind: ObjectType, index: Optional[int] = None) -> Pushed:
        """Binds the process to an object and remembers the binding it had.

        Without ``index`` it is the smallest object of the kind that encloses the binding. Local.
        Use as ``with context.push(...)``, or call :meth:`pop`.
        """
        policy, place = (1, -1) if index is None else (0, index)
        library.call("QUO_bind_push", self._handle, policy, int(kind), place)
        return Pushed(self)

    def push_cpus(self, cpus: str) -> Pushed:
        """Binds the process to CPUs, such as "0-3,8", as :meth:`push`. Local."""
        library.call("QUO_bind_push_cpuset", self._handle, library.encoded(cpus))
        return Pushed(self)

    def pop(self) -> None:
        """Undoes the last push. Local."""
        library.call("QUO_bind_pop", self._handle)

    # Working together

    def barrier(self, timeout: Optional[float] = None) -> None:
        """Waits, asleep, until every rank of the node has called. Collective over the node.

        ``timeout`` is in seconds; when that of one rank runs out, the barrier fails on all.
        """
        if timeout is None:
            library.call("QUO_barrier", self._handle)
        else:
            library.call("QUO_barrier_timed", self._handle, timeout)

    def select(
        self,
        kind: ObjectType,
        max_per_object: int = 1,
        distribution: Distribution = Distribution.SPREAD,
    ) -> bool:
        """Returns true if this rank works when at most ``max_per_object`` ranks per object do.

        Collective over the node.
        """
        arguments = (self._handle, int(kind), max_per_object, int(distribution))
        return bool(library.number("QUO_auto_distrib_with_policy", *arguments))

    def comm_of(self, kind: ObjectType) -> "MPI.Intracomm":
        """Makes a communicator of the node's ranks that share an object with this one.

        Collective over the context. To be freed with its ``Free``.
        """
        from mpi4py import MPI

        handle = library.number("QUO_get_mpi_comm_by_type_f2c", self._handle, int(kind))
        return cast("MPI.Intracomm", MPI.Comm.f2py(handle))

    def phase(
        self,
        kind: ObjectType = ObjectType.PACKAGE,
        max_per_object: int = 1,
        *,
        threads: Threads = Threads.OPENMP,
        cores: Cores = Cores.ALL,
        sharing: Sharing = Sharing.OVERLAP,
        sharing_timeout: float = 0.0,
        name: Optional[str] = None,
    ) -> "Phase":
        """Selects the workers of a phase, which can be run any number of times.

        With ``sharing`` other than ``OVERLAP`` the phase has its CPUs alone: it waits for all of
        them, or takes those that are free, for at most ``sharing_timeout`` seconds (0: the limit of
        creation). Collective over the node; the arguments are the same on every rank.
        """
        shared = (sharing, sharing_timeout)
        return Phase(self, kind, max_per_object, threads, cores, shared, name)

    def named_barrier(self, name: str, qids: Optional[Sequence[int]] = None) -> "NamedBarrier":
        """Makes a barrier among some ranks of the node, by default all. Collective over them."""
        return NamedBarrier(self, name, qids)

    def shared_memory(self, size: int, qids: Optional[Sequence[int]] = None) -> "SharedMemory":
        """Allocates memory that the ranks of the node, or some of them, share.

        ``size`` is in bytes and may differ between ranks. Collective over these ranks.
        """
        return SharedMemory(self, size, qids)

    # Scopes

    def split_by_weight(self, kind: ObjectType, weights: Sequence[int], part: int) -> "Context":
        """Splits the node's hardware in proportion to weights, and returns the caller's scope.

        A scope is a context of the ranks that name the same part, confined to it. Collective over
        the context; ``weights`` is the same on every rank.
        """
        return self._split("QUO_split_by_weight", kind, weights, part)

    def split_by_count(self, kind: ObjectType, counts: Sequence[int], part: int) -> "Context":
        """As :meth:`split_by_weight`, with a number of objects for each part."""
        return self._split("QUO_split_by_count", kind, counts, part)

    def split_by_device(self, kind: ObjectType, device: DeviceKind, index: int) -> "Context":
        """As :meth:`split_by_weight`, with a part for each device that a rank of the node names.

        A part has the objects near its device; what several devices are near is dealt out among
        them. ``index`` is the caller's device among those of :meth:`ndevices`; see
        :meth:`assign_device`. ``kind`` and ``device`` are the same on every rank.
        """
        out = c_void_p()
        library.call(
            "QUO_split_by_device", self._handle, int(kind), int(device), int(index), out
        )
        return Context._of(out)

    def ndevices(self, device: DeviceKind) -> int:
        """Number of the node's devices of a kind, without GPUs that the environment hides.

        Local.
        """
        return library.number("QUO_ndevices", self._handle, int(device))

    def assign_device(self, device: DeviceKind) -> Optional[int]:
        """Index of the device that this rank should use, ``None`` where there is none.

        Each device has as many ranks of the node as any other, or one more, and near ones as far
        as that allows. Collective over the node; ``device`` is the same on every rank.
        """
        index = library.number("QUO_assign_device", self._handle, int(device))
        return index if index >= 0 else None

    def _split(
        self, function: str, kind: ObjectType, shares: Sequence[int], part: int
    ) -> "Context":
        out = c_void_p()
        numbers = library.numbers(shares)
        library.call(function, self._handle, int(kind), len(numbers), numbers, part, out)
        return Context._of(out)

    # Memory

    def set_memory_policy(self, policy: MemoryPolicy) -> None:
        """Lets a policy go with this rank's pushes and phases from now on: what the calling thread
        writes first comes from the NUMA nodes of the CPUs pushed. The pop of the last push brings
        the thread's own policy back, and ``KEEP`` ends this. Local; by the thread that pushes."""
        library.call("QUO_set_memory_policy", self._handle, int(policy))

    def place(
        self, array: "numpy.ndarray[Any, Any]", kind: ObjectType, index: int, policy: MemoryPolicy
    ) -> None:
        """Gives the memory of a contiguous array to the NUMA nodes of an object: pages that there are
        move, others come from there when they are first written. Local."""
        start, length = _extent(array)
        library.call("QUO_memory_place", self._handle, start, length, int(kind), index, int(policy))

    def places(self, array: "numpy.ndarray[Any, Any]") -> Tuple[List[int], int]:
        """Asks the kernel for the bytes of a contiguous array on each NUMA node, and for those that
        have no page. Local."""
        start, length = _extent(array)

        def on(node: int) -> int:
            found = c_longlong()
            library.call("QUO_memory_on_node", self._handle, start, length, node, found)
            return found.value

        count = self.count(ObjectType.NUMANODE)
        return [on(node) for node in range(count)], on(-1)

    # Lending

    def lend(self) -> None:
        """Lends this rank's CPUs to others of the node until :meth:`reclaim`. Local."""
        library.call("QUO_lend", self._handle)

    def reclaim(self) -> None:
        """Takes the CPUs back at once; who borrowed them gives them up at its next look. Local."""
        library.call("QUO_reclaim", self._handle)

    def borrow(self) -> Tuple[int, int]:
        """Binds to lent CPUs, too. Returns the number borrowed, and that of threads to run. Local."""
        borrowed, threads = c_int(), c_int()
        library.call("QUO_borrow", self._handle, borrowed, threads)
        return borrowed.value, threads.value

    def is_wanted(self) -> bool:
        """Returns true if an owner wants borrowed CPUs back: :meth:`give_back` is next. Local."""
        return bool(library.number("QUO_borrow_wanted", self._handle))

    def lenders(self) -> int:
        """Returns the number of other ranks of the node that lend now. Local."""
        return library.number("QUO_lenders", self._handle)

    def give_back(self) -> None:
        """Gives borrowed CPUs back, and restores the binding. Local."""
        library.call("QUO_give_back", self._handle)

    # Members that come and go

    def detach(self) -> None:
        """Leaves the barriers of the node; the others go on without this rank. Local."""
        library.call("QUO_detach", self._handle)

    def attach(self) -> None:
        """Comes back after :meth:`detach`. Local."""
        library.call("QUO_attach", self._handle)

    def dead_qids(self) -> List[int]:
        """Returns the ranks of the node that ended without freeing the context. Local."""
        return library.qids("QUO_dead_qids", self._handle)

    def expel(self, qid: int) -> None:
        """Removes a dead rank. Local; made by every rank before its next collective call."""
        library.call("QUO_expel", self._handle, qid)

    def adapt(self, comm: "MPI.Intracomm") -> None:
        """Takes the context to the ranks of another communicator. Collective over ``comm``."""
        library.call("QUO_adapt_f2c", self._handle, comm.py2f())

    def retire(self) -> None:
        """Leaves the ranks of the context and keeps the handle. Local."""
        library.call("QUO_retire", self._handle)


class NamedBarrier(_Handle):
    """A barrier among some ranks of a node. Made by :meth:`Context.named_barrier`."""

    _free = "QUO_named_barrier_free"

    def __init__(self, context: Context, name: str, qids: Optional[Sequence[int]]) -> None:
        super().__init__("named barrier")
        members = None if qids is None else library.numbers(qids)
        count = 0 if qids is None else len(qids)
        handle, text = context._handle, library.encoded(name)
        library.call("QUO_named_barrier_create", handle, text, members, count, self._value)

    def wait(self, timeout: Optional[float] = None) -> None:
        """Waits, asleep, until every member has called. Collective over the members."""
        if timeout is None:
            library.call("QUO_named_barrier_wait", self._handle)
        else:
            library.call("QUO_named_barrier_wait_timed", self._handle, timeout)


class Phase(_Handle):
    """A phase: some ranks work with wider bindings, the others sleep.

    Made by :meth:`Context.phase`; freed by :meth:`free` or ``with``.
    """

    _free = "QUO_phase_free"

    def __init__(
        self,
        context: Context,
        kind: ObjectType,
        max_per_object: int,
        threads: Threads,
        cores: Cores,
        shared: Tuple[Sharing, float],
        name: Optional[str],
    ) -> None:
        super().__init__("phase")
        self._context = context
        self._controls_threads = threads is Threads.OPENMP
        self._pools: Any = None
        spec = library.PhaseSpec(
            ctypes.sizeof(library.PhaseSpec),
            int(kind),
            max_per_object,
            int(threads),
            library.encoded(name),
            int(cores),
            int(shared[0]),
            shared[1],
        )
        library.call("QUO_phase_create", context._handle, spec, self._value)

    def run(self) -> "PhaseRun":
        """Runs the phase once, in a ``with`` block::

            with phase.run() as worker:
                if worker:
                    solve(threads=worker.threads)

        ``worker`` is None on ranks that are not selected; these sleep at the end of the block.
        While the block runs, OpenMP, BLAS and, with threadpoolctl, the libraries inside of Python's
        modules (NumPy's OpenBLAS) that were loaded before the first run have the worker's threads.
        An exception in the block fails the run on all ranks of the node: it goes on here, and the
        others get :class:`WorkFailedError` with its text. Collective over the node.
        """
        return PhaseRun(self)

    def _limit_threads(self, threads: int) -> Any:
        """Sets the thread counts of libraries that Python's modules have brought along.

        Their symbols are private to the module, so that libquo does not see them. Returns what
        restores the counts; None without threadpoolctl.
        """
        if not self._controls_threads:
            return None
        if self._pools is None:
            try:
                import threadpoolctl
            except ImportError:
                self._controls_threads = False
                return None
            self._pools = threadpoolctl.ThreadpoolController()
        return self._pools.limit(limits=threads)

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
        self._limits: Any = None

    def __enter__(self) -> Optional[Worker]:
        handle = self._phase._handle
        selected, threads, first, count = c_int(), c_int(), c_int(), c_int()
        library.call("QUO_phase_begin", handle, selected, threads)
        if not selected.value:
            return None
        try:
            library.call("QUO_phase_qids", handle, first, count)
            cpus = self._phase._context.binding()
            self._limits = self._phase._limit_threads(threads.value)
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
        if self._limits is not None:
            self._limits.restore_original_limits()
        if error is None:
            library.call("QUO_phase_end", handle)
            return
        reason = f"{type(error).__name__}: {error}".replace("\0", " ")
        library.call("QUO_phase_fail", handle, reason.encode("utf-8", "replace"))
        try:
            library.call("QUO_phase_end", handle)
        except WorkFailedError:
            pass  # The exception of the block goes on.


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
        import numpy

        return numpy.frombuffer(self.view(first, last), dtype=dtype)


class _Mapping:
    """The memory in this process, which is unmapped when the last view has gone."""

    def __init__(self, handle: c_void_p) -> None:
        self.handle = handle
        weakref.finalize(self, _unmap, handle)
