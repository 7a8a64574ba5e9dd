"""Finding and loading of libquo, the prototypes of its functions, and the check of return codes."""

from __future__ import annotations

import ctypes
import os
import sys
from ctypes import (
    CFUNCTYPE,
    POINTER,
    Structure,
    c_char_p,
    c_double,
    c_int,
    c_longlong,
    c_size_t,
    c_void_p,
)
from typing import Any, Iterator, List, Optional, Tuple

from .errors import BY_CODE, Error, LibraryNotFoundError

#: The variable that names the file of the library.
VARIABLE = "QUO_LIBRARY"
_FILE = "libquo.so.8"


class CreateOptions(Structure):
    """QUO_create_options_t."""

    _fields_ = [("size", c_size_t), ("flags", c_int)]


class PhaseSpec(Structure):
    """QUO_phase_spec_t."""

    _fields_ = [
        ("size", c_size_t),
        ("type", c_int),
        ("max_per_object", c_int),
        ("threads", c_int),
        ("name", c_char_p),
        ("cores", c_int),
        ("sharing", c_int),
        ("sharing_limit", c_double),
        ("pinning", c_int),
    ]


class PhaseMetrics(Structure):
    """QUO_phase_metrics_t."""

    _fields_ = [
        ("size", c_size_t),
        ("selected", c_int),
        ("threads", c_int),
        ("run_seconds", c_double),
        ("quiesced_seconds", c_double),
        ("remap_seconds", c_double),
    ]


class View(Structure):
    """QUO_xpm_view_t."""

    _fields_ = [("base", c_void_p), ("extent", c_size_t)]


SizeAllowed = CFUNCTYPE(c_int, c_void_p, c_int)
#: QUO_owners_t
ItemOwners = CFUNCTYPE(c_int, c_void_p, c_void_p, c_size_t, c_int, c_void_p)


class WorldOptions(Structure):
    """QUO_world_options_t."""

    _fields_ = [
        ("size", c_size_t),
        ("initial_ranks", c_int),
        ("max_ranks", c_int),
        ("processes_per_spawn", c_int),
        ("allow_oversubscribe", c_int),
        ("control", c_int),
        ("messages", c_int),
        ("start_timeout", c_double),
        ("name", c_char_p),
        ("log", c_char_p),
        ("plan", c_char_p),
        ("process_sets", c_int),
        ("no_spawn_helper", c_int),
        ("min_size", c_int),
        ("max_size", c_int),
        ("step", c_int),
        ("allowed_sizes", c_char_p),
        ("allows", SizeAllowed),
        ("allows_data", c_void_p),
        ("hosts", c_char_p),
        ("connect_timeout", c_double),
        ("remote_shell", c_char_p),
        ("spawn_command", c_char_p),
        ("spawn_info", c_char_p),
        ("control_folder", c_char_p),
        ("slurm", c_void_p),
        ("abort_on_death", c_int),
        ("term_notice", c_double),
        ("notice_folder", c_char_p),
        ("placement", c_char_p),
    ]


class RequestSpec(Structure):
    """QUO_request_spec_t."""

    _fields_ = [
        ("size", c_size_t),
        ("kind", c_int),
        ("ranks", c_int),
        ("nodes", c_int),
        ("on", c_char_p),
        ("from_", c_char_p),
        ("grace", c_double),
        ("origin", c_char_p),
    ]


class Progress(Structure):
    """QUO_progress_t."""

    _fields_ = [
        ("size", c_size_t),
        ("iteration", c_longlong),
        ("iteration_seconds", c_double),
        ("mpi_ratio", c_double),
        ("remaining_seconds", c_double),
        ("bytes_per_rank", c_longlong),
    ]


