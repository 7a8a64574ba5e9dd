"""Checks of test programs that name the rank, and a word at the end."""

import os
import sys
import traceback

from mpi4py import MPI

import libquo


def expect(condition, text):
    """Fails with a text unless the condition holds."""
    if not condition:
        raise AssertionError(f"rank {MPI.COMM_WORLD.rank}: {text}")


def expect_raises(kind, words, function, *arguments, **options):
    """Fails unless the call raises this kind of error, with these words in its text."""
    try:
        function(*arguments, **options)
    except kind as error:
        expect(words in str(error), f"{error!s} has no {words!r}")
        return error
    raise AssertionError(f"rank {MPI.COMM_WORLD.rank}: {function} did not raise {kind.__name__}")


def run(main):
    """Runs a test on all ranks. A failure ends the job."""
    try:
        main()
        print("passed", flush=True)
    except BaseException:
        traceback.print_exc()
        sys.stderr.flush()
        if MPI.COMM_WORLD.size > 1:
            MPI.COMM_WORLD.Abort(1)
        os._exit(1)
