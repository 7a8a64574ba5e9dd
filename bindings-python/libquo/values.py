"""Values of calls: kinds, states, and the tuples that queries return."""

import enum
from typing import Any, Dict, NamedTuple, Union

from .errors import InvalidArgumentError


class Named(enum.IntEnum):
    """Enumeration whose members every call also takes by their names, in any case."""

    @classmethod
    def of(cls, given: Union[int, str]) -> int:
        """Returns the number of a member by itself or by its name.

        Other numbers pass: the library refuses them, on all ranks of a collective call.
        """
        if not isinstance(given, str):
            return int(given)
        found = cls.__members__.get(given.upper().replace("-", "_"))
        if found is None:
            names = ", ".join(member.name.lower() for member in cls)
            raise InvalidArgumentError(5, f"{given!r} is no {cls.__name__}: {names}")
        return found


class ObjectType(Named):
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
    # Further names of the same kinds, which the commands have.
    NUMA = 1
    SOCKET = 2
    L3 = 7
    L2 = 8
    L1 = 9


class Distribution(Named):
    """Rules of :meth:`Context.select`."""

    SPREAD = 0
    LIBQUO_COMPAT = 1


class Threads(Named):
    """Handling of the thread counts of OpenMP and BLAS libraries in a phase."""

    KEEP = 0
    OPENMP = 1


class Cores(Named):
    """Cores of a hybrid processor that a phase uses."""

    ALL = 0
    FASTEST = 1


class Sharing(Named):
    """Conduct of a phase whose CPUs another one has."""

    OVERLAP = 0
    WAIT = 1
    LEFT = 2


class Pinning(Named):
    """The CPUs that each OpenMP thread of a worker may use while a phase runs."""

    ENVIRONMENT = 0
    NONE = 1
    CLOSE = 2
    SPREAD = 3


class DeviceKind(Named):
    """A kind of device, by its class on the PCI bus."""

    GPU = 0
    NETWORK = 1
    STORAGE = 2


class MemoryPolicy(Named):
    """NUMA nodes from which the kernel takes pages when they are first written."""

    KEEP = 0
    FOLLOW = 1
    BIND = 2
    INTERLEAVE = 3


class CoreKind(NamedTuple):
    """A kind of cores of a hybrid processor."""

    #: Relative to the other kinds; 0 where unknown.
    speed: int
    #: CPUs as a list such as "0-3,8".
    cpus: str


class Device(NamedTuple):
    """A device of the node."""

    #: Place on the bus, such as "0000:3b:00.0".
    bus: str
    #: CPUs near it as a list such as "0-3,8"; the whole machine where the system reports no nearness.
    cpus: str


class Worker(NamedTuple):
    """Assignment of a rank that works in a phase."""

    #: Threads to run: the worker's share of the CPUs.
    threads: int
    #: First of the qids that this rank does the work of.
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


class Status(Named):
    """Status of a process in the world."""

    NEW = 0
    JOINING = 1
    STAYING = 2
    LEAVING = 3
    PARKED = 4
    ENDED = 5


class RequestKind(Named):
    """Kind of a request."""

    SIZE = 0
    GROW = 1
    SHRINK = 2
    LEAVE = 3
    MOVE = 4


class RequestState(Named):
    """State of a request."""

    OPEN = 0
    DONE = 1
    FAILED = 2


class EventKind(Named):
    """Kind of an event. From ``REQUESTED`` on these are the steps of a request."""

    STARTED = 0
    NOTICE = 1
    OVERDUE = 2
    REQUESTED = 3
    REFUSED = 4
    ACCEPTED = 5
    ANNOUNCED = 6
    LAUNCHED = 7
    READY = 8
    PENDING = 9
    CONFIRMED = 10
    AGREED = 11
    BEGUN = 12
    MOVED = 13
    FINALIZED = 14
    ABORTED = 15


class ArrayKind(Named):
    """Distribution of an array over the ranks."""

    BLOCK = 0
    BLOCK_CYCLIC = 1
    BLOCK_ROWS = 2
    BLOCK_COLUMNS = 3
    BLOCK_GRID = 4
    CHECKERBOARD = 5
    REPLICATED = 6
    HALO = 7


class Storage(Named):
    """Order in which a rank stores its part of a matrix."""

    BY_ROWS = 0
    BY_COLUMNS = 1


class Event(NamedTuple):
    """An event of the world. A number that the event does not have is -1."""

    number: int
    #: Seconds since the job began.
    time: float
    kind: EventKind
    request: int
    epoch: int
    ranks: int
    target: int
    #: The cause in words; empty without one.
    text: str
    #: The whole event, as in the log.
    fields: Dict[str, Any]


class Counts(NamedTuple):
    """Numbers of ranks in a resize."""

    staying: int
    leaving: int
    joining: int
