"""Queries agree with each other and with the kernel; wrong arguments raise the library's errors."""

import os

from check import expect, expect_raises, run
from mpi4py import MPI

import libquo
from libquo import Context, ObjectType


def cpus(text):
    """The CPUs of a list such as "0-3,8"."""
    found = set()
    for part in filter(None, text.split(",")):
        first, _, last = part.partition("-")
        found.update(range(int(first), int(last or first) + 1))
    return found


def main():
    comm = MPI.COMM_WORLD
    with Context() as context:
        expect(context.qids == comm.size and context.qid == comm.rank, "ranks of one node")
        expect(context.nodes == 1, "one node")
        expect(context.count(ObjectType.MACHINE) == 1, "one machine")
        cores, pus = context.count(ObjectType.CORE), context.count(ObjectType.PU)
        expect(1 <= cores <= pus, f"{cores} cores, {pus} PUs")
        inside = context.count_in(ObjectType.MACHINE, 0, ObjectType.PU)
        expect(inside == pus, f"{inside} of {pus} PUs are in the machine")
        kinds = context.core_kinds()
        expect(kinds and all(kind.cpus for kind in kinds), f"{kinds}")
        if "QUO_TOPOLOGY" not in os.environ:
            expect(cpus(context.binding()) == os.sched_getaffinity(0), context.binding())
            expect(context.is_in(ObjectType.MACHINE, 0), "in the machine")
        expect(context.binding(context.qid) == context.binding(), "its own binding by qid")
        context.barrier()
        expect(context.qids_in(ObjectType.MACHINE, 0) == list(range(comm.size)), "all ranks")
        expect(context.dead_qids() == [], "nobody is dead")
        expect("qid" in context.explain() or "rank" in context.explain(), context.explain())
        expect(isinstance(context.explained(), dict), "an object of JSON")

        wrong = expect_raises(
            libquo.InvalidArgumentError, "", context.cpus_of, ObjectType.CORE, 10_000
        )
        expect(wrong.code == 5 and "10000" in str(wrong), str(wrong))
        expect_raises(ValueError, "", context.count_in, ObjectType.MACHINE, 9, ObjectType.CORE)
        for name, kind in (("package", ObjectType.PACKAGE), ("NUMA", ObjectType.NUMANODE)):
            expect(context.count(name) == context.count(kind), f"{name} is {kind!r}")
        unknown = expect_raises(ValueError, "'packge'", context.count, "packge")
        expect("ObjectType: machine, numanode, package, core" in str(unknown), str(unknown))
        expect_raises(ValueError, "99", context.count, 99)
        expect_raises(libquo.PopError, "", context.pop)
        expect_raises(ValueError, "null character", context.push_cpus, "0\0")

        node = context.comm_of(ObjectType.MACHINE)
        expect(node.size == comm.size, "the node's communicator")
        node.Free()
    expect_raises(libquo.HandleError, "freed", lambda: context.qid)
    context.free()
    expect(libquo.library_version()[0] == 8, f"{libquo.library_version()}")


run(main)
