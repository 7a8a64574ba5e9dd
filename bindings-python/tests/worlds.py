"""A world grows from one rank to as many as were launched and back; its arrays stay whole."""

import os

from check import expect, expect_raises, run
from mpi4py import MPI

import libquo
from libquo import EventKind, RequestKind, RequestState, Status, World

LENGTH = 1_001
SHAPE = (37, 5)


def check(world):
    """Every element is its own index in the whole array."""
    for array, columns in ((world.array("line"), LENGTH), (world.array("grid", int), SHAPE[1])):
        for place, value in enumerate(array.local.ravel()):
            row, column = array.origin(place)
            expect(value == row * columns + column, f"{array.name}[{row}, {column}] is {value}")


def fill(array, columns):
    """Gives every element its index."""
    flat = array.local.reshape(-1)
    for place in range(flat.size):
        row, column = array.origin(place)
        flat[place] = row * columns + column


def main():
    launched = MPI.COMM_WORLD.size
    sizes = [launched, 1, max(1, launched - 1), launched]
    with World(initial_ranks=1, max_ranks=launched, allowed_sizes=lambda size: size <= launched) as world:
        step, aborted = 0, False
        requests = []
        if world.status is Status.NEW:
            expect(world.rank == 0 and world.size == 1, f"{world.rank} of {world.size}")
            fill(world.add_array("line", LENGTH), LENGTH)
            fill(world.add_array("grid", SHAPE, int, "block-rows"), SHAPE[1])
            expect_raises(libquo.InvalidArgumentError, "line", world.add_array, "line", 5)
            expect_raises(libquo.InvalidArgumentError, "negative", world.add_array, "n", -5)
            expect_raises(LookupError, "absent", world.array, "absent")
            expect_raises(libquo.RefusedError, "", world.request, launched + 1)
        while world.is_running():
            if world.enters():
                aborts = False
                try:
                    with world.begin() as window:
                        step, aborted = window.broadcast((step, aborted))
                        counts = window.counts
                        everyone = counts.staying + counts.leaving + counts.joining
                        expect(window.all_ranks.size == everyone, f"{counts}")
                        if step == 2 and not aborted:
                            aborts = True
                            raise ArithmeticError("not now")
                except ArithmeticError:
                    expect(aborts, "the exception of the block goes on")
                    aborted = True
                if world.rank is not None:
                    check(world)
                continue
            if step == 2 * len(sizes):
                break
            expect(world.comm.size == world.size, "the world's communicator")
            expect(world.comm.rank == world.rank, "the world's rank")
            # One request at a time: the next one when all have seen the end of this one.
            is_open = False
            if world.rank == 0:
                world.report(step, 0.5, remaining=1.5)
                if requests and requests[-1][1] == step:
                    state, cause = world.request_state(requests[-1][0])
                    is_open = state is RequestState.OPEN
                    expect(state is not RequestState.FAILED or "not now" in cause, cause)
                    if state is RequestState.FAILED:
                        requests.append((world.request(sizes[step // 2]), step))
                        is_open = True
                elif step % 2 == 0 and sizes[step // 2] != world.size:
                    requests.append((world.request(sizes[step // 2]), step))
                    is_open = True
            if not world.comm.bcast(is_open):
                step += 1
        if world.rank == 0:
            events = list(world.events())
            expect(events[0].kind is EventKind.STARTED, f"{events[0]}")
            expect([event.number for event in events] == list(range(len(events))), "no gaps")
            done = [event for event in events if event.kind is EventKind.FINALIZED]
            expect(len(done) == world.epoch, f"{len(done)} of {world.epoch}")
            lost = [event for event in events if event.kind is EventKind.ABORTED]
            expect(launched == 1 or len(lost) == 1 and "not now" in lost[0].text, f"{lost}")
            expect(world.job()["size"] == world.size, f"{world.job()}")
            expect_raises(
                libquo.RefusedError, "", world.request, 1, RequestKind.SHRINK, on=["nowhere"]
            )
    expect_raises(libquo.HandleError, "freed", lambda: world.size)


run(main)
