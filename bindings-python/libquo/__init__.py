"""Python interface of quo, the node runtime for coupled MPI+X programs.

Ranks that are not needed in a threaded phase sleep and give up their cores; a few widen their
binding and run threads there::

    from mpi4py import MPI
    import libquo

    with libquo.Context(MPI.COMM_WORLD) as context:
        with context.phase("package") as phase:
            with phase.run() as worker:
                if worker:
                    solve(threads=worker.threads)

Members of enumerations are given by their names, too: ``"package"`` is
``libquo.ObjectType.PACKAGE``.

Every function follows the rules of the C function it calls: which calls are collective is said at
each. A call that fails raises a subclass of :class:`Error` with the library's own words. Calls
release the interpreter's lock, so that other Python threads run while a rank sleeps.
"""

from .context import Context, NamedBarrier
from .elastic import Window, World
from .errors import (
    BusyError,
    DeadMemberError,
    DetachedError,
    DisagreeError,
    Error,
    HandleError,
    InvalidArgumentError,
    InvalidStateError,
    LibraryNotFoundError,
    MpiError,
    NotBegunError,
    NotFoundError,
    NotSupportedError,
    OutOfResourcesError,
    PopError,
    RefusedError,
    ResizeAbortedError,
    SystemCallError,
    TimeoutExpiredError,
    TopologyError,
    WorkFailedError,
)
from .phases import Phase
from .shared import SharedMemory
from .values import (
    ArrayKind,
    Cores,
    Device,
    DeviceKind,
    Distribution,
    Event,
    EventKind,
    MemoryPolicy,
    ObjectType,
    PhaseMetrics,
    RequestKind,
    RequestState,
    Pinning,
    Sharing,
    Status,
    Storage,
    Threads,
    Worker,
)
from . import memory
from ._library import library_path, library_version

__version__ = "0.1.0"

__all__ = [
    "ArrayKind",
    "BusyError",
    "Context",
    "Cores",
    "DeadMemberError",
    "DetachedError",
    "Device",
    "DeviceKind",
    "DisagreeError",
    "Distribution",
    "Error",
    "Event",
    "EventKind",
    "HandleError",
    "InvalidArgumentError",
    "InvalidStateError",
    "LibraryNotFoundError",
    "MpiError",
    "MemoryPolicy",
    "NamedBarrier",
    "NotBegunError",
    "NotFoundError",
    "NotSupportedError",
    "ObjectType",
    "OutOfResourcesError",
    "Phase",
    "PhaseMetrics",
    "PopError",
    "RefusedError",
    "RequestKind",
    "RequestState",
    "ResizeAbortedError",
    "SharedMemory",
    "Pinning",
    "Sharing",
    "Status",
    "Storage",
    "SystemCallError",
    "Threads",
    "TimeoutExpiredError",
    "TopologyError",
    "Window",
    "Worker",
    "WorkFailedError",
    "World",
    "library_path",
    "library_version",
    "memory",
]
