#!/bin/sh
# Finding: in one process that is bound to one of two CPUs five Python libraries have four rules for their threads: numexpr
#   and DuckDB take the machine's CPUs, numba, polars and Arrow the mask, and OMP_NUM_THREADS moves numexpr and Arrow, of
#   which neither uses OpenMP.
#
# Software: numexpr 2.14.2, numba 0.67.0, pyarrow, polars and duckdb, from PyPI (versions below); a machine with two CPUs.
# Expected by most: the default follows the affinity mask, in all libraries that know of it, and
#   OMP_NUM_THREADS concerns libraries that are built with OpenMP.
# Behaviour: without variables numexpr and DuckDB have as many threads as the machine has CPUs, the others one. With
#   OMP_NUM_THREADS=5 numexpr and Arrow have 5, the others what they had. After the mask is widened to all CPUs none
#   has more, and numba.set_num_threads refuses 2, since its limit was taken when it was imported.
# Who meets it: MPI ranks in Python that a launcher binds: one library uses too many threads on the rank's CPU, another one
#   thread after the rank was widened, and OMP_NUM_THREADS=1, set for BLAS, decides for one and not for the next.
# Fails, with another status than 0, when the behaviour has changed; 77 where the packages or the CPUs cannot be had.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check numexpr==2.14.2 numba==0.67.0 numpy==2.4.6 "pyarrow==26.0.1" \
    "polars==2.1.0" "duckdb==2.0.1" 2> said || { tail -1 said; exit 77; }
cat > counts.py <<'P'
import os
import sys

everywhere = os.sched_getaffinity(0)
machine = os.sysconf("SC_NPROCESSORS_ONLN")
if len(everywhere) < 2 or machine == 5:
    sys.exit(77)
os.sched_setaffinity(0, {min(everywhere)})
import duckdb
import numba
import numexpr
import polars
import pyarrow


def counts():
    database = duckdb.connect()
    counted = {
        "numexpr": numexpr.nthreads,
        "duckdb": database.sql("select current_setting('threads')").fetchall()[0][0],
        "numba": numba.get_num_threads(),
        "polars": polars.thread_pool_size(),
        "arrow": pyarrow.cpu_count(),
    }
    return " ".join(f"{name} {'machine' if count == machine else count}" for name, count in counted.items())


bound = counts()
os.sched_setaffinity(0, everywhere)
try:
    numba.set_num_threads(2)
    refused = False
except ValueError:
    refused = True
print(bound, "| wider:", "same" if counts() == bound and refused else counts())
P
unset OMP_NUM_THREADS OMP_THREAD_LIMIT NUMEXPR_NUM_THREADS NUMEXPR_MAX_THREADS NUMBA_NUM_THREADS POLARS_MAX_THREADS
plain=$(timeout 120 venv/bin/python counts.py)
five=$(OMP_NUM_THREADS=5 timeout 120 venv/bin/python counts.py)
printf 'no variable: %s\nOMP_NUM_THREADS=5: %s\n' "$plain" "$five"
[ "$plain" = "numexpr machine duckdb machine numba 1 polars 1 arrow 1 | wider: same" ]
[ "$five" = "numexpr 5 duckdb machine numba 1 polars 1 arrow 5 | wider: same" ]
