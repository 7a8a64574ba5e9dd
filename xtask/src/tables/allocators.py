"""Usage: allocators.py MEMPROF COLUMN PROGRAM PRELOAD LINKED. Prints the cells of one allocator: of the program with the
allocator preloaded, and of the program that is linked with it where the two differ."""
import json
import subprocess
import sys

memprof, column, program, preload = sys.argv[1:5]


def held(program, preload, use):
    """Returns a function for the MiB of the rows of memprof's table whose names have a part."""
    traces = f"traces-{program.count('linked')}-{use}"
    start = ["env", f"LD_PRELOAD={preload}"] if preload else []
    subprocess.run([memprof, "run", "--all", "-q", "-o", traces, "--", *start, program, use], check=True)
    report = subprocess.run([memprof, "report", traces, "--json"], check=True, stdout=subprocess.PIPE)
    ranks = [rank for node in json.loads(report.stdout)["nodes"] for rank in node["ranks"]]
    (rank,) = [rank for rank in ranks if rank["identity"]["program"].endswith("/program")]
    return lambda part, key: sum(row[key] for row in rank["held"] if part in row["name"]) / 2**20


def answers(program, preload):
    """Returns the rows with their cells."""
    found = held(program, preload, "hold")
    own, library = found("exe:program", "owned_peak"), found("libcaller", "owned_peak")
    yield "owners of 24 MiB by the program, 48 MiB by a library", f"{own:.0f} MiB program, {library:.0f} MiB library"
    found = held(program, preload, "grow")
    own, library = found("exe:program", "owned"), found("libcaller", "owned")
    yield "owner of 32 MiB that the program made of the library's 1 MiB by `realloc`", (
        f"{own:.0f} MiB program, {library:.0f} MiB library")
    found = held(program, preload, "zero")
    own, touched = found("exe:program", "owned_peak"), found("exe:program", "resident_peak")
    yield "64 MiB by `calloc`, nothing written", f"{own:.0f} MiB owned, {touched:.0f} MiB resident"
    found = held(program, preload, "found")
    own, unknown = found("exe:program", "owned_peak"), found("unattributed", "resident")
    yield "64 MiB by the `malloc` that `dlsym` finds in `libc.so.6`", f"{own:.0f} MiB owned, {unknown:.0f} MiB unattributed"
    for use, row in ("free", "64 MiB in blocks of 16 KiB, all but the last freed"), ("trim", "the same, then `malloc_trim(0)`"):
        slack = held(program, preload, use)("slack", "resident")
        yield row, "no slack" if slack < 4 else "all is slack" if slack > 60 else "a part is slack"


first = list(answers(program, preload))
second = list(answers(sys.argv[5], "")) if sys.argv[5] else first
for (row, text), (_, other) in zip(first, second):
    print(column, row, text if text == other else f"preloaded: {text}; linked: {other}", sep="\t")
