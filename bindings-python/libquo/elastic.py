"""The elastic world: a job has more or fewer ranks while it runs.

The main loop of a program that can be resized::

    from libquo import Status, World

    with World(initial_ranks=2, max_ranks=4) as world:
        step = 0
        if world.status is Status.NEW:
            world.add_array("field", 1_000_000)
        while world.is_running():
            if world.enters():
                with world.begin() as window:
                    step = window.broadcast(step)
                continue
            if step == 100:
                break
            field = world.array("field")
            field.local[:] += 1.0
            step += 1

All ranks of the world make collective calls in the same order. A world is used by
one thread at a time.
"""

from __future__ import annotations

import ctypes
import json
import os
import pickle
import warnings
from ctypes import c_int, c_longlong
from types import TracebackType
from typing import (
    TYPE_CHECKING,
    Any,
    Callable,
    Dict,
    Iterator,
    List,
    Optional,
    Sequence,
    Tuple,
    Type,
    TypeVar,
    Union,
    cast,
)

from . import _library as library
from ._handle import Handle
from .arrays import Array, array_spec
from .errors import Error, ResizeAbortedError
from .items import Items, Owners
from .matrices import Matrix
from .values import (
    ArrayKind,
    Counts,
    Event,
    EventKind,
    RequestKind,
    RequestState,
    Status,
    Storage,
)

if TYPE_CHECKING:
    from mpi4py import MPI

T = TypeVar("T")

#: Bytes for the pickled state of a checkpoint; what is behind it is not read.
_STATE = 16384


