"""Regions of a Python program are phases of the profiler's report; without it they do nothing."""

import sys

from check import expect, run

from libquo import memory


def main():
    is_expected = sys.argv[1:] == ["profiled"]
    expect(memory.is_active() == is_expected, f"active: {memory.is_active()}")
    with memory.region("python-work"):
        kept = bytearray(8 << 20)
        kept[::4096] = b"\1" * len(kept[::4096])
        expect(memory.flush() == is_expected, "a sample")
        totals = memory.totals()
        expect((totals is not None) == is_expected, f"{totals}")
        expect(memory.time() is None, "no times are taken")
        if totals:
            expect(totals.resident >= len(kept), f"{totals}")
            expect(any(one.owned >= len(kept) for one in memory.components().values()), "its owner")
    del kept


run(main)
