#!/bin/sh
# Finding: each session of MPI that is begun and finished with MPICH 5 leaves one open file descriptor in the process.
#
# Software: mpich 5.0.2 and mpi4py 4.1.2 from PyPI; Python 3.10 or later; Linux.
# Expected by most: MPI_Session_finalize gives back what MPI_Session_init took, so that a component may open a session for
#   every phase, which is what sessions are for.
# Behaviour: the first cycle of init and finalize starts a thread, opens files and gives back all of them but one. So does
#   each later cycle: after 40 cycles 40 more descriptors are open than at the start, in a program that is started alone
#   and under mpiexec. Threads and mappings do come back. No call returns an error.
# Who meets it: jobs that grow and shrink, or libraries that take a session for each call: with the usual limit of 1,024
#   open files they end at about the thousandth phase, with an error of whatever opens a file then.
# Fails, with another status than 0, when the behaviour has changed; 77 where the packages cannot be had.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check mpich==5.0.2 mpi4py==4.1.2 2> said || { tail -1 said; exit 77; }
cat > sessions.py <<'P'
import os

import mpi4py

mpi4py.rc.initialize = False
from mpi4py import MPI


def state():
    return len(os.listdir("/proc/self/fd")), len(os.listdir("/proc/self/task"))


start, threads = state()
figures = []
for cycle in range(1, 41):
    session = MPI.Session.Init()
    group = session.Create_group("mpi://SELF")
    communicator = MPI.Intracomm.Create_from_group(group, "phase")
    assert communicator.size == 1
    communicator.Free()
    group.Free()
    session.Finalize()
    if cycle in (1, 10, 40):
        figures.append(state()[0] - start)
print(*figures, "threads", state()[1] - threads)
P
alone=$(timeout 120 venv/bin/python sessions.py)
launched=$(timeout 120 venv/bin/mpiexec -n 1 venv/bin/python sessions.py)
echo "descriptors more than at the start after 1, 10 and 40 sessions: $alone (alone), $launched (under mpiexec)"
[ "${alone#* }" = "10 40 threads 0" ] && [ "$launched" != "" ]