class EventRecord(Structure):
    """QUO_event_t."""

    _fields_ = [
        ("size", c_size_t),
        ("number", c_longlong),
        ("time", c_double),
        ("kind", c_int),
        ("cause", c_int),
        ("request", c_longlong),
        ("epoch", c_longlong),
        ("ranks", c_longlong),
        ("target", c_longlong),
        ("joining", c_longlong),
        ("leaving", c_longlong),
        ("round", c_longlong),
        ("bytes", c_longlong),
        ("text", c_char_p),
        ("json", c_char_p),
    ]


class Halo(Structure):
    """QUO_halo_t."""

    _fields_ = [
        ("before", c_size_t),
        ("after", c_size_t),
        ("periodic", c_size_t),
    ]


class ArrayPart(Structure):
    """QUO_array_part_t."""

    _fields_ = [
        ("size", c_size_t),
        ("data", c_void_p),
        ("layers", c_size_t),
        ("rows", c_size_t),
        ("columns", c_size_t),
        ("first_layer", c_size_t),
        ("first_row", c_size_t),
        ("first_column", c_size_t),
        ("all_layers", c_size_t),
        ("all_rows", c_size_t),
        ("all_columns", c_size_t),
        ("before_layers", c_size_t),
        ("before_rows", c_size_t),
        ("before_columns", c_size_t),
        ("element", c_size_t),
    ]


class ArraySpec(Structure):
    """QUO_array_spec_t."""

    _fields_ = [
        ("size", c_size_t),
        ("kind", c_int),
        ("storage", c_int),
        ("element", c_size_t),
        ("rows", c_size_t),
        ("columns", c_size_t),
        ("block_rows", c_size_t),
        ("block_columns", c_size_t),
        ("grid_rows", c_size_t),
        ("grid_columns", c_size_t),
        ("layers", c_size_t),
        ("grid_layers", c_size_t),
        ("halo_layers", Halo),
        ("halo_rows", Halo),
        ("halo_columns", Halo),
    ]


class MatrixPart(Structure):
    """QUO_matrix_part_t."""

    _fields_ = [
        ("size", c_size_t),
        ("rows", c_size_t),
        ("first_row", c_size_t),
        ("ghosts", c_size_t),
        ("pointers", c_void_p),
        ("columns", c_void_p),
        ("values", c_void_p),
        ("ghost_columns", c_void_p),
        ("element", c_size_t),
    ]


#: The structures by their names in C, for the comparison with the headers.
STRUCTURES = {
    "QUO_create_options_t": CreateOptions,
    "QUO_phase_spec_t": PhaseSpec,
    "QUO_phase_metrics_t": PhaseMetrics,
    "QUO_xpm_view_t": View,
    "QUO_world_options_t": WorldOptions,
    "QUO_request_spec_t": RequestSpec,
    "QUO_progress_t": Progress,
    "QUO_event_t": EventRecord,
    "QUO_array_spec_t": ArraySpec,
    "QUO_halo_t": Halo,
    "QUO_array_part_t": ArrayPart,
    "QUO_matrix_part_t": MatrixPart,
}

_context = _object = c_void_p
_fint = c_int
_int_out = POINTER(c_int)
_text_out = POINTER(c_void_p)

