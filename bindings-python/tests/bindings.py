"""A binding that is pushed in a block is popped at its end, also by an exception."""

import os

from check import expect, expect_raises, run

import libquo
from libquo import Context, ObjectType


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
        expect_raises(libquo.InvalidArgumentError, "none", context.push_cpus, "none")
        context.push(ObjectType.PU, 0)
        context.pop()
        expect(os.sched_getaffinity(0) == before, "popped by hand")


run(main)
