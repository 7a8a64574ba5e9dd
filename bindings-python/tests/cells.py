"""Arrays with ghost cells grow and shrink in a loop of the package; all cells stay right."""

import numpy
from check import expect, expect_raises, run
from mpi4py import MPI

import libquo
from libquo import World

SHAPE = (9, 7)
BOX = (3, 4, 5)


def numbers(first, shape, wraps):
    """The numbers of cells from a place on, which wrap around in periodic dimensions."""
    index = [numpy.arange(start, start + count) for start, count in zip(first, shape)]
    index = [axis % wrap if wrap else axis for axis, wrap in zip(index, wraps)]
    total = 0
    for axis in numpy.meshgrid(*index, indexing="ij"):
        total = total * 100 + axis
    return total


def check(world, steps):
    """Every cell has its number; the edge stays, and other cells count the steps."""
    plate = world.array("plate").part
    wraps = (0, SHAPE[1])
    first = tuple(place - 1 for place in plate.first)
    expected = numbers(first, plate.whole.shape, wraps).astype(float)
    rows = numpy.arange(first[0], first[0] + plate.whole.shape[0])
    inside = (rows >= 0) & (rows < SHAPE[0])
    expected[inside, :] += steps * 1e-3
    expect(numpy.allclose(plate.whole, expected, rtol=0, atol=1e-9), f"{plate} after {steps} steps")
    box = world.array("box", int, "by-columns").part
    if box.cells.size:
        first = (box.first[0] - 1, *box.first[1:])
        expected = numbers(first, box.whole.shape, (BOX[0], 0, 0))
        expect((box.whole == expected).all(), f"{box}")


def add_arrays(world):
    for name in ("plate", "next"):
        part = world.add_array(name, SHAPE, halo=1, periodic=(False, True)).part
        first = tuple(place - 1 for place in part.first)
        part.whole[...] = numbers(first, part.whole.shape, (0, SHAPE[1]))
    box = world.add_array("box", BOX, int, halo=(1, 0, 0), periodic=True, storage="by-columns")
    part = box.part
    part.cells[...] = numbers(part.first, part.cells.shape, (0, 0, 0))
    expect_raises(libquo.InvalidArgumentError, "shape", world.add_array, "a", SHAPE, halo=(1,))
    expect_raises(libquo.InvalidArgumentError, "dimensions", world.add_array, "b", (1, 2, 3, 4))
    expect_raises(libquo.InvalidStateError, "box", box.exchange_halo_end)
    expect_raises(libquo.InvalidArgumentError, "plate", box.swap, world.array("plate"))
    expect_raises(libquo.InvalidArgumentError, "4", world.array, "plate", "f4")


def main():
    launched = MPI.COMM_WORLD.size
    sizes = [launched, 1, max(1, launched - 1), launched]
    seen = []
    asked = 0
    with World(initial_ranks=1, max_ranks=launched) as world:
        if world.status is libquo.Status.NEW:
            add_arrays(world)
        for state in world.run({"step": 0, "reached": 0}):
            plate, other = world.array("plate"), world.array("next")
            box = world.array("box", int, "by-columns")
            plate.exchange_halo_begin()
            box.exchange_halo()
            plate.exchange_halo_end()
            check(world, state["step"])
            other.part.whole[...] = plate.part.whole
            other.part.cells[...] += 1e-3
            other.swap(plate)
            state["step"] += 1
            if world.size == sizes[state["reached"]]:
                seen.append(world.size)
                state["reached"] += 1
                if state["reached"] == len(sizes):
                    break
            if world.rank == 0 and asked <= state["reached"]:
                asked = state["reached"] + 1
                if world.size != sizes[asked - 1]:
                    world.request(sizes[asked - 1])
        if world.rank == 0:
            expect(seen == sizes, f"{seen} instead of {sizes}")


run(main)