#: The functions that are called: name and types of arguments. The result is a return code.
FUNCTIONS: List[Tuple[str, List[Any]]] = [
    ("QUO_version", [_int_out, _int_out]),
    ("QUO_create_with_options_f2c", [POINTER(_context), _fint, POINTER(CreateOptions)]),
    ("QUO_free", [_context]),
    ("QUO_nobjs_by_type", [_context, c_int, _int_out]),
    ("QUO_nobjs_in_type_by_type", [_context, c_int, c_int, c_int, _int_out]),
    ("QUO_cpuset_of_type", [_context, c_int, c_int, _text_out]),
    ("QUO_ncore_kinds", [_context, _int_out]),
    ("QUO_core_kind", [_context, c_int, _int_out, _text_out]),
    ("QUO_nnodes", [_context, _int_out]),
    ("QUO_nqids", [_context, _int_out]),
    ("QUO_id", [_context, _int_out]),
    ("QUO_cpuset_in_type", [_context, c_int, c_int, _int_out]),
    ("QUO_qids_in_type", [_context, c_int, c_int, _int_out, _text_out]),
    ("QUO_bound", [_context, _int_out]),
    ("QUO_stringify_cbind", [_context, _text_out]),
    ("QUO_stringify_cbind_of", [_context, c_int, _text_out]),
    ("QUO_explain", [_context, c_int, _text_out]),
    ("QUO_bind_push", [_context, c_int, c_int, c_int]),
    ("QUO_bind_push_cpuset", [_context, c_char_p]),
    ("QUO_bind_pop", [_context]),
    ("QUO_barrier", [_context]),
    ("QUO_barrier_timed", [_context, c_double]),
    ("QUO_auto_distrib_with_policy", [_context, c_int, c_int, c_int, _int_out]),
    ("QUO_get_mpi_comm_by_type_f2c", [_context, c_int, POINTER(_fint)]),
    ("QUO_set_memory_policy", [_context, c_int]),
    ("QUO_memory_place", [_context, c_void_p, c_size_t, c_int, c_int, c_int]),
    ("QUO_memory_on_node", [_context, c_void_p, c_size_t, c_int, POINTER(c_longlong)]),
    ("QUO_lend", [_context]),
    ("QUO_reclaim", [_context]),
    ("QUO_borrow", [_context, _int_out, _int_out]),
    ("QUO_borrow_wanted", [_context, _int_out]),
    ("QUO_lenders", [_context, _int_out]),
    ("QUO_give_back", [_context]),
    ("QUO_detach", [_context]),
    ("QUO_attach", [_context]),
    ("QUO_dead_qids", [_context, _int_out, _text_out]),
    ("QUO_expel", [_context, c_int]),
    ("QUO_adapt_f2c", [_context, _fint]),
    ("QUO_retire", [_context]),
    ("QUO_named_barrier_create", [_context, c_char_p, _int_out, c_int, POINTER(_object)]),
    ("QUO_named_barrier_wait", [_object]),
    ("QUO_named_barrier_wait_timed", [_object, c_double]),
    ("QUO_named_barrier_free", [_object]),
    ("QUO_phase_create", [_context, POINTER(PhaseSpec), POINTER(_object)]),
    ("QUO_phase_begin", [_object, _int_out, _int_out]),
    ("QUO_phase_qids", [_object, _int_out, _int_out]),
    ("QUO_phase_pin_thread", [_object, c_int, c_int]),
    ("QUO_phase_end", [_object]),
    ("QUO_phase_fail", [_object, c_char_p]),
    ("QUO_phase_metrics", [_object, POINTER(PhaseMetrics)]),
    ("QUO_phase_free", [_object]),
    ("QUO_split_by_weight", [_context, c_int, c_int, _int_out, c_int, POINTER(_context)]),
    ("QUO_split_by_count", [_context, c_int, c_int, _int_out, c_int, POINTER(_context)]),
    ("QUO_split_by_device", [_context, c_int, c_int, c_int, POINTER(_context)]),
    ("QUO_ndevices", [_context, c_int, _int_out]),
    ("QUO_device", [_context, c_int, c_int, _text_out, _text_out]),
    ("QUO_visible_devices", [_context, c_int, _text_out]),
    ("QUO_assign_device", [_context, c_int, _int_out]),
    ("QUO_xpm_allocate", [_context, c_size_t, POINTER(_object)]),
    ("QUO_xpm_allocate_by_qids", [_context, _int_out, c_int, c_size_t, POINTER(_object)]),
    ("QUO_xpm_free", [_object]),
    ("QUO_xpm_view_by_qid_range", [_object, c_int, c_int, POINTER(View)]),
    ("QUO_xpm_view_local", [_object, POINTER(View)]),
    ("QUO_ptr_free", [c_void_p]),
    ("QUO_world_create", [POINTER(_object), POINTER(WorldOptions)]),
    ("QUO_world_end", [_object]),
    ("QUO_world_status", [_object, _int_out]),
    ("QUO_world_rank", [_object, _int_out]),
    ("QUO_world_size", [_object, _int_out]),
    ("QUO_world_capacity", [_object, _int_out]),
    ("QUO_world_was_started", [_object, _int_out]),
    ("QUO_world_epoch", [_object, POINTER(c_longlong)]),
    ("QUO_world_node", [_object, _int_out]),
    ("QUO_world_back_end", [_object, _text_out]),
    ("QUO_world_comm_f2c", [_object, POINTER(_fint)]),
    ("QUO_world_probe", [_object, _int_out]),
    ("QUO_world_wait", [_object, _int_out]),
    ("QUO_world_report_progress", [_object, POINTER(Progress)]),
    ("QUO_world_report_iteration", [_object, c_longlong]),
    (
        "QUO_world_ask",
        [_object, POINTER(RequestSpec), POINTER(c_longlong), POINTER(c_longlong)],
    ),
    ("QUO_world_cancel", [_object, c_longlong]),
    ("QUO_world_request_state", [_object, c_longlong, _int_out, _text_out]),
    ("QUO_world_next_event", [_object, POINTER(EventRecord), _int_out]),
    ("QUO_world_job_status", [_object, _text_out]),
    ("QUO_world_begin", [_object]),
    ("QUO_window_comm_f2c", [_object, c_int, POINTER(_fint)]),
    ("QUO_window_counts", [_object, _int_out, _int_out, _int_out]),
    ("QUO_window_broadcast", [_object, c_void_p, c_size_t]),
    ("QUO_window_move_data", [_object]),
    ("QUO_world_commit", [_object]),
    ("QUO_world_abort", [_object, c_char_p]),
    ("QUO_world_array_add", [_object, c_char_p, POINTER(ArraySpec)]),
    (
        "QUO_world_array",
        [_object, c_char_p, POINTER(c_void_p), POINTER(c_size_t), POINTER(c_size_t)],
    ),
    (
        "QUO_world_array_origin",
        [_object, c_char_p, c_size_t, POINTER(c_size_t), POINTER(c_size_t)],
    ),
    ("QUO_world_array_lay_out", [_object, c_char_p, POINTER(ArraySpec)]),
    ("QUO_world_array_remove", [_object, c_char_p]),
    ("QUO_world_array_part", [_object, c_char_p, POINTER(ArrayPart)]),
    ("QUO_world_exchange_halo", [_object, c_char_p]),
    ("QUO_world_exchange_halo_begin", [_object, c_char_p]),
    ("QUO_world_exchange_halo_end", [_object, c_char_p]),
    ("QUO_world_array_swap", [_object, c_char_p, c_char_p]),
    (
        "QUO_world_matrix_add",
        [_object, c_char_p, c_size_t, c_size_t, c_size_t, c_void_p, c_void_p, c_void_p],
    ),
    ("QUO_world_vector_add", [_object, c_char_p, c_size_t, c_char_p]),
    ("QUO_world_matrix", [_object, c_char_p, POINTER(MatrixPart)]),
    ("QUO_world_items_add_with_owners", [_object, c_char_p, c_size_t, ItemOwners, c_void_p]),
    ("QUO_world_items", [_object, c_char_p, POINTER(c_void_p), POINTER(c_size_t)]),
    ("QUO_world_items_resize", [_object, c_char_p, c_size_t]),
    ("QUO_world_migrate", [_object, c_char_p]),
    ("QUO_world_checkpoint", [_object, c_char_p, c_void_p, c_size_t]),
    ("QUO_world_restore", [_object, c_char_p, c_void_p, c_size_t, _int_out]),
]

