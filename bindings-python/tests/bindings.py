"""A binding that is pushed in a block is popped at its end, also by an exception."""

import os

from check import expect, expect_raises, run

import libquo
import numpy
from libquo import Context, MemoryPolicy, ObjectType


def main():
    with Context() as context:
        before = os.sched_getaffinity(0)
        with context.push(ObjectType.MACHINE, 0):
            expect(os.sched_getaffinity(0) >= before, "the machine is no less")
            with context.push(ObjectType.PU, 0):
                expect(len(os.sched_getaffinity(0)) == 1, f"{os.sched_getaffinity(0)}")
                expect(context.is_in(ObjectType.PU, 0), "on the first PU")
        expect(os.sched_getaffinity(0) == before, "both popped")

        def fails():
            with context.push_cpus(str(min(before))):
                expect(os.sched_getaffinity(0) == {min(before)}, "one CPU")
                raise KeyError("in the block")

        expect_raises(KeyError, "in the block", fails)
        expect(os.sched_getaffinity(0) == before, "popped by the exception")
        with context.push(ObjectType.MACHINE):
            pass
        field = numpy.ones(200_000)
        try:
            context.set_memory_policy(MemoryPolicy.BIND)
        except libquo.SystemCallError:
            pass  # containers may forbid it to all programs
        else:
            with context.push(ObjectType.NUMANODE, 0):
                context.place(field, ObjectType.NUMANODE, 0, MemoryPolicy.BIND)
            on_nodes, absent = context.places(field)
            expect(sum(on_nodes) + absent == field.nbytes, f"{on_nodes}, {absent}")
            context.set_memory_policy(MemoryPolicy.KEEP)
        expect_raises(ValueError, "contiguous", context.places, field[::2])
        expect_raises(libquo.InvalidArgumentError, "none", context.push_cpus, "none")
        context.push(ObjectType.PU, 0)
        context.pop()
        expect(os.sched_getaffinity(0) == before, "popped by hand")


run(main)