class World(Handle):
    """The world of a job.

    Collective over all processes that were launched, or started for a growth, together; after
    MPI's start. To be ended by :meth:`end`, or at the end of a ``with`` block, before MPI's end.
    """

    _free = "QUO_world_end"

    def __init__(
        self,
        *,
        initial_ranks: int = 0,
        max_ranks: int = 0,
        processes_per_spawn: int = 0,
        allow_oversubscribe: bool = False,
        control: bool = False,
        messages: bool = False,
        start_timeout: float = 0.0,
        name: Optional[str] = None,
        log: Optional[str] = None,
        plan: Optional[str] = None,
        min_size: int = 0,
        max_size: int = 0,
        step: int = 0,
        allowed_sizes: Optional[Union[str, Sequence[int], Callable[[int], bool]]] = None,
        hosts: Optional[str] = None,
        spawn_command: Optional[Sequence[str]] = None,
        spawn_info: Optional[Dict[str, str]] = None,
        control_folder: Optional[str] = None,
        abort_on_death: bool = False,
        term_notice: float = 0.0,
        notice_folder: Optional[str] = None,
        placement: Optional[str] = None,
    ) -> None:
        """Makes the world.

        ``initial_ranks`` ranks begin and the other processes are parked (0: all that were launched);
        up to ``max_ranks`` there can be, beyond the launched ones by starting processes, which needs
        ``MPI_THREAD_MULTIPLE``. Both are the same on all processes; of the rest, what rank 0 says
        counts. ``control`` makes the job listen for the command ``quo-elastic``. ``allowed_sizes``
        are the numbers of ranks that the program can have: a list, "power-of-two", "square", or a
        function that returns true for a size that it can have. Times are in seconds.
        ``spawn_command`` is what is started, by default this interpreter with this program's
        arguments.
        """
        super().__init__("world")
        #: Functions that the library calls for the owners of items.
        self._owners: Dict[str, Any] = {}
        #: Exception of such a function in the present call.
        self._failure: Optional[BaseException] = None
        library.load()
        options = library.WorldOptions(ctypes.sizeof(library.WorldOptions))
        options.initial_ranks = initial_ranks
        options.max_ranks = max_ranks
        options.processes_per_spawn = processes_per_spawn
        options.allow_oversubscribe = allow_oversubscribe
        options.control = control
        options.messages = messages
        options.start_timeout = start_timeout
        options.name = library.encoded(name)
        options.log = library.encoded(log)
        options.plan = library.encoded(plan)
        options.min_size = min_size
        options.max_size = max_size
        options.step = step
        if callable(allowed_sizes):
            # Kept for as long as the library may call it.
            self._allows = library.SizeAllowed(lambda _data, size: int(bool(allowed_sizes(size))))
            options.allows = self._allows
        elif allowed_sizes is not None and not isinstance(allowed_sizes, str):
            options.allowed_sizes = ",".join(str(int(size)) for size in allowed_sizes).encode()
        else:
            options.allowed_sizes = library.encoded(allowed_sizes)
        options.hosts = library.encoded(hosts)
        options.spawn_command = library.encoded("\n".join(spawn_command) if spawn_command else None)
        pairs = (spawn_info or {}).items()
        lines = "\n".join(f"{key}={value}" for key, value in pairs) or None
        options.spawn_info = library.encoded(lines)
        options.control_folder = library.encoded(control_folder)
        options.abort_on_death = abort_on_death
        options.term_notice = term_notice
        options.notice_folder = library.encoded(notice_folder)
        options.placement = library.encoded(placement)
        library.call("QUO_world_create", self._value, options)

    def end(self) -> None:
        """Ends the world. Collective over the ranks; parked and ended processes make it, too."""
        self.free()

    def _move(self, function: str, *arguments: Any) -> None:
        """Makes a call that moves data. Its error has the exception of a function for owners as cause."""
        self._failure = None
        try:
            library.call(function, self._handle, *arguments)
        except Error as error:
            if self._failure is not None:
                raise error from self._failure
            raise
        finally:
            # Its frames have the items, which the next commit frees.
            self._failure = None

    def _long(self, function: str) -> int:
        out = c_longlong()
        library.call(function, self._handle, out)
        return out.value

    @property
    def status(self) -> Status:
        """The status of this process in the world. Local."""
        return Status(library.number("QUO_world_status", self._handle))

    @property
    def rank(self) -> Optional[int]:
        """This process's rank; None for a process that is no rank. Local."""
        from mpi4py import MPI

        rank = library.number("QUO_world_rank", self._handle)
        return None if rank == MPI.UNDEFINED else rank

    @property
    def size(self) -> int:
        """The number of ranks; on a process that is none, as of the last resize it saw. Local."""
        return library.number("QUO_world_size", self._handle)

    @property
    def capacity(self) -> int:
        """The number of ranks that there can be. Local."""
        return library.number("QUO_world_capacity", self._handle)

    @property
    def was_started(self) -> bool:
        """True if this process was started for a growth, and ends when it leaves. Local."""
        return bool(library.number("QUO_world_was_started", self._handle))

    @property
    def epoch(self) -> int:
        """The number of resizes that have been committed. Local."""
        return self._long("QUO_world_epoch")

    @property
    def node(self) -> int:
        """The number of this process's node, from 0. Local."""
        return library.number("QUO_world_node", self._handle)

    @property
    def back_end(self) -> str:
        """The MPI's means to resize this world, and how they were found, in a line. Local."""
        return library.text("QUO_world_back_end", self._handle)

    @property
    def comm(self) -> "MPI.Intracomm":
        """The communicator of the world until the next commit; not to be freed. Local."""
        from mpi4py import MPI

        comm = MPI.Comm.f2py(library.number("QUO_world_comm_f2c", self._handle))
        return cast("MPI.Intracomm", comm)

    # The main loop

    def is_running(self) -> bool:
        """Returns false when the job is over for this process. A parked process sleeps in it.

        Local. The first call of each turn of the main loop.
        """
        status = self.status
        if status is Status.PARKED:
            return self.wait()
        return status is not Status.ENDED

    def enters(self) -> bool:
        """Returns true if :meth:`begin` is next: all ranks have reached a resize, or this process
        joins. All ranks call it in the same places of the program.
        """
        return self.status is Status.JOINING or self.probe()

    def run(self, state: T) -> Iterator[T]:
        """Owns the main loop: yields the state for each step, on ranks only, until the program leaves it.

        ``state`` is a list, a dictionary or an object that the steps change. In each resize it is
        broadcast from rank 0, so that joiners continue where the others are. A resize that is
        aborted leaves the ranks as they are; an exception of this rank's ``owners`` that has
        aborted it is a :class:`RuntimeWarning`. A process without a rank sleeps in the loop, which
        ends with the job. All ranks leave in the same step.
        Collective over all processes of the world::

            for state in world.run({"step": 0}):
                world.array("field").exchange_halo()
                state["step"] += 1
                if state["step"] == 100:
                    break
        """
        steps = 0
        while self.is_running():
            library.call("QUO_world_report_iteration", self._handle, steps)
            if self.enters():
                try:
                    with self.begin() as window:
                        state = window.broadcast(state)
                except ResizeAbortedError as aborted:
                    # The ranks are the same as before, and all of them continue.
                    if aborted.__cause__ is not None:
                        text = f"{aborted}: {aborted.__cause__!r}"
                        warnings.warn(text, RuntimeWarning, stacklevel=2)
                continue
            yield state
            steps += 1

    def probe(self) -> bool:
        """Returns true if all ranks have reached a resize. All ranks call it in the same places."""
        return bool(library.number("QUO_world_probe", self._handle))

    def wait(self) -> bool:
        """Sleeps until this process is called in (true), or the job is over (false). Local."""
        return bool(library.number("QUO_world_wait", self._handle))

    def begin(self) -> "Window":
        """Opens the window in which data move, in a ``with`` block.

        The end of the block commits the resize, and moves the arrays unless that was done; an
        exception in it aborts the resize on all, and propagates. Collective over all stayers,
        leavers and joiners.
        """
        return Window(self)

    def report(
        self,
        iteration: int,
        seconds: float,
        *,
        mpi_ratio: Optional[float] = None,
        remaining: Optional[float] = None,
        bytes_per_rank: Optional[int] = None,
    ) -> None:
        """Reports the progress of the main loop to managers.

        ``seconds`` is the time of an iteration, ``mpi_ratio`` the time in MPI divided by that of
        computing, ``bytes_per_rank`` the memory of the largest rank. Local; only rank 0's
        report counts.
        """
        progress = library.Progress(
            ctypes.sizeof(library.Progress),
            iteration,
            seconds,
            -1.0 if mpi_ratio is None else mpi_ratio,
            -1.0 if remaining is None else remaining,
            -1 if bytes_per_rank is None else bytes_per_rank,
        )
        library.call("QUO_world_report_progress", self._handle, progress)

    # Requests and events, on rank 0

    def request(
        self,
        ranks: int = 0,
        kind: RequestKind | str = RequestKind.SIZE,
        *,
        nodes: int = 0,
        on: Sequence[str] = (),
        leaving: Sequence[str] = (),
        grace: float = 0.0,
        origin: Optional[str] = None,
    ) -> int:
        """Requests a resize at one of the next probes. Returns the request's number.

        ``on`` are hosts to grow on or to move to, ``leaving`` hosts to leave. Local, on rank 0;
        answered at once. Raises :class:`RefusedError` with the reason.
        """
        spec = library.RequestSpec(
            ctypes.sizeof(library.RequestSpec),
            RequestKind.of(kind),
            ranks,
            nodes,
            library.encoded(",".join(on) or None),
            library.encoded(",".join(leaving) or None),
            grace,
            library.encoded(origin),
        )
        request = c_longlong()
        library.call("QUO_world_ask", self._handle, spec, request, None)
        return request.value

    def cancel(self, request: int) -> None:
        """Takes back a request that waits for its turn. Local, on rank 0."""
        library.call("QUO_world_cancel", self._handle, request)

    def request_state(self, request: int) -> Tuple[RequestState, str]:
        """Returns the state of a request, and the cause in words if it failed. Local, on rank 0."""
        state = c_int()
        cause = library.text("QUO_world_request_state", self._handle, request, state)
        return RequestState(state.value), cause

    def events(self) -> Iterator[Event]:
        """Yields the events that have not been given yet, from the beginning of the job on.

        Local, on rank 0; never waits.
        """
        while True:
            raw = library.EventRecord(ctypes.sizeof(library.EventRecord))
            if not library.number("QUO_world_next_event", self._handle, raw):
                return
            yield Event(
                raw.number,
                raw.time,
                EventKind(raw.kind),
                raw.request,
                raw.epoch,
                raw.ranks,
                raw.target,
                raw.text.decode("utf-8", "replace"),
                json.loads(raw.json),
            )

    def job(self) -> Dict[str, Any]:
        """Returns the job as it is now: size, capacity, hosts, limits, report. Local, on rank 0."""
        report: Dict[str, Any] = json.loads(library.text("QUO_world_job_status", self._handle))
        return report

    # Arrays

    def add_array(
        self,
        name: str,
        shape: Union[int, Tuple[int, ...]],
        dtype: Any = float,
        kind: Optional[ArrayKind | str] = None,
        *,
        storage: Storage | str = Storage.BY_ROWS,
        block: Union[int, Tuple[int, int]] = (1, 1),
        grid: Tuple[int, ...] = (0, 0),
        halo: Union[int, Tuple[int, ...]] = 0,
        periodic: Union[bool, Tuple[bool, ...]] = False,
    ) -> "Array":
        """Adds an array of zeros, which moves with every resize.

        ``shape`` is the length of a vector, rows and columns of a matrix, or layers, rows and
        columns; ``kind`` is by default a block of elements, or of rows, for each rank. With
        ``halo``, ghost cells on both sides, for all dimensions or for each, it is a block of
        cells for each place of a grid of ranks; ``periodic`` dimensions have no edge. Local;
        made alike by all ranks, outside of resizes. Needs NumPy.
        """
        array = Array(self, name, dtype, storage)
        spec = array_spec(
            array.dtype.itemsize, shape, kind, storage, block, grid, halo, periodic
        )
        library.call("QUO_world_array_add", self._handle, array._name, spec)
        return array

    def array(
        self, name: str, dtype: Any = float, storage: Storage | str = Storage.BY_ROWS
    ) -> "Array":
        """Returns an array that the world has, for example on a rank that joined. Local.

        ``dtype`` and ``storage`` are those with which it was added; a type of another size is
        refused.
        """
        array = Array(self, name, dtype, storage)
        array._checked()
        return array

    # Sparse matrices

    def add_matrix(
        self, name: str, rows: int, pointers: Any, columns: Any, values: Any
    ) -> "Matrix":
        """Adds a square sparse matrix in compressed rows (CSR) with a copy of this rank's rows.

        The whole matrix has ``rows`` rows, and each rank a block of them: the number of rows divided
        by that of ranks, rounded up; the last ranks may have fewer. Row ``i`` of this rank has the
        elements from ``pointers[i]`` to ``pointers[i + 1]`` of ``columns``, numbered as in the whole
        matrix, and of ``values``. They are ``indptr``, ``indices`` and ``data`` of a CSR array of
        SciPy. A resize moves the rows. Local; made by all ranks in the same order, outside of
        resizes. Needs NumPy.
        """
        return Matrix.added(self, name, rows, pointers, columns, values)

    def matrix(self, name: str, dtype: Any = float) -> "Matrix":
        """Returns a matrix that the world has, for example on a rank that joined. Local.

        ``dtype`` is the type of its values.
        """
        matrix = Matrix(self, name, dtype)
        matrix._place()
        return matrix

    def add_vector(self, name: str, matrix: Union[str, "Matrix"], dtype: Any = float) -> "Array":
        """Adds a vector of zeros with an element for each row of a matrix.

        Its :attr:`~Array.local` has the elements of this rank's rows, and after them its ghosts, which
        :meth:`~Array.exchange_halo` fills with the elements of other ranks. A resize moves the
        elements; ghosts are zero afterwards. Local; made alike by all ranks, outside of resizes.
        """
        vector = Array(self, name, dtype, Storage.BY_ROWS)
        of = library.encoded(matrix if isinstance(matrix, str) else matrix.name)
        library.call(
            "QUO_world_vector_add", self._handle, vector._name, vector.dtype.itemsize, of
        )
        return vector

    # Items

    def add_items(self, name: str, dtype: Any, owners: "Owners") -> "Items":
        """Adds a list of items, such as particles, of which each rank holds any number, none at first.

        ``dtype`` is the type of an item, such as a structured one. ``owners(items, ranks)`` gets the
        items of this rank, and returns the rank that each of them belongs to, from 0 to ``ranks`` - 1.
        A resize moves items to their owners among the new ranks, :meth:`Items.migrate` among the
        present ones. ``owners`` makes no call of the world. Local; made alike by all processes that
        can become ranks, parked ones included. Needs NumPy.
        """
        return Items.added(self, name, dtype, owners)

    # Checkpoints

    def checkpoint(self, folder: Union[str, "os.PathLike[str]"], state: Any) -> None:
        """Writes all arrays, matrices, vectors and items to a folder, with the state of rank 0.

        The state, which is not ``None``, is pickled, in at most 16 KiB: larger values are arrays.
        Each rank writes its own part. The folder is made if it does not exist, and has one
        checkpoint: the one before is removed once the new one is complete and on the storage device.
        Ranks on several nodes need a folder that all share. Collective over the world::

            state = world.restore("checkpoints") if world.status == Status.NEW else None
            if state is None:
                state = {"step": 0}
                if world.status == Status.NEW:
                    initialise(world)
            for state in world.run(state):
                ...
                if state["step"] % 100 == 0:
                    world.checkpoint("checkpoints", state)
        """
        place, path, failure = None, None, None
        try:
            path = library.encoded(os.fspath(folder))
            data = _pickled(state) if self.rank == 0 else b""
            place = ctypes.create_string_buffer(data, _STATE)
        except Exception as found:  # noqa: BLE001
            # This rank takes part without its values, so that the call fails on all ranks.
            failure = found
        try:
            library.call("QUO_world_checkpoint", self._handle, path, place, _STATE)
        except Error as error:
            if failure is not None:
                raise error from failure
            raise

    def restore(self, folder: Union[str, "os.PathLike[str]"]) -> Any:
        """Reads a checkpoint that any number of ranks has written, and returns its state.

        Returns ``None`` if the folder has no checkpoint; then nothing has changed. Arrays, matrices
        and vectors that the world does not have are added, as on a rank that joins; those that it has
        get their values. Items are added before, with their function for owners. What
        :attr:`~Array.local` returned before must not be touched. Collective over the world.
        """
        place, restored = ctypes.create_string_buffer(_STATE), c_int()
        path, failure = None, None
        try:
            path = library.encoded(os.fspath(folder))
        except Exception as found:  # noqa: BLE001
            failure = found
        try:
            self._move("QUO_world_restore", path, place, _STATE, restored)
        except Error as error:
            if failure is not None:
                raise error from failure
            raise
        return pickle.loads(place.raw) if restored.value else None