_loaded: Optional[ctypes.CDLL] = None


def _candidates() -> Iterator[str]:
    """Yields the names to load, the surest first."""
    named = os.environ.get(VARIABLE)
    if named:
        yield named
        return
    # The package lies in lib/python of an installation.
    yield os.path.join(os.path.dirname(os.path.dirname(os.path.dirname(__file__))), _FILE)
    # The loader looks into LD_LIBRARY_PATH, runpaths and its cache.
    yield _FILE
    for prefix in (sys.prefix, sys.base_prefix):
        for folder in ("lib", "lib64"):
            yield os.path.join(prefix, folder, _FILE)


def load() -> ctypes.CDLL:
    """Loads the library, once, and returns it.

    MPI is imported first, so that the library finds the process's MPI.
    """
    global _loaded
    if _loaded is not None:
        return _loaded
    from mpi4py import MPI  # noqa: F401

    causes = []
    for name in _candidates():
        try:
            library = ctypes.CDLL(name, mode=ctypes.RTLD_GLOBAL)
        except OSError as cause:
            causes.append(str(cause))
            continue
        _declare(library, name)
        _loaded = library
        return library
    raise LibraryNotFoundError(
        "loading libquo: "
        + "; ".join(causes)
        + f". Name the file in {VARIABLE}, or its folder in LD_LIBRARY_PATH."
    )


