"""Memory that ranks share is one array over all of them, and stays while a view is in use."""

import gc

import numpy
from check import expect, expect_raises, run
from mpi4py import MPI

import libquo
from libquo import Context, DeviceKind, ObjectType


def mappings():
    """Mappings of shared memory in this process."""
    with open("/proc/self/maps", encoding="utf-8") as maps:
        return [line for line in maps if "/dev/shm/" in line or "memfd:" in line]


def main():
    comm = MPI.COMM_WORLD
    with Context() as context:
        count = 100 + comm.rank
        before = len(mappings())
        memory = context.shared_memory(count * 8)
        mine = memory.array()
        expect(mine.shape == (count,) and not mine.any(), f"{mine.shape}")
        mine[:] = comm.rank
        context.barrier()
        whole = memory.array(float, 0, comm.size - 1)
        expected = numpy.concatenate([numpy.full(100 + r, float(r)) for r in range(comm.size)])
        expect((whole == expected).all(), f"{whole}")
        expect(len(memory.view()) == count * 8, f"{len(memory.view())}")
        expect_raises(libquo.InvalidArgumentError, "", memory.view, comm.size)
        context.barrier()
        memory.free()
        memory.free()
        expect_raises(libquo.HandleError, "freed", memory.view)
        expect(mine[0] == comm.rank, "the view keeps the memory")
        expect(len(mappings()) > before, "still mapped")
        del mine, whole
        gc.collect()
        expect(len(mappings()) == before, "\n".join(mappings()))
        with context.shared_memory(0) as empty:
            expect(len(empty.view()) == 0, "nothing")
        if comm.size > 1:
            pair = [0, comm.size - 1]
            if comm.rank in pair:
                with context.shared_memory(64, pair) as some:
                    expect(len(some.view(0, comm.size - 1)) == 128, "the blocks of two")
        if context.count(ObjectType.CORE) >= 2 and comm.size == 2:
            with context.split_by_count(ObjectType.CORE, [1, 1], comm.rank) as scope:
                expect(scope.qids == 1, f"{scope.qids}")
                cpus = comm.allgather(scope.binding())
                expect(cpus[0] != cpus[1], f"{cpus}")
            with context.split_by_weight(ObjectType.CORE, [1, 1], comm.rank) as scope:
                scope.barrier()
        gpus = context.ndevices(DeviceKind.GPU)
        arguments = (ObjectType.CORE, DeviceKind.GPU)
        expect_raises(
            libquo.InvalidArgumentError, "no gpu", context.split_by_device, *arguments, gpus
        )
        if gpus == 2:
            gpu = context.assign_device(DeviceKind.GPU)
            with context.split_by_device(*arguments, gpu) as scope:
                expect(scope.count(ObjectType.CORE) == 4, f"{scope.binding()}")
                expect(scope.cpus_of(ObjectType.MACHINE, 0) == scope.binding(), "unbound before")
            bus, near = context.device("gpu", gpu)
            expect(bus.startswith("0000:") and near, f"{bus}, {near}")
            variables = context.visible_devices(gpu)
            expect(variables.get("CUDA_VISIBLE_DEVICES") == str(gpu), f"{variables}")
        else:
            wrong = libquo.InvalidArgumentError
            expect_raises(wrong, "gpu", context.device, "gpu", gpus)
            expect_raises(wrong, "gpu", context.visible_devices, gpus)
            expect(gpus or context.assign_device(DeviceKind.GPU) is None, "none")


run(main)
