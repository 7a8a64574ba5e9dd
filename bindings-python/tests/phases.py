"""Phases select their workers; an exception on one rank fails the run on all of the node."""

import numpy
import threadpoolctl
from check import expect, expect_raises, run
from mpi4py import MPI

import libquo
from libquo import Context, ObjectType


def blas_threads():
    """The thread count of NumPy's BLAS."""
    expect(numpy.ones(2) @ numpy.ones(2) == 2, "BLAS is there")
    return [pool["num_threads"] for pool in threadpoolctl.threadpool_info()]


def main():
    comm = MPI.COMM_WORLD
    with Context() as context:
        threadpoolctl.threadpool_limits(limits=3)
        with context.phase(ObjectType.MACHINE, name="solve") as phase:
            for _ in range(3):
                with phase.run() as worker:
                    chosen = worker is not None
                    if worker:
                        expect(blas_threads() == [worker.threads], f"{blas_threads()}")
                        phase.pin_thread(0, worker.threads)
                        expect(worker.threads >= 1 and worker.cpus, f"{worker}")
                        expect((worker.first_qid, worker.qids) == (0, comm.size), f"{worker}")
                expect(blas_threads() == [3], f"{blas_threads()} after the phase")
                expect(comm.allreduce(int(chosen)) == 1, "one worker on the machine")
            metrics = phase.metrics()
            expect(metrics.selected == chosen, f"{metrics}")
            expect((metrics.run_seconds > 0) == chosen, f"{metrics}")

            def fails():
                with phase.run() as worker:
                    if worker:
                        raise ArithmeticError("the solver diverged")

            if chosen:
                expect_raises(ArithmeticError, "the solver diverged", fails)
            else:
                expect_raises(
                    libquo.WorkFailedError, "ArithmeticError: the solver diverged", fails
                )
            with phase.run():
                pass
            with phase.run():
                expect_raises(libquo.BusyError, "", phase.free)

        with context.phase("machine", sharing="wait", sharing_timeout=60) as phase:
            with phase.run():
                pass
        context.lend()
        context.barrier()
        expect(context.lenders() == comm.size - 1, f"{context.lenders()} lenders")
        context.barrier()
        context.reclaim()
        context.barrier()
        expect(context.lenders() == 0, f"{context.lenders()} lenders after all came back")
        borrowed, threads = context.borrow()
        expect(borrowed >= 0 and threads >= 1, f"{borrowed} borrowed, {threads} threads")
        expect(not context.is_wanted() or borrowed > 0, "only what was borrowed is wanted")
        context.give_back()

        chosen = context.select(ObjectType.MACHINE, 1)
        expect(comm.allreduce(int(chosen)) == 1, "one is selected")
        expect_raises(libquo.InvalidArgumentError, "", context.phase, ObjectType.CORE, 0)

        with context.named_barrier("some", range(comm.size)) as barrier:
            barrier.wait()
            barrier.wait(timeout=60)
        # Freed with the context, which could not be freed before them.
        left = context.phase(ObjectType.MACHINE, name="left")
        with left.run():
            pass
        context.named_barrier("left", range(comm.size))
        context.barrier(timeout=60)
        comm.Barrier()
        if comm.size > 1:
            if comm.rank == 0:
                expect_raises(libquo.TimeoutExpiredError, "", context.barrier, 0)
                comm.Barrier()
            else:
                comm.Barrier()
                expect_raises(TimeoutError, "", context.barrier)
    expect_raises(libquo.HandleError, "freed", left.metrics)


run(main)
