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
import pickle
from ctypes import c_int, c_longlong, c_size_t, c_void_p
from types import TracebackType
from typing import (
    TYPE_CHECKING,
    Any,
    Callable,
    Dict,
    Iterator,
    List,
    NamedTuple,
    Optional,
    Sequence,
    Tuple,
    Type,
    TypeVar,
    Union,
    cast,
)

from . import _library as library
from . import _numpy
from ._handle import Handle
from .errors import Error, InvalidArgumentError
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

    import numpy

T = TypeVar("T")


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
        broadcast from rank 0, so that joiners continue where the others are. A process without
        a rank sleeps in it, and its loop ends with the job. All ranks leave in the same step.
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
                with self.begin() as window:
                    state = window.broadcast(state)
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
        spec = _array_spec(
            array.dtype.itemsize, shape, kind, storage, block, grid, halo, periodic
        )
        library.call("QUO_world_array_add", self._handle, array._name, spec)
        return array

    def array(
        self, name: str, dtype: Any = float, storage: Storage | str = Storage.BY_ROWS
    ) -> "Array":
        """Returns an array that the world has, for example on a rank that joined. Local.

        ``dtype`` and ``storage`` are those with which it was added.
        """
        array = Array(self, name, dtype, storage)
        array._place()
        return array


def _array_spec(
    element: int,
    shape: Union[int, Tuple[int, ...]],
    kind: Optional[ArrayKind | str],
    storage: Storage | str,
    block: Union[int, Tuple[int, int]],
    grid: Tuple[int, ...],
    halo: Union[int, Tuple[int, ...]] = 0,
    periodic: Union[bool, Tuple[bool, ...]] = False,
) -> library.ArraySpec:
    is_vector = isinstance(shape, int)
    extents = (shape,) if isinstance(shape, int) else tuple(shape)
    if not 1 <= len(extents) <= 3:
        raise InvalidArgumentError(5, f"add_array: the shape {shape} has not 1 to 3 dimensions")
    widths = (halo,) * len(extents) if isinstance(halo, int) else tuple(halo)
    rings = (periodic,) * len(extents) if isinstance(periodic, bool) else tuple(periodic)
    if len(widths) != len(extents) or len(rings) != len(extents):
        raise InvalidArgumentError(
            5, f"add_array: halo {halo} and periodic {periodic} are not of the shape {shape}"
        )
    if kind is None:
        kind = ArrayKind.BLOCK if is_vector else ArrayKind.BLOCK_ROWS
        if any(widths) or len(extents) == 3:
            kind = ArrayKind.HALO
    block_rows, block_columns = (1, block) if isinstance(block, int) else block
    if any(count < 0 for count in (*extents, block_rows, block_columns, *grid, *widths)):
        counts = (*extents, block_rows, block_columns, *grid, *widths)
        raise InvalidArgumentError(5, f"add_array: {counts} has a negative number")
    size = ctypes.sizeof(library.ArraySpec)
    spec = library.ArraySpec(size, ArrayKind.of(kind), Storage.of(storage), element)
    spec.layers, spec.rows, spec.columns = (1,) * (3 - len(extents)) + extents
    spec.block_rows, spec.block_columns = block_rows, block_columns
    spec.grid_layers, spec.grid_rows, spec.grid_columns = (0,) * (3 - len(grid)) + tuple(grid)
    halos = (spec.halo_columns, spec.halo_rows, spec.halo_layers)
    for ghosts, width, ring in zip(halos, reversed(widths), reversed(rings)):
        ghosts.before, ghosts.after, ghosts.periodic = width, width, int(ring and width > 0)
    return spec


class Part(NamedTuple):
    """This rank's part of an array."""

    #: The memory, with ghost cells.
    whole: "numpy.ndarray[Any, Any]"
    #: The block of cells, a view without ghost cells and edges.
    cells: "numpy.ndarray[Any, Any]"
    #: Place of the block's first cell in the array.
    first: Tuple[int, ...]


