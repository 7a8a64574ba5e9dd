"""Exceptions, one for each kind of return code of the library."""

from __future__ import annotations

from typing import Dict, Type


class Error(RuntimeError):
    """A call of the library failed. ``code`` is its return code, the text is its last error."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(text)
        self.code = code


class LibraryNotFoundError(ImportError):
    """libquo cannot be found or loaded, or lacks a function that this package calls."""


class SystemCallError(Error):
    """The operating system refused a call."""


class OutOfResourcesError(Error):
    """No memory, shared memory or handle is left."""


class InvalidArgumentError(Error, ValueError):
    """An argument is unknown or out of range."""


class TopologyError(Error):
    """The machine's topology cannot be read."""


class MpiError(Error):
    """MPI failed, or the call came before its start or after its end."""


class NotSupportedError(Error):
    """The machine or the MPI library cannot do this."""


class PopError(Error):
    """More pops than pushes."""


class NotFoundError(Error, LookupError):
    """The machine has no such object, or the world no such array, request or set."""


class TimeoutExpiredError(Error, TimeoutError):
    """A wait took longer than allowed; every rank in it gets this error."""


class DeadMemberError(Error):
    """A rank of the node ended without freeing the context."""


class DisagreeError(Error):
    """The ranks gave different arguments to one collective call."""


class HandleError(Error):
    """The object was freed before."""


class BusyError(Error):
    """Another thread is inside a call on the object, or objects made from it are not freed yet."""


class DetachedError(Error):
    """The caller detached from the node and cannot take part."""


class InvalidStateError(Error):
    """The call does not fit the state of the world."""


class RefusedError(Error):
    """A request to resize the world was refused."""


class ResizeAbortedError(Error):
    """A resize of the world was aborted on all ranks."""


class WorkFailedError(Error):
    """The work of a phase failed on a rank of the node."""


class NotBegunError(Error):
    """No run of the phase has begun on this thread."""


#: Exceptions by return code. Codes that are not here raise :class:`Error`.
BY_CODE: Dict[int, Type[Error]] = {
    3: SystemCallError,
    4: OutOfResourcesError,
    5: InvalidArgumentError,
    6: MpiError,
    7: TopologyError,
    8: MpiError,
    9: NotSupportedError,
    10: PopError,
    11: NotFoundError,
    12: TimeoutExpiredError,
    13: DeadMemberError,
    14: DisagreeError,
    15: HandleError,
    16: MpiError,
    17: BusyError,
    18: DetachedError,
    20: InvalidStateError,
    21: RefusedError,
    22: ResizeAbortedError,
    23: WorkFailedError,
    24: NotBegunError,
}
