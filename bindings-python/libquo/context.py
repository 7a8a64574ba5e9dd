"""Contexts: queries, bindings, barriers, phases, scopes and memory that ranks share."""

from __future__ import annotations

import ctypes
import json as json_module
from ctypes import c_int, c_longlong, c_void_p
from typing import TYPE_CHECKING, Any, Dict, List, Optional, Sequence, Tuple, cast

from . import _library as library
from ._handle import Handle
from .phases import Phase
from .shared import SharedMemory
from .values import (
    CoreKind,
    Cores,
    Device,
    DeviceKind,
    Distribution,
    MemoryPolicy,
    ObjectType,
    Pinning,
    Sharing,
    Threads,
)

if TYPE_CHECKING:
    from mpi4py import MPI

    import numpy


def _extent(array: "numpy.ndarray[Any, Any]") -> Tuple[int, int]:
    """The address and the length in bytes of an array."""
    if not (array.flags.c_contiguous or array.flags.f_contiguous):
        raise ValueError("the array is not contiguous: place the array that it is a view of")
    return int(array.ctypes.data), int(array.nbytes)


class Pushed:
    """A pushed binding, which is popped at the end of a ``with`` block."""

    def __init__(self, context: "Context") -> None:
        self._context = context

    def __enter__(self) -> None:
        return None

    def __exit__(self, *_unused: object) -> None:
        self._context.pop()


