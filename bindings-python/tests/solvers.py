"""Sparse matrices and items while a world grows and shrinks: products and items stay right."""

import pathlib
import shutil
import tempfile
import warnings

import numpy
from check import expect, expect_raises, run
from mpi4py import MPI

import libquo
from libquo import World

ROWS = 23
COUNT = 400
ITEM = numpy.dtype([("number", "i8"), ("place", "f8"), ("label", "S4")])


def owners(items, ranks):
    """A slab for each rank; a list of items with a negative number cannot be placed."""
    if (items["number"] < 0).any():
        raise ArithmeticError("a negative number")
    return numpy.minimum((items["place"] * ranks).astype(int), ranks - 1)


def rows_of(world):
    """This rank's rows, from 1 as in Fortran: row i has i % 3 elements, the last ones far away."""
    each = -(-ROWS // world.size)
    first = min(each * world.rank, ROWS)
    own = range(first, min(first + each, ROWS))
    columns = [[(row + 5 * number) % ROWS for number in range(row % 3)] for row in own]
    pointers = numpy.cumsum([1] + [len(one) for one in columns])
    flat = numpy.array([column for one in columns for column in one], int)
    return pointers, flat + 1, numpy.array([column + 0.5 for one in columns for column in one])


def add_matrix(world):
    pointers, columns, values = rows_of(world)
    matrix = world.add_matrix("A", ROWS, pointers, columns, values)
    x = world.add_vector("x", matrix)
    part = matrix.part
    x.local[: part.pointers.size - 1] = part.first_row + numpy.arange(part.pointers.size - 1)
    refuses = libquo.InvalidArgumentError
    expect_raises(refuses, "`A`", world.add_matrix, "A", ROWS, pointers, columns, values)
    expect_raises(refuses, "do not fit", world.add_matrix, "B", ROWS, pointers, columns, values[1:])
    expect_raises(refuses, "do not fit", world.add_matrix, "B", ROWS, [], [], [])
    expect_raises(refuses, "not negative", world.add_matrix, "B", ROWS, [0, -1], [], [])
    expect_raises(libquo.NotFoundError, "matrix `B`", world.matrix, "B")
    expect_raises(libquo.NotFoundError, "matrix `B`", world.add_vector, "y", "B")
    expect_raises(libquo.InvalidStateError, "vectors", matrix.remove)


def check_matrix(world):
    """Each product is that of the rows as they were added."""
    x, part = world.array("x"), world.matrix("A").part
    x.exchange_halo()
    rows = part.pointers.size - 1
    expect(x.local.size == rows + part.ghost_columns.size, f"{x.local.size} elements")
    row = numpy.repeat(numpy.arange(rows), numpy.diff(part.pointers))
    # Columns are numbered from 1.
    product = numpy.bincount(row, part.values * x.local[part.columns - 1], rows)
    for number in range(rows):
        global_row = part.first_row + number
        columns = [(global_row + 5 * place) % ROWS for place in range(global_row % 3)]
        right = sum(column * (column + 0.5) for column in columns)
        expect(product[number] == right, f"row {global_row}: {product[number]}, not {right}")
    expect_raises(ValueError, "read-only", part.columns.fill, 0)


def add_items(world):
    """Every rank has some items at first."""
    mine = numpy.arange(COUNT)[world.rank :: world.size]
    items = world.particles
    items.resize(mine.size)
    items.local["number"] = mine
    items.local["place"] = mine * 37 % COUNT / (COUNT - 1)
    items.local["label"] = b"item"
    items.migrate()


def check_items(world):
    """All items are there once, with their owners."""
    local = world.particles.local
    expect((owners(local, world.size) == world.rank).all(), f"owners of {local}")
    expect((local["label"] == b"item").all(), f"labels of {local}")
    total = world.comm.allreduce(int(local["number"].sum()))
    expect(total == COUNT * (COUNT - 1) // 2, f"numbers add up to {total}")
    expect(world.comm.allreduce(local.size) == COUNT, "the number of items")


def check_failure(world):
    """An exception on one rank is an error on all, and no item moves."""
    items = world.particles
    before = items.local["number"].copy()
    is_failing = world.rank == world.size - 1 and before.size > 0
    any_fails = world.comm.allreduce(is_failing)
    if is_failing:
        items.local["number"][0] = -1
    if any_fails:
        error = expect_raises(libquo.InvalidArgumentError, "owners returned 1", items.migrate)
        expect(isinstance(error.__cause__, ArithmeticError) == is_failing, f"{error.__cause__!r}")
    items.local["number"][:] = before
    check_items(world)


def check_shapes(world):
    """What owners return is a rank for each item."""
    for name, result, words in (
        ("few", lambda items, ranks: [0], "shape (1,)"),
        ("floats", lambda items, ranks: items * 0.5, "ranks are integers"),
    ):
        items = world.add_items(name, "f4", result)
        items.resize(2)
        error = expect_raises(libquo.InvalidArgumentError, f"`{name}`", items.migrate)
        expect(words in str(error.__cause__), f"{error.__cause__!r}")
        items.remove()
    expect_raises(libquo.NotFoundError, "list `floats`", lambda: items.local)
    expect_raises(TypeError, "references", world.add_items, "objects", object, owners)
    far = world.add_items("far", "i8", lambda items, ranks: items)
    far.resize(1)
    far.local[0] = -5 if world.rank == 0 else 1 << 40
    expect_raises(libquo.InvalidArgumentError, "rank 0: the owner of item 0 is rank -5", far.migrate)
    far.remove()


def check_checkpoint(world, state):
    """What was written is there again, on any number of ranks; a state of one rank that fails fails on all."""
    comm = world.comm
    place = comm.bcast(tempfile.mkdtemp() if world.rank == 0 else None)
    expect(world.restore(place) is None, "a checkpoint that nobody has written")
    refused = None if world.rank == 0 else state
    error = expect_raises(libquo.InvalidArgumentError, "rank 0", world.checkpoint, place, refused)
    expect(isinstance(error.__cause__, TypeError) == (world.rank == 0), f"{error.__cause__!r}")
    large = expect_raises(libquo.InvalidArgumentError, "rank 0", world.checkpoint, place, b"*" * 20000)
    expect(isinstance(large.__cause__, ValueError) == (world.rank == 0), f"{large.__cause__!r}")
    world.checkpoint(pathlib.Path(place), state)
    world.array("x").local[:] = -1
    world.matrix("A").part.values[:] = -1
    world.particles.resize(0)
    expect(world.restore(place) == state, "another state")
    check_matrix(world)
    check_items(world)
    comm.Barrier()
    if world.rank == 0:
        shutil.rmtree(place)


def main():
    launched = MPI.COMM_WORLD.size
    sizes = [launched, 1, max(1, launched - 1), launched]
    seen = []
    asked = 0
    # Number of ranks until the resize that rank 0's owners refuse, and that resize once refused.
    present, refused = [], []

    def owners_later(items, ranks):
        if present and present != [ranks]:
            refused.append(present.pop())
            raise ArithmeticError("not yet")
        return owners(items, ranks)

    with warnings.catch_warnings(record=True) as said, World(
        initial_ranks=max(1, launched // 2), max_ranks=launched
    ) as world:
        warnings.simplefilter("always", RuntimeWarning)
        world.particles = world.add_items("particles", ITEM, owners_later)
        if world.status is libquo.Status.NEW:
            check_shapes(world)
            add_matrix(world)
            add_items(world)
        for state in world.run({"reached": 0}):
            check_matrix(world)
            check_items(world)
            local = world.particles.local
            local["place"] = numpy.where(local["place"] < 0.8, local["place"] + 0.2, 0.0)
            world.particles.migrate()
            check_items(world)
            check_failure(world)
            if world.size == sizes[state["reached"]]:
                check_checkpoint(world, state)
                seen.append(world.size)
                state["reached"] += 1
                if state["reached"] == len(sizes):
                    break
            if world.rank == 0 and (asked <= state["reached"] or refused):
                if asked == 0 and launched > 1:
                    present.append(world.size)
                refused.clear()
                asked = state["reached"] + 1
                if world.size != sizes[asked - 1]:
                    world.request(sizes[asked - 1])
        if world.rank == 0:
            expect(seen == sizes, f"{seen} instead of {sizes}")
            texts = [str(one.message) for one in said if one.category is RuntimeWarning]
            expect(len(texts) == min(1, launched - 1), f"{texts}")
            expect(all("not yet" in text for text in texts), f"{texts}")


run(main)