def _declare(library: ctypes.CDLL, name: str) -> None:
    for function, arguments in FUNCTIONS:
        try:
            entry = getattr(library, function)
        except AttributeError as cause:
            raise LibraryNotFoundError(
                f"loading libquo: {name} has no {function}: it is of an earlier version, or another"
                f" library. Name the file in {VARIABLE}."
            ) from cause
        entry.argtypes = arguments
        entry.restype = c_int
    library.QUO_last_error.argtypes = []
    library.QUO_last_error.restype = c_char_p


def library_path() -> str:
    """Returns the name under which libquo was loaded. Local."""
    return str(load()._name)


def library_version() -> Tuple[int, int]:
    """Returns the number of the library's binary interface, and its revision. Local."""
    version, subversion = c_int(), c_int()
    call("QUO_version", version, subversion)
    return version.value, subversion.value


def call(function: str, *arguments: Any) -> int:
    """Calls a function and raises what its return code says. Outputs are passed as they are.

    Returns 1 where what was asked for had been done before, else 0.
    """
    library = load()
    code: int = getattr(library, function)(*arguments)
    if code > 1:
        raise BY_CODE.get(code, Error)(code, library.QUO_last_error().decode("utf-8", "replace"))
    return code


def number(function: str, *arguments: Any) -> int:
    """Returns the number that is the last output of a function."""
    out = c_int()
    call(function, *arguments, out)
    return out.value


def text(function: str, *arguments: Any) -> str:
    """Returns the text that is the last output of a function, and frees it."""
    out = c_void_p()
    call(function, *arguments, out)
    return taken(out)


def taken(out: c_void_p) -> str:
    """Returns a text of the library, and frees it."""
    try:
        return ctypes.string_at(out.value or 0).decode("utf-8", "replace") if out.value else ""
    finally:
        load().QUO_ptr_free(out)


def qids(function: str, *arguments: Any) -> List[int]:
    """Returns the list of numbers that is the last output of a function, and frees it."""
    count, out = c_int(), c_void_p()
    call(function, *arguments, count, out)
    try:
        if not out.value:
            return []
        return list((c_int * count.value).from_address(out.value))
    finally:
        load().QUO_ptr_free(out)


def numbers(values: Any) -> Any:
    """Returns an array of C integers."""
    values = list(values)
    return (c_int * len(values))(*values)


def encoded(value: Optional[str]) -> Optional[bytes]:
    """Returns a text as bytes for C; None stays."""
    if value is None:
        return None
    if "\0" in value:
        raise ValueError(f"{value!r} has a null character, which ends a text in C")
    return value.encode("utf-8")