class Context(Handle):
    """A context: the ranks of a communicator, with a part on each node.

    Collective over the communicator, which is duplicated. To be freed, collectively, by
    :meth:`free` or at the end of a ``with`` block, before MPI's end; its phases and named
    barriers are freed with it.
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
        Handle.__init__(context, "context")
        context._value = handle
        return context

    # What the machine has

    def count(self, kind: ObjectType | str) -> int:
        """Returns the number of objects of a kind on this node. Local."""
        return library.number("QUO_nobjs_by_type", self._handle, ObjectType.of(kind))

    def count_in(self, outer: ObjectType | str, index: int, kind: ObjectType | str) -> int:
        """Returns the number of objects of a kind inside another object. Local."""
        arguments = (self._handle, ObjectType.of(outer), index, ObjectType.of(kind))
        return library.number("QUO_nobjs_in_type_by_type", *arguments)

    def cpus_of(self, kind: ObjectType | str, index: int) -> str:
        """Returns the CPUs of an object as a list such as "0-3,8". Local."""
        return library.text("QUO_cpuset_of_type", self._handle, ObjectType.of(kind), index)

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

    # Places and bindings of ranks

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

    def is_in(self, kind: ObjectType | str, index: int) -> bool:
        """Returns true if the binding shares a CPU with an object. Local; asks the kernel."""
        return bool(library.number("QUO_cpuset_in_type", self._handle, ObjectType.of(kind), index))

    def qids_in(self, kind: ObjectType | str, index: int) -> List[int]:
        """Returns the ranks of the node with a binding that shares a CPU with an object.

        Local; asks the kernel about each rank.
        """
        return library.qids("QUO_qids_in_type", self._handle, ObjectType.of(kind), index)

    def explain(self) -> str:
        """Returns the bindings of the node and their reasons, for people. Local."""
        return library.text("QUO_explain", self._handle, 0)

    def explained(self) -> Any:
        """Returns the bindings of :meth:`explain` as dictionaries and lists. Local."""
        return json_module.loads(library.text("QUO_explain", self._handle, 1))

    # Changing the binding

    def push(self, kind: ObjectType | str, index: Optional[int] = None) -> Pushed:
        """Binds the process to an object and remembers the binding it had.

        Without ``index`` it is the smallest object of the kind that encloses the binding. Local.
        Use as ``with context.push(...)``, or call :meth:`pop`.
        """
        policy, place = (1, -1) if index is None else (0, index)
        library.call("QUO_bind_push", self._handle, policy, ObjectType.of(kind), place)
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
        kind: ObjectType | str,
        max_per_object: int = 1,
        distribution: Distribution | str = Distribution.SPREAD,
    ) -> bool:
        """Returns true if this rank works when at most ``max_per_object`` ranks per object do.

        Collective over the node.
        """
        rule = Distribution.of(distribution)
        arguments = (self._handle, ObjectType.of(kind), max_per_object, rule)
        return bool(library.number("QUO_auto_distrib_with_policy", *arguments))

    def comm_of(self, kind: ObjectType | str) -> "MPI.Intracomm":
        """Makes a communicator of the node's ranks that share an object with this one.

        Collective over the context. To be freed with its ``Free``.
        """
        from mpi4py import MPI

        handle = library.number("QUO_get_mpi_comm_by_type_f2c", self._handle, ObjectType.of(kind))
        return cast("MPI.Intracomm", MPI.Comm.f2py(handle))

    def phase(
        self,
        kind: ObjectType | str = ObjectType.PACKAGE,
        max_per_object: int = 1,
        *,
        threads: Threads | str = Threads.OPENMP,
        cores: Cores | str = Cores.ALL,
        sharing: Sharing | str = Sharing.OVERLAP,
        sharing_timeout: float = 0.0,
        pinning: Pinning | str = Pinning.ENVIRONMENT,
        name: Optional[str] = None,
    ) -> "Phase":
        """Selects the workers of a phase, which can be run any number of times.

        With ``sharing`` other than ``OVERLAP`` the phase has its CPUs alone: it waits for all of
        them, or takes the free ones, for at most ``sharing_timeout`` seconds (0: the limit of
        creation). ``pinning`` puts each OpenMP thread on one CPU; by default as ``OMP_PROC_BIND`` and its
        relatives say, on the worker's CPUs. Collective over the node; the arguments are the same on every rank.
        """
        return Phase(
            self,
            ObjectType.of(kind),
            max_per_object,
            Threads.of(threads),
            Cores.of(cores),
            (Sharing.of(sharing), sharing_timeout),
            Pinning.of(pinning),
            name,
        )

    def named_barrier(self, name: str, qids: Optional[Sequence[int]] = None) -> "NamedBarrier":
        """Makes a barrier among some ranks of the node, by default all. Collective over them."""
        return NamedBarrier(self, name, qids)

    def shared_memory(self, size: int, qids: Optional[Sequence[int]] = None) -> "SharedMemory":
        """Allocates memory that the ranks of the node, or some of them, share.

        ``size`` is in bytes and may differ between ranks. Collective over these ranks.
        """
        return SharedMemory(self, size, qids)

    # Scopes

    def split_by_weight(
        self, kind: ObjectType | str, weights: Sequence[int], part: int
    ) -> "Context":
        """Splits the node's hardware in proportion to weights, and returns the caller's scope.

        A scope is a context of the ranks that name the same part, confined to it. Collective over
        the context; ``weights`` is the same on every rank.
        """
        return self._split("QUO_split_by_weight", kind, weights, part)

    def split_by_count(
        self, kind: ObjectType | str, counts: Sequence[int], part: int
    ) -> "Context":
        """As :meth:`split_by_weight`, with a number of objects for each part."""
        return self._split("QUO_split_by_count", kind, counts, part)

    def split_by_device(
        self, kind: ObjectType | str, device: DeviceKind | str, index: int
    ) -> "Context":
        """As :meth:`split_by_weight`, with a part for each device that a rank of the node names.

        A part has the objects near its device; objects near several devices are divided among
        them. ``index`` is the caller's device among those of :meth:`ndevices`; see
        :meth:`assign_device`. ``kind`` and ``device`` are the same on every rank.
        """
        out = c_void_p()
        kinds = (ObjectType.of(kind), DeviceKind.of(device))
        library.call("QUO_split_by_device", self._handle, *kinds, int(index), out)
        return Context._of(out)

    def ndevices(self, device: DeviceKind | str) -> int:
        """Number of the node's devices of a kind, without GPUs that the environment hides.

        Local.
        """
        return library.number("QUO_ndevices", self._handle, DeviceKind.of(device))

    def assign_device(self, device: DeviceKind | str) -> Optional[int]:
        """Index of the device that this rank should use, ``None`` where there is none.

        Each device has as many ranks of the node as any other, or one more, and near ones as far
        as that allows. Collective over the node; ``device`` is the same on every rank.
        """
        index = library.number("QUO_assign_device", self._handle, DeviceKind.of(device))
        return index if index >= 0 else None

    def device(self, kind: DeviceKind | str, index: int) -> Device:
        """Returns a device, by its index among those of :meth:`ndevices`. Local."""
        bus, cpus = c_void_p(), c_void_p()
        library.call("QUO_device", self._handle, DeviceKind.of(kind), index, bus, cpus)
        return Device(library.taken(bus), library.taken(cpus))

    def visible_devices(self, gpu: int) -> Dict[str, str]:
        """Returns the environment variables by which a program started with them sees one GPU only.

        Empty for a maker without such a variable. Local; nothing is set: ``os.environ.update`` does
        that, before the first call of the GPU's library.
        """
        text = library.text("QUO_visible_devices", self._handle, gpu)
        return dict(variable.split("=", 1) for variable in text.split())

    def _split(
        self, function: str, kind: ObjectType | str, shares: Sequence[int], part: int
    ) -> "Context":
        out = c_void_p()
        numbers = library.numbers(shares)
        library.call(function, self._handle, ObjectType.of(kind), len(numbers), numbers, part, out)
        return Context._of(out)

    # Memory

    def set_memory_policy(self, policy: MemoryPolicy | str) -> None:
        """Applies a memory policy to this rank's later pushes and phases: pages that the calling
        thread writes first come from the NUMA nodes of the pushed CPUs. The pop of the last push
        restores the thread's own policy, and ``KEEP`` ends this. Local; by the thread that pushes."""
        library.call("QUO_set_memory_policy", self._handle, MemoryPolicy.of(policy))

    def place(
        self,
        array: "numpy.ndarray[Any, Any]",
        kind: ObjectType | str,
        index: int,
        policy: MemoryPolicy | str,
    ) -> None:
        """Places the memory of a contiguous array on the NUMA nodes of an object: existing pages move,
        others are allocated there when they are first written. Local."""
        start, length = _extent(array)
        how = (ObjectType.of(kind), index, MemoryPolicy.of(policy))
        library.call("QUO_memory_place", self._handle, start, length, *how)

    def places(self, array: "numpy.ndarray[Any, Any]") -> Tuple[List[int], int]:
        """Asks the kernel for the bytes of a contiguous array on each NUMA node, and of those
        without a page. Local."""
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
        """Takes the CPUs back at once; the borrower releases them at its next look. Local."""
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

    # Members that leave and return

    def detach(self) -> None:
        """Leaves the barriers of the node; the other ranks no longer wait for this one. Local."""
        library.call("QUO_detach", self._handle)

    def attach(self) -> None:
        """Returns to the barriers after :meth:`detach`. Local."""
        library.call("QUO_attach", self._handle)

    def dead_qids(self) -> List[int]:
        """Returns the ranks of the node that ended without freeing the context. Local."""
        return library.qids("QUO_dead_qids", self._handle)

    def expel(self, qid: int) -> None:
        """Removes a dead rank. Local; every rank calls it before its next collective call."""
        library.call("QUO_expel", self._handle, qid)

    def adapt(self, comm: "MPI.Intracomm") -> None:
        """Takes the context to the ranks of another communicator. Collective over ``comm``."""
        library.call("QUO_adapt_f2c", self._handle, comm.py2f())

    def retire(self) -> None:
        """Leaves the ranks of the context and keeps the handle. Local."""
        library.call("QUO_retire", self._handle)


class NamedBarrier(Handle):
    """A barrier among some ranks of a node, made by :meth:`Context.named_barrier`."""

    _free = "QUO_named_barrier_free"

    def __init__(self, context: Context, name: str, qids: Optional[Sequence[int]]) -> None:
        super().__init__("named barrier", context)
        members = None if qids is None else library.numbers(qids)
        count = 0 if qids is None else len(qids)
        handle, text = context._handle, library.encoded(name)
        self._made("QUO_named_barrier_create", handle, text, members, count)

    def wait(self, timeout: Optional[float] = None) -> None:
        """Waits, asleep, until every member has called. Collective over the members."""
        if timeout is None:
            library.call("QUO_named_barrier_wait", self._handle)
        else:
            library.call("QUO_named_barrier_wait_timed", self._handle, timeout)