def _pickled(state: Any) -> bytes:
    """Returns the bytes of a state that fit into a checkpoint."""
    if state is None:
        raise TypeError("checkpoint: the state is None, which restore returns without a checkpoint")
    data = pickle.dumps(state)
    if len(data) > _STATE:
        raise ValueError(f"checkpoint: the state has {len(data)} bytes; at most {_STATE}: use arrays")
    return data


class Window:
    """A resize in progress, made by :meth:`World.begin`."""

    def __init__(self, world: World) -> None:
        self._world = world

    def __enter__(self) -> "Window":
        library.call("QUO_world_begin", self._world._handle)
        return self

    def __exit__(
        self,
        kind: Optional[Type[BaseException]],
        error: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None:
        if error is None:
            self._world._move("QUO_world_commit")
            return
        reason = f"{type(error).__name__}: {error}".replace("\0", " ")
        try:
            library.call("QUO_world_abort", self._world._handle, reason.encode("utf-8", "replace"))
        except Error as failure:
            raise failure from error

    def _comm(self, which: int) -> "MPI.Comm":
        from mpi4py import MPI

        handle = library.number("QUO_window_comm_f2c", self._world._handle, which)
        return MPI.Comm.f2py(handle)

    @property
    def all_ranks(self) -> "MPI.Comm":
        """The communicator of all stayers, leavers and joiners: the old ranks first. Local."""
        return self._comm(0)

    @property
    def old(self) -> "MPI.Comm":
        """The old world; the null communicator on joiners. Local."""
        return self._comm(1)

    @property
    def new(self) -> "MPI.Comm":
        """The next world; the null communicator on leavers. Local."""
        return self._comm(2)

    def intercommunicator(self) -> "MPI.Comm":
        """Makes an intercommunicator between old ranks and joiners.

        Collective over all; to be freed with its ``Free`` before the commit.
        """
        return self._comm(3)

    @property
    def counts(self) -> Counts:
        """Numbers of ranks that stay, leave and join. Local."""
        stay, leave, join = c_int(), c_int(), c_int()
        library.call("QUO_window_counts", self._world._handle, stay, leave, join)
        return Counts(stay.value, leave.value, join.value)

    def broadcast(self, value: T) -> T:
        """Returns on all what rank 0 gives, such as the number of the step. Collective over all.

        The value of rank 0 is pickled; what the others give does not count.
        """
        data = pickle.dumps(value)
        length = c_longlong(len(data))
        handle = self._world._handle
        library.call("QUO_window_broadcast", handle, ctypes.byref(length), ctypes.sizeof(length))
        # Rank 0 of the old ranks finds its own bytes again; the others have room for them.
        buffer = ctypes.create_string_buffer(data[: length.value], max(length.value, 1))
        library.call("QUO_window_broadcast", handle, buffer, length.value)
        result: T = pickle.loads(buffer.raw[: length.value])
        return result

    def move(self) -> None:
        """Moves all arrays now; the commit does it otherwise. Collective over all."""
        self._world._move("QUO_window_move_data")