class Array:
    """An array of the world, made by :meth:`World.add_array` and :meth:`World.array`.

    It stays valid over resizes; what :attr:`local` returns does not.
    """

    def __init__(self, world: World, name: str, dtype: Any, storage: Storage | str) -> None:
        _numpy.require()
        import numpy

        self._world = world
        self._name = library.encoded(name)
        self.name = name
        self.dtype: "numpy.dtype[Any]" = numpy.dtype(dtype)
        self.storage = Storage(Storage.of(storage))

    def _place(self) -> Tuple[Optional[int], int, int]:
        data, rows, columns = c_void_p(), c_size_t(), c_size_t()
        handle = self._world._handle
        library.call("QUO_world_array", handle, self._name, data, rows, columns)
        return data.value, rows.value, columns.value

    @property
    def local(self) -> "numpy.ndarray[Any, Any]":
        """This rank's part, without a copy: a vector, or a matrix where it has more than one row.

        To be requested again after each commit: an earlier part is memory that the library has given
        back, and must not be touched. Local.
        """
        import numpy

        address, rows, columns = self._place()
        count = rows * columns
        if not count or not address:
            return numpy.empty((rows, columns) if rows > 1 else (0,), self.dtype)
        flat = self._flat(address, count)
        if rows == 1:
            return flat
        if self.storage is Storage.BY_COLUMNS:
            return flat.reshape((columns, rows)).T
        return flat.reshape((rows, columns))

    def _flat(self, address: int, count: int) -> "numpy.ndarray[Any, Any]":
        import numpy

        buffer = (ctypes.c_ubyte * (count * self.dtype.itemsize)).from_address(address)
        return numpy.frombuffer(memoryview(buffer).cast("B"), self.dtype)

    @property
    def part(self) -> "Part":
        """This rank's block of cells and its place in the whole array, without a copy.

        A matrix, or layers of matrices where it has more than one layer in memory. To be requested
        again after each commit and each swap, as :attr:`local`. Local.
        """
        import numpy

        part = library.ArrayPart(ctypes.sizeof(library.ArrayPart))
        library.call("QUO_world_array_part", self._world._handle, self._name, part)
        shape = (part.all_layers, part.all_rows, part.all_columns)
        if not part.data or not all(shape):
            whole = numpy.empty(shape, self.dtype)
        elif self.storage is Storage.BY_COLUMNS:
            flat = self._flat(part.data, shape[0] * shape[1] * shape[2])
            whole = flat.reshape((shape[0], shape[2], shape[1])).transpose(0, 2, 1)
        else:
            whole = self._flat(part.data, shape[0] * shape[1] * shape[2]).reshape(shape)
        first = (part.first_layer, part.first_row, part.first_column)
        before = (part.before_layers, part.before_rows, part.before_columns)
        counts = (part.layers, part.rows, part.columns)
        places = zip(before, counts)
        cells = whole[tuple(slice(start, start + count) for start, count in places)]
        if shape[0] <= 1:
            return Part(whole.reshape(shape[1:]), cells.reshape(cells.shape[1:]), first[1:])
        return Part(whole, cells, first)

    def exchange_halo(self) -> None:
        """Fills the ghost cells with the cells of the ranks that own them. Collective."""
        library.call("QUO_world_exchange_halo", self._world._handle, self._name)

    def exchange_halo_begin(self) -> None:
        """Sends the cells as they are now; ghost cells are filled at the end. Collective."""
        library.call("QUO_world_exchange_halo_begin", self._world._handle, self._name)

    def exchange_halo_end(self) -> None:
        """Ends an exchange that has begun. Collective."""
        library.call("QUO_world_exchange_halo_end", self._world._handle, self._name)

    def swap(self, other: "Array") -> None:
        """Swaps the elements of two arrays of the same distribution, without a copy. Local."""
        library.call("QUO_world_array_swap", self._world._handle, self._name, other._name)

    def origin(self, offset: int) -> Tuple[int, int]:
        """Returns row and column, in the whole array, of a place in this rank's part. Local."""
        row, column = c_size_t(), c_size_t()
        handle = self._world._handle
        library.call("QUO_world_array_origin", handle, self._name, offset, row, column)
        return row.value, column.value

    def lay_out(
        self,
        shape: Union[int, Tuple[int, int]],
        kind: Optional[ArrayKind | str] = None,
        *,
        block: Union[int, Tuple[int, int]] = (1, 1),
        grid: Tuple[int, int] = (0, 0),
    ) -> None:
        """Sets the distribution from the next resize on: the same elements, in another way.

        Local; made alike by all ranks that have the array.
        """
        spec = _array_spec(self.dtype.itemsize, shape, kind, self.storage, block, grid)
        library.call("QUO_world_array_lay_out", self._world._handle, self._name, spec)

    def remove(self) -> None:
        """Forgets the array. Local; made alike by all, outside of resizes."""
        library.call("QUO_world_array_remove", self._world._handle, self._name)


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
            library.call("QUO_world_commit", self._world._handle)
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
        library.call("QUO_window_move_data", self._world._handle)
